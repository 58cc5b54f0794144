"""The parts of KRaft that audits read: metadata quorum, versions, features, eligible leaders.

    quorum = describe_quorum(broker_client)
    quorum.leader_id, quorum.now_ms, [voter.last_caught_up_ms for voter in quorum.voters]
    list_eligible_leaders(broker_client, ["orders"])      # {TopicPartition("orders", 3): (2,)}

Eligible leader replicas (KIP-966) are outside the ISR and still have every acknowledged record.

Limits: brokers before 3.3 report no times of the quorum (KIP-836), those before 3.9 neither
directories nor endpoints (KIP-853), those before 3.8 no eligible leader replicas.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeQuorumRequest, DescribeTopicPartitionsRequest

from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    UnsupportedRequestError,
)
from counterpoise.kafka_admin.error_codes import raise_for
from counterpoise.kafka_admin.liveness_probe import (
    UNRESPONSIVE_AFTER_SECONDS,
    api_versions_request,
)
from counterpoise.kafka_admin.metadata import none_if_negative
from counterpoise.kafka_admin.reading import (
    UNKNOWN_TOPIC,
    RequestReader,
    live_or_named_brokers,
    responses_by_broker,
)
from counterpoise.model.acl import DESCRIBE_CLUSTER, DESCRIBE_TOPICS
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import FeatureLevel, Quorum, QuorumNode
from counterpoise.model.kafka import BrokerVersion

# A broker returns no more than its max.request.partition.size.limit, 2000 by default.
PARTITIONS_PER_PAGE = 2000
_METADATA_TOPIC: Final = "__cluster_metadata"
_METADATA_VERSION: Final = "metadata.version"
_TOPICS_PER_REQUEST: Final = 500
_QUORUM: Final = "the metadata quorum"


def describe_quorum(broker_client: RequestReader) -> Quorum | None:
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


def _quorum_response(broker_client: RequestReader) -> Any:
    """Return the response of the quorum's leader (KIP-595); None on a cluster with ZooKeeper."""
    topic_type = DescribeQuorumRequest.TopicData
    partition = topic_type.PartitionData(partition_index=0)
    topic = topic_type(topic_name=_METADATA_TOPIC, partitions=[partition])
    try:
        response = broker_client.read(DescribeQuorumRequest(topics=[topic]), _QUORUM)
    except UnsupportedRequestError:
        return None
    for part in (response, response.topics[0].partitions[0] if response.topics else response):
        message = getattr(part, "error_message", None)
        raise_for(part.error_code, message, _QUORUM, DESCRIBE_CLUSTER, broker_client)
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
            raise_for(topic.error_code, None, where, DESCRIBE_TOPICS, broker_client)
            for partition in topic.partitions:
                if partition.eligible_leader_replicas:
                    key = TopicPartition(topic.name, partition.partition_index)
                    found[key] = tuple(partition.eligible_leader_replicas)
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
