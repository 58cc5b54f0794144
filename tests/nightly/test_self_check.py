"""`counterpoise self-check` beside a real Airflow, a real Kafka and a real Spark: all green, and
red for what died.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev import local_kafka
from dev.local_airflow import LocalAirflow
from dev.local_kafka import LocalKafka, brokers_in_racks
from dev.local_processes import run, wait_until

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("counterpoise")
pytestmark = pytest.mark.timeout(2400)
TIMEOUT_SECONDS = 400


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    with local_kafka.running(tmp_path_factory.mktemp("kafka"), brokers_in_racks("a")) as cluster:
        yield cluster


@pytest.fixture
def airflow(tmp_path: Path, kafka: LocalKafka) -> Iterator[LocalAirflow]:
    (tmp_path / "clusters.yaml").write_text("clusters: {demo: {connection: kafka_demo}}")
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
    variables = {
        "COUNTERPOISE_CONFIG": str(tmp_path / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(tmp_path / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path / 'ledger.db'}",
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
    }
    home, dags, plugins = tmp_path / "home", ROOT / "dags", ROOT / "plugins"
    with LocalAirflow(home, dags=dags, plugins=plugins, environment=variables) as running:
        yield running


def typed(airflow: LocalAirflow, *words: str) -> tuple[int, str]:
    done = run(
        [COMMAND, *words],
        name=words[0],
        timeout_seconds=TIMEOUT_SECONDS,
        env=airflow.variables,
        cwd=airflow.home.directory,
    )
    return done.returncode, done.stdout + done.stderr


def checks(airflow: LocalAirflow) -> tuple[int, dict[str, dict[str, Any]]]:
    code, output = typed(airflow, "self-check", "--json", "--timeout", "5m")
    return code, {check["what"]: check for check in json.loads(output)["checks"]}


def is_missed(airflow: LocalAirflow, component: str) -> bool:
    """Return whether Airflow itself says so: a self-check starts Spark each time."""
    health = httpx.get(f"{airflow.base_url}/api/v2/monitor/health", timeout=120, trust_env=False)
    return bool(health.json()[component]["status"] != "healthy")


def test_all_is_green_until_the_triggerer_dies(airflow: LocalAirflow) -> None:
    assert typed(airflow, "ledger", "migrate")[0] == 0
    code, found = checks(airflow)
    assert {what: check["state"] for what, check in found.items()} == dict.fromkeys(found, "ok")
    assert code == 0
    assert {"spark", "airflow triggerer", "kafka demo", "kafka demo changes"} <= found.keys()
    assert "kafka_rebalance" in found["airflow dags"]["detail"]

    airflow.kill("triggerer")
    wait_until(lambda: is_missed(airflow, "triggerer"), "Airflow to miss it", TIMEOUT_SECONDS)
    code, found = checks(airflow)
    assert code == 1
    assert "airflow triggerer" in found["airflow triggerer"]["remedy"]
    assert {what for what, check in found.items() if check["state"] == "failed"} == {
        "airflow triggerer"
    }
