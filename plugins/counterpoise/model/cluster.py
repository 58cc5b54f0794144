"""A snapshot of one cluster: Arrow tables, since a million partitions are ordinary here.

    snapshot.live_broker_ids, snapshot.partitions.num_rows

Registered brokers include the fenced (dead) ones; live ones do not. `model/document.py` turns a
snapshot into the cluster document and back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple, Self

import pyarrow as pa

from counterpoise.model.tables import SNAPSHOT_TABLES, rows_of

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class TopicPartition(NamedTuple):
    """A partition's name; a tuple, since it is the key of large tables and hashed very often."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the partition of `orders-0`. Raises ValueError for a text that is none."""
        topic, _, number = text.rpartition("-")
        return cls(topic, int(number))


def is_another_topic(known_id: str | None, present_id: str | None) -> bool:
    """Return whether these are ids of two topics: one was deleted, the other made under its name.

    An id that is not known, "" or None, says nothing: brokers give none before KIP-516.
    """
    return bool(known_id and present_id) and known_id != present_id


@dataclass(frozen=True)
class ClusterSnapshot:
    """One observation of a cluster.

    `tables` has every name of `SNAPSHOT_TABLES`, each with that schema. `cluster` is our name for
    it, `cluster_id` Kafka's ("" for a document without one). `observed_at` is UTC, and None for
    documents without it.
    """

    snapshot_id: str
    cluster: str
    cluster_id: str
    observed_at: datetime | None
    tables: Mapping[str, pa.Table] = field(repr=False)

    def __post_init__(self) -> None:
        for name, schema in SNAPSHOT_TABLES.items():
            found = self.tables[name].schema
            if not found.equals(schema):
                raise ValueError(f"table {name} has the columns {found.names}, not {schema.names}")

    @property
    def brokers(self) -> pa.Table:
        return self.tables["brokers"]

    @property
    def topics(self) -> pa.Table:
        return self.tables["topics"]

    @property
    def partitions(self) -> pa.Table:
        return self.tables["partitions"]

    @property
    def replicas(self) -> pa.Table:
        return self.tables["replicas"]

    @property
    def log_dirs(self) -> pa.Table:
        """Return the table of log dirs, empty where no broker describes its own."""
        return self.tables["log_dirs"]

    @property
    def throttles(self) -> pa.Table:
        """Return the throttle keys that are set at brokers and topics."""
        return self.tables["throttles"]

    @cached_property
    def registered_broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted(self.brokers["broker_id"].to_pylist()))

    @cached_property
    def live_broker_ids(self) -> tuple[int, ...]:
        rows = rows_of(self.brokers, "broker_id", "is_fenced")
        return tuple(sorted(broker_id for broker_id, is_fenced in rows if not is_fenced))

    @cached_property
    def racks(self) -> Mapping[int, str | None]:
        """Return the rack of each registered broker; None where it names none."""
        return dict(rows_of(self.brokers, "broker_id", "rack"))

    @cached_property
    def topic_ids(self) -> Mapping[str, str | None]:
        return dict(rows_of(self.topics, "topic", "topic_id"))

    @cached_property
    def tiered_topics(self) -> frozenset[str]:
        return tiered_topics(self.topics)

    @cached_property
    def compacted_topics(self) -> frozenset[str]:
        """Return the topics whose logs lose records to compaction, or may: those whose cleanup
        policy is not known.
        """
        rows = rows_of(self.topics, "topic", "cleanup_policy")
        return frozenset(topic for topic, policy in rows if policy is None or "compact" in policy)

    @cached_property
    def idle_broker_ids(self) -> tuple[int, ...]:
        """Return the live brokers without a replica, as new ones are until something is moved."""
        with_replicas = set(self.replicas["broker_id"].unique().to_pylist())
        return tuple(
            broker_id for broker_id in self.live_broker_ids if broker_id not in with_replicas
        )


def tiered_topics(topics: pa.Table) -> frozenset[str]:
    """Return the topics with tiered storage (KIP-405), whose replicas hold a part of the log."""
    rows = rows_of(topics, "topic", "remote_storage_enable")
    return frozenset(topic for topic, is_enabled in rows if is_enabled == "true")


def is_topic(name: object) -> bool:
    """Return whether Kafka would let a topic have this name."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_id(value: object) -> bool:
    """Return whether a broker or a partition can have this id: 0 to 2147483647."""
    return type(value) is int and 0 <= value < 2**31
