"""Targets: how many replicas and bytes each rack and each broker should hold in the end.

    bounds = rack_bounds(placement, roles)
    bounds.lowest, bounds.highest      # per rack, of all partitions together, when none is stacked
    repair_racks(placement, roles, wanted, max_counts)
    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, tolerance_percent=10)

The rule for racks: the replicas of a partition are on as many racks as there can be.

    height of a partition = smallest h with: sum of min(brokers in the rack, h) >= replicas
    each rack holds at most min(brokers in the rack, height); one less where that leaves room

Worked example, 3 replicas on racks with 2, 1 and 1 brokers: height 1 has room for 3, so each rack
holds exactly one. 4 replicas on racks with 3, 2 and 1 brokers: height 1 has room for 3 only, height
2 for 2 + 2 + 1 = 5, so the first two racks hold one or two replicas each, and the last one holds
one.

Within that, for brokers:

    counts of sources may only fall, those of destinations only rise, all others stay
    brokers that leave get 0
    within that: water filling over racks and brokers

Worked example: brokers 1, 2 and 3 hold 6, 6 and 0 replicas and broker 3 is the only destination:
each gets 12 / 3 = 4, so brokers 1 and 2 give two replicas each.

Limits: where a rack has to hold several replicas of a partition, no move makes a stack higher than
it was, but none is made only to lower it: that would cost data and evenness. Brokers without a rack
count as one rack. Replicas of partitions that the plan leaves alone stay where they are and are
part of each count.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.water_filling import Weights, fill_racks


@dataclass(frozen=True, slots=True, eq=False)
class RackBounds:
    """The least and the most that each rack holds when partitions are spread as they should be."""

    lowest: Ints
    highest: Ints

    @property
    def is_closed(self) -> bool:
        """Return whether each rack holds a fixed part, so that replicas never cross racks.

        That is so where there are as many racks as replicas of each partition.
        """
        return bool((self.lowest == self.highest).all())


def bounds_of_partition(replication_factor: int, rack_sizes: Ints) -> tuple[Ints, Ints]:
    """Return the least and the most replicas of one partition, per rack.

    They are as even over the racks as the `rack_sizes` (brokers) allow.
    """
    height = _stack_height(replication_factor, rack_sizes)
    highest = np.minimum(rack_sizes, height)
    has_room_to_spare = highest.sum() > replication_factor
    may_hold_one_less = (highest == height) & has_room_to_spare
    return highest - may_hold_one_less, highest


def _stack_height(replication_factor: int, rack_sizes: Ints) -> int:
    """Return the most replicas of one partition that a rack has to hold."""
    for height in range(1, replication_factor):
        if np.minimum(rack_sizes, height).sum() >= replication_factor:
            return height
    return replication_factor


def rack_bounds(placement: Placement, roles: Roles, weights: Ints | None = None) -> RackBounds:
    """Return the bounds per rack in replicas, or in bytes when `weights` are the partitions' sizes.

    Partitions that are stacked higher than they should be, that the plan must leave alone, or that
    have a replica which stays outside of the brokers that count here, may end up anywhere.
    """
    cluster = placement.cluster
    if weights is None:
        weights = np.ones(cluster.partition_count, dtype=np.int64)
    rack_sizes = cluster.rack_sizes(roles.staying)
    replica_counts = placement.replica_counts
    is_spread = stacked_pairs(placement) <= min_stacked_pairs(replica_counts, rack_sizes)
    stays_outside = np.append(~roles.staying & ~roles.leaving, False)
    is_bound = stays_outside[placement.replicas].any(axis=1)
    is_regular = cluster.may_change & is_spread & ~is_bound
    lowest, highest = spread_bounds(replica_counts, is_regular, weights, rack_sizes)
    for factor in np.unique(replica_counts[~is_regular]).tolist():
        other_weight = int(weights[~is_regular & (replica_counts == factor)].sum())
        highest += np.minimum(rack_sizes, factor) * other_weight
    return RackBounds(lowest, highest)


def spread_bounds(
    replica_counts: Ints, is_counted: Flags, weights: Ints, rack_sizes: Ints
) -> tuple[Ints, Ints]:
    """Return the least and the most weight per rack of partitions on as many racks as can be.

    All but `rack_sizes` have one entry per partition.
    """
    lowest, highest = np.zeros_like(rack_sizes), np.zeros_like(rack_sizes)
    for factor in np.unique(replica_counts[is_counted]).tolist():
        total = int(weights[is_counted & (replica_counts == factor)].sum())
        low, high = bounds_of_partition(factor, rack_sizes)
        lowest += low * total
        highest += high * total
    return lowest, highest


def stacked_pairs(placement: Placement) -> Ints:
    """Return the pairs of replicas in the same rack, per partition."""
    racks = placement.racks_by_position[placement.replicas]
    pairs = np.zeros(len(racks), dtype=np.int64)
    for column in range(racks.shape[1]):
        for earlier in range(column):
            is_same = racks[:, column] == racks[:, earlier]
            pairs += is_same & (racks[:, column] >= 0)
    return pairs


def min_stacked_pairs(replica_counts: Ints, rack_sizes: Ints) -> Ints:
    """Return the fewest pairs in the same rack that the brokers allow, for each replica count.

    Example: 4 replicas on racks with 3, 2 and 1 brokers stand 2 + 1 + 1 at best, which is one pair.
    """
    min_pairs = np.zeros(int(replica_counts.max(initial=0)) + 1, dtype=np.int64)
    for factor in np.flatnonzero(np.bincount(replica_counts)).tolist():
        lowest, highest = bounds_of_partition(factor, rack_sizes)
        stacks = lowest.copy()
        leftover = max(0, int(factor - lowest.sum()))
        raised = np.flatnonzero(highest > lowest)[:leftover]
        stacks[raised] += 1
        min_pairs[factor] = int((stacks * (stacks - 1) // 2).sum())
    return min_pairs[replica_counts]


def repair_racks(placement: Placement, roles: Roles, wanted: Ints, max_counts: Ints) -> None:
    """Move replicas that share a rack to a rack with none of their partition, while brokers can.

    A destination must have fewer replicas than its `max_counts`. The one that is furthest below its
    `wanted` count gets the replica.
    """
    may_change = placement.cluster.may_change
    for partition in np.flatnonzero(placement.racks_missing(roles.staying)).tolist():
        if may_change[partition]:
            while _repair_one(placement, roles, wanted, max_counts, partition):
                pass


def _repair_one(
    placement: Placement, roles: Roles, wanted: Ints, max_counts: Ints, partition: int
) -> bool:
    """Move one replica of a partition to a rack that has none; False when that cannot be.

    It goes from the highest stack, and there from the broker that is furthest above its count.
    """
    row = placement.replicas[partition]
    held_by = row[row >= 0]
    racks = placement.racks_by_position
    replicas_in_rack = np.bincount(racks[held_by], minlength=int(racks.max()) + 1)
    has_room = placement.room >= placement.cluster.size_bytes[partition]
    is_able = roles.destinations & (placement.counts < max_counts) & has_room
    is_able[held_by] = False
    able = np.flatnonzero(is_able & (replicas_in_rack[racks[:-1]] == 0))
    if not len(able):
        return False
    above_wanted = placement.counts - wanted
    destination = int(able[np.lexsort((able, above_wanted[able]))[0]])
    choices = []
    for position in np.flatnonzero(row >= 0).tolist():
        source = int(row[position])
        stack = int(replicas_in_rack[racks[source]])
        if roles.sources[source] and stack > 1:
            choices.append((-stack, -int(above_wanted[source]), position))
    if not choices:
        return False
    _, _, position = min(choices)
    placement.give(partition, position, destination)
    return True


# -- counts and bytes per broker


def count_targets(placement: Placement, roles: Roles, max_counts: Ints | None = None) -> Ints:
    """Return replicas per broker in the end; destinations get no more than their `max_counts`."""
    counts = placement.counts
    highest = np.maximum(counts, UNBOUNDED if max_counts is None else max_counts)
    upper = np.where(roles.destinations, highest, counts)
    fixed = fixed_load(placement)
    lower = np.where(roles.sources, fixed, counts)
    bounds = rack_bounds(placement, roles)
    return fill_racks(
        total=int(counts.sum()),
        lower=np.where(roles.leaving, fixed, lower),
        upper=np.where(roles.leaving, fixed, upper),
        loads=counts,
        racks=placement.cluster.racks,
        rack_bounds=(bounds.lowest, bounds.highest),
    )


def fair_counts(placement: Placement, roles: Roles, even: Ints | None = None) -> Ints:
    """Return the most replicas that are fair for each broker: the mean of its rack, rounded up.

    `even` has the most even counts once racks are as good as can be, where they are known exactly.
    A goal that cannot cure all racks may need more of a broker than that.

    New brokers stop here even where old ones hold more for lack of moves among themselves; those
    are for goal rebalance.
    """
    targets = count_targets(placement, roles.unrestricted)
    even = targets if even is None else np.maximum(even, targets)
    has_peer_with_one_more = np.isin(even + 1, even[roles.sharing])
    return even + has_peer_with_one_more


def byte_band(placement: Placement, roles: Roles, tolerance_percent: int) -> ByteBand:
    """Return the fair share of bytes of every broker that shares, and the band around it.

    Shares are as even as the racks allow, and follow the disk sizes (KIP-827) where every broker
    that shares reports its own.
    """
    bytes_held = placement.bytes_held
    staying = fixed_load(placement, placement.cluster.size_bytes)
    fixed = np.where(roles.leaving, staying, bytes_held)  # of brokers that do not share
    bounds = rack_bounds(placement, roles, placement.cluster.size_bytes)
    fair = fill_racks(
        total=int(bytes_held.sum()),
        lower=np.where(roles.sharing, 0, fixed),
        upper=np.where(roles.sharing, UNBOUNDED, fixed),
        loads=bytes_held,
        racks=placement.cluster.racks,
        rack_bounds=(bounds.lowest, bounds.highest),
        weights=disk_weights(placement.cluster, roles),
    )
    return ByteBand.around(fair, tolerance_percent)


def bytes_outside_band(placement: Placement, roles: Roles, tolerance_percent: int) -> int:
    """Return the bytes that would have to move for every broker that shares to be in its band."""
    band = byte_band(placement, roles, tolerance_percent)
    return int(band.bytes_outside(placement.bytes_held)[roles.sharing].sum())


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


def fixed_load(placement: Placement, weights: Ints | None = None) -> Ints:
    """Return what each broker holds of partitions that the plan leaves alone: replicas, or their
    `weights`.
    """
    cluster = placement.cluster
    fixed_replicas = np.where(cluster.may_change[:, None], NOBODY, placement.replicas)
    return cluster.load(fixed_replicas, weights)
