"""kafka_audit: each cluster by itself; a dead one, and one with grave findings, fail their own task
alone.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise.installation import Installation
from counterpoise.model.connectivity import QuorumCheck, VoterCheck
from counterpoise.model.severity import Severity
from counterpoise.services.fleet import fleet
from counterpoise.services.metrics import audit_samples
from counterpoise.services.viewers import Viewer, Viewing
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import connectivity, snapshot_of

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
    page = installation.archive.read_report("demo/audit.html")
    assert "Broker 3 is live and holds no replica" in page
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
    assert installation.archive.read_report("demo/audit.html"), "the report is there all the same"


def test_a_quorum_without_a_leader_is_the_first_thing_everywhere_and_fails_by_the_policy_alone(
    installation: Installation,
    kafka: SimulatedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Brokers respond and no snapshot can be made: the audit has a report all the same."""
    stopped = VoterCheck("127.0.0.1:1", 102, is_listening=False, detail="nobody listens there")
    lost = QuorumCheck((), ("simulated:9092",), seconds=5.0, voters=(stopped,))
    checked = replace(connectivity(snapshot_of(kafka)), quorum=lost)
    monkeypatch.setattr(Installation, "check_connectivity", lambda *_, **__: checked)
    assert audit()[0] == "success"
    page = installation.archive.read_report("demo/audit.html")
    said = "No broker reaches an active controller"
    assert "1 critical" in page and "No findings" not in page
    assert page.index(said) < page.index("could not run")
    shown = fleet(installation, Viewing.of(installation, Viewer("admin")))
    (audited,) = [row.audit for row in shown.rows if row.cluster == "demo"]
    assert audited and audited.open_counts[Severity.CRITICAL] == 1
    samples = audit_samples(installation, ["demo"])
    counted = {s.labels: s.value for s in samples}
    assert counted["demo", "critical"] == 1 and counted["demo", "unknown"] > 0
    add_to_policy(tmp_path / "clusters.yaml", "fails_at: critical")
    assert audit()[1]["audit0"] == "failed"
    assert "Brokers that do not reach an active controller (quorum)" in capfd.readouterr().out


@pytest.mark.usefixtures("dead_cluster")
def test_a_dead_cluster_fails_its_own_task_and_no_other(installation: Installation) -> None:
    assert audit() == (
        "failed",
        {"due_clusters": "success", "audit0": "failed", "audit1": "success"},
    )
    assert installation.archive.read_report("demo/audit.html")


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
