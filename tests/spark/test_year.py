"""A year of a cluster, told twice: before and after its history was thinned out to one a day.

What happened is made up here, and so known: each figure is compared with it too.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.installation import Installation
from counterpoise.model.tables import RESULT_TABLES, SCHEMA_VERSION, SNAPSHOT_TABLES, SNAPSHOTS
from counterpoise.services import history_compaction, reports
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.spark_submit import SparkJobError
from counterpoise.storage import Store

pytestmark = pytest.mark.nightly
MB = 1_000_000
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
EVERY = timedelta(hours=6)
DAYS = 365
BEGIN = TODAY - timedelta(days=DAYS)
BROKERS = (1, 2, 3)
TOPICS = ("clicks", "orders")
UNKNOWN_EVERY = {"clicks": 30, "orders": 3}  # so many snapshots: the rate of one partition
GAP = (600, 640)  # snapshots that nobody made: ten days
PERIOD = timedelta(days=DAYS)
RECENT = timedelta(days=100)
EXACT_TO = 0.01  # percentiles of topics


@dataclass(frozen=True)
class Snapshot:
    number: int
    previous: "Snapshot | None"

    @property
    def at(self) -> datetime:
        return BEGIN + self.number * EVERY

    @property
    def id(self) -> str:
        return history.snapshot_id_for("demo", self.at)

    @property
    def rate(self) -> int:
        """Bytes per second that each broker takes in: ten times as many in each day's first part,
        which is the one that stays.
        """
        wave = 1 + 0.2 * np.sin(self.number)
        return int(wave * (200 * MB if self.at.hour == 0 else 20 * MB) / len(BROKERS))

    def partition_rate(self, partition: int) -> int | None:
        """Bytes per second; not known of the first snapshot, and over the gap."""
        is_known = self.previous is not None and not self.is_after_gap
        return self.rate // (partition + 1) if is_known else None

    def how(self, partition: int) -> str:
        if self.partition_rate(partition) is None:
            return "gap" if self.previous else "first"
        return "at_least" if partition and self.number % 9 == 0 else "records"

    @property
    def excess(self) -> int:
        """By how much max - min of each topic is too large: on average more at night."""
        return self.number % 3 if self.at.hour == 0 else 0

    @property
    def failovers(self) -> int:
        return 3 if self.number % 16 == 5 else 0

    @property
    def seconds(self) -> float | None:
        return (self.at - self.previous.at).total_seconds() if self.previous else None

    @property
    def is_after_gap(self) -> bool:
        return self.number == GAP[1]


def snapshots() -> list[Snapshot]:
    made: list[Snapshot] = []
    for number in range(DAYS * 4):
        if not GAP[0] <= number < GAP[1]:
            made.append(Snapshot(number, made[-1] if made else None))
    return made


ALL = snapshots()
COUNTED = [one for one in ALL if one.previous and not one.is_after_gap]  # whose rates count


def rows(one: Snapshot) -> dict[str, list[dict[str, Any]]]:
    head = {"cluster": "demo", "snapshot_id": one.id, "observed_at": one.at}
    rate = one.rate if one.previous else None
    changes: dict[str, Any] = {
        field.name: 0 for field in RESULT_TABLES["snapshot_changes"] if not field.nullable
    }
    changes |= {"cluster_id": "id", "is_rebuilt": False, "seconds": one.seconds, "partitions": 30}
    changes |= {"previous_snapshot_id": one.previous.id if one.previous else None}
    changes |= {"failovers": one.failovers, "leaders_changed": one.failovers}
    counts = dict.fromkeys(("leaders", "preferred_leaders", "replicas"), 10)
    return {
        "broker_balance": [
            head | counts | {"broker_id": b, "is_fenced": False, "leaders_not_preferred": 0}
            | {"bytes": 1000 + one.number}
            for b in BROKERS
        ],
        "broker_load": [
            head | {"broker_id": b, "leader_bytes_in_per_second": rate}
            | {"follower_bytes_in_per_second": rate, "rates_known": 10, "rates_unknown": 0}
            for b in BROKERS
        ],
        "snapshot_changes": [changes | head],
        "topic_load": [
            head | {"topic": topic, "partition_count": 15, "size_bytes": 5000}
            | {"bytes_in_per_second": rate and rate * (place + 1), "hottest_partition": 0}
            | {"hottest_bytes_in_per_second": rate}
            | {"growth_bytes_per_second": None if rate is None else one.number % 7 + place}
            | {"rates_unknown": int(one.number % UNKNOWN_EVERY[topic] == 2)}
            for place, topic in enumerate(TOPICS)
        ],
        "topic_balance": [
            head | {"topic": topic, "partition_count": 15, "size_bytes": 5000}
            | {"most_leaders": 5 + one.excess, "fewest_leaders": 5}
            for topic in TOPICS
        ],
        "partition_load": [
            head | {"topic": topic, "partition": p, "size_bytes": 5000, "seconds": one.seconds}
            | {"bytes_in_per_second": one.partition_rate(p), "how": one.how(p)}
            for topic in TOPICS
            for p in (0, 1)
        ],
        "leader_changes": [
            head | {"topic": "orders", "partition": p, "leader_epochs": 10, "kind": "returned"}
            for p in (0, 1, 2)
            if one.number % (50 * (p + 1)) == 7
        ],
        "log_dir_load": [
            head | {"broker_id": b, "log_dir": "/d", "held_bytes": 1000 * one.number}
            | {"total_bytes": 10**9, "usable_bytes": 10**9 - 1000 * one.number}
            for b in BROKERS
        ],
    }  # fmt: skip


def write_day(installation: Installation, day: Sequence[Snapshot]) -> None:
    """A day's manifest over files without rows, and the round that analysed it."""
    store = installation.archive.store
    date = day[0].at.date()
    files = []
    for table, schema in SNAPSHOT_TABLES.items():
        path = history.compacted_path(table, "demo", date, "made")
        store.write_table(path, schema.append(pa.field("snapshot_id", pa.string())).empty_table())
        files.append({"table": table, "path": path, "row_count": 0})
    manifest = [
        {"snapshot_id": one.id, "cluster": "demo", "cluster_id": "id", "observed_at": one.at}
        | {"schema_version": SCHEMA_VERSION, "files": files}
        for one in day
    ]
    path = history.compacted_path(history.MANIFESTS, "demo", date, "made")
    store.write_table(path, pa.Table.from_pylist(manifest, schema=SNAPSHOTS))
    made = [rows(one) for one in day]
    for table in made[0]:
        found = pa.Table.from_pylist(
            [row for of_one in made for row in of_one[table]], schema=RESULT_TABLES[table]
        )
        store.write_table(f"results/{table}/round={date}/part.parquet", found)
    analysed = [
        {"snapshot_id": one.id, "cluster": "demo"}
        | {"previous_snapshot_id": one.previous.id if one.previous else None}
        for one in day
    ]
    installation.results.finish_round(str(date), day[-1].at + timedelta(minutes=5), analysed)


@pytest.fixture(scope="module")
def installation(
    spark: SparkSession, compaction_job: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    def run(_: Path, arguments: Sequence[str], **__: Any) -> None:
        if status := compaction_job.main(arguments):
            raise SparkJobError("the job failed", status)

    store = Store(str(tmp_path_factory.mktemp("year")))
    locations = Locations.from_environment(
        {
            "COUNTERPOISE_STORE": store.root_uri,
            "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db",
        }
    )
    known = parse_settings("clusters: {demo: {connection: none}}", where="clusters.yaml")
    connections = FileConnections(Path("none"), {})
    with (
        pytest.MonkeyPatch.context() as patch,
        Installation(
            locations, connections, known_clusters=known, clock=lambda: TODAY
        ) as installation,
    ):
        patch.setattr(history_compaction, "run_job", run)
        installation.__dict__["archive"] = Archive(store)
        days: dict[Any, list[Snapshot]] = {}
        for one in ALL:
            days.setdefault(one.at.date(), []).append(one)
        for day in days.values():
            write_day(installation, day)
        yield installation


@dataclass(frozen=True)
class Told:
    before: dict[str, Any]
    after: dict[str, Any]
    # Of a shorter period, with the one before beside it.
    recent_before: dict[str, Any]
    recent_after: dict[str, Any]


@pytest.fixture(scope="module")
def told(installation: Installation) -> Told:
    recent = report(installation, period=RECENT)
    before = report(installation)
    compacted = history_compaction.compact(installation)
    assert compacted.problems == ()
    assert compacted.clusters[0].snapshots_dropped > 700
    return Told(before, report(installation), recent, report(installation, period=RECENT))


def report(installation: Installation, **period: Any) -> dict[str, Any]:
    reports.report_balance(installation, "demo", **({"period": PERIOD} | period))
    document = json.loads(installation.archive.read_report("demo/leader-balance.json"))
    return dict(document)


def without_rounding(document: dict[str, Any]) -> dict[str, Any]:
    """What is told, without percentiles of topics, and means without the last digits."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    if skew := made.get("topic_skew"):
        skew["seconds"] = round(skew["seconds"])
        for topic in skew["topics"]:
            topic |= {name: round(topic[name], 9) for name in ("mean_excess", "uneven_share")}
    load = made["load"]
    for topic in load["hot_topics"]:
        topic["bytes_in"] = {name: topic["bytes_in"][name] for name in ("now", "highest")}
    for topic in load.get("growing_topics", ()):
        topic["bytes_per_day"] = round(topic["bytes_per_day"], -1)
    for busy in load["busy_partitions"]["partitions"]:
        busy["mean_bytes_in_per_second"] = round(busy["mean_bytes_in_per_second"], -2)
        busy["share"] = round(busy["share"], 6)
    return made


def differences(before: Any, after: Any) -> list[str]:
    """Return what is not the same in two reports, each with where it stands."""
    places = [dict(_places("", without_rounding(told))) for told in (before, after)]
    return [
        f"{place}: {places[0].get(place)!r}, then {places[1].get(place)!r}"
        for place in sorted(set.union(*map(set, places)))
        if places[0].get(place) != places[1].get(place)
    ]


def _places(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(f"{path}/{name}", part)
    else:
        yield path, value


def test_every_figure_but_percentiles_of_topics_is_the_same_after_a_compaction(told: Told) -> None:
    assert told.before["before"] is None, "there is no year before"
    assert not differences(told.before, told.after)
    assert told.recent_before["before"]["churn"]["failovers"] > 0
    assert not differences(told.recent_before, told.recent_after)


def test_percentiles_of_topics_are_the_same_to_one_percent(told: Told) -> None:
    pairs = zip(told.before["load"]["hot_topics"], told.after["load"]["hot_topics"], strict=True)
    for before, after in pairs:
        for name in ("p50", "p95"):
            found = after["bytes_in"][name]
            assert found == pytest.approx(before["bytes_in"][name], rel=EXACT_TO), name


def test_they_are_what_happened(told: Told) -> None:
    load, rates = told.after["load"], [one.rate for one in COUNTED]
    seconds = [int(one.seconds or 0) for one in COUNTED]

    def percentile(part: int) -> float:
        return float(
            np.percentile(np.repeat(rates, np.array(seconds) // 60), part, method="inverted_cdf")
        )

    assert load["bytes_in"]["p50"] == pytest.approx(len(BROKERS) * percentile(50), rel=1e-6)
    assert load["bytes_in"]["p95"] == pytest.approx(len(BROKERS) * percentile(95), rel=1e-6)
    assert load["bytes_in"]["p50"] < 30 * MB
    hot = {topic["topic"]: topic["bytes_in"] for topic in load["hot_topics"]}
    for place, topic in enumerate(TOPICS):
        for name, part in (("p50", 50), ("p95", 95)):
            expected = (place + 1) * percentile(part)
            assert hot[topic][name] == pytest.approx(expected, rel=EXACT_TO)
        assert hot[topic]["highest"] == (place + 1) * max(rates)
    for document in (told.before, told.after):
        for topic in document["load"]["hot_topics"]:
            is_often = UNKNOWN_EVERY[topic["topic"]] < 20  # more than a twentieth of the year
            assert topic["bytes_in"]["is_period_at_least"] == is_often
    assert told.after["churn"]["failovers"] == sum(one.failovers for one in ALL)
    (gap,) = [event for event in told.after["events"] if event["kind"] == "gap"]
    assert gap["count"] == GAP[1] - GAP[0]


def test_what_every_snapshot_of_the_period_counts_for_is_what_happened(told: Told) -> None:
    seconds = np.array([one.seconds for one in COUNTED])
    excess = np.array([one.excess for one in COUNTED])
    skew = told.after["topic_skew"]
    assert {topic["topic"] for topic in skew["topics"]} == set(TOPICS)
    for topic in skew["topics"]:
        mean = float((excess * seconds).sum() / seconds.sum())
        assert topic["mean_excess"] == pytest.approx(mean, rel=1e-9)
        uneven = float(seconds[excess > 0].sum() / seconds.sum())
        assert topic["uneven_share"] == pytest.approx(uneven, rel=1e-9)
        assert topic["max_excess"] == 2
    assert skew["seconds"] == pytest.approx(float(seconds.sum()))
    busy = told.after["load"]["busy_partitions"]
    assert busy["is_at_least"]
    assert len(busy["partitions"]) == 4
    for one in busy["partitions"]:
        number = one["partition"]
        rates = np.array([each.partition_rate(number) for each in COUNTED], dtype=float)
        mean = float((rates * seconds).sum() / seconds.sum())
        assert one["mean_bytes_in_per_second"] == pytest.approx(mean, abs=2)
        assert one["highest_bytes_in_per_second"] == int(rates.max())
        assert one["is_at_least"] == (number == 1)
    elections = [10 * sum(one.number % (50 * (p + 1)) == 7 for one in ALL) for p in (0, 1, 2)]
    elections_shown = {
        one["partition"]: one["elections"] for one in told.after["flapping"]["partitions"]
    }
    # More than a partition may have in a month, as often as a year has months.
    assert elections_shown == {p: n for p, n in enumerate(elections) if n > 10 * DAYS / 30}
    assert len(elections_shown) == 2


def test_growth_is_that_of_two_weeks_in_whole_days(told: Told) -> None:
    begin = (ALL[-1].at - timedelta(days=14)).replace(hour=0)
    lately = [one for one in COUNTED if one.at >= begin]
    growing = {
        topic["topic"]: topic["bytes_per_day"] for topic in told.after["load"]["growing_topics"]
    }
    for place, topic in enumerate(TOPICS):
        mean = np.mean([one.number % 7 + place for one in lately])
        assert growing[topic] == pytest.approx(mean * 86_400, abs=1)


def test_a_period_that_ended_long_ago_has_all_figures_of_its_end(
    installation: Installation, told: Told
) -> None:
    """Its last snapshots were thinned out: the page says which topics it shows."""
    assert told.after
    until = TODAY - timedelta(days=200)
    newest = installation.archive.read_report("demo/leader-balance.html")
    period = timedelta(days=100)
    written = reports.report_balance(installation, "demo", period=period, until=until)
    name = written.name
    assert name == f"demo/leader-balance-{until - EVERY:%Y-%m-%d}"
    assert installation.archive.read_report("demo/leader-balance.html") == newest
    document = json.loads(installation.archive.read_report(f"{name}.json"))
    end = next(one for one in reversed(ALL) if one.at < until)
    within = [one for one in ALL if until - timedelta(days=100) <= one.at < until]
    assert document["churn"]["failovers"] == sum(one.failovers for one in within)
    assert document["series"][-1]["snapshot_id"] == end.id
    assert document["topic_count"] == len(TOPICS)
    assert document["topics_at"] == end.at.replace(hour=0).isoformat()
    page = installation.archive.read_report(f"{name}.html")
    assert "later snapshots of the period were thinned out" in page
