"""What is expected of each table of a snapshot and of a plan, as data.

    SNAPSHOT_EXPECTATIONS["partitions"].is_true      # ("topic_is_known", "has_replicas", ...)

`momentary` names what may be so for a moment in a cluster that changes while its snapshot is made,
and what says nothing about the snapshot: a warning. Everything else makes a snapshot unusable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Expectations:
    """What is expected of one table. `key` names a row, in examples too."""

    key: tuple[str, ...]
    not_null: tuple[str, ...] = ()
    not_negative: tuple[str, ...] = ()
    is_true: tuple[str, ...] = ()
    momentary: tuple[str, ...] = ()  # columns, or the key's joined by a comma

    def is_momentary(self, column: str) -> bool:
        return column in self.momentary


SNAPSHOT_EXPECTATIONS: Final[Mapping[str, Expectations]] = {
    "brokers": Expectations(
        key=("broker_id",),
        not_null=("is_fenced",),
        not_negative=("broker_id", "disk_total_bytes", "disk_usable_bytes"),
        is_true=("rack_is_named_or_absent",),
        momentary=("rack_is_named_or_absent",),
    ),
    "topics": Expectations(
        key=("topic",),
        not_null=("topic", "partition_count"),
        not_negative=("partition_count", "min_insync_replicas"),
        is_true=("partition_count_agrees",),
    ),
    "partitions": Expectations(
        key=("topic", "partition"),
        not_null=("topic", "partition"),
        not_negative=("partition", "size_bytes"),
        is_true=(
            "topic_is_known",
            "has_replicas",
            "names_each_broker_once",
            "brokers_are_registered",
            "leader_is_a_replica",
            "leader_is_live",
            "isr_is_within_replicas",
        ),
        momentary=("leader_is_live", "isr_is_within_replicas"),
    ),
    "replicas": Expectations(
        key=("topic", "partition", "broker_id"),
        not_negative=("position", "size_bytes"),
        is_true=("broker_is_registered",),
    ),
    "listeners": Expectations(
        key=("broker_id", "security_protocol"),
        not_null=("host", "port"),
        is_true=("broker_is_registered", "port_is_possible"),
        momentary=("port_is_possible",),  # as a broker advertises it: for the audit
    ),
    # A controller with a new disk is in the quorum twice for a while (KIP-853), once as an
    # observer.
    "quorum": Expectations(
        key=("node_id", "role"),
        not_negative=("node_id",),
        is_true=("role_is_known",),
        momentary=("node_id, role", "role_is_known"),
    ),
    "log_dirs": Expectations(
        key=("broker_id", "log_dir"),
        not_null=("log_dir",),
        not_negative=("total_bytes", "usable_bytes", "held_bytes"),
        is_true=("broker_is_registered", "usable_is_within_total"),
        # Log dirs are described last: a broker may have started since. Some file systems grow while
        # they are measured.
        momentary=("broker_is_registered", "usable_is_within_total"),
    ),
    "throttles": Expectations(
        key=("resource_type", "resource_name", "key"),
        not_null=("value",),
        is_true=("type_is_known", "key_is_a_throttle"),
    ),
}

PLAN_EXPECTATIONS: Final[Mapping[str, Expectations]] = {
    "moves": Expectations(
        key=("topic", "partition"),
        not_null=("topic",),
        not_negative=("partition", "size_bytes"),
        is_true=(
            "has_replicas",
            "names_each_broker_once",
            "keeps_or_nears_replication_factor",
            "keeps_an_old_replica_or_leader_can_copy",
        ),
    ),
    "figures": Expectations(
        key=("broker_id",),
        not_negative=("leaders_after", "replicas_after", "bytes_after"),
        is_true=("leads_no_more_than_it_holds", "peaks_no_lower_than_it_ends"),
    ),
}
