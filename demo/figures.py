"""What the cluster itself says, asked again for the demo: who leads, who holds what, which
throttles are set.

    before = broker_figures(reader)

Limits: asks every broker for all its log dirs, which is fine for a demo's cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoise.kafka_admin.port import ClusterReader
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
    """What one live broker leads and holds."""

    broker_id: int
    rack: str
    leaders: int
    replicas: int
    bytes: int


def broker_figures(reader: ClusterReader) -> tuple[BrokerFigures, ...]:
    """By broker id, every live broker."""
    cluster = reader.describe_cluster()
    leaders = dict.fromkeys(cluster.live_broker_ids, 0)
    replicas = dict.fromkeys(cluster.live_broker_ids, 0)
    for topic in reader.describe_topics():
        for partition in topic.partitions:
            if partition.leader is not None:
                leaders[partition.leader] += 1
            for broker_id in partition.replicas:
                replicas[broker_id] += 1
    sizes = _sizes(reader)
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
    """How much of what the plan copies has arrived; as producers may add, no move counts for more
    than planned.
    """
    sizes = _sizes(reader)
    return sum(
        min(move.size_bytes, sizes.get(broker_id, {}).get(move.topic_partition, 0))
        for move in plan.moves
        for broker_id in move.adding
    )


def set_throttles(reader: ClusterReader) -> list[str]:
    """Every throttle that is set on a live broker or a topic, as `broker 4: key = value`."""
    found = []
    brokers = [str(broker_id) for broker_id in sorted(reader.describe_cluster().live_broker_ids)]
    topics = sorted(topic.topic for topic in reader.describe_topics())
    for kind, names in ((ConfigResourceType.BROKER, brokers), (ConfigResourceType.TOPIC, topics)):
        resources = [ConfigResource(kind, name) for name in names]
        answers = reader.describe_configs(resources, THROTTLE_KEYS[kind])
        for resource in resources:
            for key, value in answers.get(resource, {}).items():
                if value.source is not ConfigSource.DEFAULT:
                    found.append(f"{kind} {resource.name}: {key} = {value.value}")
    return found


def _sizes(reader: ClusterReader) -> dict[int, dict[TopicPartition, int]]:
    sizes: dict[int, dict[TopicPartition, int]] = {}
    for directory in reader.describe_log_dirs():
        sizes.setdefault(directory.broker_id, {}).update(directory.sizes)
    return sizes
