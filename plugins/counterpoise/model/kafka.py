"""What a cluster answers and what it is asked to change: the words of the `ClusterAdmin` protocol.

ConfigChange(ConfigResource(ConfigResourceType.BROKER, "4"), FOLLOWER_RATE, ConfigOperation.SET,
"20000000")
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeVar

from counterpoise.model.cluster import TopicPartition

Subject = TypeVar("Subject")

# The keys of replication throttles (KIP-73): rates of brokers, in bytes per second, and lists of
# topics.
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATE_KEYS: Final = (LEADER_RATE, FOLLOWER_RATE)
LIST_KEYS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A registered broker, with the endpoint it advertises to clients that come the way we came."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool  # registered, but not live


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    brokers: tuple[BrokerDescription, ...]  # by id, fenced ones included

    @property
    def live_broker_ids(self) -> frozenset[int]:
        return frozenset(broker.broker_id for broker in self.brokers if not broker.is_fenced)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition as metadata shows it.

    While a reassignment runs, `replicas` is the union of old and new.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    topic: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]  # by partition


@dataclass(frozen=True, slots=True)
class Reassignment:
    """An ongoing reassignment (KIP-455). `replicas` is the union of old and new."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replica set it ends at; Kafka lists the union target-first, so the order is the
        target's.
        """
        return tuple(b for b in self.replicas if b not in self.removing)


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    broker_id: int
    path: str
    error: str | None
    total_bytes: (
        int | None
    )  # of the file system (KIP-827); two dirs on one file system tell the same
    usable_bytes: int | None
    sizes: Mapping[TopicPartition, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """What a broker speaks, as it tells itself (ApiVersions): two brokers of one release and
    configuration are equal.

    `api_ranges` is a short digest of its sorted (api key, lowest version, highest version) table;
    `metadata_version` the finalized level of the feature `metadata.version` (KIP-584) as this
    broker knows it, None before KRaft.
    """

    api_ranges: str
    metadata_version: int | None


class ConfigResourceType(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"


class ConfigSource(StrEnum):
    """Where a value comes from; only the first two are ours to write or to restore."""

    DYNAMIC_TOPIC = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC_BROKER = "STATIC_BROKER_CONFIG"
    DEFAULT = "DEFAULT_CONFIG"
    OTHER = "OTHER"


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    type: ConfigResourceType
    name: str  # a topic, or a broker id in decimal; "" is the default of all brokers

    @property
    def is_topic(self) -> bool:
        return self.type is ConfigResourceType.TOPIC

    @property
    def is_broker(self) -> bool:
        return self.type is ConfigResourceType.BROKER


EVERY_BROKER: Final = ConfigResource(
    ConfigResourceType.BROKER, ""
)  # their dynamic default; never written


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value with its level.

    A key that a resource does not tell at all is absent from the answer.
    """

    value: str | None
    source: ConfigSource


class ConfigOperation(StrEnum):
    """KIP-339's incremental operations."""

    SET = "SET"
    DELETE = "DELETE"
    APPEND = "APPEND"
    SUBTRACT = "SUBTRACT"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    resource: ConfigResource
    key: str
    operation: ConfigOperation
    value: str = ""  # ignored by DELETE


@dataclass(frozen=True, slots=True)
class CallResults(Generic[Subject]):
    """What a changing call did to each of its subjects: `errors` has those that were refused, with
    the reason.
    """

    accepted: tuple[Subject, ...]
    errors: Mapping[Subject, str]
