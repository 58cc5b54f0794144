"""Our pages, served by Airflow's api-server behind Airflow's own login.

    app = build_app(open_installation)
    warm_up(open_installation)      # at the api-server's start

Whoever may read the runs of `kafka_rebalance` may open them, and sees the clusters whose policy
does not name others (`access: view`). Every page carries a content security policy that allows our
one script, `static/counterpoise.js`; everything works without it. `static/home.js` is for Airflow's
own home.
"""

from contextlib import suppress

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from counterpoise.services.viewers import settings_of_pages
from counterpoise.web.cluster_figures import cluster_figure_routes
from counterpoise.web.cluster_requests import cluster_request_routes
from counterpoise.web.clusters import cluster_routes
from counterpoise.web.fleet import fleet_routes
from counterpoise.web.ledger import ledger_routes
from counterpoise.web.metrics import metrics_routes
from counterpoise.web.new_plan import new_plan_routes
from counterpoise.web.reports import report_routes
from counterpoise.web.responses import (
    ASSETS,
    compile_templates,
    safe_response,
    unroutable_response,
)
from counterpoise.web.run_acts import answer_routes, request_routes
from counterpoise.web.runs import run_routes
from counterpoise.web.setup import setup_routes
from counterpoise.web.started import started_routes
from counterpoise.web.viewers import OpenInstallation, may_read
from counterpoise.web.waivers import waiver_routes


def warm_up(open_installation: OpenInstallation) -> None:
    """Do what would make the first page slow: compile the templates, and read the settings, which
    are kept for as long as their file stays as it is. Whatever fails here is told by the page.
    """
    compile_templates()
    # Of any type: it must not keep the api-server of all of Airflow from starting.
    with suppress(Exception), open_installation() as installation:
        settings_of_pages(installation)


async def asset(request: Request) -> Response:
    """Return a script or the style. Airflow's home loads its script for everybody, also for whoever
    may not open our pages: so without the dependencies that every other address has.
    """
    path, media_type = ASSETS[request.url.path.rpartition("/")[2]]
    kept = {"Cache-Control": "private, max-age=31536000, immutable"} if request.url.query else None
    return FileResponse(path, media_type=media_type, headers=kept)


def build_app(open_installation: OpenInstallation) -> FastAPI:
    """Return the application; without the API description, which the dependencies would not cover.

    `open_installation` returns a context manager over an Installation.
    """
    app = FastAPI(
        title="Counterpoise",
        openapi_url=None,
        dependencies=[Depends(get_user), Depends(may_read)],
        redirect_slashes=False,  # a program that sends something would not follow
    )
    app.middleware("http")(safe_response)
    for name in ASSETS:
        app.router.add_route(f"/static/{name}", asset)
    for refused in (StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(refused, unroutable_response)
    app.include_router(fleet_routes(open_installation))
    app.include_router(setup_routes(open_installation))
    app.include_router(waiver_routes(open_installation))
    app.include_router(cluster_request_routes(open_installation))
    app.include_router(new_plan_routes(open_installation))
    app.include_router(cluster_routes(open_installation))
    app.include_router(cluster_figure_routes(open_installation))
    app.include_router(ledger_routes(open_installation))
    app.include_router(metrics_routes(open_installation))
    app.include_router(report_routes(open_installation))
    app.include_router(run_routes(open_installation))
    app.include_router(answer_routes(open_installation))
    app.include_router(request_routes(open_installation))
    app.include_router(started_routes(open_installation))
    return app
