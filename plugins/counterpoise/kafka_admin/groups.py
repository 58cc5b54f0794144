"""Consumer groups, with how many of their members have partitions.

    [group.idle_member_count for group in describe_groups(broker_client)]

Every broker lists the groups that it coordinates, and is then asked for those with members: for
groups of the classic protocol by one request, in which clients encoded the assignments, for those
of the new protocol (KIP-848) by another, which kafka-python does not define (`schemas/`).

Limits: groups that the principal may not describe are missing, without notice. Protocol types other
than "consumer" (Connect, Schema Registry, share groups) are left out.
"""

from collections.abc import Iterator, Sequence
from types import new_class
from typing import Any, Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import BrokerClient, BrokerRequest, Failure
from counterpoise.kafka_admin.error_codes import raise_for
from counterpoise.kafka_admin.reading import (
    live_or_named_brokers,
    responses_by_broker,
)
from counterpoise.model.acl import DESCRIBE_GROUPS
from counterpoise.model.inspection import ConsumerGroup

_SCHEMAS: Final = "counterpoise.kafka_admin.schemas"
_GROUPS_PER_REQUEST: Final = 200
_CONSUMER: Final = "consumer"  # the protocol type of both, and the group type of the new one
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
# Coordinator loading, not available or not this one, group not found: it moved or ended since it
# was listed.
_MOVED: Final = frozenset({14, 15, 16, 69})


def _message(name: str) -> Any:
    """Return a message class of kafka-python made from our schema."""
    return new_class(name, (ApiMessage,), {"load_json": _SCHEMAS})


_DescribeRequest: Final = _message("ConsumerGroupDescribeRequest")
_DescribeResponse: Final = _message("ConsumerGroupDescribeResponse")


def describe_groups(broker_client: BrokerClient) -> tuple[ConsumerGroup, ...]:
    """See `ClusterReader.describe_groups`.

    Unresponsive brokers are left out. Raises ClusterError when a broker refuses.
    """
    groups: dict[str, ConsumerGroup] = {}
    requests: list[BrokerRequest] = []
    for broker_id, listed in _list_groups(broker_client).items():
        with_members = []
        for group in listed:
            if _state(group) in _WITHOUT_MEMBERS:
                groups[group.group_id] = ConsumerGroup(group.group_id, _state(group), 0, 0, ())
            else:
                with_members.append(group)
        requests += _describe_requests(broker_id, with_members)
    for request, response in zip(requests, broker_client.read_each(requests), strict=True):
        if isinstance(response, Failure):
            if response.is_unresponsive:
                continue
            where = f"the consumer groups of broker {request.broker_id}"
            raise ClusterError(f"{where}: {response.reason}")
        groups |= {group.group: group for group in _groups_in(response, broker_client)}
    return tuple(groups[name] for name in sorted(groups))


def group_trial(broker_client: BrokerClient) -> BrokerRequest | None:
    """Return a request for one consumer group; None where there is none."""
    for broker_id, listed in sorted(_list_groups(broker_client).items()):
        for request in _describe_requests(broker_id, listed[:1]):
            return request
    return None


def _list_groups(broker_client: BrokerClient) -> dict[int, list[Any]]:
    """Return the listed consumer groups by the broker that coordinates them."""
    what = "the consumer groups"
    broker_ids = live_or_named_brokers(broker_client, None)
    requests = [
        BrokerRequest(broker_id, ListGroupsRequest(), probes_first=True) for broker_id in broker_ids
    ]
    responses = responses_by_broker(broker_ids, broker_client.read_each(requests), what)
    listed: dict[int, list[Any]] = {}
    for broker_id, response in responses.items():
        if response.error_code in _MOVED:
            continue
        raise_for(response.error_code, None, f"{what} of broker {broker_id}")
        listed[broker_id] = [g for g in response.groups if g.protocol_type == _CONSUMER]
    return listed


def _state(group: Any) -> str:
    """Return a listed group's state; "" where brokers do not list it (before 2.6)."""
    return getattr(group, "group_state", None) or ""


def _describe_requests(broker_id: int, groups: Sequence[Any]) -> Iterator[BrokerRequest]:
    """Yield the requests for groups that `broker_id` coordinates, 200 in each."""
    of_new_protocol = sorted(
        group.group_id
        for group in groups
        if (getattr(group, "group_type", None) or "").lower() == _CONSUMER
    )
    classic = sorted({group.group_id for group in groups} - set(of_new_protocol))
    for names in _chunks(classic):
        request = DescribeGroupsRequest(groups=names, include_authorized_operations=False)
        yield BrokerRequest(broker_id, request)
    for names in _chunks(of_new_protocol):
        request = _DescribeRequest(group_ids=names, include_authorized_operations=False)
        yield BrokerRequest(broker_id, request)


def _chunks(names: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _GROUPS_PER_REQUEST):
        yield list(names[start : start + _GROUPS_PER_REQUEST])


def _groups_in(response: Any, broker_client: BrokerClient) -> Iterator[ConsumerGroup]:
    for group in response.groups:
        if group.error_code in _MOVED:
            continue
        what = f"the consumer group {group.group_id}"
        message = getattr(group, "error_message", None)
        raise_for(group.error_code, message, what, DESCRIBE_GROUPS, broker_client)
        topics_by_member = [_topics_of(member) for member in group.members]
        idle_count = sum(not topics for topics in topics_by_member)
        yield ConsumerGroup(
            group=group.group_id,
            state=group.group_state,
            member_count=len(topics_by_member),
            # In the middle of a consumer-group rebalance members have no assignment yet, which
            # does not make them idle.
            idle_member_count=idle_count if group.group_state == "Stable" else 0,
            topics=tuple(sorted(set().union(*topics_by_member))),
        )


def _topics_of(member: Any) -> set[str]:
    """Return the topics of which a member has a partition."""
    if isinstance(member, _DescribeResponse.DescribedGroup.Member):
        assigned = member.assignment.topic_partitions
        return {topic.topic_name for topic in assigned if topic.partitions}
    if not member.member_assignment:
        return set()
    assignment = ConsumerProtocolAssignment.decode(member.member_assignment)
    return {topic.topic for topic in assignment.assigned_partitions if topic.partitions}
