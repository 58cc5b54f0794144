"""One look at everything a decision needs. Reads only."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observation import Observation, SeenPartition
from counterpoise.execution.throttles import ThrottleTarget
from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigResource,
    ConfigResourceType,
    ConfigValue,
    PartitionDescription,
    Reassignment,
)
from counterpoise.model.plan import RebalancePlan

if TYPE_CHECKING:
    from counterpoise.ledger import Journal

_MIN_ISR: Final = "min.insync.replicas"


def look(
    reader: ClusterReader, journal: "Journal", plan: RebalancePlan, target: ThrottleTarget, now: datetime
) -> Observation:
    """Reassignments are read before and after the topics: what is in either list is moving, whatever describe says."""
    cluster = reader.describe_cluster()
    planned = {move.topic_partition for move in plan.moves}
    before = reader.list_reassignments()
    described = _partitions(reader, plan)
    under_way = {**before, **reader.list_reassignments()}
    touched = journal.touched()
    resources = {*target.resources, *(t.resource for t in touched)}
    return Observation(
        now=now,
        cluster_id=cluster.cluster_id,
        live_broker_ids=cluster.live_broker_ids,
        partitions={tp: SeenPartition(i, d, under_way.get(tp)) for tp, (i, d) in described.items() if tp in planned},
        foreign_reassignments=tuple(sorted(tp for tp in under_way if tp not in planned)),
        configs=_configs(reader, resources, cluster.live_broker_ids),
        submissions=journal.submissions(),
        election_attempts=journal.election_attempts(),
        touched=touched,
        copied_bytes=_copied_bytes(reader, under_way, planned, cluster.live_broker_ids),
        min_insync_replicas=_min_insync_replicas(reader, plan),
    )


def _partitions(reader: ClusterReader, plan: RebalancePlan) -> dict[TopicPartition, tuple[str, PartitionDescription]]:
    topics = sorted({move.topic for move in plan.moves})
    return {
        TopicPartition(topic.topic, partition.partition): (topic.topic_id, partition)
        for topic in (reader.describe_topics(topics) if topics else ())
        for partition in topic.partitions
    }


def _configs(
    reader: ClusterReader, resources: set[ConfigResource], live_broker_ids: frozenset[int]
) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
    """Throttle keys of the live resources; a dead broker's config cannot be read, so it is left out."""
    topics = sorted(r for r in resources if r.type is ConfigResourceType.TOPIC)
    brokers = sorted(r for r in resources if r.type is ConfigResourceType.BROKER and int(r.name) in live_broker_ids)
    configs = dict(reader.describe_configs(topics, LIST_KEYS)) if topics else {}
    if brokers:
        configs |= reader.describe_configs(brokers, RATE_KEYS)
    return configs


def _min_insync_replicas(reader: ClusterReader, plan: RebalancePlan) -> dict[str, int]:
    """By topic that loses replicas: Kafka itself lowers a replication factor below it without a word."""
    shrinking = {move.topic for move in plan.moves if len(move.replicas_after) < len(move.replicas_before)}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in sorted(shrinking)]
    configs = reader.describe_configs(resources, [_MIN_ISR]) if resources else {}
    told = {resource.name: values.get(_MIN_ISR) for resource, values in configs.items()}
    return {topic: int(value.value) for topic, value in told.items() if value is not None and value.value}


def _copied_bytes(
    reader: ClusterReader,
    under_way: Mapping[TopicPartition, Reassignment],
    planned: set[TopicPartition],
    live_broker_ids: frozenset[int],
) -> dict[TopicPartition, int]:
    adding = {tp: r.adding for tp, r in under_way.items() if tp in planned and r.adding}
    broker_ids = sorted({b for ids in adding.values() for b in ids} & live_broker_ids)
    copied: dict[TopicPartition, int] = {}
    for log_dir in reader.describe_log_dirs(broker_ids) if broker_ids else ():
        for tp, size in log_dir.sizes.items():
            if log_dir.broker_id in adding.get(tp, ()):
                copied[tp] = copied.get(tp, 0) + size
    return copied
