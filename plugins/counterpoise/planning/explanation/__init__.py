"""Explanation: from the result of planning to the plan document.

    plan = explain(result)

Moves with reasons (or why there are none), figures per broker, lower bounds and warnings: all of
them are written from one `PlanningResult`.
"""

from counterpoise.model.plan import RebalancePlan
from counterpoise.planning.explanation.figures import figures_of
from counterpoise.planning.explanation.moves import (
    moves_of,
    reason_for_empty_plan,
    settings_before,
)
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.explanation.warnings import warnings_of


def explain(result: PlanningResult) -> RebalancePlan:
    """Return the plan document; one without moves says in `reason` why nothing moves."""
    snapshot, request = result.snapshot, result.request
    moves = moves_of(result)
    settings = settings_before(snapshot.throttles, moves)
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
        figures=figures_of(result),
        lower_bound=result.goal.lower_bound(result),
        warnings=warnings_of(result),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        deferred=result.deferred,
    )
