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

In-sync replicas are known where there is a list of the partitions that lack some; null there means
that those of this partition are not known:

    "in_sync": [["orders", 0, [1, 2]]]

What only an audit reads is under "inspection" (model/inspection_document.py).
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
from counterpoise.model.cluster import ClusterSnapshot, is_id, is_topic
from counterpoise.model.columns import flags_of, flat_lists, numbers_of
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS, disk_over
from counterpoise.model.safe_text import is_broken_text
from counterpoise.model.tables import (
    BROKERS,
    LISTENERS,
    LOCAL_TOPIC_CONFIGS,
    LOG_DIRS,
    PARTITIONS,
    QUORUM,
    REPLICAS,
    THROTTLES,
    TOPIC_CONFIGS,
    TOPICS,
    UNLIMITED_TOPIC_CONFIGS,
    rows_of,
    table_of,
)

# -- What can be wrong with a cluster document: every complaint at once, each with its place
#
#     complaints_about({"brokers": [{"id": 1, "port": "9092"}], "partitions": []})
#     # ["brokers[0]: broker 1: port must be a whole number from 0 to 65535, not '9092'"]
#
# It looks at the parsed JSON alone; `model/document.py` reads what has passed. The types of values
# that are columns come from `model/tables.py`.
#
# Limits: checked by hand, not by pydantic. Most of what can be wrong is between the parts (a
# replica on an unknown broker), the columns would have to be declared a second time, and the import
# alone would make a plan for 20,000 partitions take 1.08 of its time.


_SHOWN: Final = 60  # characters of a value that cannot be right
_THROTTLE_KEYS: Final = {"broker": RATE_KEYS, "topic": LIST_KEYS}
_PARTITION: Final = "[topic, partition, [replicas], leader, size_bytes, bytes_in_per_second]"
_MOVING: Final = "[topic, partition, [adding], [removing]]"
_IN_SYNC: Final = "[topic, partition, [in-sync replicas]]"
_THROTTLE: Final = '["broker", id, rate key, value] or ["topic", name, list key, value]'
# Where the type of a column is wider or narrower; -1 is Kafka's "without limit".
_LOWEST: Final = dict.fromkeys(UNLIMITED_TOPIC_CONFIGS, -1) | dict.fromkeys(LOCAL_TOPIC_CONFIGS, -2)
_HIGHEST: Final = {"port": 65_535}
# The columns whose values a document may leave out; they have the same names there.
_BROKER_COLUMNS: Final = tuple(field for field in BROKERS if field.nullable)
_LOG_DIR_COLUMNS: Final = tuple(field for field in LOG_DIRS if field.nullable)
_TOPIC_COLUMNS: Final = tuple(TOPICS.field(name) for name in TOPIC_CONFIGS)


def complaints_about(document: Mapping[str, Any]) -> list[str]:
    """Return all that is wrong with a document, each with its place; [] when it can be read."""
    brokers, partitions = document.get("brokers"), document.get("partitions")
    if not isinstance(brokers, list) or not brokers:
        return ['"brokers" must be a list with at least one broker, like {"id": 1, "rack": "a"}']
    if not isinstance(partitions, list):
        return [f'"partitions" must be a list of {_PARTITION}']
    broker_ids: set[int] = set()
    return [
        *_head_complaints(document),
        *_topic_complaints(document.get("topics", [])),
        *_moving_complaints(document.get("moving", [])),
        *_in_sync_complaints(document.get("in_sync")),
        *_throttle_complaints(document.get("throttles", [])),
        *_broker_complaints(brokers, broker_ids),
        *_partition_complaints(partitions, broker_ids),
    ]


def _head_complaints(document: Mapping[str, Any]) -> Iterator[str]:
    for key in ("cluster", "name", "cluster_id", "snapshot_id"):
        value = document.get(key)
        if not isinstance(value, str | None):
            yield f'"{key}" must be text'
        elif value and is_broken_text(value):
            yield f'"{key}" holds half a character (a lone surrogate)'
    if not _is_time_or_absent(document.get("observed_at")):
        yield '"observed_at" must be a time like 2026-01-31T12:00:00+00:00'


def _topic_complaints(topics: object) -> Iterator[str]:
    if not isinstance(topics, list):
        yield '"topics" must be a list of {"name", "id", ...}'
        return
    for index, topic in enumerate(topics):
        place = f"topics[{index}]:"
        if not isinstance(topic, dict) or not isinstance(topic.get("name"), str):
            yield f"{place} needs a name (text)"
            continue
        if not isinstance(topic.get("id"), str | None):
            yield f"{place} id must be text"
        if not isinstance(topic.get("internal"), bool | None):
            yield f"{place} internal must be true or false"
        for complaint in _wrong_values(topic, _TOPIC_COLUMNS):
            yield f"{place} {complaint}"


def _moving_complaints(moving: object) -> Iterator[str]:
    if not isinstance(moving, list):
        yield f'"moving" must be a list of {_MOVING}'
        return
    for index, row in enumerate(moving):
        if not _is_moving(row):
            yield f"moving[{index}]: must be {_MOVING}"


def _in_sync_complaints(in_sync: object) -> Iterator[str]:
    if not isinstance(in_sync, list | None):
        yield f'"in_sync" must be a list of {_IN_SYNC}'
        return
    for index, row in enumerate(in_sync or []):
        if not _is_in_sync(row):
            yield f"in_sync[{index}]: must be {_IN_SYNC}"


def _is_in_sync(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 3:
        return False
    topic, partition, broker_ids = row
    are_known = broker_ids is None or _are_ids(broker_ids)
    return isinstance(topic, str) and type(partition) is int and are_known


def _is_moving(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 4:
        return False
    topic, partition, adding, removing = row
    return isinstance(topic, str) and type(partition) is int and _are_ids(adding, removing)


def _are_ids(*replica_lists: object) -> bool:
    return all(isinstance(ids, list) and all(map(is_id, ids)) for ids in replica_lists)


def _throttle_complaints(throttles: object) -> Iterator[str]:
    if not isinstance(throttles, list):
        yield '"throttles" must be a list of [type, name, key, value]'
        return
    known: set[tuple[str, ...]] = set()
    for index, row in enumerate(throttles):
        if not _is_throttle(row):
            yield f"throttles[{index}]: must be {_THROTTLE}, all of it text"
        elif tuple(row[:3]) in known:
            yield f"throttles[{index}]: {' '.join(row[:3])} is listed twice"
        else:
            known.add(tuple(row[:3]))


def _is_throttle(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(word, str) for word in row):
        return False
    type_, name, key, _ = row
    if key not in _THROTTLE_KEYS.get(type_, ()):
        return False
    return name.isdecimal() if type_ == "broker" else bool(name)


def _broker_complaints(brokers: Iterable[object], broker_ids: set[int]) -> Iterator[str]:
    """Yield what is wrong with the brokers; their ids are added to `broker_ids`."""
    for index, broker in enumerate(brokers):
        place = f"brokers[{index}]:"
        if not isinstance(broker, dict) or not is_id(broker.get("id")):
            yield f'{place} needs an "id" that is a whole number, 0 or more'
            continue
        broker_id = broker["id"]
        if broker_id in broker_ids:
            yield f"{place} broker {broker_id} is listed twice"
            continue
        broker_ids.add(broker_id)
        for complaint in _complaints_of_broker(broker):
            yield f"{place} broker {broker_id}: {complaint}"


def _complaints_of_broker(broker: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(broker.get("fenced", False), bool):
        yield "fenced must be true or false"
    yield from _wrong_values(broker, _BROKER_COLUMNS)
    log_dirs = [] if broker.get("log_dirs") is None else broker["log_dirs"]
    if not isinstance(log_dirs, list) or not all(isinstance(entry, dict) for entry in log_dirs):
        yield 'log_dirs must be a list of {"path", "total_bytes", "usable_bytes"}'
        return
    known: set[str] = set()
    for log_dir in log_dirs:
        path = log_dir.get("path")
        if not isinstance(path, str) or not path:
            yield "each of its log_dirs needs a path (text)"
            continue
        if path in known:
            yield f"log dir {path} is listed twice"
        known.add(path)
        for complaint in _complaints_of_log_dir(log_dir):
            yield f"log dir {path}: {complaint}"


def _complaints_of_log_dir(log_dir: Mapping[str, Any]) -> Iterator[str]:
    complaints = list(_wrong_values(log_dir, _LOG_DIR_COLUMNS))
    yield from complaints
    total, usable = log_dir.get("total_bytes"), log_dir.get("usable_bytes")
    if not complaints and total is not None and usable is not None and usable > total:
        yield f"usable_bytes {usable} is more than total_bytes {total}"


def _wrong_values(entry: Mapping[str, Any], columns: Iterable[pa.Field]) -> Iterator[str]:
    """Yield what is wrong with the values that are to go into these columns; null never is."""
    for column in columns:
        name, value = column.name, entry.get(column.name)
        if value is None:
            continue
        if pa.types.is_string(column.type):
            if not isinstance(value, str):
                yield f"{name} must be text"
            continue
        if pa.types.is_boolean(column.type):
            if not isinstance(value, bool):
                yield f"{name} must be true or false"
            continue
        lowest = _LOWEST.get(name, 0)
        highest = _HIGHEST.get(name, 2 ** (column.type.bit_width - 1) - 1)
        if type(value) is not int or not lowest <= value <= highest:
            found = repr(value)[:_SHOWN]
            yield f"{name} must be a whole number from {lowest} to {highest}, not {found}"


def _partition_complaints(rows: Iterable[Any], broker_ids: set[int]) -> Iterator[str]:
    known: set[tuple[str, int]] = set()
    for index, row in enumerate(rows):
        complaint = _partition_complaint(row, broker_ids)
        if complaint is None and (row[0], row[1]) in known:
            complaint = f"{row[0]}-{row[1]} is listed twice"
        if complaint:
            yield f"partitions[{index}]: {complaint}"
        else:
            known.add((row[0], row[1]))


def _partition_complaint(row: object, broker_ids: set[int]) -> str | None:
    if not isinstance(row, list) or len(row) < 4:
        return f"must be {_PARTITION}"
    topic, partition, replicas, leader = row[:4]
    if complaint := _name_complaint(topic, partition):
        return complaint
    name = f"{topic}-{partition}"
    if not isinstance(replicas, list) or not replicas:
        return f"{name} has no replicas"
    if not all(map(is_id, replicas)):
        return f"{name}: replicas must be broker ids, not {replicas}"
    if len(set(replicas)) != len(replicas):
        return f"{name} names a broker twice: {replicas}"
    if not broker_ids.issuperset(replicas):
        unknown = sorted(set(replicas) - broker_ids)
        lost = f'{{"id": {unknown[0]}, "fenced": true}}'
        return f"{name} has replicas on unknown brokers {unknown}; list a lost one as {lost}"
    if leader not in (None, -1) and (type(leader) is not int or leader not in replicas):
        return f"{name}: its leader {leader} is none of its replicas {replicas}"
    for what, value in zip(("size", "rate"), row[4:6], strict=False):
        if value is not None and (type(value) is not int or not 0 <= value < 2**63):
            return f"{name}: its {what} is {value!r}; it must be a whole number, 0 or more"
    return None


def _name_complaint(topic: object, partition: object) -> str | None:
    if not isinstance(topic, str) or not topic or not is_id(partition):
        return "needs a topic (text) and a partition (whole number, 0 or more)"
    if not is_topic(topic):
        return f"{topic[:_SHOWN]!r} is no topic of Kafka: 1 to 249 letters, digits, '.', '_', '-'"
    return None


def _is_time_or_absent(value: object) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


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
        **_in_sync_entries(snapshot.partitions),
    }


def _in_sync_entries(partitions: pa.Table) -> dict[str, Any]:
    """Return the partitions that lack in-sync replicas; nothing where those of none are known."""
    if partitions["isr"].null_count == partitions.num_rows:
        return {}
    rows = rows_of(partitions, "topic", "partition", "isr", "replicas")
    return {
        "in_sync": [
            [topic, partition, isr]
            for topic, partition, isr, replicas in rows
            if isr is None or set(isr) != set(replicas)
        ]
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
    partitions = _partitions_table(
        document["partitions"], document.get("moving", []), document.get("in_sync")
    )
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
    entries: Sequence[Sequence[Any]],
    moving: Sequence[Sequence[Any]],
    in_sync: Sequence[Sequence[Any]] | None,
) -> pa.Table:
    rows = sorted(entries, key=itemgetter(0, 1))
    reassignments = {(row[0], row[1]): (row[2], row[3]) for row in moving}
    changes = [reassignments.get((row[0], row[1]), ((), ())) for row in rows]
    lacking = {(row[0], row[1]): row[2] for row in in_sync or ()}
    columns = {
        "topic": [row[0] for row in rows],
        "partition": [row[1] for row in rows],
        "replicas": [row[2] for row in rows],
        "isr": [None if in_sync is None else lacking.get((row[0], row[1]), row[2]) for row in rows],
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
