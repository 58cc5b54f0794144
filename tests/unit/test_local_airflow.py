"""What a local Airflow reads in the log of its scheduler: has a task parked itself; which databases
it may copy; and what its client does where SQLite refuses a write.
"""

from pathlib import Path

import pytest

from dev import local_airflow
from dev.local_airflow import LocalAirflow
from dev.local_processes import ChildFailedError

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
