"""The series of a cluster: one row per snapshot and broker, with all that pages draw over time.

    newer = series_rows(broker_balance, broker_load, snapshot_changes, leader_changes)
    series = each_once([series, newer])

It joins the results of the Spark jobs and is stored beside them, so that a page reads one file
instead of hundreds.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.balance import SnapshotChanges
from counterpoise.model.columns import (
    Flags,
    Floats,
    Ints,
    flags_of,
    floats_of,
    names_of,
    numbers_of,
    positions_in,
)
from counterpoise.model.intervals import GAP, MIN_INTERVALS, usual_lately
from counterpoise.model.tables import SERIES

_ORDER = [("observed_at", "ascending"), ("snapshot_id", "ascending"), ("broker_id", "ascending")]
_KEYS = ("cluster", "snapshot_id", "observed_at")
_COMPARED = ("snapshot_id", "previous_snapshot_id")


def series_rows(
    broker_balance: pa.Table,
    broker_load: pa.Table,
    snapshot_changes: pa.Table,
    leader_changes: pa.Table,
) -> pa.Table:
    """Return SERIES from the four tables of the same snapshots."""
    by_broker, by_snapshot = ["snapshot_id", "broker_id"], ["snapshot_id"]
    loads = _without_shared_columns(broker_load, by_broker)
    changes = _without_shared_columns(snapshot_changes, by_snapshot)
    joined = broker_balance.join(loads, keys=by_broker, join_type="left outer")
    joined = joined.join(changes, keys=by_snapshot, join_type="left outer")
    for gone in (_leaders_lost(leader_changes), _leaders_handed_back(leader_changes)):
        joined = joined.join(gone, keys=by_broker, join_type="left outer")
    return joined.select(SERIES.names).cast(SERIES).sort_by(_ORDER)


def _leaders_lost(leader_changes: pa.Table) -> pa.Table:
    """Return `leaders_lost` of SERIES by snapshot and broker, from LEADER_CHANGES.

    A leader that is the same after two elections or more was another one in between.
    """
    kind, before, now = (leader_changes[name] for name in ("kind", "leader_before", "leader"))
    is_other = pc.and_(pc.equal(kind, "other"), pc.not_equal(now, before))
    is_back = pc.greater_equal(leader_changes["leader_epochs"], 2)
    is_back = pc.and_kleene(pc.equal(kind, "returned"), is_back)
    return _by_leader_before(leader_changes, pc.or_kleene(is_other, is_back), "leaders_lost")


def _leaders_handed_back(leader_changes: pa.Table) -> pa.Table:
    """Return `leaders_handed_back` of SERIES by snapshot and broker, from LEADER_CHANGES."""
    is_handed_back = pc.equal(leader_changes["kind"], "preferred_election")
    return _by_leader_before(leader_changes, is_handed_back, "leaders_handed_back")


def _by_leader_before(leader_changes: pa.Table, is_wanted: pa.ChunkedArray, name: str) -> pa.Table:
    """Count the wanted rows by snapshot and the broker that led before, as the column `name`."""
    wanted = leader_changes.filter(is_wanted)
    counts = wanted.group_by(["snapshot_id", "leader_before"]).aggregate([("kind", "count")])
    names = {"leader_before": "broker_id", "kind_count": name}
    return counts.rename_columns([names.get(name, name) for name in counts.column_names])


def each_once(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables of a view by time, each snapshot from one of them: where it was
    compared with the latest snapshot, and of those from the last table.
    """
    best: dict[str, tuple[str, int]] = {}
    for number, table in enumerate(tables):
        for snapshot_id, previous_id in compared_snapshots(table):
            place = (previous_id or "", number)
            best[snapshot_id] = max(place, best.get(snapshot_id, place))
    chosen = []
    for number, table in enumerate(tables):
        ids = [snapshot_id for snapshot_id, place in best.items() if place[1] == number]
        wanted = pa.array(ids, pa.string())
        chosen.append(table.filter(pc.is_in(table["snapshot_id"], value_set=wanted)))
    return pa.concat_tables(chosen).sort_by(_ORDER)


def compared_snapshots(rows: pa.Table) -> list[tuple[str, str | None]]:
    """Return each snapshot of a view with the one that it was compared with, where that matters."""
    names = [name for name in _COMPARED if name in rows.column_names]
    distinct = rows.select(names).group_by(names).aggregate([])
    columns = [distinct[name].to_pylist() for name in names]
    previous = columns[1] if len(columns) > 1 else [None] * distinct.num_rows
    return list(zip(columns[0], previous, strict=True))


def _without_shared_columns(table: pa.Table, keys: list[str]) -> pa.Table:
    """Drop the columns that the other side of the join has too, except the keys."""
    return table.drop_columns([name for name in _KEYS if name not in keys])


# -- The rows of SERIES as numpy columns: what balance, events and heat maps of one cluster are
# computed from.
#
#     columns = read_series(series, cluster="demo", since=None, until=None)
#     columns.leaders[columns.rows(7)]      # of the brokers of the eighth snapshot
#
# Ordered by time, snapshot id and broker id, whatever the order of the rows; a row that is there
# twice counts once.
#
# A figure that a page only shows needs no column here: `rows_for` reads it from `table` into the
# field of the same name.


NO_RACK: Final = -1
# Intervals to either side that define what is usual there: old snapshots may be thinned out.
_NEIGHBOURS: Final = 5


@dataclass(frozen=True, slots=True)
class Breaks:
    """Snapshots by index: those after a gap, and the first ones of another cluster."""

    after_gap: tuple[int, ...]
    # May have the first snapshot: it followed one that is not in the period.
    rebuilt: tuple[int, ...]

    @property
    def positions(self) -> tuple[int, ...]:
        """Return where lines break."""
        return tuple(sorted({*self.after_gap, *self.rebuilt} - {0}))


@dataclass(frozen=True, eq=False)
class SeriesColumns:
    """One row per snapshot and registered broker, and one per snapshot."""

    table: pa.Table  # the rows of SERIES, in order
    broker_ids: Ints
    racks: Ints  # a position in `rack_names`; NO_RACK for none
    is_live: Flags
    leaders: Ints
    preferred_leaders: Ints
    leaders_not_preferred: Ints
    leaders_lost: Ints  # 0 where not known
    leaders_handed_back: Ints  # the same
    replicas: Ints
    bytes: Ints
    bytes_in: Floats  # per second, as leader; NaN where not known, 0 for who leads nothing
    rack_names: tuple[str, ...]  # by name

    starts: Ints  # the first row of each snapshot, and the number of rows at the end
    snapshot_ids: tuple[str, ...]
    times: tuple[datetime, ...]  # UTC
    cluster_ids: tuple[str | None, ...]
    previous_ids: tuple[str | None, ...]
    changes: tuple[SnapshotChanges | None, ...]

    @property
    def snapshot_count(self) -> int:
        return len(self.snapshot_ids)

    def rows(self, snapshot: int) -> slice:
        return slice(int(self.starts[snapshot]), int(self.starts[snapshot + 1]))

    @cached_property
    def breaks(self) -> Breaks:
        """Return where the series cannot be joined."""
        rebuilt = [index for index in range(self.snapshot_count) if self._is_rebuilt(index)]
        lengths = zip(self._seconds, self.usual_seconds, strict=True)
        gaps = [index for index, (length, usual) in enumerate(lengths, 1) if length > GAP * usual]
        return Breaks(tuple(gaps), tuple(rebuilt))

    def _is_rebuilt(self, index: int) -> bool:
        changes = self.changes[index]
        if changes is not None and changes.is_rebuilt:
            return True
        before = self.cluster_ids[index - 1] if index else None
        now = self.cluster_ids[index]
        return before is not None and now is not None and before != now

    @cached_property
    def first(self) -> int:
        """Return the first snapshot since the cluster was last rebuilt."""
        return max(self.breaks.rebuilt, default=0)

    @cached_property
    def _seconds(self) -> list[float]:
        """Return the time between each snapshot and the next one."""
        return [(after - before).total_seconds() for before, after in pairwise(self.times)]

    @cached_property
    def usual_seconds(self) -> list[float]:
        """Return the usual interval for each one, in seconds: the median of all, or that of the
        neighbours before or after it, or `usual_lately`, where it is larger.

        So snapshots that were thinned out (one a day for last year) are no gaps, although those of
        today come by the hour: of ten intervals of 24 hours and then twenty of 1 hour the median is
        1, but for each of the first ten the usual interval is 24.
        """
        seconds = self._seconds
        overall = median(seconds or [0.0])
        usual = []
        for index in range(len(seconds)):
            earlier = seconds[max(0, index - _NEIGHBOURS) : index]
            later = seconds[index + 1 : index + 1 + _NEIGHBOURS]
            lately = usual_lately(seconds[max(0, index + 1 - MIN_INTERVALS) : index + 1])
            usual.append(max(overall, median(earlier or [0.0]), median(later or [0.0]), lately))
        return usual

    def between(self, since: datetime | None, until: datetime | None) -> "SeriesColumns":
        """Return the snapshots with since <= observed_at < until, None for without limit."""
        begin = 0 if since is None else bisect_left(self.times, since)
        end = self.snapshot_count if until is None else bisect_left(self.times, until)
        snapshots = slice(begin, max(begin, end))
        starts = self.starts[begin : snapshots.stop + 1]
        rows = slice(int(starts[0]), int(starts[-1]))
        by_row = {name: getattr(self, name)[rows] for name in _BY_ROW}
        by_snapshot = {name: getattr(self, name)[snapshots] for name in _BY_SNAPSHOT}
        table = self.table.slice(rows.start, rows.stop - rows.start)
        return replace(self, table=table, starts=starts - rows.start, **by_row, **by_snapshot)

    def latest_id(
        self, until: datetime | None = None, *, among: Collection[str] | None = None
    ) -> str | None:
        """Return the newest snapshot, or the newest before `until`; only of those `among`, if
        given. None without any.
        """
        ids = self.between(None, until).snapshot_ids
        known = ids if among is None else [one for one in ids if one in among]
        return known[-1] if known else None

    @property
    def latest(self) -> pa.Table:
        """Return the rows of SERIES of the latest snapshot, by broker id."""
        rows = self.rows(self.snapshot_count - 1)
        return self.table.slice(rows.start, rows.stop - rows.start)

    def rack_name(self, rack: int) -> str | None:
        return None if rack == NO_RACK else self.rack_names[rack]


# Whoever wants several figures of a cluster reads its table once, and hands on the columns.
Series: TypeAlias = pa.Table | SeriesColumns
_BY_ROW: Final = (
    *("broker_ids", "racks", "is_live", "leaders", "preferred_leaders", "leaders_not_preferred"),
    *("leaders_lost", "leaders_handed_back", "replicas", "bytes", "bytes_in"),
)
_BY_SNAPSHOT: Final = ("snapshot_ids", "times", "cluster_ids", "previous_ids", "changes")


def read_series(
    series: Series, *, cluster: str, since: datetime | None = None, until: datetime | None = None
) -> SeriesColumns:
    """Return the rows of `cluster` with since <= observed_at < until, None for without limit."""
    if isinstance(series, SeriesColumns):
        return series.between(since, until)
    table = _in_order(_wanted(series, cluster, since, until).combine_chunks())
    racks, rack_names = _racks(table["rack"])
    leaders = numbers_of(table["leaders"])
    inflow = floats_of(table["leader_bytes_in_per_second"])
    ids, starts = _snapshots(table)
    firsts = table.take(pa.array(starts[:-1]))
    return SeriesColumns(
        table=table,
        broker_ids=numbers_of(table["broker_id"]),
        racks=racks,
        is_live=~flags_of(table["is_fenced"]),
        leaders=leaders,
        preferred_leaders=numbers_of(table["preferred_leaders"]),
        leaders_not_preferred=numbers_of(table["leaders_not_preferred"]),
        leaders_lost=numbers_of(pc.fill_null(table["leaders_lost"], 0)),
        leaders_handed_back=numbers_of(pc.fill_null(table["leaders_handed_back"], 0)),
        replicas=numbers_of(table["replicas"]),
        bytes=numbers_of(table["bytes"]),
        bytes_in=np.where(leaders == 0, 0.0, inflow),
        rack_names=rack_names,
        starts=starts,
        snapshot_ids=ids,
        times=tuple(firsts["observed_at"].to_pylist()),
        cluster_ids=tuple(firsts["cluster_id"].to_pylist()),
        previous_ids=tuple(firsts["previous_snapshot_id"].to_pylist()),
        changes=_changes(firsts),
    )


def rows_for(type_: type, table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table with those columns that are fields of the dataclass `type_`."""
    names = [field.name for field in fields(type_) if field.name in table.column_names]
    rows: list[dict[str, Any]] = table.select(names).to_pylist()
    return rows


def _wanted(
    series: pa.Table, cluster: str, since: datetime | None, until: datetime | None
) -> pa.Table:
    is_wanted = pc.equal(series["cluster"], cluster)
    if since is not None:
        is_wanted = pc.and_(is_wanted, pc.greater_equal(series["observed_at"], _instant(since)))
    if until is not None:
        is_wanted = pc.and_(is_wanted, pc.less(series["observed_at"], _instant(until)))
    return series.filter(is_wanted)


def _instant(time: datetime) -> pa.Scalar:
    return pa.scalar(time, pa.timestamp("us", tz="UTC"))


def _in_order(table: pa.Table) -> pa.Table:
    """Sort by time, snapshot id and broker id; of several rows for the same three the last one
    stays.
    """
    times = numbers_of(table["observed_at"])
    ids, id_indexes = names_of(table["snapshot_id"])
    rank = np.argsort(np.argsort(np.array(ids, dtype=object)))
    snapshots = rank[id_indexes]
    brokers = numbers_of(table["broker_id"])
    order = np.lexsort((brokers, snapshots, times))
    following = np.roll(order, -1)
    is_last = (snapshots[order] != snapshots[following]) | (brokers[order] != brokers[following])
    if len(order):
        is_last[-1] = True
    kept = order[is_last]
    is_in_order = np.array_equal(kept, np.arange(table.num_rows))  # as the views are kept
    return table if is_in_order else table.take(pa.array(kept))


def _snapshots(table: pa.Table) -> tuple[tuple[str, ...], Ints]:
    """Return the snapshot ids, and the first row of each."""
    ids, id_indexes = names_of(table["snapshot_id"])
    starts = np.flatnonzero(np.diff(id_indexes, prepend=-1))
    ordered_ids = tuple(ids[index] for index in id_indexes[starts])
    return ordered_ids, np.append(starts, len(id_indexes)).astype(np.int64)


def _racks(column: pa.ChunkedArray) -> tuple[Ints, tuple[str, ...]]:
    names = sorted(set(column.drop_null().unique().to_pylist()))
    return positions_in(column, pa.array(names, pa.string())), tuple(names)


def _changes(firsts: pa.Table) -> tuple[SnapshotChanges | None, ...]:
    """Return the changes, None where the counts are null: nobody compared that snapshot."""
    return tuple(
        SnapshotChanges(**row) if row["partitions"] is not None else None
        for row in rows_for(SnapshotChanges, firsts)
    )
