"""From a snapshot and a request to a plan: pure, and the same bytes for the same input.

    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))

    check the request -> read the snapshot into arrays -> place replicas -> choose leaders
    -> keep within the budget -> keep only what is worth it -> explain

Replicas come first (racks, counts, bytes), leaders last, over the final replica sets: leaders can
be exact for any sets, and the other way round they could not. Nothing here reads a clock or a file.
"""

from dataclasses import replace

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import PlanRequest
from counterpoise.planning.arrays import read_cluster
from counterpoise.planning.budget import keep_changes_within, keep_copies_within
from counterpoise.planning.explanation import explain
from counterpoise.planning.explanation.planning_result import (
    FinalAssignment,
    PlanningResult,
    is_worth_moving,
)
from counterpoise.planning.goals import PlanningGoal, goal_named, is_left_to_repair
from counterpoise.planning.leading import Candidates, choose_leaders
from counterpoise.planning.placement import Placement
from counterpoise.planning.refusals import refuse_impossible, refuse_unplaced
from counterpoise.planning.request_checks import check_request, name_cluster
from counterpoise.planning.roles import Roles


def make_plan(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan:
    """Return the plan for a goal; an empty plan says in `reason` why nothing moves.

    Raise InputError for a request that does not fit the cluster, RefusedError where the goal cannot
    be reached because of what must be left alone.
    """
    check_request(request, snapshot)
    goal = goal_named(request.goal)
    cluster = read_cluster(snapshot, request.policy, request.scope)
    cluster = replace(cluster, is_left_to_repair=is_left_to_repair(cluster, request))
    roles = goal.roles(cluster, cluster.flags(request.broker_ids))
    refuse_impossible(cluster, roles, request, name_cluster(snapshot))

    before = Placement.of(cluster)
    placement = before.copy()
    goal.place(placement, roles, request)
    refuse_unplaced(placement, roles, request)
    deferred = keep_copies_within(placement, before, request.budget)
    assignment = _with_leaders(placement, goal, roles, request)
    assignment, deferred_count = keep_changes_within(assignment, request.budget)
    result = PlanningResult(
        snapshot=snapshot,
        request=request,
        cluster=cluster,
        roles=roles,
        before=before,
        after=placement,
        assignment=assignment,
        copy_reason=goal.copy_reason,
        deferred=replace(deferred, partitions=deferred.partitions + deferred_count),
    )
    is_optional = goal.copy_reason is None and not result.deferred.partitions
    if is_optional and not is_worth_moving(result):
        unchanged = FinalAssignment.unchanged(cluster)
        result = replace(result, after=before, assignment=unchanged)
    return explain(result)


def _with_leaders(
    placement: Placement, goal: PlanningGoal, roles: Roles, request: PlanRequest
) -> FinalAssignment:
    """Return the replicas that were placed, with the leaders that are chosen over them."""
    may_change = goal.may_change_leader(placement.cluster, roles)
    candidates = Candidates.of(placement, roles.leading, may_change, elects=goal.elects)
    leaders = choose_leaders(candidates, request.policy)
    demoted = roles.sharing & ~roles.leading
    is_free = candidates.is_free
    return FinalAssignment.of(placement, leaders, is_free=is_free, elects=goal.elects, last=demoted)
