"""What rules count over a whole cluster: vectors by broker, matrices of topics by brokers.

    per_broker(snapshot.partitions["leader"], [1, 2, 3])       # [4, 4, 3]: leaders of each
    by_topic(snapshot.partitions, "leader", [1, 2, 3])         # topics x brokers

Columns in, numpy out: a million partitions take a moment. Nothing here judges.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import Ints, floats_of, names_of, positions_in


@dataclass(frozen=True, slots=True, eq=False)
class TopicCounts:
    """How often each broker occurs in a column, by topic."""

    topics: tuple[str, ...]
    counts: Ints  # topics x brokers

    @property
    def totals(self) -> Ints:
        totals: Ints = self.counts.sum(axis=1)
        return totals


def per_broker(
    column: pa.ChunkedArray, broker_ids: Sequence[int], weights: pa.ChunkedArray | None = None
) -> list[int]:
    """Return how often each broker occurs in the column, or the sum of the weights there.

    A null weighs nothing. With the column [3, 1, 3] and `broker_ids` [1, 2, 3] this is [1, 0, 2];
    with the weights [10, 20, null] it is [20, 0, 10].
    """
    indices = positions_in(column, pa.array(broker_ids, pa.int32()))
    is_known = indices >= 0
    known_weights = None
    if weights is not None:
        known_weights = floats_of(pc.fill_null(weights, 0))[is_known]
    sums = np.bincount(indices[is_known], weights=known_weights, minlength=len(broker_ids))
    return [int(value) for value in sums.tolist()]


def by_topic(table: pa.Table, column: str, broker_ids: Sequence[int]) -> TopicCounts:
    """Return how often each broker occurs in `column`, by the topics in the column `topic`.

    Topics that are on none of these brokers have a row of zeros.
    """
    if not table.num_rows or not broker_ids:
        return TopicCounts((), np.zeros((0, len(broker_ids)), np.int64))
    topics, topic_numbers = names_of(table["topic"])
    indices = positions_in(table[column], pa.array(broker_ids, pa.int32()))
    is_known = indices >= 0
    # One number for each pair of topic and broker, so that one count does all of them.
    pairs = topic_numbers[is_known] * len(broker_ids) + indices[is_known]
    counts = np.bincount(pairs, minlength=len(topics) * len(broker_ids))
    matrix = counts.reshape(len(topics), len(broker_ids))
    return TopicCounts(topics, matrix.astype(np.int64))


def newest(table: pa.Table) -> pa.Table:
    """Return the rows of the snapshot that was observed last."""
    return table.filter(pc.equal(table["observed_at"], pc.max(table["observed_at"])))


def preferred(partitions: pa.Table) -> pa.ChunkedArray:
    """Return the first replica of each partition; null where a partition has none."""
    if not partitions.num_rows:
        return pa.chunked_array([[]], pa.int32())
    lists = partitions["replicas"]
    has_replicas = pc.greater(pc.list_value_length(lists), 0)
    if pc.all(has_replicas, min_count=0).as_py():
        return pc.list_element(lists, 0)
    first_replicas = [replicas[0] if replicas else None for replicas in lists.to_pylist()]
    return pa.chunked_array([first_replicas], pa.int32())


def moving(partitions: pa.Table) -> pa.Table:
    """Return the rows of partitions in a reassignment."""
    adding = pc.list_value_length(partitions["adding_replicas"])
    removing = pc.list_value_length(partitions["removing_replicas"])
    return partitions.filter(pc.greater(pc.add(adding, removing), 0))


def bytes_per_broker(
    snapshot: ClusterSnapshot, broker_ids: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the known bytes on each broker, and the number of replicas of unknown size on each."""
    replicas = snapshot.replicas
    unknown = replicas.filter(pc.is_null(replicas["size_bytes"]))
    known_bytes = per_broker(replicas["broker_id"], broker_ids, replicas["size_bytes"])
    return known_bytes, per_broker(unknown["broker_id"], broker_ids)


def idle_since(series: pa.Table, broker_ids: Sequence[int]) -> dict[int, datetime]:
    """Return since when each of these brokers has held no replica, by rows of SERIES.

    With 3, 0, 0 replicas at 10, 11 and 12 o'clock that is 11. Brokers that held some in the newest
    snapshot are left out.
    """
    found: dict[int, datetime] = {}
    for broker_id in broker_ids:
        rows = series.filter(pc.equal(series["broker_id"], broker_id)).sort_by("observed_at")
        times = rows["observed_at"].to_pylist()
        replica_counts = rows["replicas"].to_pylist()
        for observed_at, replicas in zip(reversed(times), reversed(replica_counts), strict=True):
            if replicas:
                break
            found[broker_id] = observed_at
    return found


def moving_since(
    partitions: pa.Table, earlier: Iterable[tuple[datetime, pa.Table]]
) -> dict[TopicPartition, datetime]:
    """Return since when each partition in a reassignment has had the same target.

    `partitions` are those of the present snapshot, `earlier` those of some snapshots before it, the
    newest first; no more of them are read than needed. A partition that none of them shows in the
    same reassignment is left out.
    """
    present = _reassignments(partitions)
    if not present:
        return {}
    since: dict[TopicPartition, datetime] = {}
    unchanged = set(present)
    for observed_at, earlier_partitions in earlier:
        past = _reassignments(earlier_partitions)
        unchanged = {name for name in unchanged if past.get(name) == present[name]}
        since.update(dict.fromkeys(unchanged, observed_at))
        if not unchanged:
            break
    return since


def _reassignments(partitions: pa.Table) -> dict[TopicPartition, tuple[list[int], list[int]]]:
    """Return adding and removing replicas by partition in a reassignment."""
    columns = ["topic", "partition", "adding_replicas", "removing_replicas"]
    return {
        TopicPartition(row["topic"], row["partition"]): (
            row["adding_replicas"],
            row["removing_replicas"],
        )
        for row in moving(partitions).select(columns).to_pylist()
    }
