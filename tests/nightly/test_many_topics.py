"""The throttle lists of 6,000 topics, set and deleted on a real broker in one call each.

What is accepted here is written by the controller; the broker shows it much later, when it has made
6,000 logs.
"""

from contextlib import closing
from pathlib import Path

from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.kafka import LIST_KEYS, ConfigChange, ConfigOperation
from dev import local_kafka
from dev.local_kafka import TopicSpec, create_topics
from tests.support.conformance import topic

TOPICS = 6_000
CREATED_AT_ONCE = 500  # Kafka's limit of records holds here, too


def test_the_lists_of_6000_topics_are_set_and_deleted(tmp_path: Path) -> None:
    topics = [topic(f"t{number}") for number in range(TOPICS)]
    set_all, delete_all = (
        [ConfigChange(resource, key, operation, value) for resource in topics for key in LIST_KEYS]
        for operation, value in ((ConfigOperation.SET, "0:1"), (ConfigOperation.DELETE, ""))
    )
    with local_kafka.running(tmp_path, 1) as kafka:
        for start in range(0, TOPICS, CREATED_AT_ONCE):
            specs = [TopicSpec(t.name, [(1,)]) for t in topics[start : start + CREATED_AT_ONCE]]
            create_topics(kafka.bootstrap_string, specs)
        settings = ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string})
        with closing(connect(settings)) as admin:
            for changes in (set_all, delete_all):
                results = admin.alter_configs(changes)
                assert dict(results.errors) == {}
                assert set(results.accepted) == set(topics)
