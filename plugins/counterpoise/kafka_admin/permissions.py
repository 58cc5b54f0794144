"""Finds out which operations the cluster refuses to a principal, without changing anything.

    refused_operations(broker_client, 4, "orders")
    # {"elect leaders": "CLUSTER_AUTHORIZATION_FAILED: ... grant it with `kafka-acls.sh ...`"}
    refused_reads(broker_client)                    # of a connection that only reads

Config changes are only validated (`validate_only`); a cancellation and an election are requested
for a partition that does not exist, and whether every topic may be seen is asked with a topic that
does not exist. Brokers check permissions and policies before any of that.

Limits: a policy that refuses other values than the ones tried here is not found. With ZooKeeper
(before 4.0) brokers do not forward requests: the results are those of the controller.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.protocol.admin import ListPartitionReassignmentsRequest
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import BrokerUnresponsiveError, ClusterError
from counterpoise.kafka_admin.altering import election_request, reassignment_request
from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    Failure,
)
from counterpoise.kafka_admin.configs import alter_request, describe_request
from counterpoise.kafka_admin.error_codes import describe_error_code, is_refusal
from counterpoise.kafka_admin.groups import group_trial
from counterpoise.model.acl import (
    CHANGES,
    ELECT,
    READ_BROKER_CONFIGS,
    READ_CLUSTER,
    READ_GROUPS,
    READ_TOPIC_CONFIGS,
    READ_TOPICS,
    READS,
    REASSIGN,
    SET_LISTS,
    SET_RATE,
    Acl,
)
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
# No error, unknown topic or partition, coordinator moved (3), group not found, election not needed,
# no reassignment in progress: the permission check was passed.
_ALLOWED: Final = frozenset({0, 3, 14, 15, 16, 69, 84, 85})
_ACLS: Final[Mapping[str, Acl]] = {**CHANGES, **READS}

Trials = Mapping[str, BrokerRequest]  # by operation


def refused_operations(broker_client: BrokerClient, broker_id: int, topic: str) -> dict[str, str]:
    """See `ClusterAdmin.refused_operations`.

    Raises BrokerUnresponsiveError when a broker does not respond, and ClusterError for a response
    that says nothing about permissions (the cluster is electing a controller, say).
    """
    changes = _changes(broker_client, broker_id, topic)
    reads = _reads(broker_client, broker_id, topic)
    return _refused(broker_client, {**changes, **reads})


def refused_reads(broker_client: BrokerClient) -> dict[str, str]:
    """Return what is refused of what snapshots and audits read, each with the reason.

    Raises what `refused_operations` raises. Consumer groups are tried with one of them.
    """
    broker_id = broker_client.responding_broker_id()
    trials = _reads(broker_client, broker_id, NO_SUCH_PARTITION.topic)
    if group := group_trial(broker_client):
        trials[READ_GROUPS] = group
    return _refused(broker_client, trials)


def _refused(broker_client: BrokerClient, trials: Trials) -> dict[str, str]:
    responses = broker_client.read_each(list(trials.values()))
    refused: dict[str, str] = {}
    for (operation, request), response in zip(trials.items(), responses, strict=True):
        if not isinstance(response, Failure):
            reason = _refusal(broker_client, operation, response)
        elif response.is_unresponsive:
            assert request.broker_id is not None
            broker = broker_client.name_of(request.broker_id)
            message = f'whether we may "{operation}": {broker} does not respond: {response.reason}'
            raise BrokerUnresponsiveError(message)
        else:
            reason = response.reason
        if reason:
            refused[operation] = reason
    return _without_included(refused)


def _without_included(refused: Mapping[str, str]) -> dict[str, str]:
    """Leave out what is granted together with something else that is refused."""
    return {
        operation: reason
        for operation, reason in refused.items()
        if not any(
            _ACLS[other] != _ACLS[operation] and _ACLS[other].includes(_ACLS[operation])
            for other in refused
        )
    }


# -- requests


def _changes(broker_client: BrokerClient, broker_id: int, topic: str) -> dict[str, BrokerRequest]:
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


def _reads(broker_client: BrokerClient, broker_id: int, topic: str) -> dict[str, BrokerRequest]:
    no_topics = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
        name=NO_SUCH_PARTITION.topic, partition_indexes=[NO_SUCH_PARTITION.partition]
    )
    reassignments = ListPartitionReassignmentsRequest(
        timeout_ms=int(broker_client.request_timeout_seconds * 1000), topics=[no_topics]
    )
    topics = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
    )
    broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    topic_resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    forwarding_id = broker_client.forwarding_broker_id()
    return {
        READ_CLUSTER: BrokerRequest(forwarding_id, reassignments),
        READ_BROKER_CONFIGS: BrokerRequest(broker_id, describe_request([broker], RATE_KEYS)),
        READ_TOPICS: BrokerRequest(broker_id, topics),
        READ_TOPIC_CONFIGS: BrokerRequest(broker_id, describe_request([topic_resource], LIST_KEYS)),
    }


def _validate_request(resource: ConfigResource, keys: tuple[str, ...], value: str) -> Any:
    changes = [ConfigChange(resource, key, ConfigOperation.SET, value) for key in keys]
    return alter_request({resource: changes}, validate_only=True)


# -- responses


def _refusal(broker_client: BrokerClient, operation: str, response: Any) -> str:
    """Return the first reason in a response; "" where the operation is allowed."""
    for error_code, message in _errors(operation, response):
        if error_code in _ALLOWED or (operation in READS and not is_refusal(error_code)):
            continue
        reason = describe_error_code(error_code, message, _ACLS[operation], broker_client)
        if error_code < 0 or kafka_errors.for_code(error_code).retriable:
            raise ClusterError(f'whether we may "{operation}": {reason}; try again')
        return reason
    return ""


def _errors(operation: str, response: Any) -> Iterator[tuple[int, str | None]]:
    """Yield code and message of everything in a response that has an error code."""
    rows: list[Any]
    if operation in (SET_RATE, SET_LISTS):
        rows = list(response.responses)
    elif operation in (READ_BROKER_CONFIGS, READ_TOPIC_CONFIGS):
        rows = list(response.results)
    elif operation == READ_TOPICS:
        rows = list(response.topics)
    elif operation == READ_GROUPS:
        rows = list(response.groups)
    elif operation == READ_CLUSTER:
        rows = [response]
    elif operation == REASSIGN:
        rows = [response, *(p for topic in response.responses for p in topic.partitions)]
    else:
        topics = response.replica_election_results
        rows = [response, *(p for topic in topics for p in topic.partition_result)]
    for row in rows:
        yield row.error_code, getattr(row, "error_message", None)
