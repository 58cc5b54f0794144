"""The schemas of what the Spark jobs make of the history.

    pa.table(columns, schema=BROKER_BALANCE)

Each table of results has `cluster`, `snapshot_id` and `observed_at`. Rates are bytes per second,
means over the time since the snapshot before. A null means "not known", never zero. Columns are
only ever added, and then they may be null.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

_UTC = pa.timestamp("us", tz="UTC")
_KEYS: Final = (
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("snapshot_id", pa.string(), nullable=False),
    pa.field("observed_at", _UTC, nullable=False),
)

# -- of the job leader_balance

# One row per snapshot and registered broker, idle brokers as zeros.
BROKER_BALANCE: Final = pa.schema(
    [
        *_KEYS,
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("rack", pa.string()),
        pa.field("is_fenced", pa.bool_(), nullable=False),
        pa.field("leaders", pa.int64(), nullable=False),
        pa.field("preferred_leaders", pa.int64(), nullable=False),  # partitions that name it first
        # it leads, though another one is named first
        pa.field("leaders_not_preferred", pa.int64(), nullable=False),
        pa.field("replicas", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)

# One row per snapshot and topic: how unevenly the brokers lead it.
TOPIC_BALANCE: Final = pa.schema(
    [
        *_KEYS,
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition_count", pa.int64(), nullable=False),
        pa.field("most_leaders", pa.int64(), nullable=False),  # on one broker
        # over all live brokers, idle ones included
        pa.field("fewest_leaders", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),  # of one copy of the topic
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
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader_before", pa.int32()),
        pa.field("leader", pa.int32()),
        # that passed; more than 1: it changed more often than we saw
        pa.field("leader_epochs", pa.int32()),
        pa.field("kind", pa.string(), nullable=False),
    ]
)
LEADER_CHANGE_KINDS: Final = (
    "failover",
    "preferred_election",
    "reassignment",
    "lost",
    "found",
    "returned",
    "other",
)

# One row per snapshot: what became of the cluster since the snapshot before. The counts that
# compare are 0 where there is none before it, or where it is of another cluster of the same name
# (its cluster id differs: `is_rebuilt`).
SNAPSHOT_CHANGES: Final = pa.schema(
    [
        *_KEYS,
        pa.field("cluster_id", pa.string(), nullable=False),
        pa.field("previous_snapshot_id", pa.string()),
        pa.field("is_rebuilt", pa.bool_(), nullable=False),
        pa.field("seconds", pa.float64()),  # since the snapshot before
        pa.field("partitions", pa.int64(), nullable=False),
        pa.field("offline_partitions", pa.int64(), nullable=False),
        pa.field("under_replicated_partitions", pa.int64(), nullable=False),
        pa.field("reassigning_partitions", pa.int64(), nullable=False),
        # rows of LEADER_CHANGES but for `returned`
        pa.field("leaders_changed", pa.int64(), nullable=False),
        pa.field("failovers", pa.int64(), nullable=False),
        pa.field("preferred_elections", pa.int64(), nullable=False),
        pa.field("leader_epochs", pa.int64(), nullable=False),  # that passed, over all partitions
        # partitions with other replicas, in any order
        pa.field("replica_sets_changed", pa.int64(), nullable=False),
        pa.field("topics_created", pa.int64(), nullable=False),
        pa.field("topics_deleted", pa.int64(), nullable=False),
        # the same name with another topic id
        pa.field("topics_recreated", pa.int64(), nullable=False),
    ]
)

# -- of the job partition_load

# One row per snapshot and partition. `how` says where bytes_in_per_second comes from: records
# (their number times the average size of those kept), growth (of a log of which nothing was
# deleted), at_least (a compacted log: no less than this); or why it is null: first, rebuilt,
# recreated, reset (the log became shorter), gap (more than a day since the snapshot before, or its
# clock is not before ours), unknown (an offset, a size or a topic id is missing).
PARTITION_LOAD: Final = pa.schema(
    [
        *_KEYS,
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader", pa.int32()),
        pa.field("seconds", pa.float64()),  # since the snapshot before
        pa.field("bytes_in_per_second", pa.int64()),
        # of the leader's copy; null when another broker led before
        pa.field("growth_bytes_per_second", pa.int64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("how", pa.string(), nullable=False),
    ]
)

# One row per snapshot and registered broker. The rates are null where no partition's rate is known.
BROKER_LOAD: Final = pa.schema(
    [
        *_KEYS,
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("leader_bytes_in_per_second", pa.int64()),  # from producers, as leader
        pa.field("follower_bytes_in_per_second", pa.int64()),  # fetched from leaders, as follower
        # partitions that it leads whose rate is known
        pa.field("rates_known", pa.int64(), nullable=False),
        pa.field("rates_unknown", pa.int64(), nullable=False),
    ]
)

# One row per snapshot and log dir that is online.
LOG_DIR_LOAD: Final = pa.schema(
    [
        *_KEYS,
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("log_dir", pa.string(), nullable=False),
        pa.field("held_bytes", pa.int64()),  # of the copies in it
        pa.field("total_bytes", pa.int64()),
        pa.field("usable_bytes", pa.int64()),
    ]
)

# One row per snapshot and topic.
TOPIC_LOAD: Final = pa.schema(
    [
        *_KEYS,
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition_count", pa.int64(), nullable=False),
        pa.field("bytes_in_per_second", pa.int64()),  # null where no partition's rate is known
        pa.field("hottest_partition", pa.int32()),
        pa.field("hottest_bytes_in_per_second", pa.int64()),
        pa.field("size_bytes", pa.int64(), nullable=False),  # of one copy
        pa.field("growth_bytes_per_second", pa.int64()),
    ]
)

# -- of the job history_compaction

# One row per day (UTC) and partition, from that day's rows of PARTITION_LOAD with a rate.
PARTITION_LOAD_DAILY: Final = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("date", pa.date32(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("samples", pa.int64(), nullable=False),
        pa.field("mean_bytes_in_per_second", pa.int64(), nullable=False),  # weighed by time
        pa.field("p50_bytes_in_per_second", pa.int64(), nullable=False),
        pa.field("p95_bytes_in_per_second", pa.int64(), nullable=False),
        pa.field("max_bytes_in_per_second", pa.int64(), nullable=False),
    ]
)

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

# -- the view: what a cluster's page needs of all its snapshots, in one file


def _joined(*schemas: pa.Schema) -> pa.Schema:
    """Return the columns of the first, and those that the others add, which may be null."""
    fields = list(schemas[0])
    for schema in schemas[1:]:
        names = {field.name for field in fields}
        fields += [field.with_nullable(True) for field in schema if field.name not in names]
    return pa.schema(fields)


# One row per snapshot and registered broker, ordered by time and broker id: BROKER_BALANCE, beside
# it BROKER_LOAD of the same broker, and SNAPSHOT_CHANGES of the snapshot, the same in all of its
# rows.
SERIES: Final = _joined(BROKER_BALANCE, BROKER_LOAD, SNAPSHOT_CHANGES)
