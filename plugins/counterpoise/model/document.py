"""The cluster document: one JSON object from which a plan can be made without a cluster.

    {"brokers": [{"id": 1, "rack": "a"}],
     "partitions": [["orders", 0, [1, 2, 3], 1, 1048576, 2048]]}

A partition is its topic, number, replicas, leader, size_bytes and bytes_in_per_second. Unknown keys
are ignored; sizes and rates may be absent or null; a leader of -1 or null means none. Our own
snapshots also carry "cluster", "cluster_id", "snapshot_id", "observed_at" and "topics", so that a
plan made from one can be executed. Replicas of one partition count with the partition's size.

A broker may have the sizes of its disks, so that shares follow them and no plan fills one up:
"disk_total_bytes" and "disk_usable_bytes" over all of them, or one by one:

    "log_dirs": [{"path": "/data/a", "total_bytes": 2000000000, "usable_bytes": 1500000000}]

The sums come from the log dirs where only these are there. A log dir with an "error" (text) is
offline.

Keys of replication throttles that are set already, so that a plan knows what to restore, are rows
of type, name, key and value:

    "throttles": [["broker", "4", "follower.replication.throttled.rate", "20000000"]]
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import InputError, list_complaints
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import flags_of, flat_lists, numbers_of
from counterpoise.model.disks import disk_over
from counterpoise.model.document_checks import complaints_about
from counterpoise.model.grouping import grouped
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
    rows_of,
    table_of,
)

_PARTITION_COLUMNS: Final = (
    "topic",
    "partition",
    "replicas",
    "leader",
    "size_bytes",
    "bytes_in_per_second",
)
_MOVING_COLUMNS: Final = ("topic", "partition", "adding_replicas", "removing_replicas")
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
    """Return the document of a snapshot, ready for `json.dump`."""
    return {
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "observed_at": snapshot.observed_at.isoformat() if snapshot.observed_at else None,
        "brokers": _broker_entries(snapshot),
        "topics": _topic_entries(snapshot.topics),
        "partitions": _rows(snapshot.partitions, _PARTITION_COLUMNS),
        "moving": [row for row in _rows(snapshot.partitions, _MOVING_COLUMNS) if row[2] or row[3]],
        "throttles": _rows(snapshot.throttles, THROTTLES.names),
    }


def _broker_entries(snapshot: ClusterSnapshot) -> list[dict[str, Any]]:
    log_dirs = grouped(
        (row["broker_id"], {"path": row["log_dir"]} | _known(row, _LOG_DIR_FIGURES))
        for row in snapshot.log_dirs.to_pylist()
    )
    entries = []
    for row in snapshot.brokers.to_pylist():
        entry = {key: row[column] for column, key in _BROKER_KEYS.items()}
        entry |= _known(row, _BROKER_FIGURES)
        if row["broker_id"] in log_dirs:
            entry["log_dirs"] = log_dirs[row["broker_id"]]
        entries.append(entry)
    return entries


def _topic_entries(topics: pa.Table) -> list[dict[str, Any]]:
    return [
        {"name": row["topic"], "id": row["topic_id"], "internal": row["is_internal"]}
        | _known(row, TOPIC_CONFIGS)
        for row in topics.to_pylist()
    ]


def _known(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names if row[name] is not None}


def _rows(table: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    return [list(row) for row in rows_of(table, *names)]


def from_document_text(text: str, *, where: str = "cluster document") -> ClusterSnapshot:
    """Return the snapshot in a document.

    Raises InputError with every complaint at once, of which the first 20 are shown.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); was the file cut short?") from None
    if not isinstance(document, dict):
        found = type(document).__name__
        raise InputError(
            f"{where}: must be a JSON object with brokers and partitions, not a {found}"
        )
    if complaints := complaints_about(document):
        raise InputError(list_complaints(where, complaints))
    try:
        return _snapshot(document)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: {error.object[:20]!r} holds half a character (a lone surrogate)"
        ) from None


def _snapshot(document: Mapping[str, Any]) -> ClusterSnapshot:
    observed_at = document.get("observed_at")
    cluster = document.get("cluster") or document.get("name") or ""
    cluster_id = document.get("cluster_id") or ""
    partitions = _partitions_table(document["partitions"], document.get("moving", []))
    tables = {
        "brokers": _brokers_table(document["brokers"]),
        "topics": _topics_table(partitions, document.get("topics", [])),
        "partitions": partitions,
        "replicas": _replicas_table(partitions),
        "listeners": LISTENERS.empty_table(),
        "quorum": QUORUM.empty_table(),
        "log_dirs": _log_dirs_table(document["brokers"]),
        "throttles": _throttles_table(document.get("throttles", [])),
    }
    return ClusterSnapshot(
        snapshot_id=document.get("snapshot_id")
        or f"document-{_digest((cluster, cluster_id, observed_at), tables)[:16]}",
        cluster=cluster,
        cluster_id=cluster_id,
        observed_at=datetime.fromisoformat(observed_at) if observed_at else None,
        tables=tables,
    )


def _digest(identity: Sequence[str | None], tables: Mapping[str, pa.Table]) -> str:
    """Return a SHA-256 of what a document says, whatever the order of its rows and keys."""
    digest = hashlib.sha256(json.dumps(identity).encode())
    for name, table in sorted(tables.items()):
        if name != "replicas":  # which are derived from the partitions
            for column_name, column in zip(table.column_names, table.columns, strict=True):
                if column.null_count == len(column):
                    continue  # so that a column that comes later changes no older document
                digest.update(f"\n{name}.{column_name}:".encode())
                for part in _bytes_of(column):
                    digest.update(part)
    return digest.hexdigest()


def _bytes_of(column: pa.ChunkedArray) -> Iterator[bytes]:
    """Yield the values of a column, with which of them are null."""
    if pa.types.is_list(column.type):
        rows, elements = flat_lists(column)
        yield from (rows.tobytes(), b"/", elements.tobytes())
    elif pa.types.is_integer(column.type):
        yield from (flags_of(column.is_null()).tobytes(), numbers_of(column).tobytes())
    else:
        yield json.dumps(column.to_pylist(), default=str).encode()


def _brokers_table(brokers: Sequence[Mapping[str, Any]]) -> pa.Table:
    rows = []
    for broker in sorted(brokers, key=itemgetter("id")):
        row = {column: broker.get(key) for column, key in _BROKER_KEYS.items()}
        row |= {name: broker.get(name) for name in _BROKER_FIGURES}
        total_bytes, usable_bytes = _disk(broker)
        row |= {"disk_total_bytes": total_bytes, "disk_usable_bytes": usable_bytes}
        rows.append(row | {"is_fenced": broker.get("fenced", False)})
    return pa.Table.from_pylist(rows, BROKERS)


def _disk(broker: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return total and usable bytes of a broker: its own figures, else those of its log dirs."""
    total, usable = broker.get("disk_total_bytes"), broker.get("disk_usable_bytes")
    if total is not None or usable is not None:
        return total, usable
    online = [log_dir for log_dir in broker.get("log_dirs") or () if not log_dir.get("error")]
    sizes = [(log_dir.get("total_bytes"), log_dir.get("usable_bytes")) for log_dir in online]
    return disk_over(
        (total, usable) for total, usable in sizes if total is not None and usable is not None
    )


def _log_dirs_table(brokers: Sequence[Mapping[str, Any]]) -> pa.Table:
    rows = [
        {"broker_id": broker["id"], "log_dir": log_dir["path"]}
        | {name: log_dir.get(name) for name in _LOG_DIR_FIGURES}
        | {"error": log_dir.get("error") or None}
        for broker in brokers
        for log_dir in broker.get("log_dirs") or ()
    ]
    rows.sort(key=itemgetter("broker_id", "log_dir"))
    return pa.Table.from_pylist(rows, LOG_DIRS)


def _throttles_table(throttles: Sequence[Sequence[str]]) -> pa.Table:
    rows = [dict(zip(THROTTLES.names, row, strict=True)) for row in sorted(map(tuple, throttles))]
    return pa.Table.from_pylist(rows, THROTTLES)


def _topics_table(partitions: pa.Table, topics: Sequence[Mapping[str, Any]]) -> pa.Table:
    entries = {topic["name"]: topic for topic in topics}
    rows = []
    for topic, partition_count in sorted(Counter(partitions["topic"].to_pylist()).items()):
        entry = entries.get(topic, {})
        row = {"topic": topic, "topic_id": entry.get("id"), "partition_count": partition_count}
        row["is_internal"] = bool(entry.get("internal", topic.startswith("__")))
        rows.append(row | {name: entry.get(name) for name in TOPIC_CONFIGS})
    return pa.Table.from_pylist(rows, TOPICS)


def _partitions_table(
    entries: Sequence[Sequence[Any]], moving: Sequence[Sequence[Any]]
) -> pa.Table:
    rows = sorted(entries, key=itemgetter(0, 1))
    reassignments = {(row[0], row[1]): (row[2], row[3]) for row in moving}
    changes = [reassignments.get((row[0], row[1]), ((), ())) for row in rows]
    columns = {
        "topic": [row[0] for row in rows],
        "partition": [row[1] for row in rows],
        "replicas": [row[2] for row in rows],
        "leader": [None if row[3] == -1 else row[3] for row in rows],
        "size_bytes": [row[4] if len(row) > 4 else None for row in rows],
        "bytes_in_per_second": [row[5] if len(row) > 5 else None for row in rows],
        "adding_replicas": [adding for adding, _ in changes],
        "removing_replicas": [removing for _, removing in changes],
    }
    return table_of(PARTITIONS, columns)


def _replicas_table(partitions: pa.Table) -> pa.Table:
    """Return one row for each replica of each partition, in the order of both.

    Example: orders-0 on [4, 2] under leader 4 gives (orders, 0, broker 4, position 0, leads) and
    (orders, 0, broker 2, position 1, follows).
    """
    replicas = partitions["replicas"].combine_chunks()
    partition_rows = pc.list_parent_indices(replicas)
    broker_ids = pc.list_flatten(replicas)
    of_partition = partitions.select(["topic", "partition", "leader", "size_bytes"])
    of_partition = of_partition.take(partition_rows)
    counts = pc.list_value_length(replicas).to_numpy()
    starts = np.cumsum(counts) - counts
    is_leader = pc.fill_null(pc.equal(of_partition["leader"], broker_ids), False)
    columns = {
        "topic": of_partition["topic"],
        "partition": of_partition["partition"],
        "broker_id": broker_ids,
        "position": np.arange(len(broker_ids)) - np.repeat(starts, counts),
        "is_leader": is_leader,
        "size_bytes": of_partition["size_bytes"],
    }
    return table_of(REPLICAS, columns)
