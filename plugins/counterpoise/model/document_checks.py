"""What can be wrong with a cluster document: every complaint at once, each with its place.

    complaints_about({"brokers": [{"id": 1, "port": "9092"}], "partitions": []})
    # ["brokers[0]: broker 1: port must be a whole number from 0 to 65535, not '9092'"]

It looks at the parsed JSON alone; `model/document.py` reads what has passed. The types of values
that are columns come from `model/tables.py`.

Limits: checked by hand, not by pydantic. Most of what can be wrong is between the parts (a replica
on an unknown broker), the columns would have to be declared a second time, and the import alone
would make a plan for 20,000 partitions take 1.08 of its time.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from counterpoise.model.cluster import is_id, is_topic
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS
from counterpoise.model.safe_text import is_broken_text
from counterpoise.model.tables import (
    BROKERS,
    LOCAL_TOPIC_CONFIGS,
    LOG_DIRS,
    TOPIC_CONFIGS,
    TOPICS,
    UNLIMITED_TOPIC_CONFIGS,
)

_SHOWN: Final = 60  # characters of a value that cannot be right
_THROTTLE_KEYS: Final = {"broker": RATE_KEYS, "topic": LIST_KEYS}
_PARTITION: Final = "[topic, partition, [replicas], leader, size_bytes, bytes_in_per_second]"
_MOVING: Final = "[topic, partition, [adding], [removing]]"
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
    """Yield what is wrong with the brokers; the ids of the others are added to `broker_ids`."""
    for index, broker in enumerate(brokers):
        place = f"brokers[{index}]:"
        if not isinstance(broker, dict) or not is_id(broker.get("id")):
            yield f'{place} needs an "id" that is a whole number, 0 or more'
            continue
        broker_id = broker["id"]
        if broker_id in broker_ids:
            yield f"{place} broker {broker_id} is listed twice"
            continue
        complaints = list(_complaints_of_broker(broker))
        for complaint in complaints:
            yield f"{place} broker {broker_id}: {complaint}"
        if not complaints:
            broker_ids.add(broker_id)


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
        return f"{name} has replicas on unknown brokers {sorted(set(replicas) - broker_ids)}"
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
