"""The cluster document: what it keeps, and every way in which it can be wrong."""

import json
from typing import Any

import pytest

from counterpoise.errors import InputError
from counterpoise.model.document import from_document_text, to_document

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


@pytest.mark.parametrize(
    "text", ["", "{", '{"brokers": [', "[1, 2]", '"text"', "null", "[" * 100_000]
)
def test_what_is_cut_short_or_no_object_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"x\.json: (not JSON|must be a JSON object)"):
        from_document_text(text, where="x.json")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"brokers": []}, "at least one broker"),
        ({"brokers": [{"id": 1}, {"id": 1}, {"id": 2}]}, "broker 1 is listed twice"),
        ({"brokers": [{"id": -1}, {"id": "2"}, {"id": True}, {"id": 2**31}]}, "6 problem"),
        ({"brokers": [{"id": 1, "rack": 7}, {"id": 2}]}, "rack must be text"),
        (log_dirs("/data"), "log_dirs must be a list"),
        (log_dirs([{"total_bytes": 1}]), "broker 1: each of its log_dirs needs a path"),
        (log_dirs([{"path": "/a"}, {"path": "/a"}]), "broker 1: log dir /a is listed twice"),
        (
            log_dirs([{"path": "/a", "held_bytes": -1}]),
            "/a: held_bytes must be a whole number from 0 to",
        ),
        (
            log_dirs([{"path": "/a", "total_bytes": 5, "usable_bytes": 6}]),
            "6 is more than total_bytes 5",
        ),
        (log_dirs([{"path": "/a", "error": 7}]), "log dir /a: error must be text"),
        ({"partitions": {}}, '"partitions" must be a list'),
        ({"partitions": [["orders", 0, [1], 1]] * 2}, "orders-0 is listed twice"),
        ({"partitions": [["orders", 0, [], 1]]}, "orders-0 has no replicas"),
        ({"partitions": [["orders", 0, [1, 1], 1]]}, "names a broker twice"),
        ({"partitions": [["orders", 0, [1, 9], 1]]}, "unknown brokers [9]"),
        ({"partitions": [["orders", 0, [1], 2]]}, "leader 2 is none of its replicas"),
        ({"partitions": [["orders", 0, [1], 1, -5]]}, "its size is -5"),
        ({"partitions": [["orders", 0, [1], 1, 5, 0.5]]}, "its rate is 0.5"),
        ({"partitions": [["orders", 0, [1], 1, 2**63]]}, "its size is"),
        ({"partitions": [["orders", -1, [1], 1], [7, 0, [1], 1], ["orders"], None]}, "4 problem"),
        ({"observed_at": "yesterday"}, '"observed_at" must be a time'),
        ({"topics": [{"id": "x"}]}, "needs a name"),
        (
            {"topics": [{"name": "x", "id": 5, "internal": "no", "retention_ms": -2}]},
            "topics[0]: retention_ms must be a whole number from -1 to",
        ),
        ({"moving": [["orders", 0]]}, "moving[0]"),
    ],
)
def test_every_complaint_names_its_place(changes: dict[str, Any], says: str) -> None:
    assert says in problems(**changes)


def test_all_complaints_come_at_once_and_a_flood_is_counted() -> None:
    text = problems(partitions=[["orders", n, [9], 9] for n in range(100)])
    assert "100 problems" in text
    assert "... and 80 more" in text


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (None, '"throttles" must be a list'),
        ([["broker", "1", "follower.replication.throttled.rate"]], r"throttles[0]: must be"),
        ([["broker", 1, "follower.replication.throttled.rate", "5"]], r"throttles[0]: must be"),
        ([["broker", "x", "follower.replication.throttled.rate", "5"]], r"throttles[0]: must be"),
        (
            [["topic", "orders", "follower.replication.throttled.rate", "5"]],
            r"throttles[0]: must be",
        ),
        ([["disk", "1", "follower.replication.throttled.rate", "5"]], r"throttles[0]: must be"),
        (
            [["broker", "1", "leader.replication.throttled.rate", v] for v in "56"],
            r"throttles[1]: broker 1 leader",
        ),
    ],
)
def test_malformed_throttles_are_refused(told: object, says: str) -> None:
    assert says in problems(throttles=told)
