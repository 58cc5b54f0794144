"""The figures of a report that need every snapshot of its period: partitions that flap, topics that
were led unevenly, partitions that took in most.

    balance, load = with_period_figures(results, series, balance, load, since, until, length)

Days that are over have them in the tables of a day, whatever became of their snapshots; the others
in the results. So a period has whole days (UTC) here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise import analysis, history
from counterpoise.model.balance import LeaderBalance
from counterpoise.model.load import ClusterLoad
from counterpoise.results import Results


def with_period_figures(
    results: Results,
    series: pa.Table,
    balance: LeaderBalance,
    load: ClusterLoad | None,
    since: datetime,
    until: datetime | None,
    length: timedelta,
) -> tuple[LeaderBalance, ClusterLoad | None]:
    """Add them to what is known of a cluster from since <= observed_at < until. `length` is what is
    asked for: whole days may be some hours more or less.
    """
    days = _Days(results, balance.cluster, series, since, until)
    window = days.series_around
    leader_changes = days.tables("leader_changes")
    elections = analysis.elections(leader_changes)
    flapping = analysis.flapping(elections, length, snapshot_count=leader_changes.snapshot_count)
    balance = replace(
        balance,
        flapping=flapping,
        topic_skew=analysis.topic_skew(
            days.tables("topic_balance"),
            analysis.seconds_of_rates(window, balance.cluster),
            analysis.live_broker_counts(window, balance.cluster),
        ),
    )
    if load is None:
        return balance, None
    busy = analysis.busy_partitions(days.tables("partition_load"))
    return balance, replace(load, busy_partitions=busy)


@dataclass(frozen=True)
class _Days:
    """The whole days of a period of one cluster."""

    results: Results
    cluster: str
    series: pa.Table
    since: datetime
    until: datetime | None

    @cached_property
    def period(self) -> analysis.PeriodDays:
        return analysis.days_of_period(self.series, self.cluster, self.since, self.until)

    @property
    def series_around(self) -> pa.Table:
        """Return the series of these days, and of those just before."""
        begin = pa.scalar(
            self.since - analysis.AROUND, self.series.schema.field("observed_at").type
        )
        return self.series.filter(pc.greater_equal(self.series["observed_at"], begin))

    def tables(self, name: str) -> "_Tables":
        return _Tables(self, name)


class _Tables:
    """The tables of days of a period, and the results of all its other days, one after the other;
    `snapshot_count` is of the snapshots that those tell of that were read.
    """

    def __init__(self, days: _Days, name: str) -> None:
        self._days = days
        self._name = name
        self.snapshot_count = 0

    def __iter__(self) -> Iterator[pa.Table]:
        period, cluster = self._days.period, self._days.cluster
        results = self._days.results
        day_of = {one: history.day_of(one) for one in period.snapshot_ids}
        days_read = set()
        for daily in results.daily_tables(self._name, cluster, period.first_whole, period.end):
            days_read.add(daily.day)
            self.snapshot_count += daily.snapshot_count or 0
            yield daily.rows
        others = {one for one, day in day_of.items() if day not in days_read}
        with_results = others & results.of_cluster(cluster)
        self.snapshot_count += len(with_results)
        yield from results.tables(self._name, with_results)
