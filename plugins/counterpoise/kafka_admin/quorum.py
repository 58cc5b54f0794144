"""The metadata quorum with all that its leader tells: who votes, who lags, by the leader's own
clock.

    state = describe_quorum(wire)
    state.leader_id, state.now_ms, [voter.last_caught_up_ms for voter in state.voters]

Limits: brokers before 3.3 tell no times (KIP-836), those before 3.9 neither directories nor
endpoints (KIP-853).
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeQuorumRequest

from counterpoise.kafka_admin.broker_client import UnsupportedRequestError
from counterpoise.kafka_admin.reading import Asker, or_none, raise_for
from counterpoise.model.inspection import Quorum, QuorumVoter

_METADATA_TOPIC: Final = "__cluster_metadata"


def describe_quorum(broker_client: Asker) -> Quorum | None:
    """See `ClusterReader.describe_quorum`."""
    answer = _answer(broker_client)
    if answer is None:
        return None
    endpoints = {node.node_id: _endpoints(node) for node in getattr(answer, "nodes", None) or ()}
    state = answer.topics[0].partitions[0]
    voters = [_voter(replica, True, endpoints) for replica in state.current_voters]
    observers = [_voter(replica, False, endpoints) for replica in state.observers]
    return Quorum(
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        high_watermark=state.high_watermark,
        nodes=(*sorted(voters, key=_id), *sorted(observers, key=_id)),
    )


def _answer(broker_client: Asker) -> Any:
    """What the quorum's leader tells of itself (KIP-595, KIP-853); None on a cluster that still has
    ZooKeeper.
    """
    topic_type = DescribeQuorumRequest.TopicData
    partition = topic_type.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[topic_type(topic_name=_METADATA_TOPIC, partitions=[partition])]
    )
    try:
        answer = broker_client.read(request, "the metadata quorum")
    except UnsupportedRequestError:
        return None
    raise_for(answer.error_code, getattr(answer, "error_message", None), "the metadata quorum")
    state = answer.topics[0].partitions[0]
    raise_for(state.error_code, getattr(state, "error_message", None), "the metadata quorum")
    return answer


def _id(node: QuorumVoter) -> int:
    return node.node_id


def _voter(replica: Any, is_voter: bool, endpoints: Mapping[int, tuple[str, ...]]) -> QuorumVoter:
    directory_id = getattr(replica, "replica_directory_id", None)
    return QuorumVoter(
        node_id=replica.replica_id,
        is_voter=is_voter,
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=or_none(getattr(replica, "last_fetch_timestamp", None)),
        last_caught_up_ms=or_none(getattr(replica, "last_caught_up_timestamp", None)),
        directory_id=None if directory_id is None else str(directory_id),
        endpoints=endpoints.get(replica.replica_id, ()),
    )


def _endpoints(node: Any) -> tuple[str, ...]:
    return tuple(f"{listener.host}:{listener.port}" for listener in node.listeners)
