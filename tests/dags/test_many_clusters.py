"""A cluster that hangs or is away fails its own task alone, and ends in time."""

import copy
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise import installation as wiring
from counterpoise.installation import Installation, connect_by_discovery
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.orchestration.pools import pool_for
from tests.simulated_kafka.cluster import SimulatedCluster

ROOT = Path(__file__).parents[2]
ALIVE = ("alpha", "beta", "gamma")
HANGING = ("bad-1", "bad-2")
MAPPED = {
    "kafka_snapshot": "snapshot",
    "kafka_audit": "audit",
    "kafka_throttle_watch": "watch",
}
CLIENTS_GIVE_UP_SECONDS = 30.0
# More than those clusters need that answer.
DEADLINE = timedelta(seconds=10)


@pytest.fixture
def fleet(
    installation: Installation,
    kafka: SimulatedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SimulatedCluster]:
    """Three simulated clusters, and two at addresses that accept connections and never answer."""

    def connect(settings: ConnectionSettings) -> ClusterAdmin:
        return alive_at(kafka, settings) or connect_by_discovery(settings)

    monkeypatch.setattr(wiring, "connect_by_discovery", connect)
    with ExitStack() as stack:
        addresses = {name: f"{name}.alive:9092" for name in ALIVE}
        for name in HANGING:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
            addresses[name] = f"127.0.0.1:{listener.getsockname()[1]}"
        lines = [f"  {name}: {{connection: {name.replace('-', '_')}}}" for name in addresses]
        (tmp_path / "clusters.yaml").write_text("clusters:\n" + "\n".join(lines) + "\n")
        for name, address in addresses.items():
            monkeypatch.setenv(
                f"AIRFLOW_CONN_{name.replace('-', '_').upper()}",
                f'{{"conn_type": "kafka", "extra": {{"bootstrap.servers": "{address}"}}}}',
            )
        yield kafka


def alive_at(kafka: SimulatedCluster, settings: ConnectionSettings) -> SimulatedCluster | None:
    """Return the cluster at an address: each has an id of its own; None where none is alive."""
    name, _, rest = settings.bootstrap_servers[0].partition(".")
    if not rest.startswith("alive"):
        return None
    found = copy.copy(kafka)
    found.cluster_id = f"id-of-{name}"
    return found


def run(dag_id: str, **options: Any) -> dict[str, tuple[str, float, int]]:
    """Run a Dag with its own retries, at once; return the state of each cluster's task, how long
    the last try took in seconds, and the number of tries.
    """
    dag = DagBag(dag_folder=ROOT / "dags").dags[dag_id]
    dag.get_task(MAPPED[dag_id]).partial_kwargs.update(retry_delay=timedelta(0), **options)
    tasks = [one for one in dag.test().get_task_instances() if one.task_id == MAPPED[dag_id]]
    names = sorted((*ALIVE, *HANGING))
    return {names[one.map_index]: (one.state, one.duration, one.try_number) for one in tasks}


@pytest.mark.parametrize("dag_id", MAPPED)
def test_two_clusters_that_never_answer_fail_alone_and_soon(
    fleet: SimulatedCluster, dag_id: str
) -> None:
    tasks = run(dag_id)
    assert {name: state for name, (state, _, _) in tasks.items()} == {
        **dict.fromkeys(ALIVE, "success"),
        **dict.fromkeys(HANGING, "failed"),
    }
    assert max(seconds for _, seconds, _ in tasks.values()) < CLIENTS_GIVE_UP_SECONDS
    assert tasks[HANGING[0]][2] == (1 if dag_id == "kafka_throttle_watch" else 2)


@pytest.mark.parametrize("dag_id", MAPPED)
def test_a_task_that_hangs_ends_at_its_deadline_for_good_and_the_others_are_kept(
    fleet: SimulatedCluster,
    installation: Installation,
    monkeypatch: pytest.MonkeyPatch,
    dag_id: str,
) -> None:
    def hang(settings: ConnectionSettings) -> ClusterAdmin:
        found = alive_at(fleet, settings)
        if found is None:
            time.sleep(600)
        return found or fleet

    monkeypatch.setattr(wiring, "connect_by_discovery", hang)
    tasks = run(dag_id, execution_timeout=DEADLINE)
    assert {(tasks[name][0], tasks[name][2]) for name in HANGING} == {("failed", 1)}
    assert max(tasks[name][1] for name in HANGING) < CLIENTS_GIVE_UP_SECONDS
    assert {tasks[name][0] for name in ALIVE} == {"success"}
    if dag_id == "kafka_snapshot":
        known = installation.archive.manifests(ALIVE)["cluster"].to_pylist()
        assert sorted(known) == list(ALIVE)


@pytest.mark.parametrize(("dag_id", "task_id"), MAPPED.items())
def test_each_cluster_has_a_deadline_and_its_purpose_a_pool(
    dag_id: str, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for purpose in ("SNAPSHOT", "AUDIT", "WATCH"):
        monkeypatch.setenv(f"COUNTERPOISE_{purpose}_POOL", f"counterpoise_{purpose.lower()}")
    task = DagBag(dag_folder=ROOT / "dags").dags[dag_id].get_task(task_id)
    assert task.is_mapped
    assert task.pool == f"counterpoise_{task_id}"
    assert timedelta(0) < task.execution_timeout <= timedelta(minutes=30)


def test_a_run_has_a_pool_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOISE_RUN_POOL", "counterpoise_runs")
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"]
    assert {dag.get_task(name).pool for name in ("execute", "settle")} == {"counterpoise_runs"}
    assert pool_for("AUDIT") == "default_pool"
