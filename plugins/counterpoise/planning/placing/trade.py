"""Trading arrivals: a broker out of its band gets another replica of the same source instead.

    trade_arrivals(placement, roles, band)

After `spread` a destination may miss some bytes, or have too many, since whole replicas do not add
up. If one of its arrivals goes back to the broker it came from, and that broker gives a larger or a
smaller one instead, no more replicas are copied than before.

Worked example: broker 4 misses 3 GB of its band. A replica of 5 GB came to it from broker 1, which
also has one of 8 GB that did not move: the 5 GB replica stays on broker 1 and the 8 GB one moves.

Only what this costs too much is left for exchanges.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.roles import Roles

_MAX_TRADES_PER_BROKER = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Arrivals:
    """Replicas that this plan moves from `source` to `destination`."""

    source: int
    destination: int
    partitions: Ints
    positions: Ints


def trade_arrivals(placement: Placement, roles: Roles, band: ByteBand) -> None:
    """Trade until every broker is in the band, or no trade brings one nearer."""
    if not placement.new_replicas.any():
        return
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources)
    is_hopeless, has_traded = ~roles.sharing, False
    for _ in range(_MAX_TRADES_PER_BROKER * placement.cluster.broker_count):
        held = placement.bytes_held
        bytes_off = np.maximum(held - band.highest, band.lowest - held)
        bytes_off[is_hopeless] = 0
        worst = int(np.argmax(bytes_off))
        if bytes_off[worst] > 0:
            is_traded = _trade(placement, movable_replicas, band.inner, worst)
            has_traded |= is_traded
            is_hopeless[worst] = not is_traded
        elif has_traded:
            # The trades since may have made others possible.
            is_hopeless, has_traded = ~roles.sharing, False
        else:
            return


def _trade(
    placement: Placement, movable_replicas: MovableReplicas, band: ByteBand, broker: int
) -> bool:
    """Bring one broker into its band, or nearer, without taking another one out of its own."""
    held = placement.bytes_held
    wanted = int(np.clip(held[broker], band.lowest[broker], band.highest[broker]))
    to_gain = wanted - int(held[broker])
    slack = held - band.lowest if to_gain > 0 else band.highest - held  # of the other broker
    for receives in (True, False):
        gain_of_destination = to_gain if receives else -to_gain
        for arrivals in _arrivals(placement, broker, receives, slack):
            other = arrivals.source if receives else arrivals.destination
            if slack[other] <= 0:
                continue
            max_shift = int(slack[other])
            if _trade_one(placement, movable_replicas, arrivals, gain_of_destination, max_shift):
                return True
    return False


def _arrivals(
    placement: Placement, broker: int, receives: bool, slack: Ints
) -> Iterator[_Arrivals]:
    """Yield what came to a broker in this plan, or left it, by the broker at the other end.

    The one with most slack comes first.
    """
    changed = np.flatnonzero(placement.cluster.may_change & (placement.new_replicas > 0))
    original, now = placement.original[changed], placement.replicas[changed]
    own_side, other_side = (now, original) if receives else (original, now)
    is_arrival = (now != original) & (own_side == broker) & (other_side >= 0)
    rows, positions = np.nonzero(is_arrival)
    # A partition that came back to its source by another way could not be traded cleanly.
    sources = original[rows, positions]
    is_clean = ~(now[rows] == sources[:, None]).any(axis=1)
    rows, positions = rows[is_clean], positions[is_clean]
    partitions, others = changed[rows], other_side[rows, positions]
    unique = np.unique(others)
    by_slack = unique[np.lexsort((unique, -slack[unique]))]
    for other in by_slack.tolist():
        is_own = others == other
        source, destination = (other, broker) if receives else (broker, other)
        yield _Arrivals(source, destination, partitions[is_own], positions[is_own])


def _trade_one(
    placement: Placement,
    movable_replicas: MovableReplicas,
    arrivals: _Arrivals,
    gain: int,
    max_shift: int,
) -> bool:
    """Replace one arrival by another replica of its source; False when no trade helps.

    The destination should gain `gain` bytes (lose some, below 0), and no more than `max_shift`.
    """
    source, destination = arrivals.source, arrivals.destination
    racks, all_sizes = placement.cluster.racks, placement.cluster.size_bytes
    # What came for the sake of racks must not go back.
    may_return = placement.suits(arrivals.partitions, arrivals.positions, int(racks[source]))
    returning, returning_at = arrivals.partitions[may_return], arrivals.positions[may_return]
    going, going_at = movable_replicas.suiting(source, int(racks[destination]), placement)
    is_usable = ~placement.holds(destination, going) & (placement.new_replicas[going] == 0)
    going, going_at = going[is_usable], going_at[is_usable]
    if not len(going) or not len(returning):
        return False
    direction = 1 if gain > 0 else -1
    reach = min(abs(gain), max_shift)
    going_sizes, returning_sizes = all_sizes[going], all_sizes[returning]
    wanted_sizes = returning_sizes + direction * reach
    # The smallest that is large enough, or the largest that is small enough.
    if gain > 0:
        nearest = np.searchsorted(going_sizes, wanted_sizes, side="left")
    else:
        nearest = np.searchsorted(going_sizes, wanted_sizes, side="right") - 1
    nearest = np.clip(nearest, 0, len(going) - 1)
    gained = going_sizes[nearest] - returning_sizes
    shifts = gained * direction
    has_room = gained <= placement.room[destination]
    is_good = (shifts > 0) & (shifts <= max_shift) & has_room
    if not is_good.any():
        return False
    distances = np.where(is_good, np.abs(shifts - reach), np.iinfo(np.int64).max)
    best = int(np.lexsort((returning, distances))[0])
    placement.give(int(returning[best]), int(returning_at[best]), source)
    placement.touched[returning[best]] = False
    chosen = int(nearest[best])
    placement.give(int(going[chosen]), int(going_at[chosen]), destination)
    return True
