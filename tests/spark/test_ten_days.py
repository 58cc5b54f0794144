"""Ten days of hourly snapshots of 36 brokers, through the jobs and into a report: each event where
it happened.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.installation import Installation
from counterpoise.model.tables import SERIES
from counterpoise.services import analyses, reports
from counterpoise.services.analyses import stored_view
from counterpoise.settings import FileConnections, Locations, parse_settings
from tests.support.ten_days import (
    BEGIN,
    BROKERS_AT_FIRST,
    ELECTED,
    FAILED,
    JOINED,
    REBALANCE_HOURS,
    REBALANCED,
    RETURNED,
    ten_days,
)

HOURS = 240


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("ten-days")
    environment = {
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        "COUNTERPOISE_SPARK_CONF": "spark.sql.shuffle.partitions=4",
    }
    known = parse_settings("clusters: {demo: {connection: none}}", where="clusters.yaml")
    locations = Locations.from_environment(environment)
    with Installation(
        locations, FileConnections(Path("none"), {}), known_clusters=known, clock=end_of_days
    ) as installation:
        for snapshot in ten_days(HOURS):
            installation.archive.write_snapshot(snapshot)
        assert analyses.analyse(installation, "all ten days", lambda line: None) == ["demo"]
        yield installation


def end_of_days() -> datetime:
    return BEGIN + timedelta(hours=HOURS)


@pytest.fixture(scope="module")
def report(installation: Installation) -> dict[str, Any]:
    reports.report_balance(installation, "demo", period=timedelta(days=11))
    document: dict[str, Any] = json.loads(
        installation.archive.read_report("demo/leader-balance.json")
    )
    return document


def hour_of(moment: str) -> float:
    return (datetime.fromisoformat(moment) - BEGIN) / timedelta(hours=1)


def test_every_snapshot_has_a_row_for_each_registered_broker(installation: Installation) -> None:
    series = installation.results.series("demo")
    assert series is not None
    assert series.schema == SERIES
    per_snapshot = Counter(series["snapshot_id"].to_pylist())
    assert sorted(per_snapshot.values()) == [BROKERS_AT_FIRST] * JOINED + [BROKERS_AT_FIRST + 1] * (
        HOURS - JOINED
    )


def test_each_event_is_told_at_its_hour(report: dict[str, Any]) -> None:
    found = [
        (event["kind"], hour_of(event["first_at"]), hour_of(event["last_at"]))
        for event in report["events"]
    ]
    kinds = {kind: (first, last) for kind, first, last in found}
    assert kinds["joined"] == (JOINED, JOINED), found
    assert kinds["reassignment"] == (REBALANCED, REBALANCED + REBALANCE_HOURS - 1), found
    assert kinds["failover"] == (FAILED, FAILED), found
    assert kinds["died"] == (FAILED, FAILED), found
    assert kinds["returned"] == (RETURNED, RETURNED), found
    assert kinds["election"][0] == ELECTED, found
    assert REBALANCED <= kinds["reached-share"][0] < REBALANCED + REBALANCE_HOURS, found


def test_what_producers_write_is_found_again(installation: Installation) -> None:
    """By the job, from offsets and sizes: the partitions' own rates, which never changed."""
    last = max(installation.results.of_cluster("demo"))
    load = installation.results.table("partition_load", {last})
    sizes = {(row["topic"], row["partition"]): row["size_bytes"] for row in load.to_pylist()}
    for row in load.to_pylist():
        expected = sizes[row["topic"], row["partition"]] / (HOURS * 3600)
        assert row["bytes_in_per_second"] == pytest.approx(expected, rel=0.001)


def test_a_second_round_finds_nothing_to_do(installation: Installation) -> None:
    assert analyses.analyse(installation, "again", lambda line: None) == []


def test_the_view_made_anew_is_the_same(installation: Installation) -> None:
    before = installation.results.series("demo")
    installation.archive.store.delete_folder("views/demo/series")
    assert stored_view(installation, "demo").equals(before)
