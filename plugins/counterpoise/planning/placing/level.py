"""The finishing steps: single moves that even counts out, exchanges that bring bytes into the band.

    level_counts(placement, roles, band, shares, limit)
    exchange_bytes(placement, roles, band)

`spread` reaches its targets wherever racks are regular. These two close what it could not: small
clusters, mixed replication factors, partitions that already gave a replica. Each step strictly
evens something, so they end.

Worked example: brokers 1 and 2 hold 3 replicas each, of 9 + 2 + 1 and 1 + 1 + 1 GB, and the band
reaches from 6.5 to 8.5 GB. Broker 1 holds 12 GB, 3.5 too many, broker 2 holds 3 GB, 3.5 too few.
The smallest of broker 2 (1 GB) comes back, and broker 1 gives the smallest replica that makes a
difference of 3.5 GB or more, but no more than 5.5 (or else it would leave the band itself): 9 - 1
is 8 and too much, so it is the largest below, 2 - 1 = 1 GB. The next exchange starts from there.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.placing.racks import rack_bounds
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.roles import Roles

_MAX_EXCHANGES_PER_BROKER = 20


def level_counts(
    placement: Placement, roles: Roles, band: ByteBand, shares: TopicShares, limit: Ints
) -> None:
    """Move single replicas to brokers that hold at least two fewer and are below their `limit`."""
    impossible = _pairs_across_closed_racks(placement, roles)
    while (pair := _uneven_pair(placement, roles, limit, impossible)) is not None:
        source, destination = pair
        missing_bytes = int(band.lowest[destination] - placement.bytes_held[destination])
        if not _move_one(placement, shares, source, destination, max(0, missing_bytes)):
            impossible.add(pair)


def _pairs_across_closed_racks(placement: Placement, roles: Roles) -> set[tuple[int, int]]:
    """Return the pairs (source, destination) in two racks, where replicas may not cross racks."""
    if not rack_bounds(placement, roles.staying).is_closed:
        return set()
    racks = placement.cluster.racks
    destinations = np.flatnonzero(roles.destinations).tolist()
    return {
        (source, destination)
        for source in np.flatnonzero(roles.sources).tolist()
        for destination in destinations
        if racks[source] != racks[destination]
    }


def _uneven_pair(
    placement: Placement, roles: Roles, limit: Ints, impossible: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the fullest source and the emptiest destination that differ by two or more.

    None when all such pairs have been tried in vain.
    """
    counts = placement.counts
    destinations = np.flatnonzero(roles.destinations & (counts < limit))
    sources = np.flatnonzero(roles.sources)
    emptiest_first = destinations[np.lexsort((destinations, counts[destinations]))].tolist()
    fullest_first = sources[np.lexsort((sources, -counts[sources]))].tolist()
    for destination in emptiest_first:
        for source in fullest_first:
            if counts[source] < counts[destination] + 2:
                break
            if (source, destination) not in impossible:
                return source, destination
    return None


def _move_one(
    placement: Placement, shares: TopicShares, source: int, destination: int, wanted_bytes: int
) -> bool:
    """Move one replica; False when there is none that may go.

    First one whose partition has no other new replica, then one whose topic gets no less even, then
    the nearest in size to `wanted_bytes`. A replica that came here in this plan moves on at no
    further cost.
    """
    partitions, positions = placement.replicas_on(source)
    sizes = placement.cluster.size_bytes
    rack = int(placement.cluster.racks[destination])
    is_usable = ~placement.holds(destination, partitions)
    is_usable &= placement.suits(partitions, positions, rack)
    is_usable &= sizes[partitions] <= placement.room[destination]
    is_usable &= placement.keeps_one(partitions, positions)
    if not is_usable.any():
        return False
    partitions, positions = partitions[is_usable], positions[is_usable]
    distances = np.abs(sizes[partitions] - wanted_bytes)
    harm = shares.harm(placement, partitions, source, destination)
    new_replicas = np.maximum(1, placement.new_replicas_after(partitions, positions))
    best = int(np.lexsort((partitions, distances, harm, new_replicas))[0])
    placement.give(int(partitions[best]), int(positions[best]), destination)
    return True


def exchange_bytes(placement: Placement, roles: Roles, band: ByteBand) -> None:
    """Exchange large replicas for small ones between two brokers until all are in the band.

    For goals where every broker may give and receive. Counts are kept; where they differ, a single
    move does.
    """
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources)
    for _ in range(_MAX_EXCHANGES_PER_BROKER * placement.cluster.broker_count):
        if not _exchange_once(placement, movable_replicas, roles, band):
            return


def _exchange_once(
    placement: Placement, movable_replicas: MovableReplicas, roles: Roles, band: ByteBand
) -> bool:
    """Shift bytes from or to the broker that is farthest out of the band; False when none can."""
    able = np.flatnonzero(roles.destinations & roles.sources)
    if not len(able):
        return False
    held = placement.bytes_held[able]
    above, below = held - band.highest[able], band.lowest[able] - held
    if max(above.max(), below.max()) <= 0:
        return False
    over_fair = held - band.fair[able]
    if above.max() >= below.max():
        heavy = int(able[np.argmax(above)])
        lightest_first = able[np.argsort(over_fair, kind="stable")].tolist()
        pairs = [(heavy, light) for light in lightest_first if light != heavy]
    else:
        light = int(able[np.argmax(below)])
        heaviest_first = able[np.argsort(-over_fair, kind="stable")].tolist()
        pairs = [(heavy, light) for heavy in heaviest_first if heavy != light]
    return any(_shift(placement, movable_replicas, band, heavy, light) for heavy, light in pairs)


def _shift(
    placement: Placement, movable_replicas: MovableReplicas, band: ByteBand, heavy: int, light: int
) -> bool:
    """Shift bytes from one broker to another; False when no move or exchange helps both."""
    sizes = placement.cluster.size_bytes
    wanted, most = wanted_shift(placement, band, heavy, light)
    if most <= 0:
        return False
    going, going_at = movable_replicas.receivable(heavy, light, placement)
    if placement.counts[heavy] > placement.counts[light]:
        chosen = _nearest_shift(going, sizes[going], wanted, most)
    else:
        returning, returning_at = movable_replicas.receivable(light, heavy, placement)
        if not len(returning):
            return False
        smallest, smallest_at = int(returning[0]), int(returning_at[0])
        is_other = going != smallest
        going, going_at = going[is_other], going_at[is_other]
        chosen = _nearest_shift(going, sizes[going] - sizes[smallest], wanted, most)
        if chosen is not None:
            placement.give(smallest, smallest_at, heavy)
    if chosen is None:
        return False
    placement.give(int(going[chosen]), int(going_at[chosen]), light)
    return True


def wanted_shift(placement: Placement, band: ByteBand, heavy: int, light: int) -> tuple[int, int]:
    """Return how many bytes should go from `heavy` to `light`, and how many may go at most.

    As many as bring the worse of the two into its band, and never so many that one leaves it at the
    other end.
    """
    held = placement.bytes_held
    helpful = max(int(held[heavy] - band.highest[heavy]), int(band.lowest[light] - held[light]), 1)
    most = min(int(held[heavy] - band.lowest[heavy]), int(band.highest[light] - held[light]))
    return min(helpful, most), most


def _nearest_shift(partitions: Ints, shifts: Ints, wanted: int, most: int) -> int | None:
    """Return the position of the smallest shift that reaches `wanted`, else of the largest below.

    None when no shift is above 0 and at most `most`.
    """
    usable = np.flatnonzero((shifts > 0) & (shifts <= most))
    if not len(usable):
        return None
    lacking = np.maximum(0, wanted - shifts[usable])
    return int(usable[np.lexsort((partitions[usable], shifts[usable], lacking))[0]])
