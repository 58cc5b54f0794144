"""The series of a cluster: one row per snapshot and broker, with all that pages draw over time.

    series = merged(series, series_rows(broker_balance, broker_load, snapshot_changes))

It joins the results of the Spark jobs and is stored beside them, so that a page reads one file
instead of hundreds.
"""

from collections.abc import Collection
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.result_tables import SERIES

_ORDER = [("observed_at", "ascending"), ("snapshot_id", "ascending"), ("broker_id", "ascending")]
_KEYS = ("cluster", "snapshot_id", "observed_at")


def series_rows(
    broker_balance: pa.Table, broker_load: pa.Table, snapshot_changes: pa.Table
) -> pa.Table:
    """Return SERIES from the three tables of the same snapshots."""
    by_broker, by_snapshot = ["snapshot_id", "broker_id"], ["snapshot_id"]
    loads = _without_shared_columns(broker_load, by_broker)
    changes = _without_shared_columns(snapshot_changes, by_snapshot)
    joined = broker_balance.join(loads, keys=by_broker, join_type="left outer")
    joined = joined.join(changes, keys=by_snapshot, join_type="left outer")
    return joined.select(SERIES.names).cast(SERIES).sort_by(_ORDER)


def merged(series: pa.Table, newer: pa.Table, known_ids: Collection[str] | None = None) -> pa.Table:
    """Return the rows of both, in order; of a snapshot that is in both the rows of `newer`.

    With `known_ids`, only the rows of these snapshots.
    """
    is_replaced = pc.is_in(series["snapshot_id"], value_set=pc.unique(newer["snapshot_id"]))
    both = pa.concat_tables([series.filter(pc.invert(is_replaced)), newer])
    if known_ids is not None:
        ids = pa.array(sorted(known_ids), pa.string())
        both = both.filter(pc.is_in(both["snapshot_id"], value_set=ids))
    return both.sort_by(_ORDER)


def latest_snapshot_id(series: pa.Table, until: datetime | None = None) -> str | None:
    """Return the newest snapshot of a series, or the newest before `until`; None without any."""
    if until is not None:
        end = pa.scalar(until, series.schema.field("observed_at").type)
        series = series.filter(pc.less(series["observed_at"], end))
    return str(series["snapshot_id"][-1].as_py()) if series.num_rows else None


def _without_shared_columns(table: pa.Table, keys: list[str]) -> pa.Table:
    """Drop the columns that the other side of the join has too, except the keys."""
    return table.drop_columns([name for name in _KEYS if name not in keys])
