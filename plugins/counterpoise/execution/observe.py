"""One observation: everything that a decision needs, read from the cluster and the ledger.

    observation = observe(reader, ledger, scope, now, previous)

Only reads. `previous` is what the observation before has kept, None for the first one. What moves
and what is set are read side by side, since a run over many brokers waits for little else than
calls.
"""

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observation import (
    ClusterConditions,
    Observation,
    ObservedPartition,
)
from counterpoise.execution.readings import Copies, read_log_dirs, read_versions
from counterpoise.execution.throttling.targets import Configs, broker_resource
from counterpoise.kafka_admin.port import (
    ClusterReader,
    read_throttle_keys,
    read_topics_and_named,
)
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests, find_active_requests
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import (
    EVERY_BROKER,
    ConfigResource,
    ConfigResourceType,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment_targets import is_between_targets, reassignment_targets
from counterpoise.model.run import Submission
from counterpoise.model.run_progress import RunProgress, VersionReading

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Ledger

_MIN_ISR: Final = "min.insync.replicas"
_MAX_STALE_READS: Final = 10
STALE_READ_SECONDS: Final = 0.2  # as long as the metadata of a broker that is up is behind


@dataclass(frozen=True, slots=True)
class ObservationScope:
    """Whose run is observed, and what of the cluster belongs to it."""

    run_id: str
    plan: RebalancePlan
    resources: Sequence[ConfigResource]  # whose throttle keys the plan may change
    disk_limit_percent: int


def observe(
    reader: ClusterReader,
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
        pending_partitions = pool.submit(_read_partitions, reader, scope.plan)
        configs, versions = _read_settings(reader, resources, live_broker_ids, previous, now)
        partitions = pending_partitions.result()
    unresponsive_broker_ids = _unresponsive(live_broker_ids, concerned - configs.keys(), versions)
    copies = _copies(partitions, live_broker_ids - unresponsive_broker_ids)
    log_dirs = read_log_dirs(reader, copies, previous, now, scope.disk_limit_percent)
    submissions |= _submissions_of_arrived(journal, scope.plan, partitions)
    late_reassignments = _late_reassignments(ledger, scope, partitions, submissions)
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
        unmeasured_broker_ids=_copying_brokers(partitions) - log_dirs.keys(),
        registered_broker_ids=cluster.registered_broker_ids,
        min_insync_replicas=_min_insync_replicas(reader, _topics_losing_replicas(scope.plan)),
        topic_ids=partitions.topic_ids,
        active_requests=_active_requests(ledger, scope, now),
        conditions=replace(
            _read_unhealthy(reader, partitions.unhealthy, live_broker_ids),
            foreign_reassignments=partitions.foreign_reassignments(late_reassignments),
            late_reassignments=late_reassignments,
            full_log_dirs={b: reading.full for b, reading in log_dirs.items() if reading.full},
            versions=versions,
            moves_in_flight_elsewhere=ledger.moves_in_flight_elsewhere(scope.run_id),
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
    reader: ClusterReader, moves: Sequence[Move], observation: Observation
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


@dataclass(frozen=True, slots=True)
class _Partitions:
    planned: Mapping[TopicPartition, tuple[str, PartitionDescription]]  # with the topic's id
    unhealthy: Mapping[TopicPartition, PartitionDescription]  # outside the plan: offline, or URP
    reassignments: Mapping[TopicPartition, Reassignment]
    topic_ids: Mapping[str, str]  # of the plan's topics

    def observed(self) -> dict[TopicPartition, ObservedPartition]:
        return {
            tp: ObservedPartition(topic_id, description, self.reassignments.get(tp))
            for tp, (topic_id, description) in self.planned.items()
        }

    def foreign_reassignments(
        self, late: Mapping[TopicPartition, str]
    ) -> tuple[TopicPartition, ...]:
        """Return the reassignments outside the plan that are not late ones of ours."""
        known = self.planned.keys() | late.keys()
        return tuple(sorted(tp for tp in self.reassignments if tp not in known))


def _active_requests(ledger: "Ledger", scope: ObservationScope, now: datetime) -> ActiveRequests:
    requests = ledger.requests(scope.plan.cluster, scope.run_id)
    return find_active_requests(requests, now)


def _submissions_of_arrived(
    journal: "Journal", plan: RebalancePlan, partitions: _Partitions
) -> dict[TopicPartition, Submission]:
    """Return all submissions where somebody moved again what had arrived; else {}."""
    if journal.finished().isdisjoint(_not_as_planned(plan, partitions)):
        return {}
    return journal.submissions()


def _not_as_planned(plan: RebalancePlan, partitions: _Partitions) -> set[TopicPartition]:
    """Return the plan's partitions that are moving, or have other replicas than planned."""
    planned, reassignments = partitions.planned, partitions.reassignments
    return {
        move.topic_partition
        for move in plan.moves
        if move.topic_partition in planned
        and (
            planned[move.topic_partition][1].replicas != move.replicas_after
            or move.topic_partition in reassignments
        )
    }


def _late_reassignments(
    ledger: "Ledger",
    scope: ObservationScope,
    partitions: _Partitions,
    submissions: Mapping[TopicPartition, Submission],
) -> dict[TopicPartition, str]:
    """Return reassignments that an earlier run of ours submitted, and that came after its end.

    Each with the id of that run. One may take the place of a reassignment of this run.
    """
    targets = {tp: reassignment.target for tp, reassignment in partitions.reassignments.items()}
    for move in scope.plan.moves:
        target = targets.get(move.topic_partition)
        submission = submissions.get(move.topic_partition)
        if target is None or submission is None or submission.is_at_rest:
            continue
        if target in (*reassignment_targets(move), submission.target):
            del targets[move.topic_partition]
    if not targets:
        return {}
    return ledger.submitted_by_ended_runs(scope.plan.cluster, targets)


def _read_partitions(reader: ClusterReader, plan: RebalancePlan) -> _Partitions:
    """Read topics, and reassignments before and after them; what either list names is moving.

    The lists come from the controller, topics from a broker whose metadata may be older: a
    partition that is on no list and yet has the replicas of two targets together is read again.
    """

    def is_stale(partitions: _Partitions) -> bool:
        at_rest = [
            move
            for move in plan.moves
            if move.topic_partition in partitions.planned
            and move.topic_partition not in partitions.reassignments
        ]
        return any(
            is_between_targets(move, partitions.planned[move.topic_partition][1].replicas)
            for move in at_rest
        )

    planned_topics = {move.topic for move in plan.moves}
    for _ in range(_MAX_STALE_READS):
        reassignments_before = reader.list_reassignments()
        topics = read_topics_and_named(reader, planned_topics)
        planned, unhealthy = _planned_and_unhealthy(topics, plan)
        reassignments = {**reassignments_before, **reader.list_reassignments()}
        topic_ids = {t.topic: t.topic_id for t in topics if t.topic in planned_topics}
        partitions = _Partitions(planned, unhealthy, reassignments, topic_ids)
        if not is_stale(partitions):
            break
        time.sleep(STALE_READ_SECONDS)
    return partitions


def _planned_and_unhealthy(
    topics: Iterable[TopicDescription], plan: RebalancePlan
) -> tuple[
    dict[TopicPartition, tuple[str, PartitionDescription]],
    dict[TopicPartition, PartitionDescription],
]:
    """Return what the plan moves, and what of the rest is offline or under-replicated.

    Nothing else is kept: there may be a million partitions.
    """
    planned_numbers: dict[str, set[int]] = {}
    for move in plan.moves:
        planned_numbers.setdefault(move.topic, set()).add(move.partition)
    planned, unhealthy = {}, {}
    for topic in topics:
        numbers = planned_numbers.get(topic.topic, set())
        for description in topic.partitions:
            if description.partition in numbers:
                tp = TopicPartition(topic.topic, description.partition)
                planned[tp] = (topic.topic_id, description)
            elif description.leader is None or len(description.isr) < len(description.replicas):
                unhealthy[TopicPartition(topic.topic, description.partition)] = description
    return planned, unhealthy


def _read_settings(
    reader: ClusterReader,
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
    return {
        move.topic for move in plan.moves if len(move.replicas_after) < len(move.replicas_before)
    }


def _min_insync_replicas(
    reader: ClusterReader, topics: Set[str], *, skip_refused: bool = False
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
    reader: ClusterReader,
    unhealthy: Mapping[TopicPartition, PartitionDescription],
    live_broker_ids: Set[int],
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
        under_replicated=_under_replicated(unhealthy, live_broker_ids),
    )


def _under_replicated(
    unhealthy: Mapping[TopicPartition, PartitionDescription], live_broker_ids: Set[int]
) -> dict[str, int]:
    """Return the leaders of partitions that have a live replica outside the ISR."""
    leaders = {}
    for tp, description in unhealthy.items():
        out_of_sync = set(description.replicas) - set(description.isr)
        if description.leader is not None and out_of_sync & live_broker_ids:
            leaders[str(tp)] = description.leader
    return leaders


def _copying_brokers(partitions: _Partitions) -> frozenset[int]:
    """Return the brokers between which a move of the plan copies."""
    copying: set[int] = set()
    for tp, reassignment in partitions.reassignments.items():
        if not reassignment.adding or tp not in partitions.planned:
            continue
        copying.update(reassignment.adding)
        leader = partitions.planned[tp][1].leader
        if leader is not None:
            copying.add(leader)
    return frozenset(copying)


def _copies(partitions: _Partitions, responsive_broker_ids: Set[int]) -> Copies:
    """Return the replicas of what is reassigned, by broker; none where nobody responds."""
    reassignments = partitions.reassignments.items()
    by_replica = grouped((b, tp) for tp, moving in reassignments for b in moving.replicas)
    by_added = grouped((b, tp) for tp, moving in reassignments for b in moving.adding)
    return Copies(_copying_brokers(partitions) & responsive_broker_ids, by_added, by_replica)
