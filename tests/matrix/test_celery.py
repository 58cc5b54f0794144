"""CeleryExecutor: two workers that share no disk, a ledger and Airflow on Postgres, a store on S3.

The main job by Dags on real brokers; a worker that lacks a setting; and a run during which
api-server, scheduler, a worker and Postgres are killed one after the other.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest

from counterpoise import controls, queries
from counterpoise.errors import LedgerError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from local_airflow import AirflowApi
from local_airflow.api import FINAL_RUN_STATES, AirflowApiError
from local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from local_kafka.load import MB
from tests.support.celery_airflow import CELERY, S3_SERVER, CeleryAirflow, s3_server, why_not_here
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    leaders_per_broker,
    ongoing_reassignments,
    throttle_lines,
    times_added,
)
from tests.support.postgres import Postgres, running_postgres

pytestmark = pytest.mark.timeout(2400)
CLUSTER = "demo"
SNAPSHOT, BALANCE, AUDIT = "kafka_snapshot", "kafka_leader_balance", "kafka_audit"
REBALANCE = "kafka_rebalance"
WORKERS = ("worker-1", "worker-2")
NEW_BROKER = 4
SLOW, FAST = "200kB/s", "50MB/s"
WAIT_SECONDS = 600.0
SETTINGS = f"""\
clusters:
  {CLUSTER}:
    connection: kafka_demo
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: {SLOW}, max_moves_in_flight: 3}}
      approval: {{approvers: [alice]}}
"""
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


@dataclass
class Place:
    kafka: LocalKafka
    airflow: CeleryAirflow
    api: AirflowApi
    installation: Installation
    postgres: Postgres

    def approve(self, dag_run_id: str) -> None:
        question = self.api.wait_for_approval(REBALANCE, dag_run_id, WAIT_SECONDS)
        alice = self.airflow.api("alice")
        alice.approve(question, "as planned")
        alice.close()

    def run_states(self, dag_run_id: str) -> tuple[RunState, str | None]:
        """Return the state of the newest run in the ledger, and that of its task `execute`."""
        run = self.installation.ledger.runs(cluster=CLUSTER)[0]
        return run.state, self.api.task_states(REBALANCE, dag_run_id)["execute"]

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        self.api.wait_for(lambda: condition() or None, what, WAIT_SECONDS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if reason := why_not_here():
        pytest.skip(reason)
    for needed in (CELERY, S3_SERVER):
        if not needed.exists():
            pytest.fail(f"there is no {needed}; `make test-matrix` makes it")
    folder = tmp_path_factory.mktemp("celery")
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(folder / "kafka", brokers_in_racks("a", "b", "c")))
        make_topics(kafka)
        postgres = stack.enter_context(running_postgres())
        postgres.execute("CREATE DATABASE airflow")
        store = stack.enter_context(s3_server(folder))
        variables = configure(kafka, postgres, store)
        (folder / "clusters.yaml").write_text(SETTINGS)
        mine = {**variables, "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml")}
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, variables[name])  # Arrow reads them from this process
        airflow = CeleryAirflow(folder, settings=SETTINGS, environment=variables, postgres=postgres)
        stack.enter_context(airflow)
        api = AirflowApi(
            airflow.base_url, "admin", airflow.password("admin"), check=airflow.supervise
        )
        stack.callback(api.close)
        installation = stack.enter_context(open_installation(environment=mine))
        yield Place(kafka, airflow, api, installation, postgres)


def make_topics(kafka: LocalKafka) -> None:
    """One topic has all leaders on broker 1; the other has enough data to be moved for a while."""
    crooked = TopicSpec("orders", [(1, 2, 3)] * 6)
    even = TopicSpec("events", [((1, 2), (2, 3), (3, 1))[n % 3] for n in range(12)])
    create_topics(kafka.bootstrap_string, [crooked, even])
    fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(6), MB))
    fill(kafka.bootstrap_string, "events", dict.fromkeys(range(12), 12 * MB))


def configure(kafka: LocalKafka, postgres: Postgres, store: str) -> dict[str, str]:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
    return IMPATIENT | {
        "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
        "AWS_ACCESS_KEY_ID": "of-a-test",
        "AWS_SECRET_ACCESS_KEY": "of-a-test",
        "COUNTERPOISE_STORE": store,
        "COUNTERPOISE_LEDGER": postgres.empty_ledger(),
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


def test_a_worker_without_a_setting_refuses_and_another_one_goes_on(place: Place) -> None:
    place.airflow.start_worker("worker-0", without="COUNTERPOISE_STORE")
    dag_run_id = place.api.trigger(SNAPSHOT)
    assert place.api.wait_for_run(SNAPSHOT, dag_run_id, WAIT_SECONDS).state == "failed"
    (log,) = (
        path for path in place.airflow.logs_of_tasks("worker-0") if "due_clusters" in str(path)
    )
    assert log.read_text().count("COUNTERPOISE_STORE: not set in this worker") >= 1
    place.airflow.stop_worker("worker-0")
    for worker in WORKERS:
        place.airflow.start_worker(worker)
    place.api.clear_task(SNAPSHOT, dag_run_id, "due_clusters")
    assert place.api.wait_for_run(SNAPSHOT, dag_run_id, WAIT_SECONDS).state == "success"


def test_the_main_job_needs_no_disk_that_workers_share(place: Place) -> None:
    for dag in (AUDIT, BALANCE):
        following = place.api.wait_for_new_run(dag, (), WAIT_SECONDS)
        assert place.api.wait_for_run(dag, following.run_id, WAIT_SECONDS).state == "success"
    wanted = place.api.wait_for_new_run(REBALANCE, (), WAIT_SECONDS, partition_key=CLUSTER)
    place.approve(wanted.run_id)
    assert place.api.wait_for_run(REBALANCE, wanted.run_id, WAIT_SECONDS).state == "success"
    (run,) = place.installation.ledger.runs(cluster=CLUSTER)
    assert run.state is RunState.DONE
    assert set(leaders_per_broker(place.kafka).values()) == {6}
    reports = queries.list_reports(place.installation)
    assert any(run.run_id in name for name in reports), reports
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
    controls.change_rate(
        place.installation, run.run_id, FAST, by=Person("alice"), why="to see the end of it"
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
            _, progress = queries.run_progress_of(place.installation, run.run_id)
        except TEMPORARY:
            place.airflow.supervise()
            return False
        return (
            run.state is RunState.RUNNING and progress is not None and progress.observed_at > before
        )

    place.until("the next observation", is_observed)
