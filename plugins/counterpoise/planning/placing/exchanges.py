"""Exchanges: two brokers exchange replicas, so that bytes get more even and counts stay. Before
them single moves, for what counts still lack.

    level_counts(placement, roles, band, shares, max_counts)
    trade_arrivals(placement, roles, band)             # copies no more replicas than before
    exchange_bytes(placement, roles, band)             # copies two more

Searches for traffic and for leaders go the same way (`improve_worst`, `best_with`):

    for the broker that is farthest out of its band, and each broker at the other end:
        wanted, most = the bytes that should go from the heavy to the light one, and that may go
        give a large replica for a small one whose difference is near `wanted`, below `most`
    until all are in the band, or no exchange helps

Worked example: brokers 1 and 2 hold 3 replicas each, of 9 + 2 + 1 and 1 + 1 + 1 GB, and the band
reaches from 6.5 to 8.5 GB. Broker 1 holds 12 GB, 3.5 too many, broker 2 holds 3 GB, 3.5 too few.
The smallest of broker 2 (1 GB) comes back, and broker 1 gives the smallest replica that makes a
difference of 3.5 GB or more, but no more than 5.5 (or else it would leave the band itself): 9 - 1
is 8 and too much, so it is the largest below, 2 - 1 = 1 GB. The next exchange starts from there.

Limits: local searches of exchanges of two, so bytes are not exact.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.fair_shares import TopicShares, rack_bounds
from counterpoise.planning.placement import MovableReplicas, Placement, Replicas, Roles

MAX_EXCHANGES_PER_BROKER: Final = 20
MAX_PARTNERS: Final = 12
AIM_PERCENT: Final = 75  # of the tolerance, so that slightly other rates start nothing new
_MAX_SAMPLE: Final = 200
_MIN_GAINS_IN_MEAN: Final = 2000


# -- what all searches by exchange share, of replicas and of leaders


class Scored(Protocol):
    """An exchange that has been weighed against others."""

    @property
    def score(self) -> float: ...


_Exchange = TypeVar("_Exchange", bound=Scored)


def improve_worst(
    is_counted: Flags,
    find_outside: Callable[[], Ints],
    improve: Callable[[int], bool],
    *,
    max_steps: int = UNBOUNDED,
    tries_again: bool = True,
) -> bool:
    """Improve the counted broker that is farthest outside, until none can be improved.

    A broker that cannot be (`improve` returns False) is passed over. When no other is outside, what
    has changed since may have made it possible: with `tries_again` all are tried again. Return
    whether any was improved.
    """
    is_hopeless = ~is_counted
    has_changed = was_improved = False
    for _ in range(max_steps):
        outside = np.where(is_hopeless, 0, find_outside())
        worst = int(np.argmax(outside))
        if outside[worst] > 0:
            is_improved = improve(worst)
            is_hopeless[worst] = not is_improved
            has_changed |= is_improved
        elif has_changed and tries_again:
            is_hopeless, has_changed, was_improved = ~is_counted, False, True
        else:
            break
    return has_changed or was_improved


def pairs_with(
    broker: int, able: Ints, above_fair: Ints, max_partners: int | None = None
) -> list[tuple[int, int]]:
    """Return pairs (heavy, light) of a broker and others that are able, the other end first.

    `above_fair` has, for every broker, what it has above its fair share. The able brokers up to
    `max_partners` count, the broker itself among them.
    """
    is_heavy = bool(above_fair[broker] > 0)
    order = np.lexsort((able, above_fair[able] if is_heavy else -above_fair[able]))
    partners = [other for other in able[order][:max_partners].tolist() if other != broker]
    return [(broker, other) if is_heavy else (other, broker) for other in partners]


def best_with(
    broker: int,
    able: Ints,
    above_fair: Ints,
    best_of_pair: Callable[[int, int], _Exchange | None],
    max_partners: int = MAX_PARTNERS,
) -> _Exchange | None:
    """Return the exchange with the highest score of a broker and one at the other end; or None."""
    found = [
        best_of_pair(heavy, light)
        for heavy, light in pairs_with(broker, able, above_fair, max_partners)
        if above_fair[heavy] > above_fair[light]
    ]
    return max(filter(None, found), key=lambda exchange: exchange.score, default=None)


def min_gain_of(band: ByteBand) -> int:
    """Return the bytes per second below which a gain is not worth a change."""
    return max(1, int(band.fair.max(initial=0)) // _MIN_GAINS_IN_MEAN)


def sample_by_rate(partitions: Ints, rates: Ints) -> Ints:
    """Return rows of `partitions` from the lowest rate to the highest, in even steps.

    `rates` has one for each partition of the cluster.
    """
    order = np.lexsort((partitions, rates[partitions]))
    if len(order) <= _MAX_SAMPLE:
        return order
    return np.asarray(order[np.linspace(0, len(order) - 1, _MAX_SAMPLE).astype(np.int64)])


# -- bytes, where all brokers may give and receive


def exchange_bytes(placement: Placement, roles: Roles, band: ByteBand) -> None:
    """Exchange large replicas for small ones between two brokers until all are in the band.

    For goals where every broker may give and receive. Counts are kept; where they differ, a single
    move does.
    """
    able = np.flatnonzero(roles.destinations & roles.sources)
    if not len(able):
        return
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources)
    for _ in range(MAX_EXCHANGES_PER_BROKER * placement.cluster.broker_count):
        bytes_held = placement.bytes_held
        above, below = bytes_held[able] - band.highest[able], band.lowest[able] - bytes_held[able]
        outside = above if above.max() >= below.max() else below
        worst = int(np.argmax(outside))
        if outside[worst] <= 0:
            return
        pairs = pairs_with(int(able[worst]), able, bytes_held - band.fair)
        if not any(_exchange(movable_replicas, band, heavy, light) for heavy, light in pairs):
            return


def _exchange(movable_replicas: MovableReplicas, band: ByteBand, heavy: int, light: int) -> bool:
    """Shift bytes from one broker to another; False when no move or exchange helps both."""
    placement = movable_replicas.placement
    sizes = placement.cluster.size_bytes
    wanted, max_shift = band.wanted_shift(placement.bytes_held, heavy, light)
    if max_shift <= 0:
        return False
    going = movable_replicas.receivable(heavy, light)
    if placement.counts[heavy] > placement.counts[light]:
        chosen = _nearest_shift(going.partitions, sizes[going.partitions], wanted, max_shift)
    else:
        returning = movable_replicas.receivable(light, heavy)
        if not len(returning.partitions):
            return False
        smallest = int(returning.partitions[0])
        going = going.only(going.partitions != smallest)
        shifts = sizes[going.partitions] - sizes[smallest]
        chosen = _nearest_shift(going.partitions, shifts, wanted, max_shift)
        if chosen is not None:
            placement.give(*returning.one(0), heavy)
    if chosen is None:
        return False
    placement.give(*going.one(chosen), light)
    return True


def _nearest_shift(partitions: Ints, shifts: Ints, wanted: int, max_shift: int) -> int | None:
    """Return the position of the smallest shift that reaches `wanted`, else of the largest below.

    None when no shift is above 0 and at most `max_shift`.
    """
    usable = np.flatnonzero((shifts > 0) & (shifts <= max_shift))
    if not len(usable):
        return None
    lacking = np.maximum(0, wanted - shifts[usable])
    return int(usable[np.lexsort((partitions[usable], shifts[usable], lacking))[0]])


# -- bytes, with what has come in this plan


def trade_arrivals(placement: Placement, roles: Roles, band: ByteBand) -> None:
    """Trade until every broker is in the band, or no trade brings one nearer.

    After `spread` a destination may miss some bytes, or have too many, since whole replicas do not
    add up. If one of its arrivals goes back to the broker it came from, and that broker gives a
    larger or a smaller one instead, no more replicas are copied than before.

    Worked example: broker 4 misses 3 GB of its band. A replica of 5 GB came to it from broker 1,
    which also has one of 8 GB that did not move: the 5 GB replica stays on broker 1 and the 8 GB
    one moves.
    """
    if not placement.new_replicas.any():
        return
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources)
    improve_worst(
        roles.sharing,
        lambda: band.bytes_outside(placement.bytes_held),
        lambda broker: _trade(movable_replicas, band.inner, broker),
        max_steps=MAX_EXCHANGES_PER_BROKER * placement.cluster.broker_count,
    )


def _trade(movable_replicas: MovableReplicas, band: ByteBand, broker: int) -> bool:
    """Move one broker nearer to its band, keeping others in theirs; return whether it did."""
    bytes_held = movable_replicas.placement.bytes_held
    wanted = int(np.clip(bytes_held[broker], band.lowest[broker], band.highest[broker]))
    to_gain = wanted - int(bytes_held[broker])
    # of the other broker
    slack = bytes_held - band.lowest if to_gain > 0 else band.highest - bytes_held
    for receives in (True, False):
        gain = to_gain if receives else -to_gain  # of the destination
        for other, arrivals in _arrivals(movable_replicas.placement, broker, receives, slack):
            source, destination = (other, broker) if receives else (broker, other)
            max_shift = int(slack[other])
            if max_shift > 0 and _trade_one(
                movable_replicas, arrivals, source, destination, gain, max_shift
            ):
                return True
    return False


def _arrivals(
    placement: Placement, broker: int, receives: bool, slack: Ints
) -> Iterator[tuple[int, Replicas]]:
    """Yield what came to a broker in this plan, or left it, by the broker at the other end.

    The one with most slack comes first.
    """
    changed = np.flatnonzero(placement.cluster.may_change & (placement.new_replicas > 0))
    original, replicas = placement.original[changed], placement.replicas[changed]
    own_side, other_side = (replicas, original) if receives else (original, replicas)
    is_arrival = (replicas != original) & (own_side == broker) & (other_side >= 0)
    rows, positions = np.nonzero(is_arrival)
    # A partition that came back to its source by another way could not be traded cleanly.
    sources = original[rows, positions]
    is_clean = ~(replicas[rows] == sources[:, None]).any(axis=1)
    rows, positions = rows[is_clean], positions[is_clean]
    arrivals, others = Replicas(changed[rows], positions), other_side[rows, positions]
    unique = np.unique(others)
    by_slack = unique[np.lexsort((unique, -slack[unique]))]
    for other in by_slack.tolist():
        yield other, arrivals.only(others == other)


def _trade_one(
    movable_replicas: MovableReplicas,
    arrivals: Replicas,
    source: int,
    destination: int,
    gain: int,
    max_shift: int,
) -> bool:
    """Replace one arrival by another replica of its source; False when no trade helps.

    The destination should gain `gain` bytes (lose some, below 0), and no more than `max_shift`.
    """
    placement = movable_replicas.placement
    sizes = placement.cluster.size_bytes
    # What came for the sake of racks must not go back.
    returning = arrivals.only(placement.suits(arrivals, int(placement.cluster.racks[source])))
    going = movable_replicas.of(source)
    is_usable = placement.may_receive(going, destination)
    going = going.only(is_usable & (placement.new_replicas[going.partitions] == 0))
    if not len(going.partitions) or not len(returning.partitions):
        return False
    direction = 1 if gain > 0 else -1
    reach = min(abs(gain), max_shift)
    going_sizes, returning_sizes = sizes[going.partitions], sizes[returning.partitions]
    wanted_sizes = returning_sizes + direction * reach
    # The smallest that is large enough, or the largest that is small enough.
    if gain > 0:
        nearest = np.searchsorted(going_sizes, wanted_sizes, side="left")
    else:
        nearest = np.searchsorted(going_sizes, wanted_sizes, side="right") - 1
    nearest = np.clip(nearest, 0, len(going_sizes) - 1)
    gained = going_sizes[nearest] - returning_sizes
    shifts = gained * direction
    has_room = gained <= placement.room[destination]
    is_good = (shifts > 0) & (shifts <= max_shift) & has_room
    if not is_good.any():
        return False
    distances = np.abs(shifts - reach)
    best = int(np.lexsort((returning.partitions, distances, ~is_good))[0])
    placement.give(*returning.one(best), source)
    placement.touched[returning.partitions[best]] = False
    placement.give(*going.one(int(nearest[best])), destination)
    return True


# -- single moves


def level_counts(
    placement: Placement, roles: Roles, band: ByteBand, shares: TopicShares, max_counts: Ints
) -> None:
    """Move single replicas to brokers that hold two fewer and are below their `max_counts`."""
    impossible = _pairs_across_closed_racks(placement, roles)
    while (pair := _uneven_pair(placement, roles, max_counts, impossible)) is not None:
        source, destination = pair
        missing_bytes = int(band.lowest[destination] - placement.bytes_held[destination])
        if not _move_one(placement, shares, source, destination, max(0, missing_bytes)):
            impossible.add(pair)


def _pairs_across_closed_racks(placement: Placement, roles: Roles) -> set[tuple[int, int]]:
    """Return the pairs (source, destination) in two racks, where replicas may not cross racks."""
    if not rack_bounds(placement, roles).is_closed:
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
    placement: Placement, roles: Roles, max_counts: Ints, impossible: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the fullest source and the emptiest destination that differ by two or more.

    None when all such pairs have been tried in vain.
    """
    counts = placement.counts
    destinations = np.flatnonzero(roles.destinations & (counts < max_counts))
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
    is_movable = (placement.replicas == source) & placement.cluster.may_change[:, None]
    replicas = Replicas(*np.nonzero(is_movable))
    is_usable = placement.may_receive(replicas, destination)
    is_usable &= placement.has_room(replicas, destination) & placement.keeps_one(replicas)
    if not is_usable.any():
        return False
    replicas = replicas.only(is_usable)
    partitions = replicas.partitions
    distances = np.abs(placement.cluster.size_bytes[partitions] - wanted_bytes)
    harm = shares.harm(placement, partitions, source, destination)
    new_replicas = np.maximum(1, placement.new_replicas_after(replicas))
    best = int(np.lexsort((partitions, distances, harm, new_replicas))[0])
    placement.give(*replicas.one(best), destination)
    return True
