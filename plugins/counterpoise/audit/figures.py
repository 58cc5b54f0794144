"""What rules count over a whole cluster: vectors per broker, topics by brokers, partitions that
move.

    per_broker(snapshot.partitions["leader"], live)      # leaders of each broker, in the order of `live`
    by_topic(snapshot.partitions, "leader", live)        # topics x brokers

Columns in, numpy out: a million partitions take a moment. Nothing here judges.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Ints


@dataclass(frozen=True, slots=True, eq=False)
class TopicCounts:
    """How often each broker stands in a column, by topic."""

    topics: tuple[str, ...]
    counts: Ints  # topics x brokers

    @property
    def totals(self) -> Ints:
        found: Ints = self.counts.sum(axis=1)
        return found


def positions(column: pa.ChunkedArray | pa.Array, broker_ids: Sequence[int]) -> Ints:
    """Where each value stands in `broker_ids`; -1 for others and for nulls."""
    found = pc.fill_null(pc.index_in(column, value_set=pa.array(broker_ids, pa.int32())), -1)
    return np.asarray(
        found.to_numpy(zero_copy_only=False) if isinstance(found, pa.Array) else found.to_numpy(),
        np.int64,
    )


def per_broker(
    column: pa.ChunkedArray, broker_ids: Sequence[int], weights: pa.ChunkedArray | None = None
) -> list[int]:
    """How often each broker stands in the column, or the sum of the weights there; a null weighs
    nothing.
    """
    at = positions(column, broker_ids)
    is_known = at >= 0
    if weights is None:
        found = np.bincount(at[is_known], minlength=len(broker_ids))
    else:
        weighed = np.asarray(pc.fill_null(weights, 0).to_numpy(), np.float64)
        found = np.bincount(at[is_known], weights=weighed[is_known], minlength=len(broker_ids))
    return [int(value) for value in found.tolist()]


def by_topic(table: pa.Table, column: str, broker_ids: Sequence[int]) -> TopicCounts:
    """`table` has a column `topic`; every topic in it has a row, also one on none of these brokers."""
    if not table.num_rows or not broker_ids:
        return TopicCounts((), np.zeros((0, len(broker_ids)), np.int64))
    names, codes = topic_codes(table["topic"])
    at = positions(table[column], broker_ids)
    is_known = at >= 0
    flat = np.bincount(
        codes[is_known] * len(broker_ids) + at[is_known], minlength=len(names) * len(broker_ids)
    )
    return TopicCounts(names, flat.reshape(len(names), len(broker_ids)).astype(np.int64))


def topic_codes(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ints]:
    """The names, and of each row the position of its name."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    return tuple(encoded.dictionary.to_pylist()), codes


def preferred(partitions: pa.Table) -> pa.ChunkedArray:
    """The first replica of each partition; null where a partition names none."""
    lists = partitions["replicas"]
    is_there = pc.greater(pc.list_value_length(lists), 0)
    if pc.all(is_there, min_count=0).as_py():
        return (
            pc.list_element(lists, 0) if partitions.num_rows else pa.chunked_array([[]], pa.int32())
        )
    return pa.chunked_array([[row[0] if row else None for row in lists.to_pylist()]], pa.int32())


def moving(partitions: pa.Table) -> pa.Table:
    """The rows of partitions in a reassignment."""
    lengths = [
        pc.list_value_length(partitions[name]) for name in ("adding_replicas", "removing_replicas")
    ]
    return partitions.filter(pc.greater(pc.add(*lengths), 0))


def told_bytes(snapshot: ClusterSnapshot, broker_ids: Sequence[int]) -> tuple[list[int], int]:
    """Bytes held per broker, and of how many replicas on these brokers the size is not told."""
    replicas = snapshot.replicas
    on_these = pc.is_in(replicas["broker_id"], value_set=pa.array(broker_ids, pa.int32()))
    untold = pc.sum(
        pc.and_(on_these, pc.is_null(replicas["size_bytes"])).cast(pa.int64()), min_count=0
    ).as_py()
    return per_broker(replicas["broker_id"], broker_ids, replicas["size_bytes"]), int(untold)
