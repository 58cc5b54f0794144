"""The benchmark of the Dags: it finds figures of each task, of the Dag and of a decision."""

import pytest

from benchmarks.fleet_dags_child import CASE_VARIABLE, decide, parse, run_all, run_one
from counterpoise import pipeline
from counterpoise.installation import Installation


def test_a_mapped_dag_has_its_figures(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CASE_VARIABLE, "a-tiny")
    monkeypatch.setattr(pipeline, "due_clusters", pipeline.due_clusters)  # is put back afterwards
    assert parse("kafka_throttle_watch")["serialized_bytes"] > 1_000
    whole = run_all("kafka_throttle_watch")
    assert whole["mapped"] == ["watch"]
    assert {task_id: one["count"] for task_id, one in whole["tasks"].items()} == {
        "due_clusters": 1,
        "watch": 1,
        "report": 1,
    }
    assert decide("kafka_throttle_watch")["tasks"] == 3


def test_one_cluster_has_memory_of_its_own(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CASE_VARIABLE, "a-tiny")
    monkeypatch.setattr(pipeline, "due_clusters", pipeline.due_clusters)
    found = run_one("kafka_throttle_watch", cluster="demo")
    # Not compared: the kernel's peak of a process may be some pages lower a moment later.
    assert found["before_bytes"] > 0
    assert found["peak_bytes"] > 0
