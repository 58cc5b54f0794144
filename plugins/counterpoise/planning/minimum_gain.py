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
from typing import Final, TypeAlias

import numpy as np

from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.evenness import highest_share, units_misplaced
from counterpoise.planning.broker_sets import BrokerSetPart
from counterpoise.planning.fair_shares import bytes_outside_band, traffic_band
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.planning_result import PlanningResult

IGNORABLE_PERMILLE: Final = 2  # less than what a cluster changes by itself from day to day

_Measures: TypeAlias = Iterator[tuple[int, int]]  # what is uneven, and what it is measured against


def is_worth_moving(result: PlanningResult) -> bool:
    """Return whether any measure that goals about evenness serve gains more than may be ignored.

    True for all other goals, and for the part of a plan that a budget leaves.
    """
    if result.goal.copy_reason is not None or result.deferred.partitions:
        return True
    return any(
        _is_noticed(
            chain(_of_replicas(result, part, part.before), _leaders_before(result, part)),
            chain(_of_replicas(result, part, part.after), _leaders_after(result, part)),
        )
        for part in result.parts
    )


def is_worth_copying(result: PlanningResult) -> bool:
    """Return whether the replicas alone, whoever leads, are worth what they copy."""
    if result.goal.copy_reason is not None or not result.goal.moves_replicas:
        return True
    return any(
        _is_noticed(_of_replicas(result, part, part.before), _of_replicas(result, part, part.after))
        for part in result.parts
    )


def _is_noticed(before: _Measures, after: _Measures) -> bool:
    return any(
        uneven_before - uneven_after > total * IGNORABLE_PERMILLE // 1000
        for (uneven_before, total), (uneven_after, _) in zip(before, after, strict=True)
    )


def _of_replicas(result: PlanningResult, part: BrokerSetPart, placement: Placement) -> _Measures:
    """Yield how uneven replicas are, by each measure."""
    policy, roles = result.request.policy, part.roles
    yield int(placement.rack_moves(roles.staying).sum()), 0
    yield _constraints_broken(placement, roles), 0
    yield _replicas_misplaced(placement, roles), int(placement.counts.sum())
    outside = bytes_outside_band(placement, roles, policy.bytes_tolerance_percent)
    yield outside, int(placement.bytes_held.sum())
    if result.goal.evens_replicas and part.cluster.knows_traffic:
        band = traffic_band(placement, roles, policy.bytes_in_tolerance_percent)
        traffic = placement.traffic
        yield int(band.bytes_outside(traffic)[roles.sharing].sum()), int(traffic.sum())


def _leaders_before(result: PlanningResult, part: BrokerSetPart) -> _Measures:
    return _of_leaders(result, part, part.cluster.replicas, part.cluster.leaders_now)


def _leaders_after(result: PlanningResult, part: BrokerSetPart) -> _Measures:
    assignment = result.assignment
    return _of_leaders(result, part, assignment.replicas[part.rows], assignment.leaders[part.rows])


def _of_leaders(
    result: PlanningResult, part: BrokerSetPart, replicas: Ints, leaders: Ints
) -> _Measures:
    """Yield how uneven leaders are, by each measure; `replicas` are in order."""
    cluster, leading, total = part.cluster, part.roles.leading, part.cluster.partition_count
    counts = cluster.leader_load(leaders)[leading]
    yield units_misplaced(counts.tolist()), total
    yield int(cluster.is_outside(leaders).sum()), total
    yield _above_topic_share(part, leaders), total
    is_not_preferred = (leaders >= 0) & (replicas[:, 0] != leaders)
    yield int(is_not_preferred.sum()), total
    if result.goal.evens_bytes_in_of_leaders and cluster.knows_traffic:
        bytes_in = cluster.leader_load(leaders, cluster.bytes_in)[leading]
        percent = 100 + result.request.policy.bytes_in_tolerance_percent
        highest = int(bytes_in.sum()) * percent // (100 * max(1, len(bytes_in)))
        yield int(np.maximum(0, bytes_in - highest).sum()), int(cluster.bytes_in.sum())


def _constraints_broken(placement: Placement, roles: Roles) -> int:
    """Return the replicas outside of their broker set, and those above what a broker may hold."""
    too_many = np.maximum(0, placement.counts - placement.cluster.max_counts)
    return int(replicas_outside_sets(placement).sum() + too_many[roles.sharing].sum())


def replicas_outside_sets(placement: Placement) -> Ints:
    """Return, per partition, how many replicas are not on the brokers of its broker set."""
    cluster = placement.cluster
    sets = np.append(cluster.broker_sets, NOBODY)[placement.replicas]
    is_outside = sets != cluster.sets_of_partitions[:, None]
    return np.asarray((is_outside & (placement.replicas >= 0)).sum(axis=1))


def _replicas_misplaced(placement: Placement, roles: Roles) -> int:
    """Return about how many replicas are on the wrong broker."""
    cluster, sharing = placement.cluster, roles.sharing
    weights = cluster.weights(sharing)[sharing]
    return units_misplaced(placement.counts[sharing].tolist(), weights.tolist())


def _above_topic_share(part: BrokerSetPart, leaders: Ints) -> int:
    """Return the leaders above the highest share of their topic, over all topics and brokers."""
    cluster = part.cluster
    has_leader = leaders >= 0
    cells = cluster.topic_numbers[has_leader] * cluster.broker_count + leaders[has_leader]
    used_cells, counts = np.unique(cells, return_counts=True)
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    shares = highest_share(partition_counts, int(part.roles.leading.sum()))
    topics = used_cells // cluster.broker_count
    return int(np.maximum(0, counts - shares[topics]).sum())
