"""Reassignments (KIP-455) and preferred leader elections (KIP-460).

    targets = {TopicPartition("orders", 0): (4, 2, 3), TopicPartition("orders", 1): None}
    alter_reassignments(broker_client, targets)

Unless the caller allows another number of replicas, the cluster itself refuses one (KIP-860, Kafka
4.1 and later). For older brokers it is compared here before the request, so a change by somebody
else in between is not noticed.

A request goes to a broker that has just responded to a probe, and the whole call ends within
WRITE_SECONDS.

Limits: one request per call; callers make the batches. Nothing is sent after WRITE_SECONDS, but
reads before it (with older brokers, or ZooKeeper) can make a failing call last longer.
"""

import math
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from counterpoise.errors import BrokerUnresponsiveError, ClusterError, UnknownOutcomeError
from counterpoise.kafka_admin.broker_client import (
    MAX_ATTEMPTS,
    MAX_SELECTION_SECONDS,
    BrokerClient,
    BrokerRequest,
    Failure,
    describe_error_code,
    write_deadline,
)
from counterpoise.kafka_admin.configs import OUTCOME_UNKNOWN
from counterpoise.kafka_admin.reading import describe_topics, list_reassignments
from counterpoise.model.acl import ALTER_CLUSTER
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults, Targets
from counterpoise.model.words import pluralize

_PREFERRED: Final = 0
_NOT_CONTROLLER: Final = 41
_ELECTION_NOT_NEEDED: Final = 84
_MIN_GUARDED_VERSION: Final = 1


def alter_reassignments(
    broker_client: BrokerClient,
    targets: Targets,
    *,
    may_change_replication_factor: bool = False,
    deadline: float = math.inf,
) -> CallResults[TopicPartition]:
    """See `ClusterAdmin.alter_reassignments`.

    Raises UnknownOutcomeError when the response was lost.
    """
    refused = {
        key: "the list of replicas is empty" for key, replicas in targets.items() if replicas == ()
    }
    remaining = _without(targets, refused)
    if not remaining:
        return CallResults((), refused)
    deadline = write_deadline(deadline)
    broker_id = broker_client.forwarding_broker_id()
    version = broker_client.highest_version(AlterPartitionReassignmentsRequest, broker_id)
    if version < _MIN_GUARDED_VERSION and not may_change_replication_factor:
        refused |= _with_other_replication_factor(broker_client, remaining)
        remaining = _without(targets, refused)
        if not remaining:
            return CallResults((), refused)
    request = reassignment_request(broker_client, remaining, may_change_replication_factor)
    broker_id, response = _write(broker_client, request, "reassignments", broker_id, deadline)
    results = [
        (TopicPartition(topic.name, p.partition_index), p)
        for topic in response.responses
        for p in topic.partitions
    ]
    accepted, errors = _accepted_and_errors(results, "reassignments", broker_id, broker_client)
    return CallResults(accepted, refused | errors)


def _without(targets: Targets, refused: Collection[TopicPartition]) -> Targets:
    return {key: replicas for key, replicas in targets.items() if key not in refused}


def reassignment_request(
    broker_client: BrokerClient, targets: Targets, may_change_replication_factor: bool
) -> Any:
    """Return an AlterPartitionReassignments request (KIP-455); a target of None cancels."""
    topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition_type = topic_type.ReassignablePartition
    topics: dict[str, list[Any]] = {}
    for key, target in targets.items():
        replicas = None if target is None else list(target)
        partition = partition_type(partition_index=key.partition, replicas=replicas)
        topics.setdefault(key.topic, []).append(partition)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(broker_client.request_timeout_seconds * 1000),
        allow_replication_factor_change=may_change_replication_factor,
        topics=[topic_type(name=name, partitions=rows) for name, rows in topics.items()],
    )


def _with_other_replication_factor(
    broker_client: BrokerClient, targets: Targets
) -> dict[TopicPartition, str]:
    """Return what a newer cluster would refuse, with a reason like the controller's."""
    wanted = {key: len(replicas) for key, replicas in targets.items() if replicas is not None}
    return {
        key: "INVALID_REPLICATION_FACTOR: it would change the replication factor "
        f"from {present} to {wanted[key]}"
        for key, present in _replication_factors(broker_client, wanted.keys()).items()
        if present != wanted[key]
    }


def _replication_factors(
    broker_client: BrokerClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return how many replicas each partition has, or will have after an ongoing reassignment.

    Unknown partitions are left out.
    """
    reassignments = list_reassignments(broker_client)
    counts: dict[TopicPartition, int] = {}
    for topic in describe_topics(broker_client, [partition.topic for partition in partitions]):
        for partition in topic.partitions:
            key = TopicPartition(topic.topic, partition.partition)
            ongoing = reassignments.get(key)
            counts[key] = len(partition.replicas if ongoing is None else ongoing.target)
    return {key: counts[key] for key in partitions if key in counts}


def elect_preferred_leaders(
    broker_client: BrokerClient, partitions: Sequence[TopicPartition], deadline: float = math.inf
) -> CallResults[TopicPartition]:
    """See `ClusterAdmin.elect_preferred_leaders`.

    Raises UnknownOutcomeError when the response was lost.
    """
    if not partitions:
        return CallResults((), {})
    deadline = write_deadline(deadline)
    request = election_request(broker_client, partitions)
    broker_id = broker_client.forwarding_broker_id()
    broker_id, response = _write(broker_client, request, "elections", broker_id, deadline)
    results = [
        (TopicPartition(topic.topic, p.partition_id), p)
        for topic in response.replica_election_results
        for p in topic.partition_result
    ]
    accepted, errors = _accepted_and_errors(
        results, "elections", broker_id, broker_client, also_accepted=_ELECTION_NOT_NEEDED
    )
    return CallResults(accepted, errors)


def election_request(broker_client: BrokerClient, partitions: Sequence[TopicPartition]) -> Any:
    """Return an ElectLeaders request (KIP-460) for preferred leaders."""
    topic_type = ElectLeadersRequest.TopicPartitions
    topics: dict[str, list[int]] = {}
    for key in dict.fromkeys(partitions):
        topics.setdefault(key.topic, []).append(key.partition)
    return ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[
            topic_type(topic=name, partitions=numbers) for name, numbers in topics.items()
        ],
        timeout_ms=int(broker_client.request_timeout_seconds * 1000),
        min_version=1,  # version 0 has no type of election
    )


def _write(
    broker_client: BrokerClient, request: Any, what: str, broker_id: int, deadline: float
) -> tuple[int, Any]:
    """Return the broker that responded, and its response.

    While the response is that there is no controller, nothing was done, and another broker is
    asked. Raises BrokerUnresponsiveError when nothing was sent or no controller was found, and
    UnknownOutcomeError when the response was lost.
    """
    for attempt in range(1, MAX_ATTEMPTS):
        result = broker_client.write_each([BrokerRequest(broker_id, request)], deadline)[0]
        if isinstance(result, Failure):
            raise _failure_error(result, what, broker_id, broker_client)
        error_code = result.error_code
        if not error_code:
            return broker_id, result
        message = getattr(result, "error_message", None)
        reason = describe_error_code(error_code, message, ALTER_CLUSTER, broker_client.settings)
        if error_code in OUTCOME_UNKNOWN:
            message = f"{what}: {reason}: they may be applied, now or later. Check the cluster."
            raise UnknownOutcomeError(message, broker_id=broker_id)
        if error_code != _NOT_CONTROLLER:
            raise ClusterError(f"{what}: {reason}")
        if time.monotonic() >= deadline - MAX_SELECTION_SECONDS:
            raise BrokerUnresponsiveError(f"{what}: {reason}; try again in a minute")
        broker_client.pause(attempt)
        broker_id = broker_client.forwarding_broker_id()
    raise BrokerUnresponsiveError(
        f"{what}: no broker knows an active controller; try again when the cluster has elected one"
    )


def _failure_error(
    failure: Failure, what: str, broker_id: int, broker_client: BrokerClient
) -> UnknownOutcomeError | BrokerUnresponsiveError:
    broker = broker_client.name_of(broker_id)
    if failure.was_sent:
        message = (
            f"no answer to {what} sent to {broker} ({failure.reason}): "
            "they may be applied, now or later. Check the cluster."
        )
        return UnknownOutcomeError(message, broker_id=broker_id)
    return BrokerUnresponsiveError(
        f"{what}: nothing was sent to {broker}: {failure.reason}; try again when it responds"
    )


def _accepted_and_errors(
    results: Iterable[tuple[TopicPartition, Any]],
    what: str,
    broker_id: int,
    broker_client: BrokerClient,
    also_accepted: int = 0,
) -> tuple[tuple[TopicPartition, ...], dict[TopicPartition, str]]:
    """Return accepted partitions, and refused ones with the reason.

    Raises UnknownOutcomeError when the cluster does not know the outcome of one.
    """
    accepted: list[TopicPartition] = []
    errors: dict[TopicPartition, str] = {}
    unknown: list[str] = []
    for key, result in results:
        if result.error_code in (0, also_accepted):
            accepted.append(key)
            continue
        errors[key] = describe_error_code(
            result.error_code, result.error_message, ALTER_CLUSTER, broker_client.settings
        )
        if result.error_code in OUTCOME_UNKNOWN:
            unknown.append(f"{key}: {errors[key]}")
    if unknown:
        message = (
            f"{what}: the cluster does not know the outcome for "
            f"{pluralize(len(unknown), 'partition')}, first {unknown[0]}: they may be applied, now "
            "or later. Check the cluster."
        )
        raise UnknownOutcomeError(message, broker_id=broker_id)
    return tuple(accepted), errors
