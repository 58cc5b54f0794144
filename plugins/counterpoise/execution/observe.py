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
from counterpoise.execution.throttling.targets import Configs
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests, find_active_requests
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import (
    EVERY_BROKER,
    ConfigResource,
    ConfigResourceType,
    PartitionDescription,
    Reassignment,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.run import Submitted
from counterpoise.model.run_progress import Condition, RunProgress, VersionReading

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader
    from counterpoise.ledger import Ledger

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
    touched_keys = journal.touched()
    rows, of_others = (
        journal.submitted(only_open=True),
        ledger.open_submitted(scope.plan.cluster, except_of=scope.run_id),
    )
    concerned = frozenset(scope.resources)
    resources = {*concerned, *(key.resource for key in touched_keys), EVERY_BROKER}
    with ThreadPoolExecutor(1) as pool:
        pending_partitions = pool.submit(read_partitions, reader, scope.plan)
        configs, versions = _read_settings(reader, resources, live_broker_ids, previous, now)
        partitions = _with_unlisted(pending_partitions.result(), rows, previous, now)
    unresponsive_broker_ids = _unresponsive(live_broker_ids, concerned - configs.keys(), versions)
    copies = copies_of(partitions, live_broker_ids - unresponsive_broker_ids)
    log_dirs = read_log_dirs(reader, copies, previous, now, scope.disk_limit_percent)
    of_earlier_runs = [
        row for row in of_others if _is_target(partitions, row.topic_partition, row.target)
    ]
    taken_over = [row for row in of_earlier_runs if _is_planned(scope.plan, row)]
    return Observation(
        observed_at=now,
        cluster_id=cluster.cluster_id,
        live_broker_ids=live_broker_ids,
        partitions=partitions.observed(),
        configs=configs,
        submitted=grouped((row.topic_partition, row) for row in (*rows, *taken_over)),
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
            foreign_reassignments=partitions.foreign_reassignments(
                {row.topic_partition for row in of_earlier_runs}
            ),
            of_earlier_runs=frozenset(row.topic_partition for row in of_earlier_runs),
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
    partitions: Partitions, rows: Sequence[Submitted], previous: RunProgress | None, now: datetime
) -> Partitions:
    """Return them with the reassignments of this run that replicas alone show: the lists, or the
    topics, are behind. What stays so is somebody else's doing.
    """
    if not partitions.unlisted:
        return partitions
    since = previous.conditions.get(Condition.UNLISTED, {}) if previous else {}
    # Of many, only some are kept: the others have lasted as long as those, for all that is known.
    others_since = min(since.values()) if len(since) >= MAX_SUBJECTS else now
    ours = {(row.topic_partition, row.target) for row in rows}

    def is_behind(tp: TopicPartition, shown: Reassignment) -> bool:
        lasts = now - since.get(str(tp), others_since)
        return (tp, shown.target) in ours and lasts < UNLISTED_PATIENCE

    behind = {tp: shown for tp, shown in partitions.unlisted.items() if is_behind(tp, shown)}
    return replace(partitions, reassignments={**partitions.reassignments, **behind})


def _is_target(partitions: Partitions, tp: TopicPartition, target: tuple[int, ...]) -> bool:
    """Return whether a partition is being reassigned to these replicas."""
    reassignment = partitions.reassignments.get(tp)
    return reassignment is not None and reassignment.target == target


def _is_planned(plan: RebalancePlan, row: Submitted) -> bool:
    """Return whether a plan wants the same of a partition as an earlier run."""
    tp = row.topic_partition
    move = plan.moves_by_topic.get(tp.topic, {}).get(tp.partition)
    return move is not None and row.target in reassignment_targets(move)


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
