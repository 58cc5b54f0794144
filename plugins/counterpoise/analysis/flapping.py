"""Partitions whose leader changes again and again, by LEADER_CHANGES_DAILY and, of days that have
no such table yet, LEADER_CHANGES.

    flapping(elections(tables), period, snapshot_count=720).partitions[0].elections

A restart costs a partition two elections: one that takes its leader away, one that brings it back.
So somebody who restarts each broker once a week sees eight a month, and more than ten are flapping;
in a longer period as many more.

Limits: an election is told by the leader epoch. A controller of KRaft with a metadata version below
3.6 also begins an epoch when a replica leaves the ISR, so there a follower that lags counts, too.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.folding import folded
from counterpoise.model.balance import Flapping, FlappingPartition
from counterpoise.model.tables import INT32, INT64, TEXT, rows_of

_MAX_ELECTIONS: Final = 10  # in a month, or less; more are flapping
_MONTH: Final = timedelta(days=30)
_SHOWN: Final = 20
_SUMS: Final = pa.schema([("topic", TEXT), ("partition", INT32), ("elections", INT64)])


def elections(tables: Iterable[pa.Table]) -> pa.Table:
    """Return `topic`, `partition` and `elections` of each partition that had any.

    An election counts also where no snapshot shows another leader: the leader epoch tells it.
    """
    own = (_elections_of(table) for table in tables)
    return folded(own, _SUMS, ("topic", "partition"), {"elections": "sum"})


def max_elections(period: timedelta) -> int:
    """Return how many elections of a partition are no flapping: 10 in 30 days or less, 20 in 60."""
    return max(_MAX_ELECTIONS, int(_MAX_ELECTIONS * (period / _MONTH)))


def flapping(sums: pa.Table, period: timedelta, *, snapshot_count: int) -> Flapping:
    """Return the partitions with more elections than `max_elections`, those with the most first.

    `snapshot_count` is of the snapshots that the elections are known from.
    """
    limit = max_elections(period)
    often = sums.filter(pc.greater(sums["elections"], limit))
    found = [FlappingPartition(*row) for row in rows_of(often, *_SUMS.names)]
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
        return table.select(_SUMS.names)
    epochs = pc.fill_null(table["leader_epochs"], 1).cast(INT64)
    return pa.table([table["topic"], table["partition"], epochs], schema=_SUMS)
