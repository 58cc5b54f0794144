"""What the Spark jobs share: arguments, list of snapshots, reading the history, writing results.

    def main(argv: Sequence[str]) -> int:
        return run_job("leader_balance", __doc__, argv, write_leader_balance)

    def write_leader_balance(round_: Round) -> None:
        brokers = round_.read("brokers")        # of all the snapshots, with the column `snapshot`
        # to results/broker_balance/round=<ROUND>/cluster_name=<CLUSTER>/
        round_.write({"broker_balance": build_broker_balance(...)})

`--snapshots FILE` is a JSON list of manifest rows (analysis.Round.to_json writes it), each with
further keys: `previous_snapshot_id`, the snapshot to compare with, or null: the one of its cluster
that is listed before it; `is_context`, true for one that is only there to be compared with; and
`max_seconds`, the longest time over which a rate is a mean (model/intervals.py).
Exactly the files named there are read, one read per table however many snapshots there are. A file
may hold many snapshots; then its column `snapshot_id` says which row is of which snapshot.

Inside the jobs a snapshot is a small number, its place in that list (`snapshot`): millions of rows
carry it.

Limits: an object store needs Hadoop's connector for it among Spark's jars.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from pyspark.sql import types as T  # noqa: N812
from schemas import spark_schema
from sessions import NoWorkersError, open_session
from snapshots import NUMBER, Snapshots

from counterpoise.model.tables import CLUSTER_FOLDER, SNAPSHOT_TABLES
from counterpoise.model.words import pluralize

Tables = dict[str, DataFrame]  # by name

# What is counted by broker is grouped in this order. With the snapshot first, half of the brokers
# of two snapshots collide in the quick map of Spark's aggregation, and go to a slower one.
BROKER_KEY: Final = ("broker_id", "snapshot")

UNUSABLE: Final = 2  # exit status: an argument or a file cannot be used; trying again is of no use
FAILED: Final = 1
# The keys of a manifest row.
_KEYS: Final = ("snapshot_id", "cluster", "cluster_id", "observed_at", "schema_version", "files")
_ROUND: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Of partitions, after a shuffle: with four times as many, a round took a little more CPU time.
_ROWS_PER_TASK: Final = 125_000
_MIN_TASKS: Final = 2
# Of partitions, as many as come into one file of results: few files, and few tasks that write them.
_ROWS_PER_FILE: Final = 1_000_000
# Of files, read by one task: compressed, they hold far more rows than their size suggests.
_READ_PER_TASK: Final = "32m"
_OTHER: Final = -1  # the number of a snapshot that is not in the list

_SHUFFLE_TASKS: Final = "spark.sql.shuffle.partitions"
_SETTINGS: Final = {
    # Kept rows are written and read with it: Java's own serialization takes a fifteenth of the CPU
    # time of `partition_load` more.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    # Otherwise each call of the DataFrame API sends its place in our code to the JVM: a fifth of
    # the CPU time of a round with one new snapshot.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # To look up the snapshot of a row in a map of fewer files, Spark would try one after the other.
    "spark.sql.optimizer.mapLookupHashThreshold": "2",
    # Otherwise all rows of a table are sorted by their folder before they are written, also where
    # there is one folder. With so many files open at once, Spark sorts the rest.
    "spark.sql.maxConcurrentOutputFileWriters": "2",
    # Rows that lie together by a part of a join's key need no other shuffle for it.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # All that is made of partitions comes from one shuffle, as long as nothing reads less of it.
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.files.maxPartitionBytes": _READ_PER_TASK,
}

# How Spark's message about a file that cannot be read begins, and ours about a missing value.
_UNUSABLE_FILE: Final = re.compile(
    r"\[(FAILED_READ_FILE|PATH_NOT_FOUND|CANNOT_READ_FILE_FOOTER)[^\]]*\][^\n]*"
)
_LACKING: Final = re.compile(r"history file \S+ lacks the column \S+ or a value in it")


class JobInputError(Exception):
    """An argument, the list of snapshots or a file cannot be used; the message says why."""


@dataclass(frozen=True)
class Round:
    """One round: which snapshots to analyse, where they lie, and where the results go."""

    spark: SparkSession
    store: str  # as Hadoop names it
    name: str
    manifests: Sequence[Mapping[str, Any]]
    _tables: dict[tuple[str, frozenset[int]], DataFrame] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots.of(self.manifests)

    @cached_property
    def new(self) -> frozenset[int]:
        """The snapshots to analyse, by number."""
        return frozenset(
            number for number, row in enumerate(self.manifests) if not row["is_context"]
        )

    @cached_property
    def befores(self) -> frozenset[int]:
        """The snapshots that others are compared with, by number."""
        return self.snapshots.compared_numbers

    def read(self, table: str, numbers: frozenset[int] | None = None) -> DataFrame:
        """Return a table of the history, of all snapshots of the list or of those numbers."""
        wanted = frozenset(range(len(self.manifests))) if numbers is None else numbers
        if (table, wanted) not in self._tables:
            listed = {number: self.manifests[number] for number in sorted(wanted)}
            self._tables[table, wanted] = read_table(self.spark, self.store, table, listed)
        return self._tables[table, wanted]

    def keep(self, table: DataFrame) -> DataFrame:
        """Keep the rows once they are computed, on disk, until Spark stops.

        Unlike Spark's cache, a checkpoint keeps them as rows: to make columns of them and rows
        again took a fourteenth of the CPU time of a round with one new snapshot. Where a worker
        that has some of them is lost, the job fails. In memory, the process of a large round would
        need half as much memory again.
        """
        return table.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)

    def in_few_tasks(self, table: DataFrame) -> DataFrame:
        """Return the rows in as many tasks as a large table of results has files.

        What is counted by broker comes from few tasks, too: each task shuffles a row for every
        broker of every snapshot.
        """
        files = _share_count(self.manifests, _ROWS_PER_FILE)
        return table.coalesce(max(files, self.spark.sparkContext.defaultParallelism))

    def write(self, results: Tables) -> None:
        """Write each table, a folder for each cluster; replaces what an earlier attempt wrote."""
        for table, made in results.items():
            rows = made.withColumn(CLUSTER_FOLDER, F.col("cluster"))
            # Of many clusters, each task would write a file for each.
            shared = (
                rows.repartition(CLUSTER_FOLDER) if self._is_of_many else self.in_few_tasks(rows)
            )
            writer = shared.write.mode("overwrite").partitionBy(CLUSTER_FOLDER)
            writer.parquet(self.path(table))

    @cached_property
    def _is_of_many(self) -> bool:
        return len({row["cluster"] for row in self.manifests}) > 1

    def path(self, table: str) -> str:
        return f"{self.store}/results/{table}/round={self.name}"


def run_job(
    name: str, description: str, argv: Sequence[str], write_results: Callable[[Round], None]
) -> int:
    """Run a job and return its exit status; stderr says why.

    0: done; 2: an argument or a file cannot be used; 1: Spark failed.
    """
    parser = argparse.ArgumentParser(prog=name, description=description.partition("\n")[0])
    parser.add_argument("--store", required=True, help="URI or directory of the store")
    parser.add_argument(
        "--round", required=True, help="name of the round; the results lie under it"
    )
    parser.add_argument(
        "--snapshots", required=True, type=Path, help="JSON list of the snapshots' manifest rows"
    )
    arguments = parser.parse_args(argv)
    try:
        if not _ROUND.fullmatch(arguments.round):
            raise JobInputError(
                f"--round {arguments.round!r}: use letters, digits, '.', '_' and '-'"
            )
        manifests = load_manifests(arguments.snapshots)
        write_results(open_round(name, store_root(arguments.store), arguments.round, manifests))
    except (JobInputError, NoWorkersError, PySparkException, Py4JJavaError) as error:
        complaint = str(error) if isinstance(error, JobInputError) else unusable_file(str(error))
        print(f"{name}: {complaint or error}", file=sys.stderr)
        return UNUSABLE if complaint else FAILED
    analysed = sum(not row["is_context"] for row in manifests)
    print(f"{name}: round {arguments.round}: {pluralize(analysed, 'snapshot')} analysed")
    return 0


def unusable_file(message: str) -> str | None:
    """Return what Spark's message says about a file that cannot be used, in one line.

    None when Spark failed for another reason.
    """
    found = _LACKING.search(message) or _UNUSABLE_FILE.search(message)
    return found.group(0) if found else None


def open_round(job: str, store: str, name: str, manifests: Sequence[Mapping[str, Any]]) -> Round:
    """Start Spark and return the round; a shuffle has at most as many tasks as its rows need."""
    settings = {**_SETTINGS, _SHUFFLE_TASKS: str(_share_count(manifests, _ROWS_PER_TASK))}
    return Round(open_session(job, settings), store, name, manifests)


def _share_count(manifests: Sequence[Mapping[str, Any]], rows_per_share: int) -> int:
    return max(_MIN_TASKS, -(-row_count(manifests, "partitions") // rows_per_share))


def row_count(manifests: Sequence[Mapping[str, Any]], table: str) -> int:
    files = [file for row in manifests for file in row["files"]]
    return sum(file["row_count"] for file in files if file["table"] == table)


def load_manifests(path: Path) -> list[dict[str, Any]]:
    """Read the manifest rows of a `--snapshots` file, each with all keys.

    Raises JobInputError.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JobInputError(f"--snapshots {path}: {error}") from None
    if not isinstance(rows, list) or not rows:
        raise JobInputError(
            f"--snapshots {path}: must be a JSON list with at least one manifest row"
        )
    for index, row in enumerate(rows):
        missing = [name for name in _KEYS if not isinstance(row, dict) or name not in row]
        if missing:
            raise JobInputError(f"--snapshots {path}: entry {index} lacks {', '.join(missing)}")
    rows = [{"previous_snapshot_id": None, "is_context": False} | row for row in rows]
    _check_pairs(path, rows)
    return rows


def _check_pairs(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    by_id = {row["snapshot_id"]: row for row in rows}
    if len(by_id) < len(rows):
        twice = [i for i, count in Counter(row["snapshot_id"] for row in rows).items() if count > 1]
        raise JobInputError(f"--snapshots {path}: listed twice: {', '.join(twice)}")
    for row in rows:
        previous = row["previous_snapshot_id"]
        if previous is None:
            continue
        if previous not in by_id or by_id[previous]["cluster"] != row["cluster"]:
            raise JobInputError(
                f"--snapshots {path}: {row['snapshot_id']} is to be compared with {previous}, "
                "which is not in the list, or of another cluster"
            )


def store_root(store: str) -> str:
    """Return the store as Hadoop names it.

    A directory or a file URI becomes `file:///...`, unescaped; other URIs stay.
    """
    scheme = urlsplit(store).scheme
    if scheme == "file":
        return "file://" + unquote(urlsplit(store).path).rstrip("/")
    return store.rstrip("/") if scheme else f"file://{Path(store).absolute()}"


def read_table(
    spark: SparkSession, store: str, name: str, manifests: Mapping[int, Mapping[str, Any]]
) -> DataFrame:
    """Return one table of the snapshots, which are given by number, with the column `snapshot`.

    A value that must be there and is not fails the job when it is used, with file and column in the
    message.
    """
    schema = spark_schema(SNAPSHOT_TABLES[name])
    paths = {number: _path_of(row, name) for number, row in manifests.items()}
    if not paths:
        numbered = T.StructType([*schema, *spark_schema(pa.schema([NUMBER]))])
        return spark.createDataFrame([], numbered)
    held = T.StructType([*schema, T.StructField("snapshot_id", T.StringType())])
    files = [f"{store}/{path}" for path in sorted(set(paths.values()))]
    read = spark.read.schema(held).parquet(*files)
    return with_required(with_snapshot(read, _numbers(paths, manifests, name)), schema)


def with_snapshot(table: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
    """Add the snapshot of each row; rows of other snapshots are left out.

    `numbers` has that of a file of one snapshot under its name, of a file of many under `<name>/<id
    of the snapshot>`, which the column `snapshot_id` has. Looking up costs a third of a join.
    """
    as_map = F.from_json(F.lit(json.dumps(numbers)), "map<string,int>")
    path, name = F.col("_metadata.file_path"), F.col("_metadata.file_name")
    snapshot_id = F.col("snapshot_id")
    of_file = F.coalesce(F.try_element_at(as_map, name), _lacking("snapshot_id", path))
    of_row = F.try_element_at(as_map, F.concat(name, F.lit("/"), snapshot_id))
    number = F.when(snapshot_id.isNull(), of_file).otherwise(of_row)
    # Where Spark cannot know that there is a number, it looks up twice.
    rows = table.withColumns({"path": path, "snapshot": F.coalesce(number, F.lit(_OTHER))})
    is_wanted = snapshot_id.isNull() | (F.col("snapshot") != _OTHER)
    return rows.where(is_wanted).drop("snapshot_id")


def with_required(table: DataFrame, schema: T.StructType) -> DataFrame:
    """Fail on the first null in a column that must not have any."""

    def required(name: str) -> Column:
        return F.coalesce(name, _lacking(name, F.col("path"))).alias(name)

    columns = [F.col(field.name) if field.nullable else required(field.name) for field in schema]
    return table.select(*columns, "snapshot")


def _lacking(column: str, path: Column) -> Column:
    """Fail: the file lacks the column, or another program wrote it."""
    file = F.substring_index(path, "/history/", -1)
    what = F.lit(f" lacks the column {column} or a value in it")
    return F.raise_error(F.concat(F.lit("history file "), file, what))


def _numbers(
    paths: Mapping[int, str], manifests: Mapping[int, Mapping[str, Any]], table: str
) -> dict[str, int]:
    """Return the number of each snapshot by its file and, where others may share that, its id.

    Rows without a snapshot id are of the only snapshot of their file.
    """
    files = {number: path.rpartition("/")[2] for number, path in paths.items()}
    if len(set(files.values())) < len(set(paths.values())):
        raise JobInputError(f"two files of table {table!r} have one name in different folders")
    sharing = Counter(files.values())
    of_file = {file: number for number, file in files.items() if sharing[file] == 1}
    of_row = {f"{file}/{manifests[n]['snapshot_id']}": n for n, file in files.items()}
    return of_file | of_row


def _path_of(manifest: Mapping[str, Any], table: str) -> str:
    for file in manifest["files"]:
        if file["table"] == table:
            return str(file["path"])
    snapshot_id = manifest["snapshot_id"]
    raise JobInputError(f"manifest of snapshot {snapshot_id} names no file for the table {table!r}")
