"""Patience with brokers, and the cluster of the tests `test_faults_*`; modules that need another
one have a fixture of that name.
"""

from collections.abc import Iterator

import pytest

from dev import local_kafka
from dev.local_kafka import LocalKafka, brokers_in_racks
from tests.support.faults import BROKER_PROPERTIES
from tests.support.patience import patient_clients


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    with patient_clients():
        yield


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Four brokers, each in its own rack; tests create topics on 1 to 3, so that 4 is empty."""
    folder = tmp_path_factory.mktemp("kafka")
    with local_kafka.running(
        folder, brokers_in_racks("a", "b", "c", "d"), BROKER_PROPERTIES
    ) as cluster:
        yield cluster
