"""Clocks that are wrong: those of two workers differ, or one is set back. Every wait still ends."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path

import pytest

from counterpoise import controls, pipeline
from counterpoise.errors import (
    HaltedError,
    StepExpiredError,
    StepLockHeldError,
    UnknownOutcomeError,
)
from counterpoise.execution import Driver, ExecutionOptions, restore_pending
from counterpoise.installation import Installation
from counterpoise.ledger import Ledger
from counterpoise.ledger.schema import runs
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_RATE, FOLLOWER_REPLICAS, ConfigChange, ConfigOperation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal
from counterpoise.model.run import LaterMove, RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation.test_what_earlier_runs_left import (  # noqa: F401 - a fixture
    CLUSTERS,
    approved,
    halted,
    kafka,
    run_of,
    until_moving,
)
from tests.support.decisions import grant
from tests.support.installations import installation_over
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    clock_of,
    ledger_of_another_machine,
    let_step_locks_run_out,
    of_topic,
    own_configs,
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


def halts_in_time(run: SimulatedRun, drivers: list[Driver]) -> None:
    """Take a step every 10 s, each by the next of the drivers."""
    began_at = run.cluster.now
    with pytest.raises(HaltedError, match="brokers of the plan are dead: 4"):
        for driver in cycle(drivers):
            driver.step()
            run.cluster.advance(10)
            assert run.cluster.now - began_at < PATIENCE.total_seconds(), "it waits for too long"
    assert run.end(run.driver()) is RunState.HALTED


@pytest.mark.parametrize("apart", [timedelta(minutes=5), timedelta(hours=1)])
def test_a_wait_ends_although_two_workers_tell_different_times(
    tmp_path: Path, apart: timedelta
) -> None:
    run = with_a_dead_broker(tmp_path)
    fast = driver_with_clock(run, lambda: run.clock() + apart)
    halts_in_time(run, [run.driver(), fast])


def test_a_wait_ends_although_the_clock_is_set_back_meanwhile(tmp_path: Path) -> None:
    run = with_a_dead_broker(tmp_path)
    driver = driver_with_clock(run, lambda: run.clock() + timedelta(hours=1))
    for _ in range(6):
        driver.step()
        run.cluster.advance(10)
    halts_in_time(run, [run.driver()])


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


# -- the watch


@contextmanager
def process(
    folder: Path,
    kafka: SimulatedCluster,  # noqa: F811
    *,
    ahead: timedelta = timedelta(0),
) -> Iterator[Installation]:
    """A process whose clock is ahead of that of the database, or behind."""
    now = clock_of(kafka)
    with installation_over(
        folder, lambda _: kafka, clusters=CLUSTERS, clock=lambda: now() + ahead
    ) as installation:
        set_database_clock(installation.ledger._engine, lambda: now().timestamp())
        yield installation


@pytest.mark.parametrize("is_driven", [False, True])
@pytest.mark.parametrize("ahead", [timedelta(minutes=20), timedelta(hours=-1)])
def test_the_watch_settles_what_nobody_drives_whatever_the_clock_of_the_worker(
    tmp_path: Path,
    kafka: SimulatedCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    ahead: timedelta,
    *,
    is_driven: bool,
) -> None:
    """The watch's clock is ahead of the worker's, or behind."""
    monkeypatch.setattr(time, "sleep", kafka.advance)
    with process(tmp_path, kafka) as worker, process(tmp_path, kafka, ahead=ahead) as watch:
        run = approved(worker)
        pipeline.open_run(worker, *run_of(run))
        until_moving(worker, kafka, run)
        pipeline.execute_step(worker, *run_of(run), print)
        kafka.advance(2 if is_driven else 1800)
        pipeline.watch_throttles(watch, "demo", print)
        state = worker.ledger.run(run["run_id"]).state
        assert (state is RunState.RUNNING) is is_driven


# -- a rate that somebody requests, and an approval


def rates_in_force(kafka: SimulatedCluster) -> set[str]:  # noqa: F811
    return {v[FOLLOWER_RATE] for v in own_configs(kafka).values() if FOLLOWER_RATE in v}


@pytest.mark.parametrize("ahead", [timedelta(minutes=3), timedelta(minutes=-3)])
def test_a_rate_asked_for_after_the_start_holds_whatever_the_clock_of_who_approved(
    tmp_path: Path,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: timedelta,
) -> None:
    with process(tmp_path, kafka) as worker, process(tmp_path, kafka, ahead=ahead) as approver:
        run = approved(approver)
        pipeline.open_run(worker, *run_of(run))
        until_moving(worker, kafka, run)
        kafka.advance(10)
        controls.change_rate(worker, run["run_id"], "500kB/s", by=Person("alice"), why="slow")
        pipeline.execute_step(worker, *run_of(run), print)
        assert rates_in_force(kafka) == {"500000"}


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1)])
def test_the_rate_of_a_later_approval_holds_whatever_the_clock_of_who_asked_for_another(
    tmp_path: Path,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: timedelta,
) -> None:
    with process(tmp_path, kafka) as worker, process(tmp_path, kafka, ahead=ahead) as page:
        run = approved(worker)
        pipeline.open_run(worker, *run_of(run))
        until_moving(worker, kafka, run)
        controls.change_rate(page, run["run_id"], "500kB/s", by=Person("alice"), why="slow")
        halted(worker, kafka, run)
        kafka.advance(10)
        grant(worker, run, rate="2MB/s")
        pipeline.open_run(worker, *run_of(run))
        until_moving(worker, kafka, run)
        assert rates_in_force(kafka) == {"2000000"}


# -- which of two runs came later


@pytest.mark.parametrize("minutes_behind", [0, 10, 23 * 60])
def test_what_a_later_run_moved_is_known_whatever_the_clock_of_who_proposed_it(
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
    run.cluster.now -= 60 * minutes_behind  # the clock of another machine
    run.plan = plan_by_hand(cluster(picture, racks=racks), Goal.REBALANCE, to_5)
    run.run_id = run.ledger.propose(run.plan, "plans/y.json", requested_by="alice").run_id
    run.ledger.record_decision(run.approval())
    run.until_moving(run.driver())
    later = LaterMove(run.run_id, None, stopped_run_ids=(run.run_id,))
    assert run.ledger.moved_after(earlier) == {to_5.topic_partition: later}
    assert [r.run_id for r in run.ledger.runs()] == [run.run_id, earlier.run_id]
    assert run.ledger.moved_after(run.run) == {}


def test_a_clock_that_is_far_ahead_does_not_keep_later_runs_from_their_time(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    with run.ledger._transactions.writing() as connection:
        in_years = run.clock() + timedelta(days=3650)
        connection.execute(runs.update().values(state=RunState.DONE, opened_at=in_years))
    later = run.ledger.propose(run.plan, "plans/y.json", requested_by="alice")
    assert later.opened_at == run.clock()


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


@pytest.mark.parametrize("ahead", [12, 40, -40, 3600, -3600])
def test_workers_that_take_turns_keep_the_throttle_of_a_call_that_may_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    copy = move("orders-0", "1 2", "3 2", size=30_000_000)
    run = SimulatedRun.of_moves(tmp_path, "orders-0: 1 2 size=30000000", copy)
    ledger = ledger_of_another_machine(run, monkeypatch, lambda: ahead)
    other = run.driver(ledger=ledger)
    other.open()
    lost = UnknownOutcomeError("no answer", broker_id=1)
    run.cluster.fail_next("alter_reassignments", lost)
    while not run.ledger.journal(run.run_id).has_submissions():
        run.cluster.advance(other.step() or 0)
    submitted_at = run.cluster.now
    for driver in cycle([run.driver(), other]):
        wait_seconds = driver.settle_step()
        if wait_seconds is None or not own_configs(run.cluster):
            break
        run.cluster.advance(wait_seconds)
    assert 27 <= run.cluster.now - submitted_at <= 60
    ledger.close()


@pytest.mark.parametrize("ahead", [0, 40, -40])
def test_a_watch_whose_clock_differs_restores_a_list_that_was_set_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    run.cluster.fail_next("alter_configs", UnknownOutcomeError("no answer", broker_id=1))
    driver.step()
    run.ask(Control.CANCEL)
    assert run.end(driver) is RunState.HALTED
    ledger = ledger_of_another_machine(run, monkeypatch, lambda: ahead)

    def watch() -> None:
        with ledger.step(run.plan.cluster) as step:
            restore_pending(run.cluster, ledger.journal(run.run_id), step.of_run(run.run_id))

    run.cluster.advance(1)
    watch()
    run.cluster.advance(5)
    late = ConfigChange(of_topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.APPEND, "0:4")
    run.cluster.alter_configs([late])
    for _ in range(3):
        watch()
        run.cluster.advance(60)
    assert own_configs(run.cluster) == {}
    ledger.close()
