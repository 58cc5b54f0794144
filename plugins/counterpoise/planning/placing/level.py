"""The finishing steps: single moves that even out counts, and exchanges that bring bytes into the
band.

    level_counts(placement, roles, band, shares, limit)
    exchange_bytes(placement, roles, band)

`spread` reaches its targets wherever racks are regular. These two close what it could not: small
clusters, mixed replication factors, partitions that already gave a replica. Each step strictly
evens something, so they end.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.placing.racks import rack_room
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.roles import Roles

_MOST_EXCHANGES_PER_BROKER = 20


def level_counts(
    placement: Placement, roles: Roles, band: ByteBand, shares: TopicShares, limit: Ints
) -> None:
    """Moves single replicas from brokers to such with at least two fewer and below their `limit`,
    while it can.
    """
    impossible: set[tuple[int, int]] = set()
    if rack_room(placement, roles.staying).is_closed:
        racks = placement.cluster.racks
        sources, destinations = np.flatnonzero(roles.sources), np.flatnonzero(roles.destinations)
        impossible = {
            (g, t) for g in sources.tolist() for t in destinations.tolist() if racks[g] != racks[t]
        }
    while (pair := _uneven_pair(placement, roles, limit, impossible)) is not None:
        source, destination = pair
        wanted = max(0, int(band.lowest[destination] - placement.bytes_held[destination]))
        if not _move_one(placement, shares, source, destination, wanted):
            impossible.add(pair)


def _uneven_pair(
    placement: Placement, roles: Roles, limit: Ints, impossible: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """The fullest giver and the emptiest taker that differ by two or more and have not been tried
    in vain.
    """
    counts = placement.counts
    destinations = np.flatnonzero(roles.destinations & (counts < limit))
    sources = np.flatnonzero(roles.sources)
    destinations = destinations[np.lexsort((destinations, counts[destinations]))]
    sources = sources[np.lexsort((sources, -counts[sources]))]
    for destination in destinations.tolist():
        for source in sources.tolist():
            if counts[source] < counts[destination] + 2:
                break
            if (source, destination) not in impossible:
                return source, destination
    return None


def _move_one(
    placement: Placement, shares: TopicShares, source: int, destination: int, wanted_bytes: int
) -> bool:
    """Moves one replica: of a partition with no other new one, of a topic that gets no less even,
    nearest in size.
    """
    partitions, positions = placement.replicas_on(source)
    usable = ~placement.holds(destination, partitions)
    usable &= placement.suits(partitions, positions, int(placement.cluster.racks[destination]))
    usable &= placement.cluster.size_bytes[partitions] <= placement.room[destination]
    usable &= placement.keeps_one(partitions, positions)
    # A replica that came here in this plan moves on at no further cost; its partition is touched
    # all the same.
    if not usable.any():
        return False
    partitions, positions = partitions[usable], positions[usable]
    off = np.abs(placement.cluster.size_bytes[partitions] - wanted_bytes)
    harm = shares.harm(placement, partitions, source, destination)
    several = np.maximum(1, placement.news_after(partitions, positions))
    at = int(np.lexsort((partitions, off, harm, several))[0])
    placement.give(int(partitions[at]), int(positions[at]), destination)
    return True


def exchange_bytes(placement: Placement, roles: Roles, band: ByteBand) -> None:
    """Exchanges a large replica for a small one between two brokers until all are in the band,
    counts kept.

    For goals where every broker may give and take. Where counts differ, a single move does.
    """
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources)
    for _ in range(_MOST_EXCHANGES_PER_BROKER * placement.cluster.broker_count):
        if not _exchange_once(placement, movable_replicas, roles, band):
            return


def _exchange_once(
    placement: Placement, movable_replicas: MovableReplicas, roles: Roles, band: ByteBand
) -> bool:
    held = placement.bytes_held
    able = np.flatnonzero(roles.destinations & roles.sources)
    above, below = held[able] - band.highest[able], band.lowest[able] - held[able]
    if not len(able) or max(above.max(), below.max()) <= 0:
        return False
    over_fair = held[able] - band.fair[able]
    if above.max() >= below.max():
        heavy = able[int(np.argmax(above))]
        others = able[np.argsort(over_fair, kind="stable")]
        return any(
            _shift(placement, movable_replicas, band, int(heavy), int(other))
            for other in others
            if other != heavy
        )
    light = able[int(np.argmax(below))]
    others = able[np.argsort(-over_fair, kind="stable")]
    return any(
        _shift(placement, movable_replicas, band, int(other), int(light))
        for other in others
        if other != light
    )


def _shift(
    placement: Placement, movable_replicas: MovableReplicas, band: ByteBand, heavy: int, light: int
) -> bool:
    """Shifts bytes from one broker to another; False when no move or exchange helps both."""
    held, sizes = placement.bytes_held, placement.cluster.size_bytes
    # As much as brings the worse of the two into its band, and never so much that the other one
    # leaves its own.
    helpful = max(int(held[heavy] - band.highest[heavy]), int(band.lowest[light] - held[light]), 1)
    most = min(int(held[heavy] - band.lowest[heavy]), int(band.highest[light] - held[light]))
    if most <= 0:
        return False
    there, there_at = _exchangeable(placement, movable_replicas, heavy, light)
    if placement.counts[heavy] > placement.counts[light]:
        chosen = _fitting(there, sizes[there], min(helpful, most), most)
    else:
        back, back_at = _exchangeable(placement, movable_replicas, light, heavy)
        if not len(back):
            return False
        keep = there != back[0]
        there, there_at = there[keep], there_at[keep]
        chosen = _fitting(there, sizes[there] - sizes[back[0]], min(helpful, most), most)
        if chosen is not None:
            placement.give(int(back[0]), int(back_at[0]), heavy)
    if chosen is None:
        return False
    placement.give(int(there[chosen]), int(there_at[chosen]), light)
    return True


def _fitting(partitions: Ints, shifts: Ints, wanted: int, most: int) -> int | None:
    """Position of the smallest shift that reaches `wanted`, else of the largest below; None when
    none is usable.
    """
    usable = np.flatnonzero((shifts > 0) & (shifts <= most))
    if not len(usable):
        return None
    short = np.maximum(0, wanted - shifts[usable])
    return int(usable[np.lexsort((partitions[usable], shifts[usable], short))[0]])


def _exchangeable(
    placement: Placement, movable_replicas: MovableReplicas, source: int, destination: int
) -> tuple[Ints, Ints]:
    """What a broker may give to another one, smallest first."""
    partitions, positions = movable_replicas.suiting(
        source, int(placement.cluster.racks[destination]), placement
    )
    usable = ~placement.holds(destination, partitions) & (
        placement.cluster.size_bytes[partitions] <= placement.room[destination]
    )
    return partitions[usable], positions[usable]
