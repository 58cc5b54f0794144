"""What is told of a period and the one before, of a cluster whose snapshots have long gaps."""

import tempfile
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.made_results import results_table
from counterpoise import history
from counterpoise.installation import Installation
from counterpoise.model.balance import LeaderBalance
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.services.figures import (
    ClusterAnalysis,
    cluster_analysis,
    with_both_periods,
)
from counterpoise.settings import FileConnections, Locations, parse_settings

NOW = datetime(2026, 11, 21, 15, tzinfo=UTC)


def balance_of(times: Sequence[datetime], period: timedelta) -> LeaderBalance:
    return analysed_of(times, period).balance


def analysed_of(
    times: Sequence[datetime],
    period: timedelta,
    topic_rate: Callable[[datetime], int] | None = None,
) -> ClusterAnalysis:
    """`topic_rate` is that of the topic in a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        locations = Locations.from_environment(
            {
                "COUNTERPOISE_STORE": f"memory://{uuid.uuid4().hex}",
                "COUNTERPOISE_LEDGER": f"sqlite:///{folder}/ledger.db",
            }
        )
        return _analysed_at(locations, times, period, topic_rate)


def _analysed_at(
    locations: Locations,
    times: Sequence[datetime],
    period: timedelta,
    topic_rate: Callable[[datetime], int] | None,
) -> ClusterAnalysis:
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
def test_topics_of_a_day_are_those_of_its_whole_days(end: int) -> None:
    """24 hours until 15:00 begin with the midnight in them, those until 9:00 with the one before
    them.
    """
    until = NOW.replace(hour=end)
    times = [until - timedelta(hours=hours) for hours in range(5 * 24, -1, -1)]
    first_day = (until - timedelta(days=1) + timedelta(hours=12)).date()

    def rate(at: datetime) -> int:
        return 3000 if at.date() >= first_day else 9000

    load = analysed_of(times, timedelta(days=1), rate).load
    assert load is not None
    (hot,) = load.hot_topics
    assert (hot.bytes_in.p50, hot.bytes_in.highest) == (3000, 3000)


def test_the_period_before_has_what_tiles_show() -> None:
    """Neither topics nor partitions."""
    times = [NOW - timedelta(hours=hours) for hours in range(5 * 24, -1, -1)]
    analysed = analysed_of(times, timedelta(days=2))
    balance, load = analysed.balance.before, analysed.load
    assert balance is not None and load is not None and load.before is not None
    begin = NOW - timedelta(days=4)
    assert (balance.series[0].observed_at, len(balance.series)) == (begin, 48)
    assert (balance.topics, balance.flapping, balance.topic_skew) == ((), None, None)
    before = load.before
    assert (before.since, before.snapshot_count) == (begin, 48)
    assert before.bytes_in.p95 and before.leaders
    assert len(before.disks) == len(load.disks) > 0
    assert (before.hot_topics, before.growing_topics, before.busy_partitions) == ((), (), None)
