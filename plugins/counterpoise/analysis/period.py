"""The snapshots that rates of a period are taken from, and for how long each rate lasted.

period = Period(read_series(series, cluster="demo"))
seconds_of_rates(series, "demo")     # by snapshot id, without those after a gap
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.series import Series, SeriesColumns, read_series
from counterpoise.model.columns import Flags, Floats, Ints, positions_in

# Of the series before and after some days: the usual interval at their ends is known by that.
AROUND: Final = timedelta(days=2)


class Period:
    """The snapshots of one cluster since it was last rebuilt: those of `columns` from the index
    `first` on, and how long the rates of each lasted.
    """

    def __init__(self, columns: SeriesColumns) -> None:
        self.columns = columns
        self.seconds = _seconds(columns)
        self._ids = pa.array(columns.snapshot_ids, pa.string())

    @property
    def cluster(self) -> str:
        name: str = self.columns.latest["cluster"][0].as_py()
        return name

    @property
    def latest_id(self) -> str:
        return self.columns.snapshot_ids[-1]

    def snapshot_indexes(self, table: pa.Table) -> Ints:
        """Return the snapshot of each row; -1 for a row that is not of the period."""
        indexes = positions_in(table["snapshot_id"], self._ids)
        return np.where(indexes >= self.columns.first, indexes, -1)

    def rows_now(self, table: pa.Table) -> pa.Table:
        """Return the rows of the latest snapshot."""
        return table.filter(pc.equal(table["snapshot_id"], self.latest_id))


@dataclass(frozen=True, slots=True)
class PeriodDays:
    """The whole days (UTC) of a period, since the cluster was last rebuilt; the last one may end
    with the period.
    """

    snapshot_ids: tuple[str, ...]
    first_whole: date  # the first day of which all belongs to the cluster as it is now
    end: date  # the first day after it of which not all belongs to the period


def days_of_period(
    series: Series, cluster: str, since: datetime | None, until: datetime | None
) -> PeriodDays:
    """Return the days of a period that has a snapshot, from the midnight nearest to `since` on."""
    begin = begin_of_days(series, cluster, since, until) if since else None
    columns = read_series(series, cluster=cluster, since=begin, until=until)
    # Of the day of a rebuild a table of the day has both clusters.
    skipped = timedelta(days=1 if columns.breaks.rebuilt else 0)
    first_whole = columns.times[columns.first].date() + skipped
    end = end_of_whole_days(columns.times[-1], until)
    return PeriodDays(columns.snapshot_ids[columns.first :], first_whole, end)


def end_of_whole_days(latest: datetime, until: datetime | None) -> date:
    """Return the day before which all days up to that of the `latest` snapshot belong wholly to a
    period.

    Example: of a period until 18:00 the day itself, of one until midnight the day that begins then.
    """
    after = start_of_day(latest) + timedelta(days=1)
    return after.date() if until is None or until >= after else latest.date()


def reaches(series: Series, cluster: str, begin: datetime, until: datetime | None) -> bool:
    """Return whether the series of a cluster goes back to `begin`, and it was not rebuilt since."""
    columns = read_series(series, cluster=cluster)
    is_old = bool(columns.times) and columns.times[0] <= begin
    return is_old and columns.between(begin, until).first == 0


def begin_of_days(
    series: Series, cluster: str, since: datetime, until: datetime | None
) -> datetime:
    """Return the midnight (UTC) that is nearest to `since`: the one after it only where the period
    has a snapshot since then.

    Example: of 24 hours until 23:00 the whole days begin an hour later than the 24 hours.
    """
    before = start_of_day(since)
    after = before + timedelta(days=1)
    is_nearer = after - since < since - before
    return after if is_nearer and _has_snapshot(series, cluster, after, until) else before


def _has_snapshot(series: Series, cluster: str, since: datetime, until: datetime | None) -> bool:
    """Return whether there is one of since <= observed_at < until."""
    return read_series(series, cluster=cluster, since=since, until=until).snapshot_count > 0


def start_of_day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _seconds(columns: SeriesColumns) -> Floats:
    """Return how long the rates of each snapshot lasted; NaN where that is not known, and over a
    gap.
    """
    seconds = np.full(columns.snapshot_count, np.nan)
    for index in range(columns.first, columns.snapshot_count):
        changes = columns.changes[index]
        if changes is not None and changes.seconds:
            seconds[index] = changes.seconds
    seconds[list(columns.breaks.after_gap)] = np.nan
    return seconds


def seconds_of_rates(series: Series, cluster: str) -> dict[str, float]:
    """Return how many seconds the rates of each snapshot of a series lasted; those that do not
    count, after a gap or of a cluster that was just rebuilt, are not in it.
    """
    columns = read_series(series, cluster=cluster)
    after_gap = set(columns.breaks.after_gap)
    return {
        snapshot_id: changes.seconds
        for index, snapshot_id in enumerate(columns.snapshot_ids)
        if (changes := columns.changes[index]) is not None
        and changes.seconds
        and not changes.is_rebuilt
        and index not in after_gap
    }


def live_broker_counts(series: Series, cluster: str) -> dict[str, int]:
    """Return how many brokers were live in each snapshot of a series."""
    columns = read_series(series, cluster=cluster)
    return {
        snapshot_id: int(columns.is_live[columns.rows(index)].sum())
        for index, snapshot_id in enumerate(columns.snapshot_ids)
    }


# -- Percentiles and means of values over time, weighed by how long each value lasted, for many
# groups at once.
#
#     by_group(values, seconds, groups, group_count=3, shares=(0.5, 0.95))     # 3 rows of 2
#
# A percentile is a value that occurred: the smallest one at or below which that share of the time
# was spent. Example: 5 for 10 s, 1 for 20 s and 9 for 10 s. In order of value, 1 lasts until 20 s,
# 5 until 30 s, 9 until 40 s. Half of the 40 s are over at 20 s, so the median is 1; 95 % at 38 s,
# so the 95th percentile is 9.


_SELDOM: Final = 0.05  # of the time: what lasts no longer changes no 95 % of it
_ROUNDING: Final = 1e-9  # of a group's time: sums of floats differ by less


def by_group(
    values: Floats, seconds: Floats, groups: Ints, *, group_count: int, shares: Sequence[float]
) -> Floats:
    """Return the percentiles of `values`, a row per group and a column per share; NaN where nothing
    is known.

    A value that is NaN, lasted no time or has a group < 0 is left out.
    """
    is_known = _is_known(values, seconds, groups)
    values, seconds, groups = values[is_known], seconds[is_known], groups[is_known]
    order = np.lexsort((values, groups))  # by group, then by value
    values = values[order]
    elapsed = np.cumsum(seconds[order])  # at the end of each value, over all groups
    row_ends = np.cumsum(np.bincount(groups, minlength=group_count))
    row_starts = np.append(0, row_ends[:-1])
    has_values = row_ends > row_starts
    elapsed_from_zero = np.concatenate(([0.0], elapsed))
    group_starts = elapsed_from_zero[row_starts]
    group_seconds = elapsed_from_zero[row_ends] - group_starts
    percentiles = np.full((group_count, len(shares)), np.nan)
    for column, share in enumerate(shares):
        wanted = group_starts + group_seconds * (share - _ROUNDING)
        rows = np.searchsorted(elapsed, wanted, side="left")
        rows = np.minimum(rows, row_ends - 1)
        percentiles[has_values, column] = values[rows[has_values]]
    return percentiles


def means(values: Floats, seconds: Floats, groups: Ints, *, group_count: int) -> Floats:
    """Return the mean of `values` per group, NaN where nothing is known.

    What `by_group` leaves out is left out here. 5 for 10 s and 2 for 20 s have the mean 3.
    """
    is_known = _is_known(values, seconds, groups)
    values, seconds, groups = values[is_known], seconds[is_known], groups[is_known]
    sums = np.bincount(groups, weights=values * seconds, minlength=group_count)
    total_seconds = np.bincount(groups, weights=seconds, minlength=group_count)
    found = np.full(group_count, np.nan)
    np.divide(sums, total_seconds, out=found, where=total_seconds > 0)
    return found


def is_often(flags: Floats, seconds: Floats, groups: Ints, *, group_count: int) -> Flags:
    """Return for each group whether `flags` (1 or 0, NaN where not known) were 1 for more than a
    twentieth of the time.
    """
    shares = means(flags, seconds, groups, group_count=group_count)
    return np.nan_to_num(shares) > _SELDOM


def _is_known(values: Floats, seconds: Floats, groups: Ints) -> Flags:
    return np.isfinite(values) & (np.nan_to_num(seconds) > 0) & (groups >= 0)
