"""What is compacted where a view is damaged: all clusters but that one, which is named."""

from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from benchmarks.made_results import view_table
from counterpoise.installation import Installation

ROOT = Path(__file__).parents[2]


def run() -> str:
    """Run the Dag once, without another try; return its state."""
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_history_compaction"]
    dag.get_task("compact").retries = 0
    state: str = dag.test().state
    return state


def test_a_damaged_view_is_named_after_all_others_are_compacted(
    installation: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`a` is compacted before `b`; its view of the disks is sound, and one of its months is old."""
    (tmp_path / "clusters.yaml").write_text(
        "clusters:\n  a: {connection: none}\n  b: {connection: none}\n"
    )
    store = installation.archive.store
    month_begin = installation.clock().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    long_ago = month_begin - timedelta(days=1_000)
    for cluster in ("a", "b"):
        for view in ("series", "log_dirs"):
            files = installation.results.view_files(cluster, view)
            files.add(view_table(view, cluster, [long_ago]), "old")
            for hour in range(3):
                at = month_begin + timedelta(hours=hour)
                files.add(view_table(view, cluster, [at]), f"round-{hour}")
    damaged = f"views/a/series/month={month_begin:%Y-%m}/round-1.parquet"
    store.write_text(damaged, "no Parquet")
    not_merged = store.list(damaged.rpartition("/")[0])

    assert run() == "failed"

    told = capfd.readouterr().out
    assert "the view series of a stays as it is" in told
    assert f"{store.uri(damaged)} is damaged" in told
    assert f"delete the folder {store.uri('views/a/series')}" in told
    assert store.list("views/a/series") == not_merged, "of the old month nothing stays"
    for folder in ("views/a/log_dirs", "views/b/series", "views/b/log_dirs"):
        (merged,) = store.list(folder)
        assert merged.rpartition("/")[2].startswith("merged-")
    assert len(installation.results.series("b")["snapshot_id"].unique()) == 3

    store.delete_folder("views/a/series")
    assert run() == "success"
