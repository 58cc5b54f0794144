"""What one observation has read of the cluster: a partition of the plan, and the rest. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import PartitionDescription, Reassignment
from counterpoise.model.run_progress import VersionReading


class ObservedPartition(NamedTuple):
    """A partition of the plan; a tuple, since an observation makes one of each."""

    topic_id: str
    description: PartitionDescription
    reassignment: Reassignment | None = None


@dataclass(frozen=True)
class ClusterConditions:
    """The cluster outside the plan: what a run must not make worse, and why it may have to wait."""

    foreign_reassignments: tuple[TopicPartition, ...] = ()
    # Those that an earlier run of ours has submitted.
    of_earlier_runs: frozenset[TopicPartition] = frozenset()
    unavailable_partitions: tuple[str, ...] = ()  # offline, or under min.insync.replicas
    # Topics with under-replicated partitions whose min.insync.replicas may not be read.
    unreadable_topics: tuple[str, ...] = ()
    # Partitions with replicas outside the ISR, on live brokers or not.
    under_replicated: Mapping[str, PartitionDescription] = field(default_factory=dict, repr=False)
    # Brokers with a log dir that is past its limit: which ones, in words.
    full_log_dirs: Mapping[int, str] = field(default_factory=dict)
    versions: Mapping[int, VersionReading] = field(default_factory=dict, repr=False)
