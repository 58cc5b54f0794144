"""The subject of a finding: where the problem is, never how large it is.

    topic("orders")         # "topic orders"
    broker(3)               # "broker 3"
    bootstrap_address("kafka-1:9092")

Rule and subject together name a finding from one audit to the next, and waivers match subjects by
pattern. So these texts are a contract: a subject that is written in another way is a new finding,
and the waivers for the old one end.
"""

from collections.abc import Sequence
from typing import Final

CLUSTER: Final = "cluster"
QUORUM: Final = "quorum"
CLUSTER_DEFAULT: Final = "cluster default"  # the dynamic broker configs that hold for all brokers
SERVER_PROPERTIES: Final = "server.properties"
_NAMED_ALONE: Final = ("config", "endpoint", "bootstrap address")


def broker(broker_id: int) -> str:
    return f"broker {broker_id}"


def controller(node_id: int) -> str:
    return f"controller {node_id}"


def topic(name: str) -> str:
    return f"topic {name}"


def resource(kind: str, name: str) -> str:
    """Return `topic orders` or `broker 3` of a resource as Kafka's configs name it."""
    return f"{kind} {name}"


def group(name: str) -> str:
    return f"group {name}"


def principal(name: str) -> str:
    return f"principal {name}"


def host(name: str) -> str:
    return f"host {name}"


def quota(who: str) -> str:
    return f"quota of {who}"


def listener(name: str) -> str:
    return f"listener {name}"


def endpoint(address: str) -> str:
    return f"endpoint {address}"


def bootstrap_address(address: str) -> str:
    return f"bootstrap address {address}"


def config(key: str) -> str:
    return f"config {key}"


def is_named_in(text: str, subject: str) -> bool:
    """Return whether a text has the subject, or at least the name of a config or an address."""
    kind, name = subject.rpartition(" ")[::2]
    return subject in text or (kind in _NAMED_ALONE and name in text)


def waiver(rule_id: str, patterns: Sequence[str]) -> str:
    return f"waiver of {rule_id} for {', '.join(patterns)}"
