"""Rules of single goals: what each may move, and what must hold in the end."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.columns import flat_lists
from counterpoise.model.request import Goal
from counterpoise.model.topic_patterns import matching
from counterpoise.model.words import list_brokers
from counterpoise.validation.violation import (
    CheckedPlan,
    Complaint,
    PartitionRow,
    about,
    rows_at,
)


def old_brokers_receive_nothing(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.goal is not Goal.ADD_BROKERS:
        return
    for move in checked.plan.moves:
        if old := sorted(set(move.adding) - checked.named):
            what = (
                f"would add replicas on {list_brokers(old)}; only the added brokers may receive any"
            )
            yield about(move, what)


def removed_brokers_end_empty(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that no replica stays but those that the request, or a budget, leaves out, and those
    of partitions that goal repair has to come to first: with a replica on another dead broker.
    These may be led by another replica meanwhile.
    """
    if checked.plan.goal is not Goal.REMOVE_BROKERS or checked.plan.deferred.partitions:
        return
    for move, row in checked.known_moves:
        staying = sorted(checked.named & set(move.replicas_after))
        if staying and not checked.is_left_to_repair(row):
            what = f"would keep a replica on {list_brokers(staying)}, which the plan is to empty"
            yield about(move, what)
    for name, row in _rows_with(checked, checked.named).items():
        is_out_of_scope = name.topic in checked.topics_out_of_scope
        is_named = name in checked.rows
        if not is_named and not is_out_of_scope and not checked.is_left_to_repair(row):
            message = (
                f"{name} has a replica on a broker that the plan is to empty, and is not in the "
                "plan"
            )
            yield Complaint(str(name), message)


def only_drained_replicas_move(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.goal is not Goal.REMOVE_BROKERS:
        return
    for move in checked.plan.moves:
        if others := sorted(set(move.removing) - checked.named):
            what = (
                f"would lose its replica on {list_brokers(others)}; only those on removed "
                "brokers may move"
            )
            yield about(move, what)


def only_dead_replicas_move(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.goal is not Goal.REPAIR:
        return
    for move in checked.plan.moves:
        if alive := sorted(set(move.removing) & checked.live):
            what = (
                f"would lose its live replica on {list_brokers(alive)}; only dead ones may be "
                "replaced"
            )
            yield about(move, what)


def leaders_move_no_bytes(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that goals about leaders reorder replicas, and leave their sets as they are."""
    if checked.plan.goal not in (Goal.LEADERS, Goal.DEMOTE_BROKERS):
        return
    for move in checked.plan.moves:
        if move.adding or move.removing:
            what = "would change its set of replicas; this goal changes their order only"
            yield about(move, what)


def demoted_brokers_lead_nothing(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that they lead only what no other replica can lead.

    Nor are they the first replica: Kafka's own leader rebalance would make them leaders again.
    """
    if checked.plan.goal is not Goal.DEMOTE_BROKERS:
        return
    for move, row in checked.known_moves:
        if move.replicas_after[0] in checked.named and (able := _able_to_lead(checked, row)):
            leader = move.replicas_after[0]
            what = f"would be led by broker {leader}, though {list_brokers(able)} could lead it"
            yield about(move, what)
    if checked.plan.deferred.partitions:
        return
    for name, row in _rows_with(checked, checked.named).items():
        leads = checked.named & {checked.leader_of(row), row.replicas[0]}
        if (
            name not in checked.rows
            and leads
            and _may_change(checked, row)
            and (able := _able_to_lead(checked, row))
        ):
            message = (
                f"{name} stays with broker {min(leads)}, though {list_brokers(able)} could lead it"
            )
            yield Complaint(str(name), message)


def _able_to_lead(checked: CheckedPlan, row: PartitionRow) -> list[int]:
    """Return the replicas that could lead instead of the demoted brokers."""
    in_sync = row.replicas if row.isr is None else row.isr
    able = [b for b in row.replicas if b in in_sync and b in checked.live - checked.named]
    return [b for b in able if checked.plan.scope.may_touch_broker(b)]


def _may_change(checked: CheckedPlan, row: PartitionRow) -> bool:
    """Whether the request and the state of the partition let a plan name it."""
    leader = checked.leader_of(row)
    if row.is_moving or leader is None or not checked.plan.scope.may_touch_broker(leader):
        return False
    return row.topic not in checked.topics_out_of_scope and not matching(
        checked.policy.excluded_topics, [row.topic]
    )


def _rows_with(
    checked: CheckedPlan, broker_ids: Collection[int]
) -> Mapping[TopicPartition, PartitionRow]:
    """Return the partitions with a replica on any of the brokers."""
    row_of_replica, replica_ids = flat_lists(checked.snapshot.partitions["replicas"])
    is_on_these = np.isin(replica_ids, sorted(broker_ids))
    return rows_at(checked.snapshot.partitions, pa.array(np.unique(row_of_replica[is_on_these])))
