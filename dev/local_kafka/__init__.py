"""A real multi-broker Kafka cluster on this machine, for the demo, the tests and the benchmarks.

    with local_kafka.running(directory, brokers_in_racks("a", "b", "c")) as kafka:
        orders = TopicSpec("orders", partitions=6, replication_factor=3)
        create_topics(kafka.bootstrap_string, [orders])

`python -m dev.local_kafka` starts one until Ctrl-C.

Limits: loopback, plaintext unless a listener says otherwise (`security.py`), KRaft, Kafka 3.9 and
4.x.
"""

from dev.local_kafka.broker import BrokerHome, BrokerSpec, Listener, brokers_in_racks
from dev.local_kafka.cluster import LocalKafka, LocalKafkaError, running
from dev.local_kafka.jars import KAFKA_VERSION, KafkaDownloadError, kafka_jars
from dev.local_kafka.load import SteadyProducer, TopicSpec, create_topics, fill

__all__ = [
    "KAFKA_VERSION",
    "BrokerHome",
    "BrokerSpec",
    "KafkaDownloadError",
    "Listener",
    "LocalKafka",
    "LocalKafkaError",
    "SteadyProducer",
    "TopicSpec",
    "brokers_in_racks",
    "create_topics",
    "fill",
    "kafka_jars",
    "running",
]
