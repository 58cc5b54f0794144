"""A Dag run of ours, started as the user who is logged in.

    dag_run_id = start_in_airflow(user, request, "kafka_audit", {"clusters": ["demo"]}, "why")

It is what Airflow's own page does (`POST .../dagRuns`): the same function checks the values against
the Dag's form and records who triggered it. Whether the user may is asked before, as its route
does. A form that is sent twice (a double click) starts one Dag run: its id follows from the form.

Limits: the Dag run waits for the scheduler like any other; a paused Dag is refused, since its runs
would wait without a word.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.datamodels.dag_run import TriggerDAGRunPostBody
from airflow.api_fastapi.core_api.routes.public.dag_run import trigger_dag_run
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from fastapi import Depends, HTTPException, Request
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.request import REASON_FIELD
from counterpoise.web.forms import FormToken, time_of_form
from counterpoise.web.viewers import DAG_ID, may_in_airflow

_ENDED_STATES: Final = frozenset(map(str, (DagRunState.SUCCESS, DagRunState.FAILED)))
MAX_NOTE: Final = 1_000  # characters that Airflow keeps of a note

# Of a Dag, the values of its form and why: starts a Dag run and returns its id. Raises InputError,
# RefusedError: nothing was started then.
StartDagRun = Callable[[str, Mapping[str, object], str], str]
# Of a Dag and the id of its run: the state, None where there is none of that id.
DagRunStateOf = Callable[[str, str], str | None]


def start_in_airflow(
    user: Any,
    request: Request,
    dag_id: str,
    configuration: Mapping[str, object],
    note: str,
    *,
    form_token: str | None,
) -> str:
    """Start a Dag run as this user and return its id; the same form starts one alone.

    Raises RefusedError where Airflow does not let them, and where the Dag is not there or paused;
    InputError for values that its form does not take, and for a note that is too long.
    """
    _check_may_start(user, dag_id)
    if len(note) > MAX_NOTE:
        raise InputError(f"reason: {len(note):,} characters are more than {MAX_NOTE:,}")
    dag_run_id = _id_of_form(form_token, dag_id, configuration, note)
    conf = dict(configuration)
    if note and dag_id == DAG_ID:  # the task `plan` does not see notes
        conf[REASON_FIELD] = note
    body = TriggerDAGRunPostBody(
        dag_run_id=dag_run_id, logical_date=None, conf=conf, note=note or None
    )
    with create_session(scoped=False) as session:
        if _is_there(session, dag_id, dag_run_id):
            return dag_run_id
        _check_not_paused(session, dag_id)
        try:
            trigger_dag_run(dag_id, body, DBDagBag(), user, session, request)
        except HTTPException as error:
            session.rollback()
            raise InputError(f"Airflow did not start {dag_id}: {error.detail}") from None
        except IntegrityError:
            session.rollback()
            if not _is_there(session, dag_id, dag_run_id):
                raise
    return dag_run_id


def _id_of_form(
    form_token: str | None, dag_id: str, configuration: Mapping[str, object], note: str
) -> str:
    """Return the id of the Dag run that a form starts, like Airflow's own: the time is that of the
    page. Without one each request starts its own.
    """
    at = time_of_form(form_token) if form_token else datetime.now(UTC)
    sent = json.dumps([form_token, dag_id, configuration, note], sort_keys=True)
    digest = hashlib.sha256(sent.encode()).hexdigest()[:16]
    return f"manual__{at.isoformat()}_{digest}"


def _is_there(session: Any, dag_id: str, dag_run_id: str) -> bool:
    return _state(session, dag_id, dag_run_id) is not None


def _state(session: Any, dag_id: str, dag_run_id: str) -> str | None:
    query = select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == dag_run_id)
    state = session.scalar(query)
    return None if state is None else str(state)


def state_in_airflow(dag_id: str, dag_run_id: str) -> str | None:
    """Return the state of a Dag run; None where Airflow does not have it (any more)."""
    with create_session(scoped=False) as session:
        return _state(session, dag_id, dag_run_id)


def has_ended(state: str | None) -> bool:
    """Return whether no task of a Dag run of this state runs any more, or will."""
    return state is None or state in _ENDED_STATES


def _check_may_start(user: Any, dag_id: str) -> None:
    if not may_in_airflow(user, "POST", DagAccessEntity.RUN, dag_id):
        raise RefusedError(
            f"Airflow does not let {user.get_name()} start {dag_id}; ask an administrator of "
            "Airflow for a role that may"
        )


def _check_not_paused(session: Any, dag_id: str) -> None:
    dag = session.get(DagModel, dag_id)
    if dag is not None and dag.is_paused:
        raise RefusedError(
            f"the Dag {dag_id} is paused in Airflow, so a run of it would wait without an end; "
            "unpause it there, and send this again"
        )


def start_dag_run(
    request: Request,
    user: Annotated[Any, Depends(get_user)],
    form_token: FormToken,
) -> StartDagRun:
    def start(dag_id: str, configuration: Mapping[str, object], note: str) -> str:
        return start_in_airflow(user, request, dag_id, configuration, note, form_token=form_token)

    return start


StartInAirflow = Annotated[StartDagRun, Depends(start_dag_run)]


def dag_run_states() -> DagRunStateOf:
    return state_in_airflow


StateInAirflow = Annotated[DagRunStateOf, Depends(dag_run_states)]
