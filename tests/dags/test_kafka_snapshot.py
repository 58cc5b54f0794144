"""kafka_snapshot: a good snapshot is an asset event with Data Docs; a bad one is quarantined."""

from dataclasses import replace
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise.installation import Installation
from counterpoise.kafka_admin.simulated import SimulatedCluster

ROOT = Path(__file__).parents[2]


def snapshot() -> tuple[str, dict[str, tuple[str, int]]]:
    """Runs the Dag; the state of the run, and state and number of tries of each task."""
    ended = DagBag(dag_folder=ROOT / "dags").dags["kafka_snapshot"].test()
    tasks = ended.get_task_instances()
    return ended.state, {task.task_id: (task.state, task.try_number) for task in tasks}


def test_a_good_photograph_joins_the_history_and_gets_data_docs(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    state, tasks = snapshot()
    assert state == "success", tasks
    assert {name for name, (state, _) in tasks.items() if state == "success"} == set(tasks)
    assert installation.archive.manifests(["demo"]).num_rows == 1
    assert installation.archive.has_data_docs("demo")


def test_a_bad_photograph_fails_its_task_without_another_try_and_is_no_event(
    installation: Installation,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    told = kafka.describe_cluster()
    known = tuple(broker for broker in told.brokers if broker.broker_id != 2)
    monkeypatch.setattr(kafka, "describe_cluster", lambda: replace(told, brokers=known))
    state, tasks = snapshot()
    assert state == "failed"
    assert tasks["snapshot"] == ("failed", 1)
    assert (tasks["fleet_snapshot"][0], tasks["check_data"][0]) == ("skipped", "skipped")
    assert "is bad and was quarantined" in capfd.readouterr().out
    assert installation.archive.manifests(["demo"]).num_rows == 0
    assert len(installation.archive.quarantine_reports("demo")) == 1
