"""The database's clock is set back: the step lock of a dead process still ends."""

from pathlib import Path

import pytest

from tests.support.ledger_view import held_step, let_step_locks_run_out, set_database_clock
from tests.support.runs import SimulatedRun


@pytest.mark.parametrize("seconds_back", [60, 3600])
def test_the_lock_of_a_killed_process_ends_although_the_database_is_set_back(
    tmp_path: Path, seconds_back: int
) -> None:
    run, now = SimulatedRun.make(tmp_path), [1_000_000.0]
    run.driver().open()
    let_step_locks_run_out(run.ledger)
    set_database_clock(run.ledger._engine, lambda: now[0])
    with held_step(run.ledger, run.run_id):
        now[0] -= seconds_back
        now[0] += 10
        assert run.driver().step() is not None
