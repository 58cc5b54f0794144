"""Shares of a partition and of a topic, for replicas that are added or taken away.

    per_broker(2, sizes=[2, 1, 1])     # [0.5, 0.5, 0.5]: per broker of each rack, of one partition

Topics with many bytes are dealt with first, and there bytes decide; in the small ones at the end
numbers of replicas do. So both come out even: few replicas hold most bytes, and many replicas few.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import bounds_of_one

BYTES_FIRST: Final = 0.9  # the part of all bytes that is dealt with before numbers decide
TOLERANCE_PERCENT: Final = (
    5  # of bytes; nothing is copied for it, so it can be narrower than a policy's
)
_ALMOST = 1e-9


def per_broker(factor: int, sizes: Ints) -> NDArray[np.float64]:
    """Replicas of one partition per broker of each rack, at the mean: as even over brokers as the
    racks allow.

    `sizes` are brokers per rack.
    """
    lowest, highest = bounds_of_one(factor, sizes)
    low, high = 0.0, 1.0
    for _ in range(60):
        level = (low + high) / 2
        if np.clip(level * sizes, lowest, highest).sum() < factor:
            low = level
        else:
            high = level
    return np.asarray(
        np.clip(high * sizes, lowest, highest) / np.maximum(1, sizes), dtype=np.float64
    )


def of_topics(placement: Placement, sizes: Ints) -> NDArray[np.float64]:
    """Replicas of each topic per broker of each rack: a row per topic, a column per rack."""
    cluster = placement.cluster
    shares = np.zeros((len(cluster.topic_names), len(sizes)))
    for factor in np.unique(placement.replica_counts).tolist():
        topics = cluster.topic_numbers[placement.replica_counts == factor]
        partitions = np.bincount(topics, minlength=len(shares))
        shares += partitions[:, None] * per_broker(factor, sizes)[None, :]
    return shares


def whole_shares(share: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Rounded down and up; what is whole but for the arithmetic stays."""
    return np.floor(share + _ALMOST).astype(np.int64), np.ceil(share - _ALMOST).astype(np.int64)


def largest_topics_first(placement: Placement, partitions: Ints) -> Ints:
    """The order of `partitions` by topic, those with most bytes first, and in each topic the
    largest first.
    """
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    of_topic = np.zeros(len(cluster.topic_names), dtype=np.int64)
    np.add.at(of_topic, topics, sizes)
    return np.lexsort((partitions, -sizes, topics, -of_topic[topics]))
