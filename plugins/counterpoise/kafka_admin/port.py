"""The one protocol behind which both Kafka clients, and the simulated cluster, sit.

`ClusterReader` never writes, not even by accident; `ClusterAdmin` adds the four verbs that change a cluster.
Every method raises ClusterUnreachableError when no broker answers and ClusterError when one answers with an error
that concerns the call as a whole. The changing verbs raise UnknownOutcomeError when the answer was lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    LogDirDescription,
    QuorumNode,
    Reassignment,
    TopicDescription,
)


class ClusterReader(Protocol):
    def describe_cluster(self) -> ClusterDescription:
        """Id and registered brokers, fenced ones included."""
        ...

    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        """All topics, internal ones too, or the named ones; unknown names are left out. Never creates a topic."""
        ...

    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Every ongoing reassignment of the cluster."""
        ...

    def describe_log_dirs(self, broker_ids: Sequence[int] | None = None) -> tuple[LogDirDescription, ...]:
        """Log dirs of the live brokers (or of the named ones), with the size of every replica in them."""
        ...

    def list_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Earliest and latest offset; partitions without a leader are left out."""
        ...

    def describe_quorum(self) -> tuple[QuorumNode, ...]:
        """The metadata quorum (KIP-595), the active controller first."""
        ...

    def describe_configs(
        self, resources: Iterable[ConfigResource], keys: Sequence[str], *, via_broker: int | None = None
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        """The named keys of each resource; an unset key without a default is absent. Unknown topics are left out.

        A broker's configs are asked of that broker. `via_broker` pins topic configs to the broker that acts on them:
        another one's metadata may be older. Raises ClusterError for a broker that is dead.
        """
        ...

    def close(self) -> None: ...


class ClusterAdmin(ClusterReader, Protocol):
    def alter_configs(self, changes: Sequence[ConfigChange]) -> CallResults[ConfigResource]:
        """Incremental changes (KIP-339), all those of one resource in one request, several brokers side by side."""
        ...

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], *, may_change_replication_factor: bool = False
    ) -> CallResults[TopicPartition]:
        """Starts reassignments, None cancels (KIP-455).

        A target with another number of replicas than the partition has, or is on its way to, is refused (KIP-860)
        unless the caller says that it may change.
        """
        ...

    def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> CallResults[TopicPartition]:
        """Preferred leader elections (KIP-460); "not needed" counts as accepted."""
        ...
