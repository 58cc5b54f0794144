"""How many replicas and bytes each broker should hold in the end.

    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, tolerance_percent=10)

Givers may only fall, takers may only rise, all others stay as they are; within that, counts are as even as the racks
allow. Replicas of partitions that the plan leaves alone stay where they are and are part of each broker's count.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.planning.arrays import UNBOUNDED, Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.racks import RackRoom, rack_room
from counterpoise.planning.roles import Roles
from counterpoise.planning.water import fill_racks


@dataclass(frozen=True, slots=True, eq=False)
class ByteBand:
    """Per broker: the fair share of bytes, and how far below and above it still counts as even."""

    fair: Ints
    lowest: Ints
    highest: Ints


def count_targets(placement: Placement, roles: Roles, limit: Ints | None = None) -> Ints:
    """Replicas per broker in the end; takers get no more than their `limit`. Brokers that leave get 0."""
    counts = placement.counts
    fixed = _fixed(placement)
    upper = np.where(roles.takers, np.maximum(counts, UNBOUNDED if limit is None else limit), counts)
    upper = np.where(roles.leaving, 0, upper)
    lower = np.where(roles.leaving, 0, np.where(roles.givers, fixed, counts))
    return _filled(placement, int(counts.sum()), lower, upper, counts, rack_room(placement, roles.staying))


def fair_counts(placement: Placement, roles: Roles) -> Ints:
    """The most replicas that are a fair share for each broker: the mean, rounded up, that its rack allows.

    New brokers stop here even where old ones hold more for lack of moves among themselves, which is for `rebalance`.
    """
    even = count_targets(placement, roles.anyone)
    return even + np.isin(even + 1, even[roles.sharing])


def byte_band(placement: Placement, roles: Roles, tolerance_percent: int) -> ByteBand:
    """The fair share of bytes over all brokers that stay, as the racks allow it, and the band around it."""
    held = placement.bytes_held
    outside = np.where(roles.leaving, 0, held)  # of brokers that neither give nor take
    lower, upper = np.where(roles.sharing, 0, outside), np.where(roles.sharing, UNBOUNDED, outside)
    room = rack_room(placement, roles.staying, placement.cluster.size_bytes)
    fair = _filled(placement, int(held.sum()), lower, upper, held, room)
    slack = fair * tolerance_percent // 100
    return ByteBand(fair, fair - slack, fair + slack)


def _filled(placement: Placement, total: int, lower: Ints, upper: Ints, current: Ints, room: RackRoom) -> Ints:
    return fill_racks(total, lower, upper, current, placement.cluster.racks, room.lowest, room.highest)


def _fixed(placement: Placement) -> Ints:
    """Replicas that each broker holds of partitions that the plan leaves alone."""
    unmovable = np.where(placement.cluster.may_change[:, None], -1, placement.replicas)
    return placement.cluster.load(unmovable)
