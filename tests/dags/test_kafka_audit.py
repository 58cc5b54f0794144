"""kafka_audit: each cluster by itself; a dead one, and one with grave findings, fail their own task
alone.
"""

from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise.installation import Installation
from counterpoise.services import audits
from tests.simulated_kafka.cluster import SimulatedCluster

ROOT = Path(__file__).parents[2]


def audit() -> tuple[str, dict[str, str]]:
    """Runs the Dag; the state of the run, and of each task."""
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_audit"]
    dag.get_task("audit").partial_kwargs["retries"] = 0
    ended = dag.test()
    tasks = ended.get_task_instances()
    return ended.state, {
        f"{t.task_id}{t.map_index if t.map_index >= 0 else ''}": t.state for t in tasks
    }


def add_to_policy(config: Path, line: str) -> None:
    config.write_text(config.read_text() + f"      audit: {{{line}}}\n")


def test_findings_are_kept_and_shown_and_fail_nothing_by_themselves(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    assert audit() == ("success", {"due_clusters": "success", "audit0": "success"})
    page = audits.audit_report(installation, "demo")
    assert "A broker that holds nothing" in page
    assert (
        len(
            list(
                (
                    Path(installation.archive.store.root_uri.removeprefix("file://"))
                    / "audits/demo"
                ).iterdir()
            )
        )
        == 1
    )


def test_findings_as_bad_as_the_policy_says_fail_the_task_with_their_titles(
    installation: Installation,
    kafka: SimulatedCluster,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    add_to_policy(tmp_path / "clusters.yaml", "fails_at: warning")
    assert audit() == ("failed", {"due_clusters": "success", "audit0": "failed"})
    assert "warning: A broker that holds nothing (broker 3)" in capfd.readouterr().out
    assert audits.audit_report(installation, "demo"), "the report is there all the same"


@pytest.mark.usefixtures("dead_cluster")
def test_a_dead_cluster_fails_its_own_task_and_no_other(installation: Installation) -> None:
    assert audit() == (
        "failed",
        {"due_clusters": "success", "audit0": "failed", "audit1": "success"},
    )
    assert audits.audit_report(installation, "demo")


def test_an_audit_never_overlaps_another_and_follows_the_snapshots() -> None:
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_audit"]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert dag.get_task("audit").is_mapped
    assert "counterpoise://snapshot/fleet" in str(dag.timetable.asset_condition)


@pytest.mark.parametrize(("said", "schedule"), [("manual", None), ("30 6 * * *", "30 6 * * *")])
def test_a_schedule_of_its_own(
    said: str, schedule: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOISE_AUDIT_SCHEDULE", said)
    dag: Any = DagBag(dag_folder=ROOT / "dags").dags["kafka_audit"]
    assert dag.schedule == schedule
