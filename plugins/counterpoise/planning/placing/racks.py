"""Racks: how many replicas of a partition each rack should hold, and the repair of partitions that
stand otherwise.

    room = rack_room(placement, staying)
    room.lowest, room.highest      # of all partitions together, per rack, when none is stacked
    repair_racks(placement, roles, wanted, limit)

The rule: the replicas of a partition are on as many racks as there can be. Where a rack has to hold
several of them, no move makes a stack higher than it was, but none is made only to lower it: that
would cost data and evenness. A broker without a rack counts as being in the rack of all such
brokers.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles


@dataclass(frozen=True, slots=True, eq=False)
class RackRoom:
    """Least and most that each rack holds in all, when every partition is spread as it should be."""

    lowest: Ints
    highest: Ints

    @property
    def is_closed(self) -> bool:
        """Each rack holds a fixed part, so replicas never cross racks (racks == replication
        factor).
        """
        return bool((self.lowest == self.highest).all())


def rack_sizes(cluster: ClusterArrays, staying: Flags) -> Ints:
    """Brokers that stay, per rack."""
    return np.bincount(
        cluster.racks[staying], minlength=int(cluster.racks.max(initial=-1)) + 1
    ).astype(np.int64)


def bounds_of_one(replication_factor: int, sizes: Ints) -> tuple[Ints, Ints]:
    """Least and most replicas of one partition per rack: as even over the racks as their brokers
    allow.
    """
    height = next(
        (
            h
            for h in range(1, replication_factor + 1)
            if np.minimum(sizes, h).sum() >= replication_factor
        ),
        replication_factor,
    )
    highest = np.minimum(sizes, height)
    spare = highest.sum() - replication_factor
    full = highest == height
    return np.where(full & (spare > 0), highest - 1, highest), highest


def rack_room(placement: Placement, staying: Flags, weights: Ints | None = None) -> RackRoom:
    """The room per rack in replicas, or in bytes when `weights` are the partitions' sizes.

    Partitions that stand otherwise, or that the plan must leave alone, may end up anywhere.
    """
    cluster = placement.cluster
    weight = np.ones(cluster.partition_count, dtype=np.int64) if weights is None else weights
    sizes = rack_sizes(cluster, staying)
    counts = placement.replica_counts
    regular = cluster.may_change & (stacked_pairs(placement) <= best_pairs(counts, sizes))
    lowest, highest = np.zeros_like(sizes), np.zeros_like(sizes)
    for factor in np.flatnonzero(np.bincount(counts)).tolist():
        same = counts == factor
        low, high = bounds_of_one(factor, sizes)
        spread = int(weight[same & regular].sum())
        lowest += low * spread
        highest += high * spread + np.minimum(sizes, factor) * int(weight[same & ~regular].sum())
    return RackRoom(lowest, highest)


def stacked_pairs(placement: Placement) -> Ints:
    """Pairs of replicas in the same rack, per partition."""
    racks = placement.racks_by_position[placement.replicas]
    pairs = np.zeros(len(racks), dtype=np.int64)
    for one in range(racks.shape[1]):
        for other in range(one):
            pairs += (racks[:, one] == racks[:, other]) & (racks[:, one] >= 0)
    return pairs


def best_pairs(replica_counts: Ints, sizes: Ints) -> Ints:
    """The fewest pairs in the same rack that the brokers allow, for each of the replica counts."""
    best = np.zeros(int(replica_counts.max(initial=0)) + 1, dtype=np.int64)
    for factor in np.flatnonzero(np.bincount(replica_counts)).tolist():
        low, high = bounds_of_one(factor, sizes)
        stacks = low.copy()
        raised = np.flatnonzero(high > low)[: max(0, int(factor - low.sum()))]
        stacks[raised] += 1
        best[factor] = int((stacks * (stacks - 1) // 2).sum())
    return best[replica_counts]


def racks_missing(placement: Placement, staying: Flags) -> Ints:
    """Per partition: on how many more racks the brokers which stay would allow it to be."""
    racks = np.sort(placement.racks_by_position[placement.replicas], axis=1)
    held = (racks[:, 0] >= 0).astype(np.int64) + (
        (racks[:, 1:] != racks[:, :-1]) & (racks[:, 1:] >= 0)
    ).sum(axis=1)
    available = int((rack_sizes(placement.cluster, staying) > 0).sum())
    return np.asarray(np.maximum(0, np.minimum(placement.replica_counts, available) - held))


def badly_racked(placement: Placement, staying: Flags) -> Ints:
    """Partitions that the brokers which stay would allow to be on more racks."""
    return np.flatnonzero(racks_missing(placement, staying))


def repair_racks(placement: Placement, roles: Roles, wanted: Ints, limit: Ints) -> None:
    """Moves replicas that share a rack to a rack with none, as long as a taker has fewer replicas
    than its `limit`.

    The suitable broker that is furthest below its `wanted` count takes it.
    """
    cluster = placement.cluster
    for partition in badly_racked(placement, roles.staying):
        while cluster.may_change[partition] and _repair_one(
            placement, roles, wanted, limit, int(partition)
        ):
            pass


def _repair_one(
    placement: Placement, roles: Roles, wanted: Ints, limit: Ints, partition: int
) -> bool:
    """One replica of a partition to a better rack; False when there is none, or no broker that may
    take it.
    """
    row = placement.replicas[partition]
    racks = placement.racks_by_position
    in_rack = np.bincount(racks[row[row >= 0]], minlength=int(racks.max()) + 1)
    able = (
        roles.destinations
        & (placement.counts < limit)
        & (placement.room >= placement.cluster.size_bytes[partition])
    )
    able[row[row >= 0]] = False
    able_brokers = np.flatnonzero(able)
    best: tuple[int, int, int, int] | None = None
    for position in np.flatnonzero(row >= 0):
        source = row[position]
        if not roles.sources[source] or not len(able_brokers):
            continue
        stack = int(in_rack[racks[source]])
        gains = in_rack[racks[able_brokers]] == 0
        load = placement.counts[able_brokers] - wanted[able_brokers]
        order = np.lexsort((able_brokers, load, ~gains))[0]
        if stack > 1 and gains[order]:
            choice = (-stack, -int(placement.counts[source] - wanted[source]), int(position))
            candidate = (*choice, int(able_brokers[order]))
            best = candidate if best is None else min(best, candidate)
    if best is None:
        return False
    placement.give(partition, best[2], best[3])
    return True
