"""Histories in which something is odd, through the Spark jobs into the report; each figure against
what is known of it: 1,000 bytes per second in each of two partitions, on all of three brokers.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import analysis_round
import pytest
from pyspark.sql import SparkSession

from counterpoise.installation import Installation
from counterpoise.services import analyses
from counterpoise.services.reports import report_balance
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.spark_submit import SparkJobError
from tests.spark.snapshot_files import BROKERS, NOON, SnapshotSpec, part

RATE: Final = 1_000  # bytes per second of a partition
RECORD_BYTES: Final = 10
DAY: Final = 86_400
BEFORE: Final = 10**9  # bytes of a partition at first
DISK_BYTES: Final = 10**12
HOURS: Final = 48
Report = dict[str, Any]


def snapshot(
    cluster: str, hour: int, *, records: int | None = None, leader: int = 1, **told: Any
) -> SnapshotSpec:
    """The hour's snapshot; the first partition is led by `leader`."""
    written = BEFORE // RECORD_BYTES + hour * 3600 * RATE // RECORD_BYTES
    latest = written if records is None else records
    log: dict[str, Any] = {"size": latest * RECORD_BYTES, "offsets": (0, latest)}
    partitions = [
        part("orders", 0, [1, 2, 3], leader=leader, epoch=leader, **log),
        part("orders", 1, [2, 3, 1], leader=2, **log),
    ]
    dirs = [log_dir(broker_id, 2 * latest * RECORD_BYTES) for broker_id in (1, 2, 3)]
    return SnapshotSpec(cluster, hour, partitions, log_dirs=dirs, **told)


def log_dir(broker_id: int, held_bytes: int) -> dict[str, Any]:
    sizes = {"total_bytes": DISK_BYTES, "usable_bytes": DISK_BYTES - held_bytes}
    return {"broker_id": broker_id, "log_dir": "/d", "held_bytes": held_bytes, **sizes}


def with_holes() -> Iterator[SnapshotSpec]:
    """One snapshot is missing, and then seven, in which ten times as much came in and a leader
    changed.
    """
    for hour in range(HOURS):
        if hour == 5 or 12 <= hour <= 18:
            continue
        extra = 9 * 8 * 3600 * RATE // RECORD_BYTES if hour > 18 else 0
        written = BEFORE // RECORD_BYTES + hour * 3600 * RATE // RECORD_BYTES + extra
        yield snapshot("holes", hour, records=written, leader=2 if hour > 18 else 1)


def recreated() -> Iterator[SnapshotSpec]:
    """The topic is deleted and created again before hour 10, with other leaders."""
    for hour in range(HOURS):
        if hour < 10:
            yield snapshot("recreated", hour)
            continue
        topics: dict[str, tuple[str | None, str | None]] = {"orders": ("another-id", "delete")}
        written = (hour - 10) * 3600 * RATE // RECORD_BYTES
        yield snapshot("recreated", hour, records=written, leader=3, topics=topics)


def replaced() -> Iterator[SnapshotSpec]:
    """Broker 3 is away for three hours, and comes back with an empty disk, which it fills in
    three.
    """
    away = [*BROKERS[:2], {**BROKERS[2], "is_fenced": True}]
    for hour in range(HOURS):
        made = snapshot("replaced", hour)
        own = made.log_dirs[2]
        if 10 <= hour < 13:
            yield replace(made, brokers=away, log_dirs=made.log_dirs[:2])
            continue
        copied = (hour - 13) / 3 if 13 <= hour < 16 else 1
        yield replace(
            made, log_dirs=[*made.log_dirs[:2], log_dir(3, int(copied * own["held_bytes"]))]
        )


def clock_ahead() -> Iterator[SnapshotSpec]:
    """Of three snapshots the clock is three hours ahead."""
    for hour in range(HOURS):
        clock = hour + 3 - 0.001 if 10 <= hour < 13 else hour
        yield snapshot("ahead", hour, clock=clock)


HISTORIES: Final[tuple[Callable[[], Iterator[SnapshotSpec]], ...]] = (
    with_holes,
    recreated,
    replaced,
    clock_ahead,
)


@pytest.fixture(scope="module")
def reports(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Report]]:
    def run(_: Path, arguments: Sequence[str], **__: Any) -> None:
        if status := analysis_round.main(arguments):
            raise SparkJobError("the job failed", status)

    specs = [spec for history in HISTORIES for spec in history()]
    names = sorted({spec.cluster for spec in specs})
    lines = "".join(f"  {name}: {{connection: none}}\n" for name in names)
    known = parse_settings(f"clusters:\n{lines}", where="clusters.yaml")
    environment = {
        "COUNTERPOISE_STORE": tmp_path_factory.mktemp("odd").as_uri(),
        "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db",
    }
    end = NOON + timedelta(hours=HOURS)
    with (
        pytest.MonkeyPatch.context() as patch,
        Installation(
            Locations.from_environment(environment),
            FileConnections(Path("none"), {}),
            known_clusters=known,
            clock=lambda: end,
        ) as installation,
    ):
        patch.setattr(analyses, "run_job", run)
        for spec in specs:
            installation.archive.write_snapshot(spec.as_snapshot())
        assert analyses.analyse(installation, "all of them") == names
        found = {}
        for name in names:
            report_balance(installation, name, period=timedelta(days=7))
            text = installation.archive.read_report(f"{name}/leader-balance.json")
            found[name] = json.loads(text)
        yield found


def rates(report: Report) -> tuple[int, int, int, int]:
    told = report["load"]["bytes_in"]
    return tuple(told[name] for name in ("now", "p50", "p95", "highest"))  # type: ignore[return-value]


def events(report: Report) -> list[str]:
    return [event["kind"] for event in report["events"]]


def test_what_came_in_while_no_snapshot_was_made_is_in_no_rate(reports: dict[str, Report]) -> None:
    report = reports["holes"]
    assert rates(report) == (2 * RATE,) * 4
    assert report["churn"]["leaders_changed"] == 1
    (gap,) = report["events"]
    assert (gap["kind"], gap["count"], gap["seconds"]) == ("gap", 7, 8 * 3600)
    assert report["topic_skew"]["seconds"] == (HOURS - 1 - 8) * 3600
    assert report["load"]["bytes_per_day"] == 6 * RATE * DAY


def test_a_topic_that_was_created_again_is_another_one(reports: dict[str, Report]) -> None:
    report = reports["recreated"]
    assert rates(report) == (2 * RATE,) * 4
    assert report["churn"]["leaders_changed"] == report["churn"]["epochs_unseen"] == 0
    assert report["churn"]["topics_recreated"] == 1
    (topic,) = report["load"]["growing_topics"]
    assert topic["bytes_per_day"] == 2 * RATE * DAY


def test_a_broker_that_was_replaced_grows_as_the_others_do(reports: dict[str, Report]) -> None:
    report = reports["replaced"]
    assert events(report) == ["died", "returned"]
    per_day = {disk["broker_id"]: disk["bytes_per_day"] for disk in report["load"]["disks"]}
    assert per_day == dict.fromkeys((1, 2, 3), 2 * RATE * DAY)
    assert report["load"]["bytes_per_day"] == 6 * RATE * DAY


def test_a_clock_that_jumped_makes_no_rate(reports: dict[str, Report]) -> None:
    report = reports["ahead"]
    assert rates(report) == (2 * RATE,) * 4
    (hot,) = report["load"]["hot_topics"]
    assert hot["bytes_in"]["highest"] == 2 * RATE
    busy = report["load"]["busy_partitions"]["partitions"]
    assert {one["highest_bytes_in_per_second"] for one in busy} == {RATE}
    assert report["churn"]["leaders_changed"] == 0
