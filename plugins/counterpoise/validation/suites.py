"""What is expected of each table of a snapshot, as data.

    SNAPSHOT_EXPECTATIONS["partitions"].equal      # (Pair("leader", "leading_replica", ...), ...)

Keys, ranges, sets of values, and pairs of columns: a value beside what the table that it refers to
has. `momentary` names what may be so for a moment in a cluster that changes while its snapshot is
made, and what says nothing about the snapshot: a warning. Everything else makes it unusable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS

_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of a table; `says` is what holds of the first."""

    column: str
    other: str
    says: str

    def __str__(self) -> str:
        return f"{self.column} {self.says}"


@dataclass(frozen=True, slots=True)
class Between:
    """The lowest value of a column, and the highest; None is no limit."""

    lowest: int
    highest: int | None = None

    def __str__(self) -> str:
        if self.highest is not None:
            return f"is from {self.lowest} to {self.highest}"
        return "is not negative" if self.lowest == 0 else f"is {self.lowest} or more"


NOT_NEGATIVE: Final = Between(0)


@dataclass(frozen=True, slots=True)
class Expectations:
    """What is expected of one table. `key` names a row, in examples too.

    A null is out of no range and no set, and like every value of a pair.
    """

    key: tuple[str, ...]
    not_null: tuple[str, ...] = ()
    ranges: Mapping[str, Between] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_blank: tuple[str, ...] = ()
    equal: tuple[Pair, ...] = ()
    at_most: tuple[Pair, ...] = ()  # the first is no more than the other
    momentary: tuple[str, ...] = ()  # as a failure says it

    def is_momentary(self, expectation: str) -> bool:
        return expectation in self.momentary

    @property
    def columns(self) -> frozenset[str]:
        """Return every column that something is expected of."""
        pairs = (*self.equal, *self.at_most)
        return frozenset(
            {*self.key, *self.not_null, *self.ranges, *self.members, *self.not_blank}
            | {*(pair.column for pair in pairs), *(pair.other for pair in pairs)}
        )


_REGISTERED: Final = Pair("broker_id", "registered_broker", "is a registered broker")


SNAPSHOT_EXPECTATIONS: Final[Mapping[str, Expectations]] = {
    "brokers": Expectations(
        key=("broker_id",),
        not_null=("is_fenced",),
        ranges=dict.fromkeys(("broker_id", "disk_total_bytes", "disk_usable_bytes"), NOT_NEGATIVE),
        not_blank=("rack",),
        momentary=("rack is not blank",),
    ),
    "topics": Expectations(
        key=("topic",),
        not_null=("topic", "partition_count"),
        ranges=dict.fromkeys(("partition_count", "min_insync_replicas"), NOT_NEGATIVE),
        equal=(Pair("partition_count", "counted_partitions", "is the number of its partitions"),),
    ),
    "partitions": Expectations(
        key=("topic", "partition"),
        not_null=("topic", "partition"),
        ranges={"partition": NOT_NEGATIVE, "size_bytes": NOT_NEGATIVE, "replica_count": Between(1)},
        equal=(
            Pair("topic", "known_topic", "is among the topics"),
            Pair("replica_count", "different_replicas", "counts each broker once"),
            Pair("replica_count", "registered_replicas", "counts registered brokers only"),
            Pair("leader", "leading_replica", "is among the replicas"),
            Pair("leader", "live_leader", "is live"),
            Pair("isr_count", "isr_replicas", "counts replicas only"),
        ),
        momentary=("leader is live", "isr_count counts replicas only"),
    ),
    "replicas": Expectations(
        key=("topic", "partition", "broker_id"),
        ranges=dict.fromkeys(("position", "size_bytes"), NOT_NEGATIVE),
        equal=(_REGISTERED,),
    ),
    "listeners": Expectations(
        key=("broker_id", "security_protocol"),
        not_null=("host", "port"),
        ranges={"port": Between(1, _MAX_PORT)},
        equal=(_REGISTERED,),
        momentary=(f"port is from 1 to {_MAX_PORT}",),  # as a broker advertises it: for the audit
    ),
    # A controller with a new disk is in the quorum twice for a while (KIP-853), once as an
    # observer.
    "quorum": Expectations(
        key=("node_id", "role"),
        ranges={"node_id": NOT_NEGATIVE},
        members={"role": ("leader", "voter", "observer")},
        momentary=(
            "node_id, role are unique together",
            "role is one of leader, voter, observer",
        ),
    ),
    "log_dirs": Expectations(
        key=("broker_id", "log_dir"),
        not_null=("log_dir",),
        ranges=dict.fromkeys(("total_bytes", "usable_bytes", "held_bytes"), NOT_NEGATIVE),
        equal=(_REGISTERED,),
        at_most=(Pair("usable_bytes", "total_bytes", "is no more than the total"),),
        # Log dirs are described last: a broker may have started since. Some file systems grow while
        # they are measured.
        momentary=(
            "broker_id is a registered broker",
            "usable_bytes is no more than the total",
        ),
    ),
    "throttles": Expectations(
        key=("resource_type", "resource_name", "key"),
        not_null=("value",),
        members={"resource_type": ("broker", "topic"), "key": (*LIST_KEYS, *RATE_KEYS)},
    ),
}
