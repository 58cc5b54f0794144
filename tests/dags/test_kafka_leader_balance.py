"""kafka_leader_balance: a task reports on several clusters, and few are asked about rebalances."""

import json
import signal
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag

from benchmarks.made_results import results_table
from counterpoise import history
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.orchestration.chunks import at_most, in_chunks, name_of
from counterpoise.services import analyses
from counterpoise.services.analyses import stored_view
from counterpoise.storage import PACKED

ROOT = Path(__file__).parents[2]
CLUSTERS = [f"c{number}" for number in range(1, 10)]  # in chunks of two
IDLE = "c9"


@pytest.fixture
def analysed(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Installation:
    """Nine clusters with an analysed snapshot each; one of them has an idle broker."""
    lines = [f"  {name}: {{connection: none}}" for name in CLUSTERS]
    (tmp_path / "clusters.yaml").write_text("\n".join(["clusters:", *lines, ""]))
    at = installation.clock().replace(minute=0, second=0, microsecond=0)
    for table in RESULT_TABLES:
        rows = results_table(table, CLUSTERS, [at]).to_pylist()
        if table == "broker_balance":
            rows = [row | _nothing(row) if _is_idle(row) else row for row in rows]
        made = pa.Table.from_pylist(rows, RESULT_TABLES[table])
        installation.archive.store.write_table(f"results/{table}/round=r/{PACKED}", made)
    snapshots = [
        {
            "snapshot_id": history.snapshot_id_for(name, at),
            "cluster": name,
            "previous_snapshot_id": None,
        }
        for name in CLUSTERS
    ]
    installation.results.finish_round("r", at, snapshots, packed_tables=[*RESULT_TABLES])
    installation.archive.write_snapshot(_snapshot_of_idle(at))
    monkeypatch.setattr(analyses, "analyse", lambda *_: CLUSTERS)
    return installation


def _is_idle(row: dict[str, Any]) -> bool:
    return (row["cluster"], row["broker_id"]) == (IDLE, 3)


def _nothing(row: dict[str, Any]) -> dict[str, int]:
    return {name: 0 for name, value in row.items() if value == 4}


def _snapshot_of_idle(at: datetime) -> ClusterSnapshot:
    """What a plan is made of: it has to move something, or nobody is asked."""
    document = {
        "cluster": IDLE,
        "snapshot_id": history.snapshot_id_for(IDLE, at),
        "observed_at": at.isoformat(),
        "brokers": [{"id": broker_id} for broker_id in (1, 2, 3)],
        "partitions": [["orders", p, [1 + p % 2, 2 - p % 2], 1 + p % 2, 1000] for p in range(12)],
    }
    return from_document_text(json.dumps(document))


def run() -> tuple[str, dict[str, list[str]]]:
    """Run the Dag; return its state, and those of the tasks."""
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_leader_balance"]
    dag.get_task("analyse").retries = 0
    ended = dag.test()
    states: dict[str, list[str]] = {}
    for one in sorted(ended.get_task_instances(), key=lambda one: one.map_index):
        states.setdefault(one.task_id, []).append(one.state)
    return ended.state, states


def test_a_cluster_whose_report_fails_keeps_no_other_from_its_report_and_its_proposal(
    analysed: Installation, capfd: pytest.CaptureFixture[str]
) -> None:
    store = analysed.archive.store
    stored_view(analysed, "c1")  # makes it
    (path,) = store.list("views/c1/series")
    store.write_bytes(path, b"damaged")
    state, tasks = run()
    assert state == "failed"
    assert tasks["report_balance"] == ["failed", *["success"] * 4]
    assert tasks["propose"] == ["failed", "success"], "of c1, and of c9, whose broker is idle"
    assert (tasks["report_fleet"], tasks["every_cluster_reported"]) == (
        ["failed"],
        ["upstream_failed"],
    )
    for name in CLUSTERS[1:]:
        assert analysed.archive.read_report(f"{name}/leader-balance.html")
    assert "1 report not complete: 1 problem" in capfd.readouterr().out
    fleet = json.loads(analysed.archive.read_report("fleet.json"))
    assert {one["cluster"]: one["brokers"] for one in fleet["clusters"]} == {
        name: None if name == "c1" else 3 for name in CLUSTERS
    }


def test_only_clusters_that_may_need_something_have_a_task_that_proposes(
    analysed: Installation,
) -> None:
    state, tasks = run()
    assert state == "success"
    assert tasks["report_balance"] == ["success"] * 5
    assert tasks["propose"] == ["success"]


def test_without_new_snapshots_there_is_only_the_fleet(
    analysed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyses, "analyse", lambda *_: [])
    state, tasks = run()
    assert state == "success"
    assert (tasks["report_balance"], tasks["propose"]) == (["skipped"], ["skipped"])
    assert tasks["report_fleet"] == ["success"]


def test_an_analysis_that_fails_fails_the_run_and_nothing_is_asked(
    analysed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise ValueError("no analysis")

    monkeypatch.setattr(analyses, "analyse", fail)
    state, tasks = run()
    assert state == "failed"
    assert (tasks["report_balance"], tasks["propose"]) == (["upstream_failed"], ["skipped"])
    assert tasks["report_fleet"] == ["success"]


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (3, [1, 1, 1]), (9, [2, 2, 2, 2, 1])])
def test_few_clusters_have_a_task_each(count: int, sizes: Sequence[int]) -> None:
    chunks = in_chunks(CLUSTERS[:count])
    assert [len(chunk) for chunk in chunks] == sizes
    assert [name for chunk in chunks for name in chunk] == CLUSTERS[:count]


def test_many_clusters_are_eight_tasks_with_names() -> None:
    chunks = in_chunks([f"c-{number:03d}" for number in range(200)])
    assert {len(chunk) for chunk in chunks} == {25}
    assert name_of(chunks[0]) == "c-000 … c-024 (25)"
    assert name_of(["demo"]) == "demo"


def test_what_takes_too_long_is_ended_and_the_next_begins() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    with (
        pytest.raises(TimeoutError, match="took longer than"),
        at_most(minutes=0.01),
    ):
        while True:
            time.sleep(0.01)
    with at_most(minutes=5):
        pass
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
