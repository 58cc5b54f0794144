"""A connection to a local Kafka that may change it, closed at the end of the block.

with connected(kafka) as admin:
    admin.describe_topics()
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from dev.local_kafka import LocalKafka


@contextmanager
def connected(kafka: LocalKafka) -> Iterator[ClusterAdmin]:
    settings = ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string})
    with closing(connect(settings)) as admin:
        yield admin
