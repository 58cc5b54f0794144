"""Consumer groups with how many members have something to do.

    [group.idle_member_count for group in describe_groups(wire)]

Every broker lists the groups that it coordinates and is asked about those with members: groups of
the classic protocol by one request, in which clients encoded the assignments, those of the new one
(KIP-848) by another, which kafka-python has no definition of (`schemas/`).

Limits: groups that the principal may not describe are not listed, and nobody says so. Other
protocol types than "consumer" (Connect, Schema Registry, share groups) are left out.
"""

from collections.abc import Iterator, Sequence
from types import new_class
from typing import Any, Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import Ask, BrokerClient, Failure
from counterpoise.kafka_admin.reading import describe_cluster, raise_for, told
from counterpoise.model.inspection import GroupMembers

_SCHEMAS: Final = "counterpoise.kafka_admin.schemas"
_GROUPS_PER_REQUEST: Final = 200
_CONSUMER: Final = "consumer"  # the protocol type of both, and the group type of the new one
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
# Coordinator loading, not available or not this one; the group is gone: it moved, or ended, since
# it was listed.
_MOVED: Final = frozenset({14, 15, 16, 69})


def _message(name: str) -> Any:
    """One of kafka-python's classes, by our schema."""
    return new_class(name, (ApiMessage,), {"load_json": _SCHEMAS})


_DescribeRequest: Final = _message("ConsumerGroupDescribeRequest")
_DescribeResponse: Final = _message("ConsumerGroupDescribeResponse")


def describe_groups(broker_client: BrokerClient) -> tuple[GroupMembers, ...]:
    """See `ClusterReader.describe_groups`.

    Raises ClusterError when a broker refuses to tell, or keeps silent.
    """
    brokers = sorted(describe_cluster(broker_client).live_broker_ids)
    answers = broker_client.read_each(
        [Ask(broker_id, ListGroupsRequest(), knocks=True) for broker_id in brokers]
    )
    found: dict[str, GroupMembers] = {}
    asks: list[Ask] = []
    for broker_id, answer in told(brokers, answers, "the consumer groups"):
        if answer.error_code in _MOVED:
            continue
        raise_for(answer.error_code, None, f"the consumer groups of broker {broker_id}")
        groups = [group for group in answer.groups if group.protocol_type == _CONSUMER]
        empty = {
            group.group_id: _empty(group) for group in groups if _state(group) in _WITHOUT_MEMBERS
        }
        found |= empty
        asks += _asks(broker_id, [group for group in groups if group.group_id not in empty])
    for ask, answer in zip(asks, broker_client.read_each(asks), strict=True):
        if isinstance(answer, Failure):
            if answer.is_silence:
                continue
            raise ClusterError(f"the consumer groups of broker {ask.broker_id}: {answer.reason}")
        found |= {group.group: group for group in _members(answer)}
    return tuple(found[name] for name in sorted(found))


def _state(group: Any) -> str:
    """ "" where brokers do not list it (before 2.6)."""
    return getattr(group, "group_state", None) or ""


def _empty(group: Any) -> GroupMembers:
    return GroupMembers(group.group_id, _state(group), 0, 0, ())


def _asks(broker_id: int, groups: Sequence[Any]) -> Iterator[Ask]:
    new = sorted(
        g.group_id for g in groups if (getattr(g, "group_type", None) or "").lower() == _CONSUMER
    )
    classic = sorted({g.group_id for g in groups} - set(new))
    for start in range(0, len(classic), _GROUPS_PER_REQUEST):
        names = classic[start : start + _GROUPS_PER_REQUEST]
        yield Ask(
            broker_id, DescribeGroupsRequest(groups=names, include_authorized_operations=False)
        )
    for start in range(0, len(new), _GROUPS_PER_REQUEST):
        names = new[start : start + _GROUPS_PER_REQUEST]
        yield Ask(broker_id, _DescribeRequest(group_ids=names, include_authorized_operations=False))


def _members(answer: Any) -> Iterator[GroupMembers]:
    for group in answer.groups:
        if group.error_code in _MOVED:
            continue
        raise_for(group.error_code, group.error_message, f"the consumer group {group.group_id}")
        topics = [_topics(member) for member in group.members]
        yield GroupMembers(
            group=group.group_id,
            state=group.group_state,
            member_count=len(topics),
            # While a classic group settles, its members have no assignments yet: nobody is idle for
            # that.
            idle_member_count=sum(not mine for mine in topics)
            if group.group_state == "Stable"
            else 0,
            topics=tuple(sorted(set().union(*topics))),
        )


def _topics(member: Any) -> set[str]:
    """Topics of which the member has a partition."""
    if isinstance(member, _DescribeResponse.DescribedGroup.Member):
        return {
            topic.topic_name for topic in member.assignment.topic_partitions if topic.partitions
        }
    if not member.member_assignment:
        return set()
    assignment = ConsumerProtocolAssignment.decode(member.member_assignment)
    return {topic.topic for topic in assignment.assigned_partitions if topic.partitions}
