"""Moves with their reasons; why an empty plan is empty, and what a goal had to leave undone.

    moves = moves_of(result)         # each with the measure that the change serves first

    a copy that takes a partition to more racks   RACKS
    a copy from a broker with more replicas       REPLICAS
    any other copy                                BYTES
    no copy, but another leader                   LEADERS
    only another order or an election             PREFERRED

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
from counterpoise.model.kafka import ConfigResourceType
from counterpoise.model.plan import Move, MoveReason, SettingBefore
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.explanation.planning_result import PlanningResult, is_worse
from counterpoise.planning.placing.targets import racks_missing
from counterpoise.units import format_bytes

_Reasons: TypeAlias = NDArray[np.object_]

_IS_MOVING = "under reassignment; wait until it is done, or cancel it"
_IS_LEADERLESS = "without a leader to copy from; bring a broker back"
_HAS_NO_DESTINATION = (
    "for which no other live broker in scope has room; add brokers or disk, widen the scope, or "
    "raise disk_limit_percent"
)
_HAS_TOO_FEW_IN_SCOPE = "with too few replicas on brokers in scope; widen it"
_IS_LEFT_TO_REPAIR = "left to goal repair: with a replica on a dead broker no copy could end"


def moves_of(result: PlanningResult) -> tuple[Move, ...]:
    """Return the moves, by topic and partition."""
    cluster, assignment, topic_ids = result.cluster, result.assignment, result.snapshot.topic_ids
    planned = np.flatnonzero(assignment.is_in_plan)
    broker_ids = np.append(cluster.broker_ids, -1)
    rates = np.where(cluster.is_rate_known[planned], cluster.bytes_in[planned], -1)
    columns = (
        cluster.topics.take(planned).to_pylist(),
        cluster.numbers[planned].tolist(),
        _broker_ids_of(result, assignment.before[planned]),
        _broker_ids_of(result, assignment.replicas[planned]),
        broker_ids[cluster.leaders[planned]].tolist(),
        cluster.size_bytes[planned].tolist(),
        rates.tolist(),
        _reasons(result, planned),
    )
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
        )
        for topic, number, replicas_before, replicas_after, leader, size_bytes, rate, reason in zip(
            *columns, strict=True
        )
    )


def settings_before(throttle_table: pa.Table, moves: Sequence[Move]) -> tuple[SettingBefore, ...]:
    """Return the keys of the brokers and topics of moves that copy, sorted.

    Any of the replicas before may be copied from.
    """
    broker_ids: set[int] = set()
    topics: set[str] = set()
    for move in moves:
        adding = move.adding
        if adding:
            broker_ids.update(move.replicas_before, adding)
            topics.add(move.topic)
    brokers = {str(broker_id) for broker_id in broker_ids}
    throttled = {ConfigResourceType.BROKER: brokers, ConfigResourceType.TOPIC: topics}
    found = []
    for row in throttle_table.to_pylist():
        resource_type, name = ConfigResourceType(row["resource_type"]), row["resource_name"]
        if name in throttled[resource_type]:
            found.append(SettingBefore(resource_type, name, row["key"], row["value"]))
    return tuple(sorted(found))


def _broker_ids_of(result: PlanningResult, replicas: Ints) -> list[tuple[int, ...]]:
    """Return the broker ids of each row of replicas, without what fills it up."""
    counts = (replicas >= 0).sum(axis=1).tolist()
    rows = np.append(result.cluster.broker_ids, -1)[replicas].tolist()
    return [tuple(row[:count]) for row, count in zip(rows, counts, strict=True)]


def _reasons(result: PlanningResult, planned: Ints) -> list[MoveReason]:
    """Return one reason for each partition in the plan, in order."""
    cluster, assignment, copy_reason = result.cluster, result.assignment, result.copy_reason
    if copy_reason in (MoveReason.DEMOTE, MoveReason.IMPORTED):
        return [copy_reason] * len(planned)
    is_leader_change = assignment.leaders[planned] != cluster.leaders_now[planned]
    is_copy = assignment.is_added[planned].any(axis=1)
    without_copy = _either(is_leader_change, MoveReason.LEADERS, MoveReason.PREFERRED)
    if copy_reason is None:
        with_copy = _evening_reasons(result, planned)
    else:
        counts_before = (assignment.before[planned] >= 0).sum(axis=1)
        counts_after = (assignment.replicas[planned] >= 0).sum(axis=1)
        is_copy |= counts_before != counts_after
        with_copy = np.full(len(planned), copy_reason.value, dtype=object)
    reasons = np.where(is_copy, with_copy, without_copy)
    return [MoveReason(value) for value in reasons.tolist()]


def _evening_reasons(result: PlanningResult, planned: Ints) -> _Reasons:
    """Return the reason of each partition if it is copied."""
    assignment, staying = result.assignment, result.roles.staying
    missing_before = racks_missing(result.before, staying)[planned]
    missing_after = racks_missing(result.after, staying)[planned]
    counts = np.append(result.before.counts, 0)
    source_counts = counts[assignment.before[planned]]
    destination_counts = counts[assignment.replicas[planned]]
    largest = np.iinfo(np.int64).max
    from_count = np.where(assignment.is_removed[planned], source_counts, 0).max(axis=1)
    to_count = np.where(assignment.is_added[planned], destination_counts, largest).min(axis=1)
    reasons = _either(from_count > to_count, MoveReason.REPLICAS, MoveReason.BYTES)
    return np.where(missing_before > missing_after, MoveReason.RACKS.value, reasons)


def _either(is_first: Flags, first: MoveReason, second: MoveReason) -> _Reasons:
    return np.where(is_first, first.value, second.value).astype(object)


# -- why an empty plan is empty


def reason_for_empty_plan(result: PlanningResult) -> str:
    """Return one sentence for the person who requested the plan."""
    if result.request.goal is Goal.IMPORTED:
        return "every partition is already where the reassignment wants it"
    if not result.cluster.partition_count:
        return "already balanced: the cluster has no partitions"
    if result.deferred.partitions:
        return _budget_too_small(result)
    match result.request.goal:
        case Goal.LEADERS:
            return (
                f"already balanced: each broker leads {_leaders_per_broker(result)} partitions, "
                "as even as the replica sets allow"
            )
        case Goal.REMOVE_BROKERS:
            return (
                f"already done: no replica is left on these brokers{_in_scope(result)}, and "
                f"leaders are as even as they can be ({_leaders_per_broker(result)})"
            )
        case Goal.DEMOTE_BROKERS:
            return _why_not_demoted(result)
        case Goal.REPAIR:
            return _why_not_repaired(result)
        case Goal.REPLICATION_FACTOR:
            return _why_not_resized(result)
        case _:
            return _why_not_evened(result)


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


def _why_not_demoted(result: PlanningResult) -> str:
    brokers = name_brokers(sorted(result.request.broker_ids))
    broker_count = len(result.request.broker_ids)
    partitions = _still_led(result)
    if not len(partitions):
        lead = verb(broker_count, "leads no partition and is", "lead no partition and are")
        return f"already done: {brokers} {lead} preferred leader of none{_in_scope(result)}"
    count = pluralize(len(partitions), "partition")
    return (
        f"cannot, because no other live replica may lead the {count} that "
        f"{verb(broker_count, 'it leads', 'they lead')} ({result.cluster.names(partitions)}); "
        "raise their replication factor, bring brokers back, or widen the scope"
    )


def _why_not_repaired(result: PlanningResult) -> str:
    if undone := not_repaired(result):
        return f"cannot, because {undone}"
    broker_ids = sorted(result.request.broker_ids)
    brokers = name_brokers(broker_ids) if broker_ids else "a broker that is dead"
    return f"already done: no replica is on {brokers}{_in_scope(result)}"


def _why_not_resized(result: PlanningResult) -> str:
    undone = [sentence for sentence in (not_resized(result), left_to_repair(result)) if sentence]
    if undone:
        return f"cannot, because {'; '.join(undone)}"
    replicas = pluralize(result.request.replication_factor or 0, "replica")
    may_change = int(result.cluster.may_change.sum())
    return f"already done: each of the {may_change} partitions that may change has {replicas}"


def _why_not_evened(result: PlanningResult) -> str:
    counts, best = result.after.counts[result.sharing], result.best_counts[result.sharing]
    facts = f"leaders {_leaders_per_broker(result)} and replicas {_range(counts)} per broker"
    if not is_worse(counts, best) and not len(result.out_of_band):
        percent = result.request.policy.bytes_tolerance_percent
        return f"already balanced: {facts}, bytes within {percent} % of the fair share"
    help_ = "goal rebalance may do more, since it moves replicas between all brokers"
    if result.request.goal is Goal.REBALANCE:
        help_ = (
            "more partitions, other sizes, brokers in the racks that lack some, or a wider scope "
            "would help"
        )
    return (
        f"cannot, because no move that this goal allows makes the cluster more even: {facts}; "
        f"{help_}"
    )


def _in_scope(result: PlanningResult) -> str:
    scope = result.request.scope
    return " in the scope of this plan" if scope.topics or scope.excluded_topics else ""


def _leaders_per_broker(result: PlanningResult) -> str:
    return _range(result.leader_counts[result.roles.leading])


def _range(values: Ints) -> str:
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"


# -- what the goal leaves undone


def _still_led(result: PlanningResult) -> Ints:
    """Return partitions that a demoted broker leads, or is first in, in the end.

    No other replica may lead them.
    """
    assignment = result.assignment
    is_demoted = result.roles.is_demoted
    leads, is_first = is_demoted[assignment.leaders], is_demoted[assignment.replicas[:, 0]]
    return np.flatnonzero(result.cluster.may_reorder & (leads | is_first))


def not_repaired(result: PlanningResult) -> str:
    """Return partitions in scope that keep a replica on a dead broker which the goal is about."""
    cluster = result.cluster
    is_on_dead = np.append(result.roles.leaving, False)[result.after.replicas].any(axis=1)
    is_concerned = is_on_dead & ~cluster.is_excluded
    is_leaderless = cluster.is_leaderless & ~cluster.is_moving
    return _undone(
        result,
        (is_concerned & cluster.is_moving, _IS_MOVING),
        (is_concerned & is_leaderless, _IS_LEADERLESS),
        (is_concerned & cluster.may_change, _HAS_NO_DESTINATION),
    )


def not_resized(result: PlanningResult) -> str:
    """Return partitions in scope that do not have the wanted number of replicas."""
    cluster, counts = result.cluster, result.after.replica_counts
    factor = result.request.replication_factor or 0
    is_left = (counts != factor) & ~cluster.is_excluded & ~cluster.is_left_to_repair
    is_leaderless = cluster.is_leaderless & ~cluster.is_moving
    return _undone(
        result,
        (is_left & cluster.is_moving, _IS_MOVING),
        (is_left & is_leaderless, _IS_LEADERLESS),
        (is_left & cluster.may_change & (counts < factor), _HAS_NO_DESTINATION),
        (is_left & cluster.may_change & (counts > factor), _HAS_TOO_FEW_IN_SCOPE),
    )


def left_to_repair(result: PlanningResult) -> str:
    """Return partitions that stay as they are because a replica is on a dead broker.

    The goal is not about that broker.
    """
    return _undone(result, (result.cluster.is_left_to_repair, _IS_LEFT_TO_REPAIR))


def _undone(result: PlanningResult, *kinds: tuple[Flags, str]) -> str:
    """Return which partitions are left and why, for each kind that has any; "" when none has."""
    sentences = []
    for is_concerned, why in kinds:
        partitions = np.flatnonzero(is_concerned)
        if len(partitions):
            names = result.cluster.names(partitions)
            singular, plural = f"partition ({names}) is {why}", f"partitions ({names}) are {why}"
            sentences.append(pluralize(len(partitions), singular, plural))
    return "; ".join(sentences)
