"""Finds out which operations the cluster refuses to a principal, without changing anything.

    refused_operations(broker_client, 4, "orders")
    # {"elect leaders": "CLUSTER_AUTHORIZATION_FAILED: ..."}

Config changes are only validated (`validate_only`); a cancellation and an election are requested
for a partition that does not exist. Brokers check permissions and policies before any of that.

Limits: a policy that refuses other values than the ones tried here is not found. With ZooKeeper
(before 4.0) brokers do not forward requests: the results are those of the controller.
"""

from collections.abc import Iterator
from typing import Any, Final

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerUnresponsiveError, ClusterError
from counterpoise.kafka_admin.altering import election_request, reassignment_request
from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    Failure,
    describe_error_code,
)
from counterpoise.kafka_admin.configs import alter_request
from counterpoise.kafka_admin.port import ELECT, REASSIGN, SET_LISTS, SET_RATE
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)

NO_SUCH_PARTITION: Final = TopicPartition("__counterpoise_probe", 0)
_TRIED_RATE: Final = "20000000"
# No error, unknown topic or partition, election not needed, no reassignment in progress: the
# permission check was passed.
_ALLOWED: Final = frozenset({0, 3, 84, 85})


def refused_operations(broker_client: BrokerClient, broker_id: int, topic: str) -> dict[str, str]:
    """See `ClusterAdmin.refused_operations`.

    Raises BrokerUnresponsiveError when a broker does not respond, and ClusterError for a response
    that says nothing about permissions (the cluster is electing a controller, say).
    """
    requests = _trial_requests(broker_client, broker_id, topic)
    responses = broker_client.read_each(list(requests.values()))
    refused: dict[str, str] = {}
    for (operation, request), response in zip(requests.items(), responses, strict=True):
        if not isinstance(response, Failure):
            reason = _refusal(operation, response)
        elif response.is_unresponsive:
            assert request.broker_id is not None
            broker = broker_client.name_of(request.broker_id)
            raise BrokerUnresponsiveError(
                f"not known whether the operator connection may {operation}: {broker} does not "
                f"respond: {response.reason}; try again when it does"
            )
        else:
            reason = response.reason
        if reason:
            refused[operation] = reason
    return refused


def _trial_requests(
    broker_client: BrokerClient, broker_id: int, topic: str
) -> dict[str, BrokerRequest]:
    forwarding_id = broker_client.forwarding_broker_id()
    broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    rates = _validate_request(broker, RATE_KEYS, _TRIED_RATE)
    topic_resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    lists = _validate_request(topic_resource, LIST_KEYS, f"0:{broker_id}")
    cancellation = reassignment_request(broker_client, {NO_SUCH_PARTITION: None}, False)
    election = election_request(broker_client, [NO_SUCH_PARTITION])
    return {
        SET_RATE: BrokerRequest(broker_id, rates, probes_first=True),
        SET_LISTS: BrokerRequest(forwarding_id, lists),
        REASSIGN: BrokerRequest(forwarding_id, cancellation),
        ELECT: BrokerRequest(forwarding_id, election),
    }


def _validate_request(resource: ConfigResource, keys: tuple[str, ...], value: str) -> Any:
    changes = [ConfigChange(resource, key, ConfigOperation.SET, value) for key in keys]
    return alter_request({resource: changes}, validate_only=True)


def _refusal(operation: str, response: Any) -> str:
    """Return the first reason in a response; "" where the operation is allowed."""
    for error_code, message in _errors(operation, response):
        if error_code in _ALLOWED:
            continue
        reason = describe_error_code(error_code, message)
        if error_code < 0 or kafka_errors.for_code(error_code).retriable:
            raise ClusterError(
                f"not known whether the operator connection may {operation}: {reason}; try again "
                "in a minute"
            )
        return reason
    return ""


def _errors(operation: str, response: Any) -> Iterator[tuple[int, str | None]]:
    """Yield code and message of everything in a response that has an error code."""
    if operation in (SET_RATE, SET_LISTS):
        rows: list[Any] = list(response.responses)
    elif operation == REASSIGN:
        rows = [response, *(p for topic in response.responses for p in topic.partitions)]
    else:
        topics = response.replica_election_results
        rows = [response, *(p for topic in topics for p in topic.partition_result)]
    for row in rows:
        yield row.error_code, getattr(row, "error_message", None)
