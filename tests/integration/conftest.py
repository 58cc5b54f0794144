"""Patience with brokers, and what a session has one of: an Airflow, and a cluster. Modules that
need a cluster of their own have a fixture `kafka`, too.
"""

from collections.abc import Iterator

import pytest

from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics
from tests.support.faults import BROKER_PROPERTIES
from tests.support.kafka_facts import configs_but_of_topics, leave_empty
from tests.support.patience import patient_clients
from tests.support.shared_airflow import Place, running_place

ACCOUNTS = {
    "admin": "admin",
    "alice": "user",
    "bob": "user",
    "mallory": "user",
    "oscar": "op",
    "victor": "viewer",
}


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    with patient_clients():
        yield


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Four brokers, each in its own rack, for all modules that leave them as they were."""
    folder = tmp_path_factory.mktemp("kafka")
    with local_kafka.running(folder, brokers_in_racks(*"abcd"), BROKER_PROPERTIES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka(shared_brokers: LocalKafka) -> Iterator[LocalKafka]:
    """The brokers of the session, without topics, for one module at a time; tests create topics on
    1 to 3, so that 4 is empty. A module that leaves a change of its own behind fails.
    """
    before = configs_but_of_topics(shared_brokers)
    yield shared_brokers
    leave_empty(shared_brokers, before)


@pytest.fixture(scope="session")
def airflow_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An Airflow beside four brokers, and two of another cluster; modules bring their topics."""
    folder = tmp_path_factory.mktemp("airflow")
    with (
        LocalKafka(folder / "kafka", brokers_in_racks(*"abcd")) as kafka,
        LocalKafka(folder / "other", brokers_in_racks(*"ab")) as other,
    ):
        create_topics(other.bootstrap_string, [TopicSpec("returns", [(1,), (2,)] * 2)])
        with running_place(folder, ACCOUNTS, kafka, other, prefix="/airflow") as place:
            yield place
