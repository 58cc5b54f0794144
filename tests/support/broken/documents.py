"""Cluster documents that no plan can be made of, and Kafka's reassignment JSON that asks for
nonsense.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from counterpoise.model.document import to_document
from tests.support.broken.case import HOSTILE, Broken
from tests.support.pictures import cluster

GOOD: Final[Mapping[str, Any]] = to_document(
    cluster(
        "\n".join(f"orders-{p}: 1 2 3 size={100 + p}" for p in range(8)),
        racks="1=a 2=b 3=c 4=d",
        name="demo",
    )
)
TEXT: Final = json.dumps(GOOD)
_ROW: Final = ["orders", 0, [1, 2], 1, 10, 10]
_BROKERS: Final = [{"id": 1}, {"id": 2}]


def plan_of(name: str) -> tuple[str, ...]:
    return ("plan", "--state", name, "--goal", "rebalance", "--out", "plan.json")


def _text(id_: str, content: str | bytes, *says: str, name: str = "state.json") -> Broken:
    return Broken(f"document {id_}", plan_of(name), (name, *says), {name: content})


def _with(id_: str, *says: str, **changes: Any) -> Broken:
    return _text(id_, json.dumps({**GOOD, **changes}), *says)


def _row(id_: str, row: object, *says: str) -> Broken:
    return _with(f"partition {id_}", "partitions[0]", *says, brokers=_BROKERS, partitions=[row])


def _broker(id_: str, broker: object, *says: str) -> Broken:
    return _with(
        f"broker {id_}", "brokers[0]", *says, brokers=[broker, *_BROKERS], partitions=[_ROW]
    )


def texts() -> Iterator[Broken]:
    """What is no JSON, or no object."""
    yield _text("empty", "", "not JSON")
    yield _text("white space", " \n\t", "not JSON")
    yield _text("cut short", TEXT[:-30], "not JSON", "cut short")
    yield _text("cut in a string", TEXT[: TEXT.index("orders") + 3], "not JSON")
    yield _text("null", "null", "must be a JSON object")
    yield _text("a list", "[]", "must be a JSON object")
    yield _text("a number", "7", "must be a JSON object")
    yield _text("text", '"brokers"', "must be a JSON object")
    yield _text("nested deeply", "[" * 200_000, "not JSON")
    yield _text("objects nested deeply", '{"a":' * 100_000, "not JSON")
    yield _text("two documents", TEXT + TEXT, "not JSON")
    yield _text("yaml", "brokers:\n  - id: 1\n", "not JSON")
    yield _text("half a character in UTF-16", b"\xff\xfe{", "cannot be read")
    yield _text("latin-1", '{"brokers": "ä"}'.encode("latin-1"), "cannot be read")
    yield _text("null bytes", "\x00" * 64, "not JSON")
    yield _text("html", "<html><body>403</body></html>", "not JSON")
    yield _text("an int of 5000 digits", '{"brokers": ' + "9" * 5000 + "}", "state.json")
    packed = gzip.compress(TEXT.encode(), mtime=0)
    for id_, content in (
        ("cut gzip", packed[:-20]),
        ("half gzip", packed[: len(packed) // 2]),
        ("gzip head alone", packed[:10]),
        ("gzip with a wrong sum", packed[:-8] + b"\0" * 8),
        ("gzip with rubbish inside", packed[:30] + b"\xff" * 20 + packed[50:]),
        ("no gzip", TEXT.encode()),
        ("rubbish after gzip", packed + b"rubbish"),
    ):
        yield _text(id_, content, "cannot be read", name="state.json.gz")
    yield _text("empty gzip", b"", "state.json.gz", name="state.json.gz")


def values() -> Iterator[Broken]:
    """Parts with wrong types, or that contradict one another."""
    for id_, brokers in (
        ("absent", None),
        ("empty", []),
        ("a mapping", {"1": {}}),
        ("text", "1,2"),
        ("true", True),
    ):
        yield _with(f"brokers {id_}", '"brokers" must be a list', brokers=brokers)
    for id_, partitions in (
        ("absent", None),
        ("a mapping", {}),
        ("text", "orders-0"),
        ("a number", 3),
    ):
        yield _with(f"partitions {id_}", '"partitions" must be a list', partitions=partitions)
    for key in ("cluster", "cluster_id", "snapshot_id"):
        yield _with(f"{key} a number", f'"{key}" must be text', **{key: 7})
    for id_, when in (
        ("a number", 1700000000),
        ("a date", "yesterday"),
        ("without a zone", "2026-01-31T12:00:00"),
    ):
        yield _with(f"observed_at {id_}", '"observed_at" must be a time', observed_at=when)
    for id_, topics in (("a mapping", {}), ("text", "orders")):
        yield _with(f"topics {id_}", '"topics" must be a list', topics=topics)
    for id_, topic in (
        ("no mapping", "orders"),
        ("without a name", {"id": "x"}),
        ("with a number for an id", {"name": "orders", "id": 5}),
        ("min_insync_replicas text", {"name": "orders", "min_insync_replicas": "2"}),
        ("cleanup_policy a list", {"name": "orders", "cleanup_policy": ["compact"]}),
        ("retention below -1", {"name": "orders", "retention_ms": -5}),
        ("internal a number", {"name": "orders", "internal": 3}),
    ):
        yield _with(f"topic {id_}", "topics[0]", topics=[topic])
    for id_, moving in (
        ("text", "x"),
        ("a row too short", [["orders", 0, [1]]]),
        ("text for ids", [["o", 0, ["1"], []]]),
    ):
        yield _with(f"moving {id_}", "moving", moving=moving)
    for id_, throttles in (
        ("a mapping", {}),
        ("an unknown key", [["broker", "1", "log.retention.ms", "5"]]),
        ("a number", [["broker", 1, "follower.replication.throttled.rate", "5"]]),
        ("a broker's name", [["broker", "one", "follower.replication.throttled.rate", "5"]]),
        ("given twice", [["broker", "1", "follower.replication.throttled.rate", "5"]] * 2),
    ):
        yield _with(f"throttles {id_}", "throttles", throttles=throttles)


def brokers() -> Iterator[Broken]:
    for id_, broker in (
        ("text", "1"),
        ("null", None),
        ("without an id", {"rack": "a"}),
        ("with text for an id", {"id": "9"}),
        ("with a negative id", {"id": -1}),
        ("with true for an id", {"id": True}),
        ("with a fraction for an id", {"id": 1.5}),
        ("with an id too large", {"id": 2**31}),
    ):
        yield _broker(id_, broker, 'needs an "id"')
    yield _broker("with a rack that is a number", {"id": 9, "rack": 1}, "rack must be text")
    half = {"id": 9, "rack": "\ud800"}
    yield _with(
        "rack of half a character", "half a character", brokers=[half, *_BROKERS], partitions=[_ROW]
    )
    yield _broker("with a rack that is a list", {"id": 9, "rack": ["a"]}, "rack must be text")
    yield _broker("with text for fenced", {"id": 9, "fenced": "no"}, "fenced must be true or false")
    yield _broker("with a number for a host", {"id": 9, "host": 127}, "host must be text")
    yield _broker("with text for a port", {"id": 9, "port": "9092"}, "port must be a whole number")
    yield _broker("with a port too large", {"id": 9, "port": 70_000}, "port")
    yield _broker(
        "with a negative disk", {"id": 9, "disk_total_bytes": -1}, "disk_total_bytes must be"
    )
    yield _broker(
        "with a disk of 2**63", {"id": 9, "disk_total_bytes": 2**63}, "disk_total_bytes must be"
    )
    yield _broker("with log_dirs as text", {"id": 9, "log_dirs": "/a"}, "log_dirs must be a list")
    yield _broker(
        "with log_dirs as an object", {"id": 9, "log_dirs": {}}, "log_dirs must be a list"
    )
    yield _broker("with a log dir without a path", {"id": 9, "log_dirs": [{}]}, "needs a path")
    yield _broker(
        "with a log dir twice", {"id": 9, "log_dirs": [{"path": "/a"}] * 2}, "listed twice"
    )
    full = {"path": "/a", "total_bytes": 1, "usable_bytes": 2}
    yield _broker(
        "with more usable than total", {"id": 9, "log_dirs": [full]}, "more than total_bytes"
    )
    yield _with(
        "broker twice",
        "brokers[1]: broker 1 is listed twice",
        brokers=[{"id": 1}, {"id": 1}],
        partitions=[],
    )


def partitions() -> Iterator[Broken]:
    shape = "must be [topic, partition"
    for id_, row, said in (
        ("as text", "orders-0", shape),
        ("as a mapping", {"topic": "orders"}, shape),
        ("too short", ["orders", 0, [1]], shape),
        ("without a topic", ["", 0, [1], 1], "needs a topic"),
        ("with a number for a topic", [7, 0, [1], 1], "needs a topic"),
        ("with a negative number", ["orders", -1, [1], 1], "whole number"),
        ("with true for its number", ["orders", True, [1], 1], "whole number"),
        ("with a number too large", ["orders", 2**31, [1], 1], "whole number"),
        ("without replicas", ["orders", 0, [], 1], "no replicas"),
        ("with replicas as text", ["orders", 0, "1,2", 1], "no replicas"),
        ("with text among replicas", ["orders", 0, [1, "2"], 1], "must be broker ids"),
        ("with true among replicas", ["orders", 0, [True, 2], 2], "must be broker ids"),
        ("with null among replicas", ["orders", 0, [1, None], 1], "must be broker ids"),
        ("with a list among replicas", ["orders", 0, [[1]], 1], "must be broker ids"),
        ("with a broker twice", ["orders", 0, [1, 1], 1], "twice"),
        ("on an unknown broker", ["orders", 0, [1, 99], 1], "unknown brokers [99]"),
        ("led by another", ["orders", 0, [1], 2], "none of its replicas"),
        ("led by true", ["orders", 0, [1], True], "none of its replicas"),
        ("led by text", ["orders", 0, [1], "1"], "none of its replicas"),
        ("with a negative size", ["orders", 0, [1], 1, -5], "its size is -5"),
        ("with a fraction for a size", ["orders", 0, [1], 1, 1.5], "its size is 1.5"),
        ("with text for a size", ["orders", 0, [1], 1, "10"], "its size is '10'"),
        ("with a size of 2**63", ["orders", 0, [1], 1, 2**63], "its size is"),
        ("with a negative rate", ["orders", 0, [1], 1, 1, -1], "its rate is -1"),
        ("with true for a rate", ["orders", 0, [1], 1, 1, True], "its rate is True"),
        ("with a topic for a path", ["../../etc", 0, [1], 1], "'../../etc' is no topic"),
        ("with control characters", [HOSTILE, 0, [1], 1], "topic"),
        ("with a topic of 10,000 characters", ["t" * 10_000, 0, [1], 1], "topic"),
        ("with a lone surrogate", ["\ud800", 0, [1], 1], "topic"),
        ("of a hostile topic without replicas", [HOSTILE, 0, [], 1], "topic"),
    ):
        yield _row(id_, row, said)
    yield _with(
        "partition twice", "orders-0 is listed twice", brokers=_BROKERS, partitions=[_ROW, _ROW]
    )
    head = '{"brokers": [{"id": 1}], "partitions": [["orders", 0, [1], 1, '
    for id_, number in (
        ("NaN", "NaN"),
        ("infinity", "Infinity"),
        ("1e400", "1e400"),
        ("huge", "9" * 400),
    ):
        yield _text(f"size {id_}", head + number + "]]}", "its size is")


def reassignments() -> Iterator[Broken]:
    """`import` of what kafka-reassign-partitions would not read either."""

    def row(**changes: object) -> str:
        return json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": "orders", "partition": 0, "replicas": [1, 2, 4]} | changes
                ],
            }
        )

    for id_, content, said in (
        ("empty", "", "not JSON"),
        ("cut short", row()[:-9], "not JSON"),
        ("nested deeply", "[" * 200_000, "not JSON"),
        ("a list", "[]", "must be an object"),
        ("without partitions", '{"version": 1}', "partitions is missing"),
        ("partitions a mapping", '{"version": 1, "partitions": {}}', "must be a list"),
        ("version 2", '{"version": 2, "partitions": []}', "version is 2"),
        (
            "version true",
            '{"version": true, "partitions": []}',
            "version must be a whole number, not True",
        ),
        (
            "a row as text",
            '{"version": 1, "partitions": ["orders-0"]}',
            "partitions[0] must be an object",
        ),
        (
            "text for a partition",
            row(partition="0"),
            "partitions[0].partition must be a whole number",
        ),
        ("a negative partition", row(partition=-1), "partition"),
        ("a huge partition", row(partition=10**30), "partition"),
        ("no replicas", row(replicas=[]), "orders-0 has no replicas"),
        ("text for replicas", row(replicas="1,2"), "replicas must be a list"),
        ("true for a replica", row(replicas=[True, 2, 4]), "replicas[0] must be a whole number"),
        ("a huge replica", row(replicas=[1, 2, 10**30]), "replicas[2] must be 2147483647 or less"),
        ("a negative replica", row(replicas=[1, 2, -4]), "replicas[2] must be 0 or more"),
        ("a broker twice", row(replicas=[1, 2, 2]), "listed twice"),
        ("an unknown broker", row(replicas=[1, 2, 77]), "[77] are no live brokers"),
        ("an unknown topic", row(topic="none"), "none-0 does not exist"),
        ("a hostile topic", row(topic=HOSTILE), "does not exist"),
        ("a topic of 10,000 characters", row(topic="t" * 10_000), "does not exist"),
        ("another number of replicas", row(replicas=[1, 2]), "their number would change"),
        ("not UTF-8", b"\xc3\x28", "cannot be read"),
        ("half a character in UTF-16", b"\xff\xfe{", "cannot be read"),
        ("with log dirs", row(log_dirs=["any", "/data-2", "any"]), "orders-0: log_dirs names"),
    ):
        words = ("import", "r.json", "--state", "state.json", "--out", "plan.json")
        yield Broken(f"reassignment {id_}", words, (said,), {"r.json": content, "state.json": TEXT})


CASES: Final = (*texts(), *values(), *brokers(), *partitions(), *reassignments())
