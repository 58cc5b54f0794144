"""A snapshot or an audit of one cluster, now: the Dag that makes it, started as whoever asks.

GET, POST /clusters/{name}/start/{what}      # snapshot, audit
POST /api/clusters/{name}/start/{what}
"""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Request, Response

from counterpoise.errors import InputError, RefusedError, UnknownNameError
from counterpoise.model.policy import Action
from counterpoise.model.safe_text import limited
from counterpoise.services.viewers import Viewing
from counterpoise.web.airflow_runs import StartInAirflow
from counterpoise.web.forms import SentValues, act
from counterpoise.web.started import start_form, to_started
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_TEMPLATE: Final = "cluster_start.html"
_DAGS: Final[Mapping[str, str]] = {"snapshot": "kafka_snapshot", "audit": "kafka_audit"}
_EFFECTS: Final[Mapping[str, str]] = {
    "snapshot": "Reads the cluster and writes a snapshot; analysis, audit and balance report of "
    "this cluster follow as after each round. The cluster is not changed.",
    "audit": "Reads the cluster and writes an audit. The cluster is not changed.",
}


def cluster_start_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of both."""
    router = APIRouter()

    @router.get("/clusters/{name}/start/{what}")
    def ask(request: Request, name: str, what: str, viewer: CurrentViewer) -> Response:
        _check_known(what)
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            viewing.check(name)
        why_not = viewing.refusal(name, Action.PROPOSE)
        status = 403 if why_not else 200
        about = _about(name, what)
        return start_form(request, viewer, _TEMPLATE, about, status=status, why_not=why_not)

    @act(router, "/clusters/{name}/start/{what}")
    def start(
        request: Request,
        name: str,
        what: str,
        viewer: CurrentViewer,
        start_dag_run: StartInAirflow,
        sent: SentValues,
    ) -> Response:
        _check_known(what)
        reason = sent.texts("reason")["reason"]
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            viewing.check(name)
            if why_not := viewing.refusal(name, Action.PROPOSE):
                raise RefusedError(why_not)
        try:
            note = limited(reason, "reason").strip()
            dag_run_id = start_dag_run(_DAGS[what], {"clusters": [name]}, note)
        except (InputError, RefusedError) as error:
            about = _about(name, what)
            return start_form(request, viewer, _TEMPLATE, about, reason=reason, error=error)
        return to_started(request, name, _DAGS[what], dag_run_id)

    return router


def _check_known(what: str) -> None:
    if what not in _DAGS:
        raise UnknownNameError(f"there is nothing of the name {what!r} to start for a cluster")


def _about(name: str, what: str) -> dict[str, object]:
    return {"name": name, "what": what, "dag_id": _DAGS[what], "effect": _EFFECTS[what]}
