"""What an audit reads of a cluster beside the snapshot: configs, versions, quorum, groups.

    inspection.broker_configs[3]["auto.create.topics.enable"].value
    inspection.unavailable["consumer groups"]     # why they are not known

Plain values; the room `inspection` fills them. What is not known is None or absent, and
`unavailable` says why: a rule that needs it then says "unknown", never "fine". None without a
reason is what the cluster does not have: its rules are not applicable.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.json_values import ReadBy
from counterpoise.model.kafka import BrokerVersion, ConfigValue, Reassignment

PartitionKey = Annotated[TopicPartition, ReadBy(TopicPartition.parse)]
# The topic configs that rules need beside those in the snapshot.
TOPIC_KEYS: Final = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "max.message.bytes",
)

# A record that has used up so much of its retention is soon deleted.
USED_UP_PERCENT: Final = 80
# An unread record less may be none: the end of a transaction has an offset, too.
LEAST_LAG: Final = 2


class InspectionItem(StrEnum):
    """What an inspection reads: the keys of `Inspection.unavailable`."""

    BROKER_CONFIGS = "broker configs"
    CLUSTER_DEFAULTS = "cluster defaults of brokers"
    TOPIC_CONFIGS = "topic configs"
    VERSIONS = "versions"
    FEATURES = "features"
    QUORUM = "metadata quorum"
    REASSIGNMENTS = "reassignments"
    ELIGIBLE_LEADERS = "eligible leader replicas"
    GROUPS = "consumer groups"
    ACLS = "ACLs for everybody"
    RECORD_AGES = "ages of records that groups have not read"
    QUOTAS = "client quotas"
    TRANSACTIONS = "hanging transactions"
    PERMISSIONS = "permissions"


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A voter or an observer of the metadata quorum (KIP-595, KIP-853)."""

    node_id: int
    is_voter: bool
    log_end_offset: int
    last_caught_up_ms: int | None  # by the clock of the quorum's leader; of the leader itself: now
    directory_id: str | None = None  # None or all zeros: a static voter
    endpoints: tuple[str, ...] = ()  # host:port, where the quorum reports them


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum; its leader is the active controller."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    nodes: tuple[QuorumNode, ...]  # voters first, each by id

    @property
    def voters(self) -> tuple[QuorumNode, ...]:
        return tuple(node for node in self.nodes if node.is_voter)

    @property
    def observers(self) -> tuple[QuorumNode, ...]:
        return tuple(node for node in self.nodes if not node.is_voter)

    @property
    def by_role(self) -> tuple[tuple[str, QuorumNode], ...]:
        """Return (role, node) of each node: the leader, the other voters, the observers."""
        leading = [("leader", node) for node in self.voters if node.node_id == self.leader_id]
        others = [("voter", node) for node in self.voters if node.node_id != self.leader_id]
        return (*leading, *others, *(("observer", node) for node in self.observers))

    @property
    def majority(self) -> int:
        """Return how many voters must be alive for the cluster to change anything."""
        return len(self.voters) // 2 + 1

    @property
    def now_ms(self) -> int | None:
        """Return the clock of the quorum's leader, by which the times of other nodes are."""
        for node in self.nodes:
            if node.node_id == self.leader_id:
                return node.last_caught_up_ms
        return None


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """A feature's finalized level (None: not finalized), and the levels that a broker supports.

    See KIP-584.
    """

    finalized: int | None
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group, with the topics of which its members have partitions.

    `commits` are the offsets that it reads next, by topic and partition.
    """

    group: str
    state: str
    member_count: int
    topics: tuple[str, ...]
    commits: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def committed(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield each partition with the committed offset."""
        for topic, offsets in self.commits.items():
            for partition, offset in offsets.items():
                yield TopicPartition(topic, partition), offset


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """A partition's log: its first record, the one after its last, and what is deleted soon.

    `fresh_from` is the first record that has not used up USED_UP_PERCENT of its retention.ms; None
    where no group is behind, or nothing is deleted by age.
    """

    start: int
    end: int
    fresh_from: int | None = None


@dataclass(frozen=True, slots=True)
class AllowedOperation:
    """What an ACL allows; names as kafka-acls.sh writes them."""

    principal: str
    host: str
    operation: str
    resource_type: str  # cluster, topic, group, ...
    resource_name: str  # of topics: * is all
    is_prefixed: bool  # of all resources whose names begin so


@dataclass(frozen=True, slots=True, order=True)
class OpenTransaction:
    """A transaction that is open in a partition's log."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    last_record_ms: int = field(compare=False)  # when it was written, by its producer's clock


@dataclass(frozen=True, slots=True)
class HangingTransactions:
    """Open transactions that no coordinator will end, and why they are not known of a topic."""

    found: tuple[OpenTransaction, ...] = ()
    unread_topics: Mapping[str, str] = field(default_factory=dict)  # topic -> reason


@dataclass(frozen=True)
class Inspection:
    """What one inspection read.

    `broker_configs`, `features`, `versions` and `groups` have the brokers that responded.
    `broker_configs` has every key, `topic_configs` those of TOPIC_KEYS, each with the value in
    force.
    """

    broker_configs: Mapping[int, Mapping[str, ConfigValue]] = field(default_factory=dict)
    # The dynamic defaults of all brokers.
    cluster_defaults: Mapping[str, ConfigValue] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, ConfigValue]] = field(default_factory=dict)
    versions: Mapping[int, BrokerVersion] = field(default_factory=dict)
    features: Mapping[int, Mapping[str, FeatureLevel]] = field(default_factory=dict)
    quorum: Quorum | None = None
    reassignments: Mapping[PartitionKey, Reassignment] | None = None
    # KIP-966; only partitions that have some.
    eligible_leaders: Mapping[PartitionKey, tuple[int, ...]] | None = None
    groups: Mapping[int, tuple[ConsumerGroup, ...]] = field(default_factory=dict)  # by coordinator
    # Of the topics of which a group has committed an offset, where a leader responds.
    logs: Mapping[PartitionKey, LogOffsets] = field(default_factory=dict)
    # Client quotas of everybody, by the types of kafka-configs: "users", "users clients".
    default_quotas: Mapping[str, Mapping[str, float]] | None = None
    # Those for User:* and for User:ANONYMOUS, which is whoever comes without a login.
    acls_for_everybody: tuple[AllowedOperation, ...] | None = None
    transactions: HangingTransactions | None = None  # read for its rule alone
    refused: Mapping[str, str] | None = None  # operation -> reason, of the operator's principal
    unavailable: Mapping[str, str] = field(default_factory=dict)  # InspectionItem -> reason
