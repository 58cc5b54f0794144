"""Topics over a period: the hottest, with percentiles of their rates, and those that grow fastest.

    topics = topic_history(series, topic_load, topic_load_daily, period, since, until)
    hot_topics(topics), growing_topics(topics)

Days that are over for long are known by TOPIC_LOAD_DAILY, whatever became of their snapshots, the
others by TOPIC_LOAD. Both say the same, but for percentiles: rates of a day that differ by less
than 1 % are one rate there. So a period has whole days: it begins with the midnight (UTC) that is
nearest to its begin. One that ends within a day takes of that day what TOPIC_LOAD still has.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.forecast import DAY_SECONDS, WINDOW
from counterpoise.analysis.period import (
    Period,
    begin_of_days,
    by_group,
    is_often,
    means,
    start_of_day,
)
from counterpoise.analysis.series import Series, read_series
from counterpoise.model.columns import Flags, Floats, Ints, floats_of, positions_in
from counterpoise.model.load import HotTopic, Rates, TopicGrowth
from counterpoise.model.tables import TOPIC_LOAD_DAILY

SHOWN: Final = 20  # topics, or partitions
_SHARES: Final = (0.5, 0.95, 1.0)  # of the time: the percentiles of `Rates`
_MIN_BYTES_PER_DAY: Final = 0.5  # what grows slower is not shown


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """Values of topics, and how long each lasted; topics by index, -1 for one not asked for."""

    topics: Ints
    values: Floats
    seconds: Floats


@dataclass(frozen=True, eq=False)
class TopicHistory:
    """What is known of the topics of one cluster in a period."""

    shown: Period  # its latest snapshot is what `now` tells of
    period: Period  # its whole days
    rows: pa.Table  # of TOPIC_LOAD
    daily: pa.Table  # of TOPIC_LOAD_DAILY, of days within the period

    @cached_property
    def now(self) -> pa.Table:
        """Return the rows of the latest snapshot whose rows are kept."""
        in_period = self.rows.filter(pa.array(self.shown.snapshot_indexes(self.rows) >= 0))
        if not in_period.num_rows:
            return in_period
        newest = in_period.sort_by("observed_at")["snapshot_id"][-1]
        return in_period.filter(pc.equal(in_period["snapshot_id"], newest))

    @cached_property
    def _days(self) -> pa.Table:
        """Return the daily rows since the cluster was last rebuilt."""
        columns = self.period.columns
        first = columns.times[columns.first].date()
        if columns.breaks.rebuilt:  # of that day both clusters are in the table
            first += timedelta(days=1)
        return self.daily.filter(pc.greater_equal(self.daily["date"], pa.scalar(first)))

    def rates(self, topics: pa.Array) -> _Samples:
        """Return all rates of the period, of these topics."""
        days = self._days.filter(pc.is_in(self._days["topic"], value_set=topics)).combine_chunks()
        entries = days["rates"].combine_chunks()
        day_of_entry = pc.list_parent_indices(entries).to_numpy(zero_copy_only=False)
        values = entries.flatten()
        raw = self._raw("bytes_in_per_second", topics)
        return _joined(
            raw,
            _Samples(
                positions_in(days["topic"], topics)[day_of_entry],
                floats_of(pa.chunked_array([values.field("rate")])),
                floats_of(pa.chunked_array([values.field("seconds")])),
            ),
        )

    def max_rates(self, topics: pa.Array) -> Floats:
        """Return the highest rate of each of these topics, NaN where none is known."""
        raw = self._raw("bytes_in_per_second", topics)
        is_known = np.isfinite(raw.values) & (np.nan_to_num(raw.seconds) > 0) & (raw.topics >= 0)
        highest = np.full(len(topics), -np.inf)
        np.maximum.at(highest, raw.topics[is_known], raw.values[is_known])
        groups = positions_in(self._days["topic"], topics)
        of_days = floats_of(self._days["max_bytes_in_per_second"])
        is_known = np.isfinite(of_days) & (groups >= 0)
        np.maximum.at(highest, groups[is_known], of_days[is_known])
        return np.where(np.isfinite(highest), highest, np.nan)

    def has_bounds(self, topics: pa.Array) -> Flags:
        """Return for each of these topics whether a rate of a partition in the period is only a
        lower bound.
        """
        raw = self._raw("rates_at_least", topics)
        counts = [
            (raw.topics, raw.values),
            (
                positions_in(self._days["topic"], topics),
                floats_of(self._days["rates_at_least"]),
            ),
        ]
        found = np.zeros(len(topics), dtype=np.bool_)
        for groups, at_least in counts:
            found[groups[(groups >= 0) & (np.nan_to_num(at_least) > 0)]] = True
        return found

    def has_unknown(self, topics: pa.Array) -> Flags:
        """Return for each of these topics whether rates of some of its partitions were not known
        for so long that percentiles are only lower bounds.
        """
        rates, unknown = (
            self._raw(name, topics) for name in ("bytes_in_per_second", "rates_unknown")
        )
        is_partial = np.where(np.isfinite(rates.values), np.nan_to_num(unknown.values) > 0, np.nan)
        days = self._days
        groups = positions_in(days["topic"], topics)
        partial = np.nan_to_num(floats_of(days["unknown_seconds"]))
        known = _seconds_of_entries(days) - partial
        samples = _joined(
            _Samples(rates.topics, is_partial, rates.seconds),
            _Samples(groups, np.ones(len(groups)), partial),
            _Samples(groups, np.zeros(len(groups)), known),
        )
        return is_often(samples.values, samples.seconds, samples.topics, group_count=len(topics))

    def growth(self, topics: pa.Array) -> _Samples:
        """Return growth in bytes per second over the last two weeks, in whole days."""
        since = start_of_day(self.period.columns.times[-1] - WINDOW)
        days = self._days.filter(pc.greater_equal(self._days["date"], pa.scalar(since.date())))
        seconds = floats_of(days["growth_seconds"])
        with np.errstate(divide="ignore", invalid="ignore"):
            per_second = floats_of(days["growth_bytes"]) / seconds
        raw = self._raw("growth_bytes_per_second", topics, since)
        return _joined(raw, _Samples(positions_in(days["topic"], topics), per_second, seconds))

    def _raw(self, column: str, topics: pa.Array, since: datetime | None = None) -> _Samples:
        rows = self.rows.filter(pc.is_in(self.rows["topic"], value_set=topics))
        if since is not None:
            rows = rows.filter(pc.greater_equal(rows["observed_at"], pa.scalar(since)))
        snapshots = self.period.snapshot_indexes(rows)
        is_wanted = (snapshots >= 0) & ~self._is_in_daily[snapshots]
        seconds = np.where(is_wanted, self.period.seconds[snapshots], np.nan)
        return _Samples(positions_in(rows["topic"], topics), floats_of(rows[column]), seconds)

    @cached_property
    def _is_in_daily(self) -> Flags:
        """Return for each snapshot of the period whether the table of its day has it."""
        days: set[date] = set(self.daily["date"].unique().to_pylist())
        return np.array([time.date() in days for time in self.period.columns.times], dtype=bool)


def topic_history(
    series: Series,
    topic_load: pa.Table,
    topic_daily: pa.Table | None,
    period: Period,
    since: datetime | None,
    until: datetime | None,
) -> TopicHistory:
    """Return the topics of a period: its whole days begin with the midnight nearest to `since`, and
    end with `until`.
    """
    cluster = period.cluster
    begin = begin_of_days(series, cluster, since, until) if since else None
    columns = read_series(series, cluster=cluster, since=begin, until=until)
    daily = TOPIC_LOAD_DAILY.empty_table() if topic_daily is None else topic_daily
    return TopicHistory(period, Period(columns), topic_load, daily)


def hottest_rows(table: pa.Table, *ties: str) -> tuple[pa.Table, int]:
    """Return the first rows by rate, those without traffic left out, and the sum of all known
    rates.
    """
    total = pc.sum(table["bytes_in_per_second"]).as_py() or 0
    order = [("bytes_in_per_second", "descending"), *((name, "ascending") for name in ties)]
    with_traffic = table.filter(pc.greater(table["bytes_in_per_second"], 0))
    return with_traffic.sort_by(order).slice(0, SHOWN), total


def rates_of_groups(
    now: Floats,
    values: Floats,
    seconds: Floats,
    groups: Ints,
    is_at_least: Flags,
    is_period_at_least: Flags,
    highest: Floats | None = None,
) -> tuple[Rates, ...]:
    """Return rates for each group: those of `now`, and percentiles of `values`, weighed by time;
    whether each is only a lower bound is given.
    """
    percentiles = by_group(values, seconds, groups, group_count=len(now), shares=_SHARES)
    if highest is not None:
        percentiles[:, -1] = highest
    return tuple(
        Rates(_whole(latest), _whole(p50), _whole(p95), _whole(most), is_bound, is_period_bound)
        for latest, (p50, p95, most), is_bound, is_period_bound in zip(
            now.tolist(),
            percentiles.tolist(),
            is_at_least.tolist(),
            is_period_at_least.tolist(),
            strict=True,
        )
    )


def hot_topics(history: TopicHistory) -> tuple[HotTopic, ...]:
    """Return the hottest topics of the latest snapshot, with their rates over the period.

    Where its rows were thinned out, an earlier one tells which topics there are.
    """
    hottest, total = hottest_rows(history.now, "topic")
    topics = hottest["topic"].combine_chunks()
    samples = history.rates(topics)
    now = floats_of(hottest["bytes_in_per_second"])
    has_bounds = history.has_bounds(topics)
    is_partial = np.isfinite(now) & (np.nan_to_num(floats_of(hottest["rates_unknown"])) > 0)
    rates = rates_of_groups(
        now,
        samples.values,
        samples.seconds,
        samples.topics,
        has_bounds | is_partial,
        has_bounds | history.has_unknown(topics),
        history.max_rates(topics),
    )
    return tuple(
        HotTopic(
            topic=row["topic"],
            partition_count=row["partition_count"],
            bytes_in=bytes_in,
            share=(row["bytes_in_per_second"] or 0) / total if total else 0.0,
            hottest_partition=row["hottest_partition"],
            hottest_bytes_in_per_second=row["hottest_bytes_in_per_second"],
        )
        for row, bytes_in in zip(hottest.to_pylist(), rates, strict=True)
    )


def growing_topics(history: TopicHistory) -> tuple[TopicGrowth, ...]:
    """Return the topics of the latest snapshot that grow, by their mean growth over the last two
    weeks.
    """
    now = history.now
    topics = now["topic"].combine_chunks()
    growth = history.growth(topics)
    per_second = means(growth.values, growth.seconds, growth.topics, group_count=len(topics))
    bytes_per_day = per_second * DAY_SECONDS
    growing = [
        TopicGrowth(topic, size_bytes, round(per_day))
        for topic, size_bytes, per_day in zip(
            topics.to_pylist(), now["size_bytes"].to_pylist(), bytes_per_day.tolist(), strict=True
        )
        if per_day >= _MIN_BYTES_PER_DAY
    ]
    growing.sort(key=lambda topic: (-topic.bytes_per_day, topic.topic))
    return tuple(growing[:SHOWN])


def _seconds_of_entries(days: pa.Table) -> Floats:
    """Return for each row of TOPIC_LOAD_DAILY how long its rates lasted."""
    entries = days["rates"].combine_chunks()
    day_of_entry = pc.list_parent_indices(entries).to_numpy(zero_copy_only=False)
    seconds = floats_of(pa.chunked_array([entries.flatten().field("seconds")]))
    return np.bincount(day_of_entry, weights=seconds, minlength=days.num_rows).astype(np.float64)


def _joined(*parts: _Samples) -> _Samples:
    return _Samples(
        np.concatenate([part.topics for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.seconds for part in parts]),
    )


def _whole(value: float) -> int | None:
    return round(value) if np.isfinite(value) else None
