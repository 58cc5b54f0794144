"""What both jobs begin with: each partition beside itself in the snapshot before, and what each log dir holds.

    pairs = read_pairs(round_)
    pairs.where("leader <> leader_before")

A topic is the same one when name and topic id are; an id that is not known equals one that is not known, and no other.
Snapshots are paired as the list declares, never by their order.

Limits: what is special about topics (compacted, recreated) is sent to every task: some 100 bytes per such topic and
snapshot.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import Round

_PLACE: Final = ("snapshot", "topic", "partition")
_SHUFFLED: Final = (
    *_PLACE,
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "size_bytes",
    "earliest_offset",
    "latest_offset",
    "is_under_replicated",
    "is_reassigning",
)
_BEFORE: Final = ("leader", "leader_epoch", "replicas", "size_bytes", "earliest_offset", "latest_offset")


def read_pairs(round_: Round) -> DataFrame:
    """The pairs of a round. Where most snapshots are on both sides, they are read and shuffled once for both."""
    if round_.new & round_.befores:
        now = before = placed(round_.read("partitions"), _SHUFFLED, round_.tasks)
    else:
        now = placed(round_.read("partitions", round_.new), _SHUFFLED, round_.tasks)
        before = placed(round_.read("partitions", round_.befores), (*_PLACE, *_BEFORE), round_.tasks)
    return build_pairs(round_.snapshots, now, before, round_.read("topics"))


def read_held(round_: Round) -> DataFrame:
    """What brokers and log dirs hold in the snapshots of a round."""
    return build_held(round_.read("replicas", round_.new))


def placed(partitions: DataFrame, columns: Sequence[str], tasks: int) -> DataFrame:
    """These columns of the table partitions, so that the same partition of all snapshots lies in the same task."""
    is_placed = F.col("topic").isNotNull() & F.col("partition").isNotNull() & F.col("snapshot").isNotNull()
    return partitions.where(is_placed).transform(with_state).select(*columns).repartition(tasks, "topic", "partition")


def build_pairs(snapshots: DataFrame, now: DataFrame, before: DataFrame, topics: DataFrame) -> DataFrame:
    """A row for each partition of each snapshot that is no context, with `<column>_before` of the one compared with.

    `now` and `before` are `placed`; they may be the same. `is_known_before`: the snapshot before has a partition of
    that name. `fate` of its topic since then: same, recreated (the same name with another id), unknown (one of the two
    ids is not known). `cleanup_policy` may be null.
    """
    new = snapshots.where(~F.col("is_context")).select("snapshot", "compared_with")
    befores = snapshots.where(F.col("compared_with").isNotNull()).select(F.col("compared_with").alias("snapshot"))
    is_there = F.col("snapshot").isNotNull()
    if now is before:
        # Both sides use every column and drop no other rows, so that they are one and the same shuffle, made once.
        is_there = F.hash("isr", "is_under_replicated", "is_reassigning") >= F.lit(-(2**31))
    earlier = before.join(F.broadcast(befores.distinct()), on="snapshot", how="inner").select(
        F.col("snapshot").alias("compared_with"),
        "topic",
        "partition",
        *(F.col(name).alias(f"{name}_before") for name in _BEFORE),
        is_there.alias("is_known_before"),
    )
    return (
        now.join(F.broadcast(new), on="snapshot", how="inner")
        .join(earlier.hint("shuffle_hash"), on=["compared_with", "topic", "partition"], how="left")
        .join(F.broadcast(build_special_topics(snapshots, topics)), on=["snapshot", "topic"], how="left")
        .withColumn("is_known_before", F.coalesce("is_known_before", F.lit(False)))
        .withColumn("fate", F.coalesce("fate", F.lit("same")))
        .withColumn("cleanup_policy", F.when(F.col("is_special"), F.col("cleanup_policy")).otherwise(F.lit("delete")))
        .drop("is_special", "compared_with")
    )


def with_state(partitions: DataFrame) -> DataFrame:
    """As Kafka counts: replicas that a reassignment is adding are not missed in the ISR."""
    wanted = F.size("replicas") - F.size("adding_replicas")
    is_missing = F.col("isr").isNotNull() & (F.size("isr") < wanted)
    is_moving = (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    return partitions.withColumn("is_under_replicated", is_missing).withColumn("is_reassigning", is_moving)


def build_topic_pairs(snapshots: DataFrame, topics: DataFrame) -> DataFrame:
    """A row for each topic of each snapshot that is no context: snapshot, topic, cleanup_policy, fate.

    `fate` as in `build_pairs`, and `created`, where there was no topic of that name, or nothing to compare with.
    """
    new = snapshots.where(~F.col("is_context")).select("snapshot", "compared_with")
    before = topics.select(
        F.col("snapshot").alias("compared_with"),
        "topic",
        F.col("topic_id").alias("topic_id_before"),
        F.lit(True).alias("was_there"),
    )
    is_other = F.col("topic_id") != F.col("topic_id_before")
    fate = (
        F.when(F.col("was_there").isNull(), F.lit("created"))
        .when(F.col("topic_id").eqNullSafe(F.col("topic_id_before")), F.lit("same"))
        .when(is_other, F.lit("recreated"))
        .otherwise(F.lit("unknown"))
    )
    return (
        topics.join(F.broadcast(new), on="snapshot", how="inner")
        .join(before, on=["compared_with", "topic"], how="left")
        .withColumn("fate", fate)
        .select("snapshot", "topic", "cleanup_policy", "fate")
    )


def build_special_topics(snapshots: DataFrame, topics: DataFrame) -> DataFrame:
    """Of those topics the ones that are not what most are: the same as before, with the policy `delete`."""
    is_usual = (F.col("fate") == "same") & F.col("cleanup_policy").eqNullSafe("delete")
    return build_topic_pairs(snapshots, topics).where(~is_usual).withColumn("is_special", F.lit(True))


def build_held(replicas: DataFrame) -> DataFrame:
    """Per snapshot, broker and log dir (null: not known): replicas, bytes, leaders; few rows."""
    is_leader, is_first = F.col("is_leader"), F.col("position") == 0
    return replicas.groupBy("snapshot", "broker_id", "log_dir").agg(
        F.count_if(is_leader).alias("leaders"),
        F.count_if(is_first).alias("preferred_leaders"),
        F.count_if(is_leader & ~is_first).alias("leaders_not_preferred"),
        F.count(F.lit(1)).alias("replicas"),
        F.sum("size_bytes").alias("bytes"),
    )
