"""From which rack to which: how many replicas the brokers of each rack give to the brokers of each
other rack.

    for lane in lanes(placement, roles, gives, takes): ...   # Lane(from_rack, to_rack, count)

Most replicas stay in their rack. What a rack has over goes to the racks that lack some, as far as
there are partitions whose other replicas are elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, slots=True)
class RackTransfer:
    from_rack: int
    to_rack: int
    count: int


def rack_transfers(placement: Placement, gives: Ints, takes: Ints) -> tuple[RackTransfer, ...]:
    """The lanes that bring `gives` (per broker) to `takes` (per broker), those inside a rack first."""
    racks = placement.cluster.racks
    rack_count = int(racks.max(initial=-1)) + 1
    offered = np.bincount(racks, weights=gives, minlength=rack_count).astype(np.int64)
    needed = np.bincount(racks, weights=takes, minlength=rack_count).astype(np.int64)
    inside = np.minimum(offered, needed)
    chosen = [
        RackTransfer(rack, rack, int(inside[rack])) for rack in np.flatnonzero(inside).tolist()
    ]
    offered, needed = offered - inside, needed - inside
    available = _available(placement, gives, offered, needed)
    for to_rack in np.flatnonzero(needed).tolist():
        sources = np.flatnonzero(offered)
        for from_rack in sources[np.lexsort((sources, -available[sources, to_rack]))].tolist():
            count = int(min(offered[from_rack], needed[to_rack], available[from_rack, to_rack]))
            if count:
                chosen.append(RackTransfer(from_rack, to_rack, count))
                offered[from_rack] -= count
                needed[to_rack] -= count
    return tuple(chosen)


def _available(placement: Placement, gives: Ints, offered: Ints, needed: Ints) -> Ints:
    """Untouched replicas of givers that suit each rack in need, by rack of the giver."""
    racks = placement.cluster.racks
    available = np.zeros((len(offered), len(needed)), dtype=np.int64)
    if not offered.any() or not needed.any():
        return available
    is_source = np.append((gives > 0) & (offered[racks] > 0), False)
    free = placement.cluster.may_change & ~placement.touched
    partitions, positions = np.nonzero(is_source[placement.replicas] & free[:, None])
    owners = racks[placement.replicas[partitions, positions]]
    for to_rack in np.flatnonzero(needed).tolist():
        suitable = placement.suits(partitions, positions, to_rack)
        available[:, to_rack] = np.bincount(owners[suitable], minlength=len(offered))
    return available


def split(total: int, parts: Ints) -> Ints:
    """`total` shared out in proportion to `parts`, never more than a part; the largest remainders
    round up.
    """
    whole = int(parts.sum())
    if total >= whole:
        return parts.copy()
    shares = parts * total // whole
    remainders = parts * total % whole
    order = np.lexsort((np.arange(len(parts)), -remainders))
    shares[order[: total - int(shares.sum())]] += 1
    return shares
