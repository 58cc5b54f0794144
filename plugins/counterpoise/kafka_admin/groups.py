"""Consumer groups: their members' topics, and the offsets that they have committed.

    for group in describe_groups(broker_client)[2]:     # those that broker 2 coordinates
        group.commits["orders"][3]                      # what it reads next of partition 3

Every broker lists the groups that it coordinates, and is then asked about those: nobody looks for a
coordinator, which would create the topic of the offsets. Groups with members are described, those
of the classic protocol by one request, in which clients encoded the assignments, those of the new
protocol (KIP-848) by another, which kafka-python does not define (`schemas/`).

Limits: groups that the principal may not describe are missing, without notice. Protocol types other
than "consumer" (Connect's workers, Schema Registry, Streams of KIP-1071, share groups) are left
out. Consumers that choose their partitions themselves commit to a group without members.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import new_class
from typing import Any, Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    Failure,
    raise_for,
)
from counterpoise.kafka_admin.reading import live_or_named_brokers, responses_by_broker
from counterpoise.model.acl import DESCRIBE_GROUPS
from counterpoise.model.inspection import ConsumerGroup

_SCHEMAS: Final = "counterpoise.kafka_admin.schemas"
_GROUPS_PER_REQUEST: Final = 200
_WITH_COMMITS_PER_REQUEST: Final = 50  # a group may have committed thousands of offsets
_CONSUMER: Final = "consumer"  # the protocol type of both, and the group type of the new one
_WITHOUT_PROTOCOL: Final = ""  # of a group that has committed offsets, and never had a member
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
# Coordinator loading, not available or not this one, group not found: it moved or ended since it
# was listed.
_COORDINATOR_MOVED: Final = frozenset({14, 15, 16, 69})
# Of OffsetFetch: from the first on it takes several groups (KIP-709), above the last it names
# topics by id alone.
_VERSION_WITH_GROUPS: Final = 8
_VERSION_WITH_NAMES: Final = 9

Commits = Mapping[str, Mapping[int, int]]  # offset by topic and partition


def _message(name: str) -> Any:
    """Return a message class of kafka-python made from our schema."""
    return new_class(name, (ApiMessage,), {"load_json": _SCHEMAS})


_DescribeRequest: Final = _message("ConsumerGroupDescribeRequest")
_DescribeResponse: Final = _message("ConsumerGroupDescribeResponse")


def describe_groups(broker_client: BrokerClient) -> dict[int, tuple[ConsumerGroup, ...]]:
    """See `ClusterReader.describe_groups`. Raises ClusterError when a broker refuses."""
    listed = _list_groups(broker_client)
    requests = [
        request
        for broker_id, groups in listed.items()
        for request in (
            *_describe_requests(broker_id, [g for g in groups if not _is_without_members(g)]),
            *_commit_requests(broker_client, broker_id, groups),
        )
    ]
    described = {
        group.group_id: ConsumerGroup(group.group_id, group.group_state, 0, ())
        for groups in listed.values()
        for group in groups
        if _is_without_members(group)
    }
    commits: dict[str, Commits] = {}
    unresponsive_ids = set()
    for request, response in zip(requests, broker_client.read_each(requests), strict=True):
        if isinstance(response, Failure):
            if not response.is_unresponsive:
                where = f"the consumer groups of broker {request.broker_id}"
                raise ClusterError(f"{where}: {response.reason}")
            unresponsive_ids.add(request.broker_id)
        elif isinstance(request.request, OffsetFetchRequest):
            commits |= _commits_in(request.request, response, broker_client)
        else:
            described |= {group.group: group for group in _groups_in(response, broker_client)}
    known = described.keys() & commits
    return {
        broker_id: tuple(
            replace(described[name], commits=commits[name])
            for name in sorted(known.intersection(group.group_id for group in groups))
        )
        for broker_id, groups in listed.items()
        if broker_id not in unresponsive_ids
    }


def group_trial(broker_client: BrokerClient) -> BrokerRequest | None:
    """Return a request for one consumer group; None where there is none."""
    for broker_id, listed in sorted(_list_groups(broker_client).items()):
        for request in _describe_requests(broker_id, listed[:1]):
            return request
    return None


def _list_groups(broker_client: BrokerClient) -> dict[int, list[Any]]:
    """Return the listed consumer groups by the broker that coordinates them.

    Unresponsive brokers are left out.
    """
    what = "the consumer groups"
    broker_ids = live_or_named_brokers(broker_client, None)
    requests = [
        BrokerRequest(broker_id, ListGroupsRequest(), probes_first=True) for broker_id in broker_ids
    ]
    responses = responses_by_broker(broker_ids, broker_client.read_each(requests), what)
    listed: dict[int, list[Any]] = {}
    for broker_id, response in responses.items():
        if response.error_code in _COORDINATOR_MOVED:
            continue
        raise_for(response.error_code, None, f"{what} of broker {broker_id}")
        types = (_CONSUMER, _WITHOUT_PROTOCOL)
        listed[broker_id] = [g for g in response.groups if g.protocol_type in types]
    return listed


def _is_without_members(group: Any) -> bool:
    return group.group_state in _WITHOUT_MEMBERS


def _chunks(names: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield list(names[start : start + size])


# -- members


def _describe_requests(broker_id: int, groups: Sequence[Any]) -> Iterator[BrokerRequest]:
    """Yield the requests for groups that `broker_id` coordinates, 200 in each."""
    of_new_protocol = sorted(
        group.group_id
        for group in groups
        if (getattr(group, "group_type", None) or "").lower() == _CONSUMER
    )
    classic = sorted({group.group_id for group in groups} - set(of_new_protocol))
    for names in _chunks(classic, _GROUPS_PER_REQUEST):
        request = DescribeGroupsRequest(groups=names, include_authorized_operations=False)
        yield BrokerRequest(broker_id, request)
    for names in _chunks(of_new_protocol, _GROUPS_PER_REQUEST):
        request = _DescribeRequest(group_ids=names, include_authorized_operations=False)
        yield BrokerRequest(broker_id, request)


def _groups_in(response: Any, broker_client: BrokerClient) -> Iterator[ConsumerGroup]:
    for group in response.groups:
        if group.error_code in _COORDINATOR_MOVED:
            continue
        what = f"the consumer group {group.group_id}"
        message = getattr(group, "error_message", None)
        raise_for(group.error_code, message, what, DESCRIBE_GROUPS, broker_client.settings)
        topics = set().union(*map(_topics_of, group.members))
        state, member_count = group.group_state, len(group.members)
        yield ConsumerGroup(group.group_id, state, member_count, tuple(sorted(topics)))


def _topics_of(member: Any) -> set[str]:
    """Return the topics of which a member has a partition."""
    if isinstance(member, _DescribeResponse.DescribedGroup.Member):
        assigned = member.assignment.topic_partitions
        return {topic.topic_name for topic in assigned if topic.partitions}
    if not member.member_assignment:
        return set()
    assignment = ConsumerProtocolAssignment.decode(member.member_assignment)
    return {topic.topic for topic in assignment.assigned_partitions if topic.partitions}


# -- committed offsets


def _commit_requests(
    broker_client: BrokerClient, broker_id: int, groups: Sequence[Any]
) -> Iterator[BrokerRequest]:
    """Yield the requests for all offsets that groups have committed, for 50 groups in each."""
    if not groups:
        return
    names = sorted(group.group_id for group in groups)
    if broker_client.highest_version(OffsetFetchRequest, broker_id) < _VERSION_WITH_GROUPS:
        for name in names:
            yield BrokerRequest(broker_id, OffsetFetchRequest(group_id=name, topics=None))
        return
    group_type = OffsetFetchRequest.OffsetFetchRequestGroup
    for some in _chunks(names, _WITH_COMMITS_PER_REQUEST):
        request = OffsetFetchRequest(
            groups=[group_type(group_id=name, topics=None) for name in some],
            require_stable=False,
            max_version=_VERSION_WITH_NAMES,
        )
        yield BrokerRequest(broker_id, request)


def _commits_in(request: Any, response: Any, broker_client: BrokerClient) -> dict[str, Commits]:
    """Return the committed offsets by group; groups that moved or ended are left out."""
    if response.API_VERSION < _VERSION_WITH_GROUPS:
        answers = [(request.group_id, response)]
    else:
        answers = [(group.group_id, group) for group in response.groups]
    commits: dict[str, Commits] = {}
    for name, answer in answers:
        if answer.error_code in _COORDINATOR_MOVED:
            continue
        what = f"the committed offsets of consumer group {name}"
        raise_for(answer.error_code, None, what, DESCRIBE_GROUPS, broker_client.settings)
        offsets = {topic.name: _offsets_in(topic.partitions) for topic in answer.topics}
        commits[name] = {topic: found for topic, found in sorted(offsets.items()) if found}
    return commits


def _offsets_in(partitions: Iterable[Any]) -> dict[int, int]:
    return {
        row.partition_index: row.committed_offset
        for row in sorted(partitions, key=lambda row: int(row.partition_index))
        if not row.error_code and row.committed_offset >= 0
    }
