"""Rules about limits: what the policy and the request leave out, what a plan may cost, what a disk
may hold.
"""

from collections.abc import Iterator

from counterpoise.model.plan import Move
from counterpoise.model.request import matching
from counterpoise.units import format_bytes
from counterpoise.validation.violation import Case, PartitionRow, Violation, listed


def excluded_topics_untouched(case: Case) -> Iterator[Violation]:
    excluded = matching(case.policy.excluded_topics, {move.topic for move in case.plan.moves})
    for move in case.plan.moves:
        if move.topic in excluded:
            yield Violation.of_move(
                "excluded_topics_untouched", move, "is of a topic that the policy excludes"
            )


def scope_respected(case: Case) -> Iterator[Violation]:
    """Topics outside the request's scope stay as they are; brokers outside neither gain, lose nor
    lead anew.
    """
    for move, row in case.known_moves:
        if move.topic in case.topics_out_of_scope:
            yield Violation.of_move(
                "scope_respected", move, "is of a topic outside the request's scope"
            )
        if outside := _touched_outside(case, move, row):
            what = f"would change what brokers {listed(outside)} hold or lead, outside the request's scope"
            yield Violation.of_move("scope_respected", move, what)


def _touched_outside(case: Case, move: Move, row: PartitionRow) -> list[int]:
    touched = {*move.adding, *(b for b in move.removing if b not in case.leaving)}
    if move.replicas_after[0] != case.leader_of(row):
        touched.add(move.replicas_after[0])
    return sorted(b for b in touched if not case.plan.scope.may_touch_broker(b))


def budget_respected(case: Case) -> Iterator[Violation]:
    """Bytes count what is copied, partitions all that the plan names."""
    plan, budget = case.plan, case.plan.budget
    if budget.max_bytes is not None and plan.copied_bytes > budget.max_bytes:
        message = (
            f"the plan copies {plan.copied_bytes} bytes, more than its budget of {budget.max_bytes}"
        )
        yield Violation("budget_respected", "plan", message)
    if budget.max_partitions is not None and len(plan.moves) > budget.max_partitions:
        message = f"the plan names {len(plan.moves)} partitions, more than its budget of {budget.max_partitions}"
        yield Violation("budget_respected", "plan", message)


def disks_not_overfilled(case: Case) -> Iterator[Violation]:
    """All that a broker receives fits on its fullest disk below the policy's limit, with nothing
    gone from it yet.

    A broker chooses the log dir of a new replica by the number of replicas there, not by room
    (KIP-113).
    """
    for broker_id, left in sorted(case.room_left.items()):
        received = case.arriving[broker_id]
        if received > max(0, left + received):
            message = (
                f"broker {broker_id} would receive {format_bytes(received)}; a log dir of it has room for "
                f"{format_bytes(max(0, left + received))} below {case.policy.disk_limit_percent} %"
            )
            yield Violation("disks_not_overfilled", f"broker {broker_id}", message)
