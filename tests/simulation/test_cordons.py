"""Runs that cordon the log dirs of the brokers they empty (KIP-1066): no cordon is left behind."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError, RefusedError
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    CORDONED_LOG_DIRS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.policy import MaintenanceWindow, MovementPolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from counterpoise.planning import make_plan
from tests.support.crashes import ended_after_crashes
from tests.support.pictures import cluster
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    at_broker,
    let_step_locks_run_out,
    own_configs,
)

PICTURE = "\n".join(f"orders-{n}: 1 2 3 size=3000000" for n in range(4))
REQUEST = PlanRequest(Goal.REMOVE_BROKERS, (1,), cordons_brokers=True)


@pytest.fixture
def run(tmp_path: Path) -> SimulatedRun:
    return draining(tmp_path)


def draining(folder: Path) -> SimulatedRun:
    folder.mkdir(exist_ok=True)
    return SimulatedRun.make(folder, PICTURE, request=REQUEST)


def cordoned(run: SimulatedRun) -> dict[int, str | None]:
    found = {b: own_configs(run.cluster).get(at_broker(b), {}) for b in (1, 2, 3, 4)}
    return {b: values.get(CORDONED_LOG_DIRS) for b, values in found.items()}


def set_cordon(run: SimulatedRun, value: str) -> None:
    change = ConfigChange(at_broker(1), CORDONED_LOG_DIRS, ConfigOperation.SET, value)
    assert run.cluster.configs.alter(at_broker(1), [change]) == ""


def test_the_brokers_are_cordoned_before_anything_moves_and_only_while_it_does(
    run: SimulatedRun,
) -> None:
    run.until_moving(run.driver())
    assert cordoned(run) == {1: "*", 2: None, 3: None, 4: None}
    names = [call.name for call in run.cluster.calls]
    assert names.index("alter_configs") < names.index("alter_reassignments")
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}
    assert run.placement() == run.planned_placement()


def test_what_was_cordoned_before_is_so_again(run: SimulatedRun) -> None:
    set_cordon(run, "/data/1,/data/2")
    run.until_moving(run.driver())
    assert cordoned(run)[1] == "*"
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {at_broker(1): {CORDONED_LOG_DIRS: "/data/1,/data/2"}}


def test_what_was_cordoned_whole_before_is_none_of_ours(run: SimulatedRun) -> None:
    set_cordon(run, "*")
    assert run.go() is RunState.DONE
    assert cordoned(run)[1] == "*"
    keys = [touched.key for touched in run.ledger.journal(run.run_id).touched()]
    assert CORDONED_LOG_DIRS not in keys


def test_what_somebody_sets_meanwhile_stays(run: SimulatedRun) -> None:
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.CANCEL)
    set_cordon(run, "/data/1")
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert cordoned(run)[1] == "/data/1"


def lift_cordon(run: SimulatedRun) -> None:
    change = ConfigChange(at_broker(1), CORDONED_LOG_DIRS, ConfigOperation.DELETE, "")
    assert run.cluster.configs.alter(at_broker(1), [change]) == ""


def take_steps(run: SimulatedRun, steps: int) -> None:
    for _ in range(steps):
        run.cluster.advance(run.driver().step() or 0)


def texts_of_gaps(run: SimulatedRun) -> list[str]:
    events = run.ledger.journal(run.run_id).events()
    return [event.text for event in events if event.kind == "cordon gap"]


def with_lifted_cordon(run: SimulatedRun) -> SimulatedRun:
    """A run under way whose cordon of broker 1 somebody has just lifted."""
    run = one_at_a_time(run)
    run.until_moving(run.driver())
    lift_cordon(run)
    return run


def test_a_cordon_that_somebody_lifts_is_left_to_them(run: SimulatedRun) -> None:
    run = with_lifted_cordon(run)
    take_steps(run, 3)
    assert cordoned(run)[1] is None
    (text,) = texts_of_gaps(run)
    assert text.startswith("somebody else lifted the cordon of broker 1: it is not set again")
    assert "throttle gap" not in run.event_kinds()
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}
    assert len(texts_of_gaps(run)) == 1


@pytest.mark.parametrize("value", ["*", "/data/1"])
def test_a_cordon_that_is_left_to_somebody_stays_as_they_set_it_then(
    run: SimulatedRun, value: str
) -> None:
    run = with_lifted_cordon(run)
    take_steps(run, 2)
    set_cordon(run, value)
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {at_broker(1): {CORDONED_LOG_DIRS: value}}


def test_a_cordon_that_is_left_to_somebody_stays_theirs_where_the_broker_is_dead_at_the_end(
    run: SimulatedRun,
) -> None:
    run = with_lifted_cordon(run)
    take_steps(run, 2)
    set_cordon(run, "*")
    run.cluster.kill_broker(1)
    run.ask(Control.CANCEL)
    assert run.end(run.driver()) is RunState.HALTED
    run.cluster.restart_broker(1)
    run.cluster.advance(60)
    run.restore_pending()
    assert cordoned(run)[1] == "*"


def test_a_run_that_is_executed_again_sets_a_cordon_that_was_left_to_somebody(
    run: SimulatedRun,
) -> None:
    run = with_lifted_cordon(run)
    take_steps(run, 2)
    run.ask(Control.CANCEL)
    assert run.end(run.driver()) is RunState.HALTED
    run.until_moving(run.driver())
    assert cordoned(run)[1] == "*"
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}


def without_cordon_once(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let broker 1 report once that it is not cordoned; the list is empty from then on."""
    describe, still_behind = run.cluster.describe_configs, [True]

    def describe_behind(*arguments: Any, **more: Any) -> dict[ConfigResource, Any]:
        found = dict(describe(*arguments, **more))
        if still_behind and CORDONED_LOG_DIRS in found.get(at_broker(1), {}):
            still_behind.pop()
            values = found[at_broker(1)].items()
            found[at_broker(1)] = {key: v for key, v in values if key != CORDONED_LOG_DIRS}
        return found

    monkeypatch.setattr(run.cluster, "describe_configs", describe_behind)
    return still_behind


def test_one_read_that_is_behind_leaves_no_cordon_to_anybody(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = one_at_a_time(run)
    run.until_moving(run.driver())
    take_steps(run, 1)
    still_behind = without_cordon_once(run, monkeypatch)
    assert run.go() is RunState.DONE
    assert not still_behind
    assert own_configs(run.cluster) == {}
    assert texts_of_gaps(run) == []


def to_its_end(run: SimulatedRun) -> None:
    with suppress(HaltedError):
        run.repeat(run.driver().step)
    run.end(run.driver())


def kill_once_cordoned_as(
    value: str | None, run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the process in the call after which broker 1 is cordoned like this: once."""
    alter, killed = run.cluster.alter_configs, []

    def alter_and_die(*arguments: Any, **more: Any) -> Any:
        results = alter(*arguments, **more)
        if cordoned(run)[1] == value and not killed:
            killed.append(True)
            raise KeyboardInterrupt
        return results

    monkeypatch.setattr(run.cluster, "alter_configs", alter_and_die)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["done", "cancelled"])
def test_a_cordon_that_a_killed_process_of_the_run_took_back_was_lifted_by_nobody_else(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    run = one_at_a_time(run)
    run.until_moving(run.driver())
    take_steps(run, 1)
    if is_cancelled:
        run.ask(Control.CANCEL)
    kill_once_cordoned_as(None, run, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        to_its_end(run)
    let_step_locks_run_out(run.ledger)
    to_its_end(run)
    assert run.run.state is (RunState.HALTED if is_cancelled else RunState.DONE)
    assert own_configs(run.cluster) == {}
    assert texts_of_gaps(run) == []


def test_a_cordon_of_the_run_that_comes_late_is_taken_back_after_it_was_left_to_somebody(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answered the first call that set it: a broker may hold it for long."""
    kill_once_cordoned_as("*", run, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run.until_moving(run.driver())
    let_step_locks_run_out(run.ledger)
    run = with_lifted_cordon(run)
    take_steps(run, 2)
    assert len(texts_of_gaps(run)) == 1
    set_cordon(run, "*")  # that call
    assert run.go() is RunState.DONE
    run.restore_pending()
    assert own_configs(run.cluster) == {}


def one_at_a_time(run: SimulatedRun, **limits: Any) -> SimulatedRun:
    return replace(run, limits=MovementPolicy(max_moves_in_flight=1, **limits))


def wait_with_nothing_in_flight(run: SimulatedRun) -> None:
    driver = run.driver()
    for _ in range(20):
        run.cluster.advance(driver.step() or 0)
    assert not run.cluster.list_reassignments()
    assert run.run.state is RunState.RUNNING


@pytest.mark.parametrize("control", [Control.PAUSE, Control.FREEZE])
def test_a_broker_that_is_emptied_stays_cordoned_while_the_run_is_held(
    run: SimulatedRun, control: Control
) -> None:
    """A new topic that came there now would not be in the plan."""
    run = one_at_a_time(run)
    run.until_moving(run.driver())
    run.ask(control, why="until tonight")
    wait_with_nothing_in_flight(run)
    assert own_configs(run.cluster) == {at_broker(1): {CORDONED_LOG_DIRS: "*"}}
    run.ask(Control.RESUME if control is Control.PAUSE else Control.UNFREEZE)
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}


def test_it_is_cordoned_before_the_first_maintenance_window_opens(run: SimulatedRun) -> None:
    in_an_hour = MaintenanceWindow("0 13 * * *", timedelta(hours=1))
    run = one_at_a_time(run, windows=(in_an_hour,))
    run.driver().open()
    wait_with_nothing_in_flight(run)
    assert own_configs(run.cluster) == {at_broker(1): {CORDONED_LOG_DIRS: "*"}}


def test_a_cancelled_run_leaves_no_cordon(run: SimulatedRun) -> None:
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert own_configs(run.cluster) == {}


def test_a_broker_that_dies_cordoned_is_restored_when_it_returns(run: SimulatedRun) -> None:
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.CANCEL)
    run.cluster.kill_broker(1)
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert cordoned(run)[1] == "*"
    run.cluster.restart_broker(1)
    run.cluster.advance(60)
    restored, pending = run.restore_pending()
    assert CORDONED_LOG_DIRS in {touched.key for touched in restored}
    assert pending == ()
    assert own_configs(run.cluster) == {}


def test_a_crash_at_any_write_leaves_no_cordon_once_the_run_has_ended(tmp_path: Path) -> None:
    crashes = -1
    for crashes, run in enumerate(ended_after_crashes(draining(tmp_path), every=2)):
        assert run.placement() == run.planned_placement(), f"crash {crashes}"
        assert own_configs(run.cluster) == {}, f"crash {crashes}"
    assert crashes > 6


def test_brokers_that_cannot_be_cordoned_are_refused_before_anything_changes(
    run: SimulatedRun,
) -> None:
    run.cluster.configs.knows_cordons = False
    with pytest.raises(RefusedError, match="cannot be cordoned"):
        run.driver().open()
    assert own_configs(run.cluster) == {}


def test_a_plan_without_moves_and_the_way_back_cordon_nothing() -> None:
    empty = make_plan(cluster("t-0: 2 3", racks=FOUR_BROKERS), REQUEST)
    assert not empty.cordons_brokers
    plan = make_plan(cluster(PICTURE, racks=FOUR_BROKERS), REQUEST)
    assert plan.cordons_brokers
    assert type(plan).from_json(plan.to_json()) == plan
    assert replace(plan, cordons_brokers=False).fingerprint != plan.fingerprint
