"""What the Spark jobs share: the list of snapshots, files of one and of many, and what is said of
unusable ones.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import analysis_round
import leader_balance
import partition_load
import pyarrow.parquet as pq
import pytest
import rounds
from pyspark.sql import SparkSession

from counterpoise.model.tables import BROKER_BALANCE, RESULT_TABLES
from counterpoise.spark_submit import START_FAST, run_job
from tests.spark.oracle import tables_of
from tests.spark.snapshot_files import SnapshotSpec, compacted, part, result_rows, write_history

JOBS = Path(rounds.__file__).parent
HISTORY = [
    SnapshotSpec("demo", hour, [part("orders", 0, [1, 2], leader=1, size=9, offsets=(0, 1))])
    for hour in range(3)
]


def file_of(manifest: dict[str, Any], table: str) -> str:
    return str(next(file["path"] for file in manifest["files"] if file["table"] == table))


def numbered(*manifests: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return dict(enumerate(manifests))


def arguments(store: Path, manifests: list[dict[str, Any]]) -> list[str]:
    (store / "list.json").write_text(json.dumps(manifests))
    return ["--store", str(store), "--round", "r1", "--snapshots", str(store / "list.json")]


@pytest.mark.parametrize(
    "make", [lambda _, rows: rows, compacted], ids=["single files", "a compacted file"]
)
def test_reads_exactly_the_named_rows(
    spark: SparkSession,
    tmp_path: Path,
    make: Callable[[Path, list[dict[str, Any]]], list[dict[str, Any]]],
) -> None:
    store = tmp_path / "a store"
    listed = make(
        store, write_history(store, HISTORY)
    )  # the second snapshot lies beside the others, or among them
    read = rounds.read_table(spark, f"file://{store}", "partitions", numbered(listed[2], listed[0]))
    assert sorted((row.snapshot, row.topic) for row in read.collect()) == [
        (0, "orders"),
        (1, "orders"),
    ]


def test_a_snapshot_in_a_compacted_file_too_is_read_from_the_file_that_its_manifest_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    single = write_history(tmp_path, HISTORY)
    kept = pq.read_table(tmp_path / file_of(single[2], "brokers"), partitioning=None)
    many = compacted(tmp_path, single)
    pq.write_table(kept, tmp_path / file_of(single[2], "brokers"))
    read = rounds.read_table(spark, f"file://{tmp_path}", "brokers", numbered(many[0], single[2]))
    assert [row.snapshot for row in read.sort("snapshot").collect()] == [0, 0, 0, 1, 1, 1]


def test_a_manifest_without_a_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = write_history(tmp_path, HISTORY[:1])
    lacking = row | {"files": [file for file in row["files"] if file["table"] != "log_dirs"]}

    with pytest.raises(
        rounds.JobInputError, match=r"demo-20260131T120000Z names no file for the table 'log_dirs'"
    ):
        rounds.read_table(spark, f"file://{tmp_path}", "log_dirs", numbered(lacking))


def test_a_file_that_is_not_there_is_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = write_history(tmp_path, HISTORY[:1])
    (tmp_path / file_of(listed[0], "partitions")).unlink()
    assert leader_balance.main(arguments(tmp_path, listed)) == rounds.UNUSABLE
    assert re.search(
        r"^leader_balance: .*PATH_NOT_FOUND.*/partitions/cluster=demo/", capsys.readouterr().err
    )


def test_a_corrupt_file_is_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = write_history(tmp_path, HISTORY[:1])
    (tmp_path / file_of(listed[0], "partitions")).write_bytes(b"PAR1 this is no such file PAR1")
    assert partition_load.main(arguments(tmp_path, listed)) == rounds.UNUSABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(
        r"^partition_load: .*/partitions/cluster=demo/.*20260131T120000Z\.parquet", line
    )


def test_a_missing_column_is_named_with_its_file(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = write_history(tmp_path, HISTORY[:2])
    path = tmp_path / file_of(listed[1], "partitions")
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["replicas"]), path)
    assert analysis_round.main(arguments(tmp_path, listed)) == rounds.UNUSABLE
    assert capsys.readouterr().err == (
        "analysis_round: history file "
        "partitions/cluster=demo/date=2026-01-31/demo-20260131T130000Z.parquet "
        "lacks the column replicas or a value in it\n"
    )


def test_what_is_kept_is_read_from_the_history_once(spark: SparkSession, tmp_path: Path) -> None:
    manifests = write_history(tmp_path, HISTORY)
    round_ = rounds.Round(spark, f"file://{tmp_path}", "r1", manifests)
    kept = round_.keep(round_.read("partitions"))
    row_count = kept.count()
    for manifest in manifests:
        (tmp_path / file_of(manifest, "partitions")).unlink()
    assert sorted(row.snapshot for row in kept.collect()) == [0, 1, 2]
    assert row_count == 3
    spark.catalog.clearCache()


def test_a_retry_replaces_the_round(spark: SparkSession, tmp_path: Path) -> None:
    listed = write_history(tmp_path, HISTORY)
    leader_balance.write_leader_balance(
        rounds.open_round("tests", f"file://{tmp_path}", "r1", listed[:1])
    )
    leader_balance.write_leader_balance(
        rounds.open_round("tests", f"file://{tmp_path}", "r1", listed)
    )
    table = pq.read_table(
        tmp_path / "results" / "broker_balance" / "round=r1", schema=BROKER_BALANCE
    )
    assert table.num_rows == 3 * 3


def test_through_spark_submit_end_to_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "a store"
    listed = tmp_path / "snapshots.json"
    listed.write_text(json.dumps(write_history(store, HISTORY)))
    lines: list[str] = []

    words = ["--store", store.as_uri(), "--round", "r1", "--snapshots", str(listed)]
    run_job(JOBS / "analysis_round.py", words, conf=START_FAST, log=lines.append)

    assert lines == ["analysis_round: round r1: 3 snapshots analysed"]
    for table, rows in tables_of(HISTORY).items():
        found = result_rows(store, table, "r1")
        assert {frozenset(row.items()) for row in found} == {
            frozenset(row.items()) for row in rows
        }, table
    assert set(RESULT_TABLES) == {path.name for path in (store / "results").iterdir()}
    assert capfd.readouterr() == ("", "")  # nothing goes past `log`


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "at least one manifest row"),
        (
            '[{"snapshot_id": "demo-1", "cluster": "demo"}, 7]',
            "entry 0 lacks cluster_id, observed_at, schema_version, ",
        ),
        ("{", "list.json: Expecting"),
    ],
)
def test_a_list_that_cannot_be_used_is_explained(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(rounds.JobInputError, match=complaint):
        rounds.load_manifests(tmp_path / "list.json")


def test_pairs_must_be_in_the_list_and_of_one_cluster(tmp_path: Path) -> None:
    listed = write_history(tmp_path, [*HISTORY[:2], SnapshotSpec("other", 0, [])])
    path = tmp_path / "list.json"
    for rows in (
        listed[1:],
        [listed[0], listed[2] | {"previous_snapshot_id": listed[0]["snapshot_id"]}],
    ):
        path.write_text(json.dumps(rows))
        with pytest.raises(
            rounds.JobInputError, match="to be compared with demo-20260131T120000Z, which is not in"
        ):
            rounds.load_manifests(path)
    path.write_text(json.dumps([listed[0], listed[0]]))
    with pytest.raises(rounds.JobInputError, match="listed twice: demo-20260131T120000Z"):
        rounds.load_manifests(path)


def test_bad_arguments_are_named_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--store",
        str(tmp_path),
        "--round",
        "../r1",
        "--snapshots",
        str(tmp_path / "list.json"),
    ]
    assert leader_balance.main(words) == rounds.UNUSABLE
    assert "--round '../r1': use letters" in capsys.readouterr().err


def test_stores_are_named_as_hadoop_does(tmp_path: Path) -> None:
    assert rounds.store_root((tmp_path / "a store").as_uri()) == f"file://{tmp_path}/a store"
    assert rounds.store_root(str(tmp_path)) == f"file://{tmp_path}"
    assert rounds.store_root("s3a://bucket/prefix/") == "s3a://bucket/prefix"
