"""Partitions whose leader changes again and again, by LEADER_CHANGES of a period.

    flapping(leader_changes, snapshot_count=720).partitions[0].elections

A restart costs a partition two elections: one that takes its leader away, one that brings it back.
So somebody who restarts each broker once a week sees eight a month, and more than ten are flapping.
"""

from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.balance import Flapping, FlappingPartition
from counterpoise.model.tables import rows_of

MAX_ELECTIONS: Final = 10  # in a period; more are flapping
_SHOWN: Final = 20


def flapping(leader_changes: pa.Table, *, snapshot_count: int) -> Flapping:
    """Return the partitions with more elections than MAX_ELECTIONS, those with the most first.

    An election counts also where no snapshot shows another leader: the leader epoch tells it.
    `snapshot_count` is of the snapshots that the rows are of.
    """
    epochs = pc.fill_null(leader_changes["leader_epochs"], 1)
    counted = leader_changes.select(["topic", "partition"]).append_column("epochs", epochs)
    sums = counted.group_by(["topic", "partition"]).aggregate([("epochs", "sum")])
    often = sums.filter(pc.greater(sums["epochs_sum"], MAX_ELECTIONS))
    found = [
        FlappingPartition(topic, partition, elections)
        for topic, partition, elections in rows_of(often, "topic", "partition", "epochs_sum")
    ]
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
        max_elections=MAX_ELECTIONS,
    )
