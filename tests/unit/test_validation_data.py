"""The data tests with Great Expectations itself; its import (10 to 17 s) is paid once, in this
module.
"""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS
from counterpoise.model.tables import SNAPSHOT_TABLES
from counterpoise.validation import (
    CountsBefore,
    check_snapshot_data,
    quick_check,
)
from counterpoise.validation.quick import snapshot_facts
from counterpoise.validation.suites import SNAPSHOT_EXPECTATIONS
from tests.support.pictures import cluster

THROTTLE = ("broker", "1", "leader.replication.throttled.rate", "1000")
PLAIN = cluster(
    "orders-0: 1 2 3 size=100\norders-1: 2 3 1",
    racks="1=a 2=b 3=c !4=d",
    disks="1=100/900 2=100/900 3=100/900",
    throttles=[THROTTLE, ("topic", "orders", "leader.replication.throttled.replicas", "0:1")],
)
LISTENERS = [
    {"broker_id": n, "security_protocol": "PLAINTEXT", "host": f"kafka-{n}", "port": 9092}
    for n in (1, 2, 3)
]
QUORUM = [
    {"node_id": n, "role": "voter", "log_end_offset": 7, "last_caught_up_at": None}
    for n in (101, 102)
]
SNAPSHOT = replace(
    PLAIN,
    tables={
        **PLAIN.tables,
        "listeners": pa.Table.from_pylist(LISTENERS, schema=SNAPSHOT_TABLES["listeners"]),
        "quorum": pa.Table.from_pylist(QUORUM, schema=SNAPSHOT_TABLES["quorum"]),
    },
)


def changed(table: str, row: int, **values: object) -> ClusterSnapshot:
    """The snapshot with one row of a table written over."""
    rows = SNAPSHOT.tables[table].to_pylist()
    rows[row] |= values
    new = SNAPSHOT.tables[table].from_pylist(rows, schema=SNAPSHOT.tables[table].schema)
    return replace(SNAPSHOT, tables={**SNAPSHOT.tables, table: new})


def test_sound_data_passes() -> None:
    assert check_snapshot_data(SNAPSHOT).failures == ()


def test_every_table_of_a_snapshot_has_a_suite_that_finds_its_columns() -> None:
    facts = snapshot_facts(SNAPSHOT)
    assert facts.keys() == SNAPSHOT_EXPECTATIONS.keys() == SNAPSHOT_TABLES.keys()
    for table, expected in SNAPSHOT_EXPECTATIONS.items():
        assert expected.columns <= set(facts[table].column_names), table
        assert facts[table].num_rows > 0, f"the picture of these tests has no {table}"


@pytest.mark.parametrize(
    ("snapshot", "expectation", "example"),
    [
        (changed("brokers", 1, broker_id=1), "broker_id is unique", "1"),
        (changed("brokers", 1, is_fenced=None), "is_fenced is known", "2"),
        (
            changed("topics", 0, partition_count=7),
            "partition_count is the number of its partitions",
            "orders",
        ),
        (changed("partitions", 1, partition=0), "topic, partition are unique together", "orders-0"),
        (changed("partitions", 0, topic="inventory"), "topic is among the topics", "inventory-0"),
        (changed("partitions", 0, replicas=[]), "replica_count is 1 or more", "orders-0"),
        (changed("partitions", 1, leader=4), "leader is among the replicas", "orders-1"),
        (
            changed("partitions", 0, replicas=[1, 1, 2]),
            "replica_count counts each broker once",
            "orders-0",
        ),
        (
            changed("partitions", 0, replicas=[1, 9]),
            "replica_count counts registered brokers only",
            "orders-0",
        ),
        (changed("partitions", 0, size_bytes=-1), "size_bytes is not negative", "orders-0"),
        (changed("replicas", 2, broker_id=9), "broker_id is a registered broker", "orders-0-9"),
        (changed("listeners", 1, broker_id=9), "broker_id is a registered broker", "9-PLAINTEXT"),
        (
            changed("listeners", 1, broker_id=1),
            "broker_id, security_protocol are unique together",
            "1-PLAINTEXT",
        ),
        (changed("quorum", 0, node_id=-5), "node_id is not negative", "-5-voter"),
        (changed("log_dirs", 0, usable_bytes=-1), "usable_bytes is not negative", "1-/disk-0"),
        (
            changed("throttles", 1, resource_type="user"),
            "resource_type is one of broker, topic",
            "user-orders-",
        ),
        (
            changed("throttles", 1, key="retention.ms"),
            f"key is one of {', '.join((*LIST_KEYS, *RATE_KEYS))}",
            "topic-orders-retention.ms",
        ),
    ],
)
def test_unsound_snapshot_data_is_named_with_an_example(
    snapshot: ClusterSnapshot, expectation: str, example: str
) -> None:
    check = check_snapshot_data(snapshot)
    assert not check.success
    failure = next(failure for failure in check.grave if failure.expectation == expectation)
    assert failure.unexpected_count >= 1
    assert failure.examples[0].split(":")[0].startswith(example)
    assert quick_check(snapshot) == check, "the quick check keeps out what the other one tells of"


@pytest.mark.parametrize(
    ("snapshot", "expectation"),
    [
        (
            changed("partitions", 0, replicas=[4, 2, 3], leader=4, isr=[2, 3]),
            "leader is live",
        ),
        (changed("partitions", 0, isr=[1, 4]), "isr_count counts replicas only"),
        (changed("brokers", 0, rack=" "), "rack is not blank"),
        (changed("quorum", 1, node_id=101), "node_id, role are unique together"),
        (changed("log_dirs", 0, broker_id=9), "broker_id is a registered broker"),
        (changed("log_dirs", 0, usable_bytes=901), "usable_bytes is no more than the total"),
        (changed("listeners", 0, port=0), "port is from 1 to 65535"),
    ],
)
def test_what_may_be_so_for_a_moment_is_a_warning(
    snapshot: ClusterSnapshot, expectation: str
) -> None:
    check = check_snapshot_data(snapshot)
    assert [failure.expectation for failure in check.momentary] == [expectation]
    assert check.grave == ()
    assert quick_check(snapshot) == check


def test_counts_are_held_against_the_snapshot_before_unless_the_cluster_was_small() -> None:
    counts = {"brokers": 4, "topics": 10, "partitions": 5, "replicas": 12, "throttles": 99}
    before = CountsBefore("demo-before", counts, 50)
    check = check_snapshot_data(SNAPSHOT, before)
    assert quick_check(SNAPSHOT, before) == check
    assert [str(failure) for failure in check.grave] == [
        "topics: has at least 50 % of the rows before: 1 now, 10 in demo-before",
        "partitions: has at least 50 % of the rows before: 2 now, 5 in demo-before",
    ]
    assert quick_check(SNAPSHOT, replace(before, min_share_percent=0)).success
    assert quick_check(SNAPSHOT, replace(before, row_counts={**counts, "topics": 9})).success


def test_a_table_that_is_empty_lost_everything() -> None:
    nothing = cluster(racks="1")
    before = CountsBefore("demo-before", {"topics": 10, "partitions": 10, "brokers": 1}, 50)
    check = check_snapshot_data(nothing, before)
    assert [failure.table for failure in check.grave] == ["topics", "partitions"]
    assert quick_check(nothing, before) == check


def test_what_data_docs_show_of_a_cluster_is_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\"'&amp;$x{{ 1 }}%3C"
    rows = [row | {"topic": hostile, "size_bytes": -1} for row in SNAPSHOT.partitions.to_pylist()]
    table = pa.Table.from_pylist(rows, schema=SNAPSHOT_TABLES["partitions"])
    bad = replace(SNAPSHOT, tables={**SNAPSHOT.tables, "partitions": table})
    check = check_snapshot_data(bad, docs=tmp_path)
    assert f"{hostile}-0: size_bytes=-1" in {
        example for failure in check.failures for example in failure.examples
    }
    assert quick_check(bad) == check
    pages = [path.read_text() for path in tmp_path.rglob("*.html")]
    index = (tmp_path / "index.html").read_text()
    assert "<script" not in index, "reports are shown without any"
    assert ">partitions</a>" in index
    for link in re.findall('href="([^"]*)"', index):
        assert (tmp_path / unquote(link)).is_file()
    assert any(
        "%3Cscript%3Ealert(1)%3C/script%3E%22%27%26amp;%24x%7B%7B 1 %7D%7D%253C" in page
        for page in pages
    )
    assert not any("<script>alert" in page or "&lt;script" in page for page in pages)
