"""The tables of a snapshot, with a true/false column for what column expectations cannot say.

    snapshot_facts(snapshot)["partitions"]["leader_is_a_replica"]      # a boolean per row

A fact is true where the row is as it should be; what is not known (a null) counts as right. All is
columns (Arrow, numpy), since it runs on every snapshot. These are the only definitions: the quick
check reads these columns, and Great Expectations reads them as frames.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import NOBODY, Flags, Ints, flat_lists, numbers_of
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS

_ROLES: Final = ("leader", "voter", "observer")
_RESOURCE_TYPES: Final = ("broker", "topic")
_MAX_PORT: Final = 65535


def snapshot_facts(snapshot: ClusterSnapshot) -> dict[str, pa.Table]:
    """Return every table of SNAPSHOT_TABLES: the checked columns, and the facts about each row."""
    registered = snapshot.registered_broker_ids
    return {
        "brokers": _brokers(snapshot),
        "topics": _topics(snapshot),
        "partitions": _partitions(snapshot, registered),
        "replicas": _with_facts(
            snapshot.replicas.select(["topic", "partition", "broker_id", "position", "size_bytes"]),
            broker_is_registered=_among(snapshot.replicas["broker_id"], registered),
        ),
        "listeners": _listeners(snapshot, registered),
        "quorum": _with_facts(
            snapshot.tables["quorum"].select(["node_id", "role"]),
            role_is_known=_text_among(snapshot.tables["quorum"]["role"], _ROLES),
        ),
        "log_dirs": _log_dirs(snapshot, registered),
        "throttles": _throttles(snapshot),
    }


def _with_facts(table: pa.Table, **facts: Flags) -> pa.Table:
    for name, fact in facts.items():
        table = table.append_column(name, pa.array(fact, pa.bool_()))
    return table


def _brokers(snapshot: ClusterSnapshot) -> pa.Table:
    table = snapshot.brokers
    is_blank = pc.equal(pc.utf8_trim_whitespace(table["rack"]), "")
    return _with_facts(
        table.select(["broker_id", "is_fenced", "disk_total_bytes", "disk_usable_bytes"]),
        rack_is_named_or_absent=~_bools(is_blank, if_null=False),
    )


def _topics(snapshot: ClusterSnapshot) -> pa.Table:
    table = snapshot.topics
    topic_indexes = pc.index_in(
        snapshot.partitions["topic"], value_set=table["topic"].combine_chunks()
    )
    partition_counts = np.bincount(numbers_of(topic_indexes.drop_null()), minlength=table.num_rows)
    return _with_facts(
        table.select(["topic", "partition_count", "min_insync_replicas"]),
        partition_count_agrees=partition_counts == numbers_of(table["partition_count"]),
    )


def _partitions(snapshot: ClusterSnapshot, registered: Sequence[int]) -> pa.Table:
    """Return the facts about partitions.

    Replicas and ISR are flattened to (row, broker) pairs, each pair one number: sorting then finds
    a broker that stands twice in a row, and a binary search an ISR member that is no replica.
    Example: row 1 with replicas [4, 4] has the pair (1, 4) twice; shifting its number right by 32
    bits gives row 1 back.
    """
    table = snapshot.partitions
    replica_rows, replica_ids = flat_lists(table["replicas"])
    isr_rows, isr_ids = flat_lists(table["isr"])
    leader_ids = numbers_of(table["leader"])
    has_leader = leader_ids != NOBODY

    leader_is_a_replica = np.zeros(table.num_rows, dtype=bool)
    is_leader = replica_ids == leader_ids[replica_rows]
    leader_is_a_replica[replica_rows[is_leader]] = True

    replica_pairs = np.sort(_pair(replica_rows, replica_ids))
    is_as_before = replica_pairs[1:] == replica_pairs[:-1]
    rows_with_repeats = replica_pairs[1:][is_as_before] >> 32

    is_unregistered = ~np.isin(replica_ids, registered)
    is_outside_replicas = ~_is_in_ordered(_pair(isr_rows, isr_ids), replica_pairs)
    return _with_facts(
        table.select(["topic", "partition", "leader", "size_bytes"]),
        topic_is_known=_bools(
            pc.is_in(table["topic"], value_set=snapshot.topics["topic"].combine_chunks())
        ),
        has_replicas=_bools(pc.greater(pc.list_value_length(table["replicas"]), 0)),
        names_each_broker_once=_all_but(table.num_rows, rows_with_repeats),
        brokers_are_registered=_all_but(table.num_rows, replica_rows[is_unregistered]),
        leader_is_a_replica=leader_is_a_replica | ~has_leader,
        leader_is_live=np.isin(leader_ids, snapshot.live_broker_ids) | ~has_leader,
        isr_is_within_replicas=_all_but(table.num_rows, isr_rows[is_outside_replicas]),
    )


def _listeners(snapshot: ClusterSnapshot, registered: Sequence[int]) -> pa.Table:
    table = snapshot.tables["listeners"]
    ports = numbers_of(table["port"])
    return _with_facts(
        table.select(["broker_id", "security_protocol", "host", "port"]),
        broker_is_registered=_among(table["broker_id"], registered),
        port_is_possible=(ports > 0) & (ports <= _MAX_PORT),
    )


def _log_dirs(snapshot: ClusterSnapshot, registered: Sequence[int]) -> pa.Table:
    table = snapshot.log_dirs
    is_within = pc.less_equal(table["usable_bytes"], table["total_bytes"])
    return _with_facts(
        table.select(["broker_id", "log_dir", "total_bytes", "usable_bytes", "held_bytes"]),
        broker_is_registered=_among(table["broker_id"], registered),
        usable_is_within_total=_bools(is_within, if_null=True),
    )


def _throttles(snapshot: ClusterSnapshot) -> pa.Table:
    table = snapshot.throttles
    return _with_facts(
        table.select(["resource_type", "resource_name", "key", "value"]),
        type_is_known=_text_among(table["resource_type"], _RESOURCE_TYPES),
        key_is_a_throttle=_text_among(table["key"], (*LIST_KEYS, *RATE_KEYS)),
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


def _all_but(row_count: int, wrong_rows: Ints) -> Flags:
    fact = np.ones(row_count, dtype=bool)
    fact[wrong_rows] = False
    return fact


def _among(column: pa.ChunkedArray, known: Iterable[int]) -> Flags:
    return np.asarray(np.isin(numbers_of(column), list(known)), dtype=bool)


def _text_among(column: pa.ChunkedArray, known: Iterable[str]) -> Flags:
    return _bools(pc.is_in(column, value_set=pa.array(list(known), pa.string())))


def _bools(values: pa.ChunkedArray, *, if_null: bool = False) -> Flags:
    return np.asarray(pc.fill_null(values, if_null), dtype=bool)
