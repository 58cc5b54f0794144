"""Three brokers, Postgres, an S3 server and an Airflow on machines that share no disk.

    with running_place(folder, CeleryAirflow) as place:
        dag_run_id = refuse_a_snapshot(place)       # the worker lacks COUNTERPOISE_STORE
        ...                                         # now a worker that has it
        finish_the_snapshot(place, dag_run_id)
        do_the_main_job(place)

The fixture of `tests/nightly/test_celery.py` and `test_local_executor.py`, and what both show.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import pytest

from counterpoise.installation import Installation, open_installation
from counterpoise.model.run import RunState
from dev.local_airflow import AirflowApi
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_kafka.load import MB
from tests.support.airflow_machines import AirflowMachines, s3_server, why_not_here
from tests.support.kafka_facts import ON_A_SHARED_DISK, leaders_per_broker
from tests.support.postgres import Postgres, running_postgres

CLUSTER: Final = "demo"
SNAPSHOT, BALANCE, AUDIT = "kafka_snapshot", "kafka_leader_balance", "kafka_audit"
REBALANCE: Final = "kafka_rebalance"
WAIT_SECONDS: Final = 600.0
MISSING: Final = "COUNTERPOISE_STORE"
SETTINGS: Final = f"""\
clusters:
  {CLUSTER}:
    connection: kafka_demo
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: 200kB/s, max_moves_in_flight: 3}}
      access: {{approve: [alice]}}
"""

SomeAirflow = TypeVar("SomeAirflow", bound=AirflowMachines)


@dataclass
class Place(Generic[SomeAirflow]):
    kafka: LocalKafka
    airflow: SomeAirflow
    api: AirflowApi
    installation: Installation
    postgres: Postgres

    def approve(self, dag_run_id: str) -> None:
        question = self.api.wait_for_approval(REBALANCE, dag_run_id, WAIT_SECONDS)
        alice = self.airflow.api("alice")
        alice.approve(question, "as planned", "200kB/s")
        alice.close()

    def run_states(self, dag_run_id: str) -> tuple[RunState, str | None]:
        """Return the state of the newest run in the ledger, and that of its task `execute`."""
        run = self.installation.ledger.runs(cluster=CLUSTER)[0]
        return run.state, self.api.task_states(REBALANCE, dag_run_id)["execute"]

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        self.api.wait_for(lambda: condition() or None, what, WAIT_SECONDS)


def skip_where_impossible(*needed: Path) -> None:
    """Skip the test on a machine that cannot run it; fail it where something is not installed."""
    if reason := why_not_here():
        pytest.skip(reason)
    for path in needed:
        if not path.exists():
            pytest.fail(f"there is no {path}; `make test-nightly` makes it")


@contextmanager
def running_place(
    folder: Path, kind: type[SomeAirflow], variables: Mapping[str, str]
) -> Iterator[Place[SomeAirflow]]:
    """Start all of it, with an Airflow of this kind and more variables; stop it at the end."""
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(folder / "kafka", brokers_in_racks("a", "b", "c")))
        _make_topics(kafka)
        postgres = stack.enter_context(running_postgres())
        postgres.execute("CREATE DATABASE airflow")
        store = stack.enter_context(s3_server(folder))
        shared = {**_configure(kafka, postgres, store), **variables}
        (folder / "clusters.yaml").write_text(SETTINGS)
        mine = {**shared, "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml")}
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, shared[name])  # Arrow reads them from this process
        airflow = kind(folder, settings=SETTINGS, environment=shared, postgres=postgres)
        stack.enter_context(airflow)
        api = AirflowApi(
            airflow.base_url, "admin", airflow.password("admin"), check=airflow.supervise
        )
        stack.callback(api.close)
        installation = stack.enter_context(open_installation(environment=mine))
        yield Place(kafka, airflow, api, installation, postgres)


def _make_topics(kafka: LocalKafka) -> None:
    """One topic has all leaders on broker 1; the other has enough data to be moved for a while."""
    crooked = TopicSpec("orders", [(1, 2, 3)] * 6)
    even = TopicSpec("events", [((1, 2), (2, 3), (3, 1))[n % 3] for n in range(12)])
    create_topics(kafka.bootstrap_string, [crooked, even])
    fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(6), MB))
    fill(kafka.bootstrap_string, "events", dict.fromkeys(range(12), 12 * MB))


def _configure(kafka: LocalKafka, postgres: Postgres, store: str) -> dict[str, str]:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
    return {
        "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
        "AWS_ACCESS_KEY_ID": "of-a-test",
        "AWS_SECRET_ACCESS_KEY": "of-a-test",
        "COUNTERPOISE_STORE": store,
        "COUNTERPOISE_LEDGER": postgres.empty_ledger(),
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


def refuse_a_snapshot(place: Place[SomeAirflow], machine: str) -> str:
    """Start a snapshot that fails on this machine, which lacks `MISSING`; return its Dag run."""
    dag_run_id = place.api.trigger(SNAPSHOT)
    assert place.api.wait_for_run(SNAPSHOT, dag_run_id, WAIT_SECONDS).state == "failed"
    (log,) = (path for path in place.airflow.logs_of_tasks(machine) if "due_clusters" in str(path))
    assert log.read_text().count(f"{MISSING}: not set in this worker") >= 1
    return dag_run_id


def finish_the_snapshot(place: Place[SomeAirflow], dag_run_id: str) -> None:
    """Clear the task that was refused; a worker with all settings does it."""
    place.api.clear_task(SNAPSHOT, dag_run_id, "due_clusters")
    assert place.api.wait_for_run(SNAPSHOT, dag_run_id, WAIT_SECONDS).state == "success"


def do_the_main_job(place: Place[SomeAirflow]) -> None:
    """Follow the snapshot until leaders are even: audit, analysis, plan, a yes, run, report."""
    for dag in (AUDIT, BALANCE):
        following = place.api.wait_for_new_run(dag, (), WAIT_SECONDS)
        assert place.api.wait_for_run(dag, following.run_id, WAIT_SECONDS).state == "success"
    wanted = place.api.wait_for_new_run(REBALANCE, (), WAIT_SECONDS, partition_key=CLUSTER)
    place.approve(wanted.run_id)
    assert place.api.wait_for_run(REBALANCE, wanted.run_id, WAIT_SECONDS).state == "success"
    (run,) = place.installation.ledger.runs(cluster=CLUSTER)
    assert run.state is RunState.DONE
    assert set(leaders_per_broker(place.kafka).values()) == {6}
    reports = [file.path for file in place.installation.archive.report_files()]
    assert any(run.run_id in name for name in reports), reports
