"""The main job by the Dags that the wheel brings along, in an Airflow that has only the wheel."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.smoke import smoke
from dev import local_kafka
from dev.local_airflow import LocalAirflow
from dev.local_kafka import LocalKafka, brokers_in_racks
from tests.support.installed import ROOT, Installed, install
from tests.support.kafka_facts import ON_A_SHARED_DISK, ongoing_reassignments, throttle_lines

pytestmark = pytest.mark.timeout(2400)
CLUSTER = "wheel"
SETTINGS = f"""\
clusters:
  {CLUSTER}:
    connection: kafka_wheel
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: 50MB/s}}
      access: {{approve: [alice]}}
"""
OF_THE_ENVIRONMENT = ("PATH", "HOME", "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST")


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return install(tmp_path / "installed")


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[LocalKafka]:
    with local_kafka.running(tmp_path / "kafka", brokers_in_racks("a", "b", "c")) as running:
        yield running


def variables(installed: Installed, kafka: LocalKafka) -> dict[str, str]:
    """Return what differs from an Airflow beside the source tree."""
    settings = installed.folder / "clusters.yaml"
    settings.write_text(SETTINGS)
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
    return {name: installed.variables[name] for name in OF_THE_ENVIRONMENT} | {
        "PYTHONPATH": "",
        "AIRFLOW_CONN_KAFKA_WHEEL": json.dumps(connection),
        "COUNTERPOISE_CONFIG": str(settings),
        "COUNTERPOISE_STORE": str(installed.folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{installed.folder / 'ledger.db'}",
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


def places_of_dags(airflow: LocalAirflow) -> list[str]:
    """Return the file of each Dag, as Airflow has it."""
    headers = {"Authorization": f"Bearer {airflow.token('admin')}"}
    url = f"{airflow.base_url}/api/v2/dags"
    answer = httpx.get(url, headers=headers, timeout=120, trust_env=False).raise_for_status()
    return [dag["fileloc"] for dag in answer.json()["dags"]]


def test_the_main_job_runs_by_the_dags_of_the_package(
    installed: Installed, kafka: LocalKafka, tmp_path: Path
) -> None:
    no_plugins = tmp_path / "plugins"
    no_plugins.mkdir()
    with LocalAirflow(
        tmp_path / "airflow",
        dags=ROOT / "dags",  # only to know which to wait for
        plugins=no_plugins,
        environment=variables(installed, kafka),
    ) as airflow:
        smoke(airflow.api(), airflow.api("alice"), kafka.bootstrap_string, CLUSTER)
        environment = str(installed.folder / "env")
        assert all(path.startswith(environment) for path in places_of_dags(airflow))
    assert (throttle_lines(kafka), ongoing_reassignments(kafka)) == ([], "")
