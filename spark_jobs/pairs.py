"""What both jobs begin with: each partition beside itself in the snapshot before.

    pairs = read_pairs(round_, ["snapshot", "topic", "partition", "leader", "leader_before"])
    pairs.where("leader <> leader_before")

A topic is the same as before when its name and its topic id are. A topic id that is not known
equals another one that is not known, and no other. Snapshots are paired as the list declares, never
by their order.

Partitions are joined by snapshot, topic and partition, exactly. Where snapshots are compared that
are analysed, too, the rows of all are read and shuffled once: both sides of the join come from that
one shuffle, and so do the topics' leaders that `leader_balance` counts. With a read and a shuffle
for these, and a shuffle for each side, its CPU time was a fifth more. Where each cluster has one
new snapshot, as in most rounds, no row is on both sides, and each side is shuffled by itself: of
one shuffle, each would read the other's rows as well. Spark sorts and merges them, which spills to
disk: to take a hash join where a task's share is small, it would have to choose the shuffle itself.

Rows are shuffled by topic, so that nothing has to be shuffled again where topics are counted. A
topic's partitions of all snapshots come to one task.

What is special about topics (compacted, recreated, new) is sent to every task, some 100 bytes per
such topic and snapshot; where a round has a million topics or more, Spark chooses for it, too.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import Round, row_count
from snapshots import Snapshots

_KEY: Final = ("snapshot", "topic", "partition")
_MAX_TOPICS_SENT: Final = 1_000_000
_BEFORE: Final = "_before"  # ends the name of a column of the snapshot before


def read_pairs(round_: Round, columns: Sequence[str]) -> DataFrame:
    """Return the pairs of a round with these `columns`, the key among them; see `build_pairs`."""
    special_topics = build_special_topics(round_.snapshots, round_.read("topics"))
    if row_count(round_.manifests, "topics") < _MAX_TOPICS_SENT:
        special_topics = F.broadcast(special_topics)
    compared_with = round_.snapshots.column("compared_with")
    to_analyse = round_.snapshots.to_analyse(round_.spark).withColumn(
        "compared_with", compared_with
    )
    states, before = _read_both_sides(round_, columns)
    return build_pairs(states, before, F.broadcast(to_analyse), special_topics, columns)


def read_shuffled(round_: Round, columns: Sequence[str]) -> DataFrame:
    """Return the partitions to analyse with the `columns` that are not of the snapshot before.

    In a query that has `read_pairs` with the same `columns`, too, both come from one shuffle.
    """
    to_analyse = round_.snapshots.to_analyse(round_.spark)
    states, _ = _read_both_sides(round_, columns)
    return states.join(F.broadcast(to_analyse), on="snapshot", how="inner").select(
        "snapshot",
        "topic",
        "state.partition",
        *(F.col(f"state.{name}") for name in _columns_now(columns)),
    )


def _read_both_sides(round_: Round, columns: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Return the states of the snapshots to analyse, and of those that they are compared with, each
    with other snapshots, too, where some snapshots are both.
    """
    now, before = _columns_now(columns), _columns_before(columns)
    if round_.new.isdisjoint(round_.befores):
        return (
            build_states(round_.read("partitions", round_.new), now),
            build_states(round_.read("partitions", round_.befores), before),
        )
    partitions = round_.read("partitions", round_.new | round_.befores)
    of_both = build_states(partitions, sorted({*now, *before}))
    return of_both, of_both


def _columns_now(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in _KEY and not name.endswith(_BEFORE)]


def _columns_before(columns: Sequence[str]) -> list[str]:
    return [name.removesuffix(_BEFORE) for name in columns if name.endswith(_BEFORE)]


def build_pairs(
    states: DataFrame,
    states_before: DataFrame,
    to_analyse: DataFrame,
    special_topics: DataFrame,
    columns: Sequence[str],
) -> DataFrame:
    """Return a row for each partition of the snapshots `to_analyse`, beside it the partition in the
    snapshot before (`compared_with`).

    `columns` are columns of partitions and those that `with_state` adds, all of them in `states`
    (see `build_states`); `<column>_before` is the same of the snapshot before, in `states_before`;
    both may have rows of more snapshots. The rows also have
    `is_known_before` (the snapshot before has a partition of that name) and, of its topic:
    `is_same_topic`, `is_recreated` (the same name with another id; neither where one of the two ids
    is not known), and `is_compacted`, also where the cleanup policy is not known: it may be.
    """
    number = F.col("state.partition")
    before = states_before.withColumn("partition", number).withColumnsRenamed(
        {"snapshot": "compared_with", "state": "before"}
    )
    return (
        states.withColumn("partition", number)
        .join(to_analyse, on="snapshot", how="inner")
        .join(before, on=["compared_with", "topic", "partition"], how="left")
        .join(special_topics, on=["snapshot", "topic"], how="left")
        .select(
            *_KEY,
            *(F.col(f"state.{name}") for name in _columns_now(columns)),
            *(
                F.col(f"before.{name}").alias(f"{name}{_BEFORE}")
                for name in _columns_before(columns)
            ),
            F.col("before").isNotNull().alias("is_known_before"),
            F.coalesce("is_same_topic", F.lit(True)).alias("is_same_topic"),
            F.coalesce("is_recreated", F.lit(False)).alias("is_recreated"),
            F.coalesce("is_compacted", F.lit(False)).alias("is_compacted"),
        )
    )


def build_states(partitions: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return snapshot and topic of each partition and, as `state`, its number and these columns;
    shuffled by topic.

    What is made of them in one query, like both sides of a join, comes from one shuffle only where
    each use has the very same rows and columns (ReusedExchange in Spark's plan). As one column,
    Spark leaves out no part of the state where it is not needed. And it would leave out rows with a
    null key for one side of a join: reading has failed on any null there (`with_required`), which
    `coalesce` makes known to Spark.
    """
    partition = F.coalesce("partition", F.lit(-1)).alias("partition")
    return (
        partitions.transform(with_state)
        .select(
            "snapshot",
            F.coalesce("topic", F.lit("")).alias("topic"),
            F.struct(partition, *columns).alias("state"),
        )
        .repartition("topic")
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
        .join(before, on=["compared_with", "topic"], how="left")
        .select("snapshot", "topic", "cleanup_policy", topic_change.alias("topic_change"))
    )


def build_special_topics(snapshots: Snapshots, topics: DataFrame) -> DataFrame:
    """Return the topics that are not what most are: same as before, with the policy `delete`."""
    change = F.col("topic_change")
    is_usual = (change == "same") & F.col("cleanup_policy").eqNullSafe("delete")
    special = build_topic_pairs(snapshots, topics).where(~is_usual)
    return special.select(
        "snapshot",
        "topic",
        (change == "same").alias("is_same_topic"),
        (change == "recreated").alias("is_recreated"),
        F.coalesce(F.contains("cleanup_policy", F.lit("compact")), F.lit(True)).alias(
            "is_compacted"
        ),
    )
