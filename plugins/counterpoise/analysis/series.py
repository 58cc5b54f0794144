"""The series of a cluster: one row per snapshot and broker, with all that pages draw over time.

    newer = series_rows(broker_balance, broker_load, snapshot_changes, leader_changes)
    series = each_once([series, newer])

It joins the results of the Spark jobs and is stored beside them, so that a page reads one file
instead of hundreds.
"""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

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


def each_once(tables: Sequence[pa.Table], first: Sequence[pa.Table] = ()) -> pa.Table:
    """Return the rows of all tables of a view by time, each snapshot from one of them.

    A snapshot that is in `first` is taken from there; else where it was compared with the latest
    snapshot, and of those from the last table.
    """
    everything = [*tables, *first]
    best: dict[str, tuple[bool, str, int]] = {}
    for number, table in enumerate(everything):
        for snapshot_id, previous_id in compared_snapshots(table):
            place = (number >= len(tables), previous_id or "", number)
            best[snapshot_id] = max(place, best.get(snapshot_id, place))
    chosen = []
    for number, table in enumerate(everything):
        ids = [snapshot_id for snapshot_id, place in best.items() if place[2] == number]
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


def latest_snapshot_id(series: pa.Table, until: datetime | None = None) -> str | None:
    """Return the newest snapshot of a series, or the newest before `until`; None without any."""
    if until is not None:
        end = pa.scalar(until, series.schema.field("observed_at").type)
        series = series.filter(pc.less(series["observed_at"], end))
    return str(series["snapshot_id"][-1].as_py()) if series.num_rows else None


def _without_shared_columns(table: pa.Table, keys: list[str]) -> pa.Table:
    """Drop the columns that the other side of the join has too, except the keys."""
    return table.drop_columns([name for name in _KEYS if name not in keys])
