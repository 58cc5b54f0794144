"""The database's clock is set back. Every wait and the step lock of a dead process still end, and
which of two runs is the newer one is still known.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from counterpoise.errors import (
    HaltedError,
    StepExpiredError,
    StepLockHeldError,
    UnknownOutcomeError,
)
from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.ledger import Ledger
from counterpoise.model.control import Control
from counterpoise.model.request import Goal
from counterpoise.model.run import LaterMove, RunState
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    let_step_locks_run_out,
    set_database_clock,
)

PATIENCE = timedelta(minutes=20)  # `dead_broker_patience` is 15 min


def driver_with_clock(run: SimulatedRun, clock: Callable[[], datetime]) -> Driver:
    options = ExecutionOptions(run.run_id, run.plan, run.rate, run.limits)
    return Driver(run.cluster, run.ledger, options, clock, run.log.append)


def with_a_dead_broker(folder: Path) -> SimulatedRun:
    run = SimulatedRun.make(folder)
    run.until_moving(run.driver())
    run.cluster.kill_broker(4)
    return run


def halts_in_time(run: SimulatedRun, driver: Driver) -> None:
    """Take a step every 10 s."""
    began_at = run.cluster.now
    with pytest.raises(HaltedError, match="brokers of the plan are dead: 4"):
        while True:
            driver.step()
            run.cluster.advance(10)
            assert run.cluster.now - began_at < PATIENCE.total_seconds(), "it waits for too long"
    assert run.end(run.driver()) is RunState.HALTED


def test_a_wait_ends_although_the_clock_is_set_back_meanwhile(tmp_path: Path) -> None:
    run = with_a_dead_broker(tmp_path)
    driver = driver_with_clock(run, lambda: run.clock() + timedelta(hours=1))
    for _ in range(6):
        driver.step()
        run.cluster.advance(10)
    halts_in_time(run, run.driver())


# -- the database's clock, by which the step lock goes


@pytest.fixture
def killed_within_a_step(tmp_path: Path) -> Iterator[tuple[SimulatedRun, list[float]]]:
    """A run whose process was killed at this second by the database's clock."""
    run, now = SimulatedRun.make(tmp_path), [1_000_000.0]
    run.driver().open()
    let_step_locks_run_out(run.ledger)
    set_database_clock(run.ledger._engine, lambda: now[0])
    with run.ledger.journal(run.run_id).step():
        yield run, now


@pytest.mark.parametrize("seconds_back", [60, 3600])
def test_the_lock_of_a_killed_process_ends_although_the_database_is_set_back(
    killed_within_a_step: tuple[SimulatedRun, list[float]], seconds_back: int
) -> None:
    run, now = killed_within_a_step
    now[0] -= seconds_back
    now[0] += 10
    assert run.driver().step() is not None


def test_a_step_that_the_database_was_set_back_in_observes_again(
    killed_within_a_step: tuple[SimulatedRun, list[float]],
) -> None:
    run, now = killed_within_a_step
    now[0] += 60
    with run.ledger.journal(run.run_id).step() as step:
        now[0] -= 3600
        with pytest.raises(StepExpiredError), step.together(is_current=True):
            pass


def test_a_step_lock_holds_although_the_database_is_set_back_a_little(
    killed_within_a_step: tuple[SimulatedRun, list[float]],
) -> None:
    run, now = killed_within_a_step
    now[0] -= 5
    with pytest.raises(StepLockHeldError):
        run.driver().step()
    now[0] += 35
    assert run.driver().step() is not None


# -- which of two runs came later


@pytest.mark.parametrize("minutes_behind", [0, 10, 23 * 60])
def test_what_a_later_run_moved_is_known_although_the_clock_was_set_back(
    tmp_path: Path, minutes_behind: int
) -> None:
    """`undo` leaves alone, and names, what later runs have moved."""
    picture = "orders-0: 1 2 3 size=30000000000"
    to_4, to_5 = (
        move("orders-0", "1 2 3", f"{broker_id} 2 3", size=30_000_000_000) for broker_id in (4, 5)
    )
    racks = f"{FOUR_BROKERS} 5=a"
    run = SimulatedRun.of_moves(tmp_path, picture, to_4, racks=racks)
    run.until_moving(run.driver())
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.driver().step()
    assert run.end(run.driver()) is RunState.HALTED
    earlier = run.run
    run.cluster.now -= 60 * minutes_behind
    run.plan = plan_by_hand(cluster(picture, racks=racks), Goal.REBALANCE, to_5)
    run.run_id = run.ledger.propose(run.plan, "plans/y.json", requested_by="alice").run_id
    run.ledger.record_decision(run.approval())
    run.until_moving(run.driver())
    later = LaterMove(run.run_id, None, stopped_run_ids=(run.run_id,))
    assert run.ledger.moved_after(earlier) == {to_5.topic_partition: later}
    assert [r.run_id for r in run.ledger.runs()] == [run.run_id, earlier.run_id]
    assert run.ledger.moved_after(run.run) == {}


# -- a call that nobody answered


def test_a_call_without_an_answer_does_not_halt_the_run_since_the_clock_is_set_back(
    tmp_path: Path,
) -> None:
    """Two replicas are added, one after the other: a late call about the first would undo both."""
    picture = "orders-0: 1 2 size=3000000"
    copy = move("orders-0", "1 2", "3 4", size=6_000_000)
    run = SimulatedRun.of_moves(tmp_path, picture, copy)

    def ahead() -> datetime:
        return run.clock() + timedelta(hours=1)

    options = ExecutionOptions(run.run_id, run.plan, run.rate, run.limits)
    ledger = Ledger.open(str(run.ledger._engine.url), ahead)
    fast = Driver(run.cluster, ledger, options, ahead, run.log.append)
    fast.open()
    lost = UnknownOutcomeError("no answer", broker_id=1)
    run.cluster.fail_next("alter_reassignments", lost)
    journal = run.ledger.journal(run.run_id)
    while not journal.has_submissions():
        run.cluster.advance(fast.step() or 0)
    driver = run.driver()
    run.repeat_for(driver.step, PATIENCE.total_seconds(), every=5)
    assert run.end(driver) is RunState.DONE
    ledger.close()
