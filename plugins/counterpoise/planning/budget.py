"""The budget: of a plan that is larger, the part that gains most evenly is kept.

Goals that even the cluster out plan within the budget (`placing/within_budget`), and start from
this part; all others keep it.

    is_whole = keep_copies_within(placement, before, racks_gained, max_bytes)   # takes copies back

    order of the partitions that are copied:
        those that get better racks first
        then so that every broker has given and received about the same part of what the whole plan
        would have it give and receive, small partitions first
    keep those that fit, tried in this order; take the others back
    where a broker would then hold more replicas than it may, since what leaves it was taken back:
        take back what comes to it, the last first; then keep others that fit

Worked example: the plan moves replicas of 1, 2 and 4 GB from broker 1 to broker 3, and of 1 and 5
GB from broker 2 to broker 3. With the first replica broker 1 has given 1/3 of its three replicas,
broker 2 has given 1/2 of its two. With a budget of 5 GB, 1 GB from broker 1, 1 GB from broker 2 and
2 GB from broker 1 are kept: 4 GB; the next ones do not fit any more. So the part that is kept is
even itself, and brings replicas where they are missing for few bytes.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints, rank_within
from counterpoise.planning.placement import Placement

_Parts: TypeAlias = NDArray[np.float64]


def keep_copies_within(
    placement: Placement, before: Placement, racks_gained: Ints, max_bytes: int
) -> bool:
    """Take copies (and removals) back until the rest fits; return whether all of it does.

    `racks_gained` says of each partition how many replicas came to the racks they should be on.
    """
    changed = np.flatnonzero((placement.replicas != placement.original).any(axis=1))
    cluster = placement.cluster
    original = placement.original[changed]
    replicas = placement.replicas[changed]
    is_added = placement.is_added[changed]
    is_removed = placement.is_removed[changed]
    copied_bytes = is_added.sum(axis=1) * cluster.size_bytes[changed]
    order = _best_first(
        partitions=changed,
        sources=np.where(is_removed, original, -1).max(axis=1),
        destinations=np.where(is_added, replicas, -1).max(axis=1),
        copied_bytes=copied_bytes,
        racks_gained=racks_gained[changed],
    )
    is_kept = np.zeros(len(order), dtype=np.bool_)
    bytes_left = max_bytes
    for item, size_bytes in zip(order.tolist(), copied_bytes[order].tolist(), strict=True):
        if size_bytes <= bytes_left:
            is_kept[item] = True
            bytes_left -= size_bytes
    if is_kept.all():
        return True
    max_counts = np.maximum(cluster.max_counts, before.counts)
    brokers = _BrokerCounts(before.counts.copy(), max_counts, original, replicas)
    _keep_within_counts(is_kept, order, copied_bytes, max_bytes, brokers)
    replicas = placement.replicas.copy()
    replicas[changed[~is_kept]] = original[~is_kept]
    placement.reset_to(replicas)
    return False


def _best_first(
    partitions: Ints, sources: Ints, destinations: Ints, copied_bytes: Ints, racks_gained: Ints
) -> Ints:
    """Return the order in which partitions are kept; all arguments have one entry for each."""
    smallest_first = np.lexsort((partitions, copied_bytes))
    parts = _parts_done(sources, smallest_first)
    # Along that order destinations receive as evenly as sources give.
    evenly_given = np.lexsort((partitions, copied_bytes, parts))
    parts = np.maximum(parts, _parts_done(destinations, evenly_given))
    return np.lexsort((partitions, copied_bytes, parts, racks_gained <= 0))


def _parts_done(brokers: Ints, order: Ints) -> _Parts:
    """Return, per item, which part of its broker's items is done with it, in the given order.

    Example: the items of brokers [1, 2, 1] in the order [0, 1, 2] have the parts [0.5, 1.0, 1.0].
    """
    _, number_of, counts = np.unique(brokers, return_inverse=True, return_counts=True)
    done = rank_within(brokers, order) + 1
    return np.asarray(done / counts[number_of])


@dataclass(frozen=True, slots=True, eq=False)
class _BrokerCounts:
    """Replicas per broker with some of the changes; `original` and `replicas` are their rows."""

    counts: Ints
    max_counts: Ints
    original: Ints
    replicas: Ints

    def sources(self, item: int) -> Ints:
        row = self.original[item]
        return np.asarray(row[~np.isin(row, self.replicas[item])])

    def destinations(self, item: int) -> Ints:
        row = self.replicas[item]
        return np.asarray(row[~np.isin(row, self.original[item])])

    def keep(self, item: int) -> None:
        self._move(item, 1)

    def take_back(self, item: int) -> None:
        self._move(item, -1)

    def _move(self, item: int, replicas: int) -> None:
        self.counts[self.sources(item)] -= replicas
        self.counts[self.destinations(item)] += replicas

    @property
    def is_over(self) -> Flags:
        return np.asarray(self.counts > self.max_counts)

    def comes_to_one_over(self, item: int) -> bool:
        """Return whether a broker that receives a replica holds too many."""
        return bool(self.is_over[self.destinations(item)].any())

    def has_room(self, item: int) -> bool:
        destinations = self.destinations(item)
        return bool((self.counts < self.max_counts)[destinations].all())


def _keep_within_counts(
    is_kept: Flags, order: Ints, copied_bytes: Ints, max_bytes: int, brokers: _BrokerCounts
) -> None:
    """Change what is kept so that no broker holds more replicas than it may."""
    for item in order[is_kept[order]].tolist():
        brokers.keep(item)
    if not brokers.is_over.any():
        return
    # What is taken back returns to its source, and may be too many there.
    while brokers.is_over.any():
        for item in order[is_kept[order]][::-1].tolist():
            if brokers.comes_to_one_over(item):
                is_kept[item] = False
                brokers.take_back(item)
    bytes_left = max_bytes - int(copied_bytes[is_kept].sum())
    for item in order[~is_kept[order]].tolist():
        size_bytes = int(copied_bytes[item])
        if size_bytes <= bytes_left and brokers.has_room(item):
            is_kept[item] = True
            bytes_left -= size_bytes
            brokers.keep(item)
