"""`counterpoise self-check` as typed: what is right, what is wrong and what to do, without Airflow
and without a cluster.
"""

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from counterpoise.installation import open_installation
from counterpoise.ledger.database import open_database
from counterpoise.services import self_check
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine
from tests.support.postgres import Postgres

START = "from counterpoise.cli.start import run; run()"
NO_JAVA = "/nowhere/java"
READER = "reader_of_self_check"


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A command line whose cluster does not answer; without Java, Spark's answer comes at once."""
    line = CommandLine.in_folder(tmp_path, capsys)
    line.configure("127.0.0.1:1")
    line.environment["COUNTERPOISE_JAVA_HOME"] = NO_JAVA
    return line


def checks(command: CommandLine, *words: str, code: int = 1) -> dict[str, dict[str, Any]]:
    typed = command.type("self-check", "--json", *words)
    assert typed.code == code, typed.out + typed.err
    document = json.loads(typed.out)
    assert document["healthy"] is (code == 0)
    return {check["what"]: check for check in document["checks"]}


def test_each_failure_says_what_to_do_and_nothing_is_left(command: CommandLine) -> None:
    found = checks(command)
    states = {what: check["state"] for what, check in found.items()}
    assert states == {
        "counterpoise": "ok",
        "settings": "ok",
        "connections demo": "ok",
        "ledger": "failed",
        "store": "ok",
        "java": "failed",
        "spark": "failed",
        "airflow": "left out",
        "kafka demo": "failed",
    }
    failures = [check for check in found.values() if check["state"] == "failed"]
    assert all(check["remedy"] for check in failures)
    assert "counterpoise ledger migrate" in found["ledger"]["remedy"]
    assert NO_JAVA in found["java"]["detail"]
    assert "counterpoise doctor --cluster demo" in found["kafka demo"]["remedy"]
    assert not (command.folder / "ledger.db").exists()
    assert list((command.folder / "store").iterdir()) == []


def test_a_table_has_the_same_with_a_count(command: CommandLine) -> None:
    typed = command.type("self-check")
    assert typed.code == 1
    assert "-> make it, or bring it up to date" in typed.out
    assert typed.out.rstrip().endswith("4 checks failed")


@pytest.mark.parametrize("time_words", ["soon", "0s"])
def test_usage_is_2(command: CommandLine, time_words: str) -> None:
    typed = command.type("self-check", "--timeout", time_words)
    assert typed.code == 2
    assert "--timeout" in typed.err


def test_settings_that_cannot_be_read_are_red_and_the_rest_is_checked(command: CommandLine) -> None:
    (command.folder / "clusters.yaml").write_text("clusters: {demo: {connexion: kafka}}")
    found = checks(command)
    assert found["settings"]["state"] == "failed"
    assert "connexion" in found["settings"]["detail"]
    assert found["kafka"]["state"] == found["connections"]["state"] == "left out"
    assert found["store"]["state"] == "ok"


def test_a_connection_that_nobody_gave_is_named(command: CommandLine) -> None:
    (command.folder / "connections.yaml").unlink()
    found = checks(command)
    assert found["connections demo"]["state"] == found["kafka demo"]["state"] == "failed"
    assert "AIRFLOW_CONN_KAFKA" in found["connections demo"]["detail"]


def test_a_store_that_is_a_file_is_red(command: CommandLine) -> None:
    (command.folder / "store").write_text("")
    store = checks(command)["store"]
    assert store["state"] == "failed"
    assert "COUNTERPOISE_STORE" in store["remedy"]


@pytest.mark.parametrize("url", ["postgresql+psycopg://me@127.0.0.1:1/x", "ledger.db"])
def test_a_ledger_that_cannot_be_opened_is_none_to_migrate(command: CommandLine, url: str) -> None:
    command.environment["COUNTERPOISE_LEDGER"] = url
    ledger = checks(command)["ledger"]
    assert ledger["state"] == "failed"
    assert "COUNTERPOISE_LEDGER" in ledger["remedy"]
    assert "migrate" not in ledger["remedy"]


def test_a_ledger_that_is_made_has_schema_rights_and_clock(command: CommandLine) -> None:
    assert command.type("ledger", "migrate").code == 0
    found = checks(command)
    assert [found[what]["state"] for what in ("ledger", "ledger rights", "ledger clock")] == [
        "ok"
    ] * 3


@pytest.fixture
def read_only_ledger(postgres: Postgres) -> Iterator[str]:
    """The URL of a ledger in Postgres, as a role that may only read it."""
    with postgres.new_database() as name:
        open_database(postgres.url(name)).dispose()
        postgres.execute(
            f"CREATE ROLE {READER} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}",
            name,
        )
        yield postgres.url(name, READER)
        postgres.execute(f"DROP OWNED BY {READER}", name)
    postgres.execute(f"DROP ROLE {READER}")


def test_a_role_that_may_only_read_is_red(command: CommandLine, read_only_ledger: str) -> None:
    command.environment["COUNTERPOISE_LEDGER"] = read_only_ledger
    found = checks(command)
    assert found["ledger"]["state"] == "ok"
    assert found["ledger rights"]["state"] == "failed"
    assert "insert into runs (permission denied" in found["ledger rights"]["detail"]
    assert "docs/security.md" in found["ledger rights"]["remedy"]


def test_every_table_of_a_ledger_in_postgres_is_as_before(
    command: CommandLine, postgres: Postgres
) -> None:
    url = postgres.empty_ledger()
    command.environment["COUNTERPOISE_LEDGER"] = url
    found = checks(command)
    assert [found[what]["state"] for what in ("ledger", "ledger rights", "ledger clock")] == [
        "ok"
    ] * 3
    with psycopg.connect(host=str(postgres.folder), dbname="ledger", user="postgres") as connection:
        rows = connection.execute("SELECT count(*) FROM runs").fetchone()
    assert rows == (0,)


def test_spark_and_java_are_left_out_where_neither_pyspark_nor_airflow_is(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name)
    )
    found = checks(command)
    assert found["spark"]["state"] == found["java"]["state"] == "left out"
    assert "the extra `spark`); only reports and compaction" in found["spark"]["detail"]
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    found = checks(command, "--timeout", "2s")
    assert found["java"]["state"] == "failed"
    assert found["spark"]["state"] == "failed"


def test_an_airflow_whose_database_is_away_is_red_and_its_login_is_not_shown(
    command: CommandLine,
) -> None:
    url = "postgresql+psycopg://me:MARKED-SECRET@127.0.0.1:1/x"
    command.environment |= {
        "AIRFLOW_HOME": str(command.folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": url,
    }
    typed = command.type("self-check", "--json", "--timeout", "4m")
    assert typed.code == 1
    found = {check["what"]: check for check in json.loads(typed.out)["checks"]}
    assert found["airflow version"]["state"] == "ok"
    away = {"airflow dags", "airflow scheduler", "airflow dag-processor", "airflow triggerer"}
    for what in away:
        assert found[what]["state"] == "failed", what
        assert "airflow db check" in found[what]["remedy"], what
    assert "MARKED-SECRET" not in typed.out + typed.err


def test_clocks_that_differ_are_red(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOISE_JAVA_HOME", NO_JAVA)
    assert command.type("ledger", "migrate").code == 0
    with open_installation(environment=command.environment) as installation:
        installation.clock = lambda: datetime.now(UTC) - timedelta(minutes=1)
        found = {
            each.what: each for each in self_check.self_check(installation, timeout_seconds=240)
        }
    clock = found["ledger clock"]
    assert clock.state == "failed"
    assert "s ahead of ours" in clock.detail
    assert "NTP" in clock.remedy


def processes_that_name(folder: Path) -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode())
    return [line for line in lines if str(folder) in line]


# -- as a process: what hangs must not hold it


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def test_what_never_answers_ends_with_the_time_and_no_secret_is_shown(
    tmp_path: Path, mute_port: int
) -> None:
    (tmp_path / "clusters.yaml").write_text("clusters: {demo: {connection: kafka}}")
    login = f"postgresql+psycopg://counterpoise:MARKED-SECRET@127.0.0.1:{mute_port}/ledger"
    connection = {
        "bootstrap.servers": f"127.0.0.1:{mute_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": "MARKED-SECRET",
    }
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COUNTERPOISE_HOME": str(tmp_path),
        "COUNTERPOISE_CONFIG": str(tmp_path / "clusters.yaml"),
        "COUNTERPOISE_LEDGER": login,
        "COUNTERPOISE_STORE_CMD": f"{sys.executable} -c 'import time; time.sleep(300)' {tmp_path}",
        "COUNTERPOISE_JAVA_HOME": NO_JAVA,
        "COUNTERPOISE_SPARK_CONF": "spark.hadoop.fs.s3a.secret.key=MARKED-SECRET",
        "AIRFLOW_CONN_KAFKA": json.dumps({"conn_type": "kafka", "extra": connection}),
    }
    done = subprocess.run(
        [sys.executable, "-c", START, "self-check", "--json", "--timeout", "4s"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,  # it ends, whatever hangs
    )
    assert done.returncode == 1, done.stderr
    found = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["ledger"]["detail"] == found["kafka demo"]["detail"] == "no answer within 4 s"
    assert found["store"]["detail"] == "no answer within 4 s"
    assert "MARKED-SECRET" not in done.stdout + done.stderr
    wait_until(lambda: not processes_that_name(tmp_path), "its child processes to end", 60)
