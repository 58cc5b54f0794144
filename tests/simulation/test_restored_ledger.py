"""A ledger that is restored from a backup of a minute ago, as docs/operate.md has it: what was
submitted since is in no ledger. An emergency stop from the plan comes first.
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.control import Control
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from counterpoise.services.emergency_stop import stop_from_plan
from tests.support.ledger_view import let_step_locks_run_out
from tests.support.plans import move
from tests.support.runs import Copy, SimulatedRun, open_ledger, own_configs

LARGE = 300_000_000  # five minutes under the throttle
ONE_AT_A_TIME = MovementPolicy(max_moves_in_flight=1)


def restored_a_minute_ago(run: SimulatedRun, folder: Path, saved: bytes) -> None:
    run.ledger.close()
    folder.mkdir()
    run.ledger = open_ledger(folder, run.clock, saved)
    let_step_locks_run_out(run.ledger)
    run.cluster.advance(60)


def stopped_from_the_plan(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", run.cluster.advance)
        patch.setattr("counterpoise.services.emergency_stop.now_utc", run.clock)
        assert stop_from_plan(run.cluster, run.plan, run.log.append).in_flight == ()
    assert own_configs(run.cluster) == {}
    assert not run.cluster.list_reassignments()


def test_what_was_done_since_the_backup_leaves_no_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path, limits=ONE_AT_A_TIME)
    driver = run.driver()
    run.until_moving(driver)
    saved = Copy.of(run).ledger
    first = set(run.cluster.list_reassignments())
    while not run.cluster.list_reassignments().keys() - first:
        run.cluster.advance(driver.step() or 0)
    restored_a_minute_ago(run, tmp_path / "restored", saved)
    stopped_from_the_plan(run, monkeypatch)
    assert run.go() is RunState.DONE, run.run.reason
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}


def test_what_is_in_flight_since_the_backup_is_cancelled_and_moved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = "\n".join(f"orders-{number}: 1 2 3 size={LARGE}" for number in range(2))
    moves = [move(f"orders-{number}", "1 2 3", "4 2 3", size=LARGE) for number in range(2)]
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, limits=ONE_AT_A_TIME)
    run.until_moving(run.driver())
    saved = Copy.of(run).ledger
    run.limits = replace(ONE_AT_A_TIME, max_moves_in_flight=2)
    driver = run.driver()
    while len(run.cluster.list_reassignments()) < 2:
        run.cluster.advance(driver.step() or 0)
    restored_a_minute_ago(run, tmp_path / "restored", saved)
    stopped_from_the_plan(run, monkeypatch)
    run.ask(Control.RATE, rate_bytes_per_second=1_000_000_000)
    with pytest.raises(HaltedError, match="cancelled or took back"):  # the stop did
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert run.go() is RunState.DONE, run.run.reason
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}
