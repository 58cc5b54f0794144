"""What is sent to read a cluster, and to find out what is permitted: none of it changes anything.

On real brokers, with a principal that may do everything: tests/integration/test_inspection.py.
"""

import types
from collections.abc import Sequence
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from counterpoise.kafka_admin.address_connection import read_metadata
from counterpoise.kafka_admin.broker_client import BrokerRequest
from counterpoise.kafka_admin.permissions import refused_operations
from counterpoise.kafka_admin.reading import describe_topics


class _SentError(Exception):
    """The requests are known: nobody has to answer them."""


class _Recorder:
    """A client of brokers that answer metadata with no topic, and nothing else."""

    request_timeout_seconds = 5.0

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def read(self, request: Any, *_: object) -> Any:
        self.sent.append(request)
        return types.SimpleNamespace(topics=[])

    def send(self, request: Any, _seconds: float) -> Any:
        self.sent.append(request)
        raise _SentError

    def read_each(self, requests: Sequence[BrokerRequest]) -> Any:
        self.sent += [request.request for request in requests]
        raise _SentError

    def forwarding_broker_id(self) -> int:
        return 1

    def pause(self, _attempt: int) -> None:
        return


@pytest.mark.parametrize("names", [None, ["orders", "a-topic-that-is-not-there"]])
def test_a_topic_that_is_asked_for_is_not_created(names: list[str] | None) -> None:
    client: Any = _Recorder()
    describe_topics(client, names)
    assert client.sent
    assert not any(request.allow_auto_topic_creation for request in client.sent)


def test_an_address_that_is_checked_creates_no_topic() -> None:
    connection: Any = _Recorder()
    with pytest.raises(_SentError):
        read_metadata(connection, ["a-topic-that-is-not-there"], 5.0)
    assert [request.allow_auto_topic_creation for request in connection.sent] == [False]


def test_what_is_permitted_is_tried_without_changing_anything() -> None:
    client: Any = _Recorder()
    with pytest.raises(_SentError):
        refused_operations(client, 1, ["orders"], ["orders"])

    def of(kind: type) -> list[Any]:
        return [request for request in client.sent if isinstance(request, kind)]

    config_changes = of(IncrementalAlterConfigsRequest)
    assert len(config_changes) == 2
    assert all(request.validate_only for request in config_changes)
    (cancel,) = of(AlterPartitionReassignmentsRequest)
    (election,) = of(ElectLeadersRequest)
    tried = [topic.name for topic in cancel.topics]
    assert [topic.topic for topic in election.topic_partitions] == tried
    assert tried != ["orders"]  # a topic that is nowhere
    assert all(not request.allow_auto_topic_creation for request in of(MetadataRequest))
