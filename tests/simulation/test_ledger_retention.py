"""`ledger prune` deletes what long ended runs noted of each partition and key, and nothing that
still counts.
"""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.installation import open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.control import Control
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.ledger_view import LedgerView, count_as_open, let_two_hours_pass
from tests.support.pictures import simulated
from tests.support.runs import FOUR_BROKERS, SKEWED, SimulatedRun, times_submitted

ONE_AT_A_TIME = MovementPolicy(max_moves_in_flight=1)
LATER = "2100-01-01T00:00:00Z"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks=FOUR_BROKERS)
    let_commands_reach(made, monkeypatch)
    return made


@pytest.fixture
def shell(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """A run has ended, and its approval is over."""
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("simulated:9092", extra="    policy: {approval: {expires_after: 1h}}\n")
    plan = tmp_path / "plan.json"
    words = ("--cluster", "demo", "--goal", "add-brokers", "--brokers", "4", "--out", plan)
    assert shell.type("plan", *words).code == 0
    assert shell.type("approve", plan, "--rate", "50MB/s", "--reason", "broker 4").code == 0
    assert shell.type("execute", plan).code == 0
    let_two_hours_pass(monkeypatch)
    return shell


def row_counts(shell: CommandLine) -> dict[str, int]:
    with open_installation(environment=shell.environment) as opened:
        return LedgerView.of(opened.ledger).counts()


def status(shell: CommandLine) -> dict[str, object]:
    (run,) = json.loads(shell.type("status", "--json").out)
    return {name: run[name] for name in ("state", "moves_done", "moves_submitted")}


def test_rows_of_a_run_go_with_its_last_event_and_its_status_stays(shell: CommandLine) -> None:
    before = status(shell)
    assert all(row_counts(shell).values())
    assert shell.type("ledger", "prune", "--cluster", "demo", "--before", LATER).code == 0
    assert not any(row_counts(shell).values())
    assert status(shell) == before


def test_rows_of_a_young_run_stay(shell: CommandLine) -> None:
    counts = row_counts(shell)
    words = ("ledger", "prune", "--cluster", "demo", "--before", "2020-01-01T00:00:00Z")
    assert shell.type(*words).code == 1
    assert row_counts(shell) == counts


def test_what_a_late_call_may_still_change_stays(shell: CommandLine) -> None:
    with open_installation(environment=shell.environment) as opened:
        still_open = count_as_open(opened.ledger)
    assert shell.type("ledger", "prune", "--cluster", "demo", "--before", LATER).code == 0
    assert still_open.items() <= row_counts(shell).items()


# -- a run that has halted, and is executed again


def let_a_season_pass(run: SimulatedRun, *, is_pruned: bool) -> None:
    run.cluster.advance(timedelta(days=90).total_seconds())
    if is_pruned:
        assert run.ledger.prune(run.plan.cluster, before=run.clock() - timedelta(days=30))


@pytest.mark.parametrize("is_pruned", [False, True])
def test_a_pause_holds_until_somebody_resumes_also_when_old_rows_are_deleted(
    tmp_path: Path, *, is_pruned: bool
) -> None:
    limits = MovementPolicy(pause_patience=timedelta(seconds=90), max_moves_in_flight=1)
    run = SimulatedRun.make(tmp_path, limits=limits)
    run.until_moving(run.driver())
    run.ask(Control.PAUSE, why="broker 4 is being repaired")
    with pytest.raises(HaltedError, match="request `counterpoise resume`"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    let_a_season_pass(run, is_pruned=is_pruned)
    run.ledger.record_decision(run.approval())
    run.driver().open()
    submitted = times_submitted(run.cluster).total()
    for _ in range(10):
        run.cluster.advance(run.driver().step() or 0)
    assert times_submitted(run.cluster).total() == submitted
    run.ask(Control.RESUME)
    assert run.go() is RunState.DONE


def test_the_pause_of_a_run_that_is_rejected_goes_with_the_rest(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path, limits=ONE_AT_A_TIME)
    run.until_moving(run.driver())
    run.ask(Control.PAUSE)
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED
    run.ledger.record_decision(run.approval(Decision.REJECTED))
    let_a_season_pass(run, is_pruned=True)
    assert run.ledger.requests(run.plan.cluster, run.run_id) == ()
