"""From snapshots in a store to the series, with what breaks off in the middle."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import analysis_round
import pytest
from pyspark.sql import SparkSession

from benchmarks.store_requests import CountingStore
from counterpoise.archive import Archive
from counterpoise.errors import StoreError
from counterpoise.installation import Installation
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.services import analyses
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.spark_submit import SparkJobError
from counterpoise.storage import Store, working_copy
from tests.spark.snapshot_files import SnapshotSpec, part
from tests.support.stores import ReadingStore

CLUSTERS = ("demo", "other")
PARTITIONS = [part("orders", 0, [1, 2], leader=1, size=9, offsets=(0, 1))]
SPECS = [SnapshotSpec(cluster, hour, PARTITIONS) for hour in range(4) for cluster in CLUSTERS]


class Failing(ReadingStore):
    """Fails to write files whose path has `broken` in it, as long as that is set."""

    broken = ""

    def write_bytes(self, path: str, data: bytes) -> None:
        if self.broken and self.broken in path:
            raise StoreError(f"the store cannot write {path}: no space left")
        super().write_bytes(path, data)


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(script: Path, arguments: Sequence[str], **_: Any) -> None:
        assert (script.name, bool(spark.version)) == ("analysis_round.py", True)
        if status := analysis_round.main(arguments):
            raise SparkJobError("the job failed", status)

    monkeypatch.setattr(analyses, "run_job", run)


@pytest.fixture
def store(tmp_path: Path) -> Failing:
    store = Failing(str(tmp_path))
    for spec in SPECS[:6]:
        Archive(store).write_snapshot(spec.as_snapshot())
    return store


def over(store: Store) -> Installation:
    locations = Locations.from_environment(
        {"COUNTERPOISE_STORE": store.root_uri, "COUNTERPOISE_LEDGER": "sqlite://"}
    )
    clusters = "".join(f"  {name}: {{connection: none}}\n" for name in CLUSTERS)
    known = parse_settings(f"clusters:\n{clusters}", where="clusters.yaml")
    installation = Installation(
        locations,
        FileConnections(Path("none"), {}),
        known_clusters=known,
        clock=lambda: datetime(2026, 2, 1, tzinfo=UTC),
    )
    installation.__dict__["archive"] = Archive(store)
    return installation


@pytest.fixture
def installation(store: Failing) -> Iterator[Installation]:
    with over(store) as installation:
        yield installation


def snapshots_of(installation: Installation, cluster: str) -> list[str]:
    series = installation.results.series(cluster)
    return [] if series is None else series["snapshot_id"].unique().to_pylist()


def ids(cluster: str, count: int) -> list[str]:
    return [spec.snapshot_id for spec in SPECS if spec.cluster == cluster][:count]


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize("broken", ["views/other/", "results/rounds/"])
def test_one_store_error_at_the_end_of_a_round_loses_no_snapshot(
    installation: Installation, store: Failing, broken: str
) -> None:
    store.broken = broken
    with pytest.raises(StoreError, match="no space left"):
        analyses.analyse(installation, "scheduled 1")
    store.broken = ""

    assert analyses.analyse(installation, "scheduled 1") == ["demo", "other"]

    assert {name: snapshots_of(installation, name) for name in CLUSTERS} == {
        name: ids(name, 3) for name in CLUSTERS
    }
    assert analyses.analyse(installation, "scheduled 2") == []


@pytest.mark.usefixtures("in_session")
def test_an_analysis_that_runs_while_another_one_does_takes_no_row_from_it(
    installation: Installation, store: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins with a further snapshot, and ends after the first one has read what it
    needs, before it writes.
    """
    assert analyses.analyse(installation, "first") == ["demo", "other"]
    first, second = (spec.as_snapshot() for spec in SPECS[6:])
    installation.archive.write_snapshot(first)
    finish_round = analyses._finish_round

    def other_one_first(*arguments: Any) -> list[str]:
        monkeypatch.setattr(analyses, "_finish_round", finish_round)
        installation.archive.write_snapshot(second)
        with over(store) as other:
            analyses.analyse(other, "second")
        return finish_round(*arguments)

    monkeypatch.setattr(analyses, "_finish_round", other_one_first)
    assert analyses.analyse(installation, "second") == ["demo"]
    for name in CLUSTERS:
        assert snapshots_of(installation, name) == ids(name, 4)
        assert installation.results.table("broker_balance", ids(name, 4)).num_rows == 12


@pytest.mark.usefixtures("in_session")
def test_a_backlog_is_worked_off_in_bounded_rounds(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working_copy(installation.archive.store, "local[2]") as copy:
        views = installation.results.stored_views()
        rows = analyses._next_readable_round(installation, copy, views, print).round.row_count
    monkeypatch.setattr(analyses, "_MAX_ROWS_OF_ROUND", rows * 2 // 3)
    assert analyses.analyse(installation, "backlog") == ["demo", "other"]
    assert len({result.round_id for result in installation.results.analysed.values()}) == 2
    for name in CLUSTERS:
        assert snapshots_of(installation, name) == ids(name, 3)


@pytest.mark.usefixtures("in_session")
def test_of_the_results_of_a_round_those_of_one_cluster_are_read(
    installation: Installation, store: Failing
) -> None:
    analyses.analyse(installation, "both")
    (round_id,) = {result.round_id for result in installation.results.analysed.values()}
    results = installation.results
    assert results.analysed
    store.read_paths.clear()
    assert results.table("topic_load", ids("demo", 3)).num_rows == 3
    folder = f"results/topic_load/round={round_id}/cluster_name=demo"
    assert store.read_paths == list(store.list(folder, suffix=".parquet"))


@pytest.mark.usefixtures("in_session")
def test_a_round_reads_each_file_once_and_writes_a_table_of_all_clusters_at_once() -> None:
    """On an object store, where each request costs; each cluster still finds its own rows."""
    store = CountingStore(f"memory://{uuid.uuid4().hex}")
    for spec in SPECS[:6]:
        Archive(store).write_snapshot(spec.as_snapshot())
    with over(store) as installation:
        analyses.analyse(installation, "first")
        for spec in SPECS[6:]:
            installation.archive.write_snapshot(spec.as_snapshot())
        store.requests.clear()
        assert analyses.analyse(installation, "second") == list(CLUSTERS)

        files_of_snapshot = 5  # what it is compared with comes with the fleet's file
        assert store.requests["job reads"] == files_of_snapshot * len(CLUSTERS)
        assert store.requests["job writes"] <= len(RESULT_TABLES)
        assert store.requests["footer"] == 0
        for name in CLUSTERS:
            assert snapshots_of(installation, name) == ids(name, 4)
            balance = installation.results.table("broker_balance", ids(name, 4))
            assert set(balance["snapshot_id"].to_pylist()) == set(ids(name, 4))
            assert balance.num_rows == 12


@pytest.mark.usefixtures("in_session")
def test_a_snapshot_on_an_object_store_that_cannot_be_read_is_named_as_it_lies_there() -> None:
    store = CountingStore(f"memory://{uuid.uuid4().hex}")
    for spec in SPECS[:4]:
        Archive(store).write_snapshot(spec.as_snapshot())
    (path,) = (p for p in store.list("history/partitions/cluster=demo") if ids("demo", 2)[1] in p)
    store.write_bytes(path, b"PAR1 damaged PAR1")
    with over(store) as installation:
        analyses.analyse(installation, "damaged")
        assert snapshots_of(installation, "demo") == ids("demo", 1)
        (left_out,) = installation.results.left_out("demo")
    assert store.uri(path) in left_out.reason


@pytest.mark.usefixtures("in_session")
def test_a_schedule_of_one_snapshot_a_day_has_rates_though_each_is_a_little_late(
    tmp_path: Path,
) -> None:
    """86,405 s apart; ten days without a snapshot are a gap all the same."""
    days = [day * 86_405 / 3600 for day in (0, 1, 2, 3, 4, 14)]
    store = Store(str(tmp_path))
    for number, hour in enumerate(days):
        log = [part("orders", 0, [1, 2], leader=1, size=86_405_000 * number, offsets=(0, number))]
        Archive(store).write_snapshot(SnapshotSpec("demo", hour, log).as_snapshot())
    with over(store) as installation:
        analyses.analyse(installation, "days")
        results = installation.results
        load = results.table("partition_load", results.of_cluster("demo")).sort_by("observed_at")
    assert load["how"].to_pylist() == ["first", *["growth"] * 4, "gap"]
    assert load["bytes_in_per_second"].to_pylist() == [None, *[1000] * 4, None]
