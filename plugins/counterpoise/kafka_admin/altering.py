"""Reassignments (KIP-455) and preferred leader elections (KIP-460).

    alter_reassignments(wire, {TopicPartition("orders", 0): (4, 2, 3), TopicPartition("orders", 1): None})

Unless the caller says that it may change, the number of replicas is guarded by the cluster itself (KIP-860, Kafka 4.1
and later). For older brokers it is compared here before the request, so that somebody else's change in between is not
seen.

Limits: one request per call; callers make the batches.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from counterpoise.errors import BrokerSilentError, ClusterError, UnknownOutcomeError
from counterpoise.kafka_admin.configs import OUTCOME_UNKNOWN
from counterpoise.kafka_admin.reading import target_sizes
from counterpoise.kafka_admin.wire import ATTEMPTS, Failure, Wire, error_in_words
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults

Targets = Mapping[TopicPartition, tuple[int, ...] | None]

_PREFERRED: Final = 0
_NOT_CONTROLLER: Final = 41
_ELECTION_NOT_NEEDED: Final = 84
_GUARDED_VERSION: Final = 1


def alter_reassignments(
    wire: Wire, targets: Targets, *, may_change_replication_factor: bool = False
) -> CallResults[TopicPartition]:
    """See `ClusterAdmin.alter_reassignments`. Raises UnknownOutcomeError when the answer was lost."""
    refused = {key: "the list of replicas is empty" for key, replicas in targets.items() if replicas == ()}
    left = {key: replicas for key, replicas in targets.items() if key not in refused}
    if not left:
        return CallResults((), refused)
    controller = wire.controller_id()
    is_guarded = wire.highest_version(AlterPartitionReassignmentsRequest, controller) >= _GUARDED_VERSION
    if not is_guarded and not may_change_replication_factor:
        changing = _with_another_size(wire, left)
        refused |= changing
        left = {key: replicas for key, replicas in left.items() if key not in changing}
        if not left:
            return CallResults((), refused)
    request = _reassignment_request(wire, left, may_change_replication_factor)
    answer = _write(wire, request, "reassignments", controller)
    accepted, errors = _sorted_out(
        ((topic.name, p.partition_index, p) for topic in answer.responses for p in topic.partitions), "reassignments"
    )
    return CallResults(accepted, refused | errors)


def _reassignment_request(wire: Wire, targets: Targets, may_change_replication_factor: bool) -> Any:
    topic_type = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition_type = topic_type.ReassignablePartition
    topics: dict[str, list[Any]] = {}
    for key, replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(key.topic, []).append(partition_type(partition_index=key.partition, replicas=wanted))
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(wire.request_timeout_seconds * 1000),
        allow_replication_factor_change=may_change_replication_factor,
        topics=[topic_type(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _with_another_size(wire: Wire, targets: Targets) -> dict[TopicPartition, str]:
    """What a guarded request would refuse, in words like the controller's."""
    wanted = {key: len(replicas) for key, replicas in targets.items() if replicas is not None}
    return {
        key: f"INVALID_REPLICATION_FACTOR: it would change the replication factor from {size} to {wanted[key]}"
        for key, size in target_sizes(wire, wanted.keys()).items()
        if size != wanted[key]
    }


def elect_preferred_leaders(wire: Wire, partitions: Sequence[TopicPartition]) -> CallResults[TopicPartition]:
    """See `ClusterAdmin.elect_preferred_leaders`. Raises UnknownOutcomeError when the answer was lost."""
    if not partitions:
        return CallResults((), {})
    topic_type = ElectLeadersRequest.TopicPartitions
    topics: dict[str, list[int]] = {}
    for key in dict.fromkeys(partitions):
        topics.setdefault(key.topic, []).append(key.partition)
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[topic_type(topic=name, partitions=numbers) for name, numbers in topics.items()],
        timeout_ms=int(wire.request_timeout_seconds * 1000),
        min_version=1,  # version 0 knows no type of election
    )
    answer = _write(wire, request, "elections", wire.controller_id())
    accepted, errors = _sorted_out(
        ((r.topic, p.partition_id, p) for r in answer.replica_election_results for p in r.partition_result),
        "elections",
        also_fine=_ELECTION_NOT_NEEDED,
    )
    return CallResults(accepted, errors)


def _write(wire: Wire, request: Any, what: str, controller: int) -> Any:
    """The answer of the controller, found anew while the one asked says that it is none: it did nothing then."""
    for attempt in range(1, ATTEMPTS):
        answer = wire.write_each([(controller, request)])[0]
        if isinstance(answer, Failure):
            if answer.was_sent:
                raise UnknownOutcomeError(
                    f"no answer to {what} sent to {wire.name_of(controller)} ({answer.reason}): they may be applied, "
                    "now or later. Look at the cluster again."
                )
            raise BrokerSilentError(f"{what}: nothing was sent to {wire.name_of(controller)}: {answer.reason}")
        code = answer.error_code
        if code in OUTCOME_UNKNOWN:
            reason = error_in_words(code, getattr(answer, "error_message", None))
            raise UnknownOutcomeError(
                f"{what}: {reason}: they may be applied, now or later. Look at the cluster again."
            )
        if code != _NOT_CONTROLLER:
            break
        wire.pause(attempt)
        controller = wire.controller_id()
    if code:
        raise ClusterError(f"{what}: {error_in_words(code, getattr(answer, 'error_message', None))}")
    return answer


def _sorted_out(
    rows: Iterable[tuple[str, int, Any]], what: str, also_fine: int = 0
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
            f"{what}: for {len(unknown)} partition(s) the cluster does not know what came of it, first {unknown[0]}"
        )
    return tuple(accepted), errors
