"""Reads brokers, topics, reassignments and log dirs of a cluster into frozen values.

    topics = describe_topics(broker_client, None)

Limits: nothing here can create a topic. Topic creation is switched off in every metadata request.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import BrokerUnresponsiveError, ClusterError, UnsupportedRequestError
from counterpoise.kafka_admin.address_connection import (
    AddressConnection,
    api_versions_request,
    by_id,
    none_if_negative,
    partitions_of,
)
from counterpoise.kafka_admin.broker_client import (
    UNRESPONSIVE_AFTER_SECONDS,
    BrokerClient,
    BrokerRequest,
    Failure,
    describe_error_code,
    raise_for,
)
from counterpoise.model.acl import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_OF_BROKERS,
    DESCRIBE_TOPICS,
)
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import (
    AllowedOperation,
    FeatureLevel,
    Quorum,
    QuorumNode,
)
from counterpoise.model.kafka import (
    BrokerDescription,
    BrokerVersion,
    ClusterDescription,
    LogDirDescription,
    Reassignment,
    TopicDescription,
)

UNKNOWN_TOPIC: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_INVALID_TOPIC: Final = 17
_VERSION_WITH_FENCED_BROKERS: Final = 2  # of DescribeCluster (KIP-1073)


# -- brokers


def describe_cluster(broker_client: BrokerClient | AddressConnection) -> ClusterDescription:
    """Return registered brokers by id.

    Brokers before 4.0 do not report fenced ones (KIP-1073), which are then absent.
    """
    what = "the brokers"
    response = broker_client.read(DescribeClusterRequest(include_fenced_brokers=True), what)
    raise_for(response.error_code, response.error_message, what)
    brokers = []
    for b in response.brokers:
        is_fenced = bool(getattr(b, "is_fenced", False))
        brokers.append(BrokerDescription(b.broker_id, b.host, b.port, b.rack, is_fenced))
    reports_fenced = (response.API_VERSION or 0) >= _VERSION_WITH_FENCED_BROKERS
    return ClusterDescription(response.cluster_id, by_id(brokers), reports_fenced)


def live_or_named_brokers(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None
) -> list[int]:
    """Return `broker_ids`, or all live brokers where it is None; by id."""
    if broker_ids is None:
        return sorted(describe_cluster(broker_client).live_broker_ids)
    return sorted(set(broker_ids))


def responses_by_broker(
    broker_ids: Sequence[int], responses: Sequence[Any], what: str
) -> dict[int, Any]:
    """Return the responses by broker; unresponsive brokers are left out.

    Raises ClusterError for a broker that refuses.
    """
    responded: dict[int, Any] = {}
    for broker_id, response in zip(broker_ids, responses, strict=True):
        if not isinstance(response, Failure):
            responded[broker_id] = response
        elif not response.is_unresponsive:
            raise ClusterError(f"{what} of broker {broker_id}: {response.reason}")
    return responded


# -- topics


def describe_all_topics(
    broker_client: BrokerClient | AddressConnection,
) -> tuple[TopicDescription, ...]:
    """Return every topic, by name."""
    return _sorted_topics(_request_topics(broker_client, None))


def describe_topics(
    broker_client: BrokerClient, names: Sequence[str] | None
) -> tuple[TopicDescription, ...]:
    """Return topics by name.

    A name that the broker does not know yet is requested once more, then left out.
    """
    if names is None:
        return describe_all_topics(broker_client)
    wanted = sorted(set(names))
    found = {}
    if wanted:
        found = {topic.name: topic for topic in _request_topics(broker_client, wanted)}
    missing = [name for name in wanted if name not in found]
    if missing:
        broker_client.pause(1)
        found |= {topic.name: topic for topic in _request_topics(broker_client, missing)}
    return _sorted_topics(list(found.values()))


def _request_topics(
    broker_client: BrokerClient | AddressConnection, names: Sequence[str] | None
) -> list[Any]:
    topic_type = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic_type(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    known_topics = []
    for topic in broker_client.read(request, "the topics").topics:
        if topic.error_code in (UNKNOWN_TOPIC, _INVALID_TOPIC):
            continue
        if topic.error_code != _LEADER_NOT_AVAILABLE:
            what = f"topic {topic.name}"
            raise_for(topic.error_code, None, what, DESCRIBE_TOPICS, broker_client.settings)
        known_topics.append(topic)
    return known_topics


def _sorted_topics(topics: Sequence[Any]) -> tuple[TopicDescription, ...]:
    by_name = sorted(topics, key=lambda topic: str(topic.name))
    return tuple(
        TopicDescription(
            topic=topic.name,
            topic_id=_id_of(topic),
            is_internal=bool(topic.is_internal),
            partitions=partitions_of(topic),
        )
        for topic in by_name
    )


def _id_of(topic: Any) -> str:
    """Return a topic's id; "" where brokers give none, of every topic the same: all zeros."""
    topic_id = topic.topic_id
    return str(topic_id) if topic_id is not None and topic_id.int else ""


# -- reassignments and log dirs


def list_reassignments(broker_client: BrokerClient) -> dict[TopicPartition, Reassignment]:
    """Return every ongoing reassignment (KIP-455), as the controller has it."""
    what = "the reassignments"
    timeout_ms = int(broker_client.request_timeout_seconds * 1000)
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    response = broker_client.read(request, what, broker_client.forwarding_broker_id())
    message = response.error_message
    raise_for(response.error_code, message, what, DESCRIBE_CLUSTER, broker_client.settings)
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in response.topics
        for p in topic.partitions
    }


def describe_log_dirs(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None
) -> tuple[LogDirDescription, ...]:
    """Return log dirs by broker and path, read from all brokers in parallel.

    An unresponsive broker is left out.
    """
    asked_ids = live_or_named_brokers(broker_client, broker_ids)
    requests = [
        BrokerRequest(broker_id, DescribeLogDirsRequest(topics=None), probes_first=True)
        for broker_id in asked_ids
    ]
    responses = broker_client.read_each(requests)
    log_dirs: list[LogDirDescription] = []
    for broker_id, response in responses_by_broker(asked_ids, responses, "the log dirs").items():
        error_code = getattr(response, "error_code", 0) or 0
        what = f"the log dirs of broker {broker_id}"
        raise_for(error_code, None, what, DESCRIBE_CLUSTER, broker_client.settings)
        log_dirs += [_log_dir(broker_id, result) for result in response.results]
    return tuple(sorted(log_dirs, key=lambda log_dir: (log_dir.broker_id, log_dir.path)))


def _log_dir(broker_id: int, result: Any) -> LogDirDescription:
    # A "future" replica is being moved to another dir of the same broker, and replaces this one
    # when it has caught up.
    replicas = [
        (TopicPartition(topic.name, p.partition_index), p)
        for topic in result.topics
        for p in topic.partitions
    ]
    return LogDirDescription(
        broker_id=broker_id,
        path=result.log_dir,
        error=describe_error_code(result.error_code, None) or None,
        total_bytes=none_if_negative(getattr(result, "total_bytes", None)),
        usable_bytes=none_if_negative(getattr(result, "usable_bytes", None)),
        sizes={tp: p.partition_size for tp, p in replicas if not p.is_future_key},
        arriving=frozenset(tp for tp, p in replicas if p.is_future_key),
    )


# -- The parts of KRaft that audits read: metadata quorum, versions, features, eligible leaders
#
#     quorum = describe_quorum(broker_client)
#     quorum.leader_id, quorum.now_ms, [voter.last_caught_up_ms for voter in quorum.voters]
#     list_eligible_leaders(broker_client, ["orders"])      # {TopicPartition("orders", 3): (2,)}
#
# Eligible leader replicas (KIP-966) are outside the ISR and still have every acknowledged record.
#
# Limits: brokers before 3.3 report no times of the quorum (KIP-836), those before 3.9 neither
# directories nor endpoints (KIP-853), those before 3.8 no eligible leader replicas.


# A broker returns no more than its max.request.partition.size.limit, 2000 by default.
PARTITIONS_PER_PAGE = 2000
_METADATA_TOPIC: Final = "__cluster_metadata"
_METADATA_VERSION: Final = "metadata.version"
_TOPICS_PER_REQUEST: Final = 500
_QUORUM: Final = "the metadata quorum"
_QUORUM_SECONDS: Final = 4.0  # for a response of its leader


def describe_quorum(broker_client: BrokerClient) -> Quorum | None:
    """See `ClusterReader.describe_quorum`."""
    response = _quorum_response(broker_client)
    if response is None:
        return None
    nodes = getattr(response, "nodes", None) or ()
    endpoints = {
        node.node_id: tuple(f"{listener.host}:{listener.port}" for listener in node.listeners)
        for node in nodes
    }
    state = response.topics[0].partitions[0]
    voters = [_quorum_node(replica, True, endpoints) for replica in state.current_voters]
    observers = [_quorum_node(replica, False, endpoints) for replica in state.observers]
    return Quorum(
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        high_watermark=state.high_watermark,
        nodes=(*sorted(voters, key=_node_id), *sorted(observers, key=_node_id)),
    )


def quorum_request() -> DescribeQuorumRequest:
    """Return the request for the state of the metadata quorum, as of its leader."""
    topic_type = DescribeQuorumRequest.TopicData
    partition = topic_type.PartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[topic_type(topic_name=_METADATA_TOPIC, partitions=[partition])]
    )


def _quorum_response(broker_client: BrokerClient) -> Any:
    """Return the response of the quorum's leader (KIP-595); None on a cluster with ZooKeeper.

    A broker waits for 60 s where it does not reach the leader: that is too long for everybody.
    """
    try:
        response = broker_client.read(
            quorum_request(), _QUORUM, broker_client.responding_broker_id(), _QUORUM_SECONDS
        )
    except BrokerUnresponsiveError as error:
        reason = "the active controller did not answer, if there is one"
        raise BrokerUnresponsiveError(f"{reason}: {error}") from None
    except UnsupportedRequestError:
        return None
    for part in (response, response.topics[0].partitions[0] if response.topics else response):
        message = getattr(part, "error_message", None)
        raise_for(part.error_code, message, _QUORUM, DESCRIBE_CLUSTER, broker_client.settings)
    return response


def _node_id(node: QuorumNode) -> int:
    return node.node_id


def _quorum_node(
    replica: Any, is_voter: bool, endpoints: Mapping[int, tuple[str, ...]]
) -> QuorumNode:
    directory_id = getattr(replica, "replica_directory_id", None)
    return QuorumNode(
        node_id=replica.replica_id,
        is_voter=is_voter,
        log_end_offset=replica.log_end_offset,
        last_caught_up_ms=none_if_negative(getattr(replica, "last_caught_up_timestamp", None)),
        directory_id=None if directory_id is None else str(directory_id),
        endpoints=endpoints.get(replica.replica_id, ()),
    )


# -- versions and features (KIP-511, KIP-584)


def describe_versions(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None = None
) -> dict[int, BrokerVersion]:
    """See `ClusterReader.describe_versions`."""
    versions: dict[int, BrokerVersion] = {}
    responses = _api_versions(broker_client, broker_ids, "the versions")
    for broker_id, response in responses.items():
        raise_for(response.error_code, None, f"the versions of broker {broker_id}")
        ranges = sorted((a.api_key, a.min_version, a.max_version) for a in response.api_keys)
        digest = hashlib.sha256(repr(ranges).encode()).hexdigest()[:12]
        metadata_version = _finalized_levels(response).get(_METADATA_VERSION)
        versions[broker_id] = BrokerVersion(digest, metadata_version)
    return versions


def describe_features(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None = None
) -> dict[int, dict[str, FeatureLevel]]:
    """See `ClusterReader.describe_features`."""
    responses = _api_versions(broker_client, broker_ids, "the features")
    return {broker_id: _feature_levels(response) for broker_id, response in responses.items()}


def _feature_levels(response: Any) -> dict[str, FeatureLevel]:
    finalized = _finalized_levels(response)
    return {
        feature.name: FeatureLevel(
            finalized.get(feature.name), feature.min_version, feature.max_version
        )
        for feature in response.supported_features or ()
    }


def _finalized_levels(response: Any) -> dict[str, int]:
    return {
        feature.name: feature.max_version_level for feature in response.finalized_features or ()
    }


def _api_versions(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None, what: str
) -> dict[int, Any]:
    """Return each broker's ApiVersions response; unresponsive brokers are left out."""
    asked_ids = live_or_named_brokers(broker_client, broker_ids)
    requests = [
        BrokerRequest(broker_id, api_versions_request(), UNRESPONSIVE_AFTER_SECONDS)
        for broker_id in asked_ids
    ]
    return responses_by_broker(asked_ids, broker_client.read_each(requests), what)


# -- eligible leader replicas (KIP-966)


def list_eligible_leaders(
    broker_client: BrokerClient, topics: Sequence[str]
) -> dict[TopicPartition, tuple[int, ...]]:
    """See `ClusterReader.list_eligible_leaders`. Unknown topics are left out."""
    names = sorted(set(topics))
    eligible_leaders: dict[TopicPartition, tuple[int, ...]] = {}
    for start in range(0, len(names), _TOPICS_PER_REQUEST):
        batch = names[start : start + _TOPICS_PER_REQUEST]
        eligible_leaders |= _eligible_leaders_of(broker_client, batch)
    return eligible_leaders


def _eligible_leaders_of(
    broker_client: BrokerClient, names: Sequence[str]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the eligible leaders of some topics; the response comes in pages."""
    what = "the eligible leader replicas"
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor: Any = None
    while True:
        response = broker_client.read(_page_request(names, cursor), what)
        for topic in response.topics:
            if topic.error_code == UNKNOWN_TOPIC:
                continue
            where = f"{what} of topic {topic.name}"
            raise_for(topic.error_code, None, where, DESCRIBE_TOPICS, broker_client.settings)
            for partition in topic.partitions:
                # Kafka goes on to list replicas that a reassignment has removed.
                listed = partition.eligible_leader_replicas or ()
                eligible = tuple(b for b in listed if b in partition.replica_nodes)
                if eligible:
                    found[TopicPartition(topic.name, partition.partition_index)] = eligible
        cursor = response.next_cursor
        if cursor is None:
            return found


def _page_request(names: Sequence[str], cursor: Any) -> Any:
    """Return a request for the page at `cursor`, with topics in order of name as brokers need it.

    It never creates a topic.
    """
    request_type = DescribeTopicPartitionsRequest
    if cursor is None:
        return request_type(
            topics=[request_type.TopicRequest(name=name) for name in names],
            response_partition_limit=PARTITIONS_PER_PAGE,
        )
    remaining = [name for name in names if name >= cursor.topic_name]
    return request_type(
        topics=[request_type.TopicRequest(name=name) for name in remaining],
        response_partition_limit=PARTITIONS_PER_PAGE,
        cursor=request_type.Cursor(
            topic_name=cursor.topic_name, partition_index=cursor.partition_index
        ),
    )


# -- Offsets, read from the leaders, all in parallel
#
#     offsets = Offsets(broker_client, describe_topics)
#     offsets.of([TopicPartition("orders", 0)])                     # {...: (0, 1200)}
#     offsets.at({TopicPartition("orders", 0): 1_769_860_800_000})  # {...: 860}
#
# The leaders are remembered from the last topics that were described. A broker that no longer leads
# a partition says so; its leader is then looked up again, and asked once.
#
# Why not librdkafka's `list_offsets`: a partition without a leader delays it by the whole timeout,
# and then has the offset -1001 instead of an error (confluent-kafka 2.16.1).
#
# Limits: partitions without a responding leader, and unknown ones, are left out.


PARTITIONS_PER_REQUEST: Final = 5000
_EARLIEST: Final = -2  # the protocol's timestamps for the two ends of a log
_LATEST: Final = -1
_NO_REPLICA: Final = -1  # we are no follower
_READ_UNCOMMITTED: Final = 0  # the true end of the log
# Unknown topic, leader not available, not leader, lost disk, fenced or unknown epoch, offset not
# available: the leader moved, or is about to.
_MOVED: Final = frozenset({3, 5, 6, 56, 74, 75, 78})

Times = Mapping[TopicPartition, int]  # milliseconds, or one of the protocol's timestamps
FoundOffsets = dict[TopicPartition, int]


@dataclass(slots=True)
class _Result:
    found: list[FoundOffsets]  # of each query
    missed: set[TopicPartition] = field(default_factory=set)  # leader moved or unresponsive
    unresponsive_ids: set[int] = field(default_factory=set)


class Offsets:
    """Offsets of one cluster; `describe` describes topics by name."""

    def __init__(
        self,
        broker_client: BrokerClient,
        describe: Callable[[Sequence[str]], Iterable[TopicDescription]],
    ) -> None:
        self._broker_client = broker_client
        self._describe = describe
        self._leader_ids: dict[TopicPartition, int | None] = {}

    def remember(self, topics: Iterable[TopicDescription]) -> None:
        """Remember the leaders of `topics`."""
        for topic in topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.topic, partition.partition)
                self._leader_ids[key] = partition.leader

    def of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """See `ClusterReader.list_offsets`."""
        ends = [dict.fromkeys(partitions, end) for end in (_EARLIEST, _LATEST)]
        earliest, latest = self._answers(ends)
        return {
            key: (earliest[key], latest[key])
            for key in partitions
            if key in earliest and key in latest
        }

    def at(self, times: Times) -> FoundOffsets:
        """See `ClusterReader.list_offsets_at`."""
        return self._answers([times])[0]

    def _answers(self, queries: Sequence[Times]) -> list[FoundOffsets]:
        """Return the offsets that each query asks for.

        Where the leader moved, or does not respond, the new leader is asked.
        """
        partitions = {key for times in queries for key in times}
        self._look_up(sorted(key for key in partitions if self._leader_ids.get(key) is None))
        result = self._read(queries)
        if not result.missed:
            return result.found
        self._broker_client.pause(1)
        self._look_up(sorted(result.missed))
        left = {
            key for key in result.missed if self._leader_ids.get(key) not in result.unresponsive_ids
        }
        missed = [{key: times[key] for key in times.keys() & left} for times in queries]
        again = self._read(missed).found
        return [first | second for first, second in zip(result.found, again, strict=True)]

    def _look_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the leaders of `partitions` from the cluster."""
        for key in partitions:
            self._leader_ids.pop(key, None)
        if partitions:
            self.remember(self._describe(sorted({key.topic for key in partitions})))

    def _read(self, queries: Sequence[Times]) -> _Result:
        batches = [
            (index, leader_id, batch)
            for index, times in enumerate(queries)
            for leader_id, batch in self._batches(times)
        ]
        requests = [
            BrokerRequest(leader_id, self._request(batch), probes_first=True)
            for _, leader_id, batch in batches
        ]
        result = _Result([{} for _ in queries])
        responses = self._broker_client.read_each(requests)
        for (index, leader_id, batch), response in zip(batches, responses, strict=True):
            if isinstance(response, Failure):
                if not response.is_unresponsive:
                    leader = self._broker_client.name_of(leader_id)
                    raise ClusterError(f"the offsets: {leader}: {response.reason}")
                result.missed.update(batch)
                result.unresponsive_ids.add(leader_id)
                continue
            for key, row in _rows(response):
                if row.error_code in _MOVED:
                    result.missed.add(key)
                elif row.error_code:
                    settings = self._broker_client.settings
                    reason = describe_error_code(row.error_code, None, DESCRIBE_TOPICS, settings)
                    raise ClusterError(f"the offsets of {key}: {reason}")
                else:
                    result.found[index][key] = row.offset
        return result

    def _batches(self, times: Times) -> Iterator[tuple[int, Times]]:
        """Yield the times for each leader, those of 5,000 partitions at once."""
        times_by_leader: dict[int, list[tuple[TopicPartition, int]]] = {}
        for key, time in times.items():
            leader_id = self._leader_ids.get(key)
            if leader_id is not None:
                times_by_leader.setdefault(leader_id, []).append((key, time))
        for leader_id, rows in sorted(times_by_leader.items()):
            for start in range(0, len(rows), PARTITIONS_PER_REQUEST):
                yield leader_id, dict(rows[start : start + PARTITIONS_PER_REQUEST])

    def _request(self, times: Times) -> Any:
        topic_type = ListOffsetsRequest.ListOffsetsTopic
        partition_type = topic_type.ListOffsetsPartition
        topics: dict[str, list[Any]] = {}
        for key, time in times.items():
            partition = partition_type(partition_index=key.partition, timestamp=time)
            topics.setdefault(key.topic, []).append(partition)
        return ListOffsetsRequest(
            replica_id=_NO_REPLICA,
            isolation_level=_READ_UNCOMMITTED,
            topics=[topic_type(name=name, partitions=rows) for name, rows in topics.items()],
            timeout_ms=int(self._broker_client.request_timeout_seconds * 1000),
        )


def _rows(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition


# -- Client quotas that hold for everybody (KIP-546)
#
#     describe_default_quotas(broker_client)     # {"users": {"producer_byte_rate": 1024.0}}
#
# Limits: quotas of named users, clients and addresses are not asked for: there may be thousands.


_DEFAULT_NAME: Final = 1  # the protocol's way to match an entity: its default
# kafka-configs' entity types, with the protocol's names of them.
_QUOTA_ENTITIES: Final = {
    "users": ("user",),
    "clients": ("client-id",),
    "users clients": ("user", "client-id"),
}


def describe_default_quotas(broker_client: BrokerClient) -> dict[str, dict[str, float]]:
    """See `ClusterReader.describe_default_quotas`."""
    what = "the client quotas"
    broker_id = broker_client.responding_broker_id()
    requests = [
        BrokerRequest(broker_id, _quotas_request(types)) for types in _QUOTA_ENTITIES.values()
    ]
    quotas: dict[str, dict[str, float]] = {}
    responses = broker_client.read_each(requests)
    for entity, response in zip(_QUOTA_ENTITIES, responses, strict=True):
        if isinstance(response, Failure):
            raise ClusterError(f"{what}: {broker_client.name_of(broker_id)}: {response.reason}")
        acl = DESCRIBE_CONFIGS_OF_BROKERS
        raise_for(response.error_code, response.error_message, what, acl, broker_client.settings)
        for entry in response.entries or ():
            quotas[entity] = {row.key: row.value for row in entry.values}
    return quotas


def _quotas_request(entity_types: Sequence[str]) -> DescribeClientQuotasRequest:
    component_type = DescribeClientQuotasRequest.ComponentData
    components = [
        component_type(entity_type=entity_type, match_type=_DEFAULT_NAME, match=None)
        for entity_type in entity_types
    ]
    return DescribeClientQuotasRequest(components=components, strict=True)


# -- ACLs that allow something to everybody
#
#     describe_acls_for_everybody(broker_client)      # (AllowedOperation("User:*", "*", "Write"...
#
# Brokers filter by principal: of the ACLs for others none is read.
#
# Limits: those of Kafka's own authorizers; what a DENY takes away again is not looked at.


_EVERYBODY: Final = ("User:*", "User:ANONYMOUS")
_SECURITY_DISABLED: Final = 54  # no authorizer
_ANY: Final = 1  # type of resource or pattern, and operation
_ALLOW: Final = 3
_PREFIXED: Final = 4
_RESOURCE_TYPES: Final = {2: "topic", 3: "group", 4: "cluster"}
_OPERATIONS: Final = {
    2: "All",
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
}


def describe_acls_for_everybody(
    broker_client: BrokerClient,
) -> tuple[AllowedOperation, ...] | None:
    """See `ClusterReader.describe_acls_for_everybody`. Other types of resources are left out."""
    allowed: list[AllowedOperation] = []
    for principal in _EVERYBODY:
        request = DescribeAclsRequest(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=principal,
            host_filter=None,
            operation=_ANY,
            permission_type=_ALLOW,
        )
        what = f"the ACLs for {principal}"
        response = broker_client.read(request, what)
        if response.error_code == _SECURITY_DISABLED:
            return None
        message = response.error_message
        raise_for(response.error_code, message, what, DESCRIBE_CLUSTER, broker_client.settings)
        allowed += [
            AllowedOperation(
                acl.principal,
                acl.host,
                _OPERATIONS[acl.operation],
                _RESOURCE_TYPES[resource.resource_type],
                resource.resource_name,
                resource.pattern_type == _PREFIXED,
            )
            for resource in response.resources
            if resource.resource_type in _RESOURCE_TYPES
            for acl in resource.acls
            if acl.operation in _OPERATIONS
        ]
    return tuple(sorted(allowed, key=repr))
