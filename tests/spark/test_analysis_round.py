"""The Spark jobs against `oracle.py`, on every scenario and on clusters drawn at random, all in one
round.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import leader_balance
import partition_load
import pyarrow.parquet as pq
import pytest
from analysis_round import write_analysis
from leader_balance import write_leader_balance
from pairs import read_pairs
from partition_load import write_partition_load
from pyspark.sql import DataFrame, SparkSession
from rounds import Round, load_manifests, open_round

from counterpoise.model.tables import RESULT_TABLES
from tests.spark.oracle import tables_of
from tests.spark.scenarios import SCENARIOS, drawn
from tests.spark.snapshot_files import (
    SnapshotSpec,
    as_context,
    compacted,
    part,
    result_rows,
    write_history,
)

DRAWN = [spec for seed in range(12) for spec in drawn(seed, specs=6)]
SPECS = [spec for specs in SCENARIOS.values() for spec in specs] + DRAWN
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def a_round(
    spark: SparkSession, store: Path, name: str, manifests: Sequence[Mapping[str, Any]]
) -> Round:
    assert spark.version  # started as the tests need it
    return open_round("tests", f"file://{store}", name, manifests)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a store")


@pytest.fixture(scope="module")
def manifests(store: Path) -> list[dict[str, Any]]:
    return write_history(store, SPECS)


@pytest.fixture(scope="module")
def found(spark: SparkSession, store: Path, manifests: list[dict[str, Any]]) -> Rows:
    """Every table of the one round with everything in it."""
    write_analysis(a_round(spark, store, "all", manifests))
    return {table: result_rows(store, table, "all") for table in RESULT_TABLES}


def of(rows: Sequence[Mapping[str, Any]], scenario: str) -> list[Mapping[str, Any]]:
    """The rows of a scenario's second spec."""
    return [row for row in rows if row["snapshot_id"] == SCENARIOS[scenario][1].snapshot_id]


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    keys = ("snapshot_id", "topic", "partition", "broker_id", "log_dir")
    return sorted(rows, key=lambda row: tuple(str(row.get(key)) for key in keys))


@pytest.mark.parametrize("table", RESULT_TABLES)
def test_every_row_is_what_plain_python_makes_of_the_same_photos(found: Rows, table: str) -> None:
    assert found[table] == in_order(tables_of(SPECS)[table])


def test_the_tables_have_the_columns_and_types_of_the_contract(found: Rows, store: Path) -> None:
    assert set(found) == set(RESULT_TABLES)
    for table, schema in RESULT_TABLES.items():
        read = pq.read_table(store / "results" / table / "round=all", partitioning=None)
        assert read.schema.names == schema.names
        assert read.cast(schema).schema == schema


@pytest.mark.parametrize(
    ("scenario", "kind"),
    {
        "unchanged": None,
        "fenced": "failover",
        "unregistered": "failover",
        "out-of-sync": "failover",
        "preferred": "preferred_election",
        "elsewhere": "other",
        "reassigned": "reassignment",
        "reassigning": None,
        "reordered": None,
        "lost": "lost",
        "found": "found",
        "returned": "returned",
        "epochs-anew": "other",
        "still-lost": None,
        "recreated": None,
        "rebuilt": None,
        "id-learned": None,
    }.items(),
)
def test_what_happened_to_a_leader(found: Rows, scenario: str, kind: str | None) -> None:
    kinds = [row["kind"] for row in of(found["leader_changes"], scenario)]
    assert kinds == ([] if kind is None else [kind])


@pytest.mark.parametrize(
    ("scenario", "counts"),
    {
        "fenced": {
            "leaders_changed": 1,
            "failovers": 1,
            "leader_epochs": 1,
            "under_replicated_partitions": 1,
        },
        "out-of-sync": {"failovers": 1, "leader_epochs": 3},
        "returned": {"leaders_changed": 0, "leader_epochs": 2},
        "no-epochs": {"leaders_changed": 1, "leader_epochs": 0},
        "reassigning": {
            "replica_sets_changed": 0,  # it counts when it has ended
            "reassigning_partitions": 1,
            "under_replicated_partitions": 0,
        },
        "reordered": {"replica_sets_changed": 0},
        "lost": {"offline_partitions": 1, "failovers": 0},
        "created": {"topics_created": 1, "topics_deleted": 0},
        "deleted": {"topics_created": 0, "topics_deleted": 1},
        "recreated": {"topics_created": 0, "topics_deleted": 0, "topics_recreated": 1},
        "id-learned": {"topics_recreated": 0, "leaders_changed": 0},
        "rebuilt": {
            "is_rebuilt": True,
            "topics_created": 0,
            "topics_recreated": 0,
            "seconds": 3600.0,
        },
        "emptied": {"partitions": 0, "topics_deleted": 1, "offline_partitions": 0},
        "clock-back": {"seconds": -3600.0, "is_rebuilt": False},
    }.items(),
)
def test_what_became_of_a_cluster(found: Rows, scenario: str, counts: Mapping[str, Any]) -> None:
    (row,) = of(found["snapshot_changes"], scenario)
    assert {name: row[name] for name in counts} == counts


# 200 records came in an hour, or whatever the scenario says; sizes are in scenarios.py.
@pytest.mark.parametrize(
    ("scenario", "how", "rate"),
    [
        ("growth", "growth", 2),  # 7200 bytes; by records it would be 5467 of 8200
        ("another-copy", "records", round(200 * 8200 / 300 / 3600)),
        ("retention", "records", round(200 * 8200 / 250 / 3600)),
        ("growth-of-nothing", "records", 0),
        ("policy-not-known", "at_least", 2),  # it may be compacted
        ("compaction-by-records", "at_least", round(200 * 4 / 3600)),
        ("compaction-by-growth", "at_least", round(899_000 / 3600)),
        ("compaction-elsewhere", "at_least", 0),
        ("transactions", "records", 0),
        ("nothing-new", "records", 0),
        ("nothing-kept", "unknown", None),
        ("no-size", "unknown", None),
        ("no-offsets", "unknown", None),
        ("reset", "reset", None),
        ("gap", "gap", None),
        ("just-a-day", "growth", 0),
        ("clock-back", "gap", None),
        ("clock-still", "gap", None),
        ("recreated", "recreated", None),
        ("rebuilt", "rebuilt", None),
        ("id-learned", "unknown", None),
        ("id-never-known", "growth", 0),
    ],
)
def test_where_bytes_in_come_from(found: Rows, scenario: str, how: str, rate: int | None) -> None:
    (row,) = of(found["partition_load"], scenario)
    assert (row["how"], row["bytes_in_per_second"]) == (how, rate)


def test_partitions_of_a_large_topic_are_not_taken_for_one_another(found: Rows) -> None:
    rates = {
        row["partition"]: row["bytes_in_per_second"]
        for row in of(found["partition_load"], "many-partitions")
    }
    assert rates == {n: n if n < 150 else None for n in range(200)}


def test_topics_of_one_hash_are_told_apart(found: Rows) -> None:
    """Both names have the same two hashes of 32 bits in Spark; neither topic changed."""
    loads = of(found["partition_load"], "names-of-one-hash")
    assert [(row["topic"], row["bytes_in_per_second"]) for row in loads] == [
        ("71fa-_fr", 0),
        ("tp08u8a1", 0),
    ]
    assert of(found["leader_changes"], "names-of-one-hash") == []


def test_partitions_are_joined_by_what_spills(spark: SparkSession, tmp_path: Path) -> None:
    """A topic's partitions of all snapshots come to one task; a hash table of them cannot spill."""
    one = a_round(spark, tmp_path, "r", write_history(tmp_path, DRAWN[:4]))
    broadcast = "spark.sql.autoBroadcastJoinThreshold"
    before = str(spark.conf.get(broadcast))
    spark.conf.set(broadcast, "-1")  # or so few rows would be sent to every task
    pairs = read_pairs(one, ["snapshot", "topic", "partition", "leader", "leader_before"])
    rows = pairs.collect()
    plan = pairs._jdf.queryExecution().executedPlan().toString().partition("Initial Plan")[0]
    spark.conf.set(broadcast, before)
    found = {
        (row.snapshot, row.topic, row.partition, row.leader, row.leader_before) for row in rows
    }
    assert found == _paired(DRAWN[:4])
    joins = re.findall(r"(\w+Join) \[compared_with#\d+, topic#\d+, \S*partition", plan)
    assert joins == ["SortMergeJoin"], plan


@pytest.mark.parametrize("is_from_scratch", [True, False])
@pytest.mark.parametrize(
    ("write_results", "uses"),
    [(write_leader_balance, 3), (write_partition_load, 2), (write_analysis, 2)],
)
def test_all_that_is_made_of_partitions_comes_from_one_shuffle(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write_results: Callable[[Round], None],
    uses: int,
    *,
    is_from_scratch: bool,
) -> None:
    first, *later = write_history(tmp_path, DRAWN[:4])
    listed = [first if is_from_scratch else as_context(first), *later]
    found = _shuffles(a_round(spark, tmp_path, "r", listed), write_results, monkeypatch)
    assert found == ["Exchange", *["ReusedExchange"] * (uses - 1)]


@pytest.mark.parametrize(
    ("write_results", "reused"),
    [(write_leader_balance, 1), (write_partition_load, 0), (write_analysis, 0)],
)
def test_where_only_the_newest_snapshots_are_new_each_side_is_shuffled_by_itself(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write_results: Callable[[Round], None],
    reused: int,
) -> None:
    """No row is on both sides of the comparison; of one shuffle, each side would read all rows."""
    before, newest = write_history(tmp_path, DRAWN[:2])
    listed = [as_context(before), newest]
    found = _shuffles(a_round(spark, tmp_path, "r", listed), write_results, monkeypatch)
    assert found == ["Exchange", "Exchange", *["ReusedExchange"] * reused]


def test_a_round_in_which_each_cluster_has_one_new_snapshot(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One of them has no snapshot before."""
    clusters = [drawn(seed, specs=3) for seed in range(20, 23)]
    specs = [spec for one in clusters for spec in one]
    listed = {row["snapshot_id"]: row for row in write_history(tmp_path, specs)}
    first, *others = ([listed[spec.snapshot_id] for spec in one] for one in clusters)
    pairs = [row for one in others for row in (as_context(one[-2]), one[-1])]
    write_analysis(a_round(spark, tmp_path, "r", [first[0], *pairs]))
    new = {first[0]["snapshot_id"], *(one[-1]["snapshot_id"] for one in others)}
    for table, rows in tables_of(specs).items():
        expected = [row for row in rows if row["snapshot_id"] in new]
        assert result_rows(tmp_path, table, "r") == in_order(expected), table


def _shuffles(
    round_: Round, write_results: Callable[[Round], None], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the shuffles of partitions by topic that the first rows that are kept come from."""
    kept: list[DataFrame] = []

    def keep(_: Round, table: DataFrame) -> DataFrame:
        kept.append(table)
        return table

    monkeypatch.setattr(Round, "keep", keep)
    monkeypatch.setattr(Round, "write", lambda *_: None)
    write_results(round_)
    kept[0].collect()
    plan = kept[0]._jdf.queryExecution().executedPlan().toString()
    final_plan = plan.partition("Initial Plan")[0]
    return sorted(re.findall(r"(\w*Exchange) .*hashpartitioning\(topic", final_plan))


def test_what_is_special_about_topics_is_sent_to_every_task_only_where_that_is_little(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = write_history(tmp_path, DRAWN[:4])
    many = [
        row | {"files": [file | {"row_count": file["row_count"] * 10**6} for file in row["files"]]}
        for row in few
    ]
    columns = ["snapshot", "topic", "partition", "is_compacted"]
    found = []
    for listed in (few, many):
        pairs = read_pairs(a_round(spark, tmp_path, "r", listed), columns[:3]).select(*columns)
        logical = pairs._jdf.queryExecution().logical().toString()
        found.append((sorted(pairs.collect()), logical.count("strategy=broadcast")))
    (rows, sent), (same_rows, fewer_sent) = found
    assert rows == same_rows
    assert sent == fewer_sent + 1


def _paired(specs: Sequence[SnapshotSpec]) -> set[tuple[Any, ...]]:
    """Each partition of each snapshot with its leader, and the leader in the snapshot before."""
    found = set()
    before: dict[tuple[str, int], Any] = {}
    for number, spec in enumerate(specs):
        if number and specs[number - 1].cluster_id != spec.cluster_id:
            before = {}
        now = {(row["topic"], row["partition"]): row["leader"] for row in spec.partitions}
        found |= {(number, *key, leader, before.get(key)) for key, leader in now.items()}
        before = now
    return found


def test_loads_of_brokers_topics_and_log_dirs(found: Rows) -> None:
    brokers = {row["broker_id"]: row for row in of(found["broker_load"], "a-dead-follower")}
    assert [brokers[n]["leader_bytes_in_per_second"] for n in (1, 2, 3)] == [None, 20, None]
    assert [brokers[n]["follower_bytes_in_per_second"] for n in (1, 2, 3)] == [
        None,
        None,
        20,
    ]  # broker 1 is dead
    assert (brokers[2]["rates_known"], brokers[2]["rates_unknown"]) == (1, 0)
    (topic,) = of(found["topic_load"], "equally-hot")
    assert (
        topic["hottest_partition"],
        topic["hottest_bytes_in_per_second"],
        topic["bytes_in_per_second"],
    ) == (3, 2, 6)
    dirs = {
        (row["broker_id"], row["log_dir"]): row["held_bytes"]
        for row in of(found["log_dir_load"], "growth")
    }
    assert dirs == {
        (1, "/a"): 600,
        (1, "/b"): 70,
        (3, "/idle"): 0,
    }  # the dir that is offline is left out
    (unknown,) = of(found["topic_load"], "reset")
    assert (unknown["bytes_in_per_second"], unknown["hottest_partition"]) == (None, None)


def test_topics_are_even_when_every_live_broker_leads_some(found: Rows) -> None:
    def spread(scenario: str) -> dict[str, tuple[int, int]]:
        rows = of(found["topic_balance"], scenario)
        return {row["topic"]: (row["most_leaders"], row["fewest_leaders"]) for row in rows}

    assert spread("balance") == {"even": (2, 1), "uneven": (3, 0), "lost": (0, 0)}
    assert spread("a-dead-broker-leads-nothing")["even"] == (2, 1)
    assert spread("an-idle-broker")["even"] == (2, 0)
    assert spread("nobody-lives") == {"lost": (0, 0)}
    idle = next(
        row for row in of(found["broker_balance"], "an-idle-broker") if row["broker_id"] == 4
    )
    assert (idle["leaders"], idle["replicas"], idle["bytes"], idle["is_fenced"]) == (0, 0, 0, False)


def test_a_first_snapshot_is_compared_with_nothing(found: Rows) -> None:
    first = SCENARIOS["created"][0].snapshot_id
    (changes,) = (row for row in found["snapshot_changes"] if row["snapshot_id"] == first)
    assert (changes["previous_snapshot_id"], changes["seconds"], changes["topics_created"]) == (
        None,
        None,
        0,
    )
    assert {row["how"] for row in found["partition_load"] if row["snapshot_id"] == first} == {
        "first"
    }


def test_one_round_for_each_snapshot_makes_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    specs = DRAWN[:4]
    listed = write_history(tmp_path, specs)
    rounds = [[listed[0]], *([as_context(before), now] for before, now in pairwise(listed))]
    for number, one in enumerate(rounds):
        write_analysis(a_round(spark, tmp_path, str(number), one))
    for table, rows in tables_of(specs).items():
        assert result_rows(tmp_path, table, *map(str, range(len(rounds)))) == in_order(rows), table


def test_compacted_files_read_the_same_and_each_job_alone_makes_its_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    specs: list[SnapshotSpec] = [*DRAWN[:3], *SCENARIOS["fenced"]]
    listed = write_history(tmp_path, specs)
    many = [*compacted(tmp_path, listed[:3]), *listed[3:]]
    (tmp_path / "list.json").write_text(json.dumps(many))
    one = a_round(spark, tmp_path, "r", load_manifests(tmp_path / "list.json"))
    leader_balance.write_leader_balance(one)
    partition_load.write_partition_load(one)
    for table, rows in tables_of(specs).items():
        assert result_rows(tmp_path, table, "r") == in_order(rows), table


class Log:
    """A compacted log: records with a key and a size; of each key the last one is kept."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int]] = []

    def write(self, keys: str, count: int, size: int) -> None:
        self.records += [(f"{keys}{number % 100}", size) for number in range(count)]

    @property
    def kept(self) -> list[int]:
        return list(dict(self.records).values())

    def part(self, topic: str) -> dict[str, Any]:
        offsets = (0, len(self.records))
        return part(topic, 0, [1], leader=1, size=sum(self.kept), offsets=offsets)


@pytest.mark.parametrize("policy", ["compact", None])
def test_what_is_told_of_a_compacted_log_is_a_bound_where_new_records_are_as_large_as_the_kept(
    spark: SparkSession, tmp_path: Path, policy: str | None
) -> None:
    """An hour after 100 old records came 300 new ones: with the same keys, or others."""
    sizes = {"alike": (500, 500), "larger": (100, 1000), "smaller": (1000, 100)}
    logs = {f"{name}-{keys}": Log() for name in sizes for keys in ("same", "other")}
    specs, truth = [], {}
    for hour in (0, 1):
        for topic, log in logs.items():
            name, _, keys = topic.partition("-")
            if hour:
                log.write("old" if keys == "same" else "new", 300, sizes[name][1])
                truth[topic] = 300 * sizes[name][1] / 3600
            else:
                log.write("old", 100, sizes[name][0])
        told = {topic: (f"{topic}-id", policy) for topic in logs}
        parts = [log.part(topic) for topic, log in logs.items()]
        specs.append(SnapshotSpec("compacted", hour, parts, topics=told))
    write_analysis(a_round(spark, tmp_path, "r", write_history(tmp_path, specs)))

    rows = {
        row["topic"]: row
        for row in result_rows(tmp_path, "partition_load", "r")
        if row["snapshot_id"] == specs[1].snapshot_id
    }
    for topic, row in rows.items():
        rate, kept = row["bytes_in_per_second"], logs[topic].kept
        assert row["how"] == "at_least"
        # Where what is kept is larger than what is new, too much by as many times at most.
        too_much = max(1.0, sum(kept) / len(kept) / sizes[topic.partition("-")[0]][1])
        assert 0 < rate <= truth[topic] * too_much + 0.5, topic
        if topic != "smaller-other":
            assert rate <= truth[topic] + 0.5, topic
    assert rows["smaller-other"]["bytes_in_per_second"] > truth["smaller-other"]
