"""Answers to questions of a Dag run that `dag.test` runs, on Airflow's own database.

    with answered_by(answer):       # called again and again while a task waits for an answer
        dag.test()

`dag.test` runs a trigger in the process of the task, and nothing beside it: `answer` is called in
place of the trigger that waits beside a question, and the task is deferred for Airflow meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.sdk.definitions import dag as dag_module
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session

from counterpoise.orchestration.open_question import QuestionTrigger

WAITING_STATES = ("deferred", "awaiting_input")


@contextmanager
def answered_by(answer: Callable[[], object]) -> Iterator[None]:
    in_line: Any = dag_module._run_inline_trigger  # type: ignore[attr-defined]

    def ask_or_run(trigger: Any, task_instance: Any) -> Any:
        if not isinstance(trigger, QuestionTrigger):
            return in_line(trigger, task_instance)
        _defer(trigger.ti_id)
        while (event := _event(trigger.ti_id)) is None:
            answer()
        return event

    dag_module._run_inline_trigger = ask_or_run  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dag_module._run_inline_trigger = in_line  # type: ignore[attr-defined]


def _defer(ti_id: Any) -> None:
    with create_session(scoped=False) as session:
        session.get_one(TaskInstance, ti_id).state = "deferred"


def _event(ti_id: Any) -> Any:
    with create_session(scoped=False) as session:
        detail = session.get_one(HITLDetail, ti_id)
        if not detail.response_received:
            return None
        is_by_nobody = detail.responded_by is None
        return TriggerEvent(detail.as_resume_event_payload(timedout=is_by_nobody))  # type: ignore[no-untyped-call]
