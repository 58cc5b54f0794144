"""What a local Airflow reads in the log of its scheduler: has a task parked itself; which databases
it may copy; and what its client does where SQLite refuses a write.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev import local_airflow
from dev.local_airflow import LocalAirflow
from dev.local_airflow.api import DATABASE_ATTEMPTS, AirflowApi, AirflowApiError
from dev.local_processes import ChildFailedError

AUTH_MANAGER = "AIRFLOW__CORE__AUTH_MANAGER"
URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
STARTS = "Starting the scheduler\n"
QUEUED = (
    "Trying to enqueue tasks: [<TaskInstance: kafka_rebalance.plan manual__2 [scheduled] ti_id=1>, "
    "<TaskInstance: kafka_rebalance.approve manual__1 [scheduled] ti_id=2>] for executor: Local\n"
)
OF_ANOTHER = "TaskInstance Finished: dag_id=kafka_rebalance, task_id=approve, run_id=manual__2, x\n"
ENDED = "TaskInstance Finished: dag_id=kafka_rebalance, task_id=approve, run_id=manual__1, x\n"


@pytest.mark.parametrize(
    ("log", "has_parked"),
    [
        (STARTS + QUEUED, False),
        (STARTS + QUEUED + OF_ANOTHER, False),
        (STARTS + QUEUED + ENDED, True),
        (STARTS + QUEUED + ENDED + QUEUED, False),
        (STARTS + QUEUED + ENDED + QUEUED + ENDED, True),
        (STARTS + QUEUED + STARTS, True),
    ],
    ids=["queued", "another ended", "parked", "goes on", "asks again", "scheduler died"],
)
def test_a_task_has_parked_when_each_of_its_processes_has_ended(
    log: str, has_parked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_airflow, "PARK_TIMEOUT_SECONDS", 0.0)
    airflow = LocalAirflow(tmp_path, dags=tmp_path, plugins=tmp_path)
    airflow.home.component_log("scheduler").write_text(log)
    if has_parked:
        airflow.wait_until_parked("kafka_rebalance", "manual__1", "approve")
    else:
        with pytest.raises(ChildFailedError, match="manual__1 approve to park"):
            airflow.wait_until_parked("kafka_rebalance", "manual__1", "approve")


def test_a_database_is_copied_only_where_the_same_airflow_would_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another environment may have another version, another auth manager has its own tables."""
    migrated = []

    class Migration:
        def __init__(self, _command: Any, *, env: Mapping[str, str], **_: Any) -> None:
            home = Path(env["AIRFLOW_HOME"])
            (home / "airflow.db").write_text(f"{env['PATH']} {env.get(AUTH_MANAGER)}")
            (home / "airflow.cfg").touch()
            migrated.append(home.name)

        def wait(self, _timeout_seconds: float) -> int:
            return 0

        def stop(self) -> None:
            pass

    monkeypatch.setattr(local_airflow, "start", Migration)
    monkeypatch.setattr(LocalAirflow, "_migrated", {})
    own, other = {"PATH": "/own"}, {"PATH": "/other"}
    fab = {"PATH": "/own", AUTH_MANAGER: "fab"}
    for name, kind in enumerate((own, other, fab, own, other, fab)):
        airflow = LocalAirflow(tmp_path / str(name), dags=tmp_path, plugins=tmp_path)
        home = airflow.home
        home.directory.mkdir()
        database = f"sqlite:///{home.database}"
        variables = {"AIRFLOW_HOME": str(home.directory), URL: database} | kind
        airflow._migrate(variables)
        assert home.database.read_text() == f"{kind['PATH']} {kind.get(AUTH_MANAGER)}"
    assert migrated == ["0", "1", "2"]


@pytest.mark.parametrize("refusals", [0, 1, DATABASE_ATTEMPTS - 1, DATABASE_ATTEMPTS])
def test_a_write_that_sqlite_refused_is_asked_again(
    refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow has rolled it back. Another write that came between is no reason to give up."""
    refused = httpx.Response(500, json={"detail": {"reason": "Database error"}})
    run = httpx.Response(200, json={"dag_run_id": "manual__1"})
    token = httpx.Response(201, json={"access_token": "x"})
    answers = iter([token, *[refused] * refusals, run])
    api = AirflowApi("http://127.0.0.1:1", "alice", "password")
    monkeypatch.setattr("dev.local_airflow.api.POLL_SECONDS", 0.0)
    monkeypatch.setattr(api._client, "_transport", httpx.MockTransport(lambda _: next(answers)))
    if refusals < DATABASE_ATTEMPTS:
        assert api.trigger("kafka_rebalance") == "manual__1"
    else:
        with pytest.raises(AirflowApiError, match=r"500 .*Database error"):
            api.trigger("kafka_rebalance")
    api.close()
