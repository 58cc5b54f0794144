"""The values of the `ClusterAdmin` protocol: what a cluster reports, and changes to its configs.

broker = ConfigResource(ConfigResourceType.BROKER, "4")
ConfigChange(broker, FOLLOWER_RATE, ConfigOperation.SET, "20000000")
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeVar

from counterpoise.model.cluster import TopicPartition

Subject = TypeVar("Subject")

# The keys of replication throttles (KIP-73): rates of brokers, in bytes per second, and lists of
# replicas of topics.
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATE_KEYS: Final = (LEADER_RATE, FOLLOWER_RATE)
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"  # of a broker: paths, or "*" for all (KIP-1066)
LIST_KEYS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
# Of a config: the controller writes a longer one to no record (KAFKA-18020).
MAX_VALUE_CHARACTERS: Final = 32_767


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A registered broker, with the endpoint that it advertises on the listener we connected to."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool  # registered, but not live


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    brokers: tuple[BrokerDescription, ...]  # by id, fenced ones included
    # Brokers before 4.0 do not report fenced ones (KIP-1073).
    reports_fenced: bool = True

    @property
    def registered_broker_ids(self) -> frozenset[int] | None:
        """Return the brokers that are registered, live or fenced; None where that is not known."""
        if not self.reports_fenced:
            return None
        return frozenset(broker.broker_id for broker in self.brokers)

    @property
    def live_broker_ids(self) -> frozenset[int]:
        return frozenset(broker.broker_id for broker in self.brokers if not broker.is_fenced)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition in the metadata.

    During a reassignment `replicas` is the union of old and new.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    topic: str
    topic_id: str  # "": brokers give none (inter-broker protocol before 2.8, KIP-516)
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]  # by partition


Targets = Mapping[TopicPartition, tuple[int, ...] | None]  # of reassignments; None: cancelled


@dataclass(frozen=True, slots=True)
class Reassignment:
    """An ongoing reassignment (KIP-455). `replicas` is the union of old and new."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Return the target replicas, in order: Kafka lists them first in the union.

        Of replicas (4, 2, 3, 1), removing (1,), it is (4, 2, 3).
        """
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def never_ends(self) -> bool:
        """Return whether the same replica is added and removed: Kafka 4.3 waits for ever."""
        return not set(self.adding).isdisjoint(self.removing)


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    broker_id: int
    path: str
    error: str | None
    total_bytes: int | None  # of the file system (KIP-827), which other dirs may share
    usable_bytes: int | None
    sizes: Mapping[TopicPartition, int] = field(repr=False)
    # Replicas that are being moved here from another dir of the same broker, where they are still.
    arriving: frozenset[TopicPartition] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """What a broker supports (ApiVersions); equal for brokers of one release and configuration.

    `api_ranges` is a short digest of its sorted table of (api key, lowest version, highest
    version); `metadata_version` the finalized level of the feature `metadata.version` (KIP-584) in
    its view, None before KRaft.
    """

    api_ranges: str
    metadata_version: int | None


class ConfigResourceType(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"


class ConfigSource(StrEnum):
    """The level of a value; only values of the first two levels are written or restored."""

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


# The dynamic default of all brokers; never written.
EVERY_BROKER: Final = ConfigResource(ConfigResourceType.BROKER, "")


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value with its level; a key without any value is absent from a response.

    `default` is Kafka's own value, where a broker has another one.
    """

    value: str | None
    source: ConfigSource
    default: str | None = field(default=None, compare=False)


class ConfigOperation(StrEnum):
    """KIP-339's incremental operations."""

    SET = "SET"
    DELETE = "DELETE"
    APPEND = "APPEND"
    SUBTRACT = "SUBTRACT"


ResourceKey = tuple[ConfigResource, str]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    resource: ConfigResource
    key: str
    operation: ConfigOperation
    value: str = ""  # ignored by DELETE

    @property
    def resource_key(self) -> ResourceKey:
        return self.resource, self.key


@dataclass(frozen=True, slots=True)
class CallResults(Generic[Subject]):
    """The result of a changing call for each of its subjects.

    `errors` has the reason of each that was refused.
    """

    accepted: tuple[Subject, ...]
    errors: Mapping[Subject, str]


# -- How much disk a broker has, from the figures of its log dirs
#
#     disk_over([(1_000, 400), (1_000, 401), (2_000, 2_000)])     # (3_000, 2_400)
#
# The first two log dirs are on one file system there: their figures are nearly the same.
#
# Limits: Kafka says nothing about file systems but these figures.


_SAME_DISK_PER_MILLE: Final = 2
_MAX_BYTES: Final = 2**63 - 1  # what a column holds; a file system without an end has as much


def disk_over(dirs: Iterable[tuple[int, int]]) -> tuple[int | None, int | None]:
    """Return total and usable bytes over (total, usable) of log dirs; None when there are none.

    Log dirs with the same figures are on one file system and count once: with KIP-827 each has the
    figures of its file system. "The same" allows for what is written between two responses. Two
    equal disks that are equally full count once too, which errs on the safe side.
    """
    sizes = list(dirs)
    disks = [sizes[positions[0]] for positions in by_disk(sizes)]
    if not disks:
        return None, None
    total_bytes = sum(total for total, _ in disks)
    usable_bytes = sum(usable for _, usable in disks)
    return min(_MAX_BYTES, total_bytes), min(_MAX_BYTES, usable_bytes)


def by_disk(dirs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the (total, usable) of each file system, the least usable first.

    by_disk([(1_000, 401), (2_000, 2_000), (1_000, 400)]) == ((2, 0), (1,))
    """
    disks: list[list[int]] = []
    for position in sorted(range(len(dirs)), key=lambda position: (*dirs[position], position)):
        total, usable = dirs[position]
        first_total, first_usable = dirs[disks[-1][0]] if disks else (None, 0)
        tolerance = total * _SAME_DISK_PER_MILLE // 1000
        if total == first_total and usable - first_usable <= tolerance:
            disks[-1].append(position)
        else:
            disks.append([position])
    return tuple(tuple(disk) for disk in disks)
