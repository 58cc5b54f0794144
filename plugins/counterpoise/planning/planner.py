"""From a snapshot and a request to a plan: pure, and the same bytes for the same input.

    plan_from(snapshot, RebalanceRequest(Goal.ADD_BROKERS, (4,)), policy)    # what people request
    compare(snapshot, requests, policy)        # a plan or a refusal for each request
    make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))

    check the request -> read the snapshot into arrays -> place replicas -> even traffic
    -> choose leaders -> keep within the budget -> keep only what is worth it -> explain

Replicas come first (racks, counts, bytes), leaders last, over the final replica sets: leaders can
be exact for any sets, and the other way round they could not. Nothing here reads a clock or a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.provider import Provider, profile_of
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.request import PLANNED_GOALS, Goal, PlanRequest
from counterpoise.planning.arrays import read_cluster
from counterpoise.planning.explanation.figures import figures_of
from counterpoise.planning.explanation.moves import (
    moves_of,
    reason_for_empty_plan,
    settings_before,
)
from counterpoise.planning.explanation.warnings import warnings_of
from counterpoise.planning.goals import PlanningGoal
from counterpoise.planning.goals.emptying import RemoveBrokers, Repair
from counterpoise.planning.goals.evening import AddBrokers, Rebalance
from counterpoise.planning.goals.leaders import DemoteBrokers, Leaders
from counterpoise.planning.goals.replication_factor import ReplicationFactor
from counterpoise.planning.kept_part import (
    is_worth_copying,
    is_worth_moving,
    keep_changes_within,
    keep_copies_within,
)
from counterpoise.planning.leading import with_leaders
from counterpoise.planning.placement import CopyBound, Placement, Roles
from counterpoise.planning.placing.traffic import even_traffic
from counterpoise.planning.planning_result import (
    BrokerSetPart,
    FinalAssignment,
    PlanningResult,
    parts_of,
    with_room,
)
from counterpoise.planning.request_checks import check_request, refuse_impossible_constraints

_GOALS: Final[tuple[PlanningGoal, ...]] = (
    AddBrokers(),
    RemoveBrokers(),
    DemoteBrokers(),
    Leaders(),
    Rebalance(),
    ReplicationFactor(),
    Repair(),
)
_MAX_TURNS: Final = 20  # of the goal and of traffic


def make_plan(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan:
    """Return the plan for a goal; an empty plan says in `reason` why nothing moves.

    Raise InputError for a request that does not fit the cluster, RefusedError where the goal cannot
    be reached because of what must be left alone.
    """
    goal = _goal_named(request.goal)
    check_request(goal, request, snapshot)
    cluster = read_cluster(snapshot, request.policy, request.scope)
    cluster = replace(cluster, is_thorough=request.is_thorough)
    left_out = cluster.only(~cluster.is_requested)
    if goal.shares_scope:
        cluster = cluster.only(cluster.is_requested).beside(left_out)
    cluster = replace(cluster, is_left_to_repair=goal.left_to_repair(cluster, request))
    roles = goal.roles(cluster, cluster.flags(request.broker_ids))
    before = Placement.of(cluster)
    parts = parts_of(cluster, roles, goal.within)
    unchanged = PlanningResult(
        snapshot=snapshot,
        goal=goal,
        request=request,
        cluster=cluster,
        left_out=left_out if goal.shares_scope else None,
        roles=roles,
        before=before,
        after=before,
        assignment=FinalAssignment.unchanged(cluster),
        parts=parts,
    )
    refuse_impossible_constraints(unchanged)
    goal.refuse_impossible(unchanged)

    placement = before.copy()
    traffic_gains = _place_parts(unchanged, placement)
    result = replace(unchanged, after=placement, traffic_gains=traffic_gains)
    goal.refuse_unplaced(result)
    if not is_worth_copying(result):
        placement = before.copy()
        result = replace(unchanged, after=placement)
    deferred = keep_copies_within(placement, before, request.budget)
    result = replace(result, assignment=with_leaders(result), deferred=deferred)
    result = keep_changes_within(result)
    if is_worth_moving(result):
        return explain(result)
    return explain(unchanged)


def _goal_named(name: Goal) -> PlanningGoal:
    """Return the goal of that name; raise InputError for one that cannot be planned."""
    for goal in _GOALS:
        if goal.name is name:
            return goal
    goals = ", ".join(PLANNED_GOALS)
    raise InputError(f"goal {name} cannot be planned; choose one of {goals}")


def _place_parts(result: PlanningResult, placement: Placement) -> dict[int, int]:
    """Move replicas in each broker set; return what traffic gains, by partition.

    Each set counts on what is to leave its brokers for another set. Where that finds no place there
    and a broker would hold more replicas than it may, nothing is counted on: replicas leave first,
    and the sets are planned again from there for as long as that changes anything.
    """
    if not result.has_sets:
        return _place(result.goal, placement, result.roles, result.request)
    traffic_gains = _place_each(result, placement, result.parts)
    max_counts = np.maximum(placement.cluster.max_counts, result.before.counts)
    if not (placement.counts > max_counts).any():
        return traffic_gains
    traffic_gains = {}
    placement.reset_to(result.before.replicas.copy())
    for _ in range(_MAX_TURNS):
        again = placement.as_cluster()
        parts = parts_of(again.cluster, result.roles, result.goal.within)
        parts = with_room(parts, again.cluster.max_counts, may_give_all=False)
        traffic_gains |= _place_each(result, again, parts)
        if (again.replicas == placement.replicas).all():
            break
        placement.reset_to(again.replicas)
    return traffic_gains


def _place_each(
    result: PlanningResult, placement: Placement, parts: tuple[BrokerSetPart, ...]
) -> dict[int, int]:
    traffic_gains: dict[int, int] = {}
    placed = []
    for part in parts:
        after = part.of(placement)
        gains = _place(result.goal, after, part.roles, result.request)
        rows = np.flatnonzero(part.rows)
        traffic_gains |= {int(rows[row]): gain for row, gain in gains.items()}
        placed.append(after)
    _put_together(placement, parts, placed)
    return traffic_gains


def _put_together(
    placement: Placement, parts: tuple[BrokerSetPart, ...], placed: list[Placement]
) -> None:
    """Set the replicas of all parts, and the bound where each part has one."""
    width = max(part.replicas.shape[1] for part in placed)
    placement.widen(width)
    replicas = placement.replicas.copy()
    for part, after in zip(parts, placed, strict=True):
        after.widen(width)
        replicas[part.rows] = after.replicas
    placement.reset_to(replicas)
    bounds = [after.bound for after in placed]
    known = [bound for bound in bounds if bound is not None]
    if len(known) == len(bounds):
        placement.bound = CopyBound(
            sum(bound.replicas for bound in known),
            sum(bound.bytes for bound in known),
            all(bound.is_reached for bound in known),
        )


def _place(
    goal: PlanningGoal, placement: Placement, roles: Roles, request: PlanRequest
) -> dict[int, int]:
    """Move replicas for the goal, then for traffic; return what the latter gains, by partition.

    What traffic moves may let the goal do better. So both go on from there as if that were the
    cluster, until they leave it as it is: to plan again moves nothing.
    """
    goal.place(placement, roles, request)
    if not goal.evens_replicas or not placement.cluster.knows_traffic:
        return {}
    may_copy = goal.copies_for_traffic
    placed = placement.replicas.copy()
    traffic_gains = even_traffic(placement, roles, request.policy, may_copy=may_copy)
    if not may_copy or (placement.replicas == placed).all():
        return traffic_gains
    for _ in range(_MAX_TURNS):
        again = placement.as_cluster()
        goal.place(again, roles, request)
        gains = even_traffic(again, roles, request.policy, may_copy=may_copy)
        if (again.replicas == placement.replicas).all():
            break
        traffic_gains |= gains
        placement.reset_to(again.replicas)
    return traffic_gains


def explain(result: PlanningResult) -> RebalancePlan:
    """Return the plan document; one without moves says in `reason` why nothing moves."""
    snapshot, request = result.snapshot, result.request
    moves = moves_of(result)
    settings = settings_before(snapshot.throttles, moves)
    lower_bound, goal_bound = result.bounds
    moves_for_traffic = any(move.why is MoveReason.TRAFFIC for move in moves)
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=request.goal,
        broker_ids=tuple(sorted(request.broker_ids)),
        policy_digest=request.policy.digest,
        moves=moves,
        reason="" if moves else reason_for_empty_plan(result),
        settings_before=settings,
        figures=figures_of(result, with_network_in=moves_for_traffic),
        lower_bound=lower_bound,
        goal_bound=goal_bound,
        warnings=warnings_of(result),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        deferred=result.deferred,
        cordons_brokers=request.cordons_brokers and bool(moves),
    )


# -- what people request


def plan_from(
    snapshot: ClusterSnapshot,
    rebalance_request: RebalanceRequest,
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> RebalancePlan:
    """Return a plan from a snapshot or a cluster document; no cluster is needed.

    Where the request goes against the policy, or the provider has to be asked for something first,
    the plan warns. Raises InputError, RefusedError.
    """
    new_plan = make_plan(snapshot, rebalance_request.request(policy))
    return replace(
        new_plan,
        policy_digest=policy.digest,
        warnings=(
            *profile_of(provider).plan_warnings,
            *rebalance_request.deviations(policy),
            *new_plan.warnings,
        ),
    )


@dataclass(frozen=True, slots=True)
class ComparedPlan:
    """What a request leads to: a plan, or why there can be none."""

    request: RebalanceRequest
    plan: RebalancePlan | None
    refusal: str = ""


def compare(
    snapshot: ClusterSnapshot,
    requests: Sequence[RebalanceRequest],
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> tuple[ComparedPlan, ...]:
    """Return a plan for each request; one that cannot be made does not hide the others."""
    return tuple(_compared(snapshot, request, policy, provider) for request in requests)


def _compared(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    policy: BalancePolicy,
    provider: Provider | None,
) -> ComparedPlan:
    try:
        return ComparedPlan(request, plan_from(snapshot, request, policy, provider))
    except (InputError, RefusedError) as error:
        return ComparedPlan(request, None, str(error))
