"""How fast log dirs grow, and when each disk is full, if that goes on as in the last two weeks.

    growth = growth_of(log_dir_load, columns)
    growth.disks[0].days_left         # of the file system that is full first

How a disk's growth is found:

    pairs = neighbouring snapshots of the last two weeks without a move, a gap or a rebuild between
    growth = sum of what each pair grew by / sum of the seconds of the pairs
    days left = usable bytes / (growth * 86,400)

Example: a dir holds 100, 160, 500 and 560 bytes, an hour apart, and replicas were moved before the
third snapshot. The pairs 1-2 and 3-4 grew by 60 each in 3,600 s, so the growth is
120 / 7,200 = 1/60 bytes per second, 1,440 bytes a day. With 14,400 usable bytes the disk is full in
10 days.

A broker that comes back empty, with a new disk, copies all again: that it lost as much counts too,
although no snapshot had told its dirs for a while.

Limits: weekdays are all alike to it; what other programs write to a disk counts as used, but not as
growth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.period import means
from counterpoise.analysis.series import SeriesColumns
from counterpoise.model.columns import Flags, Floats, Ints, floats_of, names_of, numbers_of
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import by_disk
from counterpoise.model.load import DiskForecast, Outlook, Trace
from counterpoise.model.tables import rows_of

WINDOW: Final = timedelta(days=14)
DAY_SECONDS: Final = 86_400.0
MAX_DAYS: Final = 365.0  # a disk that lasts longer is "not within a year"
# Less than a whole day gives no forecast, except for a disk that is full within a day.
MIN_OBSERVED_SECONDS: Final = DAY_SECONDS
TRACE_POINTS: Final = 200
SMALL_TRACE_POINTS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotPairs:
    """Pairs of snapshots, by index, over which growth can be measured."""

    before: Ints
    after: Ints
    seconds: Floats  # between the two

    def only(self, is_wanted: Flags) -> "SnapshotPairs":
        return SnapshotPairs(self.before[is_wanted], self.after[is_wanted], self.seconds[is_wanted])


@dataclass(frozen=True, slots=True, eq=False)
class HeldBytes:
    """Bytes in each log dir in each snapshot, NaN where not known; and the latest figures of its
    disk.
    """

    dirs: tuple[tuple[int, str], ...]  # broker id and path, in order
    bytes: Floats  # snapshots x dirs
    figures: tuple[tuple[int | None, int | None], ...]  # total and usable bytes of each dir's disk

    @property
    def total(self) -> Floats:
        """Return bytes over all dirs per snapshot; NaN where a dir is missing that was there before
        and came back later.

        [[5, 1], [6, NaN], [7, 2], [8, NaN]] gives [6, NaN, 9, 8]: the second dir is missing in the
        second snapshot; it left for good after the third.
        """
        is_known = np.isfinite(self.bytes)
        was_known = np.logical_or.accumulate(is_known, axis=0)
        will_be_known = np.logical_or.accumulate(is_known[::-1], axis=0)[::-1]
        is_missing = was_known & will_be_known & ~is_known
        is_complete = ~is_missing.any(axis=1) & is_known.any(axis=1)
        return np.where(is_complete, np.nansum(self.bytes, axis=1), np.nan)


class TimeAxis:
    """The snapshots from `first` on along the time axis of a chart with at most so many points."""

    def __init__(self, columns: SeriesColumns, first: int, points: int = TRACE_POINTS) -> None:
        start = columns.times[first]
        seconds = np.array([(time - start).total_seconds() for time in columns.times[first:]])
        self.points = points
        self.first = first
        self.seconds = float(seconds[-1])
        self.positions = seconds / (self.seconds or 1.0)  # 0.0 to 1.0
        self.after_gap = [index - first for index in columns.breaks.after_gap if index > first]

    def trace(self, values: Floats) -> Trace:
        """Return one value per snapshot as a trace; NaN is not known.

        Where there are more snapshots than points, a point is the mean of an equal length of time:
        with 2 points, values [1, 3, 8] at positions [0.0, 0.2, 1.0] become [2, 8].
        """
        values = values[self.first :]
        if len(values) <= self.points:
            positions = np.insert(self.positions, self.after_gap, self.positions[self.after_gap])
            with_breaks = np.insert(values, self.after_gap, np.nan)
            return Trace(tuple(positions.tolist()), _whole(with_breaks), self.seconds)
        buckets = (self.positions * self.points).astype(np.int64)
        buckets = np.minimum(buckets, self.points - 1)
        bucket_means = means(values, np.ones(len(values)), buckets, group_count=self.points)
        middles = (np.arange(self.points) + 0.5) / self.points
        return Trace(tuple(middles.tolist()), _whole(bucket_means), self.seconds)


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a cluster's log dirs, all together and one by one."""

    held_bytes: int | None  # in the latest snapshot
    bytes_per_day: int | None
    observed_seconds: float
    disks: tuple[DiskForecast, ...]  # the first to fill first


def growth_of(log_dir_load: pa.Table, columns: SeriesColumns) -> Growth:
    """Return the growth from rows of LOG_DIR_LOAD of one cluster, since it was last rebuilt."""
    held = read_held(log_dir_load, columns)
    pairs = read_pairs(columns)
    bridged = bridged_losses(held.bytes, pairs)
    rate, observed_seconds = cluster_growth(bridged, pairs)
    latest = held.bytes[-1]
    window = TimeAxis(columns, window_start(columns), SMALL_TRACE_POINTS)
    return Growth(
        held_bytes=round(float(np.nansum(latest))) if np.isfinite(latest).any() else None,
        bytes_per_day=None if rate is None else round(rate * DAY_SECONDS),
        observed_seconds=observed_seconds,
        disks=disk_forecasts(held, bridged, pairs, window),
    )


def read_pairs(columns: SeriesColumns) -> SnapshotPairs:
    """Return the pairs of the last two weeks, since the cluster was last rebuilt.

    Each snapshot is paired with the one that it was compared with.
    """
    index_of = {
        snapshot_id: index
        for index, snapshot_id in enumerate(columns.snapshot_ids)
        if index >= columns.first
    }
    window_begins = columns.times[-1] - WINDOW
    pairs: list[tuple[int, int, float]] = []
    for after in range(columns.first, columns.snapshot_count):
        before = index_of.get(columns.previous_ids[after] or "")
        if (
            before is None
            or columns.times[before] < window_begins
            or after in columns.breaks.after_gap
        ):
            continue
        seconds = _seconds_without_moves(columns, before, after)
        if seconds > 0:
            pairs.append((before, after, seconds))
    table = np.array(pairs, dtype=np.float64).reshape(-1, 3)
    return SnapshotPairs(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])


def _seconds_without_moves(columns: SeriesColumns, before: int, after: int) -> float:
    """Return the seconds between two snapshots; 0 where replicas moved, or nothing is known."""
    earlier, later = columns.changes[before], columns.changes[after]
    if earlier is None or later is None or later.is_rebuilt:
        return 0.0
    if later.replica_sets_changed or later.reassigning_partitions or earlier.reassigning_partitions:
        return 0.0
    return later.seconds or 0.0


def read_held(log_dir_load: pa.Table, columns: SeriesColumns) -> HeldBytes:
    """Read the rows of LOG_DIR_LOAD since the cluster was last rebuilt, of the brokers that are
    registered in the latest one.
    """
    ids = pa.array(columns.snapshot_ids, pa.string())
    latest = columns.snapshot_count - 1
    registered = pa.array(columns.broker_ids[columns.rows(latest)].tolist(), pa.int32())
    snapshot = pc.index_in(log_dir_load["snapshot_id"], value_set=ids)
    rows = log_dir_load.append_column("snapshot", snapshot)
    rows = rows.filter(pc.is_in(rows["broker_id"], value_set=registered))
    rows = rows.filter(pc.greater_equal(rows["snapshot"], columns.first)).combine_chunks()
    if not rows.num_rows:
        return HeldBytes((), np.zeros((columns.snapshot_count, 0)), ())
    dirs, dir_indexes = _dirs(rows)
    snapshots = numbers_of(rows["snapshot"])
    held = np.full((columns.snapshot_count, len(dirs)), np.nan)
    held[snapshots, dir_indexes] = floats_of(rows["held_bytes"])
    figures: list[tuple[int | None, int | None]] = [(None, None)] * len(dirs)
    is_latest = snapshots == latest
    sizes = rows_of(rows.filter(pa.array(is_latest)), "total_bytes", "usable_bytes")
    for dir_index, total_and_usable in zip(dir_indexes[is_latest].tolist(), sizes, strict=True):
        figures[dir_index] = total_and_usable
    return HeldBytes(dirs, held, tuple(figures))


def _dirs(rows: pa.Table) -> tuple[tuple[tuple[int, str], ...], Ints]:
    """Return every (broker id, path), in order, and the index of each row's.

    Rows (2, "/b"), (1, "/b"), (2, "/b") give ((1, "/b"), (2, "/b")) and [1, 0, 1].
    """
    names, name_indexes = names_of(rows["log_dir"])
    paths = sorted(names)
    ranks = np.array([paths.index(name) for name in names])
    broker_ids = numbers_of(rows["broker_id"])
    keys = broker_ids * len(paths) + ranks[name_indexes]  # sorts by broker id, then by path
    distinct, dir_indexes = np.unique(keys, return_inverse=True)
    dirs = tuple((key // len(paths), paths[key % len(paths)]) for key in distinct.tolist())
    return dirs, dir_indexes


def growth_per_second(held: Floats, pairs: SnapshotPairs) -> tuple[Floats, Floats]:
    """Return, for each column of `held` (snapshots x things), bytes per second (NaN where not
    known) and the seconds over which both snapshots of a pair know it.
    """
    grown = held[pairs.after] - held[pairs.before]
    is_known = np.isfinite(grown)
    seconds = np.where(is_known, pairs.seconds[:, None], 0.0).sum(axis=0)
    bytes_grown = np.where(is_known, grown, 0.0).sum(axis=0)
    rates = np.full(held.shape[1], np.nan)
    np.divide(bytes_grown, seconds, out=rates, where=seconds > 0)
    return rates, seconds


def bridged_losses(held: Floats, pairs: SnapshotPairs) -> Floats:
    """Return bytes of dirs per snapshot: where a dir was not told for a while, and then held less,
    what it held before; unless replicas moved meanwhile, or there was a gap.

    So [800, NaN, 0, 500, 800] becomes [800, 800, 0, 500, 800]: it did not grow.
    """
    is_paired = np.zeros(len(held), dtype=np.bool_)
    is_paired[pairs.after[pairs.before == pairs.after - 1]] = True
    unpaired_count = np.cumsum(~is_paired)
    bridged = held.copy()
    for column in range(held.shape[1]):
        known = np.flatnonzero(np.isfinite(held[:, column]))
        ends = np.flatnonzero(np.diff(known) > 1)  # of the times in which it was told
        for before, after in zip(known[ends], known[ends + 1], strict=True):
            is_less = held[after, column] < held[before, column]
            if is_less and unpaired_count[after] == unpaired_count[before]:
                bridged[before:after, column] = held[before, column]
    return bridged


def cluster_growth(held: Floats, pairs: SnapshotPairs) -> tuple[float | None, float]:
    """Return bytes per second over all log dirs, and over how many seconds they were observed:
    those of pairs that know the same dirs.
    """
    is_known = np.isfinite(held)
    has_same_dirs = (is_known[pairs.before] == is_known[pairs.after]).all(axis=1)
    has_any_dir = is_known[pairs.after].any(axis=1)
    sums = np.nansum(held, axis=1)[:, None]
    (rate,), (seconds,) = growth_per_second(sums, pairs.only(has_same_dirs & has_any_dir))
    return (float(rate) if np.isfinite(rate) else None), float(seconds)


def window_start(columns: SeriesColumns) -> int:
    """Return the index of the first snapshot of the last two weeks, and of this cluster."""
    since = columns.times[-1] - WINDOW
    return next(
        index
        for index in range(columns.first, columns.snapshot_count)
        if columns.times[index] >= since
    )


def disk_forecasts(
    held: HeldBytes, bridged: Floats, pairs: SnapshotPairs, window: TimeAxis
) -> tuple[DiskForecast, ...]:
    """Return a forecast for every file system, the one that is full first first."""
    disks = list(_disks(held))
    if not disks:
        return ()
    per_disk, for_growth = (
        np.stack([table[:, list(dirs)].sum(axis=1) for dirs in disks], axis=1)
        for table in (held.bytes, bridged)
    )
    rates, seconds = growth_per_second(for_growth, pairs)
    forecasts = [
        _forecast(held, dirs, per_disk[:, disk], rates[disk], seconds[disk], window)
        for disk, dirs in enumerate(disks)
    ]
    return tuple(sorted(forecasts, key=_worst_first))


def _disks(held: HeldBytes) -> Iterator[tuple[int, ...]]:
    """Yield the indexes of the dirs that share a file system.

    A dir whose disk figures are not known has one of its own.
    """
    by_broker = grouped((broker_id, index) for index, (broker_id, _) in enumerate(held.dirs))
    for dir_indexes in by_broker.values():
        figures: list[tuple[int, int]] = []
        known: list[int] = []
        for dir_index in dir_indexes:
            total, usable = held.figures[dir_index]
            if total is None or usable is None:
                yield (dir_index,)
            else:
                figures.append((total, usable))
                known.append(dir_index)
        for disk in by_disk(figures):
            yield tuple(sorted(known[position] for position in disk))


def _forecast(
    held: HeldBytes,
    dirs: Sequence[int],
    held_bytes: Floats,
    rate: float,
    seconds: float,
    window: TimeAxis,
) -> DiskForecast:
    """Return the forecast of the disk of these dirs.

    `held_bytes` are over its dirs, per snapshot; `rate` is NaN where it is not known.
    """
    totals = [total for total, _ in (held.figures[dir_index] for dir_index in dirs)]
    usables = [usable for _, usable in (held.figures[dir_index] for dir_index in dirs)]
    usable = min((size for size in usables if size is not None), default=None)
    outlook, days_left = _outlook(rate, usable, seconds)
    return DiskForecast(
        broker_id=held.dirs[dirs[0]][0],
        log_dirs=tuple(held.dirs[dir_index][1] for dir_index in dirs),
        held_bytes=round(held_bytes[-1]) if np.isfinite(held_bytes[-1]) else None,
        total_bytes=max((size for size in totals if size is not None), default=None),
        usable_bytes=usable,
        bytes_per_day=round(rate * DAY_SECONDS) if np.isfinite(rate) else None,
        watched_seconds=float(seconds),
        outlook=outlook,
        days_left=days_left,
        held=window.trace(held_bytes),
    )


def _outlook(rate: float, usable: int | None, seconds: float) -> tuple[Outlook, float | None]:
    """Return what becomes of a disk, and in how many days it is full, if it fills.

    `rate` is in bytes per second, NaN where not known, observed over so many `seconds`.
    """
    if not np.isfinite(rate) or usable is None:
        return Outlook.NOT_KNOWN, None
    days = usable / (rate * DAY_SECONDS) if rate > 0 else None
    if seconds < MIN_OBSERVED_SECONDS and (days is None or days >= 1):
        return Outlook.NOT_KNOWN, None
    if days is None:
        return (Outlook.SHRINKING if rate < 0 else Outlook.NOT_WITHIN_A_YEAR), None
    return (Outlook.FILLS, days) if days <= MAX_DAYS else (Outlook.NOT_WITHIN_A_YEAR, None)


def _worst_first(disk: DiskForecast) -> tuple[object, ...]:
    days = MAX_DAYS if disk.days_left is None else disk.days_left
    return (
        list(Outlook).index(disk.outlook),
        days,
        -(disk.used_share or 0.0),
        disk.broker_id,
        disk.log_dirs,
    )


def _whole(values: Floats) -> tuple[int | None, ...]:
    return tuple(round(value) if np.isfinite(value) else None for value in values.tolist())
