"""Dag runs that somebody starts from a page: a snapshot, an audit or a plan, and what became of it.

    POST /clusters/{name}/start/{what}, and below /api    # snapshot, audit
    GET /clusters/{name}/started/{dag_id}?dag_run_id=...

The forms that lead here besides are `new_plan.py` and `undo.py`.

A run of `kafka_rebalance` is not there before its task `plan` has made a plan. The browser loads
the page again until the Dag run has ended, and is led to the run as soon as there is one.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from counterpoise.errors import InputError, RefusedError, UnknownNameError
from counterpoise.model.policy import Action
from counterpoise.model.safe_text import limited
from counterpoise.services.fleet import cluster_head
from counterpoise.services.viewers import Viewer, Viewing
from counterpoise.web.airflow_links import dag_run_path
from counterpoise.web.airflow_runs import StartInAirflow, StateInAirflow, has_ended
from counterpoise.web.forms import SentValues, act, form_page
from counterpoise.web.requests_of_people import back_to
from counterpoise.web.responses import airflow_of, answer, error_page, is_api, page, status_of
from counterpoise.web.viewers import DAG_ID, CurrentViewer, OpenInstallation

_DAGS: Final[Mapping[str, str]] = {
    "plan": DAG_ID,
    "snapshot": "kafka_snapshot",
    "audit": "kafka_audit",
}
_REFRESH_SECONDS: Final = 5


def started_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of starting and of what came of it."""
    router = APIRouter()

    @act(router, "/clusters/{name}/start/{what}")
    def start(
        request: Request,
        name: str,
        what: str,
        viewer: CurrentViewer,
        start_dag_run: StartInAirflow,
        sent: SentValues,
    ) -> Response:
        if what not in _DAGS or what == "plan":
            raise UnknownNameError(f"there is nothing of the name {what!r} to start for a cluster")
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            viewing.check(name)
            if why_not := viewing.refusal(name, Action.PROPOSE):
                raise RefusedError(why_not)
        try:
            note = limited(sent.texts("reason")["reason"], "reason").strip()
            dag_run_id = start_dag_run(_DAGS[what], {"clusters": [name]}, note)
        except (InputError, RefusedError) as error:
            return error_page(request, status_of(error), str(error))
        return to_started(request, name, _DAGS[what], dag_run_id)

    @router.get("/clusters/{name}/started/{dag_id}")
    def started(
        request: Request,
        name: str,
        dag_id: str,
        viewer: CurrentViewer,
        state_in_airflow: StateInAirflow,
        dag_run_id: str = "",
    ) -> Response:
        what = next((what for what, known in _DAGS.items() if known == dag_id), None)
        if what is None:
            raise UnknownNameError(f"there is no Dag {dag_id!r} of ours")
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            viewing.check(name)
            # Before the ledger is read: a run that is opened in between is then not missed.
            state = state_in_airflow(dag_id, dag_run_id)
            run = installation.ledger.run_of(dag_id, dag_run_id) if what == "plan" else None
            is_over = has_ended(state)
            no_moves_report = installation.archive.newest_no_moves_report(name) if is_over else None
            head = cluster_head(installation, viewing, name)
            now = installation.clock()
        if run is not None and run.cluster == name:
            return back_to(request, f"/runs/{quote(run.run_id)}")
        response = page(
            request,
            "started.html",
            name=name,
            what=what,
            dag_id=dag_id,
            head=head,
            now=now,
            state=state,
            is_over=is_over,
            no_moves_report=no_moves_report,
            dag_run=airflow_of(request) + dag_run_path(dag_id, dag_run_id),
            dag_run_id=dag_run_id,
            refresh_seconds=_REFRESH_SECONDS,
        )
        if not is_over:
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
