"""Minimum gain: whether a plan gains enough to notice.

    is_worth_copying(result), is_worth_moving(result)

A gain that nobody would notice counts as balanced, so that clusters do not churn:

    for each measure: gain = what is uneven before - what is uneven after
    worth moving: any gain is more than IGNORABLE_PERMILLE of what it is measured against

Worked example: 10,000 replicas, 2 permille, so 20 may be ignored. If the counts of replicas per
broker are uneven by 30 before (squared distances from the mean) and by 5 after, the gain is 25: the
plan is worth it. What breaks a constraint is always worth mending.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import highest_share, units_misplaced
from counterpoise.planning.fair_shares import bytes_outside_band
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.planning_result import PlanningResult

IGNORABLE_PERMILLE: Final = 2  # less than what a cluster changes by itself from day to day


def is_worth_moving(result: PlanningResult) -> bool:
    """Return whether any measure that goals about evenness serve gains more than may be ignored.

    True for all other goals, and for the part of a plan that a budget leaves.
    """
    if result.goal.copy_reason is not None or result.deferred.partitions:
        return True
    return any(
        _is_noticed(part, chain(_replica_gains(part), _leader_gains(part)))
        for part in result.results_by_part
    )


def is_worth_copying(result: PlanningResult) -> bool:
    """Return whether the replicas alone, whoever leads, are worth what they copy."""
    if result.goal.copy_reason is not None or not result.goal.moves_replicas:
        return True
    return any(_is_noticed(part, _replica_gains(part)) for part in result.results_by_part)


def _is_noticed(result: PlanningResult, gains: Iterator[tuple[int, int]]) -> bool:
    return any(gain > total * IGNORABLE_PERMILLE // 1000 for gain, total in gains)


def _replica_gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure of replicas, and what it is measured against."""
    roles, before, after = result.roles, result.before, result.after
    replica_count = int(after.counts.sum())
    yield int((result.rack_moves_before - result.rack_moves_after).sum()), 0
    yield _constraints_broken(before, result) - _constraints_broken(after, result), 0
    misplaced = _replicas_misplaced(before, roles) - _replicas_misplaced(after, roles)
    yield misplaced, replica_count
    percent = result.request.policy.bytes_tolerance_percent
    bytes_before = bytes_outside_band(before, roles, percent)
    yield bytes_before - bytes_outside_band(after, roles, percent), int(after.bytes_held.sum())
    if result.evens_traffic:
        outside = _traffic_outside(before, result) - _traffic_outside(after, result)
        yield outside, int(after.traffic.sum())


def _leader_gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure of leaders, and what it is measured against."""
    cluster, roles, partition_count = result.cluster, result.roles, result.cluster.partition_count
    leaders_before, leaders_after = cluster.leaders_now, result.assignment.leaders
    rows_before, rows_after = cluster.replicas, result.assignment.replicas
    leaders_misplaced = _misplaced(cluster.leader_load(leaders_before), roles.leading)
    yield leaders_misplaced - _misplaced(result.leader_counts, roles.leading), partition_count
    outside_before = int(cluster.is_outside(leaders_before).sum())
    yield outside_before - int(cluster.is_outside(leaders_after).sum()), partition_count
    leaders_above = _leaders_above_share(result, leaders_before)
    yield leaders_above - _leaders_above_share(result, leaders_after), partition_count
    not_preferred = _not_preferred(rows_before, leaders_before)
    yield not_preferred - _not_preferred(rows_after, leaders_after), partition_count
    if result.evens_bytes_in_of_leaders:
        percent = result.request.policy.bytes_in_tolerance_percent
        gained = _bytes_in_above(result, leaders_before, percent)
        gained -= _bytes_in_above(result, leaders_after, percent)
        yield gained, int(cluster.bytes_in.sum())


def _constraints_broken(placement: Placement, result: PlanningResult) -> int:
    """Return the replicas outside of their broker set, and those above what a broker may hold."""
    too_many = np.maximum(0, placement.counts - placement.cluster.max_counts)
    return int(replicas_outside_sets(placement).sum() + too_many[result.roles.sharing].sum())


def replicas_outside_sets(placement: Placement) -> Ints:
    """Return, per partition, how many replicas are not on the brokers of its broker set."""
    cluster = placement.cluster
    sets = np.append(cluster.broker_sets, NOBODY)[placement.replicas]
    is_outside = sets != cluster.sets_of_partitions[:, None]
    return np.asarray((is_outside & (placement.replicas >= 0)).sum(axis=1))


def _traffic_outside(placement: Placement, result: PlanningResult) -> int:
    outside = result.traffic_band.bytes_outside(placement.traffic)
    return int(outside[result.roles.sharing].sum())


def _misplaced(counts: Ints, is_counted: Flags) -> int:
    return units_misplaced(counts[is_counted].tolist())


def _replicas_misplaced(placement: Placement, roles: Roles) -> int:
    """Return about how many replicas are on the wrong broker."""
    cluster, sharing = placement.cluster, roles.sharing
    weights = cluster.weights(sharing)[sharing]
    return units_misplaced(placement.counts[sharing].tolist(), weights.tolist())


def _leaders_above_share(result: PlanningResult, leaders: Ints) -> int:
    """Return the leaders above the highest share of their topic, over all topics and brokers."""
    cluster = result.cluster
    has_leader = leaders >= 0
    cells = cluster.topic_numbers[has_leader] * cluster.broker_count + leaders[has_leader]
    used_cells, counts = np.unique(cells, return_counts=True)
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    shares = highest_share(partition_counts, int(result.roles.leading.sum()))
    topics = used_cells // cluster.broker_count
    return int(np.maximum(0, counts - shares[topics]).sum())


def _bytes_in_above(result: PlanningResult, leaders: Ints, tolerance_percent: int) -> int:
    """Return the bytes per second that leaders take in above the mean and the tolerance."""
    bytes_in = result.cluster.leader_load(leaders, result.cluster.bytes_in)[result.roles.leading]
    highest = int(bytes_in.sum()) * (100 + tolerance_percent) // (100 * max(1, len(bytes_in)))
    return int(np.maximum(0, bytes_in - highest).sum())


def _not_preferred(replicas: Ints, leaders: Ints) -> int:
    """Return the partitions that another replica than the preferred one leads."""
    return int(((leaders >= 0) & (replicas[:, 0] != leaders)).sum())
