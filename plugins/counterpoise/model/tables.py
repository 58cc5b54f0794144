"""The schemas of the history's tables: Parquet files, Spark jobs and cluster documents derive
their columns from these.

    table_of(BROKERS, {"broker_id": [1], "is_fenced": [False]})     # the other columns are null

Sizes are bytes of one replica, rates bytes per second, times UTC. A null means "not known", never
zero. A manifest names the `SCHEMA_VERSION` that its snapshot was written with.
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
    """Return the columns of `schema`. Raises ValueError for one that is missing, or of another
    type.
    """
    if missing := [name for name in schema.names if name not in table.column_names]:
        raise ValueError(f"lacks columns: {', '.join(missing)}")
    return table.select(schema.names).cast(schema)


# -- The schemas of what the Spark jobs make of the history
#
#     pa.table(columns, schema=BROKER_BALANCE)
#
# Each table of results has `cluster`, `snapshot_id` and `observed_at`. Rates are bytes per second,
# means over the time since the snapshot before. A null means "not known", never zero. Columns are
# only ever added, and then they may be null.


_FLOAT64, _DATE = pa.float64(), pa.date32()
_KEYS: Final = (
    required("cluster", TEXT),
    required("snapshot_id", TEXT),
    required("observed_at", UTC_TIME),
)

# -- of the job leader_balance

# One row per snapshot and registered broker, idle brokers as zeros.
BROKER_BALANCE: Final = pa.schema(
    [
        *_KEYS,
        required("broker_id", INT32),
        optional("rack", TEXT),
        required("is_fenced", BOOL),
        required("leaders", INT64),
        required("preferred_leaders", INT64),  # partitions that name it first
        # it leads, though another one is named first
        required("leaders_not_preferred", INT64),
        required("replicas", INT64),
        required("bytes", INT64),
    ]
)

# One row per snapshot and topic: how unevenly the brokers lead it.
TOPIC_BALANCE: Final = pa.schema(
    [
        *_KEYS,
        required("topic", TEXT),
        required("partition_count", INT64),
        required("most_leaders", INT64),  # on one broker
        # over all live brokers, idle ones included
        required("fewest_leaders", INT64),
        required("size_bytes", INT64),  # of one copy of the topic
    ]
)

# One row per partition of the same topic (by its id) whose leader or leader epoch is another one
# than in the snapshot before. `kind`: failover (the old leader is dead, or out of sync),
# preferred_election (the first replica leads again), reassignment (the old leader holds no replica
# any more), lost (nobody leads now), found (nobody led before), returned (the same leader, in a
# later epoch: it changed and came back between the two), other.
LEADER_CHANGES: Final = pa.schema(
    [
        *_KEYS,
        required("topic", TEXT),
        required("partition", INT32),
        optional("leader_before", INT32),
        optional("leader", INT32),
        # that passed; more than 1: it changed more often than we saw
        optional("leader_epochs", INT32),
        required("kind", TEXT),
    ]
)

# One row per snapshot: what became of the cluster since the snapshot before. The counts that
# compare are 0 where there is none before it, or where it is of another cluster of the same name
# (its cluster id differs: `is_rebuilt`).
SNAPSHOT_CHANGES: Final = pa.schema(
    [
        *_KEYS,
        required("cluster_id", TEXT),
        optional("previous_snapshot_id", TEXT),
        required("is_rebuilt", BOOL),
        optional("seconds", _FLOAT64),  # since the snapshot before
        required("partitions", INT64),
        required("offline_partitions", INT64),
        required("under_replicated_partitions", INT64),
        required("reassigning_partitions", INT64),
        # rows of LEADER_CHANGES but for `returned`
        required("leaders_changed", INT64),
        required("failovers", INT64),
        required("preferred_elections", INT64),
        required("leader_epochs", INT64),  # that passed, over all partitions
        # partitions with other replicas, in any order, without those that are still being added
        required("replica_sets_changed", INT64),
        required("topics_created", INT64),
        required("topics_deleted", INT64),
        # the same name with another topic id
        required("topics_recreated", INT64),
        # rows of LEADER_CHANGES of these kinds
        optional("leaders_reassigned", INT64),
        optional("leaders_returned", INT64),
        # led less evenly than whole partitions allow
        optional("uneven_topics", INT64),
    ]
)

# -- of the job partition_load

# One row per snapshot and partition. `how` says where bytes_in_per_second comes from: records
# (their number times the average size of those kept), growth (of a log of which nothing was
# deleted), at_least (a log that is or may be compacted: no less than this, where new records are as
# large as those that are kept); or why it is null: first, rebuilt, recreated, reset (the log became
# shorter), gap (too long since the snapshot before, or the clocks of the two contradict the times
# that they were scheduled for, by model/intervals.py; or its clock is not before ours), unknown (an
# offset, a size or a topic id is missing).
PARTITION_LOAD: Final = pa.schema(
    [
        *_KEYS,
        required("topic", TEXT),
        required("partition", INT32),
        optional("leader", INT32),
        optional("seconds", _FLOAT64),  # since the snapshot before
        optional("bytes_in_per_second", INT64),
        # of the leader's copy; null when another broker led before
        optional("growth_bytes_per_second", INT64),
        optional("size_bytes", INT64),
        required("how", TEXT),
    ]
)

# One row per snapshot and registered broker. The rates are null where no partition's rate is known.
BROKER_LOAD: Final = pa.schema(
    [
        *_KEYS,
        required("broker_id", INT32),
        optional("leader_bytes_in_per_second", INT64),  # from producers, as leader
        optional("follower_bytes_in_per_second", INT64),  # fetched from leaders, as follower
        # partitions that it leads whose rate is known
        required("rates_known", INT64),
        required("rates_unknown", INT64),
        # partitions whose rate is only a lower bound, and the sum with it: led, and followed
        optional("rates_at_least", INT64),
        optional("follower_rates_at_least", INT64),
        optional("follower_rates_unknown", INT64),  # partitions that it follows
    ]
)

# One row per snapshot and log dir that is online.
LOG_DIR_LOAD: Final = pa.schema(
    [
        *_KEYS,
        required("broker_id", INT32),
        required("log_dir", TEXT),
        optional("held_bytes", INT64),  # of the copies in it
        optional("total_bytes", INT64),
        optional("usable_bytes", INT64),
    ]
)

# One row per snapshot and topic.
TOPIC_LOAD: Final = pa.schema(
    [
        *_KEYS,
        required("topic", TEXT),
        required("partition_count", INT64),
        optional("bytes_in_per_second", INT64),  # null where no partition's rate is known
        optional("hottest_partition", INT32),
        optional("hottest_bytes_in_per_second", INT64),
        required("size_bytes", INT64),  # of one copy
        optional("growth_bytes_per_second", INT64),
        optional("rates_at_least", INT64),  # partitions whose rate is only a lower bound
        optional("rates_unknown", INT64),  # partitions without a rate
    ]
)

# -- of the job history_compaction

# One row per day (UTC) and partition, from that day's rows of PARTITION_LOAD with a rate.
PARTITION_LOAD_DAILY: Final = pa.schema(
    [
        required("cluster", TEXT),
        required("date", _DATE),
        required("topic", TEXT),
        required("partition", INT32),
        required("samples", INT64),
        required("mean_bytes_in_per_second", INT64),  # weighed by time
        required("max_bytes_in_per_second", INT64),
        optional("samples_at_least", INT64),  # whose rate is only a lower bound
        optional("seconds", _FLOAT64),  # that the mean is over
    ]
)

# One row per day (UTC) and topic, from that day's rows of TOPIC_LOAD: what percentiles and means of
# a period are made of once those rows are gone. A rate counts for the time since the snapshot
# before, and not at all after a gap. Rates that differ by less than 1 % are one entry of `rates`,
# with their mean: so percentiles of a period are right to 1 %, and all else is exact.
TOPIC_LOAD_DAILY: Final = pa.schema(
    [
        required("cluster", TEXT),
        required("date", _DATE),
        required("topic", TEXT),
        optional("rates", pa.list_(pa.struct([("rate", _FLOAT64), ("seconds", _FLOAT64)]))),
        optional("max_bytes_in_per_second", INT64),
        optional("growth_bytes", _FLOAT64),  # over the seconds in which the growth is known
        optional("growth_seconds", _FLOAT64),
        optional("rates_at_least", INT64),  # of TOPIC_LOAD, at most
        # of `rates`: how long the rate of some partition was not known
        optional("unknown_seconds", _FLOAT64),
    ]
)

# One row per day (UTC) and topic, from that day's rows of TOPIC_BALANCE: for how long it was led
# less evenly than whole partitions allow, and by how much. A snapshot counts for the time since the
# one before, and not at all after a gap; `excess` is what max - min is above the best possible.
TOPIC_BALANCE_DAILY: Final = pa.schema(
    [
        required("cluster", TEXT),
        required("date", _DATE),
        required("topic", TEXT),
        required("seconds", _FLOAT64),  # that are known
        required("uneven_seconds", _FLOAT64),  # of these with an excess
        required("excess_seconds", _FLOAT64),  # each excess times how long it lasted
        required("max_excess", INT64),
    ]
)

# One row per day (UTC) and partition, from that day's rows of LEADER_CHANGES: how many elections
# there were; a change whose epochs are not known is one.
LEADER_CHANGES_DAILY: Final = pa.schema(
    [
        required("cluster", TEXT),
        required("date", _DATE),
        required("topic", TEXT),
        required("partition", INT32),
        required("elections", INT64),
    ]
)

# By the table of results that each is made of.
DAILY_TABLES: Final[Mapping[str, pa.Schema]] = {
    "partition_load": PARTITION_LOAD_DAILY,
    "topic_load": TOPIC_LOAD_DAILY,
    "topic_balance": TOPIC_BALANCE_DAILY,
    "leader_changes": LEADER_CHANGES_DAILY,
}

# Below a round, results lie in a folder for each cluster: `cluster_name=<cluster>`. The files have
# the column `cluster` all the same.
CLUSTER_FOLDER: Final = "cluster_name"

RESULT_TABLES: Final[Mapping[str, pa.Schema]] = {
    "broker_balance": BROKER_BALANCE,
    "topic_balance": TOPIC_BALANCE,
    "leader_changes": LEADER_CHANGES,
    "snapshot_changes": SNAPSHOT_CHANGES,
    "partition_load": PARTITION_LOAD,
    "broker_load": BROKER_LOAD,
    "log_dir_load": LOG_DIR_LOAD,
    "topic_load": TOPIC_LOAD,
}

# -- the views: what a cluster's page needs of all its snapshots


def _joined(*schemas: pa.Schema) -> pa.Schema:
    """Return the columns of the first, and those that the others add, which may be null."""
    fields = list(schemas[0])
    for schema in schemas[1:]:
        names = {field.name for field in fields}
        fields += [field.with_nullable(True) for field in schema if field.name not in names]
    return pa.schema(fields)


# One row per snapshot and registered broker, ordered by time and broker id: BROKER_BALANCE, beside
# it BROKER_LOAD of the same broker, and SNAPSHOT_CHANGES of the snapshot, the same in all of its
# rows. `leaders_lost`: partitions that the broker led in the snapshot before and that got another
# leader since, though it is alive and in sync; also those that it leads again.
# `leaders_handed_back`: those that the first of their replicas leads again in its place.
SERIES: Final = (
    _joined(BROKER_BALANCE, BROKER_LOAD, SNAPSHOT_CHANGES)
    .append(optional("leaders_lost", INT64))
    .append(optional("leaders_handed_back", INT64))
)

VIEWS: Final[Mapping[str, pa.Schema]] = {"series": SERIES, "log_dirs": LOG_DIR_LOAD}
