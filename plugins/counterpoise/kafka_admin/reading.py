"""Reads brokers, topics, reassignments and log dirs of a cluster into frozen values.

    topics = describe_topics(broker_client, None)

Limits: nothing here can create a topic. Topic creation is switched off in every metadata request.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    Failure,
)
from counterpoise.kafka_admin.error_codes import describe_error_code, raise_for
from counterpoise.kafka_admin.metadata import by_id, none_if_negative, partitions_of
from counterpoise.model.acl import DESCRIBE_CLUSTER, DESCRIBE_TOPICS, Acl
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    Reassignment,
    TopicDescription,
)

UNKNOWN_TOPIC: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_INVALID_TOPIC: Final = 17
_VERSION_WITH_FENCED_BROKERS: Final = 2  # of DescribeCluster (KIP-1073)


class RequestReader(Protocol):
    """What sends a request and returns the response.

    `BrokerClient` sends it to any broker, `connectivity.AddressClient` to one address.
    """

    @property
    def principal(self) -> str: ...

    def acl_to_grant(self, acl: Acl) -> Acl: ...

    def read(self, request: Any, what: str) -> Any: ...

    def pause(self, attempt: int) -> None: ...


# -- brokers


def describe_cluster(broker_client: RequestReader) -> ClusterDescription:
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
    broker_client: RequestReader, broker_ids: Sequence[int] | None
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


def describe_topics(
    broker_client: RequestReader, names: Sequence[str] | None
) -> tuple[TopicDescription, ...]:
    """Return topics by name.

    A name that the broker does not know yet is requested once more, then left out.
    """
    if names is None:
        return _sorted_topics(_request_topics(broker_client, None))
    wanted = sorted(set(names))
    found = {}
    if wanted:
        found = {topic.name: topic for topic in _request_topics(broker_client, wanted)}
    missing = [name for name in wanted if name not in found]
    if missing:
        broker_client.pause(1)
        found |= {topic.name: topic for topic in _request_topics(broker_client, missing)}
    return _sorted_topics(list(found.values()))


def _request_topics(broker_client: RequestReader, names: Sequence[str] | None) -> list[Any]:
    topic_type = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic_type(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    known_topics = []
    for topic in broker_client.read(request, "the topics").topics:
        if topic.error_code in (UNKNOWN_TOPIC, _INVALID_TOPIC):
            continue
        if topic.error_code != _LEADER_NOT_AVAILABLE:
            what = f"topic {topic.name}"
            raise_for(topic.error_code, None, what, DESCRIBE_TOPICS, broker_client)
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
    raise_for(response.error_code, message, what, DESCRIBE_CLUSTER, broker_client)
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
        raise_for(error_code, None, what, DESCRIBE_CLUSTER, broker_client)
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
