"""A move of a run under way that somebody else cancels: sent again once, then the run halts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.control import Control
from counterpoise.model.run import SHOWS_WITHIN, RunState
from counterpoise.model.run_progress import Condition
from tests.simulation.test_whose_moves import FIRST, SECOND, a_run
from tests.support.ledger_view import submit_was_answered, submit_was_not_answered
from tests.support.runs import SimulatedRun, own_configs, times_submitted

FIRST_PARTITION, SECOND_PARTITION = FIRST.topic_partition, SECOND.topic_partition
BOTH = {FIRST_PARTITION, SECOND_PARTITION}


@pytest.fixture
def run(tmp_path: Path) -> SimulatedRun:
    run = a_run(tmp_path, FIRST, SECOND)
    run.rate = 1_000  # it takes most of an hour
    run.until_moving(run.driver())
    until_in_flight(run)
    return run


def until_in_flight(run: SimulatedRun) -> None:
    """Take steps until all moves are in flight, and have been observed to be."""
    for _ in range(200):
        run.cluster.advance(run.driver().step() or 0)
        if run.cluster.list_reassignments().keys() == BOTH == seen_in_flight(run):
            return
    raise AssertionError(f"not in flight; it said: {run.log[-3:]}")


def seen_in_flight(run: SimulatedRun) -> set[Any]:
    names = run.run_progress().arrived_bytes
    return {tp for tp in BOTH if str(tp) in names}


def texts_of_cancels(run: SimulatedRun) -> list[str]:
    return [event.text for event in run.events() if event.kind == "move cancelled"]


def times_sent(run: SimulatedRun) -> int:
    return times_submitted(run.cluster)[FIRST_PARTITION, FIRST.replicas_after]


def test_a_move_that_somebody_cancels_is_sent_again_once_and_then_the_run_halts(
    run: SimulatedRun,
) -> None:
    run.cluster.alter_reassignments({FIRST_PARTITION: None})
    until_in_flight(run)
    assert times_sent(run) == 2
    (text,) = texts_of_cancels(run)
    assert text.startswith("somebody else cancelled orders-0 (")
    run.cluster.alter_reassignments({FIRST_PARTITION: None})
    with pytest.raises(HaltedError, match=r"cancelled orders-0 again.* find out who"):
        run.repeat(run.driver().step)
    assert times_sent(run) == 2
    assert run.run.state is RunState.SETTLING


def test_a_run_says_that_it_waits_since_a_move_seems_cancelled(run: SimulatedRun) -> None:
    """No call is without an answer, so that the patience of those does not begin either."""
    run.log.clear()
    run.cluster.alter_reassignments(dict.fromkeys(BOTH))
    for _ in range(4):
        run.cluster.advance(run.driver().step() or 0)
    assert len(set(run.log)) == 1, run.log
    assert run.log[0].startswith("orders-0, orders-1 seem to have been cancelled by somebody else")
    assert Condition.UNANSWERED not in run.run_progress().conditions


def test_nothing_new_begins_beside_a_move_that_seems_cancelled(tmp_path: Path) -> None:
    """Whoever cancels may take the throttle keys back as well: none is set for what waits."""
    run = a_run(tmp_path, FIRST, SECOND)
    run.rate, run.limits = 1_000, replace(run.limits, max_moves_in_flight=1)
    run.until_moving(run.driver())
    run.cluster.advance(run.driver().step() or 0)
    (in_flight,) = run.cluster.list_reassignments()
    run.cluster.alter_reassignments({in_flight: None})
    run.cluster.configs.dynamic.clear()
    cancelled_at = run.cluster.now
    while run.cluster.now - cancelled_at < SHOWS_WITHIN.total_seconds() - 1:
        run.cluster.advance(run.driver().step() or 0)
        assert not run.cluster.list_reassignments()
        assert own_configs(run.cluster) == {}
    run.cluster.advance(1)
    run.until_moving(run.driver())
    assert own_configs(run.cluster)


def test_what_is_cancelled_while_the_run_is_paused_is_sent_again_once(run: SimulatedRun) -> None:
    run.ask(Control.PAUSE)
    run.cluster.advance(run.driver().step() or 0)
    run.cluster.alter_reassignments(dict.fromkeys(BOTH))
    for _ in range(10):
        run.cluster.advance(run.driver().step() or 0)
    assert not texts_of_cancels(run)
    run.ask(Control.RESUME)
    until_in_flight(run)
    (text,) = texts_of_cancels(run)
    assert "cancelled orders-0, orders-1 (" in text
    run.ask(Control.PAUSE)
    run.cluster.alter_reassignments(dict.fromkeys(BOTH))
    with pytest.raises(HaltedError, match="cancelled orders-0, orders-1 again"):
        run.repeat(run.driver().step)


def test_a_cancel_of_the_run_itself_is_nobody_elses(run: SimulatedRun) -> None:
    for _ in range(3):
        run.halt()
        assert run.end(run.driver()) is RunState.HALTED
        run.driver().open()
        until_in_flight(run)
    assert not texts_of_cancels(run)


def test_a_cancel_of_an_earlier_execution_that_comes_late_is_nobody_elses(
    run: SimulatedRun,
) -> None:
    """Nobody answered it; a later call about the move was answered."""
    again = {FIRST_PARTITION: FIRST.replicas_after}
    submit_was_not_answered(run.ledger, run.run_id, {FIRST_PARTITION: None}, broker_id=3)
    submit_was_answered(run.ledger, run.run_id, again)
    run.cluster.advance(run.driver().step() or 0)
    run.cluster.alter_reassignments({FIRST_PARTITION: None})
    until_in_flight(run)
    assert not texts_of_cancels(run)
