"""Explanation: the plan document of a result, all of it written from one `PlanningResult`.

    plan = explain(result)

    moves with their reasons (`moves`), or why there are none (below), figures of brokers and lower
    bounds (`figures`), and what the person who approves should know (`warnings`)

An empty plan is an answer, not an error: already done, already balanced, or that the goal cannot be
reached, why, and what would help.
"""

from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.explanation.figures import figures_of
from counterpoise.planning.explanation.moves import moves_of, settings_before
from counterpoise.planning.explanation.warnings import warnings_of
from counterpoise.planning.planning_result import PlanningResult
from counterpoise.units import format_bytes


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
        reason="" if moves else _reason_for_empty_plan(result),
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


# -- why an empty plan is empty


def _reason_for_empty_plan(result: PlanningResult) -> str:
    """Return one sentence for the person who requested the plan."""
    if not result.cluster.partition_count and result.request.goal is not Goal.IMPORTED:
        return "already balanced: the cluster has no partitions"
    if result.deferred.partitions:
        return _budget_too_small(result)
    return result.goal.reason(result)


def _budget_too_small(result: PlanningResult) -> str:
    budget, deferred = result.request.budget, result.deferred
    if budget.max_bytes is None:
        partitions = pluralize(budget.max_partitions or 0, "partition")
        return f"cannot, because nothing that helps fits into the budget of {partitions}"
    return (
        f"cannot, because no copy that helps is as small as the budget of "
        f"{format_bytes(budget.max_bytes)}: {pluralize(deferred.partitions, 'partition')} with "
        f"{format_bytes(deferred.bytes)} to copy are left; give more with --max-bytes"
    )
