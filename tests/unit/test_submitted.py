"""What a run has submitted, on both databases: open until nothing of it can be under way."""

from datetime import timedelta

from counterpoise.ledger import Ledger
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState, Submitted
from tests.support.clocks import Clock
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

PICTURE = "orders-0: 1 2 3\norders-1: 1 2 3"
PLAN = plan_by_hand(
    cluster(PICTURE, racks="1 2 3 4"), Goal.REBALANCE, move("orders-0", "1 2 3", "4 2 3")
)
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
TARGET = (4, 2, 3)


def a_run(ledger: Ledger) -> str:
    """Return a run that has halted."""
    run_id = ledger.propose(PLAN, "p", requested_by="a").run_id
    with ledger._transactions.writing() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET state = 'halted' WHERE run_id = '{run_id}'")
    return run_id


def open_rows(ledger: Ledger, run_id: str) -> list[Submitted]:
    return ledger.journal(run_id).submitted(only_open=True)


def test_an_answer_puts_back_what_was_and_a_refusal_closes_what_was_never_made(
    ledger: Ledger, clock: Clock
) -> None:
    run_id = a_run(ledger)
    assert ledger.run(run_id).state is RunState.HALTED
    with ledger.journal(run_id).step() as step:
        step.submitting([(FIRST, TARGET)])  # nobody answers
        clock.now += timedelta(seconds=10)
        before = step.submitting([(FIRST, TARGET), (SECOND, TARGET)])
        step.answered(before, refused=[FIRST, SECOND])
    (row,) = open_rows(ledger, run_id)
    assert (row.topic_partition, row.unanswered_at) == (FIRST, clock.now - timedelta(seconds=10))
    assert not row.was_made and not row.is_first_call
    assert ledger.journal(run_id).count_submitted() == 2


def test_what_nobody_answered_is_over_a_day_later(ledger: Ledger, clock: Clock) -> None:
    run_id = a_run(ledger)
    with ledger.journal(run_id).step() as step:
        step.submitting([(FIRST, TARGET)])
    clock.now += timedelta(hours=23)
    assert len(open_rows(ledger, run_id)) == len(ledger.open_submitted(PLAN.cluster)) == 1
    clock.now += timedelta(hours=1)
    assert open_rows(ledger, run_id) == ledger.open_submitted(PLAN.cluster) == []
    assert len(ledger.journal(run_id).submitted()) == 1, "an undo knows it"


def test_a_run_that_submits_the_same_takes_over_what_an_ended_run_has_open(
    ledger: Ledger, clock: Clock
) -> None:
    earlier, later = a_run(ledger), a_run(ledger)
    with ledger.journal(earlier).step() as step:
        step.submitting([(FIRST, TARGET)])
    sent_at = clock.now
    clock.now += timedelta(minutes=1)
    with ledger.journal(later).step() as step:
        step.answered(step.submitting([(FIRST, TARGET)]))
    assert open_rows(ledger, earlier) == []
    (row,) = open_rows(ledger, later)
    assert row.unanswered_at == sent_at, "the earlier call may still come"
    with ledger.journal(later).step() as step:
        step.over([row])
    assert ledger.open_submitted(PLAN.cluster) == []
