"""The plan of a contest carried out through a real Airflow: plan, approval, looks ten seconds
apart, and the end.

    run = through_airflow(contest)
    run.timed.seconds <= 1.05 * ours.seconds + 2 * run.look_seconds

It counts from the first start of the task `execute` to the end of the run in the ledger, the
read-back of every setting included: `verify` and `settle` are in it, and the seconds in which
Airflow hands over from one task to the next.

Limits: Airflow runs on the same machine as the brokers, on SQLite, with one person who answers at
once.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.throttled import CLUSTER, CONNECTION, GOAL, NEW_BROKER, Contest, Timed, last_byte_at
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.run import Run, RunState
from dev.local_airflow import AirflowApi, LocalAirflow

_ROOT: Final = Path(__file__).resolve().parent.parent
_DAG: Final = "kafka_rebalance"
_APPROVER: Final = "alice"
_TASKS: Final = ("execute", "verify", "settle")
_ASKING_TIMEOUT_SECONDS: Final = 300.0
_MIN_WAIT: Final = (
    "from counterpoise.orchestration.stepping import MIN_WAIT_SECONDS; print(MIN_WAIT_SECONDS)"
)


class RunFailedError(CounterpoiseError):
    """The run through Airflow did not end as planned, or its plan was another one; the message says
    how.
    """


@dataclass(frozen=True, slots=True)
class ThroughAirflow:
    """A run, and where its seconds went: each counts from the first start of `execute`."""

    timed: Timed
    wait_seconds: float  # the least between two looks
    last_byte_seconds: float
    ended_seconds: Mapping[str, float]  # by task

    def __str__(self) -> str:
        tasks = ", ".join(
            f"{task} ended after {seconds:.1f} s" for task, seconds in self.ended_seconds.items()
        )
        return f"through Airflow: the last byte came after {self.last_byte_seconds:.1f} s, {tasks}"


def through_airflow(contest: Contest) -> ThroughAirflow:
    """Raises RunFailedError, AirflowApiError, ChildFailedError."""
    contest.take_back()
    home = contest.folder / "airflow"
    variables = _variables(contest)
    with (
        LocalAirflow(
            home, dags=_ROOT / "dags", plugins=_ROOT / "plugins", environment=variables
        ) as airflow,
        open_installation(environment=variables) as installation,
    ):
        api = airflow.api()
        dag_run_id = _approved(api, airflow, contest.rate)
        run = installation.ledger.runs(cluster=CLUSTER)[0]
        _check_plan(installation, run, contest)
        with contest.received() as samples:
            clocks = (time.monotonic(), datetime.now(UTC))
            ended = api.wait_for_run(
                _DAG, dag_run_id, _ASKING_TIMEOUT_SECONDS + 3 * contest.ideal_seconds
            )
        run = installation.ledger.run(run.run_id)
        if run.state is not RunState.DONE or run.closed_at is None or ended.state != "success":
            states = api.task_states(_DAG, dag_run_id)
            raise RunFailedError(
                f"run {run.run_id} is {run.state} ({run.reason}), "
                f"its Dag run {ended.state}: {states}"
            )
        began = api.first_start(_DAG, dag_run_id, "execute")
        times = api.task_times(_DAG, dag_run_id)
        api.close()
    assert began is not None
    last_byte = clocks[1] + timedelta(seconds=last_byte_at(samples) - clocks[0])
    ends = {task: end for task in _TASKS if (end := times[task][1])}
    return ThroughAirflow(
        contest.timed("through Airflow", (run.closed_at - began).total_seconds(), samples),
        _wait_seconds(home),
        (last_byte - began).total_seconds(),
        {task: (end - began).total_seconds() for task, end in ends.items()},
    )


def _variables(contest: Contest) -> dict[str, str]:
    connection = {
        "conn_type": "kafka",
        "extra": {"bootstrap.servers": contest.kafka.bootstrap_string},
    }
    return {
        **contest.environment,
        f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps(connection),
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
    }


def _approved(api: AirflowApi, airflow: LocalAirflow, rate: int) -> str:
    """Triggers the Dag and says yes, as a person would; the id of the Dag run."""
    dag_run_id = api.trigger(
        _DAG, conf={"goal": GOAL, "broker_ids": [NEW_BROKER]}, partition_key=CLUSTER
    )
    question = api.wait_for_approval(_DAG, dag_run_id, _ASKING_TIMEOUT_SECONDS)
    approver = airflow.api(_APPROVER)
    approver.approve(question, "benchmark", f"{rate}B/s")
    approver.close()
    return dag_run_id


def _check_plan(installation: Installation, run: Run, contest: Contest) -> None:
    """The Dag plans by itself; figures compare only for the same moves."""
    made = {
        m.topic_partition: (m.replicas_before, m.replicas_after)
        for m in installation.run_and_plan(run.run_id)[1].moves
    }
    wanted = {m.topic_partition: (m.replicas_before, m.replicas_after) for m in contest.plan.moves}
    if made != wanted:
        raise RunFailedError(
            f"the plan of {_DAG} differs from the command line's: {len(made)} moves, {len(wanted)}"
        )


def _wait_seconds(airflow_home: Path) -> float:
    """Asked in a process of its own: Airflow, once imported, wants a home."""
    environment = os.environ | {"AIRFLOW_HOME": str(airflow_home)}
    command = [sys.executable, "-c", _MIN_WAIT]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])
