"""The metadata quorum with all that its leader tells: who votes, who lags, by the leader's own clock.

    state = describe_quorum_state(wire)
    state.leader_id, state.now_ms, [voter.last_caught_up_ms for voter in state.voters]

Limits: brokers before 3.3 tell no times (KIP-836), those before 3.9 neither directories nor endpoints (KIP-853).
"""

from collections.abc import Mapping
from typing import Any

from counterpoise.kafka_admin.reading import or_none, quorum_answer
from counterpoise.kafka_admin.wire import Wire
from counterpoise.model.inspection import Quorum, QuorumVoter


def describe_quorum_state(wire: Wire) -> Quorum | None:
    """See `ClusterReader.describe_quorum_state`."""
    answer = quorum_answer(wire)
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
