"""A ledger whose database fails in the midst of a run: a connection that is lost beside a process
that was stopped.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import LedgerError, RunConflictError
from counterpoise.model.run import RunState
from tests.simulation.test_two_copies import cancel_and_settle, frozen_copy
from tests.support.ledger_view import fail_the_next_transaction
from tests.support.runs import SimulatedRun, own_configs

A_QUIET_HOUR = 3_600.0


def step_that_loses_its_connection(
    run: SimulatedRun, name: str, meanwhile: Callable[[], None]
) -> Any:
    """A step whose process is stopped within this call, and has lost its connection when it wakes:
    its next transaction fails.
    """

    def stopped() -> None:
        meanwhile()
        fail_the_next_transaction(run.ledger)

    return frozen_copy(run, name, stopped).step


def run_before_its_first(call: str, folder: Path) -> SimulatedRun:
    run = SimulatedRun.make(folder)
    run.driver().open()
    if call == "alter_reassignments":
        run.cluster.advance(run.driver().step() or 0)
    return run


@pytest.mark.parametrize(
    ("name", "what"),
    [("alter_configs", "config change"), ("alter_reassignments", "reassignment")],
)
def test_a_late_call_is_noted_although_the_connection_was_lost_meanwhile(
    tmp_path: Path, name: str, what: str
) -> None:
    """Else what it set stays: all that the run had sent was known to be over."""
    run = run_before_its_first(name, tmp_path)

    def another_copy_ends_the_run() -> None:
        cancel_and_settle(run)
        for _ in range(2):  # watches
            run.cluster.advance(A_QUIET_HOUR)
            run.restore_pending()
        assert run.view.open_keys() == ()

    with pytest.raises(RunConflictError, match="taken over"):
        step_that_loses_its_connection(run, name, another_copy_ends_the_run)()
    assert run.view.late_calls(run.run_id) == [what]
    run.change_state(RunState.SETTLING, "a call was made late")
    assert run.end(run.driver()) is RunState.CANCELLED
    assert own_configs(run.cluster) == {}
    assert not run.cluster.list_reassignments()


@pytest.mark.parametrize("name", ["alter_configs", "alter_reassignments"])
def test_a_call_in_time_is_not_noted_where_the_connection_is_lost(
    tmp_path: Path, name: str
) -> None:
    run = run_before_its_first(name, tmp_path)
    with pytest.raises(LedgerError, match="did not answer: the connection is closed"):
        step_that_loses_its_connection(run, name, lambda: None)()
    assert run.view.late_calls(run.run_id) == []
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}
