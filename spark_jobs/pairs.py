"""What both jobs begin with: each partition beside itself in the snapshot before, and numbers to group by.

    pairs = read_pairs(round_)
    pairs.where("leader <> leader_before")

A topic is the same one when name and topic id are; an id that is not known equals one that is not known, and no other.
Snapshots are paired as the list declares, never by their order.

Limits: a partition finds itself by two hashes, 64 bits in all; in a million of them, the chance that two are taken for
one is some 3 in 10^8. All partitions that a topic has in one snapshot come to one task. What is special about topics
(compacted, recreated) is sent to every task: some 100 bytes per such topic and snapshot.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import Round
from snapshots import Snapshots

_KEPT: Final = (
    "snapshot",
    "topic",
    "partition",
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
_COMPARED: Final = ("leader", "leader_epoch", "replicas", "size_bytes", "earliest_offset", "latest_offset")


def read_pairs(round_: Round) -> DataFrame:
    """The pairs of a round."""
    now = round_.read("partitions", round_.new).transform(with_state)
    before = round_.read("partitions", round_.befores)
    return build_pairs(round_.snapshots, now, before, round_.read("topics"), round_.tasks)


def build_pairs(snapshots: Snapshots, now: DataFrame, before: DataFrame, topics: DataFrame, tasks: int) -> DataFrame:
    """A row for each partition of `now`, with `<column>_before` of the snapshot that it is compared with.

    `is_known_before`: the snapshot before has a partition of that name. `fate` of its topic since then: same, recreated
    (the same name with another id), unknown (one of the two ids is not known). `cleanup_policy` may be null.
    """
    nothing = F.lit(-1)  # the number of no snapshot; nulls would all come to one task
    earlier = before.select(
        *_place(F.col("snapshot")),
        F.lit(True).alias("was_there"),
        *(F.col(name).alias(f"{name}_before") for name in _COMPARED),
    ).repartition(tasks, "topic_place")
    later = now.select(*_KEPT, *_place(F.coalesce(snapshots.tell("compared_with"), nothing)))
    policy = F.when(F.col("is_special"), F.col("cleanup_policy")).otherwise(F.lit("delete"))
    return (
        later.repartition(tasks, "topic_place")
        .join(earlier.hint("shuffle_hash"), on=["topic_place", "partition_place"], how="left")
        .withColumn("topic_key", topic_key())
        .join(F.broadcast(build_special_topics(snapshots, topics)), on="topic_key", how="left")
        .select(
            *_KEPT,
            *(f"{name}_before" for name in _COMPARED),
            F.col("was_there").isNotNull().alias("is_known_before"),
            F.coalesce("fate", F.lit("same")).alias("fate"),
            policy.alias("cleanup_policy"),
        )
    )


def with_state(partitions: DataFrame) -> DataFrame:
    """As Kafka counts: replicas that a reassignment is adding are not missed in the ISR.

    `isr` becomes null where all replicas are in it, as nearly always: less to bring together.
    """
    wanted = F.size("replicas") - F.size("adding_replicas")
    is_missing = F.col("isr").isNotNull() & (F.size("isr") < wanted)
    is_moving = (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    short_isr = F.when(F.size("isr") < F.size("replicas"), F.col("isr"))
    return partitions.withColumns({"is_under_replicated": is_missing, "is_reassigning": is_moving, "isr": short_isr})


def build_topic_pairs(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """A row for each topic of each snapshot that is no context: snapshot, topic, cleanup_policy, fate.

    `fate` as in `build_pairs`, and `created`, where there was no topic of that name, or nothing to compare with.
    """
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
        topics.where(~snapshots.tell("is_context"))
        .withColumn("compared_with", snapshots.tell("compared_with"))
        .join(before, on=["compared_with", "topic"], how="left")
        .select("snapshot", "topic", "cleanup_policy", fate.alias("fate"))
    )


def build_special_topics(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """Of those topics the ones that are not what most are: the same as before, with the policy `delete`."""
    is_usual = (F.col("fate") == "same") & F.col("cleanup_policy").eqNullSafe("delete")
    special = build_topic_pairs(snapshots, topics).where(~is_usual)
    return special.select(topic_key(), "cleanup_policy", "fate", F.lit(True).alias("is_special"))


def _place(snapshot: Column) -> tuple[Column, Column]:
    """Two numbers that fit into one of 64 bits, which is what Spark's hash join is quickest with.

    The first is the topic's, and by it rows are brought together: those of a topic come to one task.
    """
    return (
        F.hash(snapshot, F.col("topic")).alias("topic_place"),
        F.hash(F.lit("partition"), F.col("topic"), F.col("partition")).alias("partition_place"),
    )


def broker_place() -> Column:
    """To be grouped by before snapshot and broker: small numbers alone collide in the quick map of Spark's aggregation.

    Its hash of several columns adds them up, each a little shifted, so that broker 70 of one snapshot meets broker 6 of
    the next; what finds no room there goes through a second, slower map.
    """
    return F.xxhash64("snapshot", "broker_id").alias("place")


def topic_key() -> Column:
    """One number tells apart the topics of all snapshots, in half of the time that number and text take."""
    return F.xxhash64("snapshot", "topic").alias("topic_key")


def with_topics(by_key: DataFrame, topics: DataFrame) -> DataFrame:
    """Columns `snapshot` and `topic` for what was counted by `topic_key`."""
    return by_key.join(topics.select(topic_key(), "snapshot", "topic"), on="topic_key", how="inner")
