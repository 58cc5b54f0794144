"""CeleryExecutor: two workers that share no disk, a ledger and Airflow on Postgres, a store on S3.

The main job by Dags on real brokers; a worker that lacks a setting; and a run during which
api-server, scheduler, a worker and Postgres are killed one after the other.
"""

from collections.abc import Iterator

import httpx
import pytest

from counterpoise.errors import LedgerError
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.services import requests, runs
from dev.local_airflow.api import FINAL_RUN_STATES, AirflowApiError
from tests.support import airflow_place
from tests.support.airflow_machines import S3_SERVER
from tests.support.airflow_place import (
    CLUSTER,
    REBALANCE,
    WAIT_SECONDS,
    running_place,
    skip_where_impossible,
)
from tests.support.celery_airflow import CELERY, CeleryAirflow
from tests.support.kafka_facts import ongoing_reassignments, throttle_lines, times_added

pytestmark = pytest.mark.timeout(2400)
WORKERS = ("worker-1", "worker-2")
NEW_BROKER = 4
FAST = "50MB/s"
# What says nothing while something is down and starts again.
TEMPORARY = (httpx.TransportError, AirflowApiError, LedgerError)
# A lost worker is noticed after a minute and not after five.
IMPATIENT = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
}

Place = airflow_place.Place[CeleryAirflow]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    skip_where_impossible(CELERY, S3_SERVER)
    with running_place(tmp_path_factory.mktemp("celery"), CeleryAirflow, IMPATIENT) as running:
        yield running


def test_a_worker_without_a_setting_refuses_and_another_one_goes_on(place: Place) -> None:
    place.airflow.start_worker("worker-0", without=airflow_place.MISSING)
    dag_run_id = airflow_place.refuse_a_snapshot(place, "worker-0")
    place.airflow.stop_worker("worker-0")
    for worker in WORKERS:
        place.airflow.start_worker(worker)
    airflow_place.finish_the_snapshot(place, dag_run_id)


def test_the_main_job_needs_no_disk_that_workers_share(place: Place) -> None:
    airflow_place.do_the_main_job(place)
    for worker in WORKERS:
        assert place.airflow.logs_of_tasks(worker), f"{worker} ran nothing"


def kill_api_server(place: Place) -> None:
    place.airflow.kill("api-server")
    place.airflow.supervise()


def kill_scheduler(place: Place) -> None:
    place.airflow.kill("scheduler")
    place.airflow.supervise()


def kill_worker(place: Place) -> None:
    place.airflow.kill_worker(WORKERS[0])
    place.airflow.start_worker(WORKERS[0])


def kill_postgres(place: Place) -> None:
    place.postgres.kill()
    place.postgres.start()


KILLS = (kill_api_server, kill_scheduler, kill_worker, kill_postgres)


def test_whatever_is_killed_the_run_ends_and_moves_nothing_twice(place: Place) -> None:
    place.kafka.add_broker(NEW_BROKER, "d")
    form = {"goal": "add-brokers", "broker_ids": [NEW_BROKER]}
    dag_run_id = place.api.trigger(REBALANCE, conf=form, partition_key=CLUSTER)
    place.approve(dag_run_id)
    for kill in KILLS:
        until_it_is_observed(place, dag_run_id)
        kill(place)
    until_it_is_observed(place, dag_run_id)
    (run, *_) = place.installation.ledger.runs(cluster=CLUSTER)
    requests.change_rate(
        place.installation, run.run_id, FAST, by=Person.airflow("alice"), why="to see the end of it"
    )
    assert place.api.wait_for_run(REBALANCE, dag_run_id, WAIT_SECONDS).state == "success"
    assert place.installation.ledger.run(run.run_id).state is RunState.DONE
    assert throttle_lines(place.kafka) == []
    assert ongoing_reassignments(place.kafka) == ""
    added = times_added(place.kafka, NEW_BROKER)
    assert added
    assert set(added.values()) == {1}, "each replica was added once"


def until_it_is_observed(place: Place, dag_run_id: str) -> None:
    """Wait until moves are under way, and an observation was made after this call."""
    before = place.installation.clock()

    def is_observed() -> bool:
        try:
            if place.api.dag_run(REBALANCE, dag_run_id).state in FINAL_RUN_STATES:
                pytest.fail(f"it ended: {place.run_states(dag_run_id)}")
            (run, *_) = place.installation.ledger.runs(cluster=CLUSTER)
            progress = runs.run_now(place.installation, run.run_id).run_progress
        except TEMPORARY:
            place.airflow.supervise()
            return False
        return (
            run.state is RunState.RUNNING and progress is not None and progress.observed_at > before
        )

    place.until("the next observation", is_observed)
