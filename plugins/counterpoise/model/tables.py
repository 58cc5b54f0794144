"""The schemas of the history's tables: Parquet files, Spark jobs and cluster documents derive
their columns from these.

    table_of(BROKERS, {"broker_id": [1], "is_fenced": [False]})     # the other columns are null

Sizes are bytes of one replica, rates bytes per second, times UTC. A null means "not known", never
zero. `SCHEMA_VERSION` grows when a column or a table is added; columns are never renamed or given
another meaning.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

SCHEMA_VERSION: Final = 5

TEXT, BOOL, INT32, INT64 = pa.string(), pa.bool_(), pa.int32(), pa.int64()
UTC_TIME = pa.timestamp("us", tz="UTC")


def required(name: str, type_: pa.DataType) -> pa.Field:
    """Return a column that is known in every row."""
    return pa.field(name, type_, nullable=False)


def optional(name: str, type_: pa.DataType) -> pa.Field:
    """Return a column whose null means "not known"."""
    return pa.field(name, type_)


_BROKER_IDS = pa.list_(required("element", INT32))

BROKERS: Final = pa.schema(
    [
        required("broker_id", INT32),
        optional("host", TEXT),
        optional("port", INT32),
        optional("rack", TEXT),
        required("is_fenced", BOOL),  # registered, but not live
        # over its log dirs (KIP-827); dirs on one file system count once
        optional("disk_total_bytes", INT64),
        optional("disk_usable_bytes", INT64),
    ]
)

TOPICS: Final = pa.schema(
    [
        required("topic", TEXT),
        optional("topic_id", TEXT),  # "": brokers give none; null: the document does not tell
        required("is_internal", BOOL),
        required("partition_count", INT32),
        optional("min_insync_replicas", INT32),
        optional("cleanup_policy", TEXT),  # delete, compact, or both with a comma
        optional("retention_ms", INT64),  # -1: for ever
        optional("retention_bytes", INT64),  # of one partition; -1: without limit
        # tiered storage (KIP-405): sizes of replicas and log dirs are of what is local
        optional("remote_storage_enable", TEXT),  # true or false
        optional("local_retention_ms", INT64),  # -2: as retention_ms
        optional("local_retention_bytes", INT64),  # -2: as retention_bytes
    ]
)

# The columns of TOPICS that are topic configs, with Kafka's name of each. Their values are those in
# force for the topic, whatever level sets them.
TOPIC_CONFIGS: Final[Mapping[str, str]] = {
    "min_insync_replicas": "min.insync.replicas",
    "cleanup_policy": "cleanup.policy",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "remote_storage_enable": "remote.storage.enable",
    "local_retention_ms": "local.retention.ms",
    "local_retention_bytes": "local.retention.bytes",
}
# Those whose value may be below 0: -1 is Kafka's "without limit", -2 "as the other retention".
UNLIMITED_TOPIC_CONFIGS: Final = frozenset({"retention_ms", "retention_bytes"})
LOCAL_TOPIC_CONFIGS: Final = frozenset({"local_retention_ms", "local_retention_bytes"})

PARTITIONS: Final = pa.schema(
    [
        required("topic", TEXT),
        required("partition", INT32),
        optional("leader", INT32),  # null: no leader
        optional("leader_epoch", INT32),
        # ordered; the first is the preferred leader
        required("replicas", _BROKER_IDS),
        optional("isr", _BROKER_IDS),
        # of a reassignment under way, else empty
        required("adding_replicas", _BROKER_IDS),
        required("removing_replicas", _BROKER_IDS),
        optional("size_bytes", INT64),  # of the leader's copy, else of the largest copy
        optional("bytes_in_per_second", INT64),
        optional("earliest_offset", INT64),
        optional("latest_offset", INT64),
    ]
)

REPLICAS: Final = pa.schema(
    [
        required("topic", TEXT),
        required("partition", INT32),
        required("broker_id", INT32),
        required("position", INT32),  # 0 is the preferred leader
        required("is_leader", BOOL),
        optional("in_sync", BOOL),
        optional("size_bytes", INT64),
        optional("log_dir", TEXT),
    ]
)

# What a broker tells of its log dirs. Dirs on one file system tell the same figures.
LOG_DIRS: Final = pa.schema(
    [
        required("broker_id", INT32),
        required("log_dir", TEXT),  # its path on the broker
        # of its file system (KIP-827: brokers from 3.3 on tell)
        optional("total_bytes", INT64),
        optional("usable_bytes", INT64),
        # null: online; a dir that is offline tells no sizes and takes no replicas
        optional("error", TEXT),
        optional("held_bytes", INT64),  # of the copies in it, also of partitions that are gone
        optional("is_cordoned", BOOL),  # true or null: takes no new replicas (KIP-1066)
    ]
)

# Keys of replication throttles (KIP-73) that are set at the resource itself (DYNAMIC_TOPIC,
# DYNAMIC_BROKER), or as the dynamic default of all brokers (DYNAMIC_DEFAULT_BROKER).
THROTTLES: Final = pa.schema(
    [
        required("resource_type", TEXT),  # topic or broker
        # a topic, or a broker id in decimal; "" for the default of all brokers
        required("resource_name", TEXT),
        required("key", TEXT),
        # as it is written; a list may be set and empty
        required("value", TEXT),
    ]
)

LISTENERS: Final = pa.schema(
    [
        required("broker_id", INT32),
        required("security_protocol", TEXT),
        # as advertised to clients that came the way we did
        required("host", TEXT),
        required("port", INT32),
    ]
)

QUORUM: Final = pa.schema(
    [
        required("node_id", INT32),
        required("role", TEXT),  # leader, voter or observer
        optional("log_end_offset", INT64),
        optional("last_caught_up_at", UTC_TIME),  # by the quorum leader's clock
    ]
)

_FILE: Final = [
    required("table", TEXT),
    required("path", TEXT),  # relative to the store
    required("row_count", INT64),
]
SNAPSHOTS: Final = pa.schema(
    [
        required("snapshot_id", TEXT),
        required("cluster", TEXT),  # our name for it
        required("cluster_id", TEXT),  # Kafka's
        required("observed_at", UTC_TIME),
        required("schema_version", INT32),
        required("files", pa.list_(pa.struct(_FILE))),
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


def rows_of(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Return the values of these columns, row by row."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def columns_of(schema: pa.Schema, type_: type, rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the columns of `schema` that rows of the dataclass `type_` have as fields, by name."""
    rows = list(rows)
    known = {field.name for field in fields(type_)}
    return {name: [getattr(row, name) for row in rows] for name in schema.names if name in known}


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema`; one that an older file lacks is null.

    Raises ValueError for a required column that is missing, or of another type.
    """
    missing = [field for field in schema if field.name not in table.column_names]
    if unfilled := [field.name for field in missing if not field.nullable]:
        raise ValueError(f"lacks required columns: {', '.join(unfilled)}")
    for field in missing:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names).cast(schema)
