"""Runs that ended long ago: what comes late when its rows are deleted is settled, too."""

import time
from datetime import timedelta

import pytest

from counterpoise import pipeline
from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.kafka import FOLLOWER_RATE, ConfigOperation
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation.test_what_earlier_runs_left import (  # noqa: F401 - fixtures
    approved,
    change_late,
    execute_and_settle,
    halted_while_moving,
    installation,
    kafka,
    late_move,
    run_of,
)
from tests.support.runs import own_configs


@pytest.fixture(autouse=True)
def _time_passes_in_the_cluster(monkeypatch: pytest.MonkeyPatch, kafka: SimulatedCluster) -> None:  # noqa: F811
    monkeypatch.setattr(time, "sleep", kafka.advance)


def let_a_year_pass(installation: Installation, kafka: SimulatedCluster) -> None:  # noqa: F811
    """A year later, what is older than a month is deleted."""
    kafka.advance(timedelta(days=365).total_seconds())
    month_ago = installation.clock() - timedelta(days=30)
    assert installation.ledger.prune("demo", before=month_ago)


def test_a_move_that_comes_when_its_approval_is_deleted_is_settled(
    installation: Installation,  # noqa: F811
    kafka: SimulatedCluster,  # noqa: F811
) -> None:
    run = halted_while_moving(installation, kafka)
    let_a_year_pass(installation, kafka)
    assert installation.ledger.approvals_of(run["run_id"]) == ()
    move = late_move(installation, kafka, run)
    report = pipeline.watch_throttles(installation, "demo", print)
    assert report.late_moves == (f"{move.topic_partition} (run {run['run_id']})",)
    assert installation.ledger.run(run["run_id"]).state is RunState.HALTED
    rates = [c.value for c in _changes_of(kafka) if c.key == FOLLOWER_RATE and c.value]
    assert set(rates) == {"1000000"}, "the rate at which it was observed last"
    assert not kafka.list_reassignments()
    assert own_configs(kafka) == {}
    with pytest.raises(NotApprovedError, match="was not approved"):
        pipeline.execute_step(installation, *run_of(run), print)


def _changes_of(kafka: SimulatedCluster) -> list[object]:  # noqa: F811
    calls = [call for call in kafka.calls if call.name == "alter_configs"]
    return [change for call in calls for change in call.argument]  # type: ignore[attr-defined]


def test_a_call_that_was_late_stays_on_record_with_the_keys_that_it_may_have_changed(
    installation: Installation,  # noqa: F811
    kafka: SimulatedCluster,  # noqa: F811
) -> None:
    run = halted_while_moving(installation, kafka)
    journal = installation.ledger.journal(run["run_id"])
    (rate,) = (key for key in journal.touched() if key.key == FOLLOWER_RATE)
    journal.note_late_call("config change")
    change_late(kafka, [rate], ConfigOperation.SET)
    let_a_year_pass(installation, kafka)
    pipeline.watch_throttles(installation, "demo", print)
    assert own_configs(kafka) == {}
    assert journal.late_calls() == ()


def test_an_undo_of_a_run_whose_rows_are_deleted_says_so(
    installation: Installation,  # noqa: F811
    kafka: SimulatedCluster,  # noqa: F811
) -> None:
    run = approved(installation)
    pipeline.open_run(installation, *run_of(run))
    execute_and_settle(installation, kafka, run)
    let_a_year_pass(installation, kafka)
    with pytest.raises(RefusedError, match="`counterpoise ledger prune` has deleted rows"):
        pipeline.undo_plan(installation, run["run_id"])
