"""The services of docker-compose.yaml, each with the command, the environment and the volumes that
the file declares, as an unprivileged user on a read-only root; the main job on all of them; then a
fourth broker, and the main job with the store in the object store.

All tests share the services, and a test that starts more of them comes after those without.
"""

import json
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from counterpoise.model.plan import RebalancePlan
from dev.local_processes import wait_until
from tests.architecture.test_compose import SECRETS
from tests.support.compose_run import ROOT, S3_SERVER, VERSITYGW, ComposeRun, why_not_here
from tests.support.kafka_facts import ON_A_SHARED_DISK

STARTED_FIRST = ("postgres", "broker-1", "broker-2", "broker-3", "spark-master")
AIRFLOW = ("api-server", "dag-processor", "triggerer", "scheduler")
STARTED_THEN = ("spark-worker", *AIRFLOW)
MAKE_TOPIC = "from demo.smoke import make_uneven_topic; make_uneven_topic('broker-1:9092')"
# Rack and number of replicas of each broker, read by no code of ours.
DESCRIBE_BROKERS = """
import json
from collections import Counter
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": "broker-1:9092", "log_level": 0})
nodes = admin.describe_cluster(request_timeout=60).result().nodes
topics = admin.list_topics(timeout=60).topics.values()
partitions = [partition for topic in topics for partition in topic.partitions.values()]
held = Counter(broker for partition in partitions for broker in partition.replicas)
print(json.dumps({node.id: [node.rack, held[node.id]] for node in nodes}))
"""
# What is in the bucket, listed by no code of ours.
LIST_BUCKET = """
from os import environ
from pyarrow import fs
s3, store = fs.FileSystem.from_uri(environ["COUNTERPOISE_STORE"])
for found in s3.get_file_info(fs.FileSelector(store, recursive=True)):
    print(found.path)
"""


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeRun]:
    """Everything that `docker-compose up` starts, healthy, and a new ledger."""
    if reason := why_not_here():
        pytest.skip(reason)
    values = {name: secrets.token_hex(16) for name in SECRETS}
    values["AIRFLOW_FERNET_KEY"] = Fernet.generate_key().decode()
    # Whatever the time of the day is: a snapshot of a full hour would have a plan of its own.
    values["COUNTERPOISE_SNAPSHOT_SCHEDULE"] = values["COUNTERPOISE_COMPACTION_SCHEDULE"] = "manual"
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
        made = running.run("scheduler", "counterpoise", "ledger", "migrate")
        assert made.returncode == 0, made.stderr
        yield running


def test_what_is_started_here_is_what_the_file_starts(compose: ComposeRun) -> None:
    by_default = {name for name, each in compose.services.items() if not each.get("profiles")}
    assert by_default == {*STARTED_FIRST, "migrate", *STARTED_THEN}


def test_self_check_is_green_where_tasks_run(compose: ComposeRun) -> None:
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
    assert "All masters are unresponsive" in spark["detail"]
    assert "spark.authenticate.secret" in spark["remedy"]
    assert "Mismatched response" in compose.processes["spark-master"].log_path.read_text()


def test_the_smoke_job_goes_through_the_main_job(compose: ComposeRun) -> None:
    done = compose.run("smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the main job came to its end" in done.stdout
    assert list(compose.volume("counterpoise-store").glob("store/reports/demo/*.html"))


def test_no_task_lacks_a_place_for_its_files(compose: ComposeRun) -> None:
    """The root is read-only: what a library keeps in a home has to have another place."""
    logs = list(compose.volume("airflow-home").glob("task-logs/**/*.log"))
    assert logs
    assert [path.name for path in logs if "Read-only file system" in path.read_text()] == []


def test_a_plan_is_made_and_exported_where_commands_are_typed(compose: ComposeRun) -> None:
    """Relative paths, as in docs/operate.md: there is room for files beside the store."""
    wanted = "counterpoise plan --cluster demo --goal demote-brokers --brokers 1 --out plan.json"
    planned = compose.run("scheduler", *wanted.split())
    assert planned.returncode == 0, planned.stdout + planned.stderr
    wanted = "counterpoise export plan.json --out moves.json"
    exported = compose.run("scheduler", *wanted.split())
    assert exported.returncode == 0, exported.stderr
    assert (compose.volume("counterpoise-store") / "moves.json").exists()


@pytest.fixture(scope="module")
def fourth_broker(compose: ComposeRun) -> ComposeRun:
    """After `docker-compose --profile broker-4 up -d`, beside a topic that has data."""
    made = compose.run("smoke", "python", "-c", MAKE_TOPIC)
    assert made.returncode == 0, made.stderr
    compose.start("broker-4")
    compose.wait_until_healthy("broker-4")
    return compose


def test_the_fourth_broker_joins_on_a_rack_of_its_own_and_holds_nothing(
    fourth_broker: ComposeRun,
) -> None:
    found: dict[str, tuple[str, int]] = {}

    def has_joined() -> bool:
        done = fourth_broker.run("scheduler", "python", "-c", DESCRIBE_BROKERS)
        assert done.returncode == 0, done.stderr
        found.update(json.loads(done.stdout))
        return "4" in found

    wait_until(has_joined, "broker 4 among the brokers that broker 1 knows", 60)
    racks = {broker: rack for broker, (rack, _) in found.items()}
    assert racks == {"1": "rack-a", "2": "rack-b", "3": "rack-c", "4": "rack-d"}
    assert {broker for broker, (_, replicas) in found.items() if not replicas} == {"4"}


def test_the_audit_asks_for_a_plan_that_moves_replicas_to_the_fourth_broker(
    fourth_broker: ComposeRun,
) -> None:
    volume = fourth_broker.volume("counterpoise-store")
    settings = (ROOT / "docker" / "config" / "clusters.yaml").read_text()
    relaxed = settings.replace("policy:\n", f"policy:\n      {ON_A_SHARED_DISK}\n")
    (volume / "clusters.yaml").write_text(relaxed)
    here = "env COUNTERPOISE_CONFIG=clusters.yaml"
    audited = fourth_broker.run("scheduler", *f"{here} counterpoise audit --cluster demo".split())
    (wanted,) = re.findall(
        r"^ +(counterpoise plan .* --goal add-brokers .*)$", audited.stdout, re.MULTILINE
    )
    planned = fourth_broker.run(
        "scheduler", *shlex.split(f"{here} {wanted} --out fourth-broker.json")
    )
    assert planned.returncode == 0, planned.stdout + planned.stderr
    plan = RebalancePlan.from_json((volume / "fourth-broker.json").read_text())
    assert plan.broker_ids == (4,)
    gaining = {
        broker for move in plan.moves for broker in {*move.replicas_after} - {*move.replicas_before}
    }
    assert gaining == {4}


def files_of_the_volume(compose: ComposeRun) -> set[str]:
    store = compose.volume("counterpoise-store") / "store"
    return {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def on_object_store(fourth_broker: ComposeRun) -> ComposeRun:
    """After the lines of docker/example.env, and `docker-compose --profile object-store up -d`."""
    if VERSITYGW is None and not S3_SERVER.exists():
        pytest.fail(f"there is no {S3_SERVER}; `make test-nightly` makes it")
    text = (ROOT / "docker" / "example.env").read_text()
    named = r"OBJECT_STORE_\w+_KEY|COUNTERPOISE_\w+"
    lines = dict(re.findall(rf"^# ({named})=(.*)$", text, re.MULTILINE))
    keys = {name: secrets.token_hex(16) for name, value in lines.items() if not value}
    changed = fourth_broker.apply({**fourth_broker.variables, **lines, **keys})
    assert set(changed) == set(AIRFLOW)
    fourth_broker.start("object-store")
    for service in ("object-store", *changed):
        fourth_broker.wait_until_healthy(service)
    return fourth_broker


def test_the_main_job_with_the_store_in_the_object_store(
    on_object_store: ComposeRun, tmp_path: Path
) -> None:
    disk = shutil.disk_usage(tmp_path)
    used = 1 - disk.free / disk.total  # as Kafka counts it: what it may not use is used
    assert used < 0.85, f"{used:.0%} of the disk are used: no plan puts anything on broker 4"
    before = files_of_the_volume(on_object_store)
    done = on_object_store.run("smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    described = on_object_store.run("scheduler", "python", "-c", DESCRIBE_BROKERS)
    assert json.loads(described.stdout)["4"][1] > 0, "the plan moved replicas to broker 4"
    listed = on_object_store.run("scheduler", "python", "-c", LIST_BUCKET)
    assert listed.returncode == 0, listed.stderr
    for found in ("history/", "results/", "plans/", r"reports/demo/.*\.html"):
        assert re.search(rf"^counterpoise/store/{found}", listed.stdout, re.MULTILINE), found
    assert files_of_the_volume(on_object_store) == before
