"""One observation: everything that a decision needs, read from the cluster and the ledger.

    observation = observe(reader, ledger, scope, now, previous)

Only reads. `previous` is what the observation before has kept, None for the first one. What moves
and what is set are read side by side, since a run over many brokers waits for little else than
calls.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.execution.conditions import MAX_SUBJECTS, UNLISTED_PATIENCE
from counterpoise.execution.observation import Observation
from counterpoise.execution.observed_cluster import ClusterConditions
from counterpoise.execution.partition_reads import (
    Partitions,
    copies_of,
    copying_brokers,
    read_partitions,
)
from counterpoise.execution.readings import read_log_dirs, read_versions
from counterpoise.execution.throttling.targets import Configs, broker_resource
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests, find_active_requests
from counterpoise.model.kafka import (
    EVERY_BROKER,
    ConfigResource,
    ConfigResourceType,
    PartitionDescription,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.run import Submission
from counterpoise.model.run_progress import Condition, RunProgress, VersionReading

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader
    from counterpoise.ledger import Journal, Ledger

_MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class ObservationScope:
    """Whose run is observed, and what of the cluster belongs to it."""

    run_id: str
    plan: RebalancePlan
    resources: Sequence[ConfigResource]  # whose throttle keys the plan may change
    disk_limit_percent: int


def observe(
    reader: "ClusterReader",
    ledger: "Ledger",
    scope: ObservationScope,
    now: datetime,
    previous: RunProgress | None,
) -> Observation:
    """Read the cluster and the ledger once. Raises what the reader and the ledger raise."""
    journal = ledger.journal(scope.run_id)
    cluster = reader.describe_cluster()
    live_broker_ids = cluster.live_broker_ids
    touched_keys, submissions = journal.touched(), journal.unfinished_submissions()
    concerned = {*scope.resources, *_unanswering_brokers(submissions.values(), live_broker_ids)}
    resources = {*concerned, *(key.resource for key in touched_keys), EVERY_BROKER}
    with ThreadPoolExecutor(1) as pool:
        pending_partitions = pool.submit(read_partitions, reader, scope.plan)
        configs, versions = _read_settings(reader, resources, live_broker_ids, previous, now)
        partitions = _with_unlisted(pending_partitions.result(), submissions, previous, now)
    unresponsive_broker_ids = _unresponsive(live_broker_ids, concerned - configs.keys(), versions)
    copies = copies_of(partitions, live_broker_ids - unresponsive_broker_ids)
    log_dirs = read_log_dirs(reader, copies, previous, now, scope.disk_limit_percent)
    submissions |= _submissions_of_arrived(journal, scope.plan, partitions)
    late_reassignments = _late_reassignments(ledger, scope, partitions, submissions, now)
    return Observation(
        observed_at=now,
        cluster_id=cluster.cluster_id,
        live_broker_ids=live_broker_ids,
        partitions=partitions.observed(),
        configs=configs,
        submissions=submissions,
        election_attempts=journal.election_attempts(at_least=2),
        touched_keys=touched_keys,
        log_dirs=log_dirs,
        unresponsive_broker_ids=unresponsive_broker_ids,
        unlisted=tuple(sorted(partitions.unlisted)),
        unmeasured_broker_ids=copying_brokers(partitions) - log_dirs.keys(),
        registered_broker_ids=cluster.registered_broker_ids,
        min_insync_replicas=_min_insync_replicas(reader, _topics_losing_replicas(scope.plan)),
        topic_ids=partitions.topic_ids,
        active_requests=_active_requests(ledger, scope, now),
        conditions=replace(
            _read_unhealthy(reader, partitions.unhealthy),
            foreign_reassignments=partitions.foreign_reassignments(late_reassignments),
            late_reassignments=late_reassignments,
            late_cancelled=_late_cancelled(ledger, scope, partitions, submissions),
            full_log_dirs={b: reading.full for b, reading in log_dirs.items() if reading.full},
            versions=versions,
        ),
    )


def _unresponsive(
    live_broker_ids: frozenset[int],
    without_configs: Iterable[ConfigResource],
    versions: Mapping[int, VersionReading],
) -> frozenset[int]:
    """Return the live brokers whose configs or versions were asked for in vain."""
    unread = {int(resource.name) for resource in without_configs if resource.is_broker}
    return live_broker_ids & unread | (live_broker_ids - versions.keys())


def _unanswering_brokers(
    submissions: Iterable[Submission], live_broker_ids: frozenset[int]
) -> set[ConfigResource]:
    """Return the brokers that were sent a call and did not answer it: all where a process died
    before it could record which one that was.
    """
    late = [submission for submission in submissions if submission.may_come_late]
    if any(submission.may_be_held_by_any for submission in late):
        return {broker_resource(broker_id) for broker_id in live_broker_ids}
    return {broker_resource(s.asked_broker_id) for s in late if s.asked_broker_id is not None}


def changed_moves(
    reader: "ClusterReader", moves: Sequence[Move], observation: Observation
) -> tuple[Move, ...]:
    """Return those of the moves whose partitions are not as they were observed.

    Read right before a call: between an observation and what follows from it a process may have
    been stopped, and somebody else may have moved a partition meanwhile.
    """
    reassignments = reader.list_reassignments()
    topics = reader.describe_topics(sorted({move.topic for move in moves}))
    present = {
        TopicPartition(topic.topic, partition.partition): (topic.topic_id, partition.replicas)
        for topic in topics
        for partition in topic.partitions
    }

    def is_changed(move: Move) -> bool:
        observed = observation.partitions.get(move.topic_partition)
        if observed is None:
            return True
        as_observed = observed.topic_id, observed.description.replicas
        is_as_observed = present.get(move.topic_partition) == as_observed
        return not is_as_observed or (
            reassignments.get(move.topic_partition) != observed.reassignment
        )

    return tuple(filter(is_changed, moves))


def _active_requests(ledger: "Ledger", scope: ObservationScope, now: datetime) -> ActiveRequests:
    requests = ledger.requests(scope.plan.cluster, scope.run_id)
    return find_active_requests(requests, now)


def _with_unlisted(
    partitions: Partitions,
    submissions: Mapping[TopicPartition, Submission],
    previous: RunProgress | None,
    now: datetime,
) -> Partitions:
    """Return them with the reassignments of this run that replicas alone show: the lists, or the
    topics, are behind. What stays so is somebody else's doing.
    """
    since = previous.conditions.get(Condition.UNLISTED, {}) if previous else {}
    # Of many, only some are kept: the others have lasted as long as those, for all that is known.
    others_since = min(since.values()) if len(since) >= MAX_SUBJECTS else now

    def is_behind(tp: TopicPartition) -> bool:
        submission = submissions.get(tp)
        if submission is None or not submission.is_under_way(now):
            return False
        return now - since.get(str(tp), others_since) < UNLISTED_PATIENCE

    behind = {tp: shown for tp, shown in partitions.unlisted.items() if is_behind(tp)}
    return replace(partitions, reassignments={**partitions.reassignments, **behind})


def _submissions_of_arrived(
    journal: "Journal", plan: RebalancePlan, partitions: Partitions
) -> dict[TopicPartition, Submission]:
    """Return all submissions where somebody moved again what had arrived; else {}."""

    def is_as_planned(tp: TopicPartition) -> bool:
        move, partition = _move_of(plan, tp), partitions.planned.get(tp)
        if move is None or partition is None:
            return True  # its topic is gone
        has_arrived = partition.description.replicas == move.replicas_after
        return has_arrived and tp not in partitions.reassignments

    return {} if all(map(is_as_planned, journal.finished())) else journal.submissions()


def _move_of(plan: RebalancePlan, tp: TopicPartition) -> Move | None:
    return plan.moves_by_topic.get(tp.topic, {}).get(tp.partition)


def _late_reassignments(
    ledger: "Ledger",
    scope: ObservationScope,
    partitions: Partitions,
    submissions: Mapping[TopicPartition, Submission],
    now: datetime,
) -> dict[TopicPartition, str]:
    """Return reassignments that an earlier run of ours submitted, and that came after its end.

    Each with the id of that run. One may take the place of a reassignment of this run.
    """
    targets = {tp: reassignment.target for tp, reassignment in partitions.reassignments.items()}

    def is_of_this_run(tp: TopicPartition, target: tuple[int, ...]) -> bool:
        move, submission = _move_of(scope.plan, tp), submissions.get(tp)
        if move is None or submission is None:
            return False
        if submission.is_at_rest and not submission.is_under_way(now):
            return False
        return target in (*reassignment_targets(move), submission.target)

    of_others = {tp: target for tp, target in targets.items() if not is_of_this_run(tp, target)}
    if not of_others:
        return {}
    return ledger.submitted_by_ended_runs(scope.plan.cluster, of_others)


def _late_cancelled(
    ledger: "Ledger",
    scope: ObservationScope,
    partitions: Partitions,
    submissions: Mapping[TopicPartition, Submission],
) -> frozenset[TopicPartition]:
    """Return the partitions that this run has never submitted, and whose replicas the cancel of an
    earlier run's reassignment may have left in another order.
    """
    changed = {
        move.topic_partition
        for move in partitions.in_between
        if move.topic_partition not in submissions
    }
    return frozenset(changed and changed & ledger.late_cancelled(scope.plan.cluster))


def _read_settings(
    reader: "ClusterReader",
    resources: set[ConfigResource],
    live_broker_ids: frozenset[int],
    previous: RunProgress | None,
    now: datetime,
) -> tuple[Configs, Mapping[int, VersionReading]]:
    """Read throttle keys, and the versions of live brokers; without those that do not respond.

    Side by side: a broker that does not respond costs its deadline once and not three times.
    """
    readable = [
        resource
        for resource in resources
        if resource.is_topic or resource == EVERY_BROKER or int(resource.name) in live_broker_ids
    ]
    with ThreadPoolExecutor(1) as pool:
        versions = pool.submit(read_versions, reader, live_broker_ids, previous, now)
        return read_throttle_keys(reader, readable), versions.result()


def _topics_losing_replicas(plan: RebalancePlan) -> set[str]:
    """Return topics with a lowered replication factor.

    Kafka itself lowers it below min.insync.replicas without a warning.
    """
    if not plan.lowers_replication_factor:
        return set()
    return {
        move.topic for move in plan.moves if len(move.replicas_after) < len(move.replicas_before)
    }


def _min_insync_replicas(
    reader: "ClusterReader", topics: Set[str], *, skip_refused: bool = False
) -> dict[str, int]:
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(topics)]
    configs = reader.describe_configs(resources, [_MIN_ISR], skip_refused=skip_refused)
    values = {resource.name: config.get(_MIN_ISR) for resource, config in configs.items()}
    return {
        topic: int(value.value)
        for topic, value in values.items()
        if value is not None and value.value
    }


def _read_unhealthy(
    reader: "ClusterReader", unhealthy: Mapping[TopicPartition, PartitionDescription]
) -> ClusterConditions:
    """Return what of the cluster outside the plan takes no writes with acks=all (it is offline, or
    under its min ISR), and what lacks replicas in sync.

    Of topics whose min.insync.replicas may not be read, the first is not known.
    """
    with_leader = {
        tp.topic for tp, description in unhealthy.items() if description.leader is not None
    }
    min_isr = _min_insync_replicas(reader, with_leader, skip_refused=True)

    def is_unavailable(tp: TopicPartition) -> bool:
        description = unhealthy[tp]
        return description.leader is None or len(description.isr) < min_isr.get(tp.topic, 1)

    return ClusterConditions(
        unavailable_partitions=tuple(str(tp) for tp in sorted(unhealthy) if is_unavailable(tp)),
        unreadable_topics=tuple(sorted(with_leader - min_isr.keys())),
        under_replicated={
            str(tp): description
            for tp, description in unhealthy.items()
            if len(description.isr) < len(description.replicas)
        },
    )
