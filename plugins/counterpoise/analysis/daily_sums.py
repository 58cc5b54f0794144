"""What the tables of single days add up to over a period: leader elections, bytes taken in, and how
unevenly topics were led. They are read one after the other.

    folded(tables, {"topic": TEXT, "seconds": FLOAT64}, keys=("topic",), how={"seconds": "sum"})

Example: days with orders 60 s, orders 30 s and clicks 5 s become orders 90 s and clicks 5 s. No
more than the sums and one table are in memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.topics import SHOWN
from counterpoise.model.balance import Flapping, FlappingPartition, TopicSkew, TopicSkewOverTime
from counterpoise.model.columns import Floats, numbers_of, positions_in
from counterpoise.model.load import BusyPartition, BusyPartitions
from counterpoise.model.tables import INT32, INT64, TEXT, rows_of


def folded(
    tables: Iterable[pa.Table], schema: pa.Schema, keys: Sequence[str], how: Mapping[str, str]
) -> pa.Table:
    """Return one row for each value of `keys`; `how` says what becomes of each other column: `sum`
    or `max`.
    """
    total = schema.empty_table()
    for table in tables:
        rows = pa.concat_tables([total, table.select(schema.names).cast(schema)])
        sums = rows.group_by(list(keys)).aggregate(list(how.items()))
        names = {f"{name}_{function}": name for name, function in how.items()}
        renamed = sums.rename_columns([names.get(name, name) for name in sums.column_names])
        total = renamed.select(schema.names).cast(schema)
    return total


# -- Partitions whose leader changes again and again, by LEADER_CHANGES_DAILY and, of days that have
# no such table yet, LEADER_CHANGES.
#
#     flapping(elections(tables), period, snapshot_count=720).partitions[0].elections
#
# A restart costs a partition two elections: one that takes its leader away, one that brings it
# back. So somebody who restarts each broker once a week sees eight a month, and more than ten are
# flapping; in a longer period as many more.
#
# Limits: an election is told by the leader epoch. A controller of KRaft with a metadata version
# below 3.6 also begins an epoch when a replica leaves the ISR, so there a follower that lags
# counts, too.


_MAX_ELECTIONS: Final = 10  # in a month, or less; more are flapping
_MONTH: Final = timedelta(days=30)
_SHOWN: Final = 20
_ELECTION_SUMS: Final = pa.schema([("topic", TEXT), ("partition", INT32), ("elections", INT64)])


def elections(tables: Iterable[pa.Table]) -> pa.Table:
    """Return `topic`, `partition` and `elections` of each partition that had any.

    An election counts also where no snapshot shows another leader: the leader epoch tells it.
    """
    own = (_elections_of(table) for table in tables)
    return folded(own, _ELECTION_SUMS, ("topic", "partition"), {"elections": "sum"})


def max_elections(period: timedelta) -> int:
    """Return how many elections of a partition are no flapping: 10 in 30 days or less, 20 in 60."""
    return max(_MAX_ELECTIONS, int(_MAX_ELECTIONS * (period / _MONTH)))


def flapping(sums: pa.Table, period: timedelta, *, snapshot_count: int) -> Flapping:
    """Return the partitions with more elections than `max_elections`, those with the most first.

    `snapshot_count` is of the snapshots that the elections are known from.
    """
    limit = max_elections(period)
    often = sums.filter(pc.greater(sums["elections"], limit))
    found = [FlappingPartition(*row) for row in rows_of(often, *_ELECTION_SUMS.names)]
    found.sort(key=lambda one: (-one.elections, one.topic, one.partition))
    by_topic: dict[str, int] = defaultdict(int)
    for one in found:
        by_topic[one.topic] += 1
    topics = sorted(by_topic.items(), key=lambda pair: (-pair[1], pair[0]))
    return Flapping(
        partitions=tuple(found[:_SHOWN]),
        partition_count=len(found),
        topics=tuple(topics[:_SHOWN]),
        snapshot_count=snapshot_count,
        max_elections=limit,
    )


def _elections_of(table: pa.Table) -> pa.Table:
    if "date" in table.column_names:
        return table.select(_ELECTION_SUMS.names)
    epochs = pc.fill_null(table["leader_epochs"], 1).cast(INT64)
    return pa.table([table["topic"], table["partition"], epochs], schema=_ELECTION_SUMS)


# -- The partitions that took in most over a period, by PARTITION_LOAD_DAILY and, of days that have
# no such table yet, PARTITION_LOAD.
#
#     busy_partitions(tables).partitions[0].mean_bytes_in_per_second
#
# A mean is weighed by time. Example: 50 B/s for an hour and 20 B/s for two are 30 B/s. Hours whose
# rate is not known do not count; neither does the leader of the moment.


_LOAD_SUMS: Final = pa.schema(
    [
        ("topic", TEXT),
        ("partition", INT32),
        ("bytes", pa.float64()),
        ("seconds", pa.float64()),
        ("highest", INT64),
        ("at_least", INT64),
    ]
)
_LOAD_HOW: Final = {"bytes": "sum", "seconds": "sum", "highest": "max", "at_least": "sum"}
_LOAD_KEYS: Final = ("topic", "partition")


def busy_partitions(tables: Iterable[pa.Table]) -> BusyPartitions:
    """Return the partitions with the highest means."""
    sums = folded(map(_load_sums_of, tables), _LOAD_SUMS, _LOAD_KEYS, _LOAD_HOW)
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


def _load_sums_of(table: pa.Table) -> pa.Table:
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
    return pa.table([table["topic"], table["partition"], *columns], schema=_LOAD_SUMS)


# -- The topics that were led most unevenly over a period, by TOPIC_BALANCE_DAILY and, of days that
# have no such table yet, TOPIC_BALANCE.
#
#     topic_skew(tables, seconds, live_brokers).topics[0].mean_excess
#
# The excess of a topic is how much max - min of its leaders is above the best that whole partitions
# allow. Example: 3 for an hour and 0 for two are 1 on average, and uneven for a third of the time.
# A snapshot counts for the time since the one before.


_SKEW_SUMS: Final = pa.schema(
    [
        ("topic", TEXT),
        ("seconds", pa.float64()),
        ("uneven_seconds", pa.float64()),
        ("excess_seconds", pa.float64()),
        ("max_excess", INT64),
    ]
)
_SKEW_HOW: Final = {
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
    own = (_skew_sums_of(table, seconds, live_brokers) for table in tables)
    sums = folded(own, _SKEW_SUMS, ("topic",), _SKEW_HOW)
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


def _skew_sums_of(
    table: pa.Table, seconds: Mapping[str, float], live_brokers: Mapping[str, int]
) -> pa.Table:
    if "date" in table.column_names:
        return table.select(_SKEW_SUMS.names)
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
    return pa.table([table["topic"], *map(pa.array, columns)], schema=_SKEW_SUMS)
