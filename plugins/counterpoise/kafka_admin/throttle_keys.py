"""The throttle keys that are set now (KIP-73): lists of topics, rates of brokers.

configs = read_throttle_keys(reader, [broker(4), topic("orders")])
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS, ConfigResource, ConfigValue


def read_throttle_keys(
    reader: ClusterReader, resources: Iterable[ConfigResource]
) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
    """By resource and key; unknown topics, and brokers that give no answer, are left out.

    Topics and brokers side by side: a silent broker costs its deadline once.
    """
    wanted = sorted(set(resources))
    topics, brokers = [r for r in wanted if r.is_topic], [r for r in wanted if r.is_broker]
    with ThreadPoolExecutor(1) as pool:
        of_topics = pool.submit(reader.describe_configs, topics, LIST_KEYS)
        of_brokers = reader.describe_configs(brokers, RATE_KEYS)
        return {**of_topics.result(), **of_brokers}
