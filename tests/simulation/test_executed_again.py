"""A run that halted, was approved anew and is executed again: whoever was at work on it before (a
laptop that slept, a task that was late) leaves it to the execution that goes on.
"""

from pathlib import Path

import pytest

from counterpoise import pipeline
from counterpoise.cli import repeating
from counterpoise.errors import RunConflictError
from counterpoise.execution import Driver
from counterpoise.model.kafka import FOLLOWER_RATE, RATE_KEYS
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation.test_commands import planned
from tests.support.command_line import CommandLine
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, own_configs

SIZE = 300_000_000
PICTURE = f"orders-0: 1 2 3 size={SIZE}\norders-1: 1 2 3 size={SIZE}"
MOVES = [move(f"orders-{p}", "1 2 3", "4 2 3", size=SIZE) for p in (0, 1)]


@pytest.fixture
def run(tmp_path: Path) -> SimulatedRun:
    limits = MovementPolicy(max_moves_in_flight=1)
    return SimulatedRun.of_moves(tmp_path, PICTURE, *MOVES, limits=limits)


def executed_again(run: SimulatedRun) -> Driver:
    """Somebody ends the run, approves the plan at a tenth of the rate, and executes it."""
    assert run.end(run.driver()) is RunState.HALTED
    run.rate //= 10
    run.ledger.record_decision(run.approval())
    again = run.driver()
    run.until_moving(again)
    assert run.run.state is RunState.RUNNING
    return again


def rate_at_destination(run: SimulatedRun) -> str:
    return own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE]


def test_a_late_copy_does_not_copy_at_the_rate_of_an_earlier_approval(run: SimulatedRun) -> None:
    late = run.driver()
    run.until_moving(late)
    executed_again(run)
    with pytest.raises(RunConflictError, match="was executed again"):
        late.step()
    assert rate_at_destination(run) == "100000"


@pytest.mark.parametrize("is_settling_again", [False, True], ids=["running", "settling"])
def test_a_late_copy_that_settled_leaves_the_run_that_is_executed_again(
    run: SimulatedRun, is_settling_again: bool
) -> None:
    late = run.driver()
    run.until_moving(late)
    assert late.settle_step() is not None
    again = executed_again(run)
    if is_settling_again:
        assert again.settle_step() is not None
    state = run.run.state
    with pytest.raises(RunConflictError, match="was executed again"):
        late.settle_step()
    assert run.run.state is state
    assert rate_at_destination(run) == "100000"


def test_who_waited_to_start_a_run_does_not_start_it_at_the_rate_of_an_earlier_approval(
    run: SimulatedRun,
) -> None:
    run.until_moving(run.driver())
    assert run.end(run.driver()) is RunState.HALTED
    late, seen = run.driver(), run.run
    run.rate //= 10
    run.ledger.record_decision(run.approval())
    with pytest.raises(RunConflictError, match="approved anew"):
        late.open(seen)
    assert run.run.state is RunState.HALTED


def test_two_copies_of_one_execution_go_on_together(run: SimulatedRun) -> None:
    first, second = run.driver(), run.driver()
    run.until_moving(first)
    second.open()
    run.cluster.advance(second.step() or 0)
    run.cluster.advance(first.step() or 0)
    assert run.go(second, max_steps=2_000) is RunState.DONE


def highest_rate(kafka: SimulatedCluster) -> int:
    configs = kafka.configs.dynamic.values()
    return max(int(values[key]) for values in configs for key in RATE_KEYS if key in values)


def test_an_execute_that_wakes_does_not_copy_at_the_rate_of_an_earlier_approval(
    shell: CommandLine,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = planned(shell)
    stage = "first"

    def sleep(seconds: float) -> None:
        nonlocal stage
        if stage == "first" and kafka.list_reassignments():
            stage = "ending"  # the first process sleeps from here on; its cluster does not
            assert shell.type("cancel", path, "--why", "too fast").code == 0
            shell.type("settle", path)
            stage = "again"
            typed = shell.type("approve", path, "--rate", "100kB/s", "--reason", "slowly")
            assert typed.code == 0, typed.err
            shell.type("execute", path)
            stage = "awake"
            return
        if stage == "again" and kafka.list_reassignments():
            raise KeyboardInterrupt
        kafka.advance(seconds)

    monkeypatch.setattr(repeating, "sleep", sleep)
    assert shell.type("approve", path, "--rate", "1MB/s", "--reason", "x").code == 0
    woken = shell.type("execute", path)
    assert stage == "awake"
    assert woken.code == 1
    assert "was executed again since this process began" in " ".join(woken.err.split())
    assert kafka.list_reassignments()
    assert highest_rate(kafka) == 100_000


def test_a_settle_that_wakes_leaves_the_run_that_is_executed_again(
    shell: CommandLine,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = planned(shell)
    stage = "first"

    def sleep(seconds: float) -> None:
        nonlocal stage
        if stage in ("first", "again") and kafka.list_reassignments():
            raise KeyboardInterrupt
        if stage == "settle" and seconds:
            stage = "other"  # the first settle sleeps from here on
            assert shell.type("cancel", path, "--why", "at once").code == 0
            shell.type("settle", path)
            stage = "again"
            shell.type("execute", path)
            stage = "awake"
            return
        kafka.advance(seconds)

    monkeypatch.setattr(repeating, "sleep", sleep)
    assert shell.type("approve", path, "--rate", "1MB/s", "--reason", "x").code == 0
    shell.type("execute", path)
    stage = "settle"
    woken = shell.type("settle", path)
    assert stage == "awake"
    assert woken.code == 1
    assert "was executed again meanwhile" in " ".join(woken.err.split())
    assert kafka.list_reassignments()


def test_a_task_that_settles_late_leaves_the_run_that_is_executed_again(
    run: SimulatedRun,
) -> None:
    run.until_moving(run.driver())
    pipeline.begin_settling(run, run.run_id)  # type: ignore[arg-type]
    may_halt = pipeline.in_execution_of_dag_run(run, run.run_id)  # type: ignore[arg-type]
    assert may_halt(run.run)
    executed_again(run)
    assert not may_halt(run.run)
    assert run.driver().settle_step(may_halt=may_halt) is None
    assert run.run.state is RunState.RUNNING
    pipeline.begin_settling(run, run.run_id)  # type: ignore[arg-type]
    assert may_halt(run.run), "the next try of the task, or another Dag run, begins with this one"


def test_a_task_of_an_earlier_release_halts_its_run(run: SimulatedRun) -> None:
    """It has not recorded when it began."""
    run.until_moving(run.driver())
    may_halt = pipeline.in_execution_of_dag_run(run, run.run_id)  # type: ignore[arg-type]
    assert may_halt(run.run)
