"""Spark job `partition_load`: how many bytes come in, partition by partition, and how full the log
dirs are.

    spark-submit spark_jobs/partition_load.py --store file:///var/lib/counterpoise \\
        --round 2026-11-21T15 --snapshots snapshots.json

The arguments are explained in rounds.py. The results are PARTITION_LOAD, BROKER_LOAD, LOG_DIR_LOAD
and TOPIC_LOAD of model/tables.py, in `results/<table>/round=<ROUND>/` of the store; running
the round again replaces them.

Bytes-in between two snapshots is the number of new records (the growth of the latest offset) times
the average size of the records that are kept (bytes of the leader's replica / offsets kept).
Transaction markers take an offset each and are in the sizes too, so the average covers them. Where
nothing was deleted from the log in between, its growth is exact and is used instead. A compacted
log loses records unnoticed: the larger of the two is told, and sums count how many of them they
have (`rates_at_least`). Its growth is a lower bound. The records' bytes are one where new records
are as large as those that are kept; where they are smaller, too much may be told, by as many times
at most. How far below the truth they are cannot be known: where compaction keeps one record of a
hundred, a hundredth of the bytes may be told. A log whose cleanup policy is not known may be
compacted, and is taken for one that is.

Example: offsets 100 to 500 are kept in 4,000 bytes, so a record has 10 bytes. The latest offset was
380 a minute before: 120 records, 1,200 bytes in 60 s, 20 bytes per second.

Plain DataFrame API, no UDFs.

Limits: sizes are those on disk, so of compressed batches. Records that were written and deleted
between two snapshots count with the average of those that stayed. DeleteRecords moves the begin of
a log into a segment whose bytes stay until all of it is deleted: until then a record seems larger
than it is.
"""

import sys
from collections.abc import Sequence

from pairs import read_pairs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from rounds import BROKER_KEY, Round, Tables, run_job
from snapshots import Snapshots, row_columns

from counterpoise.model.tables import BROKER_LOAD, LOG_DIR_LOAD, PARTITION_LOAD, TOPIC_LOAD

# The columns of pairs that `with_load` and the sums read.
LOAD_INPUTS = (
    "snapshot",
    "topic",
    "partition",
    "leader",
    "leader_before",
    "replicas",
    "size_bytes",
    "size_bytes_before",
    "earliest_offset",
    "earliest_offset_before",
    "latest_offset",
    "latest_offset_before",
)
# The columns that the tables (but for log dirs) are made of.
LOAD_COLUMNS = ("snapshot", *row_columns(PARTITION_LOAD), "replicas")


def with_load(pairs: DataFrame, snapshots: Snapshots) -> DataFrame:
    """Add the columns of PARTITION_LOAD, except names and times of the snapshot."""
    names = ("seconds", "max_seconds", "is_rebuilt", "previous_snapshot_id")
    ages = {name: snapshots.column(name) for name in names}
    return (
        pairs.withColumns(ages)
        .transform(with_growth)
        .transform(with_records_bytes)
        .transform(with_how)
        .transform(with_rates)
    )


def with_growth(pairs: DataFrame) -> DataFrame:
    """Add `growth_bytes` of the leader's replica; null unless the same broker leads the same topic
    as before.
    """
    is_same_copy = (F.col("leader") == F.col("leader_before")) & F.col("is_same_topic")
    growth = F.col("size_bytes") - F.col("size_bytes_before")
    return pairs.withColumn("growth_bytes", F.when(is_same_copy, growth))


def with_records_bytes(pairs: DataFrame) -> DataFrame:
    """Add `new_records`, and `records_bytes`, their bytes at the average size; null where that is
    not known.
    """
    kept = F.col("latest_offset") - F.col("earliest_offset")
    records = F.col("latest_offset") - F.col("latest_offset_before")
    bytes_of_records = records.cast("double") * F.col("size_bytes") / F.when(kept > 0, kept)
    return pairs.withColumn("new_records", records).withColumn(
        "records_bytes",
        F.when(records == 0, F.lit(0.0)).when(F.col("size_bytes") > 0, bytes_of_records),
    )


def with_how(pairs: DataFrame) -> DataFrame:
    """Add where bytes-in comes from, or why it is not known; the first true condition counts."""
    is_same_topic, is_compacted = F.col("is_same_topic"), F.col("is_compacted")
    has_kept_all = F.col("earliest_offset") == F.col("earliest_offset_before")
    how = (
        F.when(F.col("is_rebuilt"), F.lit("rebuilt"))
        .when(F.col("previous_snapshot_id").isNull(), F.lit("first"))
        .when(F.col("is_recreated"), F.lit("recreated"))
        .when(~F.col("is_known_before"), F.lit("first"))
        .when(is_same_topic & (F.col("new_records") < 0), F.lit("reset"))
        .when(~_is_in_time(), F.lit("gap"))
        .when(~is_same_topic | F.col("records_bytes").isNull(), F.lit("unknown"))
        .when(F.col("new_records") == 0, F.lit("records"))
        .when(is_compacted, F.lit("at_least"))
        .when(has_kept_all & (F.col("growth_bytes") > 0), F.lit("growth"))
        .otherwise(F.lit("records"))
    )
    return pairs.withColumn("how", how)


def with_rates(pairs: DataFrame) -> DataFrame:
    """Add the rates in whole bytes per second.

    They are null over a gap: a mean over days would hide what happened in them.
    """
    growth = F.col("growth_bytes").cast("double")
    came = (
        F.when(F.col("how") == "records", F.col("records_bytes"))
        .when(F.col("how") == "growth", growth)
        .when(F.col("how") == "at_least", F.greatest("records_bytes", growth))
    )
    return pairs.withColumn("bytes_in_per_second", _per_second(came)).withColumn(
        "growth_bytes_per_second", F.when(_is_in_time(), _per_second(growth))
    )


def build_partition_load(snapshots: Snapshots, loads: DataFrame) -> DataFrame:
    """PARTITION_LOAD."""
    return snapshots.select(loads, PARTITION_LOAD)


def build_broker_load(snapshots: Snapshots, brokers: DataFrame, loads: DataFrame) -> DataFrame:
    """BROKER_LOAD: one row per snapshot and registered broker. Only live brokers fetch."""
    rate, leader, broker_id = F.col("bytes_in_per_second"), F.col("leader"), F.col("broker_id")
    leads = broker_id == leader
    placed = loads.where(leader.isNotNull()).select(
        "snapshot", "leader", "bytes_in_per_second", "how", F.explode("replicas").alias("broker_id")
    )
    is_at_least = F.col("how") == "at_least"
    carried = placed.groupBy(*BROKER_KEY).agg(
        F.sum(F.when(leads, rate)).alias("leader_bytes_in_per_second"),
        F.sum(F.when(~leads, rate)).alias("followed"),
        F.count(F.when(leads, rate)).alias("rates_known"),
        F.count(F.when(leads & rate.isNull(), F.lit(1))).alias("rates_unknown"),
        F.count_if(leads & is_at_least).alias("rates_at_least"),
        F.count_if(~leads & is_at_least).alias("follower_rates_at_least"),
        F.count_if(~leads & rate.isNull()).alias("follower_rates_unknown"),
    )
    load = (
        brokers.join(carried, on=list(BROKER_KEY), how="left")
        .withColumn("follower_bytes_in_per_second", F.when(~F.col("is_fenced"), F.col("followed")))
        .fillna(0, subset=[name for name in BROKER_LOAD.names if "rates_" in name])
    )
    return snapshots.select(load, BROKER_LOAD)


def build_log_dir_load(snapshots: Snapshots, log_dirs: DataFrame) -> DataFrame:
    """LOG_DIR_LOAD: one row per snapshot and log dir that is online, empty ones included."""
    return snapshots.select(log_dirs.where(F.col("error").isNull()), LOG_DIR_LOAD)


def build_topic_load(snapshots: Snapshots, loads: DataFrame) -> DataFrame:
    """TOPIC_LOAD: one row per snapshot and topic.

    Of partitions that are equally hot the first one is named.
    """
    rate = F.col("bytes_in_per_second")
    heat = F.when(rate.isNotNull(), F.struct(rate, -F.col("partition")))
    load = loads.groupBy("snapshot", "topic").agg(
        F.count(F.lit(1)).alias("partition_count"),
        F.sum(rate).alias("bytes_in_per_second"),
        F.max_by("partition", heat).alias("hottest_partition"),
        F.max(rate).alias("hottest_bytes_in_per_second"),
        F.coalesce(F.sum("size_bytes"), F.lit(0)).alias("size_bytes"),
        F.sum("growth_bytes_per_second").alias("growth_bytes_per_second"),
        F.count_if(F.col("how") == "at_least").alias("rates_at_least"),
        F.count_if(rate.isNull()).alias("rates_unknown"),
    )
    return snapshots.select(load, TOPIC_LOAD)


def write_partition_load(round_: Round) -> None:
    """Write all four tables of the round."""
    loads = round_.keep(
        read_pairs(round_, LOAD_INPUTS).transform(with_load, round_.snapshots).select(*LOAD_COLUMNS)
    )
    round_.write(load_tables(round_, loads) | log_dir_tables(round_))


def load_tables(round_: Round, loads: DataFrame) -> Tables:
    """Return PARTITION_LOAD, TOPIC_LOAD and BROKER_LOAD, from the rows of `with_load`."""
    snapshots, brokers = round_.snapshots, round_.read("brokers", round_.new)
    return {
        "partition_load": build_partition_load(snapshots, loads),
        "topic_load": build_topic_load(snapshots, loads),
        "broker_load": build_broker_load(snapshots, brokers, round_.in_few_tasks(loads)),
    }


def log_dir_tables(round_: Round) -> Tables:
    """Return LOG_DIR_LOAD, from the log dirs that brokers report."""
    log_dirs = round_.read("log_dirs", round_.new)
    return {"log_dir_load": build_log_dir_load(round_.snapshots, log_dirs)}


def main(argv: Sequence[str]) -> int:
    """Analyse one round; see `run_job` for the exit status."""
    return run_job("partition_load", __doc__, argv, write_partition_load)


def _is_in_time() -> Column:
    return (F.col("seconds") > 0) & (F.col("seconds") <= F.col("max_seconds"))


def _per_second(count: Column) -> Column:
    return F.floor(count / F.col("seconds") + F.lit(0.5))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
