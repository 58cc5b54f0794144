"""What is told of a period and the one before, of a cluster whose snapshots have long gaps."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.made_results import results_table
from counterpoise import history, pipeline
from counterpoise.installation import Installation
from counterpoise.model.balance import LeaderBalance
from counterpoise.model.result_tables import RESULT_TABLES
from counterpoise.pipeline.cluster_analysis import (
    ClusterAnalysis,
    cluster_analysis,
    with_both_periods,
)
from counterpoise.reporting import leader_balance_markdown
from counterpoise.settings import FileConnections, Locations, parse_settings

NOW = datetime(2026, 11, 21, 15, tzinfo=UTC)


def balance_of(times: Sequence[datetime], period: timedelta) -> LeaderBalance:
    return analysed_of(times, period).balance


def analysed_of(
    times: Sequence[datetime],
    period: timedelta,
    topic_rate: Callable[[datetime], int] | None = None,
    results_since: datetime | None = None,
) -> ClusterAnalysis:
    """`topic_rate` is that of the topic in a snapshot; of those before `results_since` only the
    views are left.
    """
    locations = Locations.from_environment(
        {
            "COUNTERPOISE_STORE": f"memory://{uuid.uuid4().hex}",
            "COUNTERPOISE_LEDGER": "sqlite://",
        }
    )
    settings = parse_settings("clusters:\n  demo: {connection: none}\n", where="the test")
    connections = FileConnections(Path("none"), {})
    with Installation(
        locations, connections, known_clusters=settings, clock=lambda: NOW
    ) as installation:
        for table in RESULT_TABLES:
            path = f"results/{table}/round=r/cluster_name=demo/all.parquet"
            rows = results_table(table, ["demo"], times)
            if table == "topic_load" and topic_rate is not None:
                column = rows.schema.get_field_index("bytes_in_per_second")
                rates = pa.array(map(topic_rate, times), pa.int64())
                rows = rows.set_column(column, rows.schema.field(column), rates)
            installation.archive.store.write_table(path, rows)
        ids = [history.snapshot_id_for("demo", at) for at in times]
        known = [{"snapshot_id": i, "cluster": "demo", "previous_snapshot_id": None} for i in ids]
        installation.results.finish_round("r", NOW, known, is_by_cluster=True)
        pipeline.rebuild_views(installation, "demo")
        if results_since is not None:
            kept = [row for row, at in zip(known, times, strict=True) if at >= results_since]
            installation.results.finish_round("r", NOW, kept, is_by_cluster=True)
        return with_both_periods(cluster_analysis(installation, "demo", period=period))


def test_the_period_before_is_told_where_only_a_snapshot_of_months_ago_was_before_it() -> None:
    times = [NOW - timedelta(days=days) for days in (110, 10, 0)]
    before = balance_of(times, timedelta(days=7)).before
    assert before is not None
    assert before.latest.observed_at == times[1]


@pytest.mark.parametrize("hours", [1, 14])
def test_the_period_before_may_have_snapshots_only_of_the_day_in_which_the_period_begins(
    hours: int,
) -> None:
    since = NOW - timedelta(days=30)
    times = [since - timedelta(days=50), since - timedelta(hours=hours), since, NOW]
    before = balance_of(times, timedelta(days=30)).before
    assert before is not None
    assert before.latest.observed_at == times[1]


@pytest.mark.parametrize("end", [15, 9], ids=["from midnight after", "from midnight before"])
def test_topics_of_a_day_stand_beside_those_of_the_day_before(end: int) -> None:
    """24 hours until 15:00 begin with the midnight in them, those until 9:00 with the one before
    them; the 24 hours before end there, and no hour is in both.
    """
    until = NOW.replace(hour=end)
    times = [until - timedelta(hours=hours) for hours in range(5 * 24, -1, -1)]
    first_day = (until - timedelta(days=1) + timedelta(hours=12)).date()

    def rate(at: datetime) -> int:
        days_before = (first_day - at.date()).days
        if days_before <= 0:
            return 3000
        return 2000 if days_before == 1 else 9000

    load = analysed_of(times, timedelta(days=1), rate).load
    assert load is not None and load.before is not None
    (hot,), (hot_before,) = load.hot_topics, load.before.hot_topics
    assert (hot.bytes_in.p50, hot.bytes_in.highest) == (3000, 3000)
    assert (hot_before.bytes_in.p50, hot_before.bytes_in.highest) == (2000, 2000)


def test_nothing_is_said_of_leaders_that_flap_in_a_period_whose_results_are_gone() -> None:
    """Also where the cluster's series goes on: then 0 elections would be a guess."""
    times = [NOW - timedelta(hours=hours) for hours in range(5 * 24, -1, -1)]
    analysed = analysed_of(times, timedelta(days=2), results_since=NOW - timedelta(hours=39))
    balance = analysed.balance
    assert balance.flapping is not None and balance.flapping.partitions
    assert balance.before is not None
    assert balance.before.flapping is None
    section = leader_balance_markdown(balance).split("# Leaders that flap\n")[1].split("\n#")[0]
    assert "from 0" not in section
    assert section.count("before: not known") == 2, "of the partition, and of how many there are"


def test_what_a_report_shows_is_known_of_the_period_before_too() -> None:
    """Topics that grow, partitions that flap, disks, brokers: each row has its figure there."""
    times = [NOW - timedelta(hours=hours) for hours in range(5 * 24, -1, -1)]
    analysed = analysed_of(times, timedelta(days=2))
    balance, load = analysed.balance, analysed.load
    assert load is not None and load.before is not None
    assert balance.before is not None
    assert [one.topic for one in load.before.growing_topics] == ["orders"]
    assert len(load.before.disks) == len(load.disks) > 0
    assert balance.flapping is not None and balance.before.flapping is not None
    (flaps,) = balance.flapping.partitions
    (flapped,) = balance.before.flapping.partitions
    assert (flaps.topic, flaps.partition) == (flapped.topic, flapped.partition)
    assert flapped.elections > 2 * 24
    text = leader_balance_markdown(balance, load=load)
    for heading in (
        *("Brokers", "Leaders that flap", "Over the period", "Bytes in per broker"),
        *("Bytes in per rack", "Hottest topics", "Fastest growing topics", "Disks"),
    ):
        section = text.split(f"# {heading}\n")[1].split("\n#")[0]
        assert "as before" in section or " from " in section, heading
