"""Figures that the demo reads from the cluster itself: leaders, replicas, bytes and throttles.

    before = broker_figures(reader)

Limits: reads all log dirs of every broker, which is fine for a demo's cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoise.kafka_admin.cluster_admin import ClusterReader
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from counterpoise.model.plan import RebalancePlan

THROTTLE_KEYS: Mapping[ConfigResourceType, tuple[str, ...]] = {
    ConfigResourceType.BROKER: RATE_KEYS,
    ConfigResourceType.TOPIC: LIST_KEYS,
}


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """How much one live broker leads and holds."""

    broker_id: int
    rack: str
    leader_count: int
    replica_count: int
    size_bytes: int


def broker_figures(reader: ClusterReader) -> tuple[BrokerFigures, ...]:
    """Return the figures of every live broker, by id."""
    cluster = reader.describe_cluster()
    leaders = dict.fromkeys(cluster.live_broker_ids, 0)
    replicas = dict.fromkeys(cluster.live_broker_ids, 0)
    for topic in reader.describe_topics():
        for partition in topic.partitions:
            if partition.leader is not None:
                leaders[partition.leader] += 1
            for broker_id in partition.replicas:
                replicas[broker_id] += 1
    sizes = _sizes_by_broker(reader)
    return tuple(
        BrokerFigures(
            broker.broker_id,
            broker.rack or "",
            leaders[broker.broker_id],
            replicas[broker.broker_id],
            sum(sizes.get(broker.broker_id, {}).values()),
        )
        for broker in cluster.brokers
        if broker.broker_id in leaders
    )


def copied_bytes(reader: ClusterReader, plan: RebalancePlan) -> int:
    """Return how many of the plan's bytes have been copied.

    Producers may have added records, so no move counts for more than its planned bytes.
    """
    sizes = _sizes_by_broker(reader)
    total_bytes = 0
    for move in plan.moves:
        for broker_id in move.adding:
            present_bytes = sizes.get(broker_id, {}).get(move.topic_partition, 0)
            total_bytes += min(move.size_bytes, present_bytes)
    return total_bytes


def set_throttles(reader: ClusterReader) -> list[str]:
    """Return all throttle keys of live brokers and topics, as `broker 4: key = value`."""
    lines = []
    brokers = [str(broker_id) for broker_id in sorted(reader.describe_cluster().live_broker_ids)]
    topics = sorted(topic.topic for topic in reader.describe_topics())
    for kind, names in ((ConfigResourceType.BROKER, brokers), (ConfigResourceType.TOPIC, topics)):
        resources = [ConfigResource(kind, name) for name in names]
        configs = reader.describe_configs(resources, THROTTLE_KEYS[kind])
        for resource in resources:
            for key, value in configs.get(resource, {}).items():
                if value.source is not ConfigSource.DEFAULT:
                    lines.append(f"{kind} {resource.name}: {key} = {value.value}")
    return lines


def _sizes_by_broker(reader: ClusterReader) -> dict[int, dict[TopicPartition, int]]:
    sizes: dict[int, dict[TopicPartition, int]] = {}
    for log_dir in reader.describe_log_dirs():
        sizes.setdefault(log_dir.broker_id, {}).update(log_dir.sizes)
    return sizes
