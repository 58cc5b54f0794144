"""Lines to paste: Kafka's own tools, with real names, quoted for a shell.

    delete_config("topics", "orders", ("leader.replication.throttled.replicas",))
    # kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics --entity-name orders ...

Limits: `$BOOTSTRAP` is whatever reaches the cluster from where the line is pasted; secured clusters
add `--command-config client.properties`.
"""

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Final

_SERVER: Final = '--bootstrap-server "$BOOTSTRAP"'
KEYS_MAP_ANEW: Final = (
    "adding partitions changes which partition a key maps to: records of one key are then in two partitions, and "
    "compacted topics and stateful consumers keep both"
)


def kafka(tool: str, *words: object) -> str:
    """`kafka-topics.sh --bootstrap-server "$BOOTSTRAP" ...`; words that a shell would read
    differently are quoted.
    """
    return " ".join([f"{tool}.sh", _SERVER, *(quote(str(word)) for word in words)])


def entity(kind: str, name: object | None) -> tuple[object, ...]:
    """The words for an entity of kafka-configs; None is the default of all brokers."""
    return (
        "--entity-type",
        kind,
        *(("--entity-default",) if name is None else ("--entity-name", name)),
    )


def delete_config(kind: str, name: object | None, keys: Iterable[str]) -> str:
    return kafka("kafka-configs", "--alter", *entity(kind, name), "--delete-config", ",".join(keys))


def add_config(kind: str, name: object | None, values: Mapping[str, object]) -> str:
    pairs = ",".join(
        f"{key}=[{value}]" if "," in str(value) else f"{key}={value}"
        for key, value in sorted(values.items())
    )
    return kafka("kafka-configs", "--alter", *entity(kind, name), "--add-config", pairs)


def describe_config(kind: str, name: object | None) -> str:
    return kafka("kafka-configs", "--describe", *entity(kind, name))


def add_partitions(topic: str, count: int) -> tuple[str, ...]:
    """The line, after what it does to keys: nobody shall paste it without having read that."""
    return (
        f"# {KEYS_MAP_ANEW}",
        kafka("kafka-topics", "--alter", "--topic", topic, "--partitions", count),
    )


def counterpoise(*words: object) -> str:
    return " ".join(["counterpoise", *(quote(str(word)) for word in words)])
