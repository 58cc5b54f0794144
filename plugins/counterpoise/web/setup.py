"""The checklist of a fresh installation: which step is missing, the line to type, and a button.

    GET /setup
    POST /setup/{action}      # unpause, snapshot

A page that has no settings to show leads here. Whoever may read runs may open it; the buttons do
what Airflow lets the account do.
"""

import os
from collections.abc import Callable
from typing import Annotated, Any, Final

import airflow
from airflow.api.common.airflow_health import HEALTHY, get_airflow_health
from airflow.api_fastapi.core_api.datamodels.dags import DAGPatchBody
from airflow.api_fastapi.core_api.routes.public.dags import patch_dag
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import func, select

from counterpoise.errors import InputError, RefusedError, UnknownNameError
from counterpoise.services.setup import AirflowNow, our_dags, setup
from counterpoise.web.airflow_runs import StartInAirflow
from counterpoise.web.forms import act, form_page
from counterpoise.web.requests_of_people import back_to
from counterpoise.web.responses import error_page, status_of
from counterpoise.web.viewers import CurrentViewer, OpenInstallation, may_in_airflow

_REFRESH_SECONDS: Final = 5
_POOL_VARIABLES: Final = tuple(
    f"COUNTERPOISE_{purpose}_POOL" for purpose in ("SNAPSHOT", "AUDIT", "WATCH", "RUN")
)
_COMPONENTS: Final = {
    "scheduler": "scheduler",
    "dag_processor": "dag-processor",
    "triggerer": "triggerer",
}

Unpause = Callable[[], None]


def airflow_now(user: Annotated[Any, Depends(get_user)]) -> AirflowNow:
    """Return what Airflow has of ours."""
    with create_session(scoped=False) as session:
        query = select(DagModel.dag_id, DagModel.is_paused).where(
            DagModel.dag_id.in_(our_dags()), DagModel.is_stale.is_(False)
        )
        paused = {row.dag_id: bool(row.is_paused) for row in session.execute(query)}
        newest_ids = (
            select(func.max(DagRun.id)).where(DagRun.dag_id.in_(our_dags())).group_by(DagRun.dag_id)
        )
        runs = select(DagRun.dag_id, DagRun.state).where(DagRun.id.in_(newest_ids))
        newest = {row.dag_id: str(row.state) for row in session.execute(runs)}
        pools = set(session.scalars(select(Pool.pool)))
    health = get_airflow_health()
    silent = [words for part, words in _COMPONENTS.items() if health[part]["status"] != HEALTHY]
    missing_pools = {pool for name in _POOL_VARIABLES if (pool := os.environ.get(name))} - pools
    may_unpause = _may_unpause(user)
    return AirflowNow(airflow.__version__, paused, may_unpause, silent, newest, missing_pools)


def _may_unpause(user: Any) -> bool:
    return all(may_in_airflow(user, "PUT", None, dag_id) for dag_id in our_dags())


def unpause_dags(user: Annotated[Any, Depends(get_user)]) -> Unpause:
    """Return what unpauses our Dags, by the function of Airflow's own page."""

    def unpause() -> None:
        if not _may_unpause(user):
            raise RefusedError(
                f"Airflow does not let {user.get_name()} unpause Dags; ask an administrator of "
                "Airflow for a role that may"
            )
        with create_session(scoped=False) as session:
            known = select(DagModel.dag_id).where(DagModel.dag_id.in_(our_dags()))
            for dag_id in list(session.scalars(known)):
                patch_dag(dag_id, DAGPatchBody(is_paused=False), session, update_mask=None)

    return unpause


AirflowState = Annotated[AirflowNow, Depends(airflow_now)]
UnpauseDags = Annotated[Unpause, Depends(unpause_dags)]


def setup_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the checklist."""
    router = APIRouter()

    @router.get("/setup")
    def checklist(request: Request, viewer: CurrentViewer, state: AirflowState) -> Response:
        found = setup(open_installation, state)
        response = form_page(
            request, viewer, "setup.html", setup=found, refresh_seconds=_REFRESH_SECONDS
        )
        if (step := found.next_step) and (step.is_elsewhere or step.is_under_way):
            response.headers["Refresh"] = str(_REFRESH_SECONDS)
        return response

    @act(router, "/setup/{action}")
    def do(
        request: Request, action: str, unpause: UnpauseDags, start_dag_run: StartInAirflow
    ) -> Response:
        if action not in ("unpause", "snapshot"):
            raise UnknownNameError(f"there is no step {action!r}")
        try:
            if action == "unpause":
                unpause()
            else:
                start_dag_run("kafka_snapshot", {}, "the first snapshot")
        except (InputError, RefusedError) as error:
            return error_page(request, status_of(error), str(error))
        return back_to(request, "/setup")

    return router
