"""From a snapshot and a request to a plan: pure, and the same bytes for the same input.

    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))

Order of work: replicas first (racks, counts, bytes), leaders last over the final replica sets,
since leaders can be exact for any sets and the other way round they could not. Nothing here reads a
clock or a file.
"""

from dataclasses import replace

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import PlanRequest
from counterpoise.planning.arrays import read_cluster
from counterpoise.planning.budget import keep_copies_within, keep_named_within
from counterpoise.planning.explanation.bounds import lower_bound
from counterpoise.planning.explanation.empty_plan import reason_for_nothing
from counterpoise.planning.explanation.figures import figures_of
from counterpoise.planning.explanation.final_assignment import FinalAssignment, moves_of
from counterpoise.planning.explanation.minimum_gain import is_worth_moving
from counterpoise.planning.explanation.move_reasons import move_reasons_of
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.explanation.warnings import warnings_of
from counterpoise.planning.goals import goal_named, left_to_repair
from counterpoise.planning.leading.leaders import choose_leaders, free_to_lead
from counterpoise.planning.placement import Placement
from counterpoise.planning.requests.refusals import (
    refuse_voters,
    refuse_what_cannot_be,
    refuse_what_found_no_place,
)
from counterpoise.planning.requests.request_checks import check_request
from counterpoise.planning.settings_before import settings_before
from counterpoise.planning.wording import cluster_name


def make_plan(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan:
    """The plan for a goal. An empty plan says in `reason` why nothing moves.

    Raises InputError for a request that does not fit the cluster, RefusedError where the goal
    cannot be reached because of what must be left alone.
    """
    check_request(request, snapshot)
    refuse_voters(snapshot, request)
    cluster = read_cluster(snapshot, request.policy, request.scope)
    cluster = replace(cluster, is_left_to_repair=left_to_repair(cluster, request))
    goal = goal_named(request.goal)
    roles = goal.roles(cluster, cluster.flags(request.broker_ids))
    refuse_what_cannot_be(cluster, roles, request, cluster_name(snapshot))
    before = Placement.of(cluster)
    placement = before.copy()
    goal.place(placement, roles, request)
    refuse_what_found_no_place(placement, roles, request)
    left = keep_copies_within(placement, before, request.budget)
    is_free = free_to_lead(placement, roles.leading, goal.may_change_leader(cluster, roles))
    first = choose_leaders(placement, roles.leading, is_free, request.policy, elects=goal.elects)
    outcome = FinalAssignment.of(
        placement, first, is_free=is_free, elects=goal.elects, last=roles.sharing & ~roles.leading
    )
    outcome, reorders_left = keep_named_within(outcome, request.budget)
    left = replace(left, partitions=left.partitions + reorders_left)
    planning_result = PlanningResult(request, cluster, roles, before, placement, outcome, left)
    if goal.why is None and not left.partitions and not is_worth_moving(planning_result):
        planning_result = PlanningResult(
            request, cluster, roles, before, before, FinalAssignment.unchanged(cluster)
        )
    outcome = planning_result.outcome
    moves = moves_of(snapshot, outcome, move_reasons_of(planning_result, goal.why))
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=request.goal,
        broker_ids=tuple(sorted(request.broker_ids)),
        policy_digest=request.policy.digest,
        moves=moves,
        figures=figures_of(snapshot, planning_result),
        lower_bound=lower_bound(before, roles, request),
        reason="" if outcome.is_named.any() else reason_for_nothing(planning_result),
        warnings=warnings_of(planning_result),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        left=planning_result.left,
        settings_before=settings_before(snapshot, moves),
    )
