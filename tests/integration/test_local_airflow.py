"""A local Airflow works, tells of a dead component, and leaves nothing behind."""

import os
import stat
from pathlib import Path

import httpx
import pytest

from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import AirflowApiError
from dev.local_processes import ChildFailedError, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
SECONDS = 300.0
PLUGINS = Path(__file__).parents[2] / "plugins"
HELLO = """\
import sys, tempfile
from airflow.sdk import dag, task

@dag(schedule=None)
def hello():
    @task
    def greet(params=None):
        print("good morning,", params["name"])
        print("libraries are loaded:", "pyarrow.dataset" in sys.modules)
        print("temporary files are in", tempfile.gettempdir())

    greet()

hello()
"""


def test_a_local_airflow_from_start_to_end(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "hello.py").write_text(
        HELLO.replace("schedule=None", 'schedule=None, params={"name": "nobody"}')
    )
    paused = HELLO.replace("schedule=None", "schedule=None, is_paused_upon_creation=True")
    (dags / "kafka_snapshot.py").write_text(paused.replace("hello", "kafka_snapshot"))
    with LocalAirflow(tmp_path / "home", dags=dags, plugins=PLUGINS) as airflow:
        pids = [
            pid
            for process in airflow.processes.values()
            for pid in (process.pid, process.keeper_pid)
        ]
        assert stat.S_IMODE(airflow.home.passwords_file.stat().st_mode) == 0o600
        check_a_run(airflow)
        check_who_may_do_what(airflow)
        check_a_death_is_told(airflow)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def check_a_run(airflow: LocalAirflow) -> None:
    api = airflow.api("alice")
    run_id = api.trigger("hello", conf={"name": "Kafka"})
    assert api.wait_for_run("hello", run_id, SECONDS).state == "success"
    assert api.task_states("hello", run_id) == {"greet": "success"}
    log = api.task_log("hello", run_id, "greet")
    assert "good morning, Kafka" in log
    assert "libraries are loaded: True" in log
    assert f"temporary files are in {airflow.home.temporary_files}" in log
    assert [run.run_id for run in api.dag_runs("hello")] == [run_id]


def check_who_may_do_what(airflow: LocalAirflow) -> None:
    with pytest.raises(AirflowApiError) as refused:
        airflow.api("viewer").trigger("hello")
    assert refused.value.status == httpx.codes.FORBIDDEN
    with pytest.raises(AirflowApiError, match="login of alice"):
        AirflowApi(airflow.base_url, "alice", "wrong").dag_runs("hello")
    for page in ("metrics", "reports", "runs/x", "openapi.json", "docs"):
        url = f"{airflow.base_url}/counterpoise/{page}"
        answer = httpx.get(url, timeout=SECONDS, trust_env=False)
        assert answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND), page


def check_a_death_is_told(airflow: LocalAirflow) -> None:
    scheduler = airflow.processes["scheduler"]
    airflow.check()
    os.kill(scheduler.pid, 9)
    wait_until(lambda: scheduler.poll() is not None, "the scheduler to be gone", SECONDS)
    with pytest.raises(ChildFailedError, match="Airflow's scheduler ended with -9"):
        airflow.check()
