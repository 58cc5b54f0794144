"""docker-compose.yaml starts what the native run starts: same commands, same variables.

It cannot be started here; tests/nightly/test_compose_services.py runs its services.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet

from dev.local_airflow.components import COMMANDS, MIGRATE, PLACE_VARIABLES, SHARED_VARIABLES

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
DOCKERFILE = ROOT / "docker/Dockerfile"
PROFILES = ("broker-4", "object-store", "smoke")
SECRETS = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_DATABASE_PASSWORD",
    "COUNTERPOISE_LEDGER_PASSWORD",
    "AIRFLOW_API_SECRET_KEY",
    "AIRFLOW_JWT_SECRET",
    "AIRFLOW_FERNET_KEY",
    "SPARK_SECRET",
)
# What a place with containers has to say on top: databases over a network, and where our own things
# lie.
ON_TOP = re.compile(
    r"AWS_\w+|AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC|AIRFLOW_CONN_\w+|COUNTERPOISE_\w+"
    r"|TMPDIR"
)


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


def test_tasks_run_once_the_api_server_answers(services: dict[str, Any]) -> None:
    """A task that is due at the start fails where it finds no api-server."""
    assert services["scheduler"]["depends_on"]["api-server"]["condition"] == "service_healthy"


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


def mount_points(service: dict[str, Any]) -> list[str]:
    return [volume.split(":")[1] for volume in service.get("volumes", [])]


def test_brokers_write_to_their_volume(services: dict[str, Any]) -> None:
    for name in (name for name in services if name.startswith("broker-")):
        log_dirs = services[name]["environment"]["KAFKA_LOG_DIRS"]
        assert mount_points(services[name]) == [log_dirs]


def test_spark_writes_to_volumes_of_its_own_which_the_image_makes(
    services: dict[str, Any],
) -> None:
    worker, scheduler = services["spark-worker"], services["scheduler"]
    command, variables = worker["command"], worker["environment"]
    work_dir = command[command.index("--work-dir") + 1]
    assert work_dir in mount_points(worker)
    assert variables["SPARK_LOCAL_DIRS"] == work_dir
    assert variables["JAVA_TOOL_OPTIONS"] == f"-Djava.io.tmpdir={work_dir}"
    driver_dir = scheduler["environment"]["TMPDIR"]
    assert driver_dir in mount_points(scheduler)
    (made,) = re.findall(r"install --directory --owner=counterpoise (.*)", DOCKERFILE.read_text())
    assert {work_dir, driver_dir} <= set(made.split())


def test_spark_authenticates_with_a_secret_that_stands_in_no_command(
    services: dict[str, Any],
) -> None:
    secret = "${SPARK_SECRET:?see docker/example.env}"
    having = {name for name, each in services.items() if secret in str(each["environment"])}
    assert having == {"spark-master", "spark-worker", "scheduler"}
    for name in ("spark-master", "spark-worker"):
        variables = services[name]["environment"]
        assert variables["_SPARK_AUTH_SECRET"] == secret
        assert variables["SPARK_DAEMON_JAVA_OPTS"] == "-Dspark.authenticate=true"
    # Of the driver: they reach Spark in a file that only its user may read.
    settings = services["scheduler"]["environment"]["COUNTERPOISE_SPARK_CONF"]
    assert f"spark.authenticate=true spark.authenticate.secret={secret}" in settings
    assert not any(secret in str(each.get("command", "")) for each in services.values())


def on_network(services: dict[str, Any], network: str) -> set[str]:
    return {name for name, service in services.items() if network in service["networks"]}


def test_each_network_has_those_who_need_it(services: dict[str, Any]) -> None:
    brokers = {f"broker-{number}" for number in range(1, 5)}
    assert on_network(services, "kafka") == {*brokers, "scheduler", "smoke"}
    assert on_network(services, "spark") == {"spark-master", "spark-worker", "scheduler"}
    assert "spark-worker" not in on_network(services, "airflow")
    assert "object-store" not in on_network(services, "airflow")


def test_every_service_has_limits(services: dict[str, Any]) -> None:
    without = {n for n, each in services.items() if not {"mem_limit", "cpus"} <= each.keys()}
    assert without == set()


def test_only_workers_and_airflow_have_the_store(services: dict[str, Any]) -> None:
    having = {
        name
        for name, service in services.items()
        if "/var/lib/counterpoise" in mount_points(service)
    }
    assert having == {*COMMANDS, "migrate", "spark-worker"}


def test_ledger_and_airflow_have_roles_of_their_own_and_none_is_the_superuser(
    services: dict[str, Any],
) -> None:
    variables = services["scheduler"]["environment"]
    urls = (variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"], variables["COUNTERPOISE_LEDGER"])
    roles = {re.match(r"postgresql\+psycopg://(\w+):", url).group(1) for url in urls}  # type: ignore[union-attr]
    assert len(roles) == 2
    assert services["postgres"]["environment"]["POSTGRES_USER"] not in roles


def test_services_that_stay_up_say_whether_they_are_healthy(services: dict[str, Any]) -> None:
    staying = {name for name, service in services.items() if service["restart"] != "no"}
    assert {name for name in services if "healthcheck" in services[name]} == staying


def test_what_is_ours_can_write_only_to_its_volumes(services: dict[str, Any]) -> None:
    ours = [service for service in services.values() if "counterpoise" in service["image"]]
    assert len(ours) >= len(COMMANDS) + 3
    assert all(service["read_only"] and service["tmpfs"] == ["/tmp"] for service in ours)


def test_images_of_others_may_be_named_by_digest(services: dict[str, Any]) -> None:
    images = {service["image"] for service in services.values()}
    assert all(re.fullmatch(r"\$\{\w+_IMAGE:-\S+:\S+\}", image) for image in images)


def test_the_smoke_job_runs_once_and_only_when_asked_for(services: dict[str, Any]) -> None:
    smoke = services["smoke"]
    assert (smoke["restart"], smoke["profiles"]) == ("no", ["smoke"])
    awaited = {"api-server", "scheduler", "dag-processor", "triggerer", "spark-worker"}
    assert awaited <= smoke["depends_on"].keys()
    conditions = {each["condition"] for each in smoke["depends_on"].values()}
    assert conditions == {"service_healthy"}


def test_no_secret_stands_in_the_file() -> None:
    text = COMPOSE.read_text()
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(SECRETS)
    assert re.findall(r"//\w+:(?!\$\{)[^@\s]+@", text) == []


def made_by_the_command_for(name: str) -> str:
    """Run what docker/example.env says, on a Python without packages."""
    text = (ROOT / "docker" / "example.env").read_text()
    (code,) = re.findall(rf"^# +{name}: python -c '(.*)'$", text, re.MULTILINE)
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.strip()


def test_the_example_says_how_to_make_each_secret_and_has_none() -> None:
    assert Fernet(made_by_the_command_for("AIRFLOW_FERNET_KEY")).encrypt(b"x")
    assert len(made_by_the_command_for("all others")) == 64
    lines = (ROOT / "docker" / "example.env").read_text().splitlines()
    assert {line for line in lines if line and not line.startswith("#")} == {
        f"{name}=" for name in SECRETS
    }


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
    profiles = [word for name in PROFILES for word in ("--profile", name)]
    files = ["--env-file", str(scratch / "empty.env"), "--file", str(COMPOSE)]
    command = [program, *files, *profiles, "config"]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240
    )


def test_docker_compose_accepts_the_file(docker_compose: str, tmp_path: Path) -> None:
    done = _config(docker_compose, dict.fromkeys(SECRETS, "x"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "postgresql+psycopg://airflow:x@postgres/airflow" in done.stdout
    assert "demo.smoke" in done.stdout


@pytest.mark.parametrize("missing", SECRETS)
def test_docker_compose_refuses_to_start_without_a_secret(
    docker_compose: str, missing: str, tmp_path: Path
) -> None:
    done = _config(docker_compose, {name: "x" for name in SECRETS if name != missing}, tmp_path)
    assert done.returncode != 0
    assert missing in done.stderr
