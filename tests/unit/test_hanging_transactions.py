"""Hanging transactions, of responses as brokers encode them: what hangs, and what is not known."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from counterpoise.errors import BrokerUnresponsiveError, ClusterError
from counterpoise.kafka_admin.broker_client import BrokerRequest
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.transactions import list_hanging
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import HangingTransactions, OpenTransaction
from counterpoise.model.kafka import PartitionDescription, TopicDescription

ORDERS: Final = TopicPartition("orders", 0)
STATE: Final = "__transaction_state"
HOUR: Final = 3600
LONGEST_MS: Final = 900_000
SETTINGS: Final = ConnectionSettings.parse({"bootstrap.servers": "kafka:9092"})
DENIED, TOPIC_DENIED, LOADING, UNKNOWN_ID = 53, 29, 14, 105


@dataclass
class _Brokers:
    """Broker 1 leads and coordinates everything. An open transaction is `age` seconds old."""

    age: float = HOUR
    ids: dict[int, str] = field(default_factory=dict)  # that coordinators list, by producer
    kept: tuple[TopicPartition, ...] = ()  # in which the coordinator is to end the transaction
    ends_meanwhile: bool = False
    trial_error: int = UNKNOWN_ID
    listing_error: int = 0
    producer_error: int = 0
    is_silent: bool = False
    state_leaders: list[int | None] = field(default_factory=lambda: [1, 1])  # before, after
    asked: list[type] = field(default_factory=list)
    settings: ConnectionSettings = SETTINGS

    def describe(self, names: Sequence[str] | None) -> Iterable[TopicDescription]:
        leaders: dict[str, int | None] = {STATE: self.state_leaders[bool(names)], "orders": 1}
        for name in names or leaders:
            partition = PartitionDescription(0, leaders[name], 4, (1,), (1,))
            yield TopicDescription(name, "", name == STATE, (partition,))

    def read(self, request: Any, what: str, broker_id: int | None = None) -> Any:
        if broker_id and self.is_silent:
            raise BrokerUnresponsiveError(f"{what}: broker {broker_id} does not respond")
        if broker_id:
            return self._response(request)
        broker_type = DescribeClusterResponse.DescribeClusterBroker
        broker = broker_type(broker_id=1, host="kafka", port=9092, rack=None)
        return _decoded(
            DescribeClusterResponse(
                throttle_time_ms=0,
                error_code=0,
                error_message=None,
                cluster_id="q1Sh",
                controller_id=1,
                brokers=[broker],
            )
        )

    def read_each(self, requests: Sequence[BrokerRequest]) -> list[Any]:
        return [self._response(request.request) for request in requests]

    def _response(self, request: Any) -> Any:
        self.asked.append(type(request))
        kinds: dict[type, Callable[[Any], Any]] = {
            DescribeProducersRequest: self._producers,
            ListTransactionsRequest: self._listed,
            DescribeTransactionsRequest: self._described,
        }
        return _decoded(kinds[type(request)](request))

    def _producers(self, request: Any) -> Any:
        topic_type = DescribeProducersResponse.TopicResponse
        partition_type = topic_type.PartitionResponse
        has_ended = self.ends_meanwhile and ListTransactionsRequest in self.asked
        open_one = partition_type.ProducerState(
            producer_id=4000,
            producer_epoch=2,
            last_sequence=0,
            last_timestamp=int((time.time() - self.age) * 1000),
            coordinator_epoch=-1,
            current_txn_start_offset=-1 if has_ended else 120,
        )
        return DescribeProducersResponse(
            throttle_time_ms=0,
            topics=[
                topic_type(
                    name=topic.name,
                    partitions=[
                        partition_type(
                            partition_index=number,
                            error_code=self.producer_error if topic.name == "orders" else 0,
                            error_message=None,
                            active_producers=self._active(topic.name, open_one),
                        )
                        for number in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ],
        )

    def _active(self, topic: str, open_one: Any) -> list[Any]:
        return [open_one] if topic == "orders" and not self.producer_error else []

    def _listed(self, request: Any) -> Any:
        state_type = ListTransactionsResponse.TransactionState
        assert request.producer_id_filters == [4000]
        return ListTransactionsResponse(
            throttle_time_ms=0,
            error_code=self.listing_error,
            unknown_state_filters=[],
            transaction_states=[
                state_type(transactional_id=name, producer_id=number, transaction_state="Ongoing")
                for number, name in self.ids.items()
            ],
        )

    def _described(self, request: Any) -> Any:
        state_type = DescribeTransactionsResponse.TransactionState
        topics = [
            state_type.TopicData(topic=key.topic, partitions=[key.partition]) for key in self.kept
        ]
        states = [
            state_type(
                error_code=0 if asked in self.ids.values() else self.trial_error,
                transactional_id=asked,
                transaction_state="Ongoing",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=0,
                producer_id=4000,
                producer_epoch=2,
                topics=topics,
            )
            for asked in request.transactional_ids
        ]
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)


def _decoded(response: Any) -> Any:
    return type(response).decode(response.encode(version=0), version=0)


def read(brokers: Any) -> HangingTransactions:
    return list_hanging(brokers, brokers.describe, LONGEST_MS)


def hanging(brokers: _Brokers) -> list[OpenTransaction]:
    return list(read(brokers).found)


KNOWN: Final = {4000: "shop-1"}


@pytest.mark.parametrize(
    ("brokers", "hangs"),
    [
        pytest.param(_Brokers(), True, id="no coordinator has its producer"),
        pytest.param(_Brokers(ids=KNOWN), True, id="the producer has no transaction there"),
        pytest.param(_Brokers(ids=KNOWN, kept=(ORDERS,)), False, id="the coordinator will end it"),
        pytest.param(
            _Brokers(ids=KNOWN, kept=(TopicPartition("orders", 1),)), True, id="in another one"
        ),
        pytest.param(_Brokers(ends_meanwhile=True), False, id="it has ended meanwhile"),
    ],
)
def test_what_no_coordinator_will_end_hangs(brokers: _Brokers, *, hangs: bool) -> None:
    assert hanging(brokers) == ([OpenTransaction(ORDERS, 120, 4000, 0)] if hangs else [])


def test_a_young_transaction_asks_no_coordinator() -> None:
    brokers = _Brokers(age=LONGEST_MS / 1000 - 10, trial_error=DENIED)
    assert hanging(brokers) == []
    assert set(brokers.asked) == {DescribeProducersRequest}


@pytest.mark.parametrize(
    ("brokers", "reason"),
    [
        (_Brokers(trial_error=DENIED), "--operation Describe --transactional-id '*'"),
        (_Brokers(listing_error=LOADING), "try again"),
        (_Brokers(is_silent=True), "broker 1 does not respond"),
        (_Brokers(state_leaders=[None, 1]), "a partition of __transaction_state has no leader"),
        (_Brokers(state_leaders=[1, 2]), "they moved meanwhile; try again"),
    ],
)
def test_where_a_coordinator_may_be_missing_nothing_is_told(brokers: _Brokers, reason: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read(brokers)
    assert "the coordinators of open transactions: " in str(caught.value)
    assert reason in str(caught.value)


def test_a_topic_that_may_not_be_read_is_named_with_the_permission() -> None:
    found = read(_Brokers(producer_error=TOPIC_DENIED))
    assert found.found == ()
    assert set(found.unread_topics) == {"orders"}
    assert "--operation Read --topic '*'" in found.unread_topics["orders"]
