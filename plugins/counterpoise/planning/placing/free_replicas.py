"""Replicas whose broker may be chosen: copies of drained ones, added ones, those that stay of many.

    per_broker(2, rack_sizes=[2, 1, 1])        # [0.5, 0.5, 0.5]: the share of a topic, by rack
    free = FreeReplicas(placement, roles.destinations, is_free)
    even_free_replicas(placement, roles.destinations, free, find_band)

A plan that has to place replicas anyway may put them where it likes, at no further cost.
`new_replicas` and `lowering` choose a broker for each, by its share of the topic among others; what
that leaves uneven is settled here. Counts become exact, as far as these replicas allow:

    from the fullest broker down, find the shortest chain of brokers to one with two or more
    replicas fewer; move the same number of replicas over each link of it

Worked example: brokers 1, 2 and 3 hold 6, 4 and 2 replicas; replicas of broker 1 may go to broker 2
only, those of broker 2 to broker 3. The chain 1, 2, 3 ends at a broker with 4 fewer, so 4 / 2 = 2
replicas go over each link, and each broker holds 4.

When no chain is left, no other choice has a smaller maximum or a larger minimum: a chain is an
augmenting path of the flow whose cost at each broker is convex, and without one the flow is
optimal. A broker that has no chain will not get one later, since chains start at the fullest.
Two replicas of different size at a time are then exchanged for bytes, as in `exchanges`: not exact.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints, rank_within
from counterpoise.model.evenness import ByteBand
from counterpoise.model.racks import bounds_of_partition
from counterpoise.planning.placement import Placement, Replicas
from counterpoise.planning.placing.exchanges import (
    MAX_EXCHANGES_PER_BROKER,
    improve_worst,
    pairs_with,
)

BYTES_FIRST: Final = 0.9  # this part of all bytes is placed before the number of replicas decides
# Of bytes; nothing is copied for it, so it is narrower than a policy's.
TOLERANCE_PERCENT: Final = 5
_ROUNDING_ERROR: Final = 1e-9
_BISECTION_STEPS: Final = 60
_MAX_PARTNERS: Final = 16


class ChoosableReplicas(Protocol):
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


def even_free_replicas(
    placement: Placement,
    is_able: Flags,
    free: ChoosableReplicas,
    find_band: Callable[[Placement], ByteBand],
) -> None:
    """Even the able brokers out in counts, then in bytes: to the band of that placement."""
    _even_counts(placement, is_able, free)
    _even_bytes(placement, is_able, free, find_band(placement))


# -- counts


def _even_counts(placement: Placement, is_able: Flags, free: ChoosableReplicas) -> None:
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
    placement: Placement, free: ChoosableReplicas, is_able: Flags, source: int
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


def _move_along(placement: Placement, free: ChoosableReplicas, chain: list[int]) -> bool:
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


# -- bytes


def _even_bytes(
    placement: Placement, is_able: Flags, free: ChoosableReplicas, band: ByteBand
) -> None:
    """Exchange large replicas for small ones until all able brokers are in the band."""
    able = np.flatnonzero(is_able)

    def exchange(broker: int) -> bool:
        above_fair = placement.bytes_held - band.fair
        pairs = pairs_with(broker, able, above_fair, _MAX_PARTNERS)
        return any(_exchange_free(placement, free, band, heavy, light) for heavy, light in pairs)

    improve_worst(
        is_able,
        lambda: band.bytes_outside(placement.bytes_held),
        exchange,
        max_steps=MAX_EXCHANGES_PER_BROKER * len(able),
        tries_again=False,
    )


def _exchange_free(
    placement: Placement, free: ChoosableReplicas, band: ByteBand, heavy: int, light: int
) -> bool:
    """Exchange one replica for a smaller one; False when no such pair helps."""
    sizes = placement.cluster.size_bytes
    wanted, max_shift = band.wanted_shift(placement.bytes_held, heavy, light)
    if max_shift <= 0:
        return False
    going = _smallest_first(placement, free.choices(heavy, light))
    returning = _smallest_first(placement, free.choices(light, heavy))
    if not len(going.partitions) or not len(returning.partitions):
        return False
    # For each replica that may go: the largest that may return and leaves a shift of `wanted`.
    going_sizes, returning_sizes = sizes[going.partitions], sizes[returning.partitions]
    partners = np.searchsorted(returning_sizes, going_sizes - wanted, side="right") - 1
    partners = np.clip(partners, 0, None)
    partner_partitions = returning.partitions[partners]
    shifts = going_sizes - returning_sizes[partners]
    is_usable = (shifts > 0) & (shifts <= max_shift) & (going_sizes <= free.room(light))
    is_usable &= going.partitions != partner_partitions
    if not is_usable.any():
        return False
    evens_topics = _evens_topic(placement, going.partitions, heavy, light)
    evens_topics &= _evens_topic(placement, partner_partitions, light, heavy)
    distances = np.abs(shifts - wanted)
    best = int(np.lexsort((going.partitions, distances, ~evens_topics, ~is_usable))[0])
    free.move(going.only(slice(best, best + 1)), light)
    partner = int(partners[best])
    free.move(returning.only(slice(partner, partner + 1)), heavy)
    return True


def _smallest_first(placement: Placement, replicas: Replicas) -> Replicas:
    sizes = placement.cluster.size_bytes[replicas.partitions]
    return replicas.only(np.lexsort((replicas.partitions, sizes)))


def _evens_topic(placement: Placement, partitions: Ints, source: int, destination: int) -> Flags:
    """Return whether the source holds more of the topic of each partition than the destination."""
    counts = placement.topic_counts[placement.cluster.topic_numbers[partitions]]
    return np.asarray(counts[:, source] > counts[:, destination])


# -- shares of topics


def per_broker(factor: int, rack_sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of one partition per broker of each rack, as even as the racks allow.

    `rack_sizes` are the brokers per rack. The level is the part of a replica per broker that adds
    up to `factor` over all racks; it is found by bisection.

    Worked example: 3 replicas on racks of 4, 1 and 1 brokers: each rack holds one replica, so a
    broker has 0.25, 1 or 1 of them. A topic of 8 partitions has 2, 8 and 8 per broker.
    """
    lowest, highest = bounds_of_partition(factor, rack_sizes)
    low, high = 0.0, 1.0
    for _ in range(_BISECTION_STEPS):
        level = (low + high) / 2
        if np.clip(level * rack_sizes, lowest, highest).sum() < factor:
            low = level
        else:
            high = level
    in_rack = np.clip(high * rack_sizes, lowest, highest)
    return np.asarray(in_rack / np.maximum(1, rack_sizes), dtype=np.float64)


def of_topics(placement: Placement, rack_sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of each topic per broker of each rack: a row per topic, a column per rack."""
    cluster = placement.cluster
    shares = np.zeros((len(cluster.topic_names), len(rack_sizes)))
    for factor in np.unique(placement.replica_counts).tolist():
        topics = cluster.topic_numbers[placement.replica_counts == factor]
        partition_counts = np.bincount(topics, minlength=len(shares))
        shares += partition_counts[:, None] * per_broker(factor, rack_sizes)[None, :]
    return shares


def whole_shares(share: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Return shares rounded down and up; one that is whole but for rounding errors stays."""
    lowest = np.floor(share + _ROUNDING_ERROR).astype(np.int64)
    highest = np.ceil(share - _ROUNDING_ERROR).astype(np.int64)
    return lowest, highest


def largest_topics_first(placement: Placement, partitions: Ints) -> Ints:
    """Return the order of `partitions`: topics with most bytes first, then large partitions.

    At first bytes decide where replicas go; in the small topics at the end the number of replicas
    does. So both come out even: few replicas hold most bytes, and many replicas few.
    """
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    topic_bytes = np.zeros(len(cluster.topic_names), dtype=np.int64)
    np.add.at(topic_bytes, topics, sizes)
    return np.lexsort((partitions, -sizes, topics, -topic_bytes[topics]))
