"""Reassignments (KIP-455) and preferred leader elections (KIP-460).

    alter_reassignments(wire, {TopicPartition("orders", 0): (4, 2, 3), TopicPartition("orders", 1): None})

Unless the caller says that it may change, the number of replicas is guarded by the cluster itself
(KIP-860, Kafka 4.1 and later). For older brokers it is compared here before the request, so that
somebody else's change in between is not seen.

The request goes to a broker that answered something small just now, and the whole call ends within
WRITE_SECONDS.

Limits: one request per call; callers make the batches. Nothing is sent after WRITE_SECONDS, but
what is read before (of older brokers, or of ZooKeeper's controller) can make a call that gives up
last longer.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from counterpoise.errors import BrokerSilentError, ClusterError, UnknownOutcomeError
from counterpoise.kafka_admin.broker_client import (
    ATTEMPTS,
    Ask,
    BrokerClient,
    Failure,
    error_in_words,
    write_deadline,
)
from counterpoise.kafka_admin.configs import OUTCOME_UNKNOWN
from counterpoise.kafka_admin.liveness_probe import FINDING_SECONDS
from counterpoise.kafka_admin.reading import target_sizes
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults

Targets = Mapping[TopicPartition, tuple[int, ...] | None]

_PREFERRED: Final = 0
_NOT_CONTROLLER: Final = 41
_ELECTION_NOT_NEEDED: Final = 84
_GUARDED_VERSION: Final = 1


def alter_reassignments(
    broker_client: BrokerClient, targets: Targets, *, may_change_replication_factor: bool = False
) -> CallResults[TopicPartition]:
    """See `ClusterAdmin.alter_reassignments`.

    Raises UnknownOutcomeError when the answer was lost.
    """
    refused = {
        key: "the list of replicas is empty" for key, replicas in targets.items() if replicas == ()
    }
    left = {key: replicas for key, replicas in targets.items() if key not in refused}
    if not left:
        return CallResults((), refused)
    until = write_deadline()
    taker = broker_client.destination_id()
    is_guarded = (
        broker_client.highest_version(AlterPartitionReassignmentsRequest, taker) >= _GUARDED_VERSION
    )
    if not is_guarded and not may_change_replication_factor:
        changing = _with_another_size(broker_client, left)
        refused |= changing
        left = {key: replicas for key, replicas in left.items() if key not in changing}
        if not left:
            return CallResults((), refused)
    request = reassignment_request(broker_client, left, may_change_replication_factor)
    taker, answer = _write(broker_client, request, "reassignments", taker, until)
    accepted, errors = _sorted_out(
        (
            (topic.name, p.partition_index, p)
            for topic in answer.responses
            for p in topic.partitions
        ),
        "reassignments",
        taker,
    )
    return CallResults(accepted, refused | errors)


def reassignment_request(
    broker_client: BrokerClient, targets: Targets, may_change_replication_factor: bool
) -> Any:
    """AlterPartitionReassignments (KIP-455); None cancels."""
    topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition_type = topic_type.ReassignablePartition
    topics: dict[str, list[Any]] = {}
    for key, replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(key.topic, []).append(
            partition_type(partition_index=key.partition, replicas=wanted)
        )
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(broker_client.request_timeout_seconds * 1000),
        allow_replication_factor_change=may_change_replication_factor,
        topics=[
            topic_type(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )


def _with_another_size(broker_client: BrokerClient, targets: Targets) -> dict[TopicPartition, str]:
    """What a guarded request would refuse, in words like the controller's."""
    wanted = {key: len(replicas) for key, replicas in targets.items() if replicas is not None}
    return {
        key: f"INVALID_REPLICATION_FACTOR: it would change the replication factor from {size} to {wanted[key]}"
        for key, size in target_sizes(broker_client, wanted.keys()).items()
        if size != wanted[key]
    }


def elect_preferred_leaders(
    broker_client: BrokerClient, partitions: Sequence[TopicPartition]
) -> CallResults[TopicPartition]:
    """See `ClusterAdmin.elect_preferred_leaders`.

    Raises UnknownOutcomeError when the answer was lost.
    """
    if not partitions:
        return CallResults((), {})
    until = write_deadline()
    taker, answer = _write(
        broker_client,
        election_request(broker_client, partitions),
        "elections",
        broker_client.destination_id(),
        until,
    )
    accepted, errors = _sorted_out(
        (
            (r.topic, p.partition_id, p)
            for r in answer.replica_election_results
            for p in r.partition_result
        ),
        "elections",
        taker,
        also_fine=_ELECTION_NOT_NEEDED,
    )
    return CallResults(accepted, errors)


def election_request(broker_client: BrokerClient, partitions: Sequence[TopicPartition]) -> Any:
    """ElectLeaders (KIP-460) of preferred leaders."""
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
        min_version=1,  # version 0 knows no type of election
    )


def _write(
    broker_client: BrokerClient, request: Any, what: str, taker: int, until: float
) -> tuple[int, Any]:
    """The answer, and who gave it; somebody is asked again while it says that there is no
    controller: nothing was done.

    Raises BrokerSilentError when nothing was sent, or no controller was found.
    """
    for attempt in range(1, ATTEMPTS):
        answer = broker_client.write_each([Ask(taker, request)], until)[0]
        if isinstance(answer, Failure):
            if answer.was_sent:
                raise UnknownOutcomeError(
                    f"no answer to {what} sent to {broker_client.name_of(taker)} ({answer.reason}): they may be applied, "
                    "now or later. Look at the cluster again.",
                    broker_id=taker,
                )
            raise BrokerSilentError(
                f"{what}: nothing was sent to {broker_client.name_of(taker)}: {answer.reason}"
            )
        code = answer.error_code
        if code in OUTCOME_UNKNOWN:
            reason = error_in_words(code, getattr(answer, "error_message", None))
            raise UnknownOutcomeError(
                f"{what}: {reason}: they may be applied, now or later. Look at the cluster again.",
                broker_id=taker,
            )
        if code == _NOT_CONTROLLER and time.monotonic() < until - FINDING_SECONDS:
            broker_client.pause(attempt)
            taker = broker_client.destination_id()
            continue
        if code:
            error = BrokerSilentError if code == _NOT_CONTROLLER else ClusterError
            raise error(f"{what}: {error_in_words(code, getattr(answer, 'error_message', None))}")
        return taker, answer
    raise BrokerSilentError(
        f"{what}: no broker knows an active controller; try again when the cluster has elected one"
    )


def _sorted_out(
    rows: Iterable[tuple[str, int, Any]], what: str, taker: int, also_fine: int = 0
) -> tuple[tuple[TopicPartition, ...], dict[TopicPartition, str]]:
    accepted: list[TopicPartition] = []
    errors: dict[TopicPartition, str] = {}
    unknown: list[str] = []
    for topic, partition, result in rows:
        key = TopicPartition(topic, partition)
        if result.error_code in (0, also_fine):
            accepted.append(key)
            continue
        reason = error_in_words(result.error_code, result.error_message)
        if result.error_code in OUTCOME_UNKNOWN:
            unknown.append(f"{key}: {reason}")
        errors[key] = reason
    if unknown:
        raise UnknownOutcomeError(
            f"{what}: for {len(unknown)} partition(s) the cluster does not know what came of it, first {unknown[0]}",
            broker_id=taker,
        )
    return tuple(accepted), errors
