"""The protocol that real and simulated clusters implement.

    def count_partitions(reader: ClusterReader) -> int:
        return sum(len(topic.partitions) for topic in reader.describe_topics())

`ClusterReader` never writes, not even by accident; `ClusterAdmin` adds the methods that change a
cluster. Every method raises ClusterUnreachableError when no broker responds, and ClusterError when
a response has an error about the call as a whole. The changing methods raise UnknownOutcomeError,
with the id of the broker, when the response was lost, and BrokerUnresponsiveError when nothing was
sent. They send to a broker that has just responded to a probe (a frozen one counts as live until
its session has ended), and end within 25 s, and by their `deadline` (`time.monotonic()`): nothing
is sent after it, and BrokerUnresponsiveError says so.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import ConsumerGroup, FeatureLevel, Quorum
from counterpoise.model.kafka import (
    CORDONED_LOG_DIRS,
    LIST_KEYS,
    RATE_KEYS,
    BrokerVersion,
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    LogDirDescription,
    Reassignment,
    ResourceKey,
    TopicDescription,
)

# The reason begins so where a change was sent without response,
NO_RESPONSE: Final = "no answer"
# and so where its broker did not respond, so that nothing was sent.
NOT_SENT: Final = "nothing was sent"
# Of topics, in one request: the controller refuses more than 10,000 records. What a record holds is
# the whole list, which may be longer than the change.
MAX_CHANGES_PER_REQUEST: Final = 4_000
MAX_CHARACTERS_PER_REQUEST: Final = 1_000_000


class ClusterReader(Protocol):
    def describe_cluster(self) -> ClusterDescription:
        """Return cluster id and registered brokers, fenced ones included."""
        ...

    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        """Return all topics, internal ones too, or the named ones; unknown names are left out.

        Never creates a topic.
        """
        ...

    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Return every ongoing reassignment of the cluster."""
        ...

    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        """Return the log dirs of live (or the named) brokers, with the size of each replica there.

        An unresponsive broker (dead, frozen) is left out.
        """
        ...

    def list_offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return earliest and latest offset, where the partition's leader responds."""
        ...

    def describe_quorum(self) -> Quorum | None:
        """Return the metadata quorum as its leader reports it (KIP-595, KIP-836, KIP-853).

        None on a cluster that still has ZooKeeper.
        """
        ...

    def describe_versions(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, BrokerVersion]:
        """Return the API versions of live (or the named) brokers, each read from that broker.

        An unresponsive broker is left out.
        """
        ...

    def describe_features(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, FeatureLevel]]:
        """Return feature levels by broker and feature (KIP-584), read like the versions."""
        ...

    def list_eligible_leaders(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Return replicas outside the ISR that may lead without loss of records (KIP-966).

        Partitions without any are left out. Raises ClusterError with brokers before 3.8.
        """
        ...

    def describe_groups(self) -> tuple[ConsumerGroup, ...]:
        """Return the consumer groups of responding brokers by name; empty groups have no topics."""
        ...

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        keys: Sequence[str] | None,
        *,
        via_broker: int | None = None,
        skip_refused: bool = False,
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        """Return the named keys of each resource; None means every key, secrets have no value.

        Left out are an unset key without a default, an unknown topic, and a broker that does not
        respond, since its configs are read from itself. EVERY_BROKER is the dynamic default of all
        brokers. `via_broker` reads topic configs from the broker that acts on them, since another
        one's metadata may be older; BrokerUnresponsiveError is raised when it does not respond.
        `skip_refused` also leaves out the topics whose configs this principal may not read, which
        is a ClusterError otherwise.
        """
        ...

    def close(self) -> None: ...


class ClusterAdmin(ClusterReader, Protocol):
    def alter_configs(
        self, changes: Sequence[ConfigChange], *, deadline: float = math.inf
    ) -> CallResults[ConfigResource]:
        """Apply any number of incremental changes (KIP-339), in the requests of `in_requests`.

        Kafka refuses a request that names a key twice: where entries are added to a list and others
        taken from it, a second request follows when the first one has been answered. So it is with
        more changes of topics than one request may hold. Requests to several brokers are parallel.
        A broker that does not respond is among the errors as "no answer: ...": its change may still
        be applied, now or later; or as "nothing was sent: ...". With another reason it was refused.
        Raises UnknownOutcomeError only when the response about topics was lost, with these topics
        as its `subjects`; earlier requests, and those to brokers, have ended by then, and later
        ones are not sent.
        """
        ...

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_replication_factor: bool = False,
        deadline: float = math.inf,
    ) -> CallResults[TopicPartition]:
        """Start reassignments; a target of None cancels (KIP-455).

        A target with another number of replicas than the partition has, or is on its way to, is
        refused (KIP-860) unless the caller allows it.
        """
        ...

    def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition], *, deadline: float = math.inf
    ) -> CallResults[TopicPartition]:
        """Elect preferred leaders (KIP-460); "not needed" counts as accepted."""
        ...

    def refused_operations(
        self, broker_id: int, topics: Sequence[str], throttled_topics: Sequence[str]
    ) -> Mapping[str, str]:
        """Return what the cluster refuses to this principal, each with the reason.

        Operations are those of `model.acl`, CHANGES and what of READS a run needs. Tried with a
        rate on `broker_id`, lists on `throttled_topics`, reading `topics`, and a partition that
        does not exist; changes nothing.
        """
        ...


def read_throttle_keys(
    reader: ClusterReader, resources: Iterable[ConfigResource]
) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
    """Return the keys that a run may set: throttles (KIP-73) of topics and brokers, and what
    cordons log dirs of brokers (KIP-1066), by resource and key.

    Unknown topics and unresponsive brokers are left out. Topics and brokers are read in parallel,
    so an unresponsive broker costs its timeout once.
    """
    wanted = sorted(set(resources))
    topics = [resource for resource in wanted if resource.is_topic]
    brokers = [resource for resource in wanted if resource.is_broker]
    with ThreadPoolExecutor(1) as pool:
        of_topics = pool.submit(reader.describe_configs, topics, LIST_KEYS)
        of_brokers = reader.describe_configs(brokers, (*RATE_KEYS, CORDONED_LOG_DIRS))
        return {**of_topics.result(), **of_brokers}


def without_repeated_keys(changes: Iterable[ConfigChange]) -> list[list[ConfigChange]]:
    """Return the changes in as few parts as name each key at most once, in order.

    Example: APPEND to the list of orders, SUBTRACT from it, SET of a rate: the first and the last
    are one part, the SUBTRACT is the second.
    """
    parts: list[list[ConfigChange]] = []
    times: Counter[ResourceKey] = Counter()
    for change in changes:
        part = times[change.resource_key]
        times[change.resource_key] += 1
        parts += [[]] if part == len(parts) else []
        parts[part].append(change)
    return parts


def without_answer(errors: Mapping[ConfigResource, str]) -> set[ConfigResource]:
    """Return the resources that were sent a change and did not answer: they may still apply it."""
    return {resource for resource, reason in errors.items() if reason.startswith(NO_RESPONSE)}


def in_requests(changes: Iterable[ConfigChange]) -> list[list[ConfigChange]]:
    """Return the changes in requests that Kafka accepts, in the order in which they are sent.

    Each names a key at most once, and has the changes of all brokers that it names, and of topics
    no more than a request may hold. Example: 6,000 topics with two lists each are 4,000 changes,
    4,000 changes, and 4,000 changes.
    """
    return [request for part in without_repeated_keys(changes) for request in _within_limits(part)]


def _within_limits(changes: Iterable[ConfigChange]) -> list[list[ConfigChange]]:
    """Return the changes in as few requests as the limits allow, those of a resource together."""
    changes_by_resource = grouped((change.resource, change) for change in changes)
    requests: list[list[ConfigChange]] = [[]]
    count = characters = 0
    for resource, own_changes in sorted(changes_by_resource.items(), key=lambda i: i[0].is_topic):
        if resource.is_topic:
            count += len(own_changes)
            characters += sum(len(change.value) for change in own_changes)
        if count > MAX_CHANGES_PER_REQUEST or characters > MAX_CHARACTERS_PER_REQUEST:
            requests.append([])
            count = len(own_changes)
            characters = sum(len(change.value) for change in own_changes)
        requests[-1] += own_changes
    return [request for request in requests if request]


def read_topics_and_named(
    reader: ClusterReader, names: Iterable[str]
) -> tuple[TopicDescription, ...]:
    """Return all topics, after asking by name for those of `names` that are not among them.

    Kafka leaves topics that a principal may not see out of the list, as if they were deleted; asked
    by name it refuses them. Raises ClusterError for these.
    """
    topics = reader.describe_topics()
    listed = {topic.topic for topic in topics}
    unlisted = sorted({name for name in names if name not in listed})
    return topics if not unlisted else (*topics, *reader.describe_topics(unlisted))
