"""What people decide, or are told, goes by the database's clock, whatever those of all machines."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise import controls, pipeline
from counterpoise.errors import HaltedError, NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.ledger import Ledger, database_clock
from counterpoise.model.notification import Notification, NotificationEvent
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.pipeline import DagTask
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation.test_what_earlier_runs_left import (  # noqa: F401 - a fixture
    CLUSTERS,
    approved,
    kafka,
    run_of,
)
from tests.support.installations import installation_over
from tests.support.runs import change_state, clock_of

HOURS = [-1.0, 1.0]
ALICE = Person("alice")
TASK = DagTask("kafka_rebalance", "manual__1", "approve")
TELLING = f"{CLUSTERS}notify: {{webhooks: [ops]}}"
PATIENT = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
    policy: {movement: {pause_patience: 10m}}
"""
BY_RULE = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
    policy: {{approval: {{by_rule: [{{name: small, goals: [add-brokers], copies_at_most: {0}}}]}}}}
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
    monkeypatch.setattr(database_clock, "database_time", lambda _: now().timestamp())

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
    pipeline.open_run(worker, *run_of(run))
    assert worker.ledger.run(run["run_id"]).state is RunState.RUNNING


def test_an_approval_ends_when_the_policy_says(
    page_and_worker: tuple[Installation, Installation],
    kafka: SimulatedCluster,  # noqa: F811
) -> None:
    page, worker = page_and_worker
    run = approved(page)
    kafka.advance(3600 * 24.5)
    with pytest.raises(NotApprovedError, match="expired"):
        pipeline.open_run(worker, *run_of(run))


def test_a_freeze_lasts_for_as_long_as_was_typed(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    with machine(0) as worker, machine(ahead) as page:
        run = approved(worker)
        controls.freeze(page, "demo", until="30m", by=ALICE, why="month end")
        kafka.advance(60 * 29)
        with pytest.raises(RefusedError, match="frozen"):
            pipeline.open_run(worker, *run_of(run))
        kafka.advance(60 * 2)
        pipeline.open_run(worker, *run_of(run))


def test_a_pause_lasts_for_as_long_as_the_policy_says(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    with machine(0, PATIENT) as page, machine(ahead, PATIENT) as worker:
        run = approved(page)
        pipeline.open_run(worker, *run_of(run))
        controls.pause(page, run["run_id"], by=ALICE, why="a disk is replaced")
        pipeline.execute_step(worker, *run_of(run), print)
        for _ in range(9):
            kafka.advance(60)
            pipeline.execute_step(worker, *run_of(run), print)
        kafka.advance(60 * 2)
        with pytest.raises(HaltedError, match="paused"):
            pipeline.execute_step(worker, *run_of(run), print)


def planned(installation: Installation) -> pipeline.PlannedRun:
    pipeline.snapshot(installation, "demo", installation.clock())
    origin = pipeline.Origin(ALICE, TASK.dag_id, TASK.dag_run_id)
    run = pipeline.plan(installation, "demo", RebalanceRequest(Goal.ADD_BROKERS, (3,)), origin)
    assert run is not None
    installation.ledger.journal(run["run_id"]).event("validated", run["fingerprint"])
    return run


def test_a_rule_approves_nothing_during_a_freeze(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    clusters = BY_RULE.format("1GB")
    with machine(0, clusters) as page, machine(ahead, clusters) as worker:
        planned(worker)
        controls.freeze(page, "demo", until="30m", by=ALICE, why="month end")
        assert pipeline.rule_that_approves(worker, TASK) is None
        kafka.advance(60 * 31)
        assert pipeline.rule_that_approves(worker, TASK) is not None


def test_a_rule_approves_only_within_its_windows(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    """The database says 12:00 when the plan is made."""
    from_noon = '1GB, windows: [{starts: "30 12 * * *", lasts: 20m}]'
    with machine(ahead, BY_RULE.format(from_noon)) as worker:
        planned(worker)
        assert pipeline.rule_that_approves(worker, TASK) is None
        kafka.advance(60 * 35)
        assert pipeline.rule_that_approves(worker, TASK) is not None
        kafka.advance(60 * 20)
        assert pipeline.rule_that_approves(worker, TASK) is None


def test_a_rule_counts_what_it_has_approved_within_a_day(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    clusters = BY_RULE.format("200MB")
    with machine(0, clusters) as first, machine(ahead, clusters) as worker:
        run = planned(first)
        controls.approve_by_rule(first, *run_of(run), Person.of_rule("small"))
        for state in (RunState.RUNNING, RunState.SETTLING, RunState.DONE):
            change_state(first.ledger, run["run_id"], state)
        kafka.advance(3600 * 23.5)
        planned(worker)
        assert pipeline.rule_that_approves(worker, TASK) is None
        kafka.advance(3600)
        assert pipeline.rule_that_approves(worker, TASK) is not None


def test_a_question_waits_for_as_long_as_the_policy_says(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    with machine(0) as first, machine(ahead) as worker:
        planned(first)
        question = pipeline.put_question(first, TASK)
        assert question is not None
        kafka.advance(600)
        left = question.wait_for - timedelta(minutes=10)
        assert abs(pipeline.time_to_answer(worker, TASK) - left) < timedelta(seconds=1)


def test_people_are_told_for_a_day_that_a_run_has_halted(
    machine: Open,
    kafka: SimulatedCluster,  # noqa: F811
    ahead: float,
) -> None:
    told: list[Notification] = []
    with machine(0) as first, machine(ahead, TELLING) as worker:
        run = approved(first)
        for state in (RunState.RUNNING, RunState.SETTLING, RunState.HALTED):
            change_state(first.ledger, run["run_id"], state)
        kafka.advance(3600 * 23.5)
        pipeline.notify(worker, "demo", lambda _, notification: told.append(notification))
    assert NotificationEvent.HALTED in {notification.event for notification in told}
