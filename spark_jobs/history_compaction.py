"""Spark job `history_compaction`: merges the rows of many files into one, and makes the tables of a
day (DAILY_TABLES).

    spark-submit spark_jobs/history_compaction.py --store file:///var/lib/counterpoise \\
        --work work/1 --plan plan.json

PLAN is JSON. `merges` has for each file to make its number (`output`), the table, and the `files`
to take rows from, each with the `snapshot_ids` whose rows to take; `daily` has the same, a `date`,
and for each snapshot the `seconds` that its rates lasted, null where they do not count, and how
many `live_brokers` there were. The results are in `<WORK>/<table>/output=<number>/`
(`<table>_daily` for those of a day), one file each: rows by snapshot, those of a snapshot in their
order. Nothing else is written and nothing is deleted: the service checks the files and moves them
into the history.

Limits: an object store needs Hadoop's connector for it among Spark's jars. The rows of one file are
sorted by one task.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from leader_balance import with_excess
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from pyspark.sql import types as T  # noqa: N812
from rounds import FAILED, UNUSABLE, JobInputError, store_root, unusable_file
from schemas import spark_schema
from sessions import NoWorkersError, open_session

from counterpoise.model.tables import (
    DAILY_TABLES,
    LEADER_CHANGES_DAILY,
    PARTITION_LOAD_DAILY,
    RESULT_TABLES,
    SNAPSHOT_TABLES,
    TOPIC_BALANCE_DAILY,
    TOPIC_LOAD_DAILY,
)
from counterpoise.model.words import pluralize

_JOB: Final = "history_compaction"
_TABLES: Final[Mapping[str, pa.Schema]] = {**SNAPSHOT_TABLES, **RESULT_TABLES}
# Rates of one entry of TOPIC_LOAD_DAILY differ by less than this factor.
_RATE_STEP: Final = 1.01
_MAX_TASKS: Final = 64
# The last parts of a path, that tell the files of a table apart: the file in the folder of a day of
# a cluster, or in that of a cluster of a round.
_SEGMENTS: Final = 3
# Of a row group: little enough for a reader that wants one snapshot of a file with many.
_GROUP_BYTES: Final = 4 * 1024 * 1024

Entry = Mapping[str, Any]  # of the plan


def main(argv: Sequence[str]) -> int:
    """Run the job and return its exit status; stderr says why.

    0: done; 2: an argument or a file cannot be used; 1: Spark failed.
    """
    parser = argparse.ArgumentParser(prog=_JOB, description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", required=True, help="URI or directory of the store")
    parser.add_argument("--work", required=True, help="folder of the store for what is made")
    parser.add_argument(
        "--plan", required=True, type=Path, help="JSON: which rows of which files become which file"
    )
    arguments = parser.parse_args(argv)
    try:
        plan = load_plan(arguments.plan)
        compact(open_session(_JOB, {}), store_root(arguments.store), arguments.work, plan)
    except (JobInputError, NoWorkersError, PySparkException, Py4JJavaError) as error:
        complaint = str(error) if isinstance(error, JobInputError) else unusable_file(str(error))
        print(f"{_JOB}: {complaint or error}", file=sys.stderr)
        return UNUSABLE if complaint else FAILED
    print(
        f"{_JOB}: {pluralize(len(plan['merges']), 'file')} merged, "
        f"{pluralize(len(plan['daily']), 'table')} of a day made"
    )
    return 0


def compact(
    spark: SparkSession, store: str, work: str, plan: Mapping[str, Sequence[Entry]]
) -> None:
    """Make all files of the plan, with one read per table."""
    for table in sorted({entry["table"] for entry in plan["merges"]}):
        entries = [entry for entry in plan["merges"] if entry["table"] == table]
        merged = build_merged(
            read_rows(spark, store, table, entries), min(len(entries), _MAX_TASKS)
        )
        write(merged.select(*_columns(table), "output"), f"{store}/{work}/{table}")
    for table, build in _BUILD_DAILY.items():
        entries = [entry for entry in plan["daily"] if entry["table"] == table]
        if entries:
            tasks = min(len(entries), _MAX_TASKS)
            daily = build(read_rows(spark, store, table, entries)).repartition(tasks, "output")
            keys = ["output", *(name for name in ("topic", "partition") if name in daily.columns)]
            write(daily.sortWithinPartitions(*keys), f"{store}/{work}/{table}_daily")


def build_merged(rows: DataFrame, tasks: int) -> DataFrame:
    """Return the rows of each output in one task, by snapshot, and then in their order."""
    return rows.repartition(tasks, "output").sortWithinPartitions(
        "output", "snapshot_id", "row_index"
    )


def build_partition_load_daily(loads: DataFrame) -> DataFrame:
    """Return PARTITION_LOAD_DAILY and `output`, from PARTITION_LOAD with `date` and `output`.

    The mean is weighed by time.
    """
    rate = F.col("bytes_in_per_second")
    by_time = F.try_divide(F.sum(rate * F.col("seconds")), F.sum("seconds"))
    return (
        loads.where(rate.isNotNull())
        .groupBy("output", "cluster", "date", "topic", "partition")
        .agg(
            F.count(F.lit(1)).alias("samples"),
            F.round(F.coalesce(by_time, F.avg(rate)))
            .cast("long")
            .alias("mean_bytes_in_per_second"),
            F.max(rate).alias("max_bytes_in_per_second"),
            F.count_if(F.col("how") == "at_least").alias("samples_at_least"),
            F.sum("seconds").alias("seconds"),
        )
        .select(*PARTITION_LOAD_DAILY.names, "output")
    )


def build_topic_load_daily(loads: DataFrame) -> DataFrame:
    """Return TOPIC_LOAD_DAILY and `output`, from TOPIC_LOAD with `date`, `output` and `lasted`."""
    rate, growth, seconds = (
        F.col(name) for name in ("bytes_in_per_second", "growth_bytes_per_second", "lasted")
    )
    step = F.when(rate > 0, F.floor(F.log(rate) / F.log(F.lit(_RATE_STEP)))).when(rate == 0, -1)
    has_unknown = rate.isNotNull() & (F.col("rates_unknown") > 0)
    day = ("output", "cluster", "date", "topic")
    by_step = (
        loads.withColumn("step", step)
        .groupBy(*day, "step")
        .agg(
            F.sum(seconds).alias("seconds"),
            F.sum(rate * seconds).alias("bytes"),
            F.max(F.when(seconds.isNotNull(), rate)).alias("max_rate"),
            F.sum(growth * seconds).alias("growth_bytes"),
            F.sum(F.when(growth.isNotNull(), seconds)).alias("growth_seconds"),
            F.max(F.when(seconds.isNotNull(), F.col("rates_at_least"))).alias("rates_at_least"),
            F.sum(F.when(has_unknown, seconds)).alias("unknown_seconds"),
        )
    )
    entry = F.struct((F.col("bytes") / F.col("seconds")).alias("rate"), "seconds")
    is_known = F.col("step").isNotNull() & (F.col("seconds") > 0)
    return (
        by_step.groupBy(*day)
        .agg(
            F.sort_array(F.collect_list(F.when(is_known, entry))).alias("rates"),
            F.max("max_rate").alias("max_bytes_in_per_second"),
            F.sum("growth_bytes").alias("growth_bytes"),
            F.sum("growth_seconds").alias("growth_seconds"),
            F.max("rates_at_least").alias("rates_at_least"),
            F.sum("unknown_seconds").alias("unknown_seconds"),
        )
        .select(*TOPIC_LOAD_DAILY.names, "output")
    )


def build_topic_balance_daily(balances: DataFrame) -> DataFrame:
    """Return TOPIC_BALANCE_DAILY and `output`, from TOPIC_BALANCE with `date`, `output`, `lasted`
    and `live_brokers`.
    """
    return (
        balances.where((F.col("lasted") > 0) & F.col("live_brokers").isNotNull())
        .transform(with_excess)
        .groupBy("output", "cluster", "date", "topic")
        .agg(
            F.sum("lasted").alias("seconds"),
            F.sum(F.when(F.col("excess") > 0, F.col("lasted")).otherwise(0.0)).alias(
                "uneven_seconds"
            ),
            F.sum(F.col("excess") * F.col("lasted")).alias("excess_seconds"),
            F.max("excess").cast("long").alias("max_excess"),
        )
        .select(*TOPIC_BALANCE_DAILY.names, "output")
    )


def build_leader_changes_daily(changes: DataFrame) -> DataFrame:
    """Return LEADER_CHANGES_DAILY and `output`, from LEADER_CHANGES with `date` and `output`."""
    return (
        changes.groupBy("output", "cluster", "date", "topic", "partition")
        .agg(F.sum(F.coalesce("leader_epochs", F.lit(1))).cast("long").alias("elections"))
        .select(*LEADER_CHANGES_DAILY.names, "output")
    )


_BUILD_DAILY: Final = {
    "partition_load": build_partition_load_daily,
    "topic_load": build_topic_load_daily,
    "topic_balance": build_topic_balance_daily,
    "leader_changes": build_leader_changes_daily,
}


def read_rows(spark: SparkSession, store: str, table: str, entries: Sequence[Entry]) -> DataFrame:
    """Return the rows of the entries, with `snapshot_id`, `row_index`, `output`, and `date`,
    `lasted` and `live_brokers` (null if not daily).

    A column that an old file lacks is null.
    """
    fields = [*spark_schema(_TABLES[table])]
    if "snapshot_id" not in _TABLES[table].names:
        fields.append(T.StructField("snapshot_id", T.StringType()))
    paths = sorted({file["path"] for entry in entries for file in entry["files"]})
    read = spark.read.schema(T.StructType(fields)).parquet(*(f"{store}/{path}" for path in paths))
    has_snapshot_id = "snapshot_id" in _TABLES[table].names
    origins = spark.createDataFrame(_origins(entries, has_snapshot_id=has_snapshot_id))
    return with_output(read, origins)


def with_output(rows: DataFrame, origins: DataFrame) -> DataFrame:
    """Add the output of each row; rows that are of none are left out."""
    folders = F.split(F.col("_metadata.file_path"), "/")
    file = F.concat_ws("/", F.slice(folders, -_SEGMENTS, _SEGMENTS))
    named = rows.withColumn("file", file).withColumn("row_index", F.col("_metadata.row_index"))
    id_in_file = F.coalesce("snapshot_id", "file")
    with_id = named.withColumn("id_in_file", id_in_file).drop("snapshot_id")
    joined = with_id.join(F.broadcast(origins), on=["file", "id_in_file"], how="inner")
    return joined.drop("file", "id_in_file")


def write(rows: DataFrame, folder: str) -> None:
    """Write one file per output; replaces what an earlier attempt wrote into the folder."""
    options = {"compression": "zstd", "parquet.block.size": str(_GROUP_BYTES)}
    rows.write.mode("overwrite").options(**options).partitionBy("output").parquet(folder)


def load_plan(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the plan. Raises JobInputError."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        entries = [*plan["merges"], *plan["daily"]]
        unknown = {entry["table"] for entry in plan["merges"]} - _TABLES.keys()
        unknown |= {entry["table"] for entry in plan["daily"]} - DAILY_TABLES.keys()
        complete = all(
            file["path"] and file["snapshot_ids"] for entry in entries for file in entry["files"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobInputError(f"--plan {path}: {type(error).__name__}: {error}") from None
    if unknown or not complete:
        raise JobInputError(
            f"--plan {path}: unknown tables, or a file without snapshots: {sorted(unknown)}"
        )
    return {"merges": plan["merges"], "daily": plan["daily"]}


def _columns(table: str) -> list[str]:
    names: list[str] = _TABLES[table].names
    return names if "snapshot_id" in names else [*names, "snapshot_id"]


def _origins(entries: Sequence[Entry], *, has_snapshot_id: bool) -> pa.Table:
    """Return into which output the rows of a snapshot in a file go.

    Rows of a file without snapshot ids have the file's own name for one.
    """
    rows = []
    for entry in entries:
        for file in entry["files"]:
            name = "/".join(file["path"].split("/")[-_SEGMENTS:])
            ids = file["snapshot_ids"]
            lasted = dict(zip(ids, file.get("seconds", [None] * len(ids)), strict=True))
            live = dict(zip(ids, file.get("live_brokers", [None] * len(ids)), strict=True))
            pairs = [(snapshot_id, snapshot_id) for snapshot_id in ids]
            if len(pairs) == 1 and not has_snapshot_id:
                pairs.append((name, pairs[0][0]))
            rows += [(name, in_file, one, entry, lasted[one], live[one]) for in_file, one in pairs]
    if len({row[:2] for row in rows}) < len(rows):
        raise JobInputError(
            "the plan takes the same rows twice, or two files have the same name in folders of "
            "the same name"
        )
    files, ids_in_file, snapshot_ids, entries_of, seconds, live_brokers = zip(*rows, strict=True)
    dates = pa.array([entry.get("date") for entry in entries_of], pa.string())
    return pa.table(
        {
            "file": files,
            "id_in_file": ids_in_file,
            "snapshot_id": snapshot_ids,
            "lasted": pa.array(seconds, pa.float64()),
            "live_brokers": pa.array(live_brokers, pa.int64()),
            "output": pa.array([entry["output"] for entry in entries_of], pa.int32()),
            "date": dates.cast(pa.date32()),
        }
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
