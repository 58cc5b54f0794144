"""Spark job `leader_balance`: per snapshot, what each broker leads and holds, and how unevenly each topic is led.

    spark-submit spark_jobs/leader_balance.py --store file:///var/lib/counterpoise --round 2026-11-21T15 \\
        --snapshots snapshots.json

SNAPSHOTS is a JSON list of manifest rows (history.manifests_json writes it); exactly the files named there are read,
with one read per table however many snapshots there are. The results, BROKER_BALANCE and TOPIC_BALANCE of
model/tables.py, go to `results/<table>/round=<ROUND>/` in the store; running the round again replaces them.

Plain DataFrame API, no UDFs. It only makes counts: what "even" means is in model/measures.py, applied to them later.

Limits: an object store needs Hadoop's connector for it among Spark's jars. A replica whose size is not known counts
as 0 bytes. Replicas on a broker that is no longer registered are in no broker's count.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from pyspark.sql import types as T  # noqa: N812

from counterpoise.model.tables import BROKER_BALANCE, SCHEMA_VERSION, SNAPSHOT_TABLES, TOPIC_BALANCE

_TABLES_READ = ("brokers", "partitions", "replicas")
_MANIFEST_COLUMNS = ("snapshot_id", "cluster", "observed_at", "schema_version", "files")
_ROUND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class JobInputError(Exception):
    """An argument or the list of snapshots cannot be used; the message says which and why."""


def build_broker_balance(snapshots: DataFrame, brokers: DataFrame, replicas: DataFrame) -> DataFrame:
    """BROKER_BALANCE: one row per snapshot and registered broker; one without replicas is a row of zeros.

    `snapshots` has snapshot_id, cluster, observed_at; the others are history tables with a snapshot_id.
    """
    held = replicas.groupBy("snapshot_id", "broker_id").agg(
        _count_where(F.col("is_leader")).alias("leaders"),
        _count_where(F.col("position") == 0).alias("preferred_leaders"),
        _count_where(F.col("is_leader") & (F.col("position") > 0)).alias("leaders_not_preferred"),
        F.count(F.lit(1)).alias("replicas"),
        F.sum("size_bytes").alias("bytes"),
    )
    return (
        brokers.join(held, on=["snapshot_id", "broker_id"], how="left")
        .join(F.broadcast(snapshots), on="snapshot_id", how="inner")
        .fillna(0, subset=["leaders", "preferred_leaders", "leaders_not_preferred", "replicas", "bytes"])
        .select(*BROKER_BALANCE.names)
    )


def build_topic_balance(snapshots: DataFrame, brokers: DataFrame, partitions: DataFrame) -> DataFrame:
    """TOPIC_BALANCE: one row per snapshot and topic. `fewest_leaders` is over the live brokers, idle ones included."""
    live = brokers.where(~F.col("is_fenced")).select(
        "snapshot_id", F.col("broker_id").alias("leader"), F.lit(1).alias("is_live")
    )
    live_counts = live.groupBy("snapshot_id").agg(F.count(F.lit(1)).alias("live_count"))
    led = partitions.groupBy("snapshot_id", "topic", "leader").agg(
        F.count(F.lit(1)).alias("led"), F.sum("size_bytes").alias("led_bytes")
    )
    return (
        led.join(F.broadcast(live), on=["snapshot_id", "leader"], how="left")
        .groupBy("snapshot_id", "topic")
        .agg(
            F.sum("led").alias("partition_count"),
            F.max(F.when(F.col("leader").isNotNull(), F.col("led"))).alias("most_leaders"),
            F.min(F.when(F.col("is_live").isNotNull(), F.col("led"))).alias("fewest_of_leading"),
            F.count("is_live").alias("leading_count"),
            F.sum("led_bytes").alias("size_bytes"),
        )
        .join(F.broadcast(live_counts), on="snapshot_id", how="left")
        .join(F.broadcast(snapshots), on="snapshot_id", how="inner")
        .transform(with_fewest_leaders)
        .fillna(0, subset=["most_leaders", "size_bytes"])
        .select(*TOPIC_BALANCE.names)
    )


def with_fewest_leaders(topics: DataFrame) -> DataFrame:
    """A live broker that leads nothing of the topic makes it 0; so does a cluster without a live broker."""
    all_live_lead = F.col("leading_count") == F.col("live_count")
    return topics.withColumn("fewest_leaders", F.when(all_live_lead, F.col("fewest_of_leading")).otherwise(F.lit(0)))


def with_snapshot_id(table: DataFrame, files: DataFrame) -> DataFrame:
    """A history table with the snapshot of each row, told by the file that the row lies in."""
    named = table.withColumn("file_name", F.col("_metadata.file_name"))
    return named.join(F.broadcast(files), on="file_name", how="inner").drop("file_name")


def read_table(spark: SparkSession, store: str, name: str, manifests: Sequence[Mapping[str, Any]]) -> DataFrame:
    """One table of all the snapshots, in one read. Columns that an old file lacks come as nulls."""
    paths = {row["snapshot_id"]: _path_of(row, name) for row in manifests}
    files = [(path.rpartition("/")[2], snapshot_id) for snapshot_id, path in paths.items()]
    if len({file_name for file_name, _ in files}) < len(files):
        raise JobInputError(f"two snapshots name the same file for the table {name!r}")
    read = spark.read.schema(spark_schema(SNAPSHOT_TABLES[name])).parquet(*(f"{store}/{p}" for p in paths.values()))
    names = pa.table({"file_name": [file_name for file_name, _ in files], "snapshot_id": [i for _, i in files]})
    return with_snapshot_id(read, spark.createDataFrame(names))


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The Spark schema of one of our Arrow schemas."""
    return T.StructType([T.StructField(field.name, _spark_type(field.type), field.nullable) for field in schema])


def main(argv: Sequence[str]) -> int:
    """Analyse one round. 0: done; 2: an argument cannot be used; 1: Spark failed (the reason is on stderr)."""
    parser = argparse.ArgumentParser(prog="leader_balance", description="Leader balance of snapshots, one round.")
    parser.add_argument("--store", required=True, help="URI or directory of the store")
    parser.add_argument("--round", required=True, help="name of the round; the results lie under it")
    parser.add_argument("--snapshots", required=True, type=Path, help="JSON list of the snapshots' manifest rows")
    arguments = parser.parse_args(argv)
    try:
        if not _ROUND.fullmatch(arguments.round):
            raise JobInputError(f"--round {arguments.round!r}: use letters, digits, '.', '_' and '-'")
        manifests = load_manifests(arguments.snapshots)
        run_round(_session(), store_root(arguments.store), arguments.round, manifests)
    except (JobInputError, PySparkException) as error:
        print(f"leader_balance: {error}", file=sys.stderr)
        return 2 if isinstance(error, JobInputError) else 1
    print(f"leader_balance: round {arguments.round}: {len(manifests)} snapshot(s) analysed")
    return 0


def run_round(spark: SparkSession, store: str, round_id: str, manifests: Sequence[Mapping[str, Any]]) -> None:
    """Read the named files of all snapshots, write both results of the round."""
    # Through Arrow: a list of rows would start Python workers, for a table of a few rows.
    snapshots = spark.createDataFrame(_snapshots_table(manifests))
    brokers, partitions, replicas = (read_table(spark, store, name, manifests) for name in _TABLES_READ)
    results = {
        "broker_balance": build_broker_balance(snapshots, brokers, replicas),
        "topic_balance": build_topic_balance(snapshots, brokers, partitions),
    }
    for name, result in results.items():
        result.write.mode("overwrite").parquet(f"{store}/results/{name}/round={round_id}")


def _snapshots_table(manifests: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.table(
        {
            "snapshot_id": [row["snapshot_id"] for row in manifests],
            "cluster": [row["cluster"] for row in manifests],
            "observed_at": pa.array(
                [datetime.fromisoformat(row["observed_at"]) for row in manifests], pa.timestamp("us", tz="UTC")
            ),
        }
    )


def load_manifests(path: Path) -> list[dict[str, Any]]:
    """The manifest rows in a `--snapshots` file. Raises JobInputError."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JobInputError(f"--snapshots {path}: {error}") from None
    if not isinstance(rows, list) or not rows:
        raise JobInputError(f"--snapshots {path}: must be a JSON list with at least one manifest row")
    for index, row in enumerate(rows):
        missing = [name for name in _MANIFEST_COLUMNS if not isinstance(row, dict) or name not in row]
        if missing:
            raise JobInputError(f"--snapshots {path}: entry {index} lacks {', '.join(missing)}")
    if newer := [row["snapshot_id"] for row in rows if row["schema_version"] > SCHEMA_VERSION]:
        raise JobInputError(f"schema version above {SCHEMA_VERSION}, written by a newer release: {', '.join(newer)}")
    return rows


def store_root(store: str) -> str:
    """The store as Hadoop names it: a directory or a file URI becomes `file:///...`, unescaped; others stay."""
    scheme = urlsplit(store).scheme
    if scheme == "file":
        return "file://" + unquote(urlsplit(store).path).rstrip("/")
    return store.rstrip("/") if scheme else f"file://{Path(store).absolute()}"


def _session() -> SparkSession:
    """Settings that the results depend on; master, memory and the like come from spark-submit."""
    spark = SparkSession.builder.appName("leader_balance").getOrCreate()
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    return spark


def _path_of(manifest: Mapping[str, Any], table: str) -> str:
    for file in manifest["files"]:
        if file["table"] == table:
            return str(file["path"])
    raise JobInputError(f"the manifest of snapshot {manifest['snapshot_id']} names no file for the table {table!r}")


def _count_where(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _spark_type(arrow: pa.DataType) -> T.DataType:
    if pa.types.is_list(arrow):
        return T.ArrayType(_spark_type(arrow.value_type), arrow.value_field.nullable)
    return _SPARK_TYPES[arrow]


_SPARK_TYPES: Mapping[pa.DataType, T.DataType] = {
    pa.string(): T.StringType(),
    pa.bool_(): T.BooleanType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.timestamp("us", tz="UTC"): T.TimestampType(),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
