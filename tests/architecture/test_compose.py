"""docker-compose.yaml starts what the native run starts: same commands, same variables.

It cannot be started here.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_airflow.components import COMMANDS, MIGRATE, PLACE_VARIABLES, SHARED_VARIABLES

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
SECRETS = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_API_SECRET_KEY",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_FERNET_KEY",
)
# What a place with containers has to say on top: databases over a network, and where our own things
# lie.
ON_TOP = re.compile(r"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC|AIRFLOW_CONN_\w+|COUNTERPOISE_\w+")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return services


@pytest.mark.parametrize("component", COMMANDS)
def test_components_are_started_as_in_the_native_run(
    services: dict[str, Any], component: str
) -> None:
    assert tuple(services[component]["command"]) == COMMANDS[component]


def test_the_database_is_migrated_before_anything_starts(services: dict[str, Any]) -> None:
    assert tuple(services["migrate"]["command"]) == MIGRATE
    for component in COMMANDS:
        assert (
            services[component]["depends_on"]["migrate"]["condition"]
            == "service_completed_successfully"
        )


@pytest.mark.parametrize("component", [*COMMANDS, "migrate"])
def test_components_have_the_variables_of_the_native_run(
    services: dict[str, Any], component: str
) -> None:
    variables = services[component]["environment"]
    assert {name: variables.get(name) for name in SHARED_VARIABLES} == SHARED_VARIABLES
    rest = {
        name for name in variables.keys() - SHARED_VARIABLES.keys() if not ON_TOP.fullmatch(name)
    }
    assert rest == set(PLACE_VARIABLES)


def test_our_own_variables_are_ones_that_somebody_reads(services: dict[str, Any]) -> None:
    sources = "\n".join(
        path.read_text() for top in ("plugins", "dags") for path in (ROOT / top).rglob("*.py")
    )
    ours = {
        name for name in services["scheduler"]["environment"] if name.startswith("COUNTERPOISE_")
    }
    assert ours
    assert [name for name in sorted(ours) if f'"{name}"' not in sources] == []


def test_brokers_lie_on_different_racks_and_the_fourth_waits_behind_its_profile(
    services: dict[str, Any],
) -> None:
    brokers = {name: service for name, service in services.items() if name.startswith("broker-")}
    assert (
        len({service["environment"]["KAFKA_BROKER_RACK"] for service in brokers.values()})
        == len(brokers)
        == 4
    )
    assert [name for name, service in brokers.items() if service.get("profiles")] == ["broker-4"]


def test_no_secret_stands_in_the_file() -> None:
    text = COMPOSE.read_text()
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(SECRETS)
    assert re.findall(r"//\w+:(?!\$\{)[^@\s]+@", text) == []


@pytest.fixture
def docker_compose() -> str:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed (apt-get install docker-compose)")
    return program


def _config(
    program: str, secrets: dict[str, str], scratch: Path
) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if key not in SECRETS} | secrets
    # An empty .env file, so that one of the developer's own does not answer instead.
    (scratch / "empty.env").touch()
    command = [program, "--env-file", str(scratch / "empty.env"), "--file", str(COMPOSE), "config"]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_docker_compose_accepts_the_file(docker_compose: str, tmp_path: Path) -> None:
    done = _config(docker_compose, dict.fromkeys(SECRETS, "x"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "postgresql+psycopg://airflow:x@postgres/airflow" in done.stdout


@pytest.mark.parametrize("missing", SECRETS)
def test_docker_compose_refuses_to_start_without_a_secret(
    docker_compose: str, missing: str, tmp_path: Path
) -> None:
    done = _config(docker_compose, {name: "x" for name in SECRETS if name != missing}, tmp_path)
    assert done.returncode != 0
    assert missing in done.stderr
