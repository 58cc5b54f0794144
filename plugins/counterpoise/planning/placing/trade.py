"""Trading arrivals: a broker that would be out of its band gets another replica of the same giver,
at no further copy.

    trade_arrivals(placement, roles, band)

After `spread` a taker may miss some bytes, or have too many, since whole replicas do not add up.
Where one of its arrivals goes back to the broker it came from and that broker gives a larger or
smaller one instead, as many replicas are copied as before. Only what this costs too much is left
for exchanges.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.roles import Roles

_MOST_TRADES_PER_BROKER = 20


def trade_arrivals(placement: Placement, roles: Roles, band: ByteBand) -> None:
    """Until every broker is in the band, or no trade brings one nearer."""
    if not placement.new_replicas.any():
        return
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources)
    hopeless, has_traded = ~roles.sharing, False
    for _ in range(_MOST_TRADES_PER_BROKER * placement.cluster.broker_count):
        held = placement.bytes_held
        off = np.maximum(held - band.highest, band.lowest - held)
        off[hopeless] = 0
        worst = int(np.argmax(off))
        if off[worst] > 0:
            is_traded = _trade(placement, movable_replicas, band.inner, worst)
            has_traded |= is_traded
            hopeless[worst] = not is_traded
        elif has_traded:
            hopeless, has_traded = ~roles.sharing, False  # the trades since may have opened a way
        else:
            return


def _trade(
    placement: Placement, movable_replicas: MovableReplicas, band: ByteBand, broker: int
) -> bool:
    """Brings one broker into its band, or nearer, without taking another one out of its own."""
    shift = int(np.clip(placement.bytes_held[broker], band.lowest[broker], band.highest[broker]))
    shift -= int(placement.bytes_held[broker])  # what the broker has to gain, or less than 0
    slack = (
        placement.bytes_held - band.lowest if shift > 0 else band.highest - placement.bytes_held
    )  # of the other one
    for receives in (True, False):
        partitions, positions, others = _arrivals(placement, broker, receives)
        for other in _by_slack(others, slack):
            mine = others == other
            source, destination = (other, broker) if receives else (broker, other)
            gain = shift if receives else -shift  # of the taker
            if slack[other] > 0 and _trade_one(
                placement,
                movable_replicas,
                (source, destination),
                partitions[mine],
                positions[mine],
                gain,
                int(slack[other]),
            ):
                return True
    return False


def _arrivals(placement: Placement, broker: int, receives: bool) -> tuple[Ints, Ints, Ints]:
    """What came to a broker in this plan, or left it, and the broker at the other end."""
    changed = np.flatnonzero(placement.cluster.may_change & (placement.new_replicas > 0))
    original, now = placement.original[changed], placement.replicas[changed]
    here, there = (now, original) if receives else (original, now)
    rows, positions = np.nonzero((now != original) & (here == broker) & (there >= 0))
    others = there[rows, positions]
    # A partition that came back to this end by another way could not be traded cleanly.
    clean = ~(now[rows] == original[rows, positions][:, None]).any(axis=1)
    return changed[rows[clean]], positions[clean], others[clean]


def _by_slack(brokers: Ints, slack: Ints) -> list[int]:
    unique = np.unique(brokers)
    return list(unique[np.lexsort((unique, -slack[unique]))].tolist())


def _trade_one(
    placement: Placement,
    movable_replicas: MovableReplicas,
    ends: tuple[int, int],
    partitions: Ints,
    positions: Ints,
    gain: int,
    slack: int,
) -> bool:
    """Replaces one arrival by another replica of its giver whose size differs by `gain`, or less
    far by `slack`.
    """
    source, destination = ends
    sizes = placement.cluster.size_bytes
    # What came for the sake of racks must not go back.
    returnable = placement.suits(partitions, positions, int(placement.cluster.racks[source]))
    partitions, positions = partitions[returnable], positions[returnable]
    mine, mine_at = movable_replicas.suiting(
        source, int(placement.cluster.racks[destination]), placement
    )
    usable = ~placement.holds(destination, mine) & (placement.new_replicas[mine] == 0)
    mine, mine_at = mine[usable], mine_at[usable]
    if not len(mine) or not len(partitions):
        return False
    reach = min(abs(gain), slack)
    wanted = sizes[partitions] + (reach if gain > 0 else -reach)
    at = np.searchsorted(sizes[mine], wanted, side="left" if gain > 0 else "right") - (gain < 0)
    at = np.clip(at, 0, len(mine) - 1)
    shifts = (sizes[mine[at]] - sizes[partitions]) * (1 if gain > 0 else -1)
    good = (
        (shifts > 0)
        & (shifts <= slack)
        & (sizes[mine[at]] - sizes[partitions] <= placement.room[destination])
    )
    if not good.any():
        return False
    off = np.where(good, np.abs(shifts - reach), np.iinfo(np.int64).max)
    best = int(np.lexsort((partitions, off))[0])
    placement.give(int(partitions[best]), int(positions[best]), source)
    placement.touched[partitions[best]] = False
    placement.give(int(mine[at[best]]), int(mine_at[at[best]]), destination)
    return True
