"""Compaction on real files: what is kept reads as before, whatever breaks off in the middle.

The job runs in the session of all Spark tests, and once through spark-submit.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.errors import StoreError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.policy import ClusterPolicy, HistoryPolicy
from counterpoise.model.tables import BROKER_BALANCE, PARTITION_LOAD, PARTITION_LOAD_DAILY
from counterpoise.results import Results
from counterpoise.services import history_compaction
from counterpoise.services.history_compaction import compact
from counterpoise.settings import ClusterSettings, FileConnections, Locations, Settings
from counterpoise.spark_submit import SparkJobError
from counterpoise.storage import Store

JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"
POLICY = HistoryPolicy(
    keep_all=timedelta(days=4), keep_hourly=timedelta(days=6), keep_daily=timedelta(days=10)
)
# The store's times are the real ones, so the snapshots are of the days before today. From 22:00 on
# that is tomorrow, or the grace would not be over for what is written after midnight.
TODAY = (datetime.now(UTC) + timedelta(hours=2)).replace(hour=0, minute=0, second=0, microsecond=0)
NOON = TODAY + timedelta(hours=12)
LATE = TODAY + timedelta(
    days=2, minutes=-1
)  # tomorrow, a day after any time today: the grace is over
RunJob = Callable[..., None]


@pytest.fixture(scope="module")
def run_once(
    spark: SparkSession, compaction_job: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path, Sequence[str]], None]:
    """Runs the job in the session. A file that it has made for one test is copied for the next: the
    same rows of the same files of the same test world become the same file."""
    made = tmp_path_factory.mktemp("made")

    def run(script: Path, arguments: Sequence[str], **_: Any) -> None:
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        plan = json.loads(Path(given["--plan"]).read_text())
        store = Path(compaction_job.store_root(given["--store"]).removeprefix("file://"))
        tables = [(e["output"], e["table"], e["files"]) for e in plan["merges"]]
        tables += [(e["output"], f"{e['table']}_daily", e["files"]) for e in plan["daily"]]
        places = {n: store / given["--work"] / table / f"output={n}" for n, table, _ in tables}
        kept = {n: made / str(abs(hash((table, json.dumps(files))))) for n, table, files in tables}
        if not all(folder.exists() for folder in kept.values()):
            if status := compaction_job.main(arguments):
                raise SparkJobError("the job failed", status)
            for number, folder in kept.items():
                if not folder.exists():
                    shutil.copytree(places[number], folder)
            return
        for number, place in places.items():
            shutil.copytree(kept[number], place)

    return run


@pytest.fixture
def in_session(run_once: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_compaction, "run_job", run_once)


def installation_of(
    store: Store | str,
    now: datetime = NOON,
    *,
    master: str = "local[2]",
    policies: Mapping[str, HistoryPolicy] = {"demo": POLICY},
) -> Installation:
    opened = Store(store) if isinstance(store, str) else store
    locations = Locations.from_environment(
        {
            "COUNTERPOISE_STORE": opened.root_uri,
            "COUNTERPOISE_LEDGER": "sqlite:////nowhere/ledger.db",  # never opened
            "COUNTERPOISE_SPARK_MASTER": master,
            "COUNTERPOISE_SPARK_JOBS": str(JOBS),
        }
    )
    known = Settings(
        "a test",
        {
            name: ClusterSettings(name, name, name, None, ClusterPolicy(history=policy))
            for name, policy in policies.items()
        },
    )
    installation = Installation(
        locations, FileConnections(Path("none"), {}), clock=lambda: now, known_clusters=known
    )
    installation.__dict__["archive"] = Archive(opened)
    return installation


def snapshot(at: datetime, partitions: int = 3, cluster: str = "demo") -> ClusterSnapshot:
    document = {
        "cluster": cluster,
        "cluster_id": "id",
        "snapshot_id": history.snapshot_id_for(cluster, at),
        "observed_at": (at + timedelta(seconds=9)).isoformat(),
        "brokers": [
            {"id": 2, "rack": "b"},
            {"id": 1, "rack": None, "log_dirs": [{"path": "/d", "total_bytes": 9}]},
        ],
        "partitions": [
            ["pay", p, [1, 2], 1, 100 + at.hour, 5] for p in reversed(range(partitions))
        ],
    }
    return from_document_text(json.dumps(document))


def at(days_ago: int, hour: int, minute: int = 0) -> datetime:
    return TODAY - timedelta(days=days_ago) + timedelta(hours=hour, minutes=minute)


# Today, yesterday (not settled yet), a day of which all is kept, one by the hour, one by the day,
# one too old.
TAKEN = [
    *(
        snapshot(at(days_ago, hour, minute))
        for days_ago in (8, 5, 4)
        for hour in (3, 4)
        for minute in (0, 30)
    ),
    *(snapshot(at(days_ago, hour)) for days_ago in (11, 2, 1, 0) for hour in (3, 4)),
]
KEPT = {
    *(at(8, 3),),
    *(at(5, hour) for hour in (3, 4)),
    *(at(4, hour, minute) for hour in (3, 4) for minute in (0, 30)),
    *(at(days_ago, hour) for days_ago in (2, 1, 0) for hour in (3, 4)),
}
KEPT_IDS = {history.snapshot_id_for("demo", moment) for moment in KEPT}


def write_history(store: Store) -> None:
    for one in TAKEN:
        Archive(store).write_snapshot(one)


def write_round(
    store: Store, name: str, finished_at: datetime, snapshots: Sequence[ClusterSnapshot]
) -> None:
    """A round with a row of BROKER_BALANCE and two of PARTITION_LOAD per snapshot; the rates are
    the hour times 10. All clusters share its files.
    """
    heads = [(one.cluster, one.snapshot_id, one.observed_at) for one in snapshots]
    balance = [(*head, 1, None, False, 1, 1, 0, 1, 7) for head in heads]
    loads = [
        (*head, "pay", p, 1, 3600.0, None if p else head[2].hour * 10, None, 1, "records")
        for head in heads
        for p in (0, 1)
    ]
    for table, rows, schema in (
        ("broker_balance", balance, BROKER_BALANCE),
        ("partition_load", loads, PARTITION_LOAD),
    ):
        columns = [list(column) for column in zip(*rows, strict=True)]
        store.write_table(
            f"results/{table}/round={name}/part-{name}.parquet", pa.table(columns, schema=schema)
        )
    rows = [
        {"snapshot_id": one.snapshot_id, "cluster": one.cluster, "previous_snapshot_id": None}
        for one in snapshots
    ]
    Results(store).finish_round(name, finished_at, rows)


def write_rounds(store: Store) -> None:
    """One round after each snapshot; the first of the settled day is repeated on the day after."""
    for one in TAKEN:
        assert one.observed_at is not None
        write_round(store, one.snapshot_id, one.observed_at + timedelta(minutes=5), [one])
    write_round(
        store, "again", at(1, 8), [one for one in TAKEN if one.snapshot_id.startswith(_day(2))][:1]
    )


def _day(days_ago: int) -> str:
    return f"demo-{at(days_ago, 0):%Y%m%d}"


def contents(store: Store) -> dict[str, Any]:
    """What a reader finds: every kept snapshot, and what was analysed of it."""
    archive, results = Archive(store), Results(store)
    ids = set(archive.manifests(["demo"])["snapshot_id"].to_pylist())
    balance = results.table("broker_balance", ids)
    return {
        **{i: archive.read_snapshot("demo", i) for i in ids},
        "analysed": sorted(balance["snapshot_id"].to_pylist()),
    }


def expected() -> dict[str, Any]:
    return {
        **{one.snapshot_id: one for one in TAKEN if one.snapshot_id in KEPT_IDS},
        "analysed": sorted(KEPT_IDS),
    }


@pytest.mark.usefixtures("in_session")
def test_what_survives_reads_as_before_and_lies_in_one_file_a_day(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a store"))
    write_history(store)
    write_rounds(store)

    report = compact(installation_of(store))

    assert report.problems == ()
    (cluster,) = report.clusters
    assert (cluster.days_compacted, cluster.snapshots_dropped) == (5, 7)
    assert contents(store) == expected()
    for days_ago in (8, 5, 4, 2):
        (manifest,) = store.list(history.manifests_folder("demo", at(days_ago, 0).date()))
        files = {f["path"] for row in store.read_table(manifest).to_pylist() for f in row["files"]}
        assert len(files) == 8
    assert len(store.list(history.manifests_folder("demo", at(1, 0).date()))) == 2, (
        "yesterday is left alone"
    )
    # Whoever has read the old manifests still finds their files; a day later they are gone.
    replaced = TAKEN[4]
    assert set(history.history_files(replaced)) <= set(store.list("history"))
    late = compact(installation_of(store, LATE))
    assert late.problems == ()
    assert not set(history.history_files(replaced)) & set(store.list("history"))
    assert store.list("work") == ()
    assert not store.list(f"history/snapshots/cluster=demo/date={at(11, 0).date()}"), (
        "nothing is left of that day"
    )


@pytest.mark.usefixtures("in_session")
def test_results_become_a_round_a_day_and_loads_a_table_a_day(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_history(store)
    write_rounds(store)

    report = compact(installation_of(store))

    assert report.problems == ()
    assert report.results.days_of_loads == 4, (
        "two of the settled days are no older than what is kept whole, and the rows of two others "
        "are still there: nothing was compacted for a week"
    )
    daily = store.read_table(
        f"{history.daily_folder('partition_load', 'demo', at(2, 0).date())}/loads.parquet"
    )
    assert daily.schema.equals(PARTITION_LOAD_DAILY)
    rate = {"samples": 2, "mean_bytes_in_per_second": 35, "max_bytes_in_per_second": 40}
    rate |= {"samples_at_least": 0, "seconds": 7200.0}
    assert daily.to_pylist() == [
        {"cluster": "demo", "date": at(2, 0).date(), "topic": "pay", "partition": 0, **rate}
    ]
    results = Results(store)
    (first, second) = sorted(i for i in KEPT_IDS if i.startswith(_day(2)))
    assert results.analysed[first].round_id == "again"
    assert results.analysed[second].round_id.startswith(f"merged-{at(2, 0).date()}-")
    assert results.table("partition_load", {first, second}).num_rows == 4
    assert compact(installation_of(store)).results.days_of_loads == 0, "it is not made again"


@pytest.mark.usefixtures("in_session")
def test_of_files_that_clusters_share_each_keeps_its_own_rows_and_no_others(
    tmp_path: Path,
) -> None:
    """`demo` thins its history out, `eu` keeps all of it: of the same rounds."""
    store = Store(str(tmp_path))
    policies = {"demo": POLICY, "eu": HistoryPolicy(*[timedelta(days=30)] * 3)}
    by_cluster = {
        "demo": TAKEN,
        "eu": [snapshot(history.scheduled_at_of(o.snapshot_id), cluster="eu") for o in TAKEN],
    }
    for pair in zip(*by_cluster.values(), strict=True):
        for one in pair:
            Archive(store).write_snapshot(one)
        assert pair[0].observed_at is not None
        finished_at = pair[0].observed_at + timedelta(minutes=5)
        write_round(store, f"both-{pair[0].snapshot_id}", finished_at, pair)
    taken_ids = {one.snapshot_id for one in by_cluster["eu"]}

    for now in (NOON, LATE, LATE):
        report = compact(installation_of(store, now, policies=policies))
        assert report.problems == ()
        results = Results(store)
        for cluster, kept_ids in (("demo", KEPT_IDS), ("eu", taken_ids)):
            ids = set(Archive(store).manifests([cluster])["snapshot_id"].to_pylist())
            if now == NOON:
                assert ids == kept_ids
            assert ids <= kept_ids and (cluster == "demo" or ids == kept_ids)
            for table, each in (("broker_balance", 1), ("partition_load", 2)):
                rows = results.table(table, ids)
                assert set(rows["cluster"].to_pylist()) == {cluster}
                counts = Counter(rows["snapshot_id"].to_pylist())
                assert counts == dict.fromkeys(ids, each), (table, cluster, now)
            daily = results.daily("partition_load", cluster, at(30, 0).date(), at(0, 0).date())
            assert set(daily["cluster"].to_pylist()) == {cluster}
            keys = list(zip(daily["date"].to_pylist(), daily["partition"].to_pylist(), strict=True))
            assert len(set(keys)) == len(keys)
            assert set(daily["mean_bytes_in_per_second"].to_pylist()) == {35}
        lists = store.list("results/rounds", suffix=".json")
        merged = [name for name in lists if "merged-" in name]
        assert merged
        assert len(lists) < len(TAKEN)


class Killed(BaseException):
    """Like kill -9: nobody catches it."""


class Failing(Store):
    """Fails before the n-th change, as often as it is asked to."""

    def __init__(self, root: str, changes: int, error: BaseException) -> None:
        super().__init__(root)
        self.changes, self._error = changes, error

    def _change(self) -> None:
        self.changes -= 1
        if self.changes == 0:
            raise self._error

    def write_bytes(self, path: str, data: bytes) -> None:
        self._change()
        super().write_bytes(path, data)

    def delete(self, path: str) -> None:
        self._change()
        super().delete(path)

    def move(self, path: str, target: str) -> None:
        self._change()
        super().move(path, target)


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize(
    ("error", "step"),
    [(Killed(), 1), (StoreError("the disk is full"), 5)],
    ids=["killed", "disk full"],
)
def test_broken_off_at_any_point_nothing_is_lost_and_the_next_run_ends_it(
    tmp_path: Path, error: BaseException, step: int
) -> None:
    """The small world has three days, so that there are few points; a kill is tried at each of
    them.
    """
    before = tmp_path / "before"
    world = Store(str(before))
    few = [one for one in TAKEN if one.snapshot_id.startswith((_day(11), _day(5), _day(2)))]
    for one in few:
        Archive(world).write_snapshot(one)
        assert one.observed_at is not None
        write_round(world, one.snapshot_id, one.observed_at + timedelta(minutes=5), [one])
    wanted = {one.snapshot_id: one for one in few if one.snapshot_id in KEPT_IDS}
    whole = _ended(tmp_path / "whole", before, wanted)

    points, point = 0, 1
    while True:
        place = tmp_path / f"broken-{point}"
        shutil.copytree(before, place)
        store = Failing(str(place), point, error)
        with suppress(Killed):
            compact(installation_of(store))
        if store.changes > 0:
            break
        found = contents(Store(str(place)))
        assert (
            wanted.items()
            <= {name: one for name, one in found.items() if name != "analysed"}.items()
        ), point
        assert set(wanted) <= set(found["analysed"]), point
        ended = _ended(place, None, wanted)
        # Where only one file could not be written, the results were compacted before their
        # snapshots went.
        compared = (
            (whole, ended)
            if isinstance(error, Killed)
            else (_of_history(whole), _of_history(ended))
        )
        assert compared[0] == compared[1], point
        shutil.rmtree(place)
        points, point = points + 1, point + step
    assert points * step > 20


def _of_history(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if path.startswith(history.ROOT)]


def _ended(place: Path, copy_of: Path | None, wanted: Mapping[str, ClusterSnapshot]) -> list[str]:
    """Compacts now, and when the grace is over; answers the files that are there then."""
    if copy_of:
        shutil.copytree(copy_of, place)
    store = Store(str(place))
    assert compact(installation_of(store)).problems == ()
    found = contents(store)
    assert sorted(wanted) == found.pop("analysed")
    assert found == wanted
    assert compact(installation_of(store, LATE)).problems == ()
    assert contents(store).keys() - {"analysed"} == wanted.keys()
    return [file.path for file in store.files("")]


@pytest.mark.usefixtures("in_session")
def test_a_day_with_a_broken_file_stays_as_it_is_and_keeps_no_other_back(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_history(store)
    broken = next(path for path in history.history_files(TAKEN[-6]) if "/replicas/" in path)
    assert str(at(2, 0).date()) in broken
    (tmp_path / broken).write_bytes(b"PAR1")

    report = compact(installation_of(store))

    (problem,) = report.problems
    assert problem.startswith(f"demo: {at(2, 0).date()} stays as it is: ")
    assert broken in problem
    assert report.clusters[0].days_compacted == 4
    assert len(store.list(history.manifests_folder("demo", at(2, 0).date()))) == 2


@pytest.mark.usefixtures("in_session")
def test_a_photograph_that_is_repeated_later_counts_and_joins_the_day(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_history(store)
    compact(installation_of(store))
    again = snapshot(at(2, 3), partitions=5)
    assert again.observed_at is not None
    again = ClusterSnapshot(
        "demo-" + f"{at(2, 3):%Y%m%dT%H%M%S}Z",
        "demo",
        "id",
        again.observed_at + timedelta(1),
        again.tables,
    )
    Archive(store).write_snapshot(again)
    assert Archive(store).read_snapshot("demo", again.snapshot_id) == again

    assert compact(installation_of(store)).problems == ()

    assert len(store.list(history.manifests_folder("demo", at(2, 0).date()))) == 1
    assert Archive(store).read_snapshot("demo", again.snapshot_id) == again


def test_through_spark_submit_for_a_store_that_spark_cannot_reach(tmp_path: Path) -> None:
    store = Store("memory://compaction")
    for one in TAKEN[-6:-4]:
        Archive(store).write_snapshot(one)
    lines: list[str] = []

    report = compact(installation_of(store), lines.append)

    assert report.problems == ()
    assert lines == ["history_compaction: 5 files merged, 0 tables of a day made"]
    assert len(store.list(history.manifests_folder("demo"))) == 1
    assert {one.snapshot_id: one for one in TAKEN[-6:-4]} == {
        one.snapshot_id: Archive(store).read_snapshot("demo", one.snapshot_id)
        for one in TAKEN[-6:-4]
    }


def test_a_plan_that_cannot_be_used_is_named_before_spark_starts(
    compaction_job: ModuleType, tmp_path: Path
) -> None:
    listed = tmp_path / "plan.json"
    for text in (
        "[]",
        '{"merges": []}',
        '{"merges": [{"table": "x", "files": []}], "daily": []}',
        "{",
    ):
        listed.write_text(text)
        assert (
            compaction_job.main(
                ["--store", str(tmp_path), "--work", "work/1", "--plan", str(listed)]
            )
            == 2
        )
