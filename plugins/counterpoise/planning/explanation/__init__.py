"""Explanation: the plan document of a result, all of it written from one `PlanningResult`.

    plan = explain(result)

    moves with their reasons (`moves`), or why there are none; every broker before, after and at
    best; and what the person who approves should know (`warnings`)

Best means in the figures: what no plan could do better, whatever it moved. Where racks have
different numbers of brokers it is uneven itself.

An empty plan is an answer, not an error: already done, already balanced, or that the goal cannot be
reached, why, and what would help.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.plan import BrokerFigure, MoveReason, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.explanation.moves import moves_of, settings_before
from counterpoise.planning.explanation.warnings import warnings_of
from counterpoise.planning.fair_shares import fill
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
        figures=_figures_of(result, with_network_in=moves_for_traffic),
        lower_bound=lower_bound,
        goal_bound=goal_bound,
        warnings=warnings_of(result),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        deferred=result.deferred,
        cordons_brokers=request.cordons_brokers and bool(moves),
    )


# -- brokers before, after and at best


def _figures_of(result: PlanningResult, *, with_network_in: bool) -> tuple[BrokerFigure, ...]:
    """Return a figure for every registered broker, by id.

    Workers of earlier releases cannot read a plan with network-in.
    """
    cluster, before, after = result.cluster, result.before, result.after
    columns = {
        "leaders_before": cluster.leader_load(cluster.leaders_now),
        "leaders_after": result.leader_counts,
        "leaders_best": result.by_broker(lambda part: _evened(part, part.leader_counts)),
        "replicas_before": before.counts,
        "replicas_after": after.counts,
        "replicas_best": result.best_counts,
        "bytes_before": before.bytes_held,
        "bytes_after": after.bytes_held,
        "bytes_best": result.band.fair,
        "bytes_peak": before.bytes_held + after.arriving,
    }
    if cluster.is_rate_known.any():
        bytes_in_after = _bytes_in_after(result)
        columns["bytes_in_before"] = cluster.leader_load(cluster.leaders_now, cluster.bytes_in)
        columns["bytes_in_after"] = bytes_in_after
        columns["bytes_in_best"] = result.by_broker(
            lambda part: _evened(part, _bytes_in_after(part))
        )
    if cluster.is_rate_known.any() and with_network_in:
        columns["network_in_before"] = before.traffic
        columns["network_in_after"] = after.traffic
        columns["network_in_best"] = result.traffic_band.fair
    if result.left_out is not None:
        _add_left_out(columns, result.left_out)
    rows = {row["broker_id"]: row for row in result.snapshot.brokers.to_pylist()}
    figures = []
    for position in np.flatnonzero(cluster.is_registered).tolist():
        row = rows[int(cluster.broker_ids[position])]
        total_bytes, usable_bytes = row["disk_total_bytes"], row["disk_usable_bytes"]
        used_bytes = None
        if total_bytes is not None and usable_bytes is not None:
            used_bytes = total_bytes - usable_bytes
        figure = BrokerFigure(
            broker_id=row["broker_id"],
            rack=row["rack"],
            disk_total_bytes=total_bytes,
            disk_used_bytes=used_bytes,
            **{name: int(column[position]) for name, column in columns.items()},
        )
        figures.append(figure)
    return tuple(figures)


def _add_left_out(columns: dict[str, Ints], left_out: ClusterArrays) -> None:
    """Add what brokers hold and lead of partitions that do not count: the same before and after."""
    loads = {
        "leaders": left_out.leader_load(left_out.leaders_now),
        "replicas": left_out.load(left_out.replicas),
        "bytes": left_out.load(left_out.replicas, left_out.size_bytes),
        "network_in": left_out.load(left_out.replicas, left_out.bytes_in),
        "bytes_in": left_out.leader_load(left_out.leaders_now, left_out.bytes_in),
    }
    for name in columns:
        columns[name] = columns[name] + loads[name.rpartition("_")[0]]


def _bytes_in_after(result: PlanningResult) -> Ints:
    return result.cluster.leader_load(result.assignment.leaders, result.cluster.bytes_in)


def _evened(result: PlanningResult, loads: Ints) -> Ints:
    """Return the sum of `loads` shared out over the brokers that may lead; others keep theirs."""
    leading = result.roles.leading
    highest = np.where(leading, UNBOUNDED, loads)
    return fill(int(loads.sum()), np.where(leading, 0, loads), highest, loads)


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
