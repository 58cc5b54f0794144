"""Targets: how many replicas and bytes each broker should hold in the end.

    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, tolerance_percent=10)

    counts of sources may only fall, those of destinations only rise, all others stay
    brokers that leave get 0
    within that: water filling over racks and brokers

Worked example: brokers 1, 2 and 3 hold 6, 6 and 0 replicas and broker 3 is the only destination:
each gets 12 / 3 = 4, so brokers 1 and 2 give two replicas each.

Replicas of partitions that the plan leaves alone stay where they are and are part of each count.
"""

import numpy as np

from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import rack_bounds
from counterpoise.planning.roles import Roles
from counterpoise.planning.water_filling import Weights, fill_racks


def count_targets(placement: Placement, roles: Roles, limit: Ints | None = None) -> Ints:
    """Return replicas per broker in the end; destinations get no more than their `limit`."""
    counts = placement.counts
    highest = np.maximum(counts, UNBOUNDED if limit is None else limit)
    upper = np.where(roles.destinations, highest, counts)
    lower = np.where(roles.sources, _fixed_counts(placement), counts)
    bounds = rack_bounds(placement, roles.staying)
    return fill_racks(
        total=int(counts.sum()),
        lower=np.where(roles.leaving, 0, lower),
        upper=np.where(roles.leaving, 0, upper),
        current=counts,
        racks=placement.cluster.racks,
        rack_bounds=(bounds.lowest, bounds.highest),
    )


def fair_counts(placement: Placement, roles: Roles) -> Ints:
    """Return the most replicas that are fair for each broker: the mean of its rack, rounded up.

    New brokers stop here even where old ones hold more for lack of moves among themselves; those
    are for goal rebalance.
    """
    even = count_targets(placement, roles.unrestricted)
    has_peer_with_one_more = np.isin(even + 1, even[roles.sharing])
    return even + has_peer_with_one_more


def byte_band(placement: Placement, roles: Roles, tolerance_percent: int) -> ByteBand:
    """Return the fair share of bytes of every broker that shares, and the band around it.

    Shares are as even as the racks allow, and follow the disk sizes (KIP-827) where every broker
    that shares reports its own.
    """
    held = placement.bytes_held
    fixed = np.where(roles.leaving, 0, held)  # of brokers that do not share
    bounds = rack_bounds(placement, roles.staying, placement.cluster.size_bytes)
    fair = fill_racks(
        total=int(held.sum()),
        lower=np.where(roles.sharing, 0, fixed),
        upper=np.where(roles.sharing, UNBOUNDED, fixed),
        current=held,
        racks=placement.cluster.racks,
        rack_bounds=(bounds.lowest, bounds.highest),
        weights=disk_weights(placement.cluster, roles),
    )
    return ByteBand.around(fair, tolerance_percent)


def disk_weights(cluster: ClusterArrays, roles: Roles) -> Weights | None:
    """Return each broker's disks relative to the largest.

    None where they differ by less than 1 %, or where the size of one is not known.
    """
    disks = cluster.disk_bytes[roles.sharing]
    if not len(disks) or disks.min() == 0:
        return None
    if disks.max() - disks.min() <= disks.max() // 100:
        return None
    return np.where(roles.sharing, cluster.disk_bytes / disks.max(), 1.0)


def _fixed_counts(placement: Placement) -> Ints:
    """Return how many replicas each broker holds of partitions that the plan leaves alone."""
    cluster = placement.cluster
    fixed_replicas = np.where(cluster.may_change[:, None], NOBODY, placement.replicas)
    return cluster.load(fixed_replicas)
