"""Spark job `leader_balance`: who leads and holds what, how unevenly each topic is led, and whose
leader changed.

    spark-submit spark_jobs/leader_balance.py --store file:///var/lib/counterpoise \\
        --round 2026-11-21T15 --snapshots snapshots.json

The arguments are explained in rounds.py. The results are BROKER_BALANCE, TOPIC_BALANCE,
LEADER_CHANGES and SNAPSHOT_CHANGES of model/tables.py, in `results/<table>/round=<ROUND>/`
of the store; running the round again replaces them.

Plain DataFrame API, no UDFs. It only counts; model/evenness.py says what "even" means.

Limits: a replica whose size is not known counts as 0 bytes. Replicas on a broker that is no longer
registered are in no broker's count. Of the changes between two snapshots only the last one is
known; the leader epochs say how many there were. Kafka also begins a new epoch when a leader drops
a replica, so `returned` may be a leader that never left.
"""

import sys
from collections.abc import Sequence

import pyarrow as pa
from pairs import build_topic_pairs, read_pairs, read_shuffled
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import BROKER_KEY, Round, Tables, run_job
from snapshots import Snapshots, row_columns

from counterpoise.model.tables import (
    BROKER_BALANCE,
    LEADER_CHANGES,
    SNAPSHOT_CHANGES,
    TOPIC_BALANCE,
)

# The columns of pairs that `with_change` and the counts read.
CHANGE_INPUTS = (
    "snapshot",
    "topic",
    "partition",
    "leader",
    "leader_before",
    "leader_epoch",
    "leader_epoch_before",
    "replicas",
    "replicas_before",
    "adding_replicas",
    "adding_replicas_before",
    "isr",
    "is_under_replicated",
    "is_reassigning",
    "size_bytes",
)
# The columns that LEADER_CHANGES and SNAPSHOT_CHANGES are made of.
CHANGE_COLUMNS = (
    "snapshot",
    *row_columns(LEADER_CHANGES),
    "is_under_replicated",
    "is_reassigning",
    "is_replica_set_changed",
)
_COUNTS = [
    field.name for field in BROKER_BALANCE if field.type == pa.int64() and not field.nullable
]


def build_broker_balance(
    snapshots: Snapshots, brokers: DataFrame, replicas: DataFrame
) -> DataFrame:
    """BROKER_BALANCE: one row per snapshot and registered broker; one without replicas is a row of
    zeros.
    """
    is_leader, is_first = F.col("is_leader"), F.col("position") == 0
    held = replicas.groupBy(*BROKER_KEY).agg(
        F.count_if(is_leader).alias("leaders"),
        F.count_if(is_first).alias("preferred_leaders"),
        F.count_if(is_leader & ~is_first).alias("leaders_not_preferred"),
        F.count(F.lit(1)).alias("replicas"),
        F.sum("size_bytes").alias("bytes"),
    )
    balance = brokers.join(held, on=list(BROKER_KEY), how="left").fillna(0, subset=_COUNTS)
    return snapshots.select(balance, BROKER_BALANCE)


def build_topic_leaders(brokers: DataFrame, partitions: DataFrame) -> DataFrame:
    """Return the counts of TOPIC_BALANCE beside `live_brokers`: one row per snapshot and topic.

    `partitions` are shuffled by topic, or Spark shuffles them twice. `fewest_leaders` is over the
    live brokers, idle ones included.
    """
    live = brokers.where(~F.col("is_fenced")).select(
        "snapshot", F.col("broker_id").alias("leader"), F.lit(1).alias("is_live")
    )
    live_counts = live.groupBy("snapshot").agg(F.count(F.lit(1)).alias("live_brokers"))
    led = partitions.groupBy("snapshot", "topic", "leader").agg(
        F.count(F.lit(1)).alias("led"), F.sum("size_bytes").alias("led_bytes")
    )
    return (
        led.join(F.broadcast(live), on=["snapshot", "leader"], how="left")
        .groupBy("snapshot", "topic")
        .agg(
            F.sum("led").alias("partition_count"),
            F.max(F.when(F.col("leader").isNotNull(), F.col("led"))).alias("most_leaders"),
            F.min(F.when(F.col("is_live").isNotNull(), F.col("led"))).alias("fewest_of_leading"),
            F.count("is_live").alias("leading_count"),
            F.sum("led_bytes").alias("size_bytes"),
        )
        .join(F.broadcast(live_counts), on="snapshot", how="left")
        .transform(with_fewest_leaders)
        .fillna(0, subset=["most_leaders", "size_bytes"])
    )


def build_topic_balance(snapshots: Snapshots, topic_leaders: DataFrame) -> DataFrame:
    """TOPIC_BALANCE: one row per snapshot and topic."""
    return snapshots.select(topic_leaders, TOPIC_BALANCE)


def with_fewest_leaders(topics: DataFrame) -> DataFrame:
    """Add `fewest_leaders`: 0 where a live broker leads none of the topic, or no broker is live."""
    all_live_lead = F.col("leading_count") == F.col("live_brokers")
    return topics.withColumn(
        "fewest_leaders", F.when(all_live_lead, F.col("fewest_of_leading")).otherwise(F.lit(0))
    )


def with_excess(topics: DataFrame) -> DataFrame:
    """Add `excess`: how much max - min of a topic's leaders is above the best possible.

    10 partitions on 4 live brokers, of which one leads 5 and one leads 1: max - min is 4, the best
    possible 1 (3, 3, 2, 2), the excess 3.
    """
    live = F.col("live_brokers")
    best = F.when(live > 0, (F.col("partition_count") % live > 0).cast("long")).otherwise(0)
    max_minus_min = F.col("most_leaders") - F.col("fewest_leaders")
    return topics.withColumn("excess", F.greatest(F.lit(0), max_minus_min - best))


def with_change(pairs: DataFrame, brokers: DataFrame) -> DataFrame:
    """Add `kind` of LEADER_CHANGES (null: the leader stayed), `leader_epochs`, and
    `is_replica_set_changed`.
    """
    live = brokers.where(~F.col("is_fenced")).select(
        "snapshot", F.col("broker_id").alias("leader_before"), F.lit(True).alias("is_old_live")
    )
    return (
        pairs.join(F.broadcast(live), on=["snapshot", "leader_before"], how="left")
        .transform(with_leader_epochs)
        .transform(with_kind)
        .transform(with_replica_set_changed)
    )


def with_leader_epochs(pairs: DataFrame) -> DataFrame:
    """Add how many epochs passed; null where one is not known, or where they restart."""
    passed = F.col("leader_epoch") - F.col("leader_epoch_before")
    return pairs.withColumn("leader_epochs", F.when(passed >= 0, passed))


def with_kind(pairs: DataFrame) -> DataFrame:
    """Add what happened to the leader, as far as two snapshots show it.

    Where the old leader is dead it is a failover, whatever came after.
    """
    old, new = F.col("leader_before"), F.col("leader")
    is_dead, is_out_of_sync = F.col("is_old_live").isNull(), ~F.array_contains("isr", old)
    kind = (
        F.when(~_is_compared() | ~(_is_other_leader() | _is_other_epoch()), F.lit(None))
        .when(~_is_other_leader() & F.col("leader_epochs").isNotNull(), F.lit("returned"))
        .when(~_is_other_leader(), F.lit("other"))
        .when(new.isNull(), F.lit("lost"))
        .when(old.isNull(), F.lit("found"))
        .when(is_dead, F.lit("failover"))
        .when(~F.array_contains("replicas", old), F.lit("reassignment"))
        .when(is_out_of_sync, F.lit("failover"))
        .when(new == F.get("replicas", F.lit(0)), F.lit("preferred_election"))
        .otherwise(F.lit("other"))
    )
    return pairs.withColumn("kind", kind)


def with_replica_set_changed(pairs: DataFrame) -> DataFrame:
    """Add whether the partition has other replicas than before, in any order.

    Those that a reassignment is still adding do not count, so that a partition moves once: when it
    has moved.
    """
    now = F.array_except("replicas", "adding_replicas")
    before = F.array_except("replicas_before", "adding_replicas_before")
    is_moving = (F.size("adding_replicas") > 0) | (F.size("adding_replicas_before") > 0)
    may_differ = is_moving | (F.col("replicas") != F.col("replicas_before"))
    is_other = _is_compared() & may_differ & (F.sort_array(now) != F.sort_array(before))
    return pairs.withColumn("is_replica_set_changed", F.coalesce(is_other, F.lit(False)))


def only_changes(compared: DataFrame) -> DataFrame:
    """Return the few rows whose partition changed or is not healthy."""
    has_changed = F.col("kind").isNotNull() | F.col("is_replica_set_changed")
    is_unwell = F.col("leader").isNull() | F.col("is_under_replicated") | F.col("is_reassigning")
    return compared.where(has_changed | is_unwell).select(*CHANGE_COLUMNS)


def build_leader_changes(snapshots: Snapshots, changes: DataFrame) -> DataFrame:
    """LEADER_CHANGES."""
    return snapshots.select(changes.where(F.col("kind").isNotNull()), LEADER_CHANGES)


def build_snapshot_changes(
    round_: Round, changes: DataFrame, topic_leaders: DataFrame
) -> DataFrame:
    """SNAPSHOT_CHANGES: one row per snapshot, one without partitions included."""
    counts = [
        build_change_counts(changes),
        build_topic_counts(round_),
        build_partition_counts(topic_leaders),
    ]
    result = round_.snapshots.to_analyse(round_.spark)
    for frame in counts:
        result = result.join(F.broadcast(frame), on="snapshot", how="left")
    numbers = [name for frame in counts for name in frame.columns if name != "snapshot"]
    return round_.snapshots.select(result.fillna(0, subset=numbers), SNAPSHOT_CHANGES)


def build_change_counts(changes: DataFrame) -> DataFrame:
    """Per snapshot: how many partitions are in which state, and how many changed in which way."""
    kind = F.col("kind")
    return changes.groupBy("snapshot").agg(
        F.count_if(F.col("leader").isNull()).alias("offline_partitions"),
        F.count_if("is_under_replicated").alias("under_replicated_partitions"),
        F.count_if("is_reassigning").alias("reassigning_partitions"),
        F.count_if(kind != "returned").alias("leaders_changed"),
        F.count_if(kind == "failover").alias("failovers"),
        F.count_if(kind == "preferred_election").alias("preferred_elections"),
        F.count_if(kind == "reassignment").alias("leaders_reassigned"),
        F.count_if(kind == "returned").alias("leaders_returned"),
        F.sum(F.when(kind.isNotNull(), F.col("leader_epochs"))).alias("leader_epochs"),
        F.count_if("is_replica_set_changed").alias("replica_sets_changed"),
    )


def build_partition_counts(topic_leaders: DataFrame) -> DataFrame:
    """Per snapshot: how many partitions there are, and how many topics are led less evenly than
    whole partitions allow.
    """
    topics = topic_leaders.transform(with_excess)
    return topics.groupBy("snapshot").agg(
        F.sum("partition_count").alias("partitions"),
        F.count_if(F.col("excess") > 0).alias("uneven_topics"),
    )


def build_topic_counts(round_: Round) -> DataFrame:
    """Per snapshot that is compared: topics created, deleted, recreated."""
    snapshots, topics = round_.snapshots, round_.read("topics")
    before = topics.groupBy(F.col("snapshot").alias("compared_with")).agg(
        F.count(F.lit(1)).alias("topics_before")
    )
    stayed = (
        build_topic_pairs(snapshots, topics)
        .groupBy("snapshot")
        .agg(
            F.count_if(F.col("topic_change") == "created").alias("topics_created"),
            F.count_if(F.col("topic_change") == "recreated").alias("topics_recreated"),
            F.count_if(F.col("topic_change") != "created").alias("topics_kept"),
        )
    )
    return (
        snapshots.to_analyse(round_.spark)
        .withColumn("compared_with", snapshots.column("compared_with"))
        .where(F.col("compared_with").isNotNull())
        .join(F.broadcast(before), on="compared_with", how="left")
        .join(F.broadcast(stayed), on="snapshot", how="left")
        .fillna(0, subset=["topics_before", "topics_kept"])
        .withColumn("topics_deleted", F.col("topics_before") - F.col("topics_kept"))
        .select("snapshot", "topics_created", "topics_deleted", "topics_recreated")
    )


def write_leader_balance(round_: Round) -> None:
    """Write all four tables of the round."""
    rows = round_.in_few_tasks(round_.keep(changes_and_topics(round_)))
    is_change = F.col("partition").isNotNull()
    topic_leaders, changes = rows.where(~is_change), rows.where(is_change)
    round_.write(topic_tables(round_, topic_leaders, changes) | broker_tables(round_))


def changes_and_topics(round_: Round) -> DataFrame:
    """Return the rows of `only_changes`, and those of `build_topic_leaders`, whose partition is
    null.

    As one query, they come from one read and one shuffle of the partitions.
    """
    brokers = round_.read("brokers", round_.new)
    pairs = read_pairs(round_, CHANGE_INPUTS).transform(with_change, brokers)
    topic_leaders = build_topic_leaders(brokers, read_shuffled(round_, CHANGE_INPUTS))
    return only_changes(pairs).unionByName(topic_leaders, allowMissingColumns=True)


def broker_tables(round_: Round) -> Tables:
    """Return BROKER_BALANCE, from the replicas."""
    brokers, replicas = round_.read("brokers", round_.new), round_.read("replicas", round_.new)
    return {"broker_balance": build_broker_balance(round_.snapshots, brokers, replicas)}


def topic_tables(round_: Round, topic_leaders: DataFrame, changes: DataFrame) -> Tables:
    """Return TOPIC_BALANCE, LEADER_CHANGES, and SNAPSHOT_CHANGES, which is of both.

    Made of the rows of `build_topic_leaders` and `only_changes`; each is read twice.
    """
    snapshots = round_.snapshots
    return {
        "topic_balance": build_topic_balance(snapshots, topic_leaders),
        "leader_changes": build_leader_changes(snapshots, changes),
        "snapshot_changes": build_snapshot_changes(round_, changes, topic_leaders),
    }


def main(argv: Sequence[str]) -> int:
    """Analyse one round; see `run_job` for the exit status."""
    return run_job("leader_balance", __doc__, argv, write_leader_balance)


def _is_compared() -> Column:
    """Return whether the snapshot before has the same partition of the same topic."""
    return F.col("is_known_before") & F.col("is_same_topic")


def _is_other_leader() -> Column:
    return ~F.col("leader").eqNullSafe(F.col("leader_before"))


def _is_other_epoch() -> Column:
    """Return whether the epoch changed; false where one of the two is not known."""
    return F.coalesce(F.col("leader_epoch") != F.col("leader_epoch_before"), F.lit(False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
