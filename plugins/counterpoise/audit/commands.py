"""Commands to paste: Kafka's own tools, with real names, quoted for a shell.

    delete_config("topics", "orders", ("leader.replication.throttled.replicas",))
    # kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics ...

Limits: `$BOOTSTRAP` is whatever reaches the cluster from where the command is pasted; secured
clusters add `--command-config client.properties`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

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


def counterpoise(*words: object) -> str:
    quoted = [shell_word(str(word)) for word in words]
    return " ".join(["counterpoise", *quoted])


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


def describe_config(kind: str, name: object | None) -> str:
    return kafka("kafka-configs", "--describe", *_entity(kind, name))


def add_partitions(topic: str, count: int) -> tuple[str, ...]:
    """Return the command, after a comment that says what it does to keys."""
    alter = kafka("kafka-topics", "--alter", "--topic", topic, "--partitions", count)
    return (f"# {KEYS_MAP_ANEW}", alter)


def _entity(kind: str, name: object | None) -> tuple[object, ...]:
    which = ("--entity-default",) if name is None else ("--entity-name", name)
    return ("--entity-type", kind, *which)
