"""Moves with their reasons; why an empty plan is empty, and what a goal had to leave undone.

    moves = moves_of(result)         # each with the measure that the change serves first

    a copy of a plan that evens out      RACKS, REPLICAS, TRAFFIC or BYTES (`reasons`)
    no copy, but another leader          LEADERS
    only another order or an election    PREFERRED

Goals that copy for one reason only (drain, repair ...) give that reason instead of the first three.

    reason_for_empty_plan(result)    # "already balanced: leaders 4 to 5 and replicas 12 to 13 ..."
    not_repaired(result)             # "2 partitions (a-0, a-1) are without a leader to copy ..."

An empty plan is an answer, not an error: already done, already balanced, or that the goal cannot be
reached, why, and what would help. What a goal leaves undone is said with the partitions and why, in
warnings too.

    settings_before(snapshot.throttles, moves)
    # (SettingBefore(ConfigResourceType.BROKER, "4", FOLLOWER_RATE, "20000000"),)

Those are the throttle keys that are set already where the copies will throttle: what a run restores
in the end. Limits: as of the snapshot; a run reads the keys again before it sets them, and its
ledger has what it found.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.kafka import EVERY_BROKER, ConfigResourceType
from counterpoise.model.plan import Move, MoveReason, SettingBefore
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.explanation.reasons import evening_reasons
from counterpoise.units import format_bytes

_Reasons: TypeAlias = NDArray[np.object_]


def moves_of(result: PlanningResult) -> tuple[Move, ...]:
    """Return the moves, by topic and partition."""
    cluster, assignment, topic_ids = result.cluster, result.assignment, result.snapshot.topic_ids
    planned = np.flatnonzero(assignment.is_in_plan)
    broker_ids = np.append(cluster.broker_ids, -1)
    rates = np.where(cluster.is_rate_known[planned], cluster.bytes_in[planned], -1)
    columns = (
        cluster.topics.take(planned).to_pylist(),
        cluster.numbers[planned].tolist(),
        _broker_ids_of(cluster, assignment.before[planned]),
        _broker_ids_of(cluster, assignment.replicas[planned]),
        broker_ids[cluster.leaders[planned]].tolist(),
        cluster.size_bytes[planned].tolist(),
        rates.tolist(),
        _reasons(result, planned),
        planned.tolist(),
    )
    gains = result.traffic_gains
    return tuple(
        Move(
            topic=topic,
            partition=number,
            topic_id=topic_ids.get(topic) or "",
            replicas_before=replicas_before,
            replicas_after=replicas_after,
            leader_before=leader,
            size_bytes=size_bytes,
            bytes_in_per_second=rate if rate >= 0 else None,
            why=reason,
            traffic_gain=gains.get(row) if reason is MoveReason.TRAFFIC else None,
        )
        for (
            topic,
            number,
            replicas_before,
            replicas_after,
            leader,
            size_bytes,
            rate,
            reason,
            row,
        ) in zip(*columns, strict=True)
    )


def settings_before(throttles: pa.Table, moves: Sequence[Move]) -> tuple[SettingBefore, ...]:
    """Return the keys of the brokers and topics of moves that copy, sorted.

    Any of the replicas before may be copied from. The default of all brokers is among them.
    """
    broker_ids: set[int] = set()
    topics: set[str] = set()
    for move in moves:
        adding = move.adding
        if adding:
            broker_ids.update(move.replicas_before, adding)
            topics.add(move.topic)
    brokers = {str(broker_id) for broker_id in broker_ids}
    if brokers:
        brokers.add(EVERY_BROKER.name)
    throttled = {ConfigResourceType.BROKER: brokers, ConfigResourceType.TOPIC: topics}
    found = []
    for row in throttles.to_pylist():
        resource_type, name = ConfigResourceType(row["resource_type"]), row["resource_name"]
        if name in throttled[resource_type]:
            found.append(SettingBefore(resource_type, name, row["key"], row["value"]))
    return tuple(sorted(found))


def _broker_ids_of(cluster: ClusterArrays, replicas: Ints) -> list[tuple[int, ...]]:
    """Return the broker ids of each row of replicas, without what fills it up."""
    counts = (replicas >= 0).sum(axis=1).tolist()
    rows = np.append(cluster.broker_ids, -1)[replicas].tolist()
    return [tuple(row[:count]) for row, count in zip(rows, counts, strict=True)]


def _reasons(result: PlanningResult, planned: Ints) -> list[MoveReason]:
    """Return one reason for each partition in the plan, in order."""
    cluster, assignment, copy_reason = result.cluster, result.assignment, result.goal.copy_reason
    if copy_reason in (MoveReason.DEMOTE, MoveReason.IMPORTED):
        return [copy_reason] * len(planned)
    is_leader_change = assignment.leaders[planned] != cluster.leaders_now[planned]
    reasons = _either(is_leader_change, MoveReason.LEADERS, MoveReason.PREFERRED)
    is_copy = assignment.is_added[planned].any(axis=1)
    if copy_reason is None:
        reasons[is_copy] = [reason.value for reason in evening_reasons(result, planned[is_copy])]
    else:
        counts_before = (assignment.before[planned] >= 0).sum(axis=1)
        counts_after = (assignment.replicas[planned] >= 0).sum(axis=1)
        reasons[is_copy | (counts_before != counts_after)] = copy_reason.value
    return [MoveReason(reason) for reason in reasons.tolist()]


def _either(is_first: Flags, first: MoveReason, second: MoveReason) -> _Reasons:
    return np.where(is_first, first.value, second.value).astype(object)


# -- why an empty plan is empty


def reason_for_empty_plan(result: PlanningResult) -> str:
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
