"""Brokers before 3.0 tell the committed offsets of one group in each request (KIP-709)."""

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse, ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from counterpoise.kafka_admin.broker_client import BrokerRequest
from counterpoise.kafka_admin.groups import describe_groups

OLD = 7  # the last version of OffsetFetch for one group
COMMITTED = {"nightly": {0: 12, 3: 7}, "shop": {0: 900}}


class _OldBroker:
    """Broker 1, as bytes over the network are read; partition 9 has no committed offset."""

    settings: Any = None

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def highest_version(self, *_: object) -> int:
        return OLD

    def read(self, *_: object) -> Any:
        broker = DescribeClusterResponse.DescribeClusterBroker(
            broker_id=1, host="kafka", port=9092, rack=None
        )
        response = DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            cluster_id="q1Sh",
            controller_id=1,
            brokers=[broker],
        )
        return DescribeClusterResponse.decode(response.encode(version=0), version=0)

    def read_each(self, requests: Sequence[BrokerRequest]) -> list[Any]:
        self.sent += [request.request for request in requests]
        return [self._response(request.request) for request in requests]

    def _response(self, request: Any) -> Any:
        if isinstance(request, ListGroupsRequest):
            listed = [
                ListGroupsResponse.ListedGroup(
                    group_id=name, protocol_type=protocol, group_state="Empty"
                )
                for name, protocol in (("shop", ""), ("nightly", "consumer"), ("sink", "connect"))
            ]
            response = ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=listed)
            return ListGroupsResponse.decode(response.encode(version=4), version=4)
        asked = OffsetFetchRequest.decode(request.encode(version=OLD), version=OLD)
        assert asked.topics is None, "those of all topics"
        topic_type = OffsetFetchResponse.OffsetFetchResponseTopic
        partitions = [
            topic_type.OffsetFetchResponsePartition(
                partition_index=partition, committed_offset=offset, metadata="", error_code=0
            )
            for partition, offset in {9: -1, **COMMITTED[asked.group_id]}.items()
        ]
        topics = [topic_type(name="orders", partitions=partitions)]
        found = OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=0)
        return OffsetFetchResponse.decode(found.encode(version=OLD), version=OLD)


def test_each_group_is_asked_for_by_itself() -> None:
    broker: Any = _OldBroker()
    found = describe_groups(broker)
    assert {group.group: group.commits for group in found[1]} == {
        name: {"orders": offsets} for name, offsets in COMMITTED.items()
    }
    assert len(broker.sent) == 1 + len(COMMITTED)
