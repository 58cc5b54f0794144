"""Brokers over time for heat maps: at most 60 rows and some 200 columns.

    maps = heat_maps(columns)       # of leaders; of bytes-in where they are known

A value is a broker's part of the mean over the live brokers of the same snapshot: 1.0 is the fair
share. Example: brokers with 30, 20 and 10 leaders have the mean 20, so the values are 1.5, 1.0 and
0.5. More snapshots than columns become means over buckets of equal length, counted from 1970 so
that a day's bucket is a day (UTC).
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import numpy as np

from counterpoise.analysis.columns import SeriesColumns
from counterpoise.analysis.weighing import means
from counterpoise.model.balance import HeatMap
from counterpoise.model.columns import Floats, Ints

ROWS_SHOWN: Final = 60
COLUMNS_SHOWN: Final = 200
_MINUTE, _HOUR, _DAY = 60, 3600, 86400  # in seconds
_BUCKETS: Final = (
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 20, 30)),
    *(_HOUR * count for count in (1, 2, 3, 4, 6, 8, 12)),
    *(_DAY * count for count in (1, 2, 3, 7, 14, 28, 56, 112)),
)

Periods = tuple[tuple[datetime, datetime], ...]  # from, until


def heat_maps(columns: SeriesColumns) -> tuple[HeatMap, ...]:
    """Return maps of leaders, and of bytes-in where a snapshot knows them; none with a single
    snapshot.
    """
    if columns.snapshot_count < 2:
        return ()
    leaders = np.where(columns.is_live, columns.leaders.astype(np.float64), np.nan)
    bytes_in = np.where(columns.is_live, columns.bytes_in, np.nan)
    maps = [_heat_map("leaders", columns, leaders)]
    if np.nansum(bytes_in) > 0:
        maps.append(_heat_map("bytes_in", columns, bytes_in))
    return tuple(maps)


def _heat_map(measure: str, columns: SeriesColumns, values: Floats) -> HeatMap:
    broker_ids, shares = _shares(columns, values)
    bucket_seconds, column_of_snapshot, periods = _periods(columns)
    column_shares = _column_shares(shares, column_of_snapshot, len(periods))
    shown = _farthest_from_share(column_shares)
    rows = tuple(
        tuple(None if np.isnan(value) else round(value, 4) for value in row)
        for row in column_shares[shown].tolist()
    )
    shown_ids = tuple(broker_ids[shown].tolist())
    return HeatMap(measure, shown_ids, periods, rows, bucket_seconds, len(broker_ids))


def _shares(columns: SeriesColumns, values: Floats) -> tuple[Ints, Floats]:
    """Return the brokers by id, and their part of the mean, brokers x snapshots; NaN where that is
    not known.
    """
    broker_ids, broker_rows = np.unique(columns.broker_ids, return_inverse=True)
    snapshots = np.repeat(np.arange(columns.snapshot_count), np.diff(columns.starts))
    fair_shares = means(values, np.ones(len(values)), snapshots, group_count=columns.snapshot_count)
    fair_shares[fair_shares == 0] = np.nan
    shares = np.full((len(broker_ids), columns.snapshot_count), np.nan)
    shares[broker_rows, snapshots] = values / fair_shares[snapshots]
    return broker_ids, shares


def _periods(columns: SeriesColumns) -> tuple[int | None, Ints, Periods]:
    """Return the length of a bucket in seconds (None: a column is a snapshot), the column of each
    snapshot, and the period of each column.
    """
    if columns.snapshot_count <= COLUMNS_SHOWN:
        one_each = np.arange(columns.snapshot_count)
        return None, one_each, _snapshot_periods(columns.times, columns.breaks.positions)
    seconds = np.array([time.timestamp() for time in columns.times])
    total = seconds[-1] - seconds[0]
    fitting = (length for length in _BUCKETS if total / length <= COLUMNS_SHOWN - 1)
    length = next(fitting, int(-(-total // (COLUMNS_SHOWN - 1))))
    buckets, column_of_snapshot = np.unique(seconds // length, return_inverse=True)
    starts = [datetime.fromtimestamp(bucket * length, UTC) for bucket in buckets.tolist()]
    periods = tuple((start, start + timedelta(seconds=length)) for start in starts)
    return length, column_of_snapshot, periods


def _snapshot_periods(times: tuple[datetime, ...], breaks: tuple[int, ...]) -> Periods:
    """Return the period of each snapshot: until the next one; before a break, and at the end, no
    longer than the usual interval.
    """
    intervals = [after - before for before, after in pairwise(times)]
    unbroken = [length for index, length in enumerate(intervals, 1) if index not in breaks]
    ordered = sorted(unbroken or intervals)
    usual = ordered[len(ordered) // 2] or timedelta(seconds=_MINUTE)
    ends = [
        min(after, before + usual) if index in breaks else after
        for index, (before, after) in enumerate(pairwise(times), 1)
    ]
    return tuple(zip(times, [*ends, times[-1] + usual], strict=True))


def _column_shares(shares: Floats, column_of_snapshot: Ints, column_count: int) -> Floats:
    """Return the mean of what is known in each column; NaN where nothing is.

    Shares [[1.0, NaN, 0.5]] in the columns [0, 0, 1] become [[1.0, 0.5]].
    """
    cell_count = len(shares) * column_count
    first_cells = np.arange(0, cell_count, column_count)[:, None]
    cells = (first_cells + column_of_snapshot).ravel()
    found = means(shares.ravel(), np.ones(shares.size), cells, group_count=cell_count)
    return found.reshape(len(shares), column_count)


def _farthest_from_share(shares: Floats) -> Ints:
    """Return the rows to show, in order: all, or those farthest from the fair share on average."""
    if len(shares) <= ROWS_SHOWN:
        return np.arange(len(shares))
    is_known = ~np.isnan(shares)
    distances = np.where(is_known, np.abs(shares - 1.0), 0.0).sum(axis=1)
    mean_distances = distances / np.maximum(1, is_known.sum(axis=1))
    return np.sort(np.argsort(-mean_distances, kind="stable")[:ROWS_SHOWN])
