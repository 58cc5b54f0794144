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
from counterpoise.planning.explanation.bounds import lower_bound
from counterpoise.planning.explanation.figures import figures_of
from counterpoise.planning.explanation.minimum_gain import is_worth_moving
from counterpoise.planning.explanation.moves import moves_of
from counterpoise.planning.explanation.planning_result import FinalAssignment, PlanningResult
from counterpoise.planning.explanation.reasons import reason_for_empty_plan
from counterpoise.planning.explanation.warnings import warnings_of
from counterpoise.planning.goals import PlanningGoal, goal_named, is_left_to_repair
from counterpoise.planning.leading import Candidates, choose_leaders
from counterpoise.planning.placement import Placement
from counterpoise.planning.requests.refusals import refuse_impossible, refuse_unplaced
from counterpoise.planning.requests.request_checks import check_request
from counterpoise.planning.roles import Roles
from counterpoise.planning.settings_before import settings_before
from counterpoise.planning.wording import cluster_name


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
    refuse_impossible(cluster, roles, request, cluster_name(snapshot))

    before = Placement.of(cluster)
    placement = before.copy()
    goal.place(placement, roles, request)
    refuse_unplaced(placement, roles, request)
    deferred = keep_copies_within(placement, before, request.budget)
    assignment = _with_leaders(placement, goal, roles, request)
    assignment, deferred_count = keep_changes_within(assignment, request.budget)
    deferred = replace(deferred, partitions=deferred.partitions + deferred_count)
    result = PlanningResult(request, cluster, roles, before, placement, assignment, deferred)
    is_optional = goal.copy_reason is None and not deferred.partitions
    if is_optional and not is_worth_moving(result):
        unchanged = FinalAssignment.unchanged(cluster)
        result = PlanningResult(request, cluster, roles, before, before, unchanged)

    moves = moves_of(result, goal.copy_reason, snapshot.topic_ids)
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=request.goal,
        broker_ids=tuple(sorted(request.broker_ids)),
        policy_digest=request.policy.digest,
        moves=moves,
        figures=figures_of(result, snapshot.brokers),
        lower_bound=lower_bound(before, roles, request),
        reason="" if moves else reason_for_empty_plan(result),
        warnings=warnings_of(result),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        deferred=result.deferred,
        settings_before=settings_before(snapshot.throttles, moves),
    )


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
