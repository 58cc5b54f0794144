"""The question that a Dag run asks people, answered as the user who is logged in.

    answer_in_airflow(user, dag_run_id, "Approve", {"rate": "20MB/s", "reason": ..., "plan": ...})

It is what Airflow's own page does (`PATCH .../hitlDetails`): the same function checks whom the task
asks and whether somebody has answered, in the transaction that lets the task go on. The task then
records the answer in the ledger, or asks again.

Limits: a task that has only just asked takes no answer for some seconds.
"""

import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final

from airflow._shared.timezones import timezone
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from fastapi import Depends, HTTPException
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from counterpoise.errors import RefusedError
from counterpoise.web.viewers import DAG_ID, may_in_airflow

_ASKING_TASKS: Final = ("approve", "approve_second")
_WAITING_STATES: Final = (TaskInstanceState.AWAITING_INPUT, TaskInstanceState.DEFERRED)
_PARKED_AFTER: Final = timedelta(seconds=11)
_CONFLICT, _FORBIDDEN = 409, 403

# Of a Dag run, the option and the form: hands the answer on. Raises RefusedError.
AnswerQuestion = Callable[[str, str, Mapping[str, str]], None]


def answer_in_airflow(user: Any, dag_run_id: str, option: str, params: Mapping[str, str]) -> None:
    """Answer the question that a Dag run of `kafka_rebalance` waits with, as this user.

    Raises RefusedError where Airflow does not let them, and where nothing waits for an answer.
    """
    _check_may_answer(user)
    with create_session(scoped=False) as session:
        task_id = _waiting_task(session, dag_run_id, params["plan"])
        payload = UpdateHITLDetailPayload(chosen_options=[option], params_input=dict(params))
        try:
            update_hitl_detail(DAG_ID, dag_run_id, task_id, payload, user, session)
        except HTTPException as error:
            session.rollback()
            raise RefusedError(_why(error, task_id)) from None


def _check_may_answer(user: Any) -> None:
    if not may_in_airflow(user, "PUT", DagAccessEntity.HITL_DETAIL):
        raise RefusedError(
            f"Airflow does not let {user.get_name()} answer questions of {DAG_ID} (required "
            "actions); ask an administrator of Airflow for a role that may"
        )


def _waiting_task(session: Any, dag_run_id: str, fingerprint: str) -> str:
    """Return the task that waits for an answer about this plan. Raises RefusedError for none."""
    query = (
        select(TaskInstance)
        .options(joinedload(TaskInstance.hitl_detail))
        .where(
            TaskInstance.dag_id == DAG_ID,
            TaskInstance.run_id == dag_run_id,
            TaskInstance.task_id.in_(_ASKING_TASKS),
            TaskInstance.map_index == -1,
            TaskInstance.state.in_(_WAITING_STATES),
        )
    )
    for task_instance in session.scalars(query):
        detail = task_instance.hitl_detail
        if detail is None or detail.response_received:
            continue
        if detail.params.get("plan", {}).get("value") != fingerprint:
            raise RefusedError(
                f"the task {task_instance.task_id} asks about another plan than {fingerprint}"
            )
        _check_has_parked(task_instance)
        return str(task_instance.task_id)
    raise RefusedError(
        "the Dag run does not wait for an answer now: it is about to ask, somebody has answered, "
        "or it has ended; open the page again in some seconds. Where it has ended, reject the plan "
        "and start a new Dag run"
    )


def _check_has_parked(task_instance: Any) -> None:
    """Raise RefusedError where the task has only just asked: Airflow may take it for failed when it
    goes on before its first process was seen to end.
    """
    waiting = timezone.utcnow() - task_instance.updated_at
    if waiting < _PARKED_AFTER:
        seconds = math.ceil((_PARKED_AFTER - waiting).total_seconds())
        raise RefusedError(
            f"the task {task_instance.task_id} has only just asked; send the answer again in "
            f"{seconds} s"
        )


def _why(error: HTTPException, task_id: str) -> str:
    if error.status_code == _FORBIDDEN:
        return f"the task {task_id} asks other people than you: {error.detail}"
    if error.status_code == _CONFLICT:
        return "somebody has answered this question already; open the page again to see what"
    return f"Airflow did not take the answer: {error.detail}"


def answer_question(user: Annotated[Any, Depends(get_user)]) -> AnswerQuestion:
    def answer(dag_run_id: str, option: str, params: Mapping[str, str]) -> None:
        answer_in_airflow(user, dag_run_id, option, params)

    return answer


AnswerInAirflow = Annotated[AnswerQuestion, Depends(answer_question)]
