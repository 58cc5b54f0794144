"""Counts and bytes made even by passing replicas on that may still choose their broker.

    free = Choosers(placement, roles.takers, is_free)
    even_counts(placement, brokers, free)              # exactly, as far as these replicas allow
    even_bytes(placement, brokers, free, band)         # counts stay

A plan that has to place replicas (copies of drained ones, added ones) is free in where it puts
them, at no further cost. From a broker with two or more above another one, replicas are passed on,
if need be over brokers in between. When no such chain is left, no other choice has a smaller
maximum or a larger minimum: a chain is an augmenting path of the flow whose cost at each broker is
convex, and without one the flow is optimal. Chains are looked for from the fullest broker down, so
one that has none will not get one later. Bytes are a matter of exchanges, and not exact.
"""

from itertools import pairwise
from typing import Protocol

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement

_MOST_EXCHANGES_PER_BROKER = 20
_MOST_PARTNERS = 16


class Exchange(Protocol):
    """Which replicas may still be on another broker than they are."""

    def reachable(self, source: int) -> Flags:
        """Brokers that could have one of the giver's replicas in its place."""

    def choices(self, source: int, destination: int) -> tuple[Ints, Ints]:
        """Partitions and positions of the replicas that `taker` could have in the giver's place."""

    def pass_on(self, partitions: Ints, positions: Ints, destination: int) -> None:
        """Gives replicas, each of another partition, to a taker."""

    def room(self, destination: int) -> int:
        """Bytes that a taker has room for."""


class Choosers:
    """Replicas that may be on any taker, as long as their partition gets no more neighbours in a
    rack by that.
    """

    def __init__(self, placement: Placement, destinations: Flags, is_free: Flags) -> None:
        """`is_free` has the shape of `placement.replicas`."""
        self._placement = placement
        self._destinations = destinations
        self._partitions, self._positions = (
            column.astype(np.int64) for column in np.nonzero(is_free)
        )
        self._owners = placement.replicas[is_free]
        self._number_of = np.cumsum(is_free.ravel()).reshape(is_free.shape) - 1

    def reachable(self, source: int) -> Flags:
        placement = self._placement
        partitions, positions = self._of(source)
        rows = placement.replicas[partitions]
        fits = self._suits(partitions, positions)[:, placement.cluster.racks]
        fits &= placement.room[None, :] >= placement.cluster.size_bytes[partitions, None]
        holds = np.zeros((len(partitions), placement.cluster.broker_count + 1), dtype=np.bool_)
        holds[np.arange(len(partitions))[:, None], rows] = True
        return np.asarray((fits & ~holds[:, :NOBODY]).any(axis=0) & self._destinations)

    def choices(self, source: int, destination: int) -> tuple[Ints, Ints]:
        placement = self._placement
        partitions, positions = self._of(source)
        usable = ~placement.holds(destination, partitions)
        usable &= placement.suits(partitions, positions, int(placement.cluster.racks[destination]))
        return partitions[usable], positions[usable]

    def pass_on(self, partitions: Ints, positions: Ints, destination: int) -> None:
        self._placement.give_all(partitions, positions, np.full(len(partitions), destination))
        self._owners[self._number_of[partitions, positions]] = destination

    def room(self, destination: int) -> int:
        return int(self._placement.room[destination])

    def _of(self, source: int) -> tuple[Ints, Ints]:
        own = np.flatnonzero(self._owners == source)
        return self._partitions[own], self._positions[own]

    def _suits(self, partitions: Ints, positions: Ints) -> Flags:
        """Per replica and rack: may it go there?"""
        placement = self._placement
        racks = placement.racks_by_position[placement.replicas[partitions]]
        in_rack = np.zeros(
            (len(partitions), int(placement.racks_by_position.max(initial=0)) + 2), dtype=np.int64
        )
        rows = np.arange(len(partitions))
        for column in range(racks.shape[1]):
            in_rack[rows, racks[:, column]] += 1
        own = racks[rows, positions]
        in_rack[rows, own] -= 1
        return np.asarray(in_rack[:, :-1] <= in_rack[rows, own][:, None])


def even_counts(placement: Placement, brokers: Flags, exchange: Exchange) -> None:
    """Passes replicas on among `brokers` until their counts are as even as they can be."""
    able = np.flatnonzero(brokers)
    finished: set[int] = set()
    while len(able):
        counts = placement.counts[able]
        fullest = able[np.lexsort((able, -counts))]
        sources = [
            b
            for b in fullest.tolist()
            if b not in finished and placement.counts[b] >= counts.min() + 2
        ]
        if not sources:
            return
        chain, seen = _chain(placement, exchange, brokers, sources[0])
        if not chain:
            # from each of them one gets to some of the others only, and none of these is emptier
            finished |= seen
        elif not _pass_along(placement, exchange, chain):
            finished.add(sources[0])


def _chain(
    placement: Placement, exchange: Exchange, brokers: Flags, source: int
) -> tuple[list[int], set[int]]:
    """The shortest way from a broker to one with at least two replicas fewer, of these to the
    emptiest.

    And all brokers that were looked at. The way is empty when there is none.
    """
    came_from = {source: source}
    layer = [source]
    while layer:
        following: list[int] = []
        for broker in layer:
            for destination in np.flatnonzero(exchange.reachable(broker) & brokers).tolist():
                if destination not in came_from:
                    came_from[destination] = broker
                    following.append(destination)
        emptiest = min(following, key=lambda b: (placement.counts[b], b), default=None)
        if emptiest is not None and placement.counts[emptiest] <= placement.counts[source] - 2:
            chain = [emptiest]
            while chain[-1] != source:
                chain.append(came_from[chain[-1]])
            return chain[::-1], set(came_from)
        layer = following
    return [], set(came_from)


def _pass_along(placement: Placement, exchange: Exchange, chain: list[int]) -> bool:
    """The same number of replicas over each link, each of another partition; False when a link has
    none.
    """
    links = list(pairwise(chain))
    count = int(placement.counts[chain[0]] - placement.counts[chain[-1]]) // 2
    used = np.zeros(placement.cluster.partition_count, dtype=np.bool_)
    chosen: list[tuple[Ints, Ints]] = []
    for source, destination in reversed(links):
        partitions, positions = exchange.choices(source, destination)
        partitions, positions = partitions[~used[partitions]], positions[~used[partitions]]
        best = _best_first(placement, source, destination, partitions)[:count]
        sums = np.cumsum(placement.cluster.size_bytes[partitions[best]])
        best = best[: int((sums <= exchange.room(destination)).sum())]
        count = len(best)
        if not count:
            return False
        used[partitions[best]] = True
        chosen.append((partitions[best], positions[best]))
    for (_, destination), (partitions, positions) in zip(reversed(links), chosen, strict=True):
        exchange.pass_on(partitions[:count], positions[:count], destination)
    return True


def _best_first(placement: Placement, source: int, destination: int, partitions: Ints) -> Ints:
    """First what makes topics more even, then what makes bytes more even.

    Each further replica of a topic counts as if those before it had gone already.
    """
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    wanted = max(0, int(placement.bytes_held[source] - placement.bytes_held[destination]) // 2)
    off = np.abs(sizes - wanted)
    order = np.lexsort((partitions, off, topics))
    ordered = topics[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    counts = placement.topic_counts
    gain = counts[ordered, source].astype(np.int64) - counts[ordered, destination] - 2 * rank
    return np.asarray(order[np.lexsort((partitions[order], off[order], -gain))])


def even_bytes(placement: Placement, brokers: Flags, exchange: Exchange, band: ByteBand) -> None:
    """Exchanges large replicas for small ones among `brokers` until their bytes are in the band, or
    none helps.
    """
    able = np.flatnonzero(brokers)
    open_to = np.ones(len(able), dtype=np.bool_)
    for _ in range(_MOST_EXCHANGES_PER_BROKER * len(able)):
        held = placement.bytes_held[able]
        off = np.where(open_to, np.maximum(held - band.highest[able], band.lowest[able] - held), 0)
        worst = int(np.argmax(off))
        if off[worst] <= 0:
            return
        broker, over_fair = int(able[worst]), held - band.fair[able]
        is_heavy = over_fair[worst] > 0
        others = able[np.lexsort((able, over_fair if is_heavy else -over_fair))]
        partners = [int(other) for other in others[:_MOST_PARTNERS] if other != broker]
        pairs = [(broker, partner) if is_heavy else (partner, broker) for partner in partners]
        open_to[worst] = any(
            _exchange_one(placement, exchange, band, heavy, light) for heavy, light in pairs
        )


def _exchange_one(
    placement: Placement, exchange: Exchange, band: ByteBand, heavy: int, light: int
) -> bool:
    """One replica there and a smaller one back; False when no such pair helps one and harms none."""
    held, sizes = placement.bytes_held, placement.cluster.size_bytes
    most = min(int(held[heavy] - band.lowest[heavy]), int(band.highest[light] - held[light]))
    if most <= 0:
        return False
    wanted = min(
        most, max(int(held[heavy] - band.highest[heavy]), int(band.lowest[light] - held[light]), 1)
    )
    there, there_at = _by_size(placement, *exchange.choices(heavy, light))
    back, back_at = _by_size(placement, *exchange.choices(light, heavy))
    if not len(there) or not len(back):
        return False
    # For each replica that may go: the largest that may come back and leaves a shift of at least
    # `wanted`.
    partner = np.clip(
        np.searchsorted(sizes[back], sizes[there] - wanted, side="right") - 1, 0, None
    )
    shift = sizes[there] - sizes[back[partner]]
    usable = (
        (shift > 0)
        & (shift <= most)
        & (there != back[partner])
        & (sizes[there] <= exchange.room(light))
    )
    if not usable.any():
        return False
    worse = _topic_loss(placement, there, heavy, light) + _topic_loss(
        placement, back[partner], light, heavy
    )
    order = np.lexsort((there, np.abs(shift - wanted), worse > 0, ~usable))
    chosen = int(order[0])
    returned = int(partner[chosen])
    exchange.pass_on(there[[chosen]], there_at[[chosen]], light)
    exchange.pass_on(back[[returned]], back_at[[returned]], heavy)
    return True


def _by_size(placement: Placement, partitions: Ints, positions: Ints) -> tuple[Ints, Ints]:
    order = np.lexsort((partitions, placement.cluster.size_bytes[partitions]))
    return partitions[order], positions[order]


def _topic_loss(placement: Placement, partitions: Ints, source: int, destination: int) -> Ints:
    """1 where a topic gets less even by the move, else 0."""
    counts, topics = placement.topic_counts, placement.cluster.topic_numbers[partitions]
    return np.asarray(counts[topics, source] <= counts[topics, destination], dtype=np.int64)
