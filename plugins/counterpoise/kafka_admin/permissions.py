"""Finds out which operations the cluster refuses to a principal, without changing anything.

    refused_operations(broker_client, 4, ["orders", "payments"], ["orders"])
    # {"elect leaders": "CLUSTER_AUTHORIZATION_FAILED: ... grant it with `kafka-acls.sh ...`"}
    refused_reads(broker_client)                    # of a connection that only reads

Config changes are only validated (`validate_only`); a cancellation and an election are requested
for a partition that does not exist, and whether every topic may be seen is asked with a topic that
does not exist. Brokers check permissions and policies before any of that.

Limits: a policy that refuses other values than the ones tried here is not found. With ZooKeeper
(before 4.0) brokers do not forward requests: the results are those of the controller.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    describe_error_code,
    is_refusal,
)
from counterpoise.kafka_admin.configs import alter_request, describe_request
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
from counterpoise.model.words import join_names

NO_SUCH_PARTITION: Final = TopicPartition("__counterpoise_probe", 0)
_TRIED_RATE: Final = "20000000"
# No error, unknown topic or partition, coordinator moved (3), group not found, election not needed,
# no reassignment in progress: the permission check was passed.
_ALLOWED: Final = frozenset({0, 3, 14, 15, 16, 69, 84, 85})
_ACLS: Final[Mapping[str, Acl]] = {**CHANGES, **READS}

_OF_TOPICS: Final = frozenset({SET_LISTS, READ_TOPICS, READ_TOPIC_CONFIGS})
_TOPICS_PER_REQUEST: Final = 2000

Trials = Sequence[tuple[str, BrokerRequest]]  # each with its operation


def refused_operations(
    broker_client: BrokerClient,
    broker_id: int,
    topics: Sequence[str],
    throttled_topics: Sequence[str],
) -> dict[str, str]:
    """See `ClusterAdmin.refused_operations`.

    Raises BrokerUnresponsiveError when a broker does not respond, and ClusterError for a response
    that says nothing about permissions (the cluster is electing a controller, say).
    """
    changes = _changes(broker_client, broker_id, throttled_topics)
    reads = _reads(broker_client, broker_id, topics)
    return _refused(broker_client, [*changes, *reads])


def refused_reads(broker_client: BrokerClient) -> dict[str, str]:
    """Return what is refused of what snapshots and audits read, each with the reason.

    Raises what `refused_operations` raises. Consumer groups are tried with one of them.
    """
    broker_id = broker_client.responding_broker_id()
    trials = list(_reads(broker_client, broker_id, [NO_SUCH_PARTITION.topic]))
    if group := group_trial(broker_client):
        trials.append((READ_GROUPS, group))
    return _refused(broker_client, trials)


def _refused(broker_client: BrokerClient, trials: Trials) -> dict[str, str]:
    responses = broker_client.read_each([request for _, request in trials])
    refused: dict[str, str] = {}
    for (operation, request), response in zip(trials, responses, strict=True):
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
            refused.setdefault(operation, reason)
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


def _changes(
    broker_client: BrokerClient, broker_id: int, topics: Sequence[str]
) -> Iterator[tuple[str, BrokerRequest]]:
    forwarding_id = broker_client.forwarding_broker_id()
    broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    rates = _validate_request([broker], RATE_KEYS, _TRIED_RATE)
    cancellation = reassignment_request(broker_client, {NO_SUCH_PARTITION: None}, False)
    election = election_request(broker_client, [NO_SUCH_PARTITION])
    yield SET_RATE, BrokerRequest(broker_id, rates, probes_first=True)
    for batch in _batches(topics):
        lists = _validate_request(_topic_resources(batch), LIST_KEYS, f"0:{broker_id}")
        yield SET_LISTS, BrokerRequest(forwarding_id, lists)
    yield REASSIGN, BrokerRequest(forwarding_id, cancellation)
    yield ELECT, BrokerRequest(forwarding_id, election)


def _reads(
    broker_client: BrokerClient, broker_id: int, topics: Sequence[str]
) -> Iterator[tuple[str, BrokerRequest]]:
    no_topics = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
        name=NO_SUCH_PARTITION.topic, partition_indexes=[NO_SUCH_PARTITION.partition]
    )
    reassignments = ListPartitionReassignmentsRequest(
        timeout_ms=int(broker_client.request_timeout_seconds * 1000), topics=[no_topics]
    )
    broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    broker_configs = describe_request([broker], RATE_KEYS)
    forwarding_id = broker_client.forwarding_broker_id()
    yield READ_CLUSTER, BrokerRequest(forwarding_id, reassignments)
    yield READ_BROKER_CONFIGS, BrokerRequest(broker_id, broker_configs)
    for batch in _batches(topics):
        topic_configs = describe_request(_topic_resources(batch), LIST_KEYS)
        yield READ_TOPICS, BrokerRequest(broker_id, _metadata_request(batch))
        yield READ_TOPIC_CONFIGS, BrokerRequest(broker_id, topic_configs)


def _batches(topics: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(topics), _TOPICS_PER_REQUEST):
        yield topics[begin : begin + _TOPICS_PER_REQUEST]


def _topic_resources(topics: Sequence[str]) -> list[ConfigResource]:
    return [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]


def _metadata_request(topics: Sequence[str]) -> MetadataRequest:
    named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


def _validate_request(
    resources: Sequence[ConfigResource], keys: tuple[str, ...], value: str
) -> Any:
    changes = {
        resource: [ConfigChange(resource, key, ConfigOperation.SET, value) for key in keys]
        for resource in resources
    }
    return alter_request(changes, validate_only=True)


# -- responses


def _refusal(broker_client: BrokerClient, operation: str, response: Any) -> str:
    """Return the first reason in a response; "" where the operation is allowed."""
    rows = list(_rows_of(operation, response))
    for row in rows:
        error_code, message = row.error_code, getattr(row, "error_message", None)
        if error_code in _ALLOWED or (operation in READS and not is_refusal(error_code)):
            continue
        reason = describe_error_code(error_code, message, _ACLS[operation], broker_client.settings)
        if error_code < 0 or kafka_errors.for_code(error_code).retriable:
            raise ClusterError(f'whether we may "{operation}": {reason}; try again')
        return _topics_refused(rows) + reason if operation in _OF_TOPICS else reason
    return ""


def _topics_refused(rows: Sequence[Any]) -> str:
    """Return `topic orders, payments: `, where some are refused and others are not; else ""."""
    refused = [row for row in rows if is_refusal(row.error_code)]
    if len(refused) in (0, len(rows)):
        return ""
    names = [getattr(row, "resource_name", None) or row.name for row in refused]
    return f"topic {join_names(sorted(names))}: "


def _rows_of(operation: str, response: Any) -> Iterator[Any]:
    """Yield everything in a response that has an error code."""
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
    yield from rows
