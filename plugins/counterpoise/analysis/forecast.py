"""How fast log dirs grow, and when each disk is full, if all goes on as in the last two weeks.

    growth_of(log_dir_load, columns, breaks(columns), first=0).disks    # each file system, the first to fill first

Growth is a mean over pairs of snapshots, weighed by time. Left out are pairs in which replicas
moved or were moving, that lie over a gap, or whose earlier snapshot is not there: what a rebalance
copies is no trend.

Limits: it knows no weekday; what others than Kafka write to a disk counts as used, but not as
growth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.columns import Flags, Floats, Ints, SeriesColumns
from counterpoise.analysis.events import Breaks
from counterpoise.model.disks import by_disk
from counterpoise.model.load import DiskForecast, Outlook, Trace

WINDOW: Final = timedelta(days=14)
DAY: Final = 86_400.0
FARTHEST_DAYS: Final = 365.0
LEAST_WATCHED: Final = (
    DAY  # less than a whole day is not forecast from, but for what is full within a day
)
TRACE_POINTS: Final = 200
SMALL_TRACE_POINTS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """Pairs of snapshots, by their positions, over which growth can be told."""

    before: Ints
    after: Ints
    seconds: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Bytes in each log dir in each snapshot, NaN where it was not told; its disk's figures as they
    are told now.
    """

    dirs: tuple[tuple[int, str], ...]  # broker id and path, in order
    bytes: Floats  # snapshots x dirs
    figures: tuple[tuple[int | None, int | None], ...]  # total and usable bytes

    @property
    def total(self) -> Floats:
        """Per snapshot over all dirs; NaN where a dir is missing that was there before and came
        back later.
        """
        is_told = np.isfinite(self.bytes)
        was, will = (np.logical_or.accumulate(told, axis=0) for told in (is_told, is_told[::-1]))
        is_missing = was & will[::-1] & ~is_told
        is_whole = ~is_missing.any(axis=1) & is_told.any(axis=1)
        return np.where(is_whole, np.nansum(self.bytes, axis=1), np.nan)


class Timeline:
    """The snapshots from `first` on along the axis of a picture of at most so many points."""

    def __init__(
        self, columns: SeriesColumns, found: Breaks, *, first: int, points: int = TRACE_POINTS
    ) -> None:
        self.points = points
        times = np.array(
            [(at - columns.times[first]).total_seconds() for at in columns.times[first:]]
        )
        self.first = first
        self.seconds = float(times[-1])
        self.places = times / (self.seconds or 1.0)
        self.after_gap = [at - first for at in found.after_gap if at > first]

    def trace(self, values: Floats) -> Trace:
        """Of one value per snapshot, NaN where not known: means over equal lengths of time where
        there are many.
        """
        values = values[self.first :]
        if len(values) <= self.points:
            places = np.insert(self.places, self.after_gap, self.places[self.after_gap])
            return Trace(
                tuple(places.tolist()),
                _known(np.insert(values, self.after_gap, np.nan)),
                self.seconds,
            )
        buckets = np.minimum((self.places * self.points).astype(np.int64), self.points - 1)
        is_known = np.isfinite(values)
        counts = np.bincount(buckets[is_known], minlength=self.points)
        sums = np.bincount(buckets[is_known], weights=values[is_known], minlength=self.points)
        middles = (np.arange(self.points) + 0.5) / self.points
        found = _known(np.where(counts > 0, sums / np.maximum(1, counts), np.nan))
        return Trace(tuple(middles.tolist()), found, self.seconds)


@dataclass(frozen=True, slots=True)
class Growth:
    """Of a cluster's log dirs, all together and one by one."""

    held_bytes: int | None  # of the dirs that are told now
    bytes_per_day: int | None
    watched_seconds: float
    trace: Trace  # of the bytes held, over the whole period
    disks: tuple[DiskForecast, ...]  # the first to fill first


def growth_of(
    log_dir_load: pa.Table, columns: SeriesColumns, found: Breaks, *, first: int
) -> Growth:
    """From rows of LOG_DIR_LOAD of one cluster, over the snapshots from the one at `first` on."""
    held, trend = (
        read_held(log_dir_load, columns, first=first),
        read_trend(columns, found, first=first),
    )
    rate, watched = cluster_growth(held, trend)
    recent = window_start(columns, first=first)
    now = held.bytes[-1]
    return Growth(
        held_bytes=round(float(np.nansum(now))) if np.isfinite(now).any() else None,
        bytes_per_day=None if rate is None else round(rate * DAY),
        watched_seconds=watched,
        trace=Timeline(columns, found, first=first).trace(held.total),
        disks=disks(held, trend, Timeline(columns, found, first=recent, points=SMALL_TRACE_POINTS)),
    )


def read_trend(columns: SeriesColumns, found: Breaks, *, first: int) -> Trend:
    """The pairs of the last two weeks from the snapshot at `first` on; which snapshots are pairs,
    the series says.
    """
    at_of = {snapshot_id: at for at, snapshot_id in enumerate(columns.snapshot_ids) if at >= first}
    since = columns.times[-1] - WINDOW
    pairs = []
    for after, previous_id in enumerate(columns.previous_ids):
        before = at_of.get(previous_id or "", -1)
        now, then = columns.changes[after], columns.changes[before]
        if (
            after < first
            or before < 0
            or now is None
            or then is None
            or columns.times[before] < since
        ):
            continue
        is_moving = (
            now.replica_sets_changed or now.reassigning_partitions or then.reassigning_partitions
        )
        if (
            not (is_moving or now.is_rebuilt or after in found.after_gap)
            and (now.seconds or 0.0) > 0
        ):
            pairs.append((before, after, now.seconds))
    table = np.array(pairs, dtype=np.float64).reshape(-1, 3)
    return Trend(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])


def read_held(log_dir_load: pa.Table, columns: SeriesColumns, *, first: int) -> Held:
    """Of rows of LOG_DIR_LOAD those of the snapshots from `first` on, and of brokers that are
    registered now.
    """
    ids = pa.array(columns.snapshot_ids, pa.string())
    registered = pa.array(
        columns.broker_ids[columns.rows(columns.snapshot_count - 1)].tolist(), pa.int32()
    )
    rows = log_dir_load.append_column("at", pc.index_in(log_dir_load["snapshot_id"], value_set=ids))
    rows = rows.filter(pc.is_in(rows["broker_id"], value_set=registered))
    rows = rows.filter(pc.greater_equal(rows["at"], first)).combine_chunks()
    if not rows.num_rows:
        return Held((), np.zeros((columns.snapshot_count, 0)), ())
    names = rows["log_dir"].combine_chunks().dictionary_encode()
    paths = names.dictionary.to_pylist()
    order = sorted(range(len(paths)), key=lambda code: paths[code])
    rank = np.argsort(np.array(order))[
        np.array(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    ]
    keys = np.array(rows["broker_id"].to_numpy(), dtype=np.int64) * len(paths) + rank
    known, at_dir = np.unique(keys, return_inverse=True)
    dirs = tuple((int(key) // len(paths), paths[order[int(key) % len(paths)]]) for key in known)
    at = np.array(rows["at"].to_numpy(), dtype=np.int64)
    held = np.full((columns.snapshot_count, len(dirs)), np.nan)
    held[at, at_dir] = np.array(rows["held_bytes"].to_numpy(), dtype=np.float64)
    return Held(dirs, held, _figures_now(rows, at, at_dir, columns.snapshot_count - 1, len(dirs)))


def growth_per_second(held: Floats, trend: Trend) -> tuple[Floats, Floats]:
    """Of each column of `held` (snapshots x things): bytes per second, NaN where not known; seconds
    it was watched.
    """
    grown = held[trend.after] - held[trend.before]
    is_known = np.isfinite(grown)
    watched = np.where(is_known, trend.seconds[:, None], 0.0).sum(axis=0)
    sums = np.where(is_known, grown, 0.0).sum(axis=0)
    return np.divide(sums, watched, out=np.full(held.shape[1], np.nan), where=watched > 0), watched


def cluster_growth(held: Held, trend: Trend) -> tuple[float | None, float]:
    """Bytes per second over all log dirs, and for how many seconds it was watched: where the same
    dirs are told.
    """
    is_told = np.isfinite(held.bytes)
    same = (is_told[trend.before] == is_told[trend.after]).all(axis=1) & is_told[trend.after].any(
        axis=1
    )
    sums = np.nansum(held.bytes, axis=1)[:, None]
    (rate,), (watched,) = growth_per_second(
        sums, Trend(trend.before[same], trend.after[same], trend.seconds[same])
    )
    return (float(rate) if np.isfinite(rate) else None), float(watched)


def window_start(columns: SeriesColumns, *, first: int) -> int:
    """The first snapshot of the last two weeks, from the one at `first` on."""
    since = columns.times[-1] - WINDOW
    return next(at for at in range(first, columns.snapshot_count) if columns.times[at] >= since)


def disks(held: Held, trend: Trend, timeline: Timeline) -> tuple[DiskForecast, ...]:
    """Every file system, the one that is full first first."""
    groups = list(_groups(held))
    if not groups:
        return ()
    together = np.stack([held.bytes[:, list(group)].sum(axis=1) for group in groups], axis=1)
    rates, watched = growth_per_second(together, trend)
    forecasts = (
        _forecast(
            held, group, together[:, at], rates[at], watched[at], timeline.trace(together[:, at])
        )
        for at, group in enumerate(groups)
    )
    return tuple(sorted(forecasts, key=_worst_first))


def _known(values: Floats) -> tuple[int | None, ...]:
    return tuple(round(value) if np.isfinite(value) else None for value in values.tolist())


def _figures_now(
    rows: pa.Table, at: Ints, at_dir: Ints, latest: int, count: int
) -> tuple[tuple[int | None, int | None], ...]:
    figures: list[tuple[int | None, int | None]] = [(None, None)] * count
    is_now: Flags = at == latest
    now = rows.filter(pa.array(is_now))
    told = zip(now["total_bytes"].to_pylist(), now["usable_bytes"].to_pylist(), strict=True)
    for position, pair in zip(at_dir[is_now].tolist(), told, strict=True):
        figures[position] = pair
    return tuple(figures)


def _groups(held: Held) -> Iterator[tuple[int, ...]]:
    """Positions of the dirs that share a file system; who does not tell its disk's figures stands
    alone.
    """
    by_broker: dict[int, list[int]] = {}
    for position, (broker_id, _) in enumerate(held.dirs):
        by_broker.setdefault(broker_id, []).append(position)
    for positions in by_broker.values():
        told: list[tuple[int, int]] = []
        known: list[int] = []
        for position in positions:
            total, usable = held.figures[position]
            if total is None or usable is None:
                yield (position,)
            else:
                told.append((total, usable))
                known.append(position)
        yield from (tuple(sorted(known[at] for at in disk)) for disk in by_disk(told))


def _forecast(
    held: Held, group: Sequence[int], series: Floats, rate: float, watched: float, trace: Trace
) -> DiskForecast:
    totals = [total for total, _ in (held.figures[at] for at in group) if total is not None]
    usables = [usable for _, usable in (held.figures[at] for at in group) if usable is not None]
    usable = min(usables, default=None)
    outlook, days_left = _outlook(rate, usable, watched)
    return DiskForecast(
        broker_id=held.dirs[group[0]][0],
        log_dirs=tuple(held.dirs[at][1] for at in group),
        held_bytes=round(series[-1]) if np.isfinite(series[-1]) else None,
        total_bytes=max(totals, default=None),
        usable_bytes=usable,
        bytes_per_day=round(rate * DAY) if np.isfinite(rate) else None,
        watched_seconds=float(watched),
        outlook=outlook,
        days_left=days_left,
        held=trace,
    )


def _outlook(rate: float, usable: int | None, watched: float) -> tuple[Outlook, float | None]:
    """`rate` in bytes per second, NaN where not known."""
    if not np.isfinite(rate) or usable is None:
        return Outlook.NOT_KNOWN, None
    days = usable / (rate * DAY) if rate > 0 else None
    if watched < LEAST_WATCHED and (days is None or days >= 1):
        return Outlook.NOT_KNOWN, None
    if days is None:
        return (Outlook.SHRINKING if rate < 0 else Outlook.NOT_WITHIN_A_YEAR), None
    return (Outlook.FILLS, days) if days <= FARTHEST_DAYS else (Outlook.NOT_WITHIN_A_YEAR, None)


def _worst_first(disk: DiskForecast) -> tuple[object, ...]:
    days = FARTHEST_DAYS if disk.days_left is None else disk.days_left
    return (
        list(Outlook).index(disk.outlook),
        days,
        -(disk.used_share or 0.0),
        disk.broker_id,
        disk.log_dirs,
    )
