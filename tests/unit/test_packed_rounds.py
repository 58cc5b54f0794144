"""Rounds on an object store, whose tables lie in a file for all clusters: no row is lost there."""

import uuid
import weakref
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.made_results import made_up_job
from benchmarks.store_requests import NOW, CountingStore, snapshot
from counterpoise import results
from counterpoise.archive import Archive
from counterpoise.errors import CounterpoiseError, StoreError
from counterpoise.installation import Installation
from counterpoise.round_index import PATH
from counterpoise.services import analyses, reports
from counterpoise.services.analyses import merge_newest_rounds
from counterpoise.settings import FileConnections, Locations, parse_settings

CLUSTERS = ("demo", "other")


class ClockedStore(CountingStore):
    """Knows the time that it is, and fails to write files whose path has `broken` in it."""

    now = NOW
    broken = "nothing"

    def write_bytes(self, path: str, data: bytes) -> None:
        if self.broken in path:
            raise StoreError(f"the store cannot write {path}: no right to")
        super().write_bytes(path, data)


@pytest.fixture
def store() -> ClockedStore:
    return ClockedStore(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def installation(store: ClockedStore, tmp_path: Path) -> Iterator[Installation]:
    settings = "".join(f"  {name}: {{connection: none}}\n" for name in CLUSTERS)
    places = {"COUNTERPOISE_STORE": store.root_uri}
    places["COUNTERPOISE_LEDGER"] = f"sqlite:///{tmp_path}/ledger.db"
    with Installation(
        Locations.from_environment(places),
        FileConnections(Path("none"), {}),
        known_clusters=parse_settings(f"clusters:\n{settings}", where="a test"),
        clock=lambda: store.now,
    ) as installation:
        installation.__dict__["archive"] = Archive(store)
        yield installation


def job_with_leader_changes_of_one(script: Path, arguments: Sequence[str], **named: Any) -> None:
    made_up_job(script, arguments, **named)
    root = Path(arguments[arguments.index("--store") + 1].removeprefix("file://"))
    for file in root.glob("results/leader_changes/*/cluster_name=other/*.parquet"):
        file.unlink()


def analyse(installation: Installation, store: ClockedStore, hours: int, first: int = 0) -> None:
    for hour in range(first, first + hours):
        store.now = NOW + timedelta(hours=hour)
        for name in CLUSTERS:
            installation.archive.write_snapshot(snapshot(name, store.now))
        assert analyses.analyse(installation, f"round {hour}") == list(CLUSTERS)


@pytest.mark.parametrize("hours", [1, 8])
def test_a_table_with_rows_of_one_cluster_alone_is_read_too(
    installation: Installation,
    store: ClockedStore,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
) -> None:
    """Also after eight rounds have become one."""
    monkeypatch.setattr(analyses, "run_job", job_with_leader_changes_of_one)
    analyse(installation, store, hours)
    merge_newest_rounds(store, store.now + timedelta(hours=1))
    found = installation.results
    assert len({one.round_id for one in found.analysed.values()}) == 1
    ids = {name: found.of_cluster(name) for name in CLUSTERS}
    assert found.table("leader_changes", ids["demo"]).num_rows == hours
    assert found.table("leader_changes", ids["other"]).num_rows == 0
    assert found.table("broker_load", ids["other"]).num_rows == 3 * hours


def test_a_report_says_the_same_after_eight_rounds_have_become_one(
    installation: Installation, store: ClockedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    analyse(installation, store, 8)
    assert len(store.list("results/rounds")) == 8

    def report() -> str:
        reports.report_balance(installation, "demo")
        return installation.archive.read_report("demo/leader-balance.json")

    before = report()
    merge_newest_rounds(store, store.now + timedelta(hours=1))
    assert len({one.round_id for one in installation.results.analysed.values()}) == 1
    assert report() == before


def test_an_index_that_cannot_be_written_fails_no_analysis(
    installation: Installation,
    store: ClockedStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """That is recorded already: a second try would find nothing to do, and report nothing."""
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    for number in range(10):
        installation.results.finish_round(f"empty-{number}", NOW, [], is_by_cluster=True)
    store.broken = PATH
    analyse(installation, store, 1)
    assert "no right to" in caplog.text


def test_reports_of_several_clusters_fetch_what_these_share_once(
    installation: Installation, store: ClockedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say what a report of one cluster says."""
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    analyse(installation, store, 3)

    def texts() -> list[str]:
        return [
            installation.archive.read_report(f"{name}/leader-balance.json") for name in CLUSTERS
        ]

    for name in CLUSTERS:
        reports.report_balance(installation, name)
    apart = texts()
    store.requests.clear()
    reported = reports.report_balances(installation, CLUSTERS)
    assert (reported.failures, reported.nothing_to_ask) == ({}, CLUSTERS)
    assert texts() == apart
    tables = ("leader_changes", "partition_load", "topic_balance", "topic_load")
    assert store.requests["job reads"] == 3 * len(tables)
    assert store.requests["footer and row groups"] == 0


def test_of_large_files_reports_read_the_rows_of_their_cluster_alone(
    installation: Installation, store: ClockedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's disk has no room for the tables of all clusters of a month."""
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    analyse(installation, store, 3)
    reports.report_balances(installation, CLUSTERS)
    small = installation.archive.read_report("other/leader-balance.json")
    monkeypatch.setattr(results, "_MAX_COPIED_BYTES", 100)
    store.requests.clear()
    reported = reports.report_balances(installation, CLUSTERS)
    assert not reported.failures
    assert installation.archive.read_report("other/leader-balance.json") == small
    tables = ("leader_changes", "partition_load", "topic_balance", "topic_load")
    assert store.requests["job reads"] == 3 * len(tables), "each one's size is looked at once"
    assert store.requests["footer and row groups"] >= 3 * len(tables)


def test_the_fleet_is_read_from_what_the_reports_of_its_clusters_left(
    installation: Installation, store: ClockedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what it says without; so where a cluster has a newer snapshot, which counts then."""
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    analyse(installation, store, 2)

    def fleet() -> str:
        reports.report_fleet(installation)
        return installation.archive.read_report("fleet.json")

    without = fleet()
    assert reports.report_balances(installation, CLUSTERS).failures == {}
    store.requests.clear()
    assert fleet() == without
    # Two rounds, what each report has left, and the document that is compared here.
    assert store.requests["read"] == 2 + len(CLUSTERS) + 1
    analyse(installation, store, 1, first=2)
    assert '"snapshot_id": "demo-20261121T170000Z"' in fleet()


def test_what_a_report_that_fails_had_read_does_not_stay_in_memory(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[weakref.ref[pa.Table]] = []

    def fail(*_: Any, **__: Any) -> None:
        table = pa.table({"topic": ["orders"]})
        tables.append(weakref.ref(table))
        try:
            raise ValueError(table.num_rows)
        except ValueError as error:
            raise StoreError("no such table") from error

    monkeypatch.setattr(reports, "cluster_analysis", fail)
    reported = reports.report_balances(installation, CLUSTERS)
    assert [*reported.failures] == [*CLUSTERS]
    assert [table() for table in tables] == [None, None]


def test_a_report_that_fails_is_told_and_the_others_are_written(
    installation: Installation, store: ClockedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    analyse(installation, store, 1)
    (path,) = store.list("views/demo/series")
    store.write_bytes(path, b"damaged")
    reported = reports.report_balances(installation, CLUSTERS)
    assert [*reported.failures] == ["demo"]
    assert reported.nothing_to_ask == ("other",)
    assert installation.archive.read_report("other/leader-balance.html")
    with pytest.raises(
        CounterpoiseError, match=r"1 report not complete: 1 problem\n  demo: "
    ) as no:
        reported.check()
    assert no.value.retryable
