"""A task does steps of the run of its Dag run, whatever an XCom says, and pauses between them."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import TriggerEvent

from counterpoise.errors import LedgerError
from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.orchestration import stepping
from counterpoise.orchestration.stepping import StepUntilDone
from counterpoise.orchestration.waiting import WaitTrigger
from counterpoise.services import execution, plans
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.decisions import grant
from tests.support.ledger_view import change_state
from tests.support.planned_runs import planned_run

FIRED = "2026-11-23T12:00:00+00:00"  # with what a trigger resumes a task


class Task:
    dag_id = "kafka_rebalance"

    def __init__(self, dag_run_id: str, handed_over: object) -> None:
        self.run_id = dag_run_id
        self.task_id = "execute"
        self._handed_over = handed_over

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        assert task_ids == "plan"
        return self._handed_over if key == "return_value" else None


@pytest.fixture
def run(installation: Installation) -> plans.PlannedRun:
    """A run under way of the Dag run manual__1."""
    request = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    origin = plans.Origin(Person.airflow("alice"), "kafka_rebalance", "manual__1")
    run = planned_run(installation, "demo", request, origin)
    assert run is not None
    for state in (RunState.APPROVED, RunState.RUNNING):
        change_state(installation.ledger, run["run_id"], state)
    return run


def step(task: Task, event: str | None) -> list[str]:
    """Return the ids of the runs that were carried on."""
    carried_on: list[str] = []

    def do_step(_installation: Any, run: plans.PlannedRun, _log: Any) -> None:
        carried_on.append(run["run_id"])

    operator = StepUntilDone(task_id="execute", step=do_step)
    operator.execute({"ti": task}, event)
    return carried_on


@pytest.mark.parametrize("event", [FIRED, None], ids=["deferred", "started"])
def test_a_task_carries_on_the_run_of_its_dag_run(run: plans.PlannedRun, event: str | None) -> None:
    assert step(Task("manual__1", {"run_id": "another"}), event) == [run["run_id"]]


@pytest.mark.parametrize("event", [FIRED, None], ids=["deferred", "started"])
def test_an_xcom_gives_no_run_to_another_dag_run(run: plans.PlannedRun, event: str | None) -> None:
    with pytest.raises(AirflowFailException, match="no run of the ledger"):
        step(Task("manual__2", run), event)


def deferred(wait_seconds: float) -> TaskDeferred:
    """How a step that asks to wait so long ends."""
    operator = StepUntilDone(task_id="execute", step=lambda *_: wait_seconds)
    with pytest.raises(TaskDeferred) as parked:
        operator.execute({"ti": Task("manual__1", {})}, None)
    return parked.value


async def first_event(trigger: WaitTrigger) -> TriggerEvent:
    return await anext(trigger.run())


@pytest.mark.usefixtures("run")
def test_a_pause_is_as_long_as_the_step_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    class_path, arguments = deferred(12.0).trigger.serialize()
    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(first_event(import_string(class_path)(**arguments))).payload
    assert slept == [12.0]


def test_between_steps_nothing_is_logged(
    installation: Installation, run: plans.PlannedRun, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    class_path, arguments = deferred(12.0).trigger.serialize()
    assert arguments == {"seconds": 12.0}
    again = import_string(class_path)(seconds=0.1)
    assert asyncio.run(first_event(again)).payload
    shown = "".join(capfd.readouterr()).lower()
    assert "sleeping" not in shown
    assert "next step" not in shown


def test_progress_is_logged_once_a_minute_and_when_what_is_waited_for_changes(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    now = datetime(2026, 11, 25, 12, tzinfo=UTC)
    installation.clock = lambda: now  # before the ledger is opened: the driver goes by the ledger's
    request = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    run = planned_run(installation, "demo", request, plans.Origin(Person.airflow("alice")))
    assert run is not None
    grant(installation, run, by="bob", reason="x")
    execution.open_run(installation, run["run_id"], run["fingerprint"])
    lines: list[str] = []
    for _ in range(18):
        execution.execute_step(installation, run["run_id"], run["fingerprint"], lines.append)
        now += timedelta(seconds=10)
    progress_lines = [line for line in lines if line.startswith("copies") or " %: " in line]
    assert 3 <= len(progress_lines) <= 5, lines
    assert len(set(lines)) == len(lines), "no line is written twice"


def kwargs_after(operator: StepUntilDone, event: str | None, **kwargs: Any) -> dict[str, Any]:
    """Return with what the task is resumed once its step has asked to wait, or has failed."""
    with pytest.raises(TaskDeferred) as parked:
        operator.execute({"ti": Task("manual__1", {})}, event, **kwargs)
    return parked.value.kwargs or {}


@pytest.fixture
def ledger_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    def unreachable() -> None:
        raise LedgerError("the ledger's database does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(stepping, "airflow_installation", unreachable)
        yield patch


def test_a_warning_about_a_connection_is_logged_when_it_begins_and_when_it_ends(
    run: plans.PlannedRun, caplog: pytest.LogCaptureFixture
) -> None:
    dead = "bootstrap address kafka-1:9092 did not answer: connection refused"
    is_dead = iter([False, True, True, True, False, False])

    def connect(*_: object) -> float:
        if next(is_dead):
            logging.getLogger("counterpoise.installation").warning("%s", dead)
        return 12.0

    operator = StepUntilDone(task_id="execute", step=connect)
    kwargs: dict[str, Any] = {}
    with caplog.at_level(logging.INFO):
        for number in range(6):
            event = FIRED if number else None
            with pytest.raises(TaskDeferred) as parked:
                operator.execute({"ti": Task("manual__1", {})}, event, **kwargs)
            kwargs = parked.value.kwargs or {}
    about = [record.getMessage() for record in caplog.records if dead in record.getMessage()]
    assert about == [dead, f"no longer so: {dead}"]


@pytest.mark.usefixtures("run")
def test_of_steps_that_fail_the_first_is_a_warning_and_the_next_good_one_says_that_it_is_over(
    caplog: pytest.LogCaptureFixture, ledger_fails: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    dead = "bootstrap address kafka-1:9092 does not answer"

    def do_step(*_: object) -> float:
        logging.getLogger("counterpoise.installation").warning("%s", dead)
        return 12.0

    operator = StepUntilDone(task_id="execute", step=do_step)
    kwargs: dict[str, Any] = {"warned_of": [dead]}
    for _ in range(40):
        kwargs = kwargs_after(operator, FIRED, **kwargs)
    ledger_fails.undo()
    assert kwargs["failed_looks"] == 40
    assert kwargs_after(operator, FIRED, **kwargs)["warned_of"] == [dead]
    failed, over = (text for text in caplog.messages if "answer" in text)
    assert failed.startswith("this step failed and is repeated; after 61 in a row")
    assert over == f"no longer so: {failed}"
