"""What can be wrong with a cluster document: every complaint at once, each with its place.

    complaints_about({"brokers": []})  # ['"brokers" must be a list with at least one broker, ...']

Limits: it looks at the parsed JSON alone; `model/document.py` reads what has passed.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS
from counterpoise.model.tables import LOG_DIRS, TOPIC_CONFIGS, TOPICS, UNLIMITED_TOPIC_CONFIGS

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SHOWN: Final = 60  # characters of a name that cannot be right
_HIGHEST_PORT: Final = 65_535
_THROTTLE_KEYS: Final = {"broker": RATE_KEYS, "topic": LIST_KEYS}
_LOG_DIR_SIZES: Final = tuple(field.name for field in LOG_DIRS if pa.types.is_int64(field.type))


def complaints_about(document: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with a document, each with its place; nothing when it can be read."""
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
    complaints += _throttle_complaints(document.get("throttles", []))
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
        f"topics[{index}]: needs a name (text); id must be text, internal true or false, limits whole numbers"
        for index, topic in enumerate(topics)
        if not isinstance(topic, dict)
        or not isinstance(topic.get("name"), str)
        or not isinstance(topic.get("id", ""), str | None)
        or not isinstance(topic.get("internal", False), bool | None)
        or not all(_is_topic_config(name, topic.get(name)) for name in TOPIC_CONFIGS)
    ]


def _is_topic_config(name: str, value: object) -> bool:
    if name in UNLIMITED_TOPIC_CONFIGS and value == -1:
        return True
    return _is_of_type(TOPICS.field(name).type, value)


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
        or not all(isinstance(ids, list) and all(is_id(b) for b in ids) for ids in row[2:])
    ]


def _throttle_complaints(throttles: object) -> list[str]:
    if not isinstance(throttles, list):
        return ['"throttles" must be a list of [type, name, key, value]']
    complaints = []
    seen: set[tuple[str, ...]] = set()
    for index, row in enumerate(throttles):
        if not _is_throttle(row):
            shape = '["broker", id, rate key, value] or ["topic", name, list key, value]'
            complaints.append(f"throttles[{index}]: must be {shape}, all of it text")
        elif tuple(row[:3]) in seen:
            complaints.append(f"throttles[{index}]: {' '.join(row[:3])} is listed twice")
        else:
            seen.add(tuple(row[:3]))
    return complaints


def _is_throttle(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(word, str) for word in row):
        return False
    type_, name, key, _ = row
    return key in _THROTTLE_KEYS.get(type_, ()) and (
        name.isdecimal() if type_ == "broker" else bool(name)
    )


def _broker_complaint(broker: object, seen: set[int]) -> str | None:
    if not isinstance(broker, dict) or not is_id(broker.get("id")):
        return 'needs an "id" that is a whole number, 0 or more'
    if broker["id"] in seen:
        return f"broker {broker['id']} is listed twice"
    if not isinstance(broker.get("rack"), str | None):
        return f"broker {broker['id']}: rack must be text or absent"
    if not isinstance(broker.get("fenced", False), bool) or not isinstance(
        broker.get("host"), str | None
    ):
        return f"broker {broker['id']}: fenced must be true or false, host text"
    if not all(
        _is_count_or_absent(broker.get(k))
        for k in ("port", "disk_total_bytes", "disk_usable_bytes")
    ):
        return f"broker {broker['id']}: port and disk sizes must be whole numbers, 0 or more"
    if (broker.get("port") or 0) > _HIGHEST_PORT:
        return f"broker {broker['id']}: port {broker['port']} is above {_HIGHEST_PORT}"
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
        if not all(_is_count_or_absent(d.get(name)) for name in _LOG_DIR_SIZES):
            names = " and ".join((", ".join(_LOG_DIR_SIZES[:-1]), _LOG_DIR_SIZES[-1]))
            return f"log dir {path}: {names} must be whole numbers, 0 or more"
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
    if complaint := _name_complaint(topic, partition):
        return complaint
    name = f"{topic}-{partition}"
    if not isinstance(replicas, list) or not replicas:
        return f"{name} has no replicas"
    if not all(is_id(b) for b in replicas):
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


def _name_complaint(topic: object, partition: object) -> str | None:
    if not isinstance(topic, str) or not topic or not is_id(partition):
        return "needs a topic (text) and a partition (whole number, 0 or more)"
    if not is_topic(topic):
        return (
            f"{topic[:_SHOWN]!r} is no topic of Kafka: 1 to 249 letters, digits, '.', '_' and '-'"
        )
    return None


def is_topic(name: object) -> bool:
    """Whether Kafka would let a topic have this name."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_id(value: object) -> bool:
    """Of a broker or a partition: 0 to 2147483647."""
    return type(value) is int and 0 <= value < 2**31


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_time_or_absent(value: object) -> bool:
    try:
        return value is None or (
            isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
        )
    except ValueError:
        return False


def _is_count_or_absent(value: object) -> bool:
    return value is None or _is_count(value)


def _is_of_type(type_: pa.DataType, value: object) -> bool:
    """Return whether a column of this type can hold the value: text, or a count; None always."""
    if pa.types.is_string(type_):
        return isinstance(value, str | None)
    return _is_count_or_absent(value)
