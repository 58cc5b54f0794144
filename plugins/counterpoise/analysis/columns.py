"""The rows of SERIES as numpy columns: what balance, events and heat maps of one cluster are
computed from.

    columns = read_series(series, cluster="demo", since=None, until=None)
    columns.leaders[columns.rows(7)]      # of the brokers of the eighth snapshot

Ordered by time, snapshot id and broker id, whatever the order of the rows; a row that is there
twice counts once.

A figure that a page only shows needs no column here: `rows_for` reads it from `table` into the
field of the same name.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.model.events import SnapshotChanges

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

NO_RACK: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class SeriesColumns:
    """One row per snapshot and registered broker, and one per snapshot."""

    table: pa.Table  # the rows of SERIES, in order
    broker_ids: Ints
    racks: Ints  # a position in `rack_names`; NO_RACK for none
    is_live: Flags
    leaders: Ints
    preferred_leaders: Ints
    leaders_not_preferred: Ints
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

    def rack_name(self, rack: int) -> str | None:
        return None if rack == NO_RACK else self.rack_names[rack]


def read_series(
    series: pa.Table, *, cluster: str, since: datetime | None, until: datetime | None
) -> SeriesColumns:
    """Return the rows of `cluster` with since <= observed_at < until, None for without limit."""
    table = _in_order(_wanted(series, cluster, since, until).combine_chunks())
    racks, rack_names = _racks(table["rack"])
    leaders = _ints(table["leaders"])
    inflow = np.array(table["leader_bytes_in_per_second"].cast(pa.float64(), safe=False).to_numpy())
    ids, starts = _snapshots(table)
    firsts = table.take(pa.array(starts[:-1]))
    return SeriesColumns(
        table=table,
        broker_ids=_ints(table["broker_id"]),
        racks=racks,
        is_live=~np.array(table["is_fenced"].to_numpy(), dtype=np.bool_),
        leaders=leaders,
        preferred_leaders=_ints(table["preferred_leaders"]),
        leaders_not_preferred=_ints(table["leaders_not_preferred"]),
        replicas=_ints(table["replicas"]),
        bytes=_ints(table["bytes"]),
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
    times = np.array(table["observed_at"].cast(pa.int64()).to_numpy())
    names = table["snapshot_id"].combine_chunks().dictionary_encode()
    rank = np.argsort(np.argsort(np.array(names.dictionary.to_pylist(), dtype=object)))
    snapshots = rank[np.array(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64)]
    brokers = _ints(table["broker_id"])
    order = np.lexsort((brokers, snapshots, times))
    following = np.roll(order, -1)
    is_last = (snapshots[order] != snapshots[following]) | (brokers[order] != brokers[following])
    if len(order):
        is_last[-1] = True
    return table.take(pa.array(order[is_last]))


def _snapshots(table: pa.Table) -> tuple[tuple[str, ...], Ints]:
    """Return the snapshot ids, and the first row of each."""
    names = table["snapshot_id"].combine_chunks().dictionary_encode()
    codes = np.array(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    ids = names.dictionary.to_pylist()
    return tuple(ids[code] for code in codes[starts]), np.append(starts, len(codes)).astype(
        np.int64
    )


def _racks(column: pa.ChunkedArray) -> tuple[Ints, tuple[str, ...]]:
    names = sorted(set(column.drop_null().unique().to_pylist()))
    found = pc.fill_null(pc.index_in(column, value_set=pa.array(names, pa.string())), NO_RACK)
    return _ints(found), tuple(names)


def _changes(firsts: pa.Table) -> tuple[SnapshotChanges | None, ...]:
    """Return the changes, None where the counts are null: nobody compared that snapshot."""
    return tuple(
        SnapshotChanges(**row) if row["partitions"] is not None else None
        for row in rows_for(SnapshotChanges, firsts)
    )


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.array(column.to_numpy(), dtype=np.int64)
