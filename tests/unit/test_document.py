"""The cluster document: what it keeps, and every way in which it can be wrong."""

import json
from typing import Any

import pytest

from counterpoise.errors import InputError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.document import from_document_text, to_document
from counterpoise.model.inspection import Inspection, InspectionItem
from counterpoise.model.inspection_document import from_content, to_content
from counterpoise.model.kafka import ConfigSource, ConfigValue, Reassignment

GOOD: dict[str, Any] = {
    "brokers": [{"id": 1, "rack": "a"}, {"id": 2, "fenced": True}],
    "partitions": [["orders", 0, [1, 2], 1, 1000, 50], ["orders", 1, [2, 1], -1]],
}


def log_dirs(told: object) -> dict[str, Any]:
    return {"brokers": [{"id": 1, "log_dirs": told}, {"id": 2}]}


def problems(**changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        from_document_text(json.dumps(GOOD | changes), where="x.json")
    assert str(caught.value).startswith("x.json: ")
    return str(caught.value)


def test_a_minimal_document_is_enough_and_unknown_keys_are_ignored() -> None:
    snapshot = from_document_text(json.dumps(GOOD | {"colour": "red"}))
    assert snapshot.live_broker_ids == (1,)
    assert snapshot.partitions["leader"].to_pylist() == [1, None]
    assert snapshot.partitions["size_bytes"].to_pylist() == [1000, None]


def test_a_document_comes_back_as_it_was() -> None:
    full = GOOD | {
        "cluster": "demo",
        "cluster_id": "abc",
        "snapshot_id": "demo-1",
        "observed_at": "2026-01-31T12:00:00+00:00",
        "topics": [
            {"name": "orders", "id": "topic-id", "internal": False, "min_insync_replicas": 2}
            | {
                "cleanup_policy": "compact,delete",
                "retention_ms": 86_400_000,
                "retention_bytes": -1,
            }
        ],
        "moving": [["orders", 1, [3], [1]]],
        "throttles": [
            ["topic", "orders", "leader.replication.throttled.replicas", "0:1"],
            ["broker", "2", "follower.replication.throttled.rate", "5"],
        ],
    }
    once = to_document(from_document_text(json.dumps(full)))
    assert to_document(from_document_text(json.dumps(once))) == once
    assert once["moving"] == full["moving"]
    assert once["throttles"] == full["throttles"][::-1]  # sorted
    assert once["topics"] == full["topics"]


def test_log_dirs_come_back_as_they_were_and_tell_the_brokers_disk() -> None:
    dirs = [
        {"path": "/a/1", "total_bytes": 1000, "usable_bytes": 400, "held_bytes": 500},
        {"path": "/a/2", "total_bytes": 1000, "usable_bytes": 401},  # the same file system
        {"path": "/b", "total_bytes": 2000, "usable_bytes": 2000},
        {"path": "/c", "error": "disk failed"},
    ]
    brokers = [
        {"id": 2, "disk_total_bytes": 77, "disk_usable_bytes": 7},
        {"id": 1, "log_dirs": dirs[::-1]},
        {"id": 3},
    ]
    snapshot = from_document_text(json.dumps(GOOD | {"brokers": brokers}))
    assert snapshot.brokers["disk_total_bytes"].to_pylist() == [3000, 77, None]
    assert snapshot.brokers["disk_usable_bytes"].to_pylist() == [2400, 7, None]
    assert snapshot.log_dirs["error"].to_pylist() == [None, None, None, "disk failed"]
    once = to_document(snapshot)
    assert once["brokers"][0]["log_dirs"] == dirs
    assert not any("log_dirs" in broker for broker in once["brokers"][1:])
    assert to_document(from_document_text(json.dumps(once))) == once


def test_file_systems_without_an_end_are_not_too_large_to_read() -> None:
    dirs = [
        {"path": path, "total_bytes": 2**63 - 1, "usable_bytes": free}
        for path, free in (("/a", 2**62), ("/b", 0))
    ]
    snapshot = from_document_text(
        json.dumps(GOOD | {"brokers": [{"id": 1, "log_dirs": dirs}, {"id": 2}]})
    )
    assert snapshot.brokers["disk_total_bytes"].to_pylist() == [2**63 - 1, None]


def test_row_order_does_not_matter() -> None:
    turned = GOOD | {"partitions": GOOD["partitions"][::-1], "brokers": GOOD["brokers"][::-1]}
    first, second = from_document_text(json.dumps(GOOD)), from_document_text(json.dumps(turned))
    assert first.partitions == second.partitions
    assert first.brokers == second.brokers


def test_all_complaints_come_at_once_and_a_flood_is_counted() -> None:
    text = problems(partitions=[["orders", n, [9], 9] for n in range(100)])
    assert "100 problems" in text
    assert "... and 80 more" in text


def test_a_broker_with_a_wrong_value_is_there_all_the_same() -> None:
    found = problems(brokers=[{"id": 1, "port": "9092"}], partitions=[["a", 0, [1], 1]])
    assert "port must be" in found and "unknown brokers" not in found


def test_what_an_audit_reads_comes_back_and_what_a_file_lacks_is_named() -> None:
    partition = TopicPartition("a-topic-2", 3)
    inspection = Inspection(
        broker_configs={1: {"node.id": ConfigValue("1", ConfigSource.STATIC_BROKER)}},
        reassignments={partition: Reassignment((1, 2), (2,), ())},
        eligible_leaders={partition: (1, 2)},
        unavailable={InspectionItem.GROUPS: "denied"},
    )
    content = json.loads(json.dumps(to_content(inspection)))
    assert from_content(content, where="file") == inspection
    del content["groups"]
    content["reassignments"] = {"no partition": {}}
    with pytest.raises(InputError, match=r"(?s)groups is missing.*reassignments\.no partition"):
        from_content(content, where="file")
