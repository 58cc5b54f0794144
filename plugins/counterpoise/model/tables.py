"""The schemas of the history's tables: Parquet files, Spark jobs and cluster documents derive
their columns from these.

    table_of(BROKERS, {"broker_id": [1], "is_fenced": [False]})     # the other columns are null

Sizes are bytes of one replica, rates bytes per second, times UTC. A null means "not known", never
zero. `SCHEMA_VERSION` grows when a column or a table is added; columns are never renamed or given
another meaning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

SCHEMA_VERSION: Final = 5

_UTC = pa.timestamp("us", tz="UTC")
_BROKER_IDS = pa.list_(pa.field("element", pa.int32(), nullable=False))

BROKERS: Final = pa.schema(
    [
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("host", pa.string()),
        pa.field("port", pa.int32()),
        pa.field("rack", pa.string()),
        pa.field("is_fenced", pa.bool_(), nullable=False),  # registered, but not live
        # over its log dirs (KIP-827); dirs on one file system count once
        pa.field("disk_total_bytes", pa.int64()),
        pa.field("disk_usable_bytes", pa.int64()),
    ]
)

TOPICS: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("topic_id", pa.string()),
        pa.field("is_internal", pa.bool_(), nullable=False),
        pa.field("partition_count", pa.int32(), nullable=False),
        pa.field("min_insync_replicas", pa.int32()),
        pa.field("cleanup_policy", pa.string()),  # delete, compact, or both with a comma
        pa.field("retention_ms", pa.int64()),  # -1: for ever
        pa.field("retention_bytes", pa.int64()),  # of one partition; -1: without limit
    ]
)

# The columns of TOPICS that are topic configs, with Kafka's name of each. Their values are those in
# force for the topic, whatever level sets them.
TOPIC_CONFIGS: Final[Mapping[str, str]] = {
    "min_insync_replicas": "min.insync.replicas",
    "cleanup_policy": "cleanup.policy",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
}
# Those whose value may be -1, Kafka's "without limit".
UNLIMITED_TOPIC_CONFIGS: Final = frozenset({"retention_ms", "retention_bytes"})

PARTITIONS: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader", pa.int32()),  # null: no leader
        pa.field("leader_epoch", pa.int32()),
        # ordered; the first is the preferred leader
        pa.field("replicas", _BROKER_IDS, nullable=False),
        pa.field("isr", _BROKER_IDS),
        # of a reassignment under way, else empty
        pa.field("adding_replicas", _BROKER_IDS, nullable=False),
        pa.field("removing_replicas", _BROKER_IDS, nullable=False),
        pa.field("size_bytes", pa.int64()),  # of the leader's copy, else of the largest copy
        pa.field("bytes_in_per_second", pa.int64()),
        pa.field("earliest_offset", pa.int64()),
        pa.field("latest_offset", pa.int64()),
    ]
)

REPLICAS: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),  # 0 is the preferred leader
        pa.field("is_leader", pa.bool_(), nullable=False),
        pa.field("in_sync", pa.bool_()),
        pa.field("size_bytes", pa.int64()),
        pa.field("log_dir", pa.string()),
    ]
)

# What a broker tells of its log dirs. Dirs on one file system tell the same figures.
LOG_DIRS: Final = pa.schema(
    [
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("log_dir", pa.string(), nullable=False),  # its path on the broker
        # of its file system (KIP-827: brokers from 3.3 on tell)
        pa.field("total_bytes", pa.int64()),
        pa.field("usable_bytes", pa.int64()),
        # null: online; a dir that is offline tells no sizes and takes no replicas
        pa.field("error", pa.string()),
        pa.field("held_bytes", pa.int64()),  # of the copies in it, also of partitions that are gone
    ]
)

# Keys of replication throttles (KIP-73) that are set at the resource itself (DYNAMIC_TOPIC,
# DYNAMIC_BROKER).
THROTTLES: Final = pa.schema(
    [
        pa.field("resource_type", pa.string(), nullable=False),  # topic or broker
        # a topic, or a broker id in decimal
        pa.field("resource_name", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        # as it is written; a list may be set and empty
        pa.field("value", pa.string(), nullable=False),
    ]
)

LISTENERS: Final = pa.schema(
    [
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("security_protocol", pa.string(), nullable=False),
        # as advertised to clients that came the way we did
        pa.field("host", pa.string(), nullable=False),
        pa.field("port", pa.int32(), nullable=False),
    ]
)

QUORUM: Final = pa.schema(
    [
        pa.field("node_id", pa.int32(), nullable=False),
        pa.field("role", pa.string(), nullable=False),  # leader, voter or observer
        pa.field("log_end_offset", pa.int64()),
        pa.field("last_caught_up_at", _UTC),  # by the quorum leader's clock
    ]
)

SNAPSHOTS: Final = pa.schema(
    [
        pa.field("snapshot_id", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),  # our name for it
        pa.field("cluster_id", pa.string(), nullable=False),  # Kafka's
        pa.field("observed_at", _UTC, nullable=False),
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field(
            "files",
            pa.list_(
                pa.struct(
                    [
                        pa.field("table", pa.string(), nullable=False),
                        pa.field("path", pa.string(), nullable=False),  # relative to the store
                        pa.field("row_count", pa.int64(), nullable=False),
                    ]
                )
            ),
            nullable=False,
        ),
    ]
)

SNAPSHOT_TABLES: Final[Mapping[str, pa.Schema]] = {
    "brokers": BROKERS,
    "topics": TOPICS,
    "partitions": PARTITIONS,
    "replicas": REPLICAS,
    "listeners": LISTENERS,
    "quorum": QUORUM,
    "log_dirs": LOG_DIRS,
    "throttles": THROTTLES,
}

# The schema version that brought a table; the others were there from the first. Snapshots before it
# are read without.
TABLES_SINCE: Final[Mapping[str, int]] = {"log_dirs": 2, "throttles": 3}


def table_of(schema: pa.Schema, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return a table of `schema`; a column that `columns` does not have is null in every row.

    Raises ValueError for a column that the schema does not have.
    """
    if unknown := columns.keys() - set(schema.names):
        raise ValueError(f"the schema has no column {', '.join(sorted(unknown))}")
    row_count = len(next(iter(columns.values())))
    nulls = {field.name: pa.nulls(row_count, field.type) for field in schema}
    return pa.table({**nulls, **columns}, schema=schema)


def columns_of(schema: pa.Schema, type_: type, rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the columns of `schema` that rows of the dataclass `type_` have as fields, by name."""
    rows = list(rows)
    known = {field.name for field in fields(type_)}
    return {name: [getattr(row, name) for row in rows] for name in schema.names if name in known}
