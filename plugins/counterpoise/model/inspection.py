"""What an audit asks a cluster beside the photograph: configs, versions, the quorum, groups,
permissions.

    inspection.broker_configs[3]["auto.create.topics.enable"].value
    inspection.unanswered["consumer groups"]     # why they are not known

Plain values; the room `inspection` fills them. What is not known is None or absent, and
`unanswered` says why: a rule that needs it then says "unknown", never "fine".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import BrokerVersion, ConfigValue, Reassignment

# Kafka's names of the topic configs that rules look at, beside those in the photograph.
TOPIC_KEYS: Final = ("min.insync.replicas", "unclean.leader.election.enable")


class Asked(StrEnum):
    """What an inspection asks for: the keys of `Inspection.unanswered`."""

    BROKER_CONFIGS = "broker configs"
    CLUSTER_DEFAULTS = "cluster defaults of brokers"
    TOPIC_CONFIGS = "topic configs"
    VERSIONS = "versions"
    FEATURES = "features"
    QUORUM = "metadata quorum"
    REASSIGNMENTS = "reassignments"
    ELIGIBLE_LEADERS = "eligible leader replicas"
    GROUPS = "consumer groups"
    PERMISSIONS = "permissions"


@dataclass(frozen=True, slots=True)
class QuorumVoter:
    """A voter or an observer of the metadata quorum (KIP-595, KIP-853)."""

    node_id: int
    is_voter: bool
    log_end_offset: int
    last_fetch_ms: int | None  # by the quorum leader's clock; the leader's own is its "now"
    last_caught_up_ms: int | None
    directory_id: str | None = None  # None or all zeros: a static voter
    endpoints: tuple[str, ...] = ()  # host:port, where the quorum tells them


@dataclass(frozen=True, slots=True)
class Quorum:
    """Its leader is the active controller."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    nodes: tuple[QuorumVoter, ...]  # voters first, each by id

    @property
    def voters(self) -> tuple[QuorumVoter, ...]:
        return tuple(node for node in self.nodes if node.is_voter)

    @property
    def observers(self) -> tuple[QuorumVoter, ...]:
        return tuple(node for node in self.nodes if not node.is_voter)

    @property
    def by_role(self) -> tuple[tuple[str, QuorumVoter], ...]:
        """Each with leader, voter or observer, in this order."""
        leading = [("leader", node) for node in self.voters if node.node_id == self.leader_id]
        others = [("voter", node) for node in self.voters if node.node_id != self.leader_id]
        return (*leading, *others, *(("observer", node) for node in self.observers))

    @property
    def majority(self) -> int:
        """So many voters have to be there for the cluster to change anything."""
        return len(self.voters) // 2 + 1

    @property
    def now_ms(self) -> int | None:
        """The quorum leader's clock, by which it tells when others caught up."""
        return next(
            (node.last_caught_up_ms for node in self.nodes if node.node_id == self.leader_id), None
        )


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """A feature's finalized level (None: not finalized), and the levels that a broker supports
    (KIP-584).
    """

    finalized: int | None
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """A consumer group: how many members, and the partitions of the topics that they were assigned."""

    group: str
    state: str
    member_count: int
    idle_member_count: int  # that have no partition
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """`broker_configs`, `features` and `versions` have the brokers that answered.

    `broker_configs` has every key of a broker, `topic_configs` those of TOPIC_KEYS, each with the
    level that wins.
    """

    broker_configs: Mapping[int, Mapping[str, ConfigValue]] = field(default_factory=dict)
    cluster_defaults: Mapping[str, ConfigValue] = field(
        default_factory=dict
    )  # the dynamic defaults of all brokers
    topic_configs: Mapping[str, Mapping[str, ConfigValue]] = field(default_factory=dict)
    versions: Mapping[int, BrokerVersion] = field(default_factory=dict)
    features: Mapping[int, Mapping[str, FeatureLevel]] = field(default_factory=dict)
    quorum: Quorum | None = None
    reassignments: Mapping[TopicPartition, Reassignment] | None = None
    eligible_leaders: Mapping[TopicPartition, tuple[int, ...]] | None = (
        None  # KIP-966; only where there are some
    )
    groups: tuple[GroupMembers, ...] | None = None
    refused: Mapping[str, str] | None = None  # operation -> reason, of the operator's principal
    unanswered: Mapping[str, str] = field(default_factory=dict)  # one of Asked -> why
