"""Brokers over time, small enough to be looked at: at most 60 rows and some 200 columns.

    maps = heat_maps(columns, breaks)       # of leaders; of bytes-in where they are known

A value is a broker's part of the mean over the live brokers of the same snapshot: 1.0 is the fair
share. More snapshots than columns become means over buckets of equal length, counted from 1970 so
that a day's bucket is a day (UTC).
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import numpy as np

from counterpoise.analysis.columns import Floats, Ints, SeriesColumns
from counterpoise.model.balance import HeatMap

ROWS_SHOWN: Final = 60
COLUMNS_SHOWN: Final = 200
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_BUCKETS: Final = (
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 20, 30)),
    *(_HOUR * n for n in (1, 2, 3, 4, 6, 8, 12)),
    *(_DAY * n for n in (1, 2, 3, 7, 14, 28, 56, 112)),
)

Columns = tuple[tuple[datetime, datetime], ...]


def heat_maps(columns: SeriesColumns, breaks: tuple[int, ...]) -> tuple[HeatMap, ...]:
    """Of leaders, and of bytes-in where a snapshot tells them. None with a single snapshot."""
    if columns.snapshot_count < 2:
        return ()
    inflow = np.where(columns.is_live, columns.bytes_in, np.nan)
    leaders = np.where(columns.is_live, columns.leaders.astype(np.float64), np.nan)
    maps = [_heat_map("leaders", columns, breaks, leaders)]
    if np.nansum(inflow) > 0:
        maps.append(_heat_map("bytes_in", columns, breaks, inflow))
    return tuple(maps)


def _heat_map(
    measure: str, columns: SeriesColumns, breaks: tuple[int, ...], values: Floats
) -> HeatMap:
    broker_ids, shares = _shares(columns, values)
    bucket_seconds, of_column, spans = _columns(columns, breaks)
    means = _means(shares, of_column, len(spans))
    shown = _farthest(means)
    rows = tuple(
        tuple(None if np.isnan(v) else round(float(v), 4) for v in means[row]) for row in shown
    )
    ids = tuple(broker_ids[shown].tolist())
    return HeatMap(measure, ids, spans, rows, bucket_seconds, len(broker_ids))


def _shares(columns: SeriesColumns, values: Floats) -> tuple[Ints, Floats]:
    """The brokers by id, and a row for each: its part of the mean in every snapshot, NaN where that
    is not known.
    """
    broker_ids, rows = np.unique(columns.broker_ids, return_inverse=True)
    snapshots = np.repeat(np.arange(columns.snapshot_count), np.diff(columns.starts))
    is_known = ~np.isnan(values)
    known = np.bincount(snapshots[is_known], minlength=columns.snapshot_count)
    sums = np.bincount(
        snapshots[is_known], weights=values[is_known], minlength=columns.snapshot_count
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        fair = np.where(sums > 0, sums / known, np.nan)
    shares = np.full((len(broker_ids), columns.snapshot_count), np.nan)
    shares[rows, snapshots] = values / fair[snapshots]
    return broker_ids, shares


def _columns(columns: SeriesColumns, breaks: tuple[int, ...]) -> tuple[int | None, Ints, Columns]:
    """The length of a bucket in seconds, the column of each snapshot, and from when until when each
    column is.
    """
    if columns.snapshot_count <= COLUMNS_SHOWN:
        return None, np.arange(columns.snapshot_count), _one_each(columns.times, breaks)
    seconds = np.array([at.timestamp() for at in columns.times])
    span = seconds[-1] - seconds[0]
    fitting = (length for length in _BUCKETS if span / length <= COLUMNS_SHOWN - 1)
    length = next(fitting, int(-(-span // (COLUMNS_SHOWN - 1))))
    buckets, of_column = np.unique(seconds // length, return_inverse=True)
    starts = [datetime.fromtimestamp(bucket * length, UTC) for bucket in buckets.tolist()]
    return length, of_column, tuple((start, start + timedelta(seconds=length)) for start in starts)


def _one_each(times: tuple[datetime, ...], breaks: tuple[int, ...]) -> Columns:
    """Each snapshot stands until the next one; before a break, and at the end, no longer than is
    usual.
    """
    steps = [after - before for before, after in pairwise(times)]
    whole = [step for at, step in enumerate(steps, 1) if at not in breaks] or steps
    usual = sorted(whole)[len(whole) // 2] or timedelta(seconds=_MINUTE)
    ends = [
        after if at not in breaks else min(after, before + usual)
        for at, (before, after) in enumerate(pairwise(times), 1)
    ]
    return tuple(zip(times, [*ends, times[-1] + usual], strict=True))


def _means(shares: Floats, of_column: Ints, column_count: int) -> Floats:
    """The mean of what is known in each column; NaN where nothing is."""
    known = np.zeros((len(shares), column_count))
    sums = np.zeros_like(known)
    is_known = ~np.isnan(shares)
    np.add.at(known.T, of_column, is_known.T)
    np.add.at(sums.T, of_column, np.where(is_known, shares, 0.0).T)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: Floats = sums / known
    return means


def _farthest(means: Floats) -> Ints:
    """The rows to show, in order: all, or those that are farthest from their share on average."""
    if len(means) <= ROWS_SHOWN:
        return np.arange(len(means))
    is_known = ~np.isnan(means)
    distance = np.where(is_known, np.abs(means - 1.0), 0.0).sum(axis=1) / np.maximum(
        1, is_known.sum(axis=1)
    )
    return np.sort(np.argsort(-distance, kind="stable")[:ROWS_SHOWN])
