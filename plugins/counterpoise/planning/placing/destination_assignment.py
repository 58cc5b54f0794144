"""Handing replicas out: which broker takes each of those that go to a rack.

    handout = Handout.to(placement, takers, {4: 120, 8: 119}, shares, lacking)
    taker = handout.next_for(row, topic, size)         # a broker, or -1 when none may take it

Replicas come largest first, and the taker that lacks most bytes is asked first. It is passed over
for one that has fewer replicas of the topic than is its share; and among takers that lack about as
much, the one that shares fewest partitions with the other brokers of this one gets it, so that the
loss of two brokers hits few partitions.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.topics import TopicShares

_MOST_COMPARED = 3


@dataclass(slots=True)
class _Destination:
    """What one taker may still get. The lists have an entry per topic, or per broker."""

    replicas_left: int
    bytes_left: int
    topic_counts: list[int]
    topic_shares: list[int]  # up to here it is wanted
    topic_limits: list[int]  # up to here it is even
    shared: list[int]  # partitions shared with each broker


@dataclass(slots=True)
class DestinationAssignment:
    heap: list[tuple[int, int]]  # (-lacking bytes, broker)
    destinations: dict[int, _Destination]

    @classmethod
    def to(
        cls,
        placement: Placement,
        destinations: Ints,
        left: Mapping[int, int],
        shares: TopicShares,
        lacking: Ints,
    ) -> "DestinationAssignment":
        lowest, highest = shares.lowest(destinations), shares.highest(destinations)
        heap = [
            (-lacks, destination)
            for lacks, destination in zip(lacking.tolist(), destinations.tolist(), strict=True)
        ]
        heapq.heapify(heap)
        pairs = pair_counts(placement.replicas, destinations, placement.cluster.broker_count)
        room = placement.room
        return cls(
            heap,
            {
                destination: _Destination(
                    replicas_left=left[destination],
                    bytes_left=int(room[destination]),
                    topic_counts=placement.topic_counts[:, destination].tolist(),
                    topic_shares=np.maximum(1, lowest[:, at]).tolist(),
                    topic_limits=highest[:, at].tolist(),
                    shared=pairs[at].tolist(),
                )
                for at, destination in enumerate(destinations.tolist())
            },
        )

    def next_for(self, row: list[int], source: int, topic: int, size: int) -> int:
        """The taker of one replica of the partition whose replicas are `row`; -1 when nobody may
        take it.
        """
        passed: list[tuple[int, int]] = []
        equals: list[tuple[int, int]] = []
        second: tuple[int, int] | None = None
        while self.heap and len(equals) < _MOST_COMPARED:
            entry = self.heap[0]
            if equals and entry[0] - equals[0][0] > size:
                break
            heapq.heappop(self.heap)
            passed.append(entry)
            destination = self.destinations[entry[1]]
            if entry[1] in row or destination.bytes_left < size:
                continue
            if destination.topic_counts[topic] < destination.topic_shares[topic]:
                equals.append(entry)
            elif second is None or self._is_fitter(entry, second, topic):
                second = entry
        others = [broker for broker in row if broker >= 0 and broker != source]
        if equals:
            chosen = min(equals, key=lambda entry: (self._shared(entry[1], others), entry))
        elif second is not None:
            chosen = second
        else:
            chosen = None
        for entry in passed:
            if entry is not chosen:
                heapq.heappush(self.heap, entry)
        return -1 if chosen is None else self._serve(chosen, others, topic, size)

    def _is_fitter(self, entry: tuple[int, int], other: tuple[int, int], topic: int) -> bool:
        """Has it room for the topic, where the other one, which lacks more bytes, has none?"""
        one, two = self.destinations[entry[1]], self.destinations[other[1]]
        return (
            one.topic_counts[topic] < one.topic_limits[topic]
            and two.topic_counts[topic] >= two.topic_limits[topic]
        )

    def _shared(self, broker: int, others: list[int]) -> int:
        shared = self.destinations[broker].shared
        return max((shared[other] for other in others), default=0)

    def _serve(self, entry: tuple[int, int], others: list[int], topic: int, size: int) -> int:
        broker = entry[1]
        destination = self.destinations[broker]
        destination.replicas_left -= 1
        destination.bytes_left -= size
        destination.topic_counts[topic] += 1
        for other in others:
            destination.shared[other] += 1
        if destination.replicas_left:
            heapq.heappush(self.heap, (entry[0] + size, broker))
        return broker


def pair_counts(replicas: Ints, brokers: Ints, broker_count: int) -> Ints:
    """Partitions that each of `brokers` (rows) shares with each broker (columns)."""
    rows = np.full(broker_count + 1, -1, dtype=np.int64)
    rows[brokers] = np.arange(len(brokers))
    total = np.zeros(len(brokers) * broker_count, dtype=np.int64)
    for one in range(replicas.shape[1]):
        at = rows[replicas[:, one]]
        for other in range(replicas.shape[1]):
            both = (at >= 0) & (replicas[:, other] >= 0)
            if one != other and both.any():
                total += np.bincount(
                    at[both] * broker_count + replicas[both, other], minlength=len(total)
                )
    return total.reshape(len(brokers), broker_count)
