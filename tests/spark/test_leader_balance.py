"""The job `leader_balance` against counts made by hand, in the session and once through spark-submit."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from counterpoise.analysis import leader_balance
from counterpoise.history import history_files, manifest_of, manifests_json, snapshot_id_for
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.tables import BROKER_BALANCE, TOPIC_BALANCE
from counterpoise.spark_submit import run_job

JOB = Path(__file__).resolve().parents[2] / "spark_jobs" / "leader_balance.py"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

# orders-1 is led by broker 3 though 2 is named first; orders-3 has no leader; broker 4 is idle, broker 5 is dead.
BROKERS = [
    {"id": 1, "rack": "a"},
    {"id": 2, "rack": "b"},
    {"id": 3, "rack": None},
    {"id": 4, "rack": "a"},
    {"id": 5, "rack": "b", "fenced": True},
]
PARTITIONS = [
    ["orders", 0, [1, 2, 3], 1, 100],
    ["orders", 1, [2, 3, 1], 3, 200],
    ["orders", 2, [3, 1, 2], 3, None],
    ["orders", 3, [5], None, 50],
    ["pay", 0, [1, 2], 1, 7],
]


def snapshot(
    brokers: Sequence[Mapping[str, Any]], partitions: Sequence[Sequence[Any]], hour: int, cluster: str
) -> ClusterSnapshot:
    at = NOON + timedelta(hours=hour)
    document = {
        "cluster": cluster,
        "cluster_id": f"id-of-{cluster}",
        "snapshot_id": snapshot_id_for(cluster, at),
        "observed_at": (at + timedelta(seconds=9)).isoformat(),
        "brokers": brokers,
        "partitions": partitions,
    }
    return from_document_text(json.dumps(document))


def write(store: Path, *snapshots: ClusterSnapshot) -> list[dict[str, Any]]:
    """The snapshots in a store; answers their manifest rows as the job reads them."""
    rows = []
    for one in snapshots:
        for path, table in history_files(one).items():
            (store / path).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, store / path)
        rows.append(manifest_of(one)[1])
    found: list[dict[str, Any]] = json.loads(manifests_json(pa.concat_tables(rows)))
    return found


def result(store: Path, name: str, schema: pa.Schema) -> pa.Table:
    return pq.read_table(store / "results" / name / "round=r1", schema=schema)


def by_hand(one: ClusterSnapshot) -> list[tuple[Any, ...]]:
    """The rows of BROKER_BALANCE, counted from partitions and replicas in plain Python."""
    leaders, preferred, elsewhere, replicas, size = (Counter[int]() for _ in range(5))
    for row in one.partitions.to_pylist():
        preferred[row["replicas"][0]] += 1
        if row["leader"] is not None:
            leaders[row["leader"]] += 1
            elsewhere[row["leader"]] += row["leader"] != row["replicas"][0]
    for row in one.replicas.to_pylist():
        replicas[row["broker_id"]] += 1
        size[row["broker_id"]] += row["size_bytes"] or 0
    head = (one.cluster, one.snapshot_id, one.observed_at)
    counts = (leaders, preferred, elsewhere, replicas, size)
    return [
        (*head, b["broker_id"], b["rack"], b["is_fenced"], *(of[b["broker_id"]] for of in counts))
        for b in one.brokers.to_pylist()
    ]


def frames(spark: SparkSession, job: ModuleType, store: Path, *snapshots: ClusterSnapshot) -> tuple[DataFrame, ...]:
    manifests = write(store, *snapshots)
    heads = spark.createDataFrame(
        [(s.snapshot_id, s.cluster, s.observed_at) for s in snapshots],
        "snapshot_id string, cluster string, observed_at timestamp",
    )
    return heads, *(
        job.read_table(spark, str(store), name, manifests) for name in ("brokers", "partitions", "replicas")
    )


def test_broker_balance_equals_a_count_by_hand(spark: SparkSession, job: ModuleType, tmp_path: Path) -> None:
    first = snapshot(BROKERS, PARTITIONS, 0, "demo")
    later = snapshot(BROKERS, [*PARTITIONS, ["new", 0, [4, 1], 4, 11]], 1, "demo")
    other = snapshot(BROKERS[:3], [["orders", 0, [2], 2, 5]], 0, "other-1.eu")
    heads, brokers, _, replicas = frames(spark, job, tmp_path, first, later, other)

    actual = job.build_broker_balance(heads, brokers, replicas)

    assert actual.columns == BROKER_BALANCE.names
    expected = [row for one in (first, later, other) for row in by_hand(one)]
    assertDataFrameEqual(actual, spark.createDataFrame(expected, job.spark_schema(BROKER_BALANCE)), ignoreNullable=True)
    idle = actual.where("broker_id = 4").orderBy("snapshot_id").first()
    assert idle is not None and idle[6:] == (0, 0, 0, 0, 0)


def test_topic_balance_counts_live_brokers_that_lead_nothing(
    spark: SparkSession, job: ModuleType, tmp_path: Path
) -> None:
    every_broker_leads = [["even", p, [b, 1 + b % 4], b, 10] for p, b in enumerate((1, 2, 3, 4, 4))]
    leaderless = [["lost", 0, [5], None, None]]
    one = snapshot(BROKERS, [*PARTITIONS, *every_broker_leads, *leaderless], 0, "demo")
    heads, brokers, partitions, _ = frames(spark, job, tmp_path, one)

    actual = job.build_topic_balance(heads, brokers, partitions)

    head = (one.cluster, one.snapshot_id, one.observed_at)
    expected = [
        (*head, "orders", 4, 2, 0, 350),  # brokers 2 and 4 are live and lead none of it
        (*head, "pay", 1, 1, 0, 7),
        (*head, "even", 5, 2, 1, 50),  # the dead broker 5 does not make it 0
        (*head, "lost", 1, 0, 0, 0),
    ]
    assertDataFrameEqual(actual, spark.createDataFrame(expected, job.spark_schema(TOPIC_BALANCE)), ignoreNullable=True)


def test_a_cluster_with_no_partitions_or_no_live_broker(spark: SparkSession, job: ModuleType, tmp_path: Path) -> None:
    empty = snapshot(BROKERS[:1], [], 0, "empty")
    dead = snapshot([{"id": 1, "fenced": True}], [["t", 0, [1], None, 1]], 0, "dead")
    heads, brokers, partitions, replicas = frames(spark, job, tmp_path, empty, dead)

    rows = {row.cluster: row for row in job.build_broker_balance(heads, brokers, replicas).collect()}
    assert (rows["empty"].replicas, rows["dead"].replicas, rows["dead"].is_fenced) == (0, 1, True)
    topics = job.build_topic_balance(heads, brokers, partitions).collect()
    assert [(t.cluster, t.most_leaders, t.fewest_leaders) for t in topics] == [("dead", 0, 0)]


def test_reads_exactly_the_named_files(spark: SparkSession, job: ModuleType, tmp_path: Path) -> None:
    store = tmp_path / "a store"
    named = write(store, snapshot(BROKERS, PARTITIONS, 0, "demo"))
    write(store, snapshot(BROKERS, PARTITIONS, 1, "demo"))  # lies beside it, but is not in the list

    assert {row.snapshot_id for row in job.read_table(spark, str(store), "brokers", named).collect()} == {
        "demo-20261121T120000Z"
    }


def test_an_older_file_without_a_column_reads_as_nulls(spark: SparkSession, job: ModuleType, tmp_path: Path) -> None:
    one = snapshot(BROKERS, PARTITIONS, 0, "demo")
    manifests = write(tmp_path, one)
    path = tmp_path / next(path for path in history_files(one) if "/brokers/" in path)
    pq.write_table(one.brokers.drop_columns(["disk_usable_bytes"]), path)

    rows = job.read_table(spark, str(tmp_path), "brokers", manifests).collect()
    assert [row.disk_usable_bytes for row in rows] == [None] * 5


def test_many_snapshots_in_one_read_and_a_retry_replaces_the_round(
    spark: SparkSession, job: ModuleType, tmp_path: Path
) -> None:
    snapshots = [snapshot(BROKERS, PARTITIONS, hour, "demo") for hour in range(40)]
    manifests = write(tmp_path, *snapshots)
    job.run_round(spark, str(tmp_path), "r1", manifests[:2])
    job.run_round(spark, str(tmp_path), "r1", manifests)

    table = result(tmp_path, "broker_balance", BROKER_BALANCE)
    assert table.num_rows == 40 * 5
    assert sorted(set(table["snapshot_id"].to_pylist())) == sorted(s.snapshot_id for s in snapshots)
    assert table.cast(BROKER_BALANCE).schema == BROKER_BALANCE
    balance = leader_balance(table, result(tmp_path, "topic_balance", TOPIC_BALANCE), cluster="demo")
    assert balance is not None
    assert (len(balance.series), balance.idle_broker_ids, balance.latest.leaders.max_minus_min) == (40, (4,), 2)


def test_through_spark_submit_end_to_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "a store"
    one = snapshot(BROKERS, PARTITIONS, 0, "demo")
    listed = tmp_path / "snapshots.json"
    listed.write_text(json.dumps(write(store, one)))
    lines: list[str] = []

    arguments = ["--store", store.as_uri(), "--round", "r1", "--snapshots", str(listed)]
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.sql.shuffle.partitions": "2"}
    run_job(JOB, arguments, conf=conf, log=lines.append)

    assert lines == ["leader_balance: round r1: 1 snapshot(s) analysed"]
    actual = result(store, "broker_balance", BROKER_BALANCE).sort_by("broker_id")
    assert [tuple(row.values()) for row in actual.to_pylist()] == by_hand(one)
    assert actual["observed_at"].to_pylist()[0] == one.observed_at
    assert capfd.readouterr() == ("", "")  # nothing goes past `log`


def test_a_file_that_is_not_there_is_named(
    spark: SparkSession, job: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "snapshots.json"
    listed.write_text(manifests_json(manifest_of(snapshot(BROKERS, PARTITIONS, 0, "demo"))[1]))

    assert job.main(["--store", str(tmp_path), "--round", "r1", "--snapshots", str(listed)]) == 1
    assert re.search(r"PATH_NOT_FOUND.*/brokers/cluster=demo/", capsys.readouterr().err)


def test_bad_arguments_are_named_before_spark_starts(job: ModuleType, tmp_path: Path) -> None:
    listed = tmp_path / "snapshots.json"
    listed.write_text("[]")
    with pytest.raises(job.JobInputError, match="at least one manifest row"):
        job.load_manifests(listed)
    listed.write_text('[{"snapshot_id": "demo-1", "cluster": "demo"}, 7]')
    with pytest.raises(job.JobInputError, match="entry 0 lacks observed_at, schema_version, files"):
        job.load_manifests(listed)
    assert job.main(["--store", str(tmp_path), "--round", "../r1", "--snapshots", str(listed)]) == 2
