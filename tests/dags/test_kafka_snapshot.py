"""kafka_snapshot: a good snapshot is an asset event with Data Docs; a bad one is quarantined."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from counterpoise.installation import Installation
from counterpoise.orchestration import fresh_snapshot
from counterpoise.orchestration.fresh_snapshot import clusters_of_round
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.contradictions import name_a_broker_twice

ROOT = Path(__file__).parents[2]


def snapshot(**conf: object) -> tuple[str, dict[str, tuple[str, int]]]:
    """Runs the Dag; the state of the run, and state and number of tries of each task."""
    ended = DagBag(dag_folder=ROOT / "dags").dags["kafka_snapshot"].test(run_conf=conf)
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
    name_a_broker_twice(kafka, kafka.describe_topics()[0].topic, monkeypatch)
    state, tasks = snapshot()
    assert state == "failed"
    assert tasks["snapshot"] == ("failed", 1)
    assert (tasks["fleet_snapshot"][0], tasks["check_data"][0]) == ("skipped", "skipped")
    assert "is bad and was quarantined" in capfd.readouterr().out
    assert installation.archive.manifests(["demo"]).num_rows == 0
    assert len(installation.archive.quarantine_reports("demo")) == 1


@pytest.mark.usefixtures("dead_cluster")
def test_a_round_may_be_of_some_clusters_only(installation: Installation) -> None:
    state, tasks = snapshot(clusters=["demo"])
    assert state == "success", tasks
    assert installation.archive.manifests(["demo"]).num_rows == 1


def test_an_unknown_cluster_is_refused_before_there_is_a_run(installation: Installation) -> None:
    with pytest.raises(ParamValidationError, match="'nope' is not one of"):
        snapshot(clusters=["nope"])


def test_where_no_list_can_be_read_an_unknown_cluster_fails_the_first_task_at_once(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fresh_snapshot, "listed_clusters", tuple)
    state, tasks = snapshot(clusters=["nope"])
    assert (state, tasks["due_clusters"]) == ("failed", ("failed", 1))
    assert "cluster 'nope' is not in" in capfd.readouterr().out


def event(*only: str) -> SimpleNamespace:
    return SimpleNamespace(extra={"clusters": ["a", "b"], "only": list(only)})


def test_an_audit_is_of_the_clusters_of_its_rounds() -> None:
    params: dict[str, object] = {"clusters": None}
    assert clusters_of_round({"clusters": ["a", " "]}, {}) == ["a"]
    assert clusters_of_round(params, {}) == []
    assert clusters_of_round(params, {"fleet": [event("b"), event("a")]}) == ["a", "b"]
    assert clusters_of_round(params, {"fleet": [event("b"), event()]}) == [], "all of them"
