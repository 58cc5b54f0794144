"""An Airflow home of its own for these tests; at the top, since Airflow reads its settings when
first imported.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from counterpoise.installation import Installation
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.kafka_admin.connection import ConnectionSettings
    from tests.simulated_kafka.cluster import SimulatedCluster

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="counterpoise-airflow-"))
OWNER = os.getpid()  # of the home: tests fork

assert "airflow" not in sys.modules, "something imported Airflow before it had a home of its own"
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    # A Dag's form names the clusters of each test: it is written anew each time.
    AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL="0",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME / 'airflow.db'}?timeout=60",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    AIRFLOW_CONN_KAFKA_DEMO='{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}',
)


@atexit.register
def remove_home() -> None:
    """Also where tests were only collected, or interrupted before the first one."""
    if os.getpid() == OWNER:
        shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Path:
    """The home, with a migrated database; gone afterwards."""
    from airflow.utils.db import initdb

    initdb()
    return HOME


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> "SimulatedCluster":
    """Broker 3 has just joined. Whoever connects finds that some seconds have passed."""
    from counterpoise import installation
    from tests.support.pictures import simulated

    kafka = simulated(
        "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6)), racks="1=a 2=b 3=c"
    )

    def connect(_settings: object) -> "SimulatedCluster":
        kafka.advance(5.0)
        return kafka

    monkeypatch.setattr(installation, "connect_by_discovery", connect)
    return kafka


@pytest.fixture
def installation(
    tmp_path: Path, kafka: "SimulatedCluster", monkeypatch: pytest.MonkeyPatch
) -> "Iterator[Installation]":
    """The installation of the tasks, with the simulated cluster `demo`."""
    from counterpoise.installation import open_installation
    from tests.dags.test_approval import CLUSTERS

    (tmp_path / "clusters.yaml").write_text(CLUSTERS)
    monkeypatch.setenv("COUNTERPOISE_CONFIG", str(tmp_path / "clusters.yaml"))
    monkeypatch.setenv("COUNTERPOISE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COUNTERPOISE_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    with open_installation() as installation:
        yield installation


@pytest.fixture
def dead_cluster(
    installation: "Installation", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside `demo` the installation has a cluster `dead`, which nobody can connect to."""
    import counterpoise.installation
    from counterpoise.errors import ClusterUnreachableError

    config = tmp_path / "clusters.yaml"
    config.write_text(config.read_text() + "  dead:\n    connection: kafka_dead\n")
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEAD",
        '{"conn_type": "kafka", "extra": {"bootstrap.servers": "dead:1"}}',
    )
    connect: Any = counterpoise.installation.connect_by_discovery

    def connect_unless_dead(settings: "ConnectionSettings") -> "ClusterAdmin":
        if "dead:1" in settings.bootstrap_servers:
            raise ClusterUnreachableError((("dead:1", "connection refused"),))
        admin: ClusterAdmin = connect(settings)
        return admin

    monkeypatch.setattr(counterpoise.installation, "connect_by_discovery", connect_unless_dead)


@pytest.fixture
def kafka_rebalance(monkeypatch: pytest.MonkeyPatch) -> "Callable[[dict[str, Any]], DagRun]":
    """Runs the Dag with a configuration, for the cluster `demo`, without waits between steps."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models import dagrun

    create = dagrun.get_or_create_dagrun

    def create_with_key(**arguments: Any) -> Any:
        run = create(**arguments)
        run.partition_key = "demo"
        arguments["session"].commit()
        return run

    def run(conf: dict[str, Any]) -> "DagRun":
        # A Dag of its own for each run: `test` writes to its params.
        dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"]
        for task_id in ("execute", "settle"):
            task: Any = dag.get_task(task_id)
            task.min_wait_seconds = 0.0
        return dag.test(run_conf=conf)

    monkeypatch.setattr(dagrun, "get_or_create_dagrun", create_with_key)
    return run
