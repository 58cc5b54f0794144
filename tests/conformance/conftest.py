"""Every test here runs twice: on the simulated cluster, and on real brokers (`-m on_brokers`).

pytest tests/conformance -m "not on_brokers"
pytest tests/conformance -m on_brokers --kafka-version 3.9.2
"""

from collections.abc import Iterator

import pytest

from dev.local_kafka import KAFKA_VERSION
from tests.support.conformance import Cluster, RealBrokers, SimulatedBrokers, version_numbers
from tests.support.patience import patient_clients


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka-version", default=KAFKA_VERSION, help="of the real brokers in tests/conformance"
    )


@pytest.fixture(scope="session")
def real_brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealBrokers]:
    """Return the real cluster that all tests share; each leaves it as it was."""
    version = request.config.getoption("--kafka-version", default=KAFKA_VERSION)
    folder = tmp_path_factory.mktemp("kafka")
    with patient_clients(), RealBrokers.started(folder, version) as brokers:
        yield brokers


@pytest.fixture(
    scope="session", params=["simulated", pytest.param("real", marks=pytest.mark.on_brokers)]
)
def shared_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return a cluster for fixtures that many tests share."""
    if request.param == "real":
        brokers: Cluster = request.getfixturevalue("real_brokers")
        return brokers
    version = request.config.getoption("--kafka-version", default=KAFKA_VERSION)
    return SimulatedBrokers(version_numbers(version))


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Return the cluster; the rates that a test sets are deleted afterwards."""
    yield shared_cluster
    shared_cluster.clean_up()
