"""Rules about limits: topics and brokers left out, the budget of a plan, the room on a disk."""

from collections.abc import Iterator

from counterpoise.model.plan import Move
from counterpoise.model.topic_patterns import matching
from counterpoise.model.words import list_brokers, verb
from counterpoise.units import format_bytes
from counterpoise.validation.violation import CheckedPlan, Complaint, PartitionRow, about


def excluded_topics_untouched(checked: CheckedPlan) -> Iterator[Complaint]:
    excluded = matching(checked.policy.excluded_topics, {move.topic for move in checked.plan.moves})
    for move in checked.plan.moves:
        if move.topic in excluded:
            yield about(move, "is of a topic that the policy excludes")


def constraints_kept(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that replicas go only to brokers of their topic's set, that take new ones, and that
    no broker gets more than it may hold.
    """
    constraints = checked.policy.constraints
    closed = set(constraints.no_new_replicas_on)
    for move in checked.plan.moves:
        if outside := sorted(
            set(move.adding) & checked.live - checked.allowed_by_topic[move.topic]
        ):
            what = f"would add replicas on {list_brokers(outside)}, outside of its broker set"
            yield about(move, what)
        if added := sorted(closed & set(move.adding)):
            what = f"would add replicas on {list_brokers(added)}; no_new_replicas_on has them"
            yield about(move, what)
    max_count = constraints.max_replicas_per_broker
    for figure in checked.plan.figures:
        if max_count is not None and figure.replicas_after > max(max_count, figure.replicas_before):
            message = (
                f"broker {figure.broker_id} would hold {figure.replicas_after} replicas, more than "
                f"max_replicas_per_broker {max_count}"
            )
            yield Complaint(f"broker {figure.broker_id}", message)


def scope_respected(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that topics outside the request's scope stay as they are; brokers outside of it gain,
    lose and begin to lead nothing.
    """
    for move, row in checked.known_moves:
        if move.topic in checked.topics_out_of_scope:
            yield about(move, "is of a topic outside the request's scope")
        if outside := _touched_outside(checked, move, row):
            has = verb(len(outside), "holds or leads", "hold or lead")
            what = f"would change what {list_brokers(outside)} {has}, outside the request's scope"
            yield about(move, what)


def _touched_outside(checked: CheckedPlan, move: Move, row: PartitionRow) -> list[int]:
    touched = {*move.adding, *(b for b in move.removing if b not in checked.leaving)}
    if move.replicas_after[0] != checked.leader_of(row):
        touched.add(move.replicas_after[0])
    return sorted(b for b in touched if not checked.plan.scope.may_touch_broker(b))


def budget_respected(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that the budget is kept.

    Bytes count what is copied, partitions all that the plan names.
    """
    plan, budget = checked.plan, checked.plan.budget
    if budget.max_bytes is not None and plan.copied_bytes > budget.max_bytes:
        message = (
            f"the plan copies {plan.copied_bytes} bytes, more than its budget of {budget.max_bytes}"
        )
        yield Complaint("plan", message)
    if budget.max_partitions is not None and len(plan.moves) > budget.max_partitions:
        message = (
            f"the plan names {len(plan.moves)} partitions, more than its budget of "
            f"{budget.max_partitions}"
        )
        yield Complaint("plan", message)


def disks_not_overfilled(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that all that a broker receives fits on its fullest disk below the policy's limit,
    with nothing removed from it yet.

    A broker chooses the log dir of a new replica by the number of replicas there, not by room
    (KIP-113).
    """
    for broker_id, room_afterwards in sorted(checked.room_left.items()):
        received_bytes = checked.arriving[broker_id]
        room_bytes = max(0, room_afterwards + received_bytes)
        if received_bytes > room_bytes:
            message = (
                f"broker {broker_id} would receive {format_bytes(received_bytes)}, but a log dir "
                f"of it has room for {format_bytes(room_bytes)} below "
                f"{checked.policy.disk_limit_percent} %"
            )
            yield Complaint(f"broker {broker_id}", message)
