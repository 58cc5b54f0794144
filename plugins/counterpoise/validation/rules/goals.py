"""Rules of single goals: what each may move, and what must hold in the end."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.request import Goal, matching
from counterpoise.validation.violation import Case, PartitionRow, Violation, listed, rows_at


def old_brokers_receive_nothing(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.ADD_BROKERS:
        return
    for move in case.plan.moves:
        if old := sorted(set(move.adding) - case.named):
            what = f"would go to {listed(old)}, not among the added brokers"
            yield Violation.of_move("old_brokers_receive_nothing", move, what)


def removed_brokers_end_empty(case: Case) -> Iterator[Violation]:
    """Require that no replica stays but those that the request, or a budget, leaves out."""
    if case.plan.goal is not Goal.REMOVE_BROKERS or case.plan.deferred.partitions:
        return
    for move in case.plan.moves:
        if case.named & set(move.replicas_after):
            what = f"would have replicas {listed(move.replicas_after)}, with a broker that leaves"
            yield Violation.of_move("removed_brokers_end_empty", move, what)
    for name in _rows_with(case, case.named):
        if name not in case.rows and name.topic not in case.topics_out_of_scope:
            message = f"{name} has a replica on a broker that leaves and is not in the plan"
            yield Violation("removed_brokers_end_empty", str(name), message)


def only_drained_replicas_move(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.REMOVE_BROKERS:
        return
    for move in case.plan.moves:
        if others := sorted(set(move.removing) - case.named):
            what = f"would leave {listed(others)}, which stays in the cluster"
            yield Violation.of_move("only_drained_replicas_move", move, what)


def only_dead_replicas_move(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.REPAIR:
        return
    for move in case.plan.moves:
        if alive := sorted(set(move.removing) & case.live):
            yield Violation.of_move(
                "only_dead_replicas_move", move, f"would leave {listed(alive)}, which is live"
            )


def leaders_move_no_bytes(case: Case) -> Iterator[Violation]:
    """Require that goals about leaders reorder replicas, and leave their sets as they are."""
    if case.plan.goal not in (Goal.LEADERS, Goal.DEMOTE_BROKERS):
        return
    for move in case.plan.moves:
        if move.adding or move.removing:
            what = "would change its set of replicas, not just their order"
            yield Violation.of_move("leaders_move_no_bytes", move, what)


def demoted_brokers_lead_nothing(case: Case) -> Iterator[Violation]:
    """Require that they lead only what no other replica can lead.

    Nor are they the first replica: Kafka's own leader rebalance would make them leaders again.
    """
    if case.plan.goal is not Goal.DEMOTE_BROKERS:
        return
    for move, row in case.known_moves:
        if move.replicas_after[0] in case.named and (able := _able_to_lead(case, row)):
            leader = move.replicas_after[0]
            what = f"would be led by broker {leader}, though {listed(able)} could lead it"
            yield Violation.of_move("demoted_brokers_lead_nothing", move, what)
    if case.plan.deferred.partitions:
        return
    for name, row in _rows_with(case, case.named).items():
        leads = case.named & {case.leader_of(row), row.replicas[0]}
        if (
            name not in case.rows
            and leads
            and _may_change(case, row)
            and (able := _able_to_lead(case, row))
        ):
            message = f"{name} stays with broker {min(leads)}, though {listed(able)} could lead it"
            yield Violation("demoted_brokers_lead_nothing", str(name), message)


def _able_to_lead(case: Case, row: PartitionRow) -> list[int]:
    """Return the replicas that could lead instead of the demoted brokers."""
    in_sync = row.replicas if row.isr is None else row.isr
    able = [b for b in row.replicas if b in in_sync and b in case.live - case.named]
    return [b for b in able if case.plan.scope.may_touch_broker(b)]


def _may_change(case: Case, row: PartitionRow) -> bool:
    """Whether the request and the state of the partition let a plan name it."""
    leader = case.leader_of(row)
    if row.is_moving or leader is None or not case.plan.scope.may_touch_broker(leader):
        return False
    return row.topic not in case.topics_out_of_scope and not matching(
        case.policy.excluded_topics, [row.topic]
    )


def _rows_with(case: Case, broker_ids: Collection[int]) -> Mapping[TopicPartition, PartitionRow]:
    """Return the partitions with a replica on any of the brokers."""
    replica_lists = case.snapshot.partitions["replicas"].combine_chunks()
    list_lengths = np.asarray(replica_lists.value_lengths(), dtype=np.int64)
    replica_ids = np.asarray(replica_lists.flatten(), dtype=np.int64)
    row_of_replica = np.repeat(np.arange(len(replica_lists)), list_lengths)
    is_on_these = np.isin(replica_ids, sorted(broker_ids))
    return rows_at(case.snapshot.partitions, pa.array(np.unique(row_of_replica[is_on_these])))
