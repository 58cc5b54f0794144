"""Undo of a run that has ended: a Dag run of `kafka_rebalance` makes the plan that takes back what
it moved, as the person who asks for it.

    GET, POST /runs/{run_id}/undo
    POST /api/runs/{run_id}/undo

That plan is approved like any other. A run under way is cancelled first, as
`requests_of_people.py` has it.
"""

from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.policy import Action
from counterpoise.model.request import CLUSTER_FIELD, UNDO_FIELD
from counterpoise.model.run import LOOKED_AFTER_STATES, Run
from counterpoise.model.safe_text import required
from counterpoise.services import requests, runs
from counterpoise.services.runs import RunDetails, why_not_undo
from counterpoise.web.airflow_runs import StartInAirflow
from counterpoise.web.forms import SentValues, act
from counterpoise.web.started import start_form, to_started
from counterpoise.web.viewers import (
    DAG_ID,
    CurrentViewer,
    OpenInstallation,
)

_TEMPLATE: Final = "undo.html"


def undo_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the undo of a run."""
    router = APIRouter()

    @router.get("/runs/{run_id}/undo")
    def ask(request: Request, run_id: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            cannot = why_not_undo(installation, details)
        refusal = details.refusal(Action.PROPOSE)
        status = 403 if refusal else 409 if cannot else 200
        why_not = refusal or cannot
        return start_form(
            request, viewer, _TEMPLATE, _about(details.run), status=status, why_not=why_not
        )

    @act(router, "/runs/{run_id}/undo")
    def start(
        request: Request,
        run_id: str,
        viewer: CurrentViewer,
        start_dag_run: StartInAirflow,
        sent: SentValues,
    ) -> Response:
        reason = sent.texts("reason")["reason"]
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            if refusal := details.refusal(Action.PROPOSE):
                raise RefusedError(refusal)
            try:
                why = required(reason, "reason")
                if cannot := why_not_undo(installation, details):
                    raise RefusedError(cannot)
                wanted = {CLUSTER_FIELD: details.run.cluster, UNDO_FIELD: run_id}
                dag_run_id = start_dag_run(DAG_ID, wanted, why)
            except (InputError, RefusedError) as error:
                about = _about(details.run)
                return start_form(request, viewer, _TEMPLATE, about, reason=reason, error=error)
            plan = f"Dag run {dag_run_id} makes the plan"
            requests.note_undo(installation, run_id, plan, by=viewer.person, why=why)
        return to_started(request, details.run.cluster, DAG_ID, dag_run_id)

    return router


def may_ask_undo(details: RunDetails) -> bool:
    """Return whether the page of a run shows the way to its undo plan."""
    has_left_something = details.run.state in LOOKED_AFTER_STATES and details.has_moved
    return has_left_something and not details.refusal(Action.PROPOSE)


def _about(run: Run) -> dict[str, object]:
    return {"run": run, "run_path": f"/runs/{quote(run.run_id)}"}
