"""The one protocol behind which both Kafka clients, and the simulated cluster, sit.

`ClusterReader` never writes, not even by accident; `ClusterAdmin` adds the verbs that change a
cluster. Every method raises ClusterUnreachableError when no broker answers and ClusterError when
one answers with an error that concerns the call as a whole. The changing verbs raise
UnknownOutcomeError, with the broker that was asked, when the answer was lost, and BrokerSilentError
when nothing was sent. They go to a broker that answered just now (a frozen one counts as live until
its session has ended), and end within 25 s.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import FeatureLevel, GroupMembers, Quorum
from counterpoise.model.kafka import (
    BrokerVersion,
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    LogDirDescription,
    Reassignment,
    TopicDescription,
)

NO_ANSWER: Final = (
    "no answer"  # how the reason begins where a change was sent and nothing came back
)
SET_RATE: Final = "set a broker's throttle rate"
SET_LISTS: Final = "set a topic's throttle lists"
REASSIGN: Final = "reassign partitions"
ELECT: Final = "elect leaders"
REFUSABLE_OPERATIONS: Final = (SET_RATE, SET_LISTS, REASSIGN, ELECT)


class ClusterReader(Protocol):
    def describe_cluster(self) -> ClusterDescription:
        """Id and registered brokers, fenced ones included."""
        ...

    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        """All topics, internal ones too, or the named ones; unknown names are left out.

        Never creates a topic.
        """
        ...

    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Every ongoing reassignment of the cluster."""
        ...

    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        """Log dirs of the live brokers (or of the named ones), with the size of every replica in
        them.

        A broker that gives no answer (dead, frozen) is left out.
        """
        ...

    def list_offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Earliest and latest offset; partitions without a leader that answers are left out."""
        ...

    def describe_quorum(self) -> Quorum | None:
        """The metadata quorum with all that its leader tells (KIP-595, KIP-836, KIP-853).

        None on a cluster that still has ZooKeeper.
        """
        ...

    def describe_versions(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, BrokerVersion]:
        """What each live broker (or each of the named ones) speaks, asked of itself, side by side.

        One that gives no answer is left out.
        """
        ...

    def describe_features(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, FeatureLevel]]:
        """Levels by feature (KIP-584), asked as `describe_versions` does."""
        ...

    def list_eligible_leaders(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Replicas outside the ISR that may still lead without loss (KIP-966); partitions without
        any are left out.

        Raises ClusterError where brokers do not tell (before 3.8).
        """
        ...

    def describe_groups(self) -> tuple[GroupMembers, ...]:
        """The consumer groups of the brokers that answer, by name. Empty groups have no topics."""
        ...

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        keys: Sequence[str] | None,
        *,
        via_broker: int | None = None,
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        """The named keys of each resource; an unset key without a default is absent. Unknown topics
        are left out.

        None is every key; secrets have no value. EVERY_BROKER is the dynamic default of all
        brokers. A broker's configs are asked of that broker, and one that gives no answer (dead,
        frozen) is left out, too. `via_broker` pins topic configs to the broker that acts on them,
        since another one's metadata may be older; BrokerSilentError is raised when that one gives
        no answer.
        """
        ...

    def close(self) -> None: ...


class ClusterAdmin(ClusterReader, Protocol):
    def alter_configs(self, changes: Sequence[ConfigChange]) -> CallResults[ConfigResource]:
        """Incremental changes (KIP-339), all those of one resource in one request, several brokers
        side by side.

        A broker that gives no answer is among the errors, as "no answer: ...": its change may still
        be applied, now or later. With another reason it was refused, or never sent. Raises
        UnknownOutcomeError only when the answer about the topics was lost; the brokers are done by
        then, too.
        """
        ...

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_replication_factor: bool = False,
    ) -> CallResults[TopicPartition]:
        """Starts reassignments, None cancels (KIP-455).

        A target with another number of replicas than the partition has, or is on its way to, is
        refused (KIP-860) unless the caller says that it may change.
        """
        ...

    def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition]
    ) -> CallResults[TopicPartition]:
        """Preferred leader elections (KIP-460); "not needed" counts as accepted."""
        ...

    def refused_operations(self, broker_id: int, topic: str) -> Mapping[str, str]:
        """What this principal may not do here: operation (one of REFUSABLE_OPERATIONS) -> the
        cluster's reason.

        Empty: all is allowed. Asked with a rate on `broker_id`, lists on `topic`, and a partition
        that does not exist; changes nothing.
        """
        ...
