"""The cluster document: one JSON object from which a plan can be made without a cluster.

    {"brokers": [{"id": 1, "rack": "a"}],
     "partitions": [["orders", 0, [1, 2, 3], 1, 1048576, 2048]]}     # ..., leader, size_bytes, bytes_in_per_second

Unknown keys are ignored; sizes and rates may be absent or null; a leader of -1 or null means none.
Our own snapshots also carry "cluster", "cluster_id", "snapshot_id", "observed_at" and "topics", so
that a plan made from one can be executed. Replicas of one partition count with the partition's
size.

A broker may tell its disks, so that shares follow their sizes and no plan fills one up:
"disk_total_bytes" and "disk_usable_bytes" over all of them, or one by one:

    "log_dirs": [{"path": "/data/a", "total_bytes": 2000000000, "usable_bytes": 1500000000}]

The sums come from the log dirs where only these are there. A log dir with an "error" (text) is
offline.

Keys of replication throttles that are set already, so that a plan tells what to restore, are rows
of type, name, key and value:

    "throttles": [["broker", "4", "follower.replication.throttled.rate", "20000000"]]
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.disks import disk_over
from counterpoise.model.document_checks import complaints_about
from counterpoise.model.tables import (
    BROKERS,
    LISTENERS,
    LOG_DIRS,
    PARTITIONS,
    QUORUM,
    REPLICAS,
    THROTTLES,
    TOPIC_CONFIGS,
    TOPICS,
    table_of,
)

_MAX_COMPLAINTS_SHOWN = 20
# Columns of BROKERS that have another name in the document, or are there though they are null.
_BROKER_KEYS: Final[Mapping[str, str]] = {
    "broker_id": "id",
    "rack": "rack",
    "host": "host",
    "port": "port",
    "is_fenced": "fenced",
}
# The others are left out where they are null.
_BROKER_FIGURES: Final = tuple(name for name in BROKERS.names if name not in _BROKER_KEYS)
_LOG_DIR_FIGURES: Final = tuple(
    name for name in LOG_DIRS.names if name not in ("broker_id", "log_dir")
)


def to_document(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """The document of a snapshot, ready for `json.dump`."""
    log_dirs = _log_dirs_of_brokers(snapshot.log_dirs)
    brokers = [
        {key: row[column] for column, key in _BROKER_KEYS.items()}
        | {name: row[name] for name in _BROKER_FIGURES if row[name] is not None}
        | ({"log_dirs": log_dirs[row["broker_id"]]} if row["broker_id"] in log_dirs else {})
        for row in snapshot.brokers.to_pylist()
    ]
    topics = [
        {"name": row["topic"], "id": row["topic_id"], "internal": row["is_internal"]}
        | {key: row[key] for key in TOPIC_CONFIGS if row[key] is not None}
        for row in snapshot.topics.to_pylist()
    ]
    columns = ["topic", "partition", "replicas", "leader", "size_bytes", "bytes_in_per_second"]
    partitions = [
        list(row)
        for row in zip(*(snapshot.partitions[c].to_pylist() for c in columns), strict=True)
    ]
    return {
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "observed_at": snapshot.observed_at.isoformat() if snapshot.observed_at else None,
        "brokers": brokers,
        "topics": topics,
        "partitions": partitions,
        "moving": _moving(snapshot.partitions),
        "throttles": [list(row.values()) for row in snapshot.throttles.to_pylist()],
    }


def from_document_text(text: str, *, where: str = "cluster document") -> ClusterSnapshot:
    """The snapshot in a document.

    Raises InputError with every complaint (the first 20 shown) at once.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); was the file cut short?") from None
    if not isinstance(document, dict):
        raise InputError(
            f"{where}: must be a JSON object with brokers and partitions, not a {type(document).__name__}"
        )
    complaints = complaints_about(document)
    if complaints:
        shown = [f"  {complaint}" for complaint in complaints[:_MAX_COMPLAINTS_SHOWN]]
        if len(complaints) > len(shown):
            shown.append(f"  ... and {len(complaints) - len(shown)} more")
        raise InputError("\n".join([f"{where}: {len(complaints)} problem(s)", *shown]))
    try:
        return _snapshot(document, text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: {error.object[:20]!r} holds half a character (a lone surrogate)"
        ) from None


def _snapshot(document: Mapping[str, Any], text: str) -> ClusterSnapshot:
    rows = sorted(document["partitions"], key=lambda row: (row[0], row[1]))
    observed = document.get("observed_at")
    return ClusterSnapshot(
        snapshot_id=document.get("snapshot_id")
        or f"document-{hashlib.sha256(text.encode()).hexdigest()[:16]}",
        cluster=document.get("cluster") or document.get("name") or "",
        cluster_id=document.get("cluster_id") or "",
        observed_at=datetime.fromisoformat(observed) if observed else None,
        tables={
            "brokers": _brokers_table(document["brokers"]),
            "topics": _topics_table(rows, document.get("topics", [])),
            "partitions": _partitions_table(rows, document.get("moving", [])),
            "replicas": _replicas_table(rows),
            "listeners": LISTENERS.empty_table(),
            "quorum": QUORUM.empty_table(),
            "log_dirs": _log_dirs_table(document["brokers"]),
            "throttles": _throttles_table(document.get("throttles", [])),
        },
    )


def _brokers_table(brokers: Sequence[Mapping[str, Any]]) -> pa.Table:
    ordered = sorted(brokers, key=lambda broker: int(broker["id"]))
    disks = [_disk(broker) for broker in ordered]
    keys = _BROKER_KEYS | {name: name for name in _BROKER_FIGURES}
    columns = {column: [broker.get(key) for broker in ordered] for column, key in keys.items()} | {
        "is_fenced": [broker.get("fenced", False) for broker in ordered],
        "disk_total_bytes": [total for total, _ in disks],
        "disk_usable_bytes": [usable for _, usable in disks],
    }
    return table_of(BROKERS, columns)


def _disk(broker: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Total and usable bytes as told; over its log dirs where neither is."""
    total, usable = broker.get("disk_total_bytes"), broker.get("disk_usable_bytes")
    if total is not None or usable is not None:
        return total, usable
    told = [
        (d.get("total_bytes"), d.get("usable_bytes"))
        for d in broker.get("log_dirs") or ()
        if not d.get("error")
    ]
    return disk_over(
        (total, usable) for total, usable in told if total is not None and usable is not None
    )


def _log_dirs_table(brokers: Sequence[Mapping[str, Any]]) -> pa.Table:
    rows = [(broker["id"], d) for broker in brokers for d in broker.get("log_dirs") or ()]
    rows.sort(key=lambda row: (row[0], row[1]["path"]))
    columns = {
        "broker_id": [broker_id for broker_id, _ in rows],
        "log_dir": [d["path"] for _, d in rows],
        **{name: [d.get(name) for _, d in rows] for name in _LOG_DIR_FIGURES},
        "error": [d.get("error") or None for _, d in rows],
    }
    return table_of(LOG_DIRS, columns)


def _throttles_table(throttles: Sequence[Sequence[str]]) -> pa.Table:
    rows = sorted(map(tuple, throttles))
    return pa.table([[row[n] for row in rows] for n in range(len(THROTTLES))], schema=THROTTLES)


def _log_dirs_of_brokers(log_dirs: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """Return the log dirs of each broker, as the document has them."""
    by_broker: dict[int, list[dict[str, Any]]] = {}
    for row in log_dirs.to_pylist():
        known = {name: row[name] for name in _LOG_DIR_FIGURES if row[name] is not None}
        by_broker.setdefault(row["broker_id"], []).append({"path": row["log_dir"]} | known)
    return by_broker


def _topics_table(rows: Sequence[Sequence[Any]], topics: Sequence[Mapping[str, Any]]) -> pa.Table:
    told = {topic["name"]: topic for topic in topics}
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[0]] = counts.get(row[0], 0) + 1
    return pa.Table.from_pylist(
        [
            {
                "topic": topic,
                "topic_id": told.get(topic, {}).get("id"),
                "is_internal": bool(told.get(topic, {}).get("internal", topic.startswith("__"))),
                "partition_count": count,
            }
            | {key: told.get(topic, {}).get(key) for key in TOPIC_CONFIGS}
            for topic, count in sorted(counts.items())
        ],
        schema=TOPICS,
    )


def _partitions_table(rows: Sequence[Sequence[Any]], moving: Sequence[Sequence[Any]]) -> pa.Table:
    under_way = {(row[0], row[1]): (row[2], row[3]) for row in moving}
    keys = [(row[0], row[1]) for row in rows]
    columns = {
        "topic": [topic for topic, _ in keys],
        "partition": [partition for _, partition in keys],
        "leader": [None if row[3] in (None, -1) else row[3] for row in rows],
        "replicas": [row[2] for row in rows],
        "adding_replicas": [under_way.get(key, ((), ()))[0] for key in keys],
        "removing_replicas": [under_way.get(key, ((), ()))[1] for key in keys],
        "size_bytes": [row[4] if len(row) > 4 else None for row in rows],
        "bytes_in_per_second": [row[5] if len(row) > 5 else None for row in rows],
    }
    return table_of(PARTITIONS, columns)


def _replicas_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    flat = [(row, position, broker_id) for row in rows for position, broker_id in enumerate(row[2])]
    columns = {
        "topic": [row[0] for row, _, _ in flat],
        "partition": [row[1] for row, _, _ in flat],
        "broker_id": [broker_id for _, _, broker_id in flat],
        "position": [position for _, position, _ in flat],
        "is_leader": [row[3] == broker_id for row, _, broker_id in flat],
        "size_bytes": [row[4] if len(row) > 4 else None for row, _, _ in flat],
    }
    return table_of(REPLICAS, columns)


def _moving(partitions: pa.Table) -> list[list[Any]]:
    """Partitions with a reassignment under way: a planner has to leave them alone."""
    columns = ["topic", "partition", "adding_replicas", "removing_replicas"]
    rows = zip(*(partitions[c].to_pylist() for c in columns), strict=True)
    return [list(row) for row in rows if row[2] or row[3]]
