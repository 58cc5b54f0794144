"""One look at everything a decision needs. Reads only.

seen = look(admin, ledger, orders, target_resources, now)
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observation import (
    Observation,
    SeenPartition,
    Surroundings,
    is_between_steps,
)
from counterpoise.execution.throttles import Configs, broker
from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.kafka_admin.throttle_keys import read_throttle_keys
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import standing_requests
from counterpoise.model.kafka import (
    BrokerVersion,
    ConfigResource,
    ConfigResourceType,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from counterpoise.model.plan import RebalancePlan

if TYPE_CHECKING:
    from counterpoise.ledger import Ledger

_MIN_ISR: Final = "min.insync.replicas"
_MOST_STALE_READS: Final = 10
_STALE_READ_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class View:
    """Whose run is looked at, and what of the cluster belongs to it."""

    run_id: str
    plan: RebalancePlan
    resources: Sequence[ConfigResource]  # whose throttle keys the plan may touch
    disk_limit_percent: int


def look(reader: ClusterReader, ledger: "Ledger", view: View, now: datetime) -> Observation:
    """What moves and what is set, read side by side: a run over many brokers waits for little else
    than calls.
    """
    journal = ledger.journal(view.run_id)
    cluster = reader.describe_cluster()
    live = cluster.live_broker_ids
    touched, submissions = journal.touched(), journal.submissions()
    asked = {
        broker(s.asked_broker_id) for s in submissions.values() if s.asked_broker_id is not None
    }
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_structure, reader, view.plan)
        configs, versions = _settings(
            reader, {*view.resources, *asked, *(t.resource for t in touched)}, live
        )
        structure = reading.result()
    concerned = {int(r.name) for r in (*view.resources, *asked) if r.is_broker} & live
    silent = frozenset(b for b in concerned if broker(b) not in configs)
    log_dirs = _log_dirs(reader, structure, versions)
    under_way = structure.under_way
    return Observation(
        now=now,
        cluster_id=cluster.cluster_id,
        live_broker_ids=live,
        partitions={
            tp: SeenPartition(i, p, under_way.get(tp)) for tp, (i, p) in structure.planned.items()
        },
        configs=configs,
        submissions=submissions,
        election_attempts=journal.election_attempts(),
        touched=touched,
        sizes={
            (tp, d.broker_id): size
            for d in log_dirs
            for tp, size in d.sizes.items()
            if tp in under_way
        },
        silent_broker_ids=silent | (live - versions.keys()),
        min_insync_replicas=_min_insync_replicas(reader, _shrinking_topics(view.plan)),
        standing=standing_requests(ledger.requests(view.plan.cluster, view.run_id), now),
        around=Surroundings(
            reassignments=tuple(sorted(tp for tp in under_way if tp not in structure.planned)),
            stopped=_stopped(reader, structure.unwell),
            short={
                str(tp): p.leader
                for tp, p in structure.unwell.items()
                if p.leader is not None and (set(p.replicas) - set(p.isr)) & live
            },
            full_dirs=_full_dirs(log_dirs, view.disk_limit_percent),
            versions=versions,
            moves_in_flight_elsewhere=ledger.moves_in_flight_elsewhere(view.run_id),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Structure:
    planned: Mapping[TopicPartition, tuple[str, PartitionDescription]]  # with the topic's id
    unwell: Mapping[
        TopicPartition, PartitionDescription
    ]  # outside the plan: not led, or not all replicas in sync
    under_way: Mapping[TopicPartition, Reassignment]


def _structure(reader: ClusterReader, plan: RebalancePlan) -> _Structure:
    """Topics, and what moves: whatever is in the list before or after them is moving, whatever
    describe says.

    The list comes from the controller, topics from a broker whose metadata may be older: a
    partition that is on no list, and yet has the replicas of two steps at once, is read again.
    """
    for _ in range(_MOST_STALE_READS):
        before = reader.list_reassignments()
        planned, unwell = _sorted_out(reader.describe_topics(), plan)
        found = _Structure(planned, unwell, {**before, **reader.list_reassignments()})
        still = [
            m
            for m in plan.moves
            if m.topic_partition in planned and m.topic_partition not in found.under_way
        ]
        if not any(is_between_steps(m, planned[m.topic_partition][1].replicas) for m in still):
            break
        time.sleep(_STALE_READ_SECONDS)
    return found


def _sorted_out(
    topics: Iterable[TopicDescription], plan: RebalancePlan
) -> tuple[
    dict[TopicPartition, tuple[str, PartitionDescription]],
    dict[TopicPartition, PartitionDescription],
]:
    """What the plan moves, and what of the rest is unwell; no more is kept: there may be a million
    partitions.
    """
    wanted: dict[str, set[int]] = {}
    for move in plan.moves:
        wanted.setdefault(move.topic, set()).add(move.partition)
    planned, unwell = {}, {}
    for topic in topics:
        numbers = wanted.get(topic.topic, set())
        for p in topic.partitions:
            if p.partition in numbers:
                planned[TopicPartition(topic.topic, p.partition)] = (topic.topic_id, p)
            elif p.leader is None or len(p.isr) < len(p.replicas):
                unwell[TopicPartition(topic.topic, p.partition)] = p
    return planned, unwell


def _settings(
    reader: ClusterReader, resources: set[ConfigResource], asked_broker_ids: frozenset[int]
) -> tuple[Configs, Mapping[int, BrokerVersion]]:
    """Throttle keys of topics and of the brokers asked, and what these speak; one that is silent
    tells nothing.

    Side by side: a silent broker costs its deadline once and not three times.
    """
    answering = [r for r in resources if r.is_topic or int(r.name) in asked_broker_ids]
    with ThreadPoolExecutor(1) as pool:
        versions = pool.submit(reader.describe_versions, sorted(asked_broker_ids))
        return read_throttle_keys(reader, answering), versions.result()


def _shrinking_topics(plan: RebalancePlan) -> set[str]:
    """Topics that lose replicas: Kafka itself lowers a replication factor below the minimum without
    a word.
    """
    return {
        move.topic for move in plan.moves if len(move.replicas_after) < len(move.replicas_before)
    }


def _min_insync_replicas(reader: ClusterReader, topics: set[str]) -> dict[str, int]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(topics)]
    configs = reader.describe_configs(resources, [_MIN_ISR]) if resources else {}
    told = {resource.name: values.get(_MIN_ISR) for resource, values in configs.items()}
    return {
        topic: int(value.value)
        for topic, value in told.items()
        if value is not None and value.value
    }


def _stopped(
    reader: ClusterReader, unwell: Mapping[TopicPartition, PartitionDescription]
) -> tuple[str, ...]:
    """Partitions that take no writes with acks=all: nobody leads them, or too few replicas are in
    sync.
    """
    least = _min_insync_replicas(
        reader, {tp.topic for tp, p in unwell.items() if p.leader is not None}
    )
    return tuple(
        str(tp)
        for tp, p in sorted(unwell.items())
        if p.leader is None or len(p.isr) < least.get(tp.topic, 1)
    )


def _log_dirs(
    reader: ClusterReader, structure: _Structure, answering: Iterable[int]
) -> tuple[LogDirDescription, ...]:
    """Of the brokers between which something of ours copies."""
    ours = {tp: r for tp, r in structure.under_way.items() if r.adding and tp in structure.planned}
    leaders = {leader for tp in ours if (leader := structure.planned[tp][1].leader) is not None}
    broker_ids = sorted(({b for r in ours.values() for b in r.adding} | leaders) & set(answering))
    return reader.describe_log_dirs(broker_ids) if broker_ids else ()


def _full_dirs(log_dirs: Iterable[LogDirDescription], limit_percent: int) -> dict[int, str]:
    full = {}
    for log_dir in log_dirs:
        if log_dir.total_bytes and log_dir.usable_bytes is not None:
            used = 100 - 100 * log_dir.usable_bytes / log_dir.total_bytes
            if used > limit_percent:
                full[log_dir.broker_id] = (
                    f"broker {log_dir.broker_id} {log_dir.path} ({used:.0f} % used)"
                )
    return full
