"""Counts made even by chains of replicas whose broker may still be chosen.

    even_counts(placement, is_able, FreeReplicas(placement, roles.destinations, is_free))

A plan that has to place replicas anyway (copies of drained ones, added ones) may put them where it
likes, at no further cost. `even_counts` makes the counts exact, as far as these replicas allow:

    from the fullest broker down, find the shortest chain of brokers to one with two or more
    replicas fewer; move the same number of replicas over each link of it

Worked example: brokers 1, 2 and 3 hold 6, 4 and 2 replicas; replicas of broker 1 may go to broker 2
only, those of broker 2 to broker 3. The chain 1, 2, 3 ends at a broker with 4 fewer, so 4 / 2 = 2
replicas go over each link, and each broker holds 4.

When no chain is left, no other choice has a smaller maximum or a larger minimum: a chain is an
augmenting path of the flow whose cost at each broker is convex, and without one the flow is
optimal. A broker that has no chain will not get one later, since chains start at the fullest.
"""

from itertools import pairwise
from typing import Protocol

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints, rank_within
from counterpoise.planning.placement import Placement, Replicas


class ReplicaChoices(Protocol):
    """Which replicas may still be on another broker than they are."""

    def reachable(self, source: int) -> Flags:
        """Return, per broker, whether it could have one of the source's replicas instead."""

    def choices(self, source: int, destination: int) -> Replicas:
        """Return the replicas that could go from source to destination."""

    def move(self, replicas: Replicas, destination: int) -> None:
        """Move replicas, each of another partition, to a destination."""

    def room(self, destination: int) -> int:
        """Return the bytes that a destination has room for."""


class FreeReplicas:
    """Replicas that may be on any destination.

    Only where that gives their partition no more replicas in one rack than it has there now.
    """

    def __init__(self, placement: Placement, is_destination: Flags, is_free: Flags) -> None:
        """Prepare the exchanges. `is_free` has the shape of `placement.replicas`."""
        self._placement = placement
        self._is_destination = is_destination
        self._replicas = Replicas(*np.nonzero(is_free))
        self._brokers = placement.replicas[is_free]
        self._number_of = np.cumsum(is_free.ravel()).reshape(is_free.shape) - 1

    def reachable(self, source: int) -> Flags:
        placement, replicas = self._placement, self._on(source)
        partitions = replicas.partitions
        sizes = placement.cluster.size_bytes[partitions]
        suits_rack = self._suits(replicas)[:, placement.cluster.racks]
        has_room = placement.room[None, :] >= sizes[:, None]
        holds = np.zeros((len(partitions), placement.cluster.broker_count + 1), dtype=np.bool_)
        holds[np.arange(len(partitions))[:, None], placement.replicas[partitions]] = True
        is_able = suits_rack & has_room & ~holds[:, :NOBODY]
        return np.asarray(is_able.any(axis=0) & self._is_destination)

    def choices(self, source: int, destination: int) -> Replicas:
        replicas = self._on(source)
        return replicas.only(self._placement.may_receive(replicas, destination))

    def move(self, replicas: Replicas, destination: int) -> None:
        self._placement.give_all(replicas, np.full(len(replicas.partitions), destination))
        self._brokers[self._number_of[replicas]] = destination

    def room(self, destination: int) -> int:
        return int(self._placement.room[destination])

    def _on(self, broker: int) -> Replicas:
        return self._replicas.only(self._brokers == broker)

    def _suits(self, replicas: Replicas) -> Flags:
        """Return, by replica and rack, whether it may go there."""
        racks = range(int(self._placement.cluster.racks.max(initial=0)) + 1)
        return np.column_stack([self._placement.suits(replicas, rack) for rack in racks])


def even_counts(placement: Placement, is_able: Flags, free: ReplicaChoices) -> None:
    """Move replicas between the able brokers until their counts are as even as they can be."""
    able = np.flatnonzero(is_able)
    finished: set[int] = set()
    while len(able):
        counts = placement.counts[able]
        fullest_first = able[np.lexsort((able, -counts))].tolist()
        fullest = _first_uneven(placement, fullest_first, int(counts.min()), finished)
        if fullest is None:
            return
        chain, visited = _chain(placement, free, is_able, fullest)
        if not chain:
            # Each of these brokers leads only to others of them, and none of those is emptier.
            finished |= visited
        elif not _move_along(placement, free, chain):
            finished.add(fullest)


def _first_uneven(
    placement: Placement, fullest_first: list[int], min_count: int, finished: set[int]
) -> int | None:
    """Return the first broker with two replicas more than the emptiest that is not finished."""
    for broker in fullest_first:
        if broker not in finished and placement.counts[broker] >= min_count + 2:
            return broker
    return None


def _chain(
    placement: Placement, free: ReplicaChoices, is_able: Flags, source: int
) -> tuple[list[int], set[int]]:
    """Return the shortest chain from a broker to one with two replicas fewer, and who was visited.

    Of several such ends it is the emptiest. The chain is empty when there is none.
    """
    came_from = {source: source}
    layer = [source]
    while layer:
        following: list[int] = []
        for broker in layer:
            for destination in np.flatnonzero(free.reachable(broker) & is_able).tolist():
                if destination not in came_from:
                    came_from[destination] = broker
                    following.append(destination)
        end = min(following, key=lambda broker: (placement.counts[broker], broker), default=None)
        if end is not None and placement.counts[end] <= placement.counts[source] - 2:
            chain = [end]
            while chain[-1] != source:
                chain.append(came_from[chain[-1]])
            return chain[::-1], set(came_from)
        layer = following
    return [], set(came_from)


def _move_along(placement: Placement, free: ReplicaChoices, chain: list[int]) -> bool:
    """Move the same number of replicas over each link, each of another partition.

    False when a link has none.
    """
    links = list(pairwise(chain))[::-1]
    sizes = placement.cluster.size_bytes
    count = int(placement.counts[chain[0]] - placement.counts[chain[-1]]) // 2
    is_used = np.zeros(placement.cluster.partition_count, dtype=np.bool_)
    chosen: list[Replicas] = []
    for source, destination in links:
        replicas = free.choices(source, destination)
        replicas = replicas.only(~is_used[replicas.partitions])
        best_first = _best_first(placement, source, destination, replicas.partitions)
        replicas = replicas.only(best_first[:count])
        bytes_so_far = np.cumsum(sizes[replicas.partitions])
        count = int((bytes_so_far <= free.room(destination)).sum())
        if not count:
            return False
        is_used[replicas.partitions[:count]] = True
        chosen.append(replicas)
    for (_, destination), replicas in zip(links, chosen, strict=True):
        free.move(replicas.only(slice(count)), destination)
    return True


def _best_first(placement: Placement, source: int, destination: int, partitions: Ints) -> Ints:
    """Return the order of partitions: what makes topics more even, then what makes bytes so.

    Each further replica of a topic counts as if those before it had gone already.
    """
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    difference = int(placement.bytes_held[source] - placement.bytes_held[destination])
    distances = np.abs(sizes - max(0, difference) // 2)
    rank_in_topic = rank_within(topics, np.lexsort((partitions, distances)))
    source_counts = placement.topic_counts[topics, source]
    destination_counts = placement.topic_counts[topics, destination]
    gains = source_counts - destination_counts - 2 * rank_in_topic
    return np.lexsort((partitions, distances, -gains))
