"""The cluster document: one JSON object from which a plan can be made without a cluster.

    {"brokers": [{"id": 1, "rack": "a"}],
     "partitions": [["orders", 0, [1, 2, 3], 1, 1048576, 2048]]}     # ..., leader, size_bytes, bytes_in_per_second

Unknown keys are ignored; sizes and rates may be absent or null; a leader of -1 or null means none. Our own snapshots
also carry "cluster", "cluster_id", "snapshot_id", "observed_at" and "topics", so that a plan made from one can be
executed. Replicas of one partition count with the partition's size.

A broker may tell its disks, so that shares follow their sizes and no plan fills one up: "disk_total_bytes" and
"disk_usable_bytes" over all of them, or one by one:

    "log_dirs": [{"path": "/data/a", "total_bytes": 2000000000, "usable_bytes": 1500000000}]

The sums come from the log dirs where only these are there. A log dir with an "error" (text) is offline.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.disks import disk_over
from counterpoise.model.tables import BROKERS, LISTENERS, LOG_DIRS, PARTITIONS, QUORUM, REPLICAS, TOPICS

_MOST_COMPLAINTS_SHOWN = 20


def to_document(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """The document of a snapshot, ready for `json.dump`."""
    log_dirs = _told_log_dirs(snapshot.log_dirs)
    brokers = [
        {
            "id": row["broker_id"],
            "rack": row["rack"],
            "host": row["host"],
            "port": row["port"],
            "fenced": row["is_fenced"],
        }
        | {key: row[key] for key in ("disk_total_bytes", "disk_usable_bytes") if row[key] is not None}
        | ({"log_dirs": log_dirs[row["broker_id"]]} if row["broker_id"] in log_dirs else {})
        for row in snapshot.brokers.to_pylist()
    ]
    topics = [
        {"name": row["topic"], "id": row["topic_id"], "internal": row["is_internal"]}
        | ({} if row["min_insync_replicas"] is None else {"min_insync_replicas": row["min_insync_replicas"]})
        for row in snapshot.topics.to_pylist()
    ]
    columns = ["topic", "partition", "replicas", "leader", "size_bytes", "bytes_in_per_second"]
    partitions = [list(row) for row in zip(*(snapshot.partitions[c].to_pylist() for c in columns), strict=True)]
    return {
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "observed_at": snapshot.observed_at.isoformat() if snapshot.observed_at else None,
        "brokers": brokers,
        "topics": topics,
        "partitions": partitions,
        "moving": _moving(snapshot.partitions),
    }


def from_document_text(text: str, *, where: str = "cluster document") -> ClusterSnapshot:
    """The snapshot in a document. Raises InputError with every complaint (the first 20 shown) at once."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); was the file cut short?") from None
    if not isinstance(document, dict):
        raise InputError(f"{where}: must be a JSON object with brokers and partitions, not a {type(document).__name__}")
    complaints = _complaints(document)
    if complaints:
        shown = [f"  {complaint}" for complaint in complaints[:_MOST_COMPLAINTS_SHOWN]]
        if len(complaints) > len(shown):
            shown.append(f"  ... and {len(complaints) - len(shown)} more")
        raise InputError("\n".join([f"{where}: {len(complaints)} problem(s)", *shown]))
    return _snapshot(document, text)


def _complaints(document: Mapping[str, Any]) -> list[str]:
    brokers, partitions = document.get("brokers"), document.get("partitions")
    if not isinstance(brokers, list) or not brokers:
        return ['"brokers" must be a list with at least one broker, like {"id": 1, "rack": "a"}']
    if not isinstance(partitions, list):
        return [
            '"partitions" must be a list of [topic, partition, [replicas], leader, size_bytes, bytes_in_per_second]'
        ]
    complaints = [
        f'"{key}" must be text'
        for key in ("cluster", "cluster_id", "snapshot_id")
        if not isinstance(document.get(key, ""), str | None)
    ]
    if not _is_time_or_absent(document.get("observed_at")):
        complaints.append('"observed_at" must be a time like 2026-01-31T12:00:00+00:00')
    complaints += _topic_complaints(document.get("topics", []))
    complaints += _moving_complaints(document.get("moving", []))
    seen: set[int] = set()
    for index, broker in enumerate(brokers):
        complaint = _broker_complaint(broker, seen)
        if complaint:
            complaints.append(f"brokers[{index}]: {complaint}")
        else:
            seen.add(broker["id"])
    named: set[tuple[str, int]] = set()
    for index, row in enumerate(partitions):
        complaint = _partition_complaint(row, seen)
        if not complaint and (row[0], row[1]) in named:
            complaint = f"{row[0]}-{row[1]} is listed twice"
        if complaint:
            complaints.append(f"partitions[{index}]: {complaint}")
        else:
            named.add((row[0], row[1]))
    return complaints


def _topic_complaints(topics: object) -> list[str]:
    if not isinstance(topics, list):
        return ['"topics" must be a list of {"name", "id", ...}']
    return [
        f"topics[{index}]: needs a name (text); id must be text"
        for index, topic in enumerate(topics)
        if not isinstance(topic, dict)
        or not isinstance(topic.get("name"), str)
        or not isinstance(topic.get("id", ""), str | None)
        or not _is_count_or_absent(topic.get("min_insync_replicas"))
    ]


def _moving_complaints(moving: object) -> list[str]:
    if not isinstance(moving, list):
        return ['"moving" must be a list of [topic, partition, [adding], [removing]]']
    return [
        f"moving[{index}]: must be [topic, partition, [adding], [removing]]"
        for index, row in enumerate(moving)
        if not isinstance(row, list)
        or len(row) != 4
        or not isinstance(row[0], str)
        or type(row[1]) is not int
        or not all(isinstance(ids, list) and all(_is_id(b) for b in ids) for ids in row[2:])
    ]


def _broker_complaint(broker: object, seen: set[int]) -> str | None:
    if not isinstance(broker, dict) or not _is_id(broker.get("id")):
        return 'needs an "id" that is a whole number, 0 or more'
    if broker["id"] in seen:
        return f"broker {broker['id']} is listed twice"
    if not isinstance(broker.get("rack"), str | None):
        return f"broker {broker['id']}: rack must be text or absent"
    if not isinstance(broker.get("fenced", False), bool) or not isinstance(broker.get("host"), str | None):
        return f"broker {broker['id']}: fenced must be true or false, host text"
    if not all(_is_count_or_absent(broker.get(k)) for k in ("port", "disk_total_bytes", "disk_usable_bytes")):
        return f"broker {broker['id']}: port and disk sizes must be whole numbers, 0 or more"
    if complaint := _log_dirs_complaint(broker.get("log_dirs")):
        return f"broker {broker['id']}: {complaint}"
    return None


def _log_dirs_complaint(log_dirs: object) -> str | None:
    if log_dirs is None:
        return None
    if not isinstance(log_dirs, list) or not all(isinstance(d, dict) for d in log_dirs):
        return 'log_dirs must be a list of {"path", "total_bytes", "usable_bytes"}'
    seen: set[str] = set()
    for d in log_dirs:
        path, total, usable = d.get("path"), d.get("total_bytes"), d.get("usable_bytes")
        if not isinstance(path, str) or not path:
            return "each of its log_dirs needs a path (text)"
        if path in seen:
            return f"log dir {path} is listed twice"
        if not _is_count_or_absent(total) or not _is_count_or_absent(usable):
            return f"log dir {path}: total_bytes and usable_bytes must be whole numbers, 0 or more"
        if total is not None and usable is not None and usable > total:
            return f"log dir {path}: usable_bytes {usable} is more than total_bytes {total}"
        if not isinstance(d.get("error"), str | None):
            return f"log dir {path}: error must be text or absent"
        seen.add(path)
    return None


def _partition_complaint(row: object, broker_ids: set[int]) -> str | None:
    if not isinstance(row, list) or len(row) < 4:
        return "must be [topic, partition, [replicas], leader, size_bytes, bytes_in_per_second]"
    topic, partition, replicas, leader = row[:4]
    if not isinstance(topic, str) or not topic or not _is_id(partition):
        return "needs a topic (text) and a partition (whole number, 0 or more)"
    name = f"{topic}-{partition}"
    if not isinstance(replicas, list) or not replicas:
        return f"{name} has no replicas"
    if not all(_is_id(b) for b in replicas):
        return f"{name}: replicas must be broker ids, not {replicas}"
    if len(set(replicas)) != len(replicas):
        return f"{name} names a broker twice: {replicas}"
    if unknown := sorted(set(replicas) - broker_ids):
        return f"{name} has replicas on unknown brokers {unknown}"
    if leader is not None and leader != -1 and (type(leader) is not int or leader not in replicas):
        return f"{name}: its leader {leader} is none of its replicas {replicas}"
    for what, value in zip(("size", "rate"), row[4:6], strict=False):
        if not _is_count_or_absent(value):
            return f"{name}: its {what} is {value!r}; it must be a whole number, 0 or more"
    return None


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_time_or_absent(value: object) -> bool:
    try:
        return value is None or (isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None)
    except ValueError:
        return False


def _is_count_or_absent(value: object) -> bool:
    return value is None or _is_count(value)


def _snapshot(document: Mapping[str, Any], text: str) -> ClusterSnapshot:
    rows = sorted(document["partitions"], key=lambda row: (row[0], row[1]))
    observed = document.get("observed_at")
    return ClusterSnapshot(
        snapshot_id=document.get("snapshot_id") or f"document-{hashlib.sha256(text.encode()).hexdigest()[:16]}",
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
        },
    )


def _brokers_table(brokers: Sequence[Mapping[str, Any]]) -> pa.Table:
    ordered = sorted(brokers, key=lambda broker: int(broker["id"]))
    disks = [_disk(broker) for broker in ordered]
    return pa.Table.from_pylist(
        [
            {
                "broker_id": broker["id"],
                "host": broker.get("host"),
                "port": broker.get("port"),
                "rack": broker.get("rack"),
                "is_fenced": broker.get("fenced", False),
                "disk_total_bytes": total,
                "disk_usable_bytes": usable,
            }
            for broker, (total, usable) in zip(ordered, disks, strict=True)
        ],
        schema=BROKERS,
    )


def _disk(broker: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Total and usable bytes as told; over its log dirs where neither is."""
    total, usable = broker.get("disk_total_bytes"), broker.get("disk_usable_bytes")
    if total is not None or usable is not None:
        return total, usable
    told = [(d.get("total_bytes"), d.get("usable_bytes")) for d in broker.get("log_dirs") or () if not d.get("error")]
    return disk_over((total, usable) for total, usable in told if total is not None and usable is not None)


def _log_dirs_table(brokers: Sequence[Mapping[str, Any]]) -> pa.Table:
    rows = [(broker["id"], d) for broker in brokers for d in broker.get("log_dirs") or ()]
    rows.sort(key=lambda row: (row[0], row[1]["path"]))
    columns = {
        "broker_id": [broker_id for broker_id, _ in rows],
        "log_dir": [d["path"] for _, d in rows],
        "total_bytes": [d.get("total_bytes") for _, d in rows],
        "usable_bytes": [d.get("usable_bytes") for _, d in rows],
        "error": [d.get("error") or None for _, d in rows],
    }
    return pa.table(columns, schema=LOG_DIRS)


def _told_log_dirs(log_dirs: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """By broker, as the document has them."""
    told: dict[int, list[dict[str, Any]]] = {}
    for row in log_dirs.to_pylist():
        known = {key: row[key] for key in ("total_bytes", "usable_bytes", "error") if row[key] is not None}
        told.setdefault(row["broker_id"], []).append({"path": row["log_dir"]} | known)
    return told


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
                "min_insync_replicas": told.get(topic, {}).get("min_insync_replicas"),
            }
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
        "leader_epoch": [None] * len(rows),
        "replicas": [row[2] for row in rows],
        "isr": [None] * len(rows),
        "adding_replicas": [under_way.get(key, ((), ()))[0] for key in keys],
        "removing_replicas": [under_way.get(key, ((), ()))[1] for key in keys],
        "size_bytes": [row[4] if len(row) > 4 else None for row in rows],
        "bytes_in_per_second": [row[5] if len(row) > 5 else None for row in rows],
        "earliest_offset": [None] * len(rows),
        "latest_offset": [None] * len(rows),
    }
    return pa.table(columns, schema=PARTITIONS)


def _replicas_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    flat = [(row, position, broker_id) for row in rows for position, broker_id in enumerate(row[2])]
    columns = {
        "topic": [row[0] for row, _, _ in flat],
        "partition": [row[1] for row, _, _ in flat],
        "broker_id": [broker_id for _, _, broker_id in flat],
        "position": [position for _, position, _ in flat],
        "is_leader": [row[3] == broker_id for row, _, broker_id in flat],
        "in_sync": [None] * len(flat),
        "size_bytes": [row[4] if len(row) > 4 else None for row, _, _ in flat],
        "log_dir": [None] * len(flat),
    }
    return pa.table(columns, schema=REPLICAS)


def _moving(partitions: pa.Table) -> list[list[Any]]:
    """Partitions with a reassignment under way: a planner has to leave them alone."""
    columns = ["topic", "partition", "adding_replicas", "removing_replicas"]
    rows = zip(*(partitions[c].to_pylist() for c in columns), strict=True)
    return [list(row) for row in rows if row[2] or row[3]]
