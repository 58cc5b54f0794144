"""Reads that are made of several calls to a cluster.

read_throttle_keys(reader, [topic, broker])       # {topic: {key: value}, broker: {...}}
read_topics_and_named(reader, ["orders"])         # all topics, or ClusterError for "orders"
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigResource,
    ConfigValue,
    TopicDescription,
)

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader


def read_throttle_keys(
    reader: "ClusterReader", resources: Iterable[ConfigResource]
) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
    """Return the throttles (KIP-73) of topics and brokers, by resource and key.

    Unknown topics and unresponsive brokers are left out. Topics and brokers are read in parallel,
    so an unresponsive broker costs its timeout once.
    """
    wanted = sorted(set(resources))
    topics = [resource for resource in wanted if resource.is_topic]
    brokers = [resource for resource in wanted if resource.is_broker]
    with ThreadPoolExecutor(1) as pool:
        of_topics = pool.submit(reader.describe_configs, topics, LIST_KEYS)
        of_brokers = reader.describe_configs(brokers, RATE_KEYS)
        return {**of_topics.result(), **of_brokers}


def read_topics_and_named(
    reader: "ClusterReader", names: Iterable[str]
) -> tuple[TopicDescription, ...]:
    """Return all topics, after asking by name for those of `names` that are not among them.

    Kafka leaves topics that a principal may not see out of the list, as if they were deleted; asked
    by name it refuses them. Raises ClusterError for these.
    """
    topics = reader.describe_topics()
    listed = {topic.topic for topic in topics}
    unlisted = sorted({name for name in names if name not in listed})
    return topics if not unlisted else (*topics, *reader.describe_topics(unlisted))
