"""Commands to paste: Kafka's own tools, with real names, quoted for a shell.

    delete_config("topics", "orders", ("leader.replication.throttled.replicas",))
    # kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics ...

Limits: `$BOOTSTRAP` is whatever reaches the cluster from where the command is pasted; secured
clusters add `--command-config client.properties`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import ConfigSource
from counterpoise.model.safe_text import shell_word

_SERVER: Final = '--bootstrap-server "$BOOTSTRAP"'
KEYS_MAP_ANEW: Final = (
    "adding partitions changes which partition a key maps to: records of one key are then in two "
    "partitions, and compacted topics and stateful consumers keep both"
)


def kafka(tool: str, *words: object) -> str:
    """Return `kafka-topics.sh --bootstrap-server "$BOOTSTRAP" ...`, quoted for a shell."""
    quoted = [shell_word(str(word)) for word in words]
    return " ".join([f"{tool}.sh", _SERVER, *quoted])


def to_fill_in(*lines: str) -> tuple[str, ...]:
    """Return lines as comments: pasted as they are they do nothing, since a value is missing."""
    if not lines:
        return ()
    return ("# fill in what is in capitals:", *(f"# {line}" for line in lines))


def counterpoise(*words: object) -> str:
    quoted = [shell_word(str(word)) for word in words]
    return " ".join(["counterpoise", *quoted])


def unregister(broker_id: int) -> str:
    """Return the command that takes a broker that is down for good out of the cluster."""
    return f"kafka-cluster.sh unregister {_SERVER} --id {broker_id}"


def delete_config(kind: str, name: object | None, keys: Iterable[str]) -> str:
    """Return the command that deletes configs; a `name` of None is the default of all brokers."""
    return kafka(
        "kafka-configs", "--alter", *_entity(kind, name), "--delete-config", ",".join(keys)
    )


def add_config(kind: str, name: object | None, values: Mapping[str, object]) -> str:
    """Return the command that sets configs; values with a comma stand in brackets."""
    pairs = [
        f"{key}=[{value}]" if "," in str(value) else f"{key}={value}"
        for key, value in sorted(values.items())
    ]
    return kafka("kafka-configs", "--alter", *_entity(kind, name), "--add-config", ",".join(pairs))


def delete_config_where_set(broker_id: int, key: str, source: ConfigSource) -> tuple[str, ...]:
    """Return what deletes a config of a broker at the level that sets it.

    A dynamic config goes with a command; one in server.properties with an edit and a restart.
    """
    if source is ConfigSource.DYNAMIC_BROKER:
        return (delete_config("brokers", broker_id, (key,)),)
    if source is ConfigSource.DYNAMIC_DEFAULT_BROKER:
        return (delete_config("brokers", None, (key,)),)
    return (f"# remove {key} from server.properties of broker {broker_id}, then restart it",)


def cancel_reassignments(partitions: Iterable[TopicPartition]) -> tuple[str, ...]:
    """Return commands that write the partitions to a file, and cancel their reassignments."""
    rows = [
        {"topic": name.topic, "partition": name.partition, "replicas": []} for name in partitions
    ]
    document = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
    file = ("--reassignment-json-file", "moves.json")
    return (
        f"echo {shell_word(document)} > moves.json",
        kafka("kafka-reassign-partitions", "--cancel", "--preserve-throttles", *file),
    )


def describe_topic(topic: str, *words: object) -> str:
    return kafka("kafka-topics", "--describe", "--topic", topic_pattern(topic), *words)


def topic_pattern(topic: str) -> str:
    """Return the name as kafka-topics takes it: a pattern, in which `.` is any character."""
    return topic.replace(".", "\\.")


def add_partitions(topic: str, count: int) -> tuple[str, ...]:
    """Return the command, after a comment that says what it does to keys."""
    which = ("--topic", topic_pattern(topic))
    alter = kafka("kafka-topics", "--alter", *which, "--partitions", count)
    return (f"# {KEYS_MAP_ANEW}", alter)


def _entity(kind: str, name: object | None) -> tuple[object, ...]:
    which = ("--entity-default",) if name is None else ("--entity-name", name)
    return ("--entity-type", kind, *which)
