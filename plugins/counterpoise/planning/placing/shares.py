"""Shares of a partition and of a topic, for replicas that are added or taken away.

    per_broker(2, sizes=[2, 1, 1])     # [0.5, 0.5, 0.5]: per broker of each rack

Worked example: 3 replicas on racks of 4, 1 and 1 brokers: each rack holds one replica, so a broker
has 0.25, 1 or 1 of them. A topic of 8 partitions has 2, 8 and 8 per broker.

Topics with many bytes come first, and there bytes decide; in the small ones at the end the number
of replicas does. So both come out even: few replicas hold most bytes, and many replicas few.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import bounds_of_partition

BYTES_FIRST: Final = 0.9  # this part of all bytes is placed before the number of replicas decides
TOLERANCE_PERCENT: Final = (
    5  # of bytes; nothing is copied for it, so it is narrower than a policy's
)
_ROUNDING_ERROR = 1e-9
_BISECTION_STEPS = 60


def per_broker(factor: int, sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of one partition per broker of each rack, as even as the racks allow.

    `sizes` are the brokers per rack. The level is the part of a replica per broker that adds up to
    `factor` over all racks; it is found by bisection.
    """
    lowest, highest = bounds_of_partition(factor, sizes)
    low, high = 0.0, 1.0
    for _ in range(_BISECTION_STEPS):
        level = (low + high) / 2
        if np.clip(level * sizes, lowest, highest).sum() < factor:
            low = level
        else:
            high = level
    in_rack = np.clip(high * sizes, lowest, highest)
    return np.asarray(in_rack / np.maximum(1, sizes), dtype=np.float64)


def of_topics(placement: Placement, sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of each topic per broker of each rack: a row per topic, a column per rack."""
    cluster = placement.cluster
    shares = np.zeros((len(cluster.topic_names), len(sizes)))
    for factor in np.unique(placement.replica_counts).tolist():
        topics = cluster.topic_numbers[placement.replica_counts == factor]
        partition_counts = np.bincount(topics, minlength=len(shares))
        shares += partition_counts[:, None] * per_broker(factor, sizes)[None, :]
    return shares


def whole_shares(share: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Return shares rounded down and up; one that is whole but for rounding errors stays."""
    lowest = np.floor(share + _ROUNDING_ERROR).astype(np.int64)
    highest = np.ceil(share - _ROUNDING_ERROR).astype(np.int64)
    return lowest, highest


def largest_topics_first(placement: Placement, partitions: Ints) -> Ints:
    """Return the order of `partitions`: topics with most bytes first, then large partitions."""
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    topic_bytes = np.zeros(len(cluster.topic_names), dtype=np.int64)
    np.add.at(topic_bytes, topics, sizes)
    return np.lexsort((partitions, -sizes, topics, -topic_bytes[topics]))
