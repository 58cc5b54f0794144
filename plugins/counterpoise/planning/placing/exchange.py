"""Counts and bytes made even with replicas whose broker may still be chosen.

    free = FreeReplicas(placement, roles.destinations, is_free)
    even_counts(placement, brokers, free)              # exactly, as far as these replicas allow
    even_bytes(placement, brokers, free, band)         # counts stay

A plan that has to place replicas anyway (copies of drained ones, added ones) may put them where it
likes, at no further cost.

    even_counts: from the fullest broker down, find the shortest chain of brokers to one with two or
                 more replicas fewer; move the same number of replicas over each link of it
    even_bytes:  for the broker farthest out of the band, exchange a large replica for a small one

Worked example: brokers 1, 2 and 3 hold 6, 4 and 2 replicas; replicas of broker 1 may go to broker 2
only, those of broker 2 to broker 3. The chain 1, 2, 3 ends at a broker with 4 fewer, so 4 / 2 = 2
replicas go over each link, and each broker holds 4.

When no chain is left, no other choice has a smaller maximum or a larger minimum: a chain is an
augmenting path of the flow whose cost at each broker is convex, and without one the flow is
optimal. A broker that has no chain will not get one later, since chains start at the fullest.
Limits: bytes are a matter of exchanges, and not exact.
"""

from itertools import pairwise
from typing import Protocol

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.level import wanted_shift

_MAX_EXCHANGES_PER_BROKER = 20
_MAX_PARTNERS = 16


class ReplicaChoices(Protocol):
    """Which replicas may still be on another broker than they are."""

    def reachable(self, source: int) -> Flags:
        """Return, per broker, whether it could have one of the source's replicas instead."""

    def choices(self, source: int, destination: int) -> tuple[Ints, Ints]:
        """Return partitions and positions of replicas that could go from source to destination."""

    def move(self, partitions: Ints, positions: Ints, destination: int) -> None:
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
        partitions, positions = np.nonzero(is_free)
        self._partitions = partitions.astype(np.int64)
        self._positions = positions.astype(np.int64)
        self._brokers = placement.replicas[is_free]
        self._number_of = np.cumsum(is_free.ravel()).reshape(is_free.shape) - 1

    def reachable(self, source: int) -> Flags:
        placement = self._placement
        partitions, positions = self._on(source)
        sizes = placement.cluster.size_bytes[partitions]
        suits_rack = self._suits(partitions, positions)[:, placement.cluster.racks]
        has_room = placement.room[None, :] >= sizes[:, None]
        holds = np.zeros((len(partitions), placement.cluster.broker_count + 1), dtype=np.bool_)
        holds[np.arange(len(partitions))[:, None], placement.replicas[partitions]] = True
        is_able = suits_rack & has_room & ~holds[:, :NOBODY]
        return np.asarray(is_able.any(axis=0) & self._is_destination)

    def choices(self, source: int, destination: int) -> tuple[Ints, Ints]:
        placement = self._placement
        partitions, positions = self._on(source)
        is_usable = ~placement.holds(destination, partitions)
        rack = int(placement.cluster.racks[destination])
        is_usable &= placement.suits(partitions, positions, rack)
        return partitions[is_usable], positions[is_usable]

    def move(self, partitions: Ints, positions: Ints, destination: int) -> None:
        self._placement.give_all(partitions, positions, np.full(len(partitions), destination))
        self._brokers[self._number_of[partitions, positions]] = destination

    def room(self, destination: int) -> int:
        return int(self._placement.room[destination])

    def _on(self, broker: int) -> tuple[Ints, Ints]:
        own = np.flatnonzero(self._brokers == broker)
        return self._partitions[own], self._positions[own]

    def _suits(self, partitions: Ints, positions: Ints) -> Flags:
        """Return, by replica and rack, whether it may go there."""
        placement = self._placement
        racks = placement.racks_by_position[placement.replicas[partitions]]
        rack_count = int(placement.racks_by_position.max(initial=0)) + 1
        in_rack = np.zeros((len(partitions), rack_count + 1), dtype=np.int64)  # last: no rack
        rows = np.arange(len(partitions))
        for column in range(racks.shape[1]):
            in_rack[rows, racks[:, column]] += 1
        own_racks = racks[rows, positions]
        in_rack[rows, own_racks] -= 1
        neighbours_now = in_rack[rows, own_racks]
        return np.asarray(in_rack[:, :-1] <= neighbours_now[:, None])


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
    chosen: list[tuple[Ints, Ints]] = []
    for source, destination in links:
        partitions, positions = free.choices(source, destination)
        is_free = ~is_used[partitions]
        partitions, positions = partitions[is_free], positions[is_free]
        best = _best_first(placement, source, destination, partitions)[:count]
        bytes_so_far = np.cumsum(sizes[partitions[best]])
        count = int((bytes_so_far <= free.room(destination)).sum())
        if not count:
            return False
        best = best[:count]
        is_used[partitions[best]] = True
        chosen.append((partitions[best], positions[best]))
    for (_, destination), (partitions, positions) in zip(links, chosen, strict=True):
        free.move(partitions[:count], positions[:count], destination)
    return True


def _best_first(placement: Placement, source: int, destination: int, partitions: Ints) -> Ints:
    """Return the order of partitions: what makes topics more even, then what makes bytes so.

    Each further replica of a topic counts as if those before it had gone already.
    """
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    difference = int(placement.bytes_held[source] - placement.bytes_held[destination])
    distances = np.abs(sizes - max(0, difference) // 2)
    by_topic = np.lexsort((partitions, distances, topics))
    ordered = topics[by_topic]
    rank_in_topic = np.arange(len(by_topic)) - np.searchsorted(ordered, ordered)
    source_counts = placement.topic_counts[ordered, source].astype(np.int64)
    destination_counts = placement.topic_counts[ordered, destination]
    gains = source_counts - destination_counts - 2 * rank_in_topic
    return np.asarray(by_topic[np.lexsort((partitions[by_topic], distances[by_topic], -gains))])


def even_bytes(placement: Placement, is_able: Flags, free: ReplicaChoices, band: ByteBand) -> None:
    """Exchange large replicas for small ones until all able brokers are in the band."""
    able = np.flatnonzero(is_able)
    is_open = np.ones(len(able), dtype=np.bool_)
    for _ in range(_MAX_EXCHANGES_PER_BROKER * len(able)):
        held = placement.bytes_held[able]
        outside = np.maximum(held - band.highest[able], band.lowest[able] - held)
        outside = np.where(is_open, outside, 0)
        worst = int(np.argmax(outside))
        if outside[worst] <= 0:
            return
        broker, over_fair = int(able[worst]), held - band.fair[able]
        is_heavy = over_fair[worst] > 0
        opposite_first = able[np.lexsort((able, over_fair if is_heavy else -over_fair))]
        partners = [other for other in opposite_first[:_MAX_PARTNERS].tolist() if other != broker]
        pairs = [(broker, partner) if is_heavy else (partner, broker) for partner in partners]
        is_open[worst] = any(
            _exchange_one(placement, free, band, heavy, light) for heavy, light in pairs
        )


def _exchange_one(
    placement: Placement, free: ReplicaChoices, band: ByteBand, heavy: int, light: int
) -> bool:
    """Exchange one replica for a smaller one; False when no such pair helps."""
    sizes = placement.cluster.size_bytes
    wanted, most = wanted_shift(placement, band, heavy, light)
    if most <= 0:
        return False
    going, going_at = _by_size(placement, *free.choices(heavy, light))
    returning, returning_at = _by_size(placement, *free.choices(light, heavy))
    if not len(going) or not len(returning):
        return False
    # For each replica that may go: the largest that may return and leaves a shift of `wanted`.
    largest_sizes = sizes[going] - wanted
    partners = np.searchsorted(sizes[returning], largest_sizes, side="right") - 1
    partners = np.clip(partners, 0, None)
    shifts = sizes[going] - sizes[returning[partners]]
    is_usable = (shifts > 0) & (shifts <= most)
    is_usable &= going != returning[partners]
    is_usable &= sizes[going] <= free.room(light)
    if not is_usable.any():
        return False
    topic_losses = _topic_loss(placement, going, heavy, light)
    topic_losses += _topic_loss(placement, returning[partners], light, heavy)
    distances = np.abs(shifts - wanted)
    best = int(np.lexsort((going, distances, topic_losses > 0, ~is_usable))[0])
    partner = int(partners[best])
    free.move(going[[best]], going_at[[best]], light)
    free.move(returning[[partner]], returning_at[[partner]], heavy)
    return True


def _by_size(placement: Placement, partitions: Ints, positions: Ints) -> tuple[Ints, Ints]:
    order = np.lexsort((partitions, placement.cluster.size_bytes[partitions]))
    return partitions[order], positions[order]


def _topic_loss(placement: Placement, partitions: Ints, source: int, destination: int) -> Ints:
    """Return 1 where a topic gets less even by the move, else 0."""
    topics = placement.cluster.topic_numbers[partitions]
    source_counts = placement.topic_counts[topics, source]
    destination_counts = placement.topic_counts[topics, destination]
    return np.asarray(source_counts <= destination_counts, dtype=np.int64)
