"""The partitions that took in most over a period, by PARTITION_LOAD_DAILY and, of days that have no
such table yet, PARTITION_LOAD.

    busy_partitions(tables).partitions[0].mean_bytes_in_per_second

A mean is weighed by time. Example: 50 B/s for an hour and 20 B/s for two are 30 B/s. Hours whose
rate is not known do not count; neither does the leader of the moment.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.folding import folded
from counterpoise.analysis.topics import SHOWN
from counterpoise.model.load import BusyPartition, BusyPartitions
from counterpoise.model.tables import INT32, INT64, TEXT

_DAY_SECONDS: Final = 86_400.0
_SUMS: Final = pa.schema(
    [
        ("topic", TEXT),
        ("partition", INT32),
        ("bytes", pa.float64()),
        ("seconds", pa.float64()),
        ("highest", INT64),
        ("at_least", INT64),
    ]
)
_HOW: Final = {"bytes": "sum", "seconds": "sum", "highest": "max", "at_least": "sum"}
_KEYS: Final = ("topic", "partition")


def busy_partitions(tables: Iterable[pa.Table]) -> BusyPartitions:
    """Return the partitions with the highest means."""
    sums = folded(map(_sums_of, tables), _SUMS, _KEYS, _HOW)
    sums = sums.append_column("mean", pc.divide(sums["bytes"], sums["seconds"]))
    order = [("mean", "descending"), ("topic", "ascending"), ("partition", "ascending")]
    total = pc.sum(sums["bytes"]).as_py() or 0.0
    is_bound = bool(pc.any(pc.greater(sums["at_least"], 0)).as_py())
    shown = sums.filter(pc.greater(sums["bytes"], 0)).sort_by(order).slice(0, SHOWN)
    found = [
        BusyPartition(
            topic=row["topic"],
            partition=row["partition"],
            mean_bytes_in_per_second=round(row["mean"]),
            highest_bytes_in_per_second=row["highest"],
            share=row["bytes"] / total if total else 0.0,
            is_at_least=row["at_least"] > 0,
        )
        for row in shown.to_pylist()
    ]
    return BusyPartitions(tuple(found), is_bound)


def _sums_of(table: pa.Table) -> pa.Table:
    if "date" in table.column_names:
        seconds = table["seconds"]
        rate, highest = table["mean_bytes_in_per_second"], table["max_bytes_in_per_second"]
        at_least = table["samples_at_least"]
    else:
        is_known = pc.and_(
            pc.is_valid(table["bytes_in_per_second"]),
            pc.fill_null(pc.greater(table["seconds"], 0), False),
        )
        table = table.filter(is_known)
        seconds, rate = table["seconds"], table["bytes_in_per_second"]
        highest = rate
        at_least = pc.equal(table["how"], "at_least").cast(INT64)
    columns = [pc.multiply(rate.cast(pa.float64()), seconds), seconds, highest, at_least]
    return pa.table([table["topic"], table["partition"], *columns], schema=_SUMS)
