"""What people decide, or are told, goes by the database's clock, whatever those of all machines."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError, NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.ledger import Ledger
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.services import execution, requests
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation.test_what_earlier_runs_left import (  # noqa: F401 - a fixture
    CLUSTERS,
    approved,
    kafka,
    run_of,
)
from tests.support.installations import installation_over
from tests.support.ledger_view import let_all_databases_tell
from tests.support.runs import clock_of

HOURS = [-1.0, 1.0]
ALICE = Person.airflow("alice")
PATIENT = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
    policy: {movement: {pause_patience: 10m}}
"""
Open = Callable[..., Installation]


@pytest.fixture
def machine(
    tmp_path: Path,
    kafka: SimulatedCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Open:
    """Return what opens the installation on a machine whose clock is so many hours ahead of that of
    the database.
    """
    now = clock_of(kafka)
    let_all_databases_tell(monkeypatch, now)

    def open_on(hours_ahead: float, clusters: str = CLUSTERS) -> Installation:
        opened = installation_over(
            tmp_path,
            lambda _: kafka,
            clusters=clusters,
            clock=lambda: now() + timedelta(hours=hours_ahead),
        )
        opened.ledger = Ledger.open(opened.locations.ledger)
        return opened

    return open_on


@pytest.fixture(params=HOURS)
def ahead(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture(params=["approver", "worker"])
def page_and_worker(
    request: pytest.FixtureRequest, machine: Open, ahead: float
) -> Iterator[tuple[Installation, Installation]]:
    """Where a plan is approved, and where it is executed; the clock of one of them is ahead."""
    is_approver = request.param == "approver"
    with (
        machine(ahead if is_approver else 0) as page,
        machine(0 if is_approver else ahead) as worker,
    ):
        yield page, worker


def test_an_approval_holds_for_as_long_as_the_policy_says(
    page_and_worker: tuple[Installation, Installation],
    kafka: SimulatedCluster,  # noqa: F811
) -> None:
    page, worker = page_and_worker
    run = approved(page)
    kafka.advance(3600 * 23.5)
    execution.open_run(worker, *run_of(run))
    assert worker.ledger.run(run["run_id"]).state is RunState.RUNNING


def test_an_approval_ends_when_the_policy_says(
    page_and_worker: tuple[Installation, Installation],
    kafka: SimulatedCluster,  # noqa: F811
) -> None:
    page, worker = page_and_worker
    run = approved(page)
    kafka.advance(3600 * 24.5)
    with pytest.raises(NotApprovedError, match="expired"):
        execution.open_run(worker, *run_of(run))


def test_a_freeze_lasts_for_as_long_as_was_typed(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    with machine(0) as worker, machine(ahead) as page:
        run = approved(worker)
        requests.freeze(page, "demo", until="30m", by=ALICE, why="month end")
        kafka.advance(60 * 29)
        with pytest.raises(RefusedError, match="frozen"):
            execution.open_run(worker, *run_of(run))
        kafka.advance(60 * 2)
        execution.open_run(worker, *run_of(run))


def test_a_pause_lasts_for_as_long_as_the_policy_says(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    with machine(0, PATIENT) as page, machine(ahead, PATIENT) as worker:
        run = approved(page)
        execution.open_run(worker, *run_of(run))
        requests.pause(page, run["run_id"], by=ALICE, why="a disk is replaced")
        execution.execute_step(worker, *run_of(run), print)
        for _ in range(9):
            kafka.advance(60)
            execution.execute_step(worker, *run_of(run), print)
        kafka.advance(60 * 2)
        with pytest.raises(HaltedError, match="paused"):
            execution.execute_step(worker, *run_of(run), print)
