"""The throttle lists of 6,000 topics, set and deleted on a real broker in one call each."""

from contextlib import closing
from functools import partial
from pathlib import Path

import local_kafka
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.kafka import LIST_KEYS, ConfigChange, ConfigOperation, ConfigSource
from local_kafka import TopicSpec, create_topics
from local_processes import wait_until
from tests.support.conformance import topic

TOPICS = 6_000
CREATED_AT_ONCE = 500  # Kafka's limit of records holds here, too
SECONDS = 400.0  # a broker makes 6,000 logs before it shows the configs that came after them
POLL_SECONDS = 5.0


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

            def has_set(count: int) -> bool:
                configs = admin.describe_configs(topics, LIST_KEYS)
                values = [value for of_topic in configs.values() for value in of_topic.values()]
                return count == sum(v.source is ConfigSource.DYNAMIC_TOPIC for v in values)

            for changes, expected in ((set_all, 2 * TOPICS), (delete_all, 0)):
                results = admin.alter_configs(changes)
                assert dict(results.errors) == {}
                assert set(results.accepted) == set(topics)
                wait_until(
                    partial(has_set, expected), f"{expected} lists", SECONDS, (), POLL_SECONDS
                )
