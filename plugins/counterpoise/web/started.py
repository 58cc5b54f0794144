"""A Dag run that somebody has started from a page: what comes of it, and the way there.

    GET /clusters/{name}/started/{dag_id}?dag_run_id=...

The forms that lead here are `cluster_start.py`, `new_plan.py` and `undo.py`.

A run of `kafka_rebalance` is not there before its task `plan` has made a plan: until then the
browser loads the page again, unless the Dag run has ended without one.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from counterpoise.errors import InputError, RefusedError, UnknownNameError
from counterpoise.services.viewers import Viewer, Viewing
from counterpoise.web.airflow_links import dag_run_path
from counterpoise.web.airflow_runs import StateInAirflow, has_ended
from counterpoise.web.forms import form_page
from counterpoise.web.requests_of_people import back_to
from counterpoise.web.responses import airflow_of, answer, is_api, page, status_of
from counterpoise.web.viewers import DAG_ID, CurrentViewer, OpenInstallation

_DAGS: Final = (DAG_ID, "kafka_snapshot", "kafka_audit")
_REFRESH_SECONDS: Final = 5


def started_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the route of the page."""
    router = APIRouter()

    @router.get("/clusters/{name}/started/{dag_id}")
    def started(
        request: Request,
        name: str,
        dag_id: str,
        viewer: CurrentViewer,
        state_in_airflow: StateInAirflow,
        dag_run_id: str = "",
    ) -> Response:
        if dag_id not in _DAGS:
            raise UnknownNameError(f"there is no Dag {dag_id!r} of ours")
        with open_installation() as installation:
            Viewing.of(installation, viewer).check(name)
            # Before the ledger is read: a run that is opened in between is then not missed.
            state = state_in_airflow(dag_id, dag_run_id)
            run = installation.ledger.run_of(dag_id, dag_run_id)
            is_over = has_ended(state)
            no_moves_report = installation.archive.newest_no_moves_report(name) if is_over else None
        if run is not None and run.cluster == name:
            return back_to(request, f"/runs/{quote(run.run_id)}/plan")
        makes_plan = dag_id == DAG_ID
        response = page(
            request,
            "started.html",
            name=name,
            dag_id=dag_id,
            makes_plan=makes_plan,
            state=state,
            is_over=is_over,
            no_moves_report=no_moves_report,
            dag_run=airflow_of(request) + dag_run_path(dag_id, dag_run_id),
            refresh_seconds=_REFRESH_SECONDS,
        )
        if makes_plan and not is_over:
            response.headers["Refresh"] = str(_REFRESH_SECONDS)
        return response

    return router


def start_form(
    request: Request,
    viewer: Viewer,
    template: str,
    about: Mapping[str, object],
    *,
    status: int = 200,
    why_not: str = "",
    reason: str = "",
    error: InputError | RefusedError | None = None,
) -> Response:
    """Return the page that says what will be started and asks why; `about` is what it is for.

    `why_not` is why there is no form; after an `error` the form comes back with the reason typed.
    """
    return form_page(
        request,
        viewer,
        template,
        status=status_of(error) if error else status,
        reason=reason,
        problem=str(error or ""),
        why_not=why_not,
        **about,
    )


def to_started(request: Request, cluster: str, dag_id: str, dag_run_id: str) -> Response:
    """Return the answer to whoever has started a Dag run."""
    if is_api(request):
        return answer(202, cluster=cluster, dag_id=dag_id, dag_run_id=dag_run_id)
    query = urlencode({"dag_run_id": dag_run_id})
    return back_to(request, f"/clusters/{quote(cluster)}/started/{dag_id}?{query}")
