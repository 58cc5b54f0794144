"""Eligible leader replicas (KIP-966): outside the ISR, and yet they hold every record that was
acknowledged.

    list_eligible_leaders(wire, ["orders"])      # {TopicPartition("orders", 3): (2,)}

The answer comes in pages; nothing here creates a topic.

Limits: brokers before 3.8 do not know the request.
"""

from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeTopicPartitionsRequest

from counterpoise.kafka_admin.broker_client import BrokerClient
from counterpoise.kafka_admin.reading import raise_for
from counterpoise.model.cluster import TopicPartition

PARTITIONS_PER_PAGE = (
    2000  # a broker gives no more than its max.request.partition.size.limit, 2000 by default
)
_TOPICS_PER_REQUEST: Final = 500
_UNKNOWN_TOPIC: Final = 3


def list_eligible_leaders(
    broker_client: BrokerClient, topics: Sequence[str]
) -> dict[TopicPartition, tuple[int, ...]]:
    """See `ClusterReader.list_eligible_leaders`. Unknown topics are left out."""
    names = sorted(set(topics))
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for start in range(0, len(names), _TOPICS_PER_REQUEST):
        found |= _of(broker_client, names[start : start + _TOPICS_PER_REQUEST])
    return found


def _of(broker_client: BrokerClient, names: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    found: dict[TopicPartition, tuple[int, ...]] = {}
    cursor: Any = None
    while True:
        answer = broker_client.read(_request(names, cursor), "the eligible leader replicas")
        for topic in answer.topics:
            if topic.error_code == _UNKNOWN_TOPIC:
                continue
            raise_for(topic.error_code, None, f"the eligible leader replicas of topic {topic.name}")
            for p in topic.partitions:
                if p.eligible_leader_replicas:
                    found[TopicPartition(topic.name, p.partition_index)] = tuple(
                        p.eligible_leader_replicas
                    )
        if answer.next_cursor is None:
            return found
        cursor = answer.next_cursor


def _request(names: Sequence[str], cursor: Any) -> Any:
    """The topics in order of name, as a broker takes them, from where the page before ended."""
    topic_type = DescribeTopicPartitionsRequest.TopicRequest
    if cursor is None:
        return DescribeTopicPartitionsRequest(
            topics=[topic_type(name=name) for name in names],
            response_partition_limit=PARTITIONS_PER_PAGE,
        )
    return DescribeTopicPartitionsRequest(
        topics=[topic_type(name=name) for name in names if name >= cursor.topic_name],
        response_partition_limit=PARTITIONS_PER_PAGE,
        cursor=DescribeTopicPartitionsRequest.Cursor(
            topic_name=cursor.topic_name, partition_index=cursor.partition_index
        ),
    )
