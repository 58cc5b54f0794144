"""A question is closed by a real triggerer, a process of its own on Airflow's database."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from sqlalchemy import select

from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.run import Run, RunState
from counterpoise.orchestration.open_question import QuestionTrigger
from dev import local_processes
from dev.local_processes import wait_until
from tests.dags.test_answers_on_pages import rebalance
from tests.support.decisions import reject

__all__ = ["rebalance"]  # a fixture
NOTICE_SECONDS = 400.0  # a busy machine takes its time


@contextmanager
def triggerer(log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"]
    process = local_processes.start(command, log_path=log, name="the triggerer")
    try:
        yield
    finally:
        process.stop()


def defer_beside_the_ledger(run: Run) -> Any:
    """Give the waiting task its trigger, as the api-server does when the task has parked."""
    until = datetime.now(UTC) + timedelta(hours=2)
    with create_session(scoped=False) as session:
        (task,) = session.scalars(select(TaskInstance).where(TaskInstance.state == "deferred"))
        classpath, arguments = QuestionTrigger(task.id, run.run_id, until, "Reject").serialize()
        trigger = Trigger(classpath=classpath, kwargs=arguments)
        session.add(trigger)
        session.flush()
        task.trigger_id = trigger.id
        return task.id


def test_a_triggerer_closes_the_question_of_a_plan_that_was_rejected_elsewhere(
    installation: Installation, rebalance: Callable[..., str], tmp_path: Path
) -> None:
    closed: list[HITLDetail] = []

    def reject_elsewhere(run: Run) -> None:
        ti_id = defer_beside_the_ledger(run)
        reject(installation, run, by="bob")

        def goes_on() -> bool:
            with create_session(scoped=False) as session:
                task = session.get_one(TaskInstance, ti_id)
                return str(task.state) == "scheduled" and task.next_kwargs is not None

        log = tmp_path / "triggerer.log"
        with triggerer(log):
            wait_until(goes_on, f"the task to go on ({log})", NOTICE_SECONDS)
        with create_session(scoped=False) as session:
            closed.append(session.get_one(HITLDetail, ti_id))

    assert rebalance(reject_elsewhere, {"goal": "add-brokers", "broker_ids": [3]}) == "success"
    (detail,) = closed
    assert (detail.chosen_options, detail.responded_by) == (["Reject"], None)
    (run,) = installation.ledger.runs()
    assert (run.state, run.reason) == (RunState.REJECTED, "not this week")
    (no,) = installation.ledger.approvals_of(run.run_id)
    assert (no.decision, no.by) == (Decision.REJECTED, "bob")
