"""Hanging transactions: open in the log of a partition, and no coordinator will end them (KIP-664).

    list_hanging(broker_client, describe_topics, 900_000)

Every broker is asked for what it coordinates: looking for a coordinator would create the topic of
the transactions. What none of them will end hangs if it is still open afterwards.

Coordinators leave out transactional ids that may not be described, without notice. So one that does
not exist has to be allowed before anything counts as hanging.

Limits: a denied id looks like one that no coordinator has; the age is by the producer's clock.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

from counterpoise.errors import ClusterError, RetriableClusterError
from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    Failure,
    describe_error_code,
    is_refusal,
    raise_for,
)
from counterpoise.kafka_admin.reading import UNKNOWN_TOPIC, live_or_named_brokers
from counterpoise.model.acl import DESCRIBE_TRANSACTIONAL_IDS, READ_RECORDS
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import HangingTransactions, OpenTransaction
from counterpoise.model.kafka import TopicDescription

_STATE_TOPIC: Final = "__transaction_state"
_COORDINATORS: Final = "the coordinators of open transactions"
_NO_SUCH_ID: Final = "__counterpoise_probe"
_NOT_FOUND: Final = 105  # of a transactional id: it expired since it was listed
_PARTITIONS_PER_REQUEST: Final = 500  # each may have many producers

_Describe = Callable[[Sequence[str] | None], Iterable[TopicDescription]]
_Leaders = Mapping[TopicPartition, int | None]


def list_hanging(
    broker_client: BrokerClient, describe: _Describe, longest_ms: int
) -> HangingTransactions:
    """See `ClusterReader.list_hanging_transactions`."""
    topics = tuple(describe(None))
    leaders = {
        TopicPartition(topic.topic, partition.partition): partition.leader
        for topic in topics
        for partition in topic.partitions
    }
    first = _open_transactions(broker_client, leaders)
    longest_ago_ms = time.time() * 1000 - longest_ms
    old = [one for one in first.found if one.last_record_ms < longest_ago_ms]
    if not old:
        return HangingTransactions((), first.unread_topics)
    before = _coordinators(topics)
    coordinated = _coordinated(broker_client, sorted({one.producer_id for one in old}))
    if _coordinators(describe([_STATE_TOPIC])) != before:
        raise RetriableClusterError(f"{_COORDINATORS}: they moved meanwhile; try again")
    left = [one for one in old if (one.producer_id, one.partition) not in coordinated]
    places = {one.partition: leaders[one.partition] for one in left}
    again = _open_transactions(broker_client, places)
    hanging = tuple(one for one in left if one in again.found)
    return HangingTransactions(hanging, {**first.unread_topics, **again.unread_topics})


def _open_transactions(broker_client: BrokerClient, leaders: _Leaders) -> HangingTransactions:
    """Return all open transactions, and the topics of which a partition could not be read."""
    unread = {key.topic: "no leader" for key, leader in leaders.items() if leader is None}
    requests = list(_producer_requests(leaders))
    found: list[OpenTransaction] = []
    for request, response in zip(requests, broker_client.read_each(requests), strict=True):
        if isinstance(response, Failure):
            reason = f"broker {request.broker_id}: {response.reason}"
            unread |= dict.fromkeys((topic.name for topic in request.request.topics), reason)
            continue
        for topic in response.topics:
            for row in topic.partitions:
                key, code = TopicPartition(topic.name, row.partition_index), row.error_code
                if code and code != UNKNOWN_TOPIC:  # that one was deleted since
                    settings = broker_client.settings
                    unread[topic.name] = describe_error_code(code, None, READ_RECORDS, settings)
                for one in row.active_producers:
                    place = (key, one.current_txn_start_offset, one.producer_id)
                    if one.current_txn_start_offset >= 0:
                        found.append(OpenTransaction(*place, one.last_timestamp))
    return HangingTransactions(tuple(sorted(found)), unread)


def _producer_requests(leaders: _Leaders) -> Iterator[BrokerRequest]:
    topic_type = DescribeProducersRequest.TopicRequest
    led = ((leader, key) for key, leader in sorted(leaders.items()) if leader is not None)
    for leader, keys in grouped(led).items():
        for start in range(0, len(keys), _PARTITIONS_PER_REQUEST):
            numbers = grouped(keys[start : start + _PARTITIONS_PER_REQUEST])
            topics = [topic_type(name=name, partition_indexes=n) for name, n in numbers.items()]
            yield BrokerRequest(leader, DescribeProducersRequest(topics=topics), probes_first=True)


def _coordinated(
    broker_client: BrokerClient, producer_ids: Sequence[int]
) -> set[tuple[int, TopicPartition]]:
    """Return the producers, each with a partition in which a coordinator will end its transaction.

    Raises ClusterError where a coordinator does not respond, or may have left out something.
    """
    coordinated: set[tuple[int, TopicPartition]] = set()
    listing = ListTransactionsRequest(state_filters=[], producer_id_filters=producer_ids)
    for broker_id in live_or_named_brokers(broker_client, None):
        listed = broker_client.read(listing, _COORDINATORS, broker_id)
        raise_for(listed.error_code, None, _COORDINATORS)
        ids = [_NO_SUCH_ID, *(row.transactional_id for row in listed.transaction_states)]
        request = DescribeTransactionsRequest(transactional_ids=ids)
        for row in broker_client.read(request, _COORDINATORS, broker_id).transaction_states:
            is_trial = row.transactional_id == _NO_SUCH_ID and not is_refusal(row.error_code)
            if not is_trial and row.error_code != _NOT_FOUND:
                acl, settings = DESCRIBE_TRANSACTIONAL_IDS, broker_client.settings
                raise_for(row.error_code, None, _COORDINATORS, acl, settings)
                keys = (TopicPartition(t.topic, p) for t in row.topics for p in t.partitions)
                coordinated.update((row.producer_id, key) for key in keys)
    return coordinated


def _coordinators(topics: Iterable[TopicDescription]) -> list[tuple[int | None, ...]]:
    """Return the leaders of the partitions in which coordinators keep the transactions."""
    kept = [p for topic in topics if topic.topic == _STATE_TOPIC for p in topic.partitions]
    if any(partition.leader is None for partition in kept):
        raise ClusterError(f"{_COORDINATORS}: a partition of {_STATE_TOPIC} has no leader")
    return [(partition.partition, partition.leader, partition.leader_epoch) for partition in kept]
