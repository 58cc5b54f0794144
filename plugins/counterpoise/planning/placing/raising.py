"""More replicas: each new one on a rack with fewest replicas of its partition, and there where
fewest of its topic are.

    add_missing(placement, roles, factor=3)

Partition by partition, topics with most bytes first: of the brokers on a fitting rack it is one
that has less than its share of the topic; of these the one that holds fewest bytes or, for the
small topics at the end, fewest replicas. That comes near to even, and `even_counts` settles the
rest, exactly, by passing new replicas on. A flow over all partitions and brokers would be as exact,
but does not see topics, nor bytes, and is far larger than what is left to settle.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.exchange import Choosers, even_bytes, even_counts
from counterpoise.planning.placing.racks import rack_sizes
from counterpoise.planning.placing.shares import (
    BYTES_FIRST,
    TOLERANCE_PERCENT,
    largest_topics_first,
    per_broker,
    whole_shares,
)
from counterpoise.planning.placing.targets import byte_band
from counterpoise.planning.roles import Roles

_Entry = tuple[
    int, int, int, int
]  # above its share of the topic, then bytes and replicas or the reverse, broker


def add_missing(placement: Placement, roles: Roles, factor: int) -> None:
    """Adds replicas to every partition that may change until it has `factor`, or no broker may take
    one more.
    """
    placement.widen(factor)
    is_free = _add(placement, roles, factor)
    if not is_free.any():
        return
    free = Choosers(placement, roles.destinations, is_free)
    even_counts(placement, roles.destinations, free)
    even_bytes(placement, roles.destinations, free, byte_band(placement, roles, TOLERANCE_PERCENT))
    is_free |= _add(placement, roles, factor)  # what there is room for only now
    placement.touched |= is_free.any(axis=1)


def _add(placement: Placement, roles: Roles, factor: int) -> Flags:
    """Adds what there is room for; which replicas these are."""
    is_new = np.zeros(placement.replicas.shape, dtype=np.bool_)
    short = np.flatnonzero(placement.cluster.may_change & (placement.replica_counts < factor))
    if len(short) and roles.destinations.any():
        order = largest_topics_first(placement, short)
        partitions, columns, destinations = _chosen(placement, roles, factor, short[order])
        is_new[partitions, columns] = True
        rows = placement.replicas
        rows[partitions, columns] = destinations
        placement.reset_to(rows)
    return is_new


def _chosen(placement: Placement, roles: Roles, factor: int, partitions: Ints) -> Ints:
    """Partition, column and broker of each replica to add, in three rows."""
    cluster = placement.cluster
    shares = per_broker(factor, rack_sizes(cluster, roles.staying))[cluster.racks]
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    in_topic = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    added = sizes * (factor - (placement.replicas[partitions] >= 0).sum(axis=1))
    fair = (int(placement.bytes_held.sum() + added.sum()) * shares / shares.sum()).astype(np.int64)
    bytes_first = np.cumsum(added) <= BYTES_FIRST * added.sum()
    brokers = _Raising.of(placement, roles, factor, fair)
    found: list[tuple[int, int, int]] = []
    starts = np.flatnonzero(np.append(True, topics[1:] != topics[:-1]))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(partitions)], strict=True):
        topic = int(topics[start])
        share = in_topic[topic] * shares
        shelf = _Shelf.of(
            brokers, placement.topic_counts[topic], share, bytes_first=bool(bytes_first[start])
        )
        rows = placement.replicas[partitions[start:end]].tolist()
        for partition, size, row in zip(
            partitions[start:end].tolist(), sizes[start:end].tolist(), rows, strict=True
        ):
            held = sum(broker >= 0 for broker in row)
            destinations = brokers.add(shelf, row[:held], size)
            found += [
                (partition, column, destination)
                for column, destination in enumerate(destinations, start=held)
            ]
    return np.array(found, dtype=np.int64).reshape(-1, 3).T


@dataclass(slots=True)
class _Raising:
    """The brokers as they fill up. Lists have an entry per broker, `members` one per rack."""

    factor: int
    members: list[list[int]]
    racks: list[int]
    counts: list[int]
    over_fair: list[int]  # bytes held, less the fair share of all bytes
    room: list[int]
    groups: dict[
        tuple[int, ...], list[list[int]]
    ]  # by the racks of a row: racks to choose from, the best first

    @classmethod
    def of(cls, placement: Placement, roles: Roles, factor: int, fair: Ints) -> "_Raising":
        racks = placement.cluster.racks
        members: list[list[int]] = [[] for _ in range(int(racks.max(initial=-1)) + 1)]
        for destination in np.flatnonzero(roles.destinations).tolist():
            members[racks[destination]].append(destination)
        over_fair = placement.bytes_held - fair
        return cls(
            factor,
            members,
            racks.tolist(),
            placement.counts.tolist(),
            over_fair.tolist(),
            placement.room.tolist(),
            {},
        )

    def add(self, shelf: "_Shelf", row: list[int], size: int) -> list[int]:
        """The brokers that take what a partition with these replicas lacks, and now have it."""
        row, held = row.copy(), len(row)
        while len(row) < self.factor and (best := self._best(shelf, row, size)):
            broker = best[3]
            row.append(broker)
            self.counts[broker] += 1
            self.over_fair[broker] += size
            self.room[broker] -= size
            shelf.put_back(self, best)
        return row[held:]

    def _best(self, shelf: "_Shelf", row: list[int], size: int) -> _Entry | None:
        for group in self._groups(row):
            firsts = [self._first(shelf.heaps[rack], row, size) for rack in group]
            if best := min(filter(None, firsts), default=None):
                return best
        return None

    def _first(self, heap: list[_Entry], row: list[int], size: int) -> _Entry | None:
        if heap and self._may(heap[0], row, size):
            return heap[0]
        return min((entry for entry in heap if self._may(entry, row, size)), default=None)

    def _may(self, entry: _Entry, row: list[int], size: int) -> bool:
        return entry[3] not in row and self.room[entry[3]] >= size

    def _groups(self, row: list[int]) -> list[list[int]]:
        """Racks with takers by how many replicas of the row they have, those with fewest first."""
        key = tuple(sorted([self.racks[broker] for broker in row]))
        if key not in self.groups:
            by_number: dict[int, list[int]] = {}
            for rack, brokers in enumerate(self.members):
                if brokers:
                    by_number.setdefault(key.count(rack), []).append(rack)
            self.groups[key] = [by_number[number] for number in sorted(by_number)]
        return self.groups[key]


@dataclass(slots=True)
class _Shelf:
    """The takers in each rack in the order in which they are to get replicas of one topic: heaps,
    one per rack.
    """

    topic_counts: list[int]
    lowest: list[int]  # replicas of the topic that are a broker's share, rounded down
    highest: list[int]  # and up
    bytes_first: bool
    heaps: list[list[_Entry]]

    @classmethod
    def of(
        cls, brokers: _Raising, topic_counts: Ints, share: NDArray[np.float64], *, bytes_first: bool
    ) -> "_Shelf":
        lowest, highest = whole_shares(share)
        shelf = cls(topic_counts.tolist(), lowest.tolist(), highest.tolist(), bytes_first, [])
        shelf.heaps = [
            [shelf._entry(brokers, broker) for broker in members] for members in brokers.members
        ]
        for heap in shelf.heaps:
            heapq.heapify(heap)
        return shelf

    def _entry(self, brokers: _Raising, broker: int) -> _Entry:
        held = self.topic_counts[broker]
        if held < self.lowest[broker]:
            level = 0
        else:
            level = 1 if held < self.highest[broker] else 2 + held - self.highest[broker]
        if self.bytes_first:
            return level, brokers.over_fair[broker], brokers.counts[broker], broker
        return level, brokers.counts[broker], brokers.over_fair[broker], broker

    def put_back(self, brokers: _Raising, entry: _Entry) -> None:
        """A broker that has just taken a replica goes to its new place."""
        self.topic_counts[entry[3]] += 1
        heap, served = self.heaps[brokers.racks[entry[3]]], self._entry(brokers, entry[3])
        if heap[0] is entry:
            heapq.heapreplace(heap, served)
        else:
            heap[heap.index(entry)] = served
            heapq.heapify(heap)
