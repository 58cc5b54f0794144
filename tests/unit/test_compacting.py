"""Compaction, and readers beside it.

What it does to files is in tests/spark.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.made_results import view_table
from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.errors import StoreError
from counterpoise.installation import open_installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.tables import PARTITION_LOAD
from counterpoise.results import Results
from counterpoise.services import history_compaction
from counterpoise.services.history_compaction import CompactionReport
from counterpoise.storage import Store

AT = datetime(2026, 3, 18, 1, tzinfo=UTC)


def snapshot(at: datetime) -> ClusterSnapshot:
    document = {
        "cluster": "demo",
        "snapshot_id": history.snapshot_id_for("demo", at),
        "observed_at": at.isoformat(),
        "brokers": [{"id": 1}],
        "partitions": [["pay", 0, [1], 1, 100]],
    }
    return from_document_text(json.dumps(document))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "clusters.yaml").write_text(
        "clusters: {demo: {connection: x}, other: {connection: x}}\n"
    )
    monkeypatch.setenv("COUNTERPOISE_CONFIG", str(tmp_path / "clusters.yaml"))
    monkeypatch.setenv("COUNTERPOISE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COUNTERPOISE_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    return Store(str(tmp_path / "store"))


def compacted() -> CompactionReport:
    with open_installation() as installation:
        return history_compaction.compact(installation)


def test_what_is_too_old_is_dropped_and_told(store: Store) -> None:
    for year in (2019, 2020):
        Archive(store).write_snapshot(snapshot(AT.replace(year=year)))

    told = compacted().in_words

    assert told[0] == "demo: 1 day compacted, 1 snapshot dropped, 0 files deleted"
    assert told[-1].startswith("results: 0 rounds merged")
    assert Archive(store).manifests(["demo"]).num_rows == 1


def test_what_could_not_be_done_is_told_and_the_rest_is_done(store: Store) -> None:
    for year in (2019, 2020):
        Archive(store).write_snapshot(snapshot(AT.replace(year=year)))
    store.write_text("history/snapshots/cluster=other/date=2020-01-01/broken.parquet", "no Parquet")

    report = compacted()

    demo, other = report.clusters
    assert (demo.snapshots_dropped, demo.problem) == (1, None)
    assert "broken.parquet is not a complete Parquet file" in str(other.problem)
    assert f"other: {other.problem}" in report.problems


def audit_files(store: Store, *times: datetime) -> None:
    for at in times:
        store.write_text(f"audits/demo/{history.snapshot_id_for('demo', at)}.json", "{}")
        store.write_text(f"reports/demo/audit-{at.date()}.html", "<p>then</p>")


def test_audits_go_as_snapshots_do_and_the_newest_stays(store: Store) -> None:
    now = datetime.now(UTC)
    long_ago, month = (
        now - timedelta(days=740),
        (now - timedelta(days=30)).replace(hour=12, minute=0, second=0),
    )
    audit_files(
        store, long_ago - timedelta(days=1), long_ago, month, month + timedelta(minutes=20), now
    )
    for name in ("audit.html", "audit-of-somebody.html", "leader-balance-2020-01-01.html"):
        store.write_text(f"reports/demo/{name}", "<p>stays</p>")
    store.write_text("audits/demo/notes.json", "{}")

    told = compacted().in_words

    assert told[0] == "demo: 0 days compacted, 0 snapshots dropped, 5 files deleted"
    assert sorted(Archive(store).audits("demo")) == [
        history.snapshot_id_for("demo", at) for at in (month, now)
    ]
    assert sorted(Archive(store).dated_pages("demo")["audit"]) == [month.date(), now.date()]
    assert len(store.list("reports/demo")) == 5
    assert store.info("audits/demo/notes.json") is not None


def test_the_newest_audit_stays_however_old_it_is(store: Store) -> None:
    audit_files(store, AT.replace(year=2019), AT.replace(year=2020))
    assert not compacted().problems
    assert list(Archive(store).audits("demo")) == [
        history.snapshot_id_for("demo", AT.replace(year=2020))
    ]
    assert list(Archive(store).dated_pages("demo")["audit"]) == [AT.replace(year=2020).date()]


class Overtaken(Store):
    """Between the list and the first read a compaction puts one manifest in the place of all."""

    overtakes = 1

    def read_table(self, path: str, *, snapshot_id: str | None = None) -> pa.Table:
        if self.overtakes:
            self.overtakes -= 1
            paths = self.list(history.manifests_folder("demo"))
            rows = pa.concat_tables([super(Overtaken, self).read_table(one) for one in paths])
            self.write_table(
                history.compacted_path(history.MANIFESTS, "demo", AT.date(), f"{self.overtakes}"),
                rows,
            )
            for one in paths:
                self.delete(one)
        return super().read_table(path, snapshot_id=snapshot_id)


def test_a_reader_that_is_overtaken_by_a_compaction_finds_every_snapshot(tmp_path: Path) -> None:
    store = Overtaken(str(tmp_path))
    taken = [snapshot(AT + timedelta(hours=n)) for n in range(3)]
    for one in taken:
        Archive(store).write_snapshot(one)

    rows = Archive(store).manifests(["demo"])

    assert rows["snapshot_id"].to_pylist() == [one.snapshot_id for one in taken]
    assert Archive(store).clusters() == ("demo",)
    assert Archive(store).read_snapshot("demo", taken[1].snapshot_id) == taken[1]
    with pytest.raises(StoreError, match="no compacted day with this snapshot"):
        Archive(store).read_snapshot(
            "demo", history.snapshot_id_for("demo", AT + timedelta(hours=9))
        )
    store.overtakes = 100
    with pytest.raises(StoreError, match="changed 3 times while they were read"):
        Archive(store).manifests(["demo"])


def test_balance_reports_of_a_day_go_too_but_for_the_newest(store: Store) -> None:
    archive = Archive(store)
    archive.write_snapshot(snapshot(AT))
    for name in ("leader-balance-2019-01-01", "leader-balance-2019-01-02", "leader-balance"):
        for suffix in ("html", "json"):
            archive.write_report(f"demo/{name}.{suffix}", "x")
    assert not compacted().problems
    assert [path.rpartition("/")[2] for path in store.list("reports/demo")] == [
        "leader-balance-2019-01-02.html",
        "leader-balance-2019-01-02.json",
        "leader-balance.html",
        "leader-balance.json",
    ]


def loads_of_a_day(store: Store, clusters: dict[str, int], at: datetime) -> None:
    """A round of one snapshot for each cluster, with so many rows of PARTITION_LOAD."""
    counts = list(clusters.values())
    ids = [history.snapshot_id_for(name, at) for name in clusters]
    columns: dict[str, pa.Array] = {
        field.name: pa.nulls(sum(counts), field.type) for field in PARTITION_LOAD
    }
    columns |= {
        "cluster": pa.array(np.repeat(list(clusters), counts), pa.string()),
        "snapshot_id": pa.array(np.repeat(ids, counts), pa.string()),
        "observed_at": pa.array([at] * sum(counts), PARTITION_LOAD.field("observed_at").type),
        "topic": pa.array(["pay"] * sum(counts)),
        "partition": pa.array(np.arange(sum(counts)), pa.int32()),
        "how": pa.array(["first"] * sum(counts)),
    }
    name = f"round-{at.date()}"
    table = pa.table(columns, schema=PARTITION_LOAD)
    store.write_table(f"results/partition_load/round={name}/part-{name}.parquet", table)
    rows = [
        {"snapshot_id": one, "cluster": cluster, "previous_snapshot_id": None}
        for cluster, one in zip(clusters, ids, strict=True)
    ]
    Results(store).finish_round(name, datetime.now(UTC), rows)


@pytest.mark.parametrize(
    ("large_rows", "memory"), [(0, None), (1_200_000, "4g")], ids=["tiny", "one is large"]
)
def test_hundreds_of_tables_of_a_day_are_one_job_with_the_memory_that_their_rows_need(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large_rows: int,
    memory: str | None,
) -> None:
    names = [f"tiny-{number}" for number in range(25)]
    lines = "".join(f"  {name}: {{connection: x}}\n" for name in [*names, "large"])
    (tmp_path / "clusters.yaml").write_text(f"clusters:\n{lines}")
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    for days_ago in range(3, 13):
        loads_of_a_day(store, dict.fromkeys(names, 2), noon - timedelta(days=days_ago))
    loads_of_a_day(store, {"large": large_rows}, noon - timedelta(days=2))
    jobs: list[tuple[int, Any]] = []

    def run(_script: Path, arguments: Sequence[str], *, conf: Any, **_: Any) -> None:
        plan = json.loads(Path(arguments[-1]).read_text())
        jobs.append((len(plan["daily"]), conf.get("spark.driver.memory")))

    monkeypatch.setattr(history_compaction, "run_job", run)

    assert not compacted().problems

    assert jobs == [(251, memory)]


def test_a_damaged_file_of_results_leaves_its_day_alone_and_the_others_are_compacted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    damaged = noon - timedelta(days=40)
    loads_of_a_day(store, {"demo": 2}, damaged)
    (path,) = store.list("results/partition_load", suffix=".parquet")
    for days_ago in (3, 4):
        loads_of_a_day(store, {"demo": 2, "other": 2}, noon - timedelta(days=days_ago))
    store.write_text(path, "no Parquet")
    days: list[int] = []

    def run(_script: Path, arguments: Sequence[str], **_: Any) -> None:
        days.append(len(json.loads(Path(arguments[-1]).read_text())["daily"]))

    monkeypatch.setattr(history_compaction, "run_job", run)

    (problem,) = compacted().results.left_alone

    assert problem.startswith(f"partition_load of demo of {damaged.date()} stays as it is: ")
    assert "is not a complete Parquet file" in problem
    assert days == [4]
    assert path in store.list("results/partition_load"), "until its day has a table"


def test_a_damaged_series_leaves_the_days_of_its_cluster_alone_and_the_others_are_compacted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    for days_ago in (3, 4):
        at = noon - timedelta(days=days_ago)
        loads_of_a_day(store, {"demo": 2, "other": 2}, at)
    Results(store).view_files("demo", "series").add(view_table("series", "demo", [at]), "r")
    (path,) = store.list("views/demo/series")
    store.write_text(path, "no Parquet")
    clusters: list[str] = []

    def run(_script: Path, arguments: Sequence[str], **_: Any) -> None:
        for daily in json.loads(Path(arguments[-1]).read_text())["daily"]:
            clusters.extend(
                one.rpartition("-")[0] for file in daily["files"] for one in file["snapshot_ids"]
            )

    monkeypatch.setattr(history_compaction, "run_job", run)

    report = compacted()

    assert clusters == ["other", "other"]
    assert report.results.days_of_loads == 2
    (problem,) = report.results.left_alone
    assert problem.startswith("every day of demo without a table stays as it is: ")
    assert f"{store.uri(path)} is damaged" in problem
    assert f"delete the folder {store.uri('views/demo/series')}" in problem


@dataclass(frozen=True)
class Input:
    row_count: int
    files: tuple[str, ...] = ("a file",)


def test_a_job_of_compaction_is_bounded_by_its_rows_and_files_whatever_comes_in() -> None:
    hour, tiny = 24 * 1_000_000, [Input(24)] * 1_000
    many_files = Input(1, tuple(map(str, range(6_000))))

    jobs = list(history_compaction.in_jobs([*tiny, *[Input(hour)] * 5, Input(3 * hour), *tiny]))
    assert [len(job) for job in jobs] == [1_002, 2, 1, 1, 1_000]
    assert [len(job) for job in history_compaction.in_jobs([many_files] * 3)] == [1, 1, 1]
    assert list(history_compaction.in_jobs([])) == []
