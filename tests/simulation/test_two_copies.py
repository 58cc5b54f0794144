"""Two copies of one run: whoever was frozen and wakes late changes neither the cluster nor what the
ledger says of it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import (
    BrokerUnresponsiveError,
    CancelledError,
    HaltedError,
    RunConflictError,
    StepLockHeldError,
)
from counterpoise.execution import command_executor
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_RATE, ConfigChange, ConfigOperation
from counterpoise.model.run import RunState
from tests.support.ledger_view import (
    before_taking_the_step,
    held_step,
    let_step_locks_run_out,
)
from tests.support.runs import SimulatedRun, at_broker, own_configs, times_submitted


class FrozenIn:
    """The cluster for a process that stops within its n-th call of a name, until `meanwhile` is
    over. The call itself begins before the stop or after it.
    """

    def __init__(
        self, run: SimulatedRun, name: str, meanwhile: Callable[[], None], *, call: int = 1
    ) -> None:
        self._run, self._name, self._meanwhile, self._calls_left = run, name, meanwhile, call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._run.cluster, name)
        if name != self._name:
            return method

        def frozen(*args: Any, **kwargs: Any) -> Any:
            self._calls_left -= 1
            if self._calls_left == 0:
                let_step_locks_run_out(self._run.ledger)
                self._meanwhile()
            return method(*args, **kwargs)

        return frozen


def frozen_copy(run: SimulatedRun, name: str, meanwhile: Callable[[], None]) -> Any:
    return run.driver(FrozenIn(run, name, meanwhile))  # type: ignore[arg-type]


def cancel_and_settle(run: SimulatedRun) -> None:
    """Let another copy do what a person asks for: cancel, and settle to the end."""
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError, match="cancel"):
        run.driver().step()
    assert run.end(run.driver()) is RunState.CANCELLED


def test_what_somebody_else_set_while_a_process_was_frozen_is_there_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    theirs = ConfigChange(at_broker(4), FOLLOWER_RATE, ConfigOperation.SET, "90000000")

    def frozen() -> None:
        let_step_locks_run_out(run.ledger)
        run.cluster.alter_configs([theirs])

    with monkeypatch.context() as patch:
        own = command_executor.keys_to_own
        patch.setattr(command_executor, "keys_to_own", lambda *a: (frozen(), own(*a))[1])
        run.cluster.advance(driver.step() or 0)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: "90000000"}}


def test_a_copy_that_was_frozen_before_it_took_the_lock_leaves_a_cancelled_run_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    before = own_configs(run.cluster)
    late = run.driver()
    late.open()

    def frozen() -> None:
        patch.undo()
        cancel_and_settle(run)

    with monkeypatch.context() as patch:
        before_taking_the_step(patch, frozen)
        with pytest.raises(CancelledError):
            late.step()
    assert run.run.state is RunState.CANCELLED
    assert own_configs(run.cluster) == before
    assert not times_submitted(run.cluster)


def test_a_copy_that_was_about_to_start_a_run_does_not_revive_it_after_its_end(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    seen = run.run
    run.until_moving(run.driver())
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED
    with pytest.raises(RunConflictError, match=r"became halted .* execute it again"):
        run.driver().open(seen)
    assert run.run.state is RunState.HALTED
    run.driver().open(run.run)
    assert run.run.state is RunState.RUNNING, "executed again by somebody who saw the end"


@pytest.mark.parametrize("name", ["alter_configs", "alter_reassignments"])
def test_a_call_after_the_deadline_of_its_step_is_not_sent(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    run.driver().open()
    if name == "alter_reassignments":
        run.cluster.advance(run.driver().step() or 0)
    before, real = own_configs(run.cluster), time.monotonic

    def an_hour_passes() -> None:
        monkeypatch.setattr(time, "monotonic", lambda: real() + 3600)

    with pytest.raises((BrokerUnresponsiveError, RunConflictError)):
        frozen_copy(run, name, an_hour_passes).step()
    assert own_configs(run.cluster) == before
    assert not run.cluster.list_reassignments()


def test_a_step_keeps_every_other_process_off_the_cluster(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    with run.ledger.step(run.plan.cluster), pytest.raises(StepLockHeldError):
        run.driver().open()
    with held_step(run.ledger, run.run_id), pytest.raises(StepLockHeldError):
        run.restore_pending()
    assert run.run.state is RunState.APPROVED
