"""What people and the calendar say while a run is under way: pause, rate, cancel, freeze, windows,
daily rates.
"""

from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import CancelledError, HaltedError, RefusedError, RunConflictError
from counterpoise.execution import Driver
from counterpoise.model.approval import Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_RATE, ConfigChange, ConfigOperation
from counterpoise.model.policy import DailyRate, MaintenanceWindow, MovementPolicy
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, own_configs, times_submitted

ONE_AT_A_TIME = MovementPolicy(max_moves_in_flight=1)


def test_a_paused_run_finishes_what_is_in_flight_frees_its_settings_and_goes_on_when_resumed(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path, limits=ONE_AT_A_TIME)
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.PAUSE, why="month end")
    for _ in range(20):
        run.cluster.advance(driver.step() or 0)
    assert sum(times_submitted(run.cluster).values()) == 1
    assert not run.cluster.list_reassignments()
    assert own_configs(run.cluster) == {}, "throttles that nobody needs are released"
    assert run.does() == "paused by bob: month end"
    run.ask(Control.RESUME)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert run.placement() == run.planned_placement()


def test_a_freeze_refuses_to_open_and_holds_a_run_until_it_ends_by_itself(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path, limits=ONE_AT_A_TIME)
    driver = run.driver()
    run.ask(Control.FREEZE, why="black friday", until=run.clock() + timedelta(seconds=60))
    with pytest.raises(RefusedError, match=r"frozen .*by bob: black friday"):
        driver.open()
    assert run.run.state is RunState.APPROVED
    run.ask(Control.UNFREEZE)
    run.until_moving(driver)
    run.ask(Control.FREEZE, why="black friday", until=run.clock() + timedelta(seconds=60))
    for _ in range(15):
        run.cluster.advance(driver.step() or 0)
    assert sum(times_submitted(run.cluster).values()) == 1
    assert "black friday" in run.does()
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE


@pytest.mark.parametrize("longer_first", [True, False])
def test_a_short_freeze_does_not_end_the_long_one_of_somebody_else(
    tmp_path: Path, *, longer_first: bool
) -> None:
    run = SimulatedRun.make(tmp_path)
    release, new_disk = ("release", 8), ("a new disk", 1)
    for why, hours in (release, new_disk) if longer_first else (new_disk, release):
        run.ask(Control.FREEZE, why=why, until=run.clock() + timedelta(hours=hours))
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"frozen until 2026-01-31 20:00 UTC .*release"):
            run.driver().open()
        run.cluster.advance(2 * 3600)
    run.ask(Control.UNFREEZE)
    assert run.go() is RunState.DONE


def test_a_rate_requested_midway_is_followed_up_and_down_but_never_raises_a_foreign_one(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    slow = ConfigChange(at_broker(1), LEADER_RATE, ConfigOperation.SET, "500000")
    run.cluster.alter_configs([slow])
    before = own_configs(run.cluster)
    driver = run.driver()
    run.until_moving(driver)
    for rate in (5_000_000, 200_000, 2_000_000):
        run.ask(Control.RATE, rate_bytes_per_second=rate)
        driver.step()
        assert own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE] == str(rate)
        assert int(own_configs(run.cluster)[at_broker(1)][LEADER_RATE]) == min(rate, 500_000)
    assert "throttle gap" not in run.event_kinds()
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == before


@pytest.mark.parametrize("control", [Control.CANCEL, Control.UNDO])
def test_a_cancelled_run_is_as_before_and_is_not_executed_again(
    tmp_path: Path, control: Control
) -> None:
    run = SimulatedRun.make(tmp_path)
    before = run.placement()
    driver = run.driver()
    run.until_moving(driver)
    run.ask(control, why="wrong night")
    for _ in range(2):  # also one that begins when it settles already
        with pytest.raises(CancelledError, match="wrong night"):
            driver.step()
    assert run.end(driver) is RunState.CANCELLED
    with pytest.raises(CancelledError, match="wrong night"):
        driver.step()
    assert run.placement() == before, "the order, too, which a cancel alone does not give back"
    assert own_configs(run.cluster) == {}
    for decision in (Decision.GRANTED, Decision.REJECTED):
        with pytest.raises(RunConflictError, match="make a new plan"):
            run.ledger.record_decision(run.approval(decision))
    with pytest.raises(RunConflictError, match="is not executed again; make a new plan"):
        run.driver().open()
    assert run.run.state is RunState.CANCELLED


def test_outside_a_window_nothing_is_submitted_and_no_throttle_is_left(tmp_path: Path) -> None:
    window = MaintenanceWindow("0 22 * * *", timedelta(hours=2))
    limits = MovementPolicy(windows=(window,), max_moves_in_flight=1)
    run = SimulatedRun.make(tmp_path, limits=limits)  # it is noon
    driver = run.driver()
    driver.open()
    for _ in range(5):
        run.cluster.advance(driver.step() or 0)
    assert not times_submitted(run.cluster)
    assert own_configs(run.cluster) == {}
    assert "outside the maintenance windows" in run.does()
    run.cluster.advance(12 * 3600 - 5 - run.cluster.now)  # five seconds before it closes
    run.until_moving(driver)
    for _ in range(10):
        run.cluster.advance(driver.step() or 0)
    assert run.clock().hour == 0
    assert 1 <= sum(times_submitted(run.cluster).values()) <= 2
    assert not run.cluster.list_reassignments()
    assert own_configs(run.cluster) == {}
    assert run.run.state is RunState.RUNNING


def test_a_daily_rate_lowers_what_was_approved_and_only_while_it_is_in_force(
    tmp_path: Path,
) -> None:
    until_noon = DailyRate(time(8), time(12, 0, 10), 100_000)
    always = DailyRate(time(0), time(0), 50_000_000)
    run = SimulatedRun.make(tmp_path, limits=MovementPolicy(daily_rates=(until_noon, always)))
    driver = run.driver()
    run.until_moving(driver)
    assert own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE] == "100000"
    run.cluster.advance(10)
    driver.step()
    assert own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE] == "1000000"
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {}


def test_a_cancel_that_a_settle_carries_out_is_why_the_run_ended(tmp_path: Path) -> None:
    """The process that executed it was killed before it saw the cancel."""
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    run.ask(Control.CANCEL, why="wrong broker")
    assert run.end(run.driver()) is RunState.CANCELLED
    assert run.run.reason.startswith("cancel by bob: wrong broker; ")


def test_a_cancel_that_comes_while_a_run_settles_does_not_halt_the_next_execution(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path, limits=ONE_AT_A_TIME)
    driver = run.driver()
    run.until_moving(driver)
    run.change_state(RunState.SETTLING, "a broker died")
    run.ask(Control.CANCEL)
    assert run.end(driver) is RunState.HALTED, "there was trouble before"
    assert run.go() is RunState.DONE
    assert run.placement() == run.planned_placement()


def test_a_cancel_that_comes_right_before_the_end_does_not_halt_the_next_execution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No observation has seen it."""
    run = SimulatedRun.make(tmp_path, limits=ONE_AT_A_TIME)
    driver = run.driver()
    run.until_moving(driver)
    close = Driver._close

    def cancelled_before_it_closes(*args: Any) -> float | None:
        run.ask(Control.CANCEL)
        return close(*args)

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_close", cancelled_before_it_closes)
        assert run.end(driver) is RunState.HALTED
    (cancel,) = run.ledger.requests(run.plan.cluster, run.run_id)
    assert cancel.done_at is not None
    assert run.go() is RunState.DONE
    assert run.placement() == run.planned_placement()


@pytest.mark.parametrize("partition", [0, 1], ids=["of the plan", "outside the plan"])
def test_somebody_elses_reassignment_does_not_halt_a_run_that_is_paused(
    tmp_path: Path, partition: int
) -> None:
    """They asked for the pause so that they can move something by hand."""
    picture = "orders-0: 1 2 size=3000000000\norders-1: 1 2 size=3000000000"
    copy = move("orders-0", "1 2", "4 2", size=3_000_000_000)
    run = SimulatedRun.of_moves(tmp_path, picture, copy)
    driver = run.driver()
    run.ask(Control.PAUSE, why="I move something")
    driver.open()
    run.repeat_for(driver.step, 5, every=1)
    run.cluster.alter_reassignments({TopicPartition("orders", partition): (3, 2)})
    run.repeat_for(driver.step, 5, every=1)
    assert run.does() == "paused by bob: I move something"
    assert run.cluster.list_reassignments()
    run.ask(Control.RESUME)
    with pytest.raises(HaltedError, match="somebody else is reassigning 1 partition: orders-"):
        driver.step()


def test_a_paused_run_goes_on_when_what_somebody_moved_meanwhile_has_arrived(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 size=3000000\norders-1: 1 2 size=3000000"
    run = SimulatedRun.of_moves(tmp_path, picture, move("orders-0", "1 2", "4 2", size=3_000_000))
    driver = run.driver()
    run.ask(Control.PAUSE)
    driver.open()
    run.cluster.alter_reassignments({TopicPartition("orders", 1): (3, 2)})
    run.repeat_for(driver.step, 60, every=5)
    run.ask(Control.RESUME)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
