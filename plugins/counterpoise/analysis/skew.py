"""The topics that were led most unevenly over a period, by TOPIC_BALANCE_DAILY and, of days that
have no such table yet, TOPIC_BALANCE.

    topic_skew(tables, seconds, live_brokers).topics[0].mean_excess

The excess of a topic is how much max - min of its leaders is above the best that whole partitions
allow. Example: 3 for an hour and 0 for two are 1 on average, and uneven for a third of the time. A
snapshot counts for the time since the one before.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.folding import folded
from counterpoise.analysis.topics import SHOWN
from counterpoise.model.balance import TopicSkew, TopicSkewOverTime
from counterpoise.model.columns import Floats, numbers_of, positions_in
from counterpoise.model.tables import INT64, TEXT

_SUMS: Final = pa.schema(
    [
        ("topic", TEXT),
        ("seconds", pa.float64()),
        ("uneven_seconds", pa.float64()),
        ("excess_seconds", pa.float64()),
        ("max_excess", INT64),
    ]
)
_HOW: Final = {
    "seconds": "sum",
    "uneven_seconds": "sum",
    "excess_seconds": "sum",
    "max_excess": "max",
}


def topic_skew(
    tables: Iterable[pa.Table],
    seconds: Mapping[str, float],
    live_brokers: Mapping[str, int],
) -> TopicSkewOverTime:
    """Return the topics with the highest mean excess.

    `seconds` and `live_brokers` are by snapshot id, for rows of TOPIC_BALANCE.
    """
    own = (_sums_of(table, seconds, live_brokers) for table in tables)
    sums = folded(own, _SUMS, ("topic",), _HOW)
    sums = sums.append_column("mean", pc.divide(sums["excess_seconds"], sums["seconds"]))
    uneven = sums.filter(pc.greater(sums["max_excess"], 0))
    shown = uneven.sort_by([("mean", "descending"), ("topic", "ascending")]).slice(0, SHOWN)
    return TopicSkewOverTime(
        topics=tuple(
            TopicSkew(
                topic=row["topic"],
                mean_excess=row["mean"],
                max_excess=row["max_excess"],
                uneven_share=row["uneven_seconds"] / row["seconds"],
            )
            for row in shown.to_pylist()
        ),
        uneven_topic_count=uneven.num_rows,
        topic_count=sums.num_rows,
        seconds=pc.max(sums["seconds"]).as_py() or 0.0,
    )


def _sums_of(
    table: pa.Table, seconds: Mapping[str, float], live_brokers: Mapping[str, int]
) -> pa.Table:
    if "date" in table.column_names:
        return table.select(_SUMS.names)
    known = {one: live for one, live in live_brokers.items() if seconds.get(one)}
    table = table.filter(pc.is_in(table["snapshot_id"], value_set=pa.array([*known], TEXT)))
    position = positions_in(table["snapshot_id"], pa.array([*known], TEXT))
    lasted = np.array([seconds[one] for one in known], dtype=np.float64)[position]
    live = np.array([*known.values()], dtype=np.int64)[position]
    counts = numbers_of(table["partition_count"])
    best = np.where(live > 0, counts % np.maximum(live, 1) > 0, 0)
    spread = numbers_of(table["most_leaders"]) - numbers_of(table["fewest_leaders"])
    excess = np.maximum(0, spread - best)
    uneven: Floats = np.where(excess > 0, lasted, 0.0)
    columns = [lasted, uneven, excess * lasted, excess]
    return pa.table([table["topic"], *map(pa.array, columns)], schema=_SUMS)
