"""The series of a cluster: one row per snapshot and broker, with all that is drawn over time.

    series = merged(series, series_rows(broker_balance, broker_load, snapshot_changes))

It is made of results of the Spark jobs, and kept beside them, so that a page needs one file and not
hundreds.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.result_tables import SERIES

_ORDER = [("observed_at", "ascending"), ("snapshot_id", "ascending"), ("broker_id", "ascending")]
_KEYS = ("cluster", "snapshot_id", "observed_at")


def series_rows(
    broker_balance: pa.Table, broker_load: pa.Table, snapshot_changes: pa.Table
) -> pa.Table:
    """SERIES from tables of BROKER_BALANCE, BROKER_LOAD and SNAPSHOT_CHANGES of the same snapshots."""
    by_broker, by_snapshot = ["snapshot_id", "broker_id"], ["snapshot_id"]
    joined = broker_balance.join(
        _without(broker_load, by_broker), keys=by_broker, join_type="left outer"
    )
    joined = joined.join(
        _without(snapshot_changes, by_snapshot), keys=by_snapshot, join_type="left outer"
    )
    return joined.select(SERIES.names).cast(SERIES).sort_by(_ORDER)


def merged(series: pa.Table, newer: pa.Table, known_ids: Collection[str] | None = None) -> pa.Table:
    """Both, in order; of a snapshot in both the rows of `newer`.

    Of `known_ids` only, where they are given.
    """
    replaced = pc.is_in(series["snapshot_id"], value_set=pc.unique(newer["snapshot_id"]))
    both = pa.concat_tables([series.filter(pc.invert(replaced)), newer])
    if known_ids is not None:
        both = both.filter(
            pc.is_in(both["snapshot_id"], value_set=pa.array(sorted(known_ids), pa.string()))
        )
    return both.sort_by(_ORDER)


def _without(table: pa.Table, keys: list[str]) -> pa.Table:
    """Without the columns that the other side of the join has, but for the keys."""
    return table.drop_columns([name for name in _KEYS if name not in keys])
