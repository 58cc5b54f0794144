"""A local Airflow works, tells of a dead component, and leaves nothing behind."""

import os
import stat
from pathlib import Path

import httpx
import pytest

from local_airflow import AirflowApi, LocalAirflow
from local_airflow.api import AirflowApiError
from local_processes import ChildFailedError, wait_until

PLUGINS = Path(__file__).parents[2] / "plugins"
HELLO = """\
from airflow.sdk import dag, task

@dag(schedule=None)
def hello():
    @task
    def greet(params=None):
        print("good morning,", params["name"])

    greet()

hello()
"""


def test_a_local_airflow_from_start_to_end(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "hello.py").write_text(
        HELLO.replace("schedule=None", 'schedule=None, params={"name": "nobody"}')
    )
    with LocalAirflow(tmp_path / "home", dags=dags, plugins=PLUGINS) as airflow:
        pids = [
            pid
            for process in airflow.processes.values()
            for pid in (process.pid, process.keeper_pid)
        ]
        assert stat.S_IMODE(airflow.home.passwords_file.stat().st_mode) == 0o600
        check_a_run(airflow.api("alice"))
        check_who_may_do_what(airflow)
        check_a_death_is_told(airflow)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def check_a_run(api: AirflowApi) -> None:
    run_id = api.trigger("hello", conf={"name": "Kafka"})
    assert api.wait_for_run("hello", run_id, 120).state == "success"
    assert api.task_states("hello", run_id) == {"greet": "success"}
    assert "good morning, Kafka" in api.task_log("hello", run_id, "greet")
    assert [run.run_id for run in api.dag_runs("hello")] == [run_id]


def check_who_may_do_what(airflow: LocalAirflow) -> None:
    with pytest.raises(AirflowApiError) as refused:
        airflow.api("viewer").trigger("hello")
    assert refused.value.status == httpx.codes.FORBIDDEN
    with pytest.raises(AirflowApiError, match="login of alice"):
        AirflowApi(airflow.base_url, "alice", "wrong").dag_runs("hello")
    for page in ("reports", "runs/x/plan", "openapi.json", "docs"):
        answer = httpx.get(f"{airflow.base_url}/counterpoise/{page}", trust_env=False)
        assert answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND), page


def check_a_death_is_told(airflow: LocalAirflow) -> None:
    scheduler = airflow.processes["scheduler"]
    airflow.check()
    os.kill(scheduler.pid, 9)
    wait_until(lambda: scheduler.poll() is not None, "the scheduler to be gone", 30)
    with pytest.raises(ChildFailedError, match="Airflow's scheduler ended with -9"):
        airflow.check()
