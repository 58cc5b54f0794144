"""What both jobs begin with: each partition beside itself in the snapshot before, and numbers to
group by.

    pairs = read_pairs(round_, ["snapshot", "topic", "partition", "leader", "leader_before"])
    pairs.where("leader <> leader_before")

A topic is the same as before when its name and its topic id are. A topic id that is not known
equals another one that is not known, and no other. Snapshots are paired as the list declares, never
by their order.

How partitions are paired:

    task_key = hash of topic and of the first partition of its chunk of 64
    row_key  = which row of that chunk: snapshot * 64 + partition % 64, mixed with a second hash
    repartition both sides by task_key, then join where task_key and row_key are equal

Example: partition 70 of `orders` in snapshot 3 is of the chunk that begins with 64. Its task_key is
hash("orders", 64); before mixing, its row_key is 3 * 64 + 70 % 64 = 198.

Limits: up to 64 partitions of a topic come to one task, from all snapshots. They are distinguished
for certain, but topics by two hashes of 32 bits: with 100,000 of them, the chance that two
partitions are ever mistaken for one is some 6 in 10^7 over 24 snapshots, 4 in 10^5 over 2,000.
Counts are by one hash of 64 bits of snapshot and topic, or broker: a million keys collide with a
chance of 3 in 10^8. What is special about topics (compacted, recreated) is sent to every task: some
100 bytes per such topic and snapshot.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import Round
from snapshots import Snapshots

_KEY: Final = ("snapshot", "topic", "partition")
_BEFORE: Final = "_before"  # ends the name of a column of the snapshot before
_CHUNK: Final = 64  # partitions of a topic that come to one task, from all snapshots
_NO_SNAPSHOT: Final = -1  # the number of no snapshot


def read_pairs(round_: Round, columns: Sequence[str]) -> DataFrame:
    """Return the pairs of a round with these `columns`, the key among them; see `build_pairs`.

    Where every snapshot that is compared with is analysed too, as in a history from its beginning,
    it is read once for both sides.
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
    """Return a row for each partition of `now`, beside it the partition in the snapshot before.

    `columns` are columns of partitions and those that `with_state` adds; `<column>_before` is the
    same of the snapshot before. The rows also have `is_known_before` (the snapshot before has a
    partition of that name) and, of its topic: `is_same_topic`, `is_recreated` (the same name with
    another id; neither where one of the two ids is not known), and `is_compacted`, null where the
    cleanup policy is not known.
    """
    columns_now = [name for name in columns if not name.endswith(_BEFORE)]
    compared = [name.removesuffix(_BEFORE) for name in columns if name.endswith(_BEFORE)]
    columns_before = columns_now if before is now else [*_KEY, *compared]
    earlier = co_located(before, columns_before, tasks).select(
        F.col("task_key").alias("task_key_before"),
        _row_key(F.col("snapshot")).alias("row_key_before"),
        # Reads all columns: with one less than the other side, Spark would shuffle the same rows
        # twice.
        F.hash(*(name for name in columns_before if name not in _KEY)).alias("hash_before"),
        *(F.col(name).alias(f"{name}{_BEFORE}") for name in compared),
    )
    compared_with = F.coalesce(snapshots.column("compared_with"), F.lit(_NO_SNAPSHOT))
    is_same_task = F.col("task_key") == F.col("task_key_before")
    is_same_row = _row_key(compared_with) == F.col("row_key_before")
    is_special = F.col("is_same_topic").isNotNull()
    return (
        co_located(now, columns_now, tasks)
        .join(earlier.hint("shuffle_hash"), on=is_same_task & is_same_row, how="left")
        .withColumn("topic_key", topic_key())
        .join(F.broadcast(build_special_topics(snapshots, topics)), on="topic_key", how="left")
        .select(
            *columns,
            F.col("hash_before").isNotNull().alias("is_known_before"),
            F.coalesce("is_same_topic", F.lit(True)).alias("is_same_topic"),
            F.coalesce("is_recreated", F.lit(False)).alias("is_recreated"),
            F.when(is_special, F.col("is_compacted")).otherwise(F.lit(False)).alias("is_compacted"),
        )
    )


def co_located(partitions: DataFrame, columns: Sequence[str], tasks: int) -> DataFrame:
    """Return `task_key` and these columns, shuffled so that a partition of all snapshots comes to
    one task, with its neighbours.

    When both sides of a comparison have the very same columns, they are shuffled once
    (ReusedExchange in the plan).
    """
    return (
        partitions.transform(with_state)
        .select(F.hash("topic", _chunk("partition")).alias("task_key"), *columns)
        .repartition(tasks, "task_key")
    )


def with_state(partitions: DataFrame) -> DataFrame:
    """Add `is_under_replicated` and `is_reassigning`, counted as Kafka does: replicas that a
    reassignment is adding are not missed in the ISR.

    `isr` becomes null where all replicas are in it, as nearly always: less to shuffle.
    """
    wanted = F.size("replicas") - F.size("adding_replicas")
    is_missing = F.col("isr").isNotNull() & (F.size("isr") < wanted)
    is_moving = (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    short_isr = F.when(F.size("isr") < F.size("replicas"), F.col("isr"))
    return partitions.withColumns(
        {"is_under_replicated": is_missing, "is_reassigning": is_moving, "isr": short_isr}
    )


def build_topic_pairs(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """Return snapshot, topic, cleanup_policy and `topic_change` of each topic in each snapshot to
    analyse.

    `topic_change` since the snapshot before: same, recreated (the same name with another id),
    unknown (one of the two ids is not known), or created, where there was no topic of that name, or
    nothing to compare with.
    """
    before = topics.select(
        F.col("snapshot").alias("compared_with"),
        "topic",
        F.col("topic_id").alias("topic_id_before"),
        F.lit(True).alias("is_known_before"),
    )
    is_other = F.col("topic_id") != F.col("topic_id_before")
    topic_change = (
        F.when(F.col("is_known_before").isNull(), F.lit("created"))
        .when(F.col("topic_id").eqNullSafe(F.col("topic_id_before")), F.lit("same"))
        .when(is_other, F.lit("recreated"))
        .otherwise(F.lit("unknown"))
    )
    return (
        topics.where(~snapshots.column("is_context"))
        .withColumn("compared_with", snapshots.column("compared_with"))
        .join(before.hint("shuffle_hash"), on=["compared_with", "topic"], how="left")
        .select("snapshot", "topic", "cleanup_policy", topic_change.alias("topic_change"))
    )


def build_special_topics(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """Return the topics that are not what most are: same as before, with the policy `delete`."""
    change = F.col("topic_change")
    is_usual = (change == "same") & F.col("cleanup_policy").eqNullSafe("delete")
    special = build_topic_pairs(snapshots, topics).where(~is_usual)
    return special.select(
        topic_key(),
        (change == "same").alias("is_same_topic"),
        (change == "recreated").alias("is_recreated"),
        F.contains("cleanup_policy", F.lit("compact")).alias("is_compacted"),
    )


def _chunk(partition: str) -> Column:
    """Return the first partition of those that come to one task with this one: 64 for 70."""
    return F.col(partition) - F.col(partition) % F.lit(_CHUNK)


def _row_key(snapshot: Column) -> Column:
    """Return which of the rows with its task key a row is.

    Two numbers that fit into one of 64 bits are what Spark's hash join is quickest with.
    """
    number = snapshot * F.lit(_CHUNK) + F.col("partition") % F.lit(_CHUNK)
    other_hash = F.hash(F.lit("within"), "topic", _chunk("partition"))
    # Never null, or Spark would first filter out nulls on one side, and no longer see that both
    # sides are the same.
    return F.coalesce(number.bitwiseXOR(other_hash), F.lit(0))


def broker_key() -> Column:
    """Return one number that distinguishes the brokers of all snapshots.

    It is a hash because of the quick map of Spark's aggregation: that map adds small numbers up,
    each a little shifted, so broker 70 of one snapshot collides with broker 6 of the next, and what
    finds no room there goes through a second, slower map.
    """
    return F.xxhash64("snapshot", "broker_id").alias("broker_key")


def with_brokers(by_key: DataFrame, brokers: DataFrame) -> DataFrame:
    """Return all of these brokers, each with what was counted by `broker_key`; nulls where nothing
    was counted.
    """
    return brokers.withColumn("broker_key", broker_key()).join(
        F.broadcast(by_key), on="broker_key", how="left"
    )


def topic_key() -> Column:
    """Return one number that distinguishes the topics of all snapshots; grouping by it takes half
    of the time that number and text take.
    """
    return F.xxhash64("snapshot", "topic").alias("topic_key")


def with_topics(by_key: DataFrame, topics: DataFrame) -> DataFrame:
    """Add the columns `snapshot` and `topic` to what was counted by `topic_key`."""
    return by_key.join(topics.select(topic_key(), "snapshot", "topic"), on="topic_key", how="inner")
