"""Lower bounds: what any plan that reaches the goal has to copy, and how even leaders can be at best.

    lower_bound(cluster, Goal.ADD_BROKERS, roles, tolerance_percent=10).replicas

Replicas: a broker that must reach floor(mean) needs that many arrivals. Bytes: a broker that must reach
(1 - tolerance) x mean needs that many; one above (1 + tolerance) x mean must give the surplus, as far as the takers
have room. Where each rack must hold exactly one replica of every partition (racks == replication factor), the mean
is the rack's own. Brokers that leave give all they have. Leaders: n partitions on m brokers cannot be led more
evenly than floor(n/m)..ceil(n/m). A plan below the bound for replicas or bytes stopped before the goal was reached.
"""

import numpy as np

from counterpoise.model.plan import LowerBound
from counterpoise.model.request import Goal
from counterpoise.planning.arrays import ClusterArrays, Ints
from counterpoise.planning.roles import Roles


def lower_bound(cluster: ClusterArrays, goal: Goal, roles: Roles, tolerance_percent: int) -> LowerBound:
    """The bounds for a goal, before any move."""
    staying = int(roles.leading.sum())
    spread = 0 if staying == 0 or cluster.partition_count % staying == 0 else 1
    counts, held = cluster.load(cluster.replicas), cluster.load(cluster.replicas, cluster.size_bytes)
    if goal is Goal.LEADERS:
        return LowerBound(0, 0, spread)
    if goal is Goal.REMOVE_BROKERS:
        return LowerBound(int(counts[roles.leaving].sum()), int(held[roles.leaving].sum()), spread)
    groups = _groups(cluster, roles)
    replicas = sum(_replicas(counts, members, total, roles) for members, total, _ in groups)
    copied = sum(_bytes(held, members, total, roles, tolerance_percent / 100) for members, _, total in groups)
    return LowerBound(replicas, int(copied), spread)


def _groups(cluster: ClusterArrays, roles: Roles) -> list[tuple[Ints, int, int]]:
    """Brokers that share replicas among themselves, with the replicas and bytes they share."""
    staying = np.flatnonzero(roles.sharing)
    racks = np.unique(cluster.racks[staying])
    factors = np.unique(cluster.replica_counts)
    if len(factors) == 1 and len(racks) == factors[0] > 1:
        one_copy = int(cluster.size_bytes.sum())
        return [(staying[cluster.racks[staying] == rack], cluster.partition_count, one_copy) for rack in racks]
    copies = cluster.size_bytes * cluster.replica_counts
    return [(staying, int(cluster.replica_counts.sum()), int(copies.sum()))]


def _replicas(counts: Ints, members: Ints, total: int, roles: Roles) -> int:
    low, high = total // len(members), -(-total // len(members))
    takers = members[roles.takers[members]]
    need = int(np.maximum(0, low - counts[takers]).sum())
    room = int(np.maximum(0, high - counts[takers]).sum())
    surplus = int(np.maximum(0, counts[members] - high).sum())
    return max(need, min(surplus, room))


def _bytes(held: Ints, members: Ints, total: int, roles: Roles, tolerance: float) -> float:
    mean = total / len(members)
    takers: list[int] = held[members[roles.takers[members]]].tolist()
    need = sum(max(0.0, (1 - tolerance) * mean - own) for own in takers)
    room = sum(max(0.0, (1 + tolerance) * mean - own) for own in takers)
    own_bytes: list[int] = held[members].tolist()
    surplus = sum(max(0.0, own - (1 + tolerance) * mean) for own in own_bytes)
    return max(need, min(surplus, room))
