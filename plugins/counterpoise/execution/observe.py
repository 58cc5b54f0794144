"""One observation: everything that a decision needs, read from the cluster and the ledger.

    observation = observe(reader, ledger, scope, now, previous)

Only reads. `previous` is what the observation before has kept, None for the first one. What moves
and what is set are read side by side, since a run over many brokers waits for little else than
calls.

The lists of reassignments come from the controller, topics from a broker whose metadata may be
older; for a moment after the controller has changed, a list may be older as well. What contradicts
itself is read again.

A broker answers over a connection of its own: to ask 200 brokers are 200 connections, and logins.
Log dirs and versions are asked in rotation, 20 brokers at an observation. Those without a reading
are asked at once: all when a run is opened, and one that was not live, or did not respond, at the
observation before. No reading of log dirs gets older than a minute where observations are 15 s
apart.

Example: of 50 brokers that copy, read at 12:00:00, an observation at 12:00:10 asks brokers 1 to 20,
one at 12:00:20 brokers 21 to 40, and one at 12:00:30 brokers 41 to 50 and, again, 1 to 10.
"""

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observation import ClusterConditions, Observation, ObservedPartition
from counterpoise.execution.throttling.targets import (
    Configs,
    copied_partitions,
    topic_resource,
)
from counterpoise.kafka_admin.combined_reads import read_throttle_keys, read_topics_and_named
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests, find_active_requests
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import (
    EVERY_BROKER,
    LIST_KEYS,
    BrokerVersion,
    ConfigResource,
    ConfigResourceType,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import is_as_if_moving, reassignment_targets
from counterpoise.model.run import Submitted
from counterpoise.model.run_progress import (
    LogDirReading,
    RunProgress,
    VersionReading,
)

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader
    from counterpoise.ledger import Ledger

_MIN_ISR: Final = "min.insync.replicas"
# The metadata of a broker that is up is some 0.2 s behind; after a failover a list is for seconds.
STALE_READ_PAUSES: Final = (0.2, 0.4, 0.8, 1.6, 2.0)


@dataclass(frozen=True, slots=True)
class ObservationScope:
    """Whose run is observed, and what of the cluster belongs to it."""

    run_id: str
    plan: RebalancePlan
    resources: Sequence[ConfigResource]  # whose throttle keys the plan may change
    disk_limit_percent: int


@dataclass(frozen=True, slots=True)
class Partitions:
    planned: Mapping[TopicPartition, ObservedPartition]  # without reassignments
    unhealthy: Mapping[TopicPartition, PartitionDescription]  # outside the plan: offline, or URP
    reassignments: Mapping[TopicPartition, Reassignment]
    topic_ids: Mapping[str, str]  # of the plan's topics
    copied_outside: frozenset[TopicPartition]  # of the plan, by whomever

    def observed(self) -> dict[TopicPartition, ObservedPartition]:
        moving = {
            tp: self.planned[tp]._replace(reassignment=reassignment)
            for tp, reassignment in self.reassignments.items()
            if tp in self.planned
        }
        return {**self.planned, **moving}

    def outside_the_plan(self) -> tuple[TopicPartition, ...]:
        """Return the reassignments outside the plan."""
        return tuple(sorted(tp for tp in self.reassignments if tp not in self.planned))


@dataclass(frozen=True, slots=True)
class Copies:
    """The replicas of moves in flight, by broker: those that are added, and all of them."""

    broker_ids: Set[int]  # which send or receive
    adding: Mapping[int, Sequence[TopicPartition]]
    replicas: Mapping[int, Sequence[TopicPartition]]


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
    owned_keys = ledger.open_keys(scope.plan.cluster)
    rows, of_others = (
        journal.submitted(only_open=True),
        ledger.open_submitted(scope.plan.cluster, except_of=scope.run_id),
    )
    concerned = frozenset(scope.resources)
    of_run = (key.resource for key in owned_keys if key.run_id == scope.run_id)
    resources = {*concerned, *of_run, EVERY_BROKER}
    with ThreadPoolExecutor(1) as pool:
        pending_partitions = pool.submit(read_partitions, reader, scope.plan)
        configs, versions = _read_settings(reader, resources, live_broker_ids, previous, now)
        partitions = pending_partitions.result()
    unresponsive_broker_ids = _unresponsive(live_broker_ids, concerned - configs.keys(), versions)
    used_topics = {topic_resource(tp.topic) for tp in partitions.copied_outside} - configs.keys()
    if used_topics:
        lists = reader.describe_configs(sorted(used_topics), LIST_KEYS, skip_refused=True)
        configs = {**configs, **lists}
    copies = copies_of(partitions, live_broker_ids - unresponsive_broker_ids)
    log_dirs = read_log_dirs(reader, copies, previous, now, scope.disk_limit_percent)
    taken_over = [
        row
        for row in of_others
        if _is_target(partitions, row.topic_partition, row.target) and _is_planned(scope.plan, row)
    ]
    return Observation(
        run_id=scope.run_id,
        observed_at=now,
        cluster_id=cluster.cluster_id,
        live_broker_ids=live_broker_ids,
        partitions=partitions.observed(),
        configs=configs,
        submitted=grouped((row.topic_partition, row) for row in (*rows, *taken_over)),
        owned_keys=owned_keys,
        log_dirs=log_dirs,
        unresponsive_broker_ids=unresponsive_broker_ids,
        unmeasured_broker_ids=copying_brokers(partitions) - log_dirs.keys(),
        registered_broker_ids=cluster.registered_broker_ids,
        min_insync_replicas=_min_insync_replicas(reader, _topics_losing_replicas(scope.plan)),
        topic_ids=partitions.topic_ids,
        active_requests=_active_requests(ledger, scope, now),
        conditions=replace(
            _read_unhealthy(reader, partitions.unhealthy),
            foreign_reassignments=partitions.outside_the_plan(),
            full_log_dirs={b: reading.full for b, reading in log_dirs.items() if reading.full},
            versions=versions,
        ),
        copied_outside=partitions.copied_outside,
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


_BROKERS_AT_ONCE: Final = 20
_MAX_AGE: Final = timedelta(seconds=45)  # at the next observation it is a minute


def read_log_dirs(
    reader: "ClusterReader",
    copies: Copies,
    previous: RunProgress | None,
    now: datetime,
    limit_percent: int,
) -> dict[int, LogDirReading]:
    """Return a reading of each broker that copies, but for those that were asked in vain.

    Raises what the reader raises.
    """
    before = (
        {int(name): reading for name, reading in previous.readings.log_dirs.items()}
        if previous
        else {}
    )
    read_at = {broker_id: reading.read_at for broker_id, reading in before.items()}
    asked_ids = _to_ask(copies.broker_ids, read_at, now, _MAX_AGE)
    described = reader.describe_log_dirs(asked_ids) if asked_ids else ()
    readings = {b: before[b] for b in copies.broker_ids - set(asked_ids)}
    for broker_id, log_dirs in grouped((d.broker_id, d) for d in described).items():
        sizes = _sizes(log_dirs, copies.replicas.get(broker_id, ()))
        adding = [str(tp) for tp in copies.adding.get(broker_id, ()) if str(tp) in sizes]
        earlier = before.get(broker_id) or _before_the_copies(adding, previous)
        speeds = _speeds({partition: sizes[partition] for partition in adding}, earlier, now)
        full = [log_dir for log_dir in log_dirs if _is_full(log_dir, limit_percent)]
        offline = [f"broker {broker_id} {one.path}" for one in log_dirs if one.error is not None]
        readings[broker_id] = LogDirReading(
            now,
            sizes,
            speeds,
            ", ".join(map(_full_in_words, full)),
            _beside(full, sizes),
            ", ".join(offline),
        )
    return readings


def _to_ask(
    broker_ids: Iterable[int],
    read_at: Mapping[int, datetime],
    now: datetime,
    max_age: timedelta = timedelta.max,
) -> list[int]:
    """Return whom to ask: those without a reading, those with an old one, and the next in turn."""

    def age(broker_id: int) -> timedelta:
        return now - read_at[broker_id] if broker_id in read_at else timedelta.max

    in_turn = sorted(sorted(broker_ids), key=age, reverse=True)
    due = sum(age(broker_id) >= max_age for broker_id in in_turn)
    return sorted(in_turn[: max(due, _BROKERS_AT_ONCE)])


def _sizes(
    log_dirs: Iterable[LogDirDescription], partitions: Iterable[TopicPartition]
) -> dict[str, int]:
    """Return the bytes of the replicas of these partitions, in whichever dir they are."""
    partitions = list(partitions)
    return {
        str(tp): log_dir.sizes[tp]
        for log_dir in log_dirs
        for tp in partitions
        if tp in log_dir.sizes
    }


def _before_the_copies(adding: Iterable[str], previous: RunProgress | None) -> LogDirReading | None:
    """Return the reading of a broker before its first copies: nothing, at the observation before.

    None where a copy was in flight then already.
    """
    if previous is None or not previous.arrived_bytes.keys().isdisjoint(adding):
        return None
    return LogDirReading(previous.observed_at, {})


def _speeds(
    sizes: Mapping[str, int], before: LogDirReading | None, now: datetime
) -> dict[str, int]:
    """Return the bytes per second since the reading before, by partition.

    10 MB at 12:00:00 and 30 MB at 12:00:20 are 1 MB/s.
    """
    if before is None or now <= before.read_at:
        return {}
    seconds = (now - before.read_at).total_seconds()
    return {
        partition: round(max(0, size - before.sizes.get(partition, 0)) / seconds)
        for partition, size in sizes.items()
    }


def _used_percent(log_dir: LogDirDescription) -> float:
    """Return how much of its file system is used; 0 where that is not known."""
    if not log_dir.total_bytes or log_dir.usable_bytes is None:
        return 0.0
    return 100 - 100 * log_dir.usable_bytes / log_dir.total_bytes


def _is_full(log_dir: LogDirDescription, limit_percent: int) -> bool:
    return _used_percent(log_dir) > limit_percent


def _full_in_words(log_dir: LogDirDescription) -> str:
    return f"broker {log_dir.broker_id} {log_dir.path} ({_used_percent(log_dir):.0f} % used)"


def _beside(full: Sequence[LogDirDescription], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return, where some log dirs are full, those of these partitions that lie in others."""
    in_full = {str(tp) for log_dir in full for tp in (*log_dir.sizes, *log_dir.arriving)}
    return tuple(sorted(sizes.keys() - in_full)) if full else ()


def read_versions(
    reader: "ClusterReader",
    live_broker_ids: Set[int],
    previous: RunProgress | None,
    now: datetime,
) -> dict[int, VersionReading]:
    """Return the version of each live broker, but for those that were asked in vain."""
    before = previous.readings.versions.items() if previous else ()
    kept = {int(name): reading for name, reading in before if int(name) in live_broker_ids}
    asked_at = {broker_id: reading.asked_at for broker_id, reading in kept.items()}
    to_ask = _to_ask(live_broker_ids, asked_at, now)
    asked = reader.describe_versions(to_ask) if to_ask else {}
    unasked = {b: reading for b, reading in kept.items() if b not in to_ask}
    return unasked | {broker_id: _version_reading(v, now) for broker_id, v in asked.items()}


def _version_reading(version: BrokerVersion, now: datetime) -> VersionReading:
    return VersionReading(now, version.api_ranges, version.metadata_version)


def read_partitions(reader: "ClusterReader", plan: RebalancePlan) -> Partitions:
    """Read topics, and reassignments before and after them; what either list names is moving.

    A partition that is on no list and yet has the replicas of two targets together is read again.
    """
    planned_topics = set(plan.moves_by_topic)
    for pause_seconds in (*STALE_READ_PAUSES, 0.0):
        reassignments_before = reader.list_reassignments()
        topics = read_topics_and_named(reader, planned_topics)
        planned, unhealthy = _planned_and_unhealthy(topics, plan)
        reassignments = {**reassignments_before, **reader.list_reassignments()}
        topic_ids = {t.topic: t.topic_id for t in topics if t.topic in planned_topics}
        if not _seem_to_move(plan, planned, reassignments):
            break
        time.sleep(pause_seconds)
    elsewhere = {tp: moving for tp, moving in reassignments.items() if tp not in planned}
    copied = copied_partitions(elsewhere, topics) if elsewhere else frozenset()
    return Partitions(planned, unhealthy, reassignments, topic_ids, copied)


def _seem_to_move(
    plan: RebalancePlan,
    planned: Mapping[TopicPartition, ObservedPartition],
    reassignments: Mapping[TopicPartition, Reassignment],
) -> bool:
    """Return whether replicas show a reassignment of the plan that no list names."""
    at_rest = ((move, planned.get(move.topic_partition)) for move in plan.moves)
    return any(
        move.topic_partition not in reassignments
        and observed is not None
        and is_as_if_moving(move, observed.description.replicas)
        for move, observed in at_rest
    )


def _planned_and_unhealthy(
    topics: Iterable[TopicDescription], plan: RebalancePlan
) -> tuple[
    dict[TopicPartition, ObservedPartition],
    dict[TopicPartition, PartitionDescription],
]:
    """Return what the plan moves, and what of the rest is offline or under-replicated.

    Nothing else is kept: there may be a million partitions.
    """
    planned, unhealthy = {}, {}
    for topic in topics:
        moves = plan.moves_by_topic.get(topic.topic, {})
        for description in topic.partitions:
            move = moves.get(description.partition)
            if move is not None:
                observed = ObservedPartition(topic.topic_id, description)
                planned[move.topic_partition] = observed
            elif description.leader is None or len(description.isr) < len(description.replicas):
                unhealthy[TopicPartition(topic.topic, description.partition)] = description
    return planned, unhealthy


def copying_brokers(partitions: Partitions) -> frozenset[int]:
    """Return the brokers between which a move of the plan copies."""
    copying: set[int] = set()
    for tp, reassignment in partitions.reassignments.items():
        if not reassignment.adding or tp not in partitions.planned:
            continue
        copying.update(reassignment.adding)
        leader = partitions.planned[tp].description.leader
        if leader is not None:
            copying.add(leader)
    return frozenset(copying)


def copies_of(partitions: Partitions, responsive_broker_ids: Set[int]) -> Copies:
    """Return the replicas of what is reassigned, by broker; none where nobody responds."""
    reassignments = partitions.reassignments.items()
    by_replica = grouped((b, tp) for tp, moving in reassignments for b in moving.replicas)
    by_added = grouped((b, tp) for tp, moving in reassignments for b in moving.adding)
    return Copies(copying_brokers(partitions) & responsive_broker_ids, by_added, by_replica)
