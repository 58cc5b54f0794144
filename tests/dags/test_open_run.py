"""The task `open_run`, and a run that has ended meanwhile."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from counterpoise.errors import ClusterUnreachableError, HaltedError
from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.services import execution, plans, requests
from tests.dags.test_approval import planned
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.decisions import grant
from tests.support.ledger_view import blame_trouble

ROOT = Path(__file__).parents[2]
ALICE = Person.airflow("alice")
UNREACHABLE = ClusterUnreachableError((("simulated", "no broker responds"),))


@pytest.fixture
def run(installation: Installation) -> plans.PlannedRun:
    """An approved run of a Dag run."""
    run = planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)))
    grant(installation, run, by=ALICE, reason="broker 3 joined")
    return run


@pytest.fixture(scope="module")
def open_run() -> Any:
    return DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"].get_task("open_run")


def stopped_elsewhere(
    installation: Installation, run: plans.PlannedRun, *, has_trouble: bool = True
) -> None:
    """Execute the run as the command line does; it stops for trouble, or is cancelled."""
    run_id, fingerprint = run["run_id"], run["fingerprint"]
    with execution.opened_run(installation, run_id, fingerprint):
        requests.cancel(installation, run_id, by=ALICE, why="month end")
    with pytest.raises(HaltedError):
        execution.execute_step(installation, run_id, fingerprint, print)
    if has_trouble:
        blame_trouble(installation.ledger, run_id)
    while execution.settle_step(installation, run_id, print) is not None:
        pass
    ended = RunState.HALTED if has_trouble else RunState.CANCELLED
    assert installation.ledger.run(run_id).state is ended


def try_to_open(task: Any, try_number: int, *, last_cleared_after: int = 0) -> None:
    """Do a try of the task as Airflow counts them: clearing gives it all its tries anew."""
    ti = SimpleNamespace(
        dag_id="kafka_rebalance",
        run_id="manual__1",
        task_id="open_run",
        task=task,
        try_number=try_number,
        max_tries=last_cleared_after + task.retries,
        xcom_push=lambda **_: None,
    )
    task.python_callable(ti=ti)


def test_a_retry_does_not_start_what_has_halted_after_the_first_try(
    installation: Installation,
    kafka: SimulatedCluster,
    run: plans.PlannedRun,
    open_run: Any,
) -> None:
    kafka.fail_next("describe_cluster", UNREACHABLE)
    with pytest.raises(ClusterUnreachableError):
        try_to_open(open_run, 1)
    stopped_elsewhere(installation, run)
    with pytest.raises(AirflowFailException, match="nobody has asked since for it to go on"):
        try_to_open(open_run, 2)
    assert installation.ledger.run(run["run_id"]).state is RunState.HALTED


def test_a_first_try_that_is_late_does_not_start_what_has_halted_meanwhile(
    installation: Installation, run: plans.PlannedRun, open_run: Any
) -> None:
    stopped_elsewhere(installation, run)
    with pytest.raises(AirflowFailException, match="nobody has asked since for it to go on"):
        try_to_open(open_run, 1)


def test_a_task_that_somebody_cleared_since_goes_on_with_a_halted_run_also_by_a_retry(
    installation: Installation,
    kafka: SimulatedCluster,
    run: plans.PlannedRun,
    open_run: Any,
) -> None:
    stopped_elsewhere(installation, run)
    kafka.fail_next("describe_cluster", UNREACHABLE)
    with pytest.raises(ClusterUnreachableError):
        try_to_open(open_run, 2, last_cleared_after=1)
    try_to_open(open_run, 3, last_cleared_after=1)
    assert installation.ledger.run(run["run_id"]).state is RunState.RUNNING
    stopped_elsewhere(installation, run)
    with pytest.raises(AirflowFailException, match="nobody has asked since for it to go on"):
        try_to_open(open_run, 4, last_cleared_after=1)


@pytest.mark.parametrize("last_cleared_after", [0, 1])
def test_what_somebody_cancelled_is_skipped_also_where_somebody_cleared_the_task(
    installation: Installation, run: plans.PlannedRun, open_run: Any, last_cleared_after: int
) -> None:
    stopped_elsewhere(installation, run, has_trouble=False)
    with pytest.raises(AirflowSkipException, match="is cancelled: cancel by alice: month end"):
        try_to_open(open_run, 2, last_cleared_after=last_cleared_after)
    assert installation.ledger.run(run["run_id"]).state is RunState.CANCELLED
