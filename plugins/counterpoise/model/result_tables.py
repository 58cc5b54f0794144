"""The schemas of what the Spark jobs make of the history.

    pa.table(columns, schema=BROKER_BALANCE)

Each table of results has `cluster`, `snapshot_id` and `observed_at`. Rates are bytes per second,
means over the time since the snapshot before. A null means "not known", never zero. Columns are
only ever added, and then they may be null.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from counterpoise.model.tables import BOOL, INT32, INT64, TEXT, UTC_TIME, optional, required

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
