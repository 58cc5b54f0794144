"""The services of docker-compose.yaml, each with the command, the environment and the volumes that
the file declares, as an unprivileged user on a read-only root; then the main job on all of them.
"""

import json
import secrets
from collections.abc import Iterator

import pytest
from cryptography.fernet import Fernet

from tests.architecture.test_compose import SECRETS
from tests.support.compose_run import ComposeRun, why_not_here

STARTED_FIRST = ("postgres", "broker-1", "broker-2", "broker-3", "spark-master")
STARTED_THEN = ("api-server", "scheduler", "dag-processor", "triggerer", "spark-worker")


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeRun]:
    """Everything that `docker-compose up` starts, healthy."""
    if reason := why_not_here():
        pytest.skip(reason)
    values = {name: secrets.token_hex(16) for name in SECRETS}
    values["AIRFLOW_FERNET_KEY"] = Fernet.generate_key().decode()
    with ComposeRun(tmp_path_factory.mktemp("compose"), values) as running:
        for service in STARTED_FIRST:
            running.start(service)
        for service in STARTED_FIRST:
            running.wait_until_healthy(service)
        migrated = running.run("migrate")
        assert migrated.returncode == 0, migrated.stdout + migrated.stderr
        for service in STARTED_THEN:
            running.start(service)
        for service in STARTED_THEN:
            running.wait_until_healthy(service)
        yield running


def test_what_is_started_here_is_what_the_file_starts(compose: ComposeRun) -> None:
    by_default = {name for name, each in compose.services.items() if not each.get("profiles")}
    assert by_default == {*STARTED_FIRST, "migrate", *STARTED_THEN}


def test_self_check_is_green_where_tasks_run(compose: ComposeRun) -> None:
    made = compose.run("scheduler", "counterpoise", "ledger", "migrate")
    assert made.returncode == 0, made.stderr
    done = compose.run("scheduler", "counterpoise", "self-check", "--json", "--timeout", "5m")
    found = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    failures = [check for check in found.values() if check["state"] == "failed"]
    assert failures == [], done.stderr
    assert "spark://spark-master:7077" in found["spark"]["detail"]
    assert found["airflow dags"]["state"] == found["kafka demo changes"]["state"] == "ok"


def test_only_declared_volumes_can_be_written(compose: ComposeRun) -> None:
    script = "touch /opt/counterpoise/x /opt/counterpoise/dags/x $HOME/x /usr/x"
    refused = compose.run("scheduler", "sh", "-c", script)
    assert refused.stderr.count("Read-only file system") == 4, refused.stderr
    allowed = "touch /tmp/x /var/lib/airflow/x /var/lib/counterpoise/x && id -u"
    assert compose.run("scheduler", "sh", "-c", allowed).stdout.strip() == "1000"


def test_spark_reaches_no_broker_and_no_database(compose: ComposeRun) -> None:
    for host, port in (("broker-1", 9092), ("postgres", 5432)):
        script = f"exec 3<>/dev/tcp/{host}/{port}"
        assert compose.run("spark-worker", "bash", "-c", script).returncode != 0
        assert compose.run("scheduler", "bash", "-c", script).returncode == 0


def test_only_tasks_reach_the_brokers(compose: ComposeRun) -> None:
    for service in ("api-server", "dag-processor", "triggerer"):
        script = "exec 3<>/dev/tcp/broker-1/9092"
        assert compose.run(service, "bash", "-c", script).returncode != 0


def test_who_lacks_the_secret_gets_no_spark(compose: ComposeRun) -> None:
    settings = compose.services["scheduler"]["environment"]["COUNTERPOISE_SPARK_CONF"]
    guessed = settings.replace(compose.variables["SPARK_SECRET"], "guessed")
    words = ("self-check", "--json", "--timeout", "5m")
    given = f"COUNTERPOISE_SPARK_CONF={guessed}"
    done = compose.run("scheduler", "env", given, "counterpoise", *words)
    (spark,) = (each for each in json.loads(done.stdout)["checks"] if each["what"] == "spark")
    assert spark["state"] == "failed"


def test_the_smoke_job_goes_through_the_main_job(compose: ComposeRun) -> None:
    done = compose.run("smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the main job came to its end" in done.stdout
    assert list(compose.volume("counterpoise-store").glob("store/reports/demo/*.html"))


def test_a_plan_is_made_and_exported_where_commands_are_typed(compose: ComposeRun) -> None:
    """Relative paths, as in docs/operating.md: there is room for files beside the store."""
    wanted = "counterpoise plan --cluster demo --goal demote-brokers --brokers 1 --out plan.json"
    planned = compose.run("scheduler", *wanted.split())
    assert planned.returncode == 0, planned.stdout + planned.stderr
    wanted = "counterpoise export plan.json --out moves.json"
    exported = compose.run("scheduler", *wanted.split())
    assert exported.returncode == 0, exported.stderr
    assert (compose.volume("counterpoise-store") / "moves.json").exists()
