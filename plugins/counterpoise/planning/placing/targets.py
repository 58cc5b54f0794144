"""How many replicas and bytes each broker should hold in the end.

    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, tolerance_percent=10)

Givers may only fall, takers may only rise, all others stay as they are; within that, counts are as
even as the racks allow. Replicas of partitions that the plan leaves alone stay where they are and
are part of each broker's count.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import rack_room
from counterpoise.planning.roles import Roles
from counterpoise.planning.water_filling import Weights, fill_racks


def count_targets(placement: Placement, roles: Roles, limit: Ints | None = None) -> Ints:
    """Replicas per broker in the end; takers get no more than their `limit`.

    Brokers that leave get 0.
    """
    counts = placement.counts
    fixed = _fixed(placement)
    upper = np.where(
        roles.destinations, np.maximum(counts, UNBOUNDED if limit is None else limit), counts
    )
    upper = np.where(roles.leaving, 0, upper)
    lower = np.where(roles.leaving, 0, np.where(roles.sources, fixed, counts))
    room = rack_room(placement, roles.staying)
    return fill_racks(
        int(counts.sum()),
        lower,
        upper,
        counts,
        placement.cluster.racks,
        (room.lowest, room.highest),
    )


def fair_counts(placement: Placement, roles: Roles) -> Ints:
    """The most replicas that are a fair share for each broker: the mean, rounded up, that its rack
    allows.

    New brokers stop here even where old ones hold more for lack of moves among themselves, which is
    for `rebalance`.
    """
    even = count_targets(placement, roles.anyone)
    return even + np.isin(even + 1, even[roles.sharing])


def byte_band(placement: Placement, roles: Roles, tolerance_percent: int) -> ByteBand:
    """The fair share of bytes over all brokers that share, as the racks allow it, and the band
    around it.

    Shares follow the disk sizes (KIP-827) when every broker that shares tells its own.
    """
    held = placement.bytes_held
    outside = np.where(roles.leaving, 0, held)  # of brokers that neither give nor take
    lower, upper = np.where(roles.sharing, 0, outside), np.where(roles.sharing, UNBOUNDED, outside)
    room = rack_room(placement, roles.staying, placement.cluster.size_bytes)
    weights = disk_weights(placement.cluster, roles)
    fair = fill_racks(
        int(held.sum()),
        lower,
        upper,
        held,
        placement.cluster.racks,
        (room.lowest, room.highest),
        weights,
    )
    return ByteBand.around(fair, tolerance_percent)


def disk_weights(cluster: ClusterArrays, roles: Roles) -> Weights | None:
    """Each broker's disks relative to the largest; None where they are alike, or where one does not
    tell.
    """
    disks = cluster.disk_bytes[roles.sharing]
    if not len(disks) or disks.min() == 0 or disks.max() - disks.min() <= disks.max() // 100:
        return None
    return np.where(roles.sharing, cluster.disk_bytes / disks.max(), 1.0)


def _fixed(placement: Placement) -> Ints:
    """Replicas that each broker holds of partitions that the plan leaves alone."""
    unmovable = np.where(placement.cluster.may_change[:, None], -1, placement.replicas)
    return placement.cluster.load(unmovable)
