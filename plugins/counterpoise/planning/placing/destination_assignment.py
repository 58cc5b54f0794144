"""Destination assignment: which broker of a rack gets each of the replicas that go there.

    assignment = DestinationAssignment.to(placement, destinations, counts, shares, missing_bytes)
    broker = assignment.next_for(row, source, topic, size)       # -1 when none may take it

Replicas come largest first.

    ask the brokers in order of the bytes they miss, most first
        skip it if it has a replica of the partition, or no room for the bytes
        below its share of the topic: it fits
    stop at 3 that fit, or when the next one misses less than the first by more than one replica
    of those that fit: the one that shares fewest partitions with the other brokers of this one
    if none fits: the first that was asked, or one after it that has room for the topic

Worked example: broker 4 misses 120 GB, broker 8 misses 119, both are below their share of the
topic. A replica of 10 GB, with other replicas on brokers 1 and 2, could go to either. Broker 4
shares 7 partitions with broker 1 already, broker 8 at most 5 with any of the two: broker 8 gets it,
and misses 109 GB now. So the loss of any two brokers hits few partitions.
"""

import heapq
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.topics import TopicShares

_MAX_COMPARED = 3

_Entry: TypeAlias = tuple[int, int]  # (-missing bytes, broker): the smallest comes first in a heap


@dataclass(slots=True)
class _Destination:
    """What one broker may still get; lists have an entry per topic, or per broker."""

    replicas_left: int
    bytes_left: int
    topic_counts: list[int]
    topic_shares: list[int]  # below this it should get more of the topic
    topic_limits: list[int]  # below this it may get more of the topic
    shared_partitions: list[int]  # with each other broker


@dataclass(slots=True)
class DestinationAssignment:
    heap: list[_Entry]
    destinations: dict[int, _Destination]

    @classmethod
    def to(
        cls,
        placement: Placement,
        destinations: Ints,
        counts: Ints,
        shares: TopicShares,
        missing_bytes: Ints,
    ) -> "DestinationAssignment":
        """Return the assignment to `destinations`, which get `counts` replicas at most."""
        brokers = destinations.tolist()
        heap = list(zip((-missing_bytes).tolist(), brokers, strict=True))
        heapq.heapify(heap)
        shared = shared_partitions(placement.replicas, destinations, placement.cluster.broker_count)
        topic_shares = np.maximum(1, shares.lowest(destinations))
        topic_limits = shares.highest(destinations)
        by_broker = {
            broker: _Destination(
                replicas_left=int(counts[number]),
                bytes_left=int(room),
                topic_counts=placement.topic_counts[:, broker].tolist(),
                topic_shares=topic_shares[:, number].tolist(),
                topic_limits=topic_limits[:, number].tolist(),
                shared_partitions=shared[number].tolist(),
            )
            for number, (broker, room) in enumerate(
                zip(brokers, placement.room[destinations], strict=True)
            )
        }
        return cls(heap, by_broker)

    def next_for(self, row: list[int], source: int, topic: int, size: int) -> int:
        """Return the broker that gets a replica of the partition with replicas `row`.

        It is -1 when no broker may take it.
        """
        asked: list[_Entry] = []
        fitting: list[_Entry] = []
        fallback: _Entry | None = None
        while self.heap and len(fitting) < _MAX_COMPARED:
            entry = self.heap[0]
            if fitting and entry[0] - fitting[0][0] > size:
                break
            asked.append(heapq.heappop(self.heap))
            broker = entry[1]
            destination = self.destinations[broker]
            if broker in row or destination.bytes_left < size:
                continue
            if destination.topic_counts[topic] < destination.topic_shares[topic]:
                fitting.append(entry)
            elif fallback is None or self._suits_topic_better(entry, fallback, topic):
                fallback = entry
        others = [broker for broker in row if broker >= 0 and broker != source]
        chosen = self._with_fewest_shared(fitting, others) if fitting else fallback
        for entry in asked:
            if entry is not chosen:
                heapq.heappush(self.heap, entry)
        if chosen is None:
            return -1
        self._take(chosen, others, topic, size)
        return chosen[1]

    def _suits_topic_better(self, entry: _Entry, other: _Entry, topic: int) -> bool:
        """Return whether it may get more of the topic, and the other one may not."""
        mine, theirs = self.destinations[entry[1]], self.destinations[other[1]]
        if mine.topic_counts[topic] >= mine.topic_limits[topic]:
            return False
        return theirs.topic_counts[topic] >= theirs.topic_limits[topic]

    def _with_fewest_shared(self, entries: list[_Entry], others: list[int]) -> _Entry:
        """Return the entry whose broker shares fewest partitions with any of `others`."""

        def max_shared(entry: _Entry) -> int:
            shared = self.destinations[entry[1]].shared_partitions
            return max((shared[other] for other in others), default=0)

        return min(entries, key=lambda entry: (max_shared(entry), entry))

    def _take(self, entry: _Entry, others: list[int], topic: int, size: int) -> None:
        """Count the replica, and put the broker back in the heap if it may get more."""
        negative_bytes, broker = entry
        destination = self.destinations[broker]
        destination.replicas_left -= 1
        destination.bytes_left -= size
        destination.topic_counts[topic] += 1
        for other in others:
            destination.shared_partitions[other] += 1
        if destination.replicas_left:
            heapq.heappush(self.heap, (negative_bytes + size, broker))


def shared_partitions(replicas: Ints, brokers: Ints, broker_count: int) -> Ints:
    """Return how many partitions each of `brokers` (rows) shares with each broker (columns)."""
    row_of = np.full(broker_count + 1, -1, dtype=np.int64)
    row_of[brokers] = np.arange(len(brokers))
    counts = np.zeros(len(brokers) * broker_count, dtype=np.int64)
    for column in range(replicas.shape[1]):
        rows = row_of[replicas[:, column]]
        for other_column in range(replicas.shape[1]):
            others = replicas[:, other_column]
            is_pair = (rows >= 0) & (others >= 0)
            if column != other_column and is_pair.any():
                cells = rows[is_pair] * broker_count + others[is_pair]
                counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(len(brokers), broker_count)
