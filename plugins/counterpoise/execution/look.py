"""One look at everything a decision needs. Reads only.

seen = look(admin, ledger, orders, target_resources, now)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observation import Observation, SeenPartition, Surroundings
from counterpoise.execution.throttles import broker
from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import standing_requests
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigResource,
    ConfigResourceType,
    ConfigValue,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from counterpoise.model.plan import RebalancePlan

if TYPE_CHECKING:
    from counterpoise.ledger import Ledger

_MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class View:
    """Whose run is looked at, and what of the cluster belongs to it."""

    run_id: str
    plan: RebalancePlan
    resources: Sequence[ConfigResource]  # whose throttle keys the plan may touch
    disk_limit_percent: int
    ignored_broker_ids: frozenset[int] = frozenset()  # known to be silent: not asked again so soon


def look(reader: ClusterReader, ledger: "Ledger", view: View, now: datetime) -> Observation:
    """Reassignments are read before and after the topics: what is in either list is moving, whatever describe says."""
    journal = ledger.journal(view.run_id)
    cluster = reader.describe_cluster()
    live = cluster.live_broker_ids
    planned = {move.topic_partition for move in view.plan.moves}
    before = reader.list_reassignments()
    topics = reader.describe_topics()
    under_way = {**before, **reader.list_reassignments()}
    touched, submissions = journal.touched(), journal.submissions()
    asked = {broker(s.asked_broker_id) for s in submissions.values() if s.asked_broker_id is not None}
    configs = _configs(
        reader, {*view.resources, *asked, *(t.resource for t in touched)}, live - view.ignored_broker_ids
    )
    concerned = {int(r.name) for r in (*view.resources, *asked) if r.type is ConfigResourceType.BROKER} & live
    log_dirs = _log_dirs(reader, topics, {tp: r for tp, r in under_way.items() if tp in planned}, live)
    outside = [(str(tp), p) for tp, _, p in _partitions(topics) if tp not in planned]
    return Observation(
        now=now,
        cluster_id=cluster.cluster_id,
        live_broker_ids=live,
        partitions={tp: SeenPartition(i, p, under_way.get(tp)) for tp, i, p in _partitions(topics) if tp in planned},
        configs=configs,
        submissions=submissions,
        election_attempts=journal.election_attempts(),
        touched=touched,
        sizes={(tp, d.broker_id): size for d in log_dirs for tp, size in d.sizes.items() if tp in under_way},
        silent_broker_ids=frozenset(b for b in concerned if broker(b) not in configs),
        min_insync_replicas=_min_insync_replicas(reader, _shrinking_topics(view.plan)),
        standing=standing_requests(ledger.requests(view.plan.cluster, view.run_id), now),
        around=Surroundings(
            reassignments=tuple(sorted(tp for tp in under_way if tp not in planned)),
            stopped=_stopped(reader, outside),
            short={
                name: p.leader for name, p in outside if p.leader is not None and (set(p.replicas) - set(p.isr)) & live
            },
            full_dirs=_full_dirs(log_dirs, view.disk_limit_percent),
            versions=reader.describe_versions(),
            moves_in_flight_elsewhere=ledger.moves_in_flight_elsewhere(view.run_id),
        ),
    )


def _partitions(topics: Iterable[TopicDescription]) -> Iterable[tuple[TopicPartition, str, PartitionDescription]]:
    for topic in topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition.partition), topic.topic_id, partition


def _configs(
    reader: ClusterReader, resources: set[ConfigResource], asked_broker_ids: frozenset[int]
) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
    """Throttle keys of topics and of the brokers asked; one that is dead or silent tells nothing."""
    topics = sorted(r for r in resources if r.type is ConfigResourceType.TOPIC)
    brokers = sorted(r for r in resources if r.type is ConfigResourceType.BROKER and int(r.name) in asked_broker_ids)
    configs = dict(reader.describe_configs(topics, LIST_KEYS)) if topics else {}
    if brokers:
        configs |= reader.describe_configs(brokers, RATE_KEYS)
    return configs


def _shrinking_topics(plan: RebalancePlan) -> set[str]:
    """Topics that lose replicas: Kafka itself lowers a replication factor below the minimum without a word."""
    return {move.topic for move in plan.moves if len(move.replicas_after) < len(move.replicas_before)}


def _min_insync_replicas(reader: ClusterReader, topics: set[str]) -> dict[str, int]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(topics)]
    configs = reader.describe_configs(resources, [_MIN_ISR]) if resources else {}
    told = {resource.name: values.get(_MIN_ISR) for resource, values in configs.items()}
    return {topic: int(value.value) for topic, value in told.items() if value is not None and value.value}


def _stopped(reader: ClusterReader, outside: Sequence[tuple[str, PartitionDescription]]) -> tuple[str, ...]:
    """Partitions that take no writes with acks=all: nobody leads them, or too few replicas are in sync."""
    offline = [name for name, p in outside if p.leader is None]
    short = [(name, p) for name, p in outside if p.leader is not None and len(p.isr) < len(p.replicas)]
    least = _min_insync_replicas(reader, {name.rpartition("-")[0] for name, _ in short})
    below = [name for name, p in short if len(p.isr) < least.get(name.rpartition("-")[0], 1)]
    return tuple(sorted((*offline, *below)))


def _log_dirs(
    reader: ClusterReader,
    topics: Iterable[TopicDescription],
    ours: Mapping[TopicPartition, Reassignment],
    live: frozenset[int],
) -> tuple[LogDirDescription, ...]:
    """Of the brokers between which something copies."""
    copying = {tp for tp, reassignment in ours.items() if reassignment.adding}
    leaders = {p.leader for tp, _, p in _partitions(topics) if tp in copying and p.leader is not None}
    broker_ids = sorted(({b for tp in copying for b in ours[tp].adding} | leaders) & live)
    return reader.describe_log_dirs(broker_ids) if broker_ids else ()


def _full_dirs(log_dirs: Iterable[LogDirDescription], limit_percent: int) -> dict[int, str]:
    full = {}
    for log_dir in log_dirs:
        if log_dir.total_bytes and log_dir.usable_bytes is not None:
            used = 100 - 100 * log_dir.usable_bytes / log_dir.total_bytes
            if used > limit_percent:
                full[log_dir.broker_id] = f"broker {log_dir.broker_id} {log_dir.path} ({used:.0f} % used)"
    return full
