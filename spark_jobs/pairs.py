"""What both jobs begin with: each partition beside itself in the snapshot before, and numbers to
group by.

    pairs = read_pairs(round_, ["snapshot", "topic", "partition", "leader"])
    pairs.where("leader <> leader_before")

A topic is the same one when name and topic id are; an id that is not known equals one that is not
known, and no other. Snapshots are paired as the list declares, never by their order.

Limits: up to 64 partitions of a topic come to one task, from all snapshots. They are told apart for
certain, but topics by two hashes of 32 bits: with 100,000 of them, the chance that two partitions
are ever taken for one is some 6 in 10^7 over 24 snapshots, 4 in 10^5 over 2,000. Counts are by one
hash of 64 bits of snapshot and topic, or broker: a million keys meet with a chance of 3 in 10^8.
What is special about topics (compacted, recreated) is sent to every task: some 100 bytes per such
topic and snapshot.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import Round
from snapshots import Snapshots

_KEY: Final = ("snapshot", "topic", "partition")
_COMPARED: Final = (
    "leader",
    "leader_epoch",
    "replicas",
    "size_bytes",
    "earliest_offset",
    "latest_offset",
)
_CHUNK: Final = 64  # partitions of a topic that come to one task, from all snapshots


def read_pairs(round_: Round, columns: Sequence[str]) -> DataFrame:
    """The pairs of a round, with those columns of partitions (the key among them), as `with_state`
    tells them.

    Where everything compared with is analysed too, as in a history from its beginning, it is read
    once for both sides.
    """
    now = round_.read("partitions", round_.new)
    is_analysed = bool(round_.befores) and round_.befores <= round_.new
    before = now if is_analysed else round_.read("partitions", round_.befores)
    return build_pairs(round_.snapshots, now, before, round_.read("topics"), columns, round_.tasks)


def build_pairs(
    snapshots: Snapshots,
    now: DataFrame,
    before: DataFrame,
    topics: DataFrame,
    columns: Sequence[str],
    tasks: int,
) -> DataFrame:
    """A row for each partition of `now`, with `<column>_before` of the snapshot that it is compared
    with.

    `is_known_before`: the snapshot before has a partition of that name. Of its topic:
    `is_same_topic`, `is_recreated` (the same name with another id; neither where one of the two ids
    is not known), and `is_compacted`, null where the cleanup policy is not known.
    """
    compared = [name for name in _COMPARED if name in columns]
    asked_before = columns if before is now else [*_KEY, *compared]
    compared_with = F.coalesce(
        snapshots.tell("compared_with"), F.lit(-1)
    )  # the number of no snapshot
    earlier = brought_together(before, asked_before, tasks).select(
        F.col("place").alias("place_before"),
        _within(F.col("snapshot")).alias("within_before"),
        # Asks for all columns: with one less than the other side, Spark would bring the same
        # together twice.
        F.hash(*(name for name in asked_before if name not in _KEY)).alias("was_there"),
        *(F.col(name).alias(f"{name}_before") for name in compared),
    )
    is_same = (F.col("place") == F.col("place_before")) & (
        _within(compared_with) == F.col("within_before")
    )
    is_compacted = F.when(F.col("is_same_topic").isNotNull(), F.col("is_compacted")).otherwise(
        F.lit(False)
    )
    return (
        brought_together(now, columns, tasks)
        .join(earlier.hint("shuffle_hash"), on=is_same, how="left")
        .withColumn("topic_key", topic_key())
        .join(F.broadcast(build_special_topics(snapshots, topics)), on="topic_key", how="left")
        .select(
            *columns,
            *(f"{name}_before" for name in compared),
            F.col("was_there").isNotNull().alias("is_known_before"),
            F.coalesce("is_same_topic", F.lit(True)).alias("is_same_topic"),
            F.coalesce("is_recreated", F.lit(False)).alias("is_recreated"),
            is_compacted.alias("is_compacted"),
        )
    )


def brought_together(partitions: DataFrame, columns: Sequence[str], tasks: int) -> DataFrame:
    """`place`, and those columns. From all snapshots a partition comes to one task, with its
    neighbours.

    When both sides of a comparison ask for the very same, it is brought together once
    (ReusedExchange in the plan).
    """
    return (
        partitions.transform(with_state)
        .select(F.hash("topic", _chunk("partition")).alias("place"), *columns)
        .repartition(tasks, "place")
    )


def with_state(partitions: DataFrame) -> DataFrame:
    """As Kafka counts: replicas that a reassignment is adding are not missed in the ISR.

    `isr` becomes null where all replicas are in it, as nearly always: less to bring together.
    """
    wanted = F.size("replicas") - F.size("adding_replicas")
    is_missing = F.col("isr").isNotNull() & (F.size("isr") < wanted)
    is_moving = (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    short_isr = F.when(F.size("isr") < F.size("replicas"), F.col("isr"))
    return partitions.withColumns(
        {"is_under_replicated": is_missing, "is_reassigning": is_moving, "isr": short_isr}
    )


def build_topic_pairs(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """A row for each topic of each snapshot that is no context: snapshot, topic, cleanup_policy,
    fate.

    `fate` since the snapshot before: same, recreated (the same name with another id), unknown (one
    of the two ids is not known), or created, where there was no topic of that name, or nothing to
    compare with.
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
        .join(before.hint("shuffle_hash"), on=["compared_with", "topic"], how="left")
        .select("snapshot", "topic", "cleanup_policy", fate.alias("fate"))
    )


def build_special_topics(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """Of those topics the ones that are not what most are: the same as before, with the policy
    `delete`.
    """
    is_usual = (F.col("fate") == "same") & F.col("cleanup_policy").eqNullSafe("delete")
    special = build_topic_pairs(snapshots, topics).where(~is_usual)
    return special.select(
        topic_key(),
        (F.col("fate") == "same").alias("is_same_topic"),
        (F.col("fate") == "recreated").alias("is_recreated"),
        F.contains("cleanup_policy", F.lit("compact")).alias("is_compacted"),
    )


def _chunk(partition: str) -> Column:
    """The first partition of those that come to one task with this one."""
    return F.col(partition) - F.col(partition) % F.lit(_CHUNK)


def _within(snapshot: Column) -> Column:
    """Which row of its place.

    Two numbers that fit into one of 64 bits are what Spark's hash join is quickest with.
    """
    number = snapshot * F.lit(_CHUNK) + F.col("partition") % F.lit(_CHUNK)
    other_hash = F.hash(F.lit("within"), "topic", _chunk("partition"))
    # Never null, or Spark would first look for nulls on one side, and no longer see that both are
    # the same.
    return F.coalesce(number.bitwiseXOR(other_hash), F.lit(0))


def broker_key() -> Column:
    """One number tells apart the brokers of all snapshots, and finds its place in the quick map of
    Spark's aggregation.

    The hash of that map adds small numbers up, each a little shifted, so that broker 70 of one
    snapshot meets broker 6 of the next; what finds no room there goes through a second, slower map.
    """
    return F.xxhash64("snapshot", "broker_id").alias("broker_key")


def with_brokers(by_key: DataFrame, brokers: DataFrame) -> DataFrame:
    """All of these brokers, each with what was counted by `broker_key`; nulls for one that has no
    count.
    """
    return brokers.withColumn("broker_key", broker_key()).join(
        F.broadcast(by_key), on="broker_key", how="left"
    )


def topic_key() -> Column:
    """One number tells apart the topics of all snapshots, in half of the time that number and text
    take.
    """
    return F.xxhash64("snapshot", "topic").alias("topic_key")


def with_topics(by_key: DataFrame, topics: DataFrame) -> DataFrame:
    """Columns `snapshot` and `topic` for what was counted by `topic_key`."""
    return by_key.join(topics.select(topic_key(), "snapshot", "topic"), on="topic_key", how="inner")
