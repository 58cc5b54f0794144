"""Lower bounds: what any plan that reaches the goal within its scope has to copy, and how even
leaders can be at best.

    lower_bound(Placement.of(cluster), roles, request).replicas

Goals that copy certain replicas (drain, repair, a higher factor) copy these and nothing else; goals
about leaders copy nothing. For goals that even the cluster out, replicas per broker are to be as
even as the racks and the replicas that must stay allow, and bytes within the tolerance of shares
that are so. Why no plan does with less:

- Counts. The sum over a rack is bounded: a partition on as many racks as it can be on stays so,
  hence has the least to the most that `bounds_of_partition` gives in each; one that must be left alone,
  or that every taker has a replica of, has what it has. On a broker there is at least what may not
  leave it, and at most one replica of each partition. Under such nested bounds the most even counts
  are unique but for who has the units that do not divide; with those who hold most now, the fewest
  have to arrive. So each taker misses at least what it has less than there.
- Surplus. A broker that holds more than that has to give it, as far as the takers have room below
  their share, rounded up. Where each rack holds a fixed number of each partition, no replica
  crosses racks, and all this holds rack by rack.
- Stacked partitions may be spread or stay as they are. Both ways are counted, and per rack the
  smaller one.
- Bytes. The same with sizes for units; a taker has to reach (1 - tolerance) of its share, and one
  who holds more than (1 + tolerance) has to give the rest. Whole partitions only make it more.
- Leaders. Partitions whose leader has to stay are fixed; the others are poured on top. With nothing
  fixed that is floor..ceil of the mean.

A plan below the bound for replicas or bytes stopped before the goal was reached.
"""

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.plan import LowerBound
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import (
    min_stacked_pairs,
    bounds_of_partition,
    rack_sizes,
    stacked_pairs,
)
from counterpoise.planning.placing.targets import disk_weights
from counterpoise.planning.roles import Roles
from counterpoise.planning.water_filling import Weights, fill, fill_racks


def lower_bound(before: Placement, roles: Roles, request: PlanRequest) -> LowerBound:
    """The bounds for a request; `before` is where the replicas are before any move."""
    cluster, goal = before.cluster, request.goal
    spread = _leader_spread(before, roles, goal)
    if goal in (Goal.LEADERS, Goal.DEMOTE_BROKERS):
        return LowerBound(0, 0, spread)
    if goal in (Goal.REMOVE_BROKERS, Goal.REPAIR, Goal.REPLICATION_FACTOR):
        copies = _copies(before, roles, request)
        return LowerBound(int(copies.sum()), int((copies * cluster.size_bytes).sum()), spread)
    replicas = _evening(before, roles, np.ones_like(cluster.size_bytes), None, 0)
    weights = disk_weights(cluster, roles)
    return LowerBound(
        replicas,
        _evening(
            before, roles, cluster.size_bytes, weights, request.policy.bytes_tolerance_percent
        ),
        spread,
    )


def _copies(before: Placement, roles: Roles, request: PlanRequest) -> Ints:
    """Replicas to be made, per partition; none where there is nobody to copy from, or nobody to
    take them.
    """
    cluster = before.cluster
    free = _free_destinations(before, roles)
    if request.goal is Goal.REPLICATION_FACTOR:
        lacking = np.maximum(0, (request.replication_factor or 0) - before.replica_counts)
        return np.where(cluster.may_change, np.minimum(lacking, free), 0)
    movable = cluster.may_drain if request.goal is Goal.REMOVE_BROKERS else cluster.may_change
    on_leaving = np.append(roles.leaving, False)[before.replicas].sum(axis=1)
    return np.where(movable, np.minimum(on_leaving, free), 0)


def _free_destinations(before: Placement, roles: Roles) -> Ints:
    """Takers that have no replica of each partition."""
    holding = np.append(roles.destinations, False)[before.replicas].sum(axis=1)
    return np.asarray(int(roles.destinations.sum()) - holding, dtype=np.int64)


def _leader_spread(before: Placement, roles: Roles, goal: Goal) -> int:
    """The least that the most and the fewest leaders per broker can differ by."""
    cluster = before.cluster
    leaders = cluster.leaders_now
    is_free = cluster.may_reorder & (leaders >= 0) & np.append(cluster.is_in_scope, False)[leaders]
    if goal in (Goal.LEADERS, Goal.DEMOTE_BROKERS):
        is_free &= np.append(roles.leading, False)[before.replicas].any(axis=1)
    if goal is Goal.DEMOTE_BROKERS:
        demoted = np.append(roles.sharing & ~roles.leading, False)
        is_free &= demoted[leaders] | demoted[before.replicas[:, 0]]
    led = cluster.led(np.where(is_free, NOBODY, leaders))[roles.leading]
    if not len(led):
        return 0
    poured = fill(int(led.sum() + is_free.sum()), led, np.full(len(led), UNBOUNDED), led)
    return int(np.ptp(poured))


def _sources(before: Placement, roles: Roles) -> Ints:
    """Replicas of each partition that may leave their broker."""
    return np.asarray(np.append(roles.sources, False)[before.replicas].sum(axis=1), dtype=np.int64)


def _evening(
    before: Placement, roles: Roles, units: Ints, weights: Weights | None, tolerance_percent: int
) -> int:
    """Units (one, or the bytes, of each partition) that have to arrive until the brokers that share
    are even.
    """
    if not roles.sharing.any():
        return 0
    cluster = before.cluster
    can_move = cluster.may_change & (_free_destinations(before, roles) > 0)
    held = cluster.load(before.replicas, units)
    movable = cluster.load(np.where(can_move[:, None], before.replicas, NOBODY), units)
    lower = np.where(roles.sharing & roles.sources, held - movable, held)
    upper = np.where(roles.sharing, held - movable + int(units[can_move].sum()), held)
    found = []
    for room in _worlds(before, roles, units, can_move):
        share = fill_racks(
            int(held.sum()), lower, upper, held, cluster.racks, room, weights, rounds_down=True
        )
        is_closed = bool((room[0] == room[1]).all())
        found.append(_to_copy(cluster, roles, held, share, tolerance_percent, per_rack=is_closed))
    at_most = int(
        (np.minimum(_free_destinations(before, roles), _sources(before, roles)) * units)[
            can_move
        ].sum()
    )
    if len({len(copies) for copies in found}) == 1:
        return min(at_most, int(np.minimum.reduce(found).sum()))
    return min(at_most, *(int(copies.sum()) for copies in found))


def _to_copy(
    cluster: ClusterArrays,
    roles: Roles,
    held: Ints,
    share: Ints,
    tolerance_percent: int,
    *,
    per_rack: bool,
) -> Ints:
    """What the takers lack, or the others have to give as far as the takers have room: per rack, or
    in all.
    """
    least = share - share * tolerance_percent // 100
    divides = not tolerance_percent and (per_rack or share.sum() == held.sum())
    rounded_up = share + (_has_one_with_more(cluster, roles, share) if divides else 1)
    most = rounded_up + rounded_up * tolerance_percent // 100
    groups = cluster.racks if per_rack else np.zeros_like(cluster.racks)

    def summed(values: Ints, brokers: Flags) -> Ints:
        sums = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(sums, groups[brokers], np.maximum(0, values[brokers]))
        return sums

    lacking = summed(least - held, roles.destinations)
    room = summed(most - held, roles.destinations)
    leaves_rack = np.maximum(0, summed(held, held >= 0) - summed(share, held >= 0))
    surplus = summed(held - most, roles.sharing & roles.sources) - leaves_rack
    return np.asarray(np.maximum(lacking, np.minimum(surplus, room)))


def _has_one_with_more(cluster: ClusterArrays, roles: Roles, share: Ints) -> Flags:
    """Has another broker of the rack a share that is one more? Then this one is rounded down, and
    that one up.
    """
    pairs = cluster.racks * (int(share.max()) + 2) + share
    return np.isin(pairs + 1, pairs[roles.sharing])


def _worlds(
    before: Placement, roles: Roles, units: Ints, can_move: Flags
) -> list[tuple[Ints, Ints]]:
    """The least and the most units of all partitions in each rack: where stacked ones stay, and
    where they are spread.

    So it is for partitions with a replica that cannot leave its broker, too.
    """
    cluster = before.cluster
    sizes = rack_sizes(cluster, roles.staying)
    is_bound = ~np.append(roles.sharing, True)[before.replicas].all(axis=1)
    regular = (
        can_move
        & (stacked_pairs(before) <= min_stacked_pairs(before.replica_counts, sizes))
        & ~is_bound
    )
    fixed = _in_racks(before, ~can_move, units, len(sizes))
    unsure = can_move & ~regular
    lowest, highest = _ideal(before, regular, units, sizes)
    if not unsure.any():
        return [(fixed + lowest, fixed + highest)]
    standing = _in_racks(before, unsure, units, len(sizes))
    stays = fixed + lowest + standing, fixed + highest + standing
    spread_low, spread_high = _ideal(before, unsure & ~is_bound, units, sizes)
    most = _in_racks(before, unsure & is_bound, units, len(sizes)) + int(
        units[unsure & is_bound].sum()
    )
    return [stays, (fixed + lowest + spread_low, fixed + highest + spread_high + most)]


def _ideal(before: Placement, which: Flags, units: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Least and most units per rack of partitions that are on as many racks as they can be on."""
    lowest, highest = np.zeros_like(sizes), np.zeros_like(sizes)
    for factor in np.unique(before.replica_counts[which]).tolist():
        low, high = bounds_of_partition(factor, sizes)
        total = int(units[which & (before.replica_counts == factor)].sum())
        lowest += low * total
        highest += high * total
    return lowest, highest


def _in_racks(before: Placement, which: Flags, units: Ints, rack_count: int) -> Ints:
    """Units per rack of the partitions as they stand."""
    per_broker = before.cluster.load(np.where(which[:, None], before.replicas, NOBODY), units)
    total = np.zeros(rack_count, dtype=np.int64)
    np.add.at(total, before.cluster.racks, per_broker)
    return total
