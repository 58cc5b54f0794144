"""A worker's clock is set while its process lives, or the database is slow to tell the time."""

from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import UnknownOutcomeError
from counterpoise.ledger import Ledger, database_clock
from tests.support.plans import move
from tests.support.runs import SimulatedRun, ledger_of_another_machine, own_configs


@pytest.mark.parametrize("seconds", [40, 3600, -20])
def test_a_clock_that_is_set_while_a_process_lives_takes_no_call_for_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Between two steps of `counterpoise execute`; or back, right before the call."""
    copy = move("orders-0", "1 2", "3 2", size=30_000_000)
    run = SimulatedRun.of_moves(tmp_path, "orders-0: 1 2 size=30000000", copy)
    was_set = [0.0]
    ledger = ledger_of_another_machine(run, monkeypatch, lambda: was_set[0])
    driver = run.driver(ledger=ledger)
    driver.open()
    run.cluster.fail_next("alter_reassignments", UnknownOutcomeError("no answer", broker_id=1))
    if seconds < 0:
        was_set[0] = seconds
    while not run.ledger.journal(run.run_id).has_submissions():
        run.cluster.advance(driver.step() or 0)
    submitted_at = run.cluster.now
    was_set[0] = seconds
    if seconds < 0:
        driver = run.driver()
    while (wait_seconds := driver.settle_step()) is not None and own_configs(run.cluster):
        run.cluster.advance(wait_seconds)
    assert 27 <= run.cluster.now - submitted_at <= 60
    ledger.close()


def test_a_ledger_that_answers_late_puts_no_clock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first answer arrives after 40 s, or the process is stopped when it has come."""
    run, delays = SimulatedRun.make(tmp_path), iter([40])

    def answer(_: object) -> float:
        told = run.clock().timestamp()
        run.cluster.advance(next(delays, 0.01))
        return told

    monkeypatch.setattr(database_clock, "database_time", answer)
    ledger = Ledger.open(str(run.ledger._engine.url), run.clock, shared=True)
    assert abs(ledger.clock() - run.clock()) < timedelta(seconds=2)
    ledger.close()
