"""The wheel, in an environment of its own beside an Airflow that knows nothing else of us."""

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from tests.support.installed import ROOT, Installed, build_source_archive, build_wheel, install
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    ongoing_reassignments,
    replicas_per_broker,
    throttle_lines,
)

FOLDERS = ("plugins/counterpoise", "dags", "spark_jobs")
ADD_BROKER_3 = ("--goal", "add-brokers", "--brokers", "3")
TEST_BUTTON = {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
DAG_IDS = {path.stem for path in (ROOT / "dags").glob("*.py")}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed"))


def listed(installed: Installed, *words: str) -> Any:
    """Return what an `airflow` command lists as JSON."""
    done = installed.run("airflow", *words, "--output", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout[done.stdout.index("[{") :])  # after what Airflow warns of


def test_every_file_of_package_dags_and_jobs_is_in_the_wheel(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build_wheel(tmp_path)).namelist()
    known = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    expected = {
        path.removeprefix("plugins/") if path.startswith("plugins/") else f"counterpoise/{path}"
        for path in known
    }
    assert len(expected) > 300
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == expected


def test_the_source_archive_makes_the_same_wheel(tmp_path: Path) -> None:
    wheel = zipfile.ZipFile(build_wheel(tmp_path / "tree"))
    archive = build_source_archive(tmp_path / "archive")
    again = zipfile.ZipFile(build_wheel(tmp_path / "again", archive))
    assert {file.filename: file.CRC for file in again.infolist()} == {
        file.filename: file.CRC for file in wheel.infolist()
    }


def test_airflow_finds_plugin_provider_and_dags_by_one_line_of_configuration(
    installed: Installed,
) -> None:
    (plugin,) = [row for row in listed(installed, "plugins") if row["name"] == "counterpoise"]
    assert "counterpoise==" in str(plugin["source"])
    providers = {row["package_name"]: row for row in listed(installed, "providers", "list")}
    assert providers["counterpoise"]["version"] in str(plugin["source"])
    reserialized = installed.run("airflow", "dags", "reserialize")
    assert reserialized.returncode == 0, reserialized.stdout + reserialized.stderr
    assert {row["dag_id"] for row in listed(installed, "dags", "list")} == DAG_IDS
    assert "No data found" in installed.run("airflow", "dags", "list-import-errors").stdout


def test_the_form_of_kafka_connections_is_ours_where_nobody_else_has_one(
    installed: Installed,
) -> None:
    forms = {row["connection_type"]: row for row in listed(installed, "providers", "hooks")}
    assert forms["kafka"]["package_name"] == "counterpoise"
    assert forms["kafka"]["hook_name"] == "Kafka"


def test_the_notifier_for_dags_of_others_is_listed(installed: Installed) -> None:
    (notifier,) = {
        row["notification_class_name"]
        for row in listed(installed, "providers", "notifications")
        if row["notification_class_name"].startswith("counterpoise.")
    }
    module, _, name = notifier.rpartition(".")
    assert installed.run("python", "-c", f"from {module} import {name}").returncode == 0


def test_the_button_test_of_a_connection_says_why_it_cannot_be_used(
    installed: Installed,
) -> None:
    nobody = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}'
    variables = TEST_BUTTON | {"AIRFLOW_CONN_KAFKA_X": nobody}
    done = installed.run("airflow", "connections", "test", "kafka_x", **variables)
    assert "127.0.0.1:1" in done.stdout, done.stdout + done.stderr
    assert "success" not in done.stdout.lower()


def test_an_asset_that_no_dag_produces_is_refused(installed: Installed) -> None:
    code = "from airflow.sdk import Asset; Asset('a', uri='counterpoise://{}')"
    assert installed.run("python", "-c", code.format("snapshot/fleet")).returncode == 0
    refused = installed.run("python", "-c", code.format("snapshots/fleet"))
    assert "Counterpoise has no such asset" in refused.stderr


def test_a_plugins_folder_with_the_plugin_in_it_does_no_harm(installed: Installed) -> None:
    folder = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins")}
    done = installed.run("airflow", "plugins", "--output", "json", **folder)
    (plugin,) = json.loads(done.stdout[done.stdout.index("[{") :])
    assert plugin["name"] == "counterpoise"
    assert "already registered" not in done.stdout + done.stderr


def test_self_check_runs_the_spark_job_of_the_package_and_finds_plugin_and_dags(
    installed: Installed,
) -> None:
    """No component of Airflow runs, and no cluster is configured: that is what is red."""
    assert installed.run("airflow", "dags", "reserialize").returncode == 0
    assert installed.run("counterpoise", "ledger", "migrate").returncode == 0
    words = ("self-check", "--json", "--timeout", "5m")
    done = installed.run("counterpoise", *words, timeout_seconds=600)
    found = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    failures = {what for what, check in found.items() if check["state"] == "failed"}
    components = {"airflow scheduler", "airflow dag-processor", "airflow triggerer"}
    assert failures == {"settings", "airflow dags", *components}, done.stdout
    assert "paused" in found["airflow dags"]["detail"]
    assert "counterpoise==" in found["airflow plugin"]["detail"]
    assert "a job of one row" in found["spark"]["detail"]


def test_planning_runs_without_a_source_tree(installed: Installed) -> None:
    cluster = {
        "brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}, {"id": 3, "rack": "c"}],
        "partitions": [["orders", number, [1, 2], 1, 8_000_000] for number in range(6)],
    }
    (installed.folder / "cwd" / "cluster.json").write_text(json.dumps(cluster))
    options = ("--state", "cluster.json", *ADD_BROKER_3)
    planned = installed.run("counterpoise", "plan", *options, "--out", "plan.json")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    shown = installed.run("counterpoise", "show", "plan.json", "--rate", "50MB/s", "--json")
    assert shown.returncode == 0, shown.stderr
    status = installed.run("counterpoise", "status")
    assert str(installed.folder / "home") in status.stdout + status.stderr


def settings_for(kafka: LocalKafka, folder: Path) -> dict[str, str]:
    """Return the variables of a cluster whose brokers may fill the disk of this machine."""
    policy = f"{{{ON_A_SHARED_DISK}}}"
    (folder / "clusters.yaml").write_text(
        f"clusters: {{demo: {{connection: x, policy: {policy}}}}}"
    )
    connection = f'x: {{bootstrap.servers: "{kafka.bootstrap_string}"}}'
    (folder / "connections.yaml").write_text(connection)
    return {
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
    }


def test_the_main_job_runs_on_brokers_without_a_source_tree(
    installed: Installed, tmp_path: Path
) -> None:
    """By command line; `tests/nightly/test_wheel_in_airflow.py` does it by the packaged Dags."""
    with local_kafka.running(tmp_path, brokers_in_racks("a", "b", "c")) as kafka:
        create_topics(kafka.bootstrap_string, [TopicSpec("orders", [(1, 2)] * 6)])
        fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(6), 100_000))
        configured = settings_for(kafka, tmp_path)
        for words in (
            ("snapshot", "--cluster", "demo", "--out", "state.json"),
            ("plan", "--state", "state.json", *ADD_BROKER_3, "--out", "main.json"),
            ("approve", "main.json", "--rate", "50MB/s", "--reason", "broker 3 joined"),
            ("execute", "main.json"),
            ("verify", "main.json"),
        ):
            done = installed.run("counterpoise", *words, **configured)
            assert done.returncode == 0, (words, done.stdout + done.stderr)
        settings = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
        variables = TEST_BUTTON | {"AIRFLOW_CONN_KAFKA_X": json.dumps(settings)}
        tried = installed.run("airflow", "connections", "test", "kafka_x", **variables)
        assert "Connection success!" in tried.stdout, tried.stdout + tried.stderr
        at = ("--bootstrap", kafka.bootstrap_string)
        audited = installed.run("counterpoise", "audit", *at, "--out", "audit")
        assert "rules found nothing" in audited.stdout, audited.stderr  # others, of this disk
        assert set(replicas_per_broker(kafka).values()) == {4}
        assert (throttle_lines(kafka), ongoing_reassignments(kafka)) == ([], "")
