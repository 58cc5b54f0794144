"""The tables of a snapshot, each with what other tables have of it: what expectations compare.

    snapshot_facts(snapshot)["partitions"]["leading_replica"]      # beside "leader"

A column like `known_topic` is the same value looked up in the table that it refers to, -1 or "" in
place of what is not there; columns of counts count what lists hold. All is columns (Arrow, numpy),
since it runs on every snapshot. The quick check reads these columns, and Great Expectations reads
them as frames.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import NOBODY, Flags, Ints, flat_lists, numbers_of

_BROKER: Final = pa.int32()


def snapshot_facts(snapshot: ClusterSnapshot) -> dict[str, pa.Table]:
    """Return every table of SNAPSHOT_TABLES: the columns that something is expected of."""
    registered = snapshot.registered_broker_ids
    tables = snapshot.tables
    return {
        "brokers": snapshot.brokers.select(
            ["broker_id", "is_fenced", "rack", "disk_total_bytes", "disk_usable_bytes"]
        ),
        "topics": _topics(snapshot),
        "partitions": _partitions(snapshot, registered),
        "replicas": _with_registered(
            snapshot.replicas.select(["topic", "partition", "broker_id", "position", "size_bytes"]),
            registered,
        ),
        "listeners": _with_registered(
            tables["listeners"].select(["broker_id", "security_protocol", "host", "port"]),
            registered,
        ),
        "quorum": tables["quorum"].select(["node_id", "role"]),
        "log_dirs": _with_registered(
            snapshot.log_dirs.select(
                ["broker_id", "log_dir", "total_bytes", "usable_bytes", "held_bytes"]
            ),
            registered,
        ),
        "throttles": snapshot.throttles.select(["resource_type", "resource_name", "key", "value"]),
    }


def _with(table: pa.Table, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _with_registered(table: pa.Table, registered: Sequence[int]) -> pa.Table:
    return _with(table, registered_broker=_found(table["broker_id"], registered))


def _topics(snapshot: ClusterSnapshot) -> pa.Table:
    table = snapshot.topics
    topic_indexes = pc.index_in(
        snapshot.partitions["topic"], value_set=table["topic"].combine_chunks()
    )
    partition_counts = np.bincount(numbers_of(topic_indexes.drop_null()), minlength=table.num_rows)
    return _with(
        table.select(["topic", "partition_count", "min_insync_replicas"]),
        counted_partitions=pa.array(partition_counts, pa.int64()),
    )


def _partitions(snapshot: ClusterSnapshot, registered: Sequence[int]) -> pa.Table:
    """Return the partitions with counts of their lists.

    Replicas and ISR are flattened to (row, broker) pairs, each pair one number: sorting then finds
    a broker that stands twice in a row, and a binary search an ISR member that is no replica.
    Example: row 1 with replicas [4, 4] has the pair (1, 4) twice; shifting its number right by 32
    bits gives row 1 back.
    """
    table = snapshot.partitions
    row_count = table.num_rows
    replica_rows, replica_ids = flat_lists(table["replicas"])
    isr_rows, isr_ids = flat_lists(table["isr"])
    leader_ids = numbers_of(table["leader"])

    leader_is_a_replica = np.zeros(row_count, dtype=bool)
    is_leader = replica_ids == leader_ids[replica_rows]
    leader_is_a_replica[replica_rows[is_leader]] = True

    replica_pairs = np.sort(_pair(replica_rows, replica_ids))
    is_first = np.ones(len(replica_pairs), dtype=bool)
    is_first[1:] = replica_pairs[1:] != replica_pairs[:-1]
    is_within_replicas = _is_in_ordered(_pair(isr_rows, isr_ids), replica_pairs)
    has_topic = pc.is_in(table["topic"], value_set=snapshot.topics["topic"].combine_chunks())
    return _with(
        table.select(["topic", "partition", "leader", "size_bytes"]),
        known_topic=pc.if_else(has_topic, table["topic"], pa.scalar("", table["topic"].type)),
        replica_count=_counts(replica_rows, row_count),
        different_replicas=_counts(replica_pairs[is_first] >> 32, row_count),
        registered_replicas=_counts(replica_rows[np.isin(replica_ids, registered)], row_count),
        leading_replica=_where(leader_is_a_replica, table["leader"]),
        live_leader=_found(table["leader"], snapshot.live_broker_ids),
        isr_count=_counts(isr_rows, row_count),
        isr_replicas=_counts(isr_rows[is_within_replicas], row_count),
    )


def _pair(rows: Ints, broker_ids: Ints) -> Ints:
    """Return one number for each (row, broker): the row in the upper 32 bits."""
    return (rows << 32) | (broker_ids & 0xFFFFFFFF)


def _is_in_ordered(numbers: Ints, ordered: Ints) -> Flags:
    """Return for each number whether it is among the ordered ones, by binary search."""
    if not len(ordered):
        return np.zeros(len(numbers), dtype=bool)
    indexes = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.asarray(ordered[indexes] == numbers, dtype=bool)


def _counts(rows: Ints, row_count: int) -> pa.Array:
    """Return how often each row occurs."""
    return pa.array(np.bincount(rows, minlength=row_count), pa.int64())


def _found(column: pa.ChunkedArray, known: Sequence[int]) -> pa.Array:
    """Return the broker ids that are known, NOBODY in place of the others; null stays null."""
    return _where(np.isin(numbers_of(column), list(known)), column)


def _where(is_found: Flags, column: pa.ChunkedArray) -> pa.Array:
    broker_ids = np.where(is_found, numbers_of(column), NOBODY)
    return pa.array(broker_ids, _BROKER, mask=np.asarray(pc.is_null(column), dtype=bool))
