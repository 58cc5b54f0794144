"""The reports, served by Airflow's api-server behind Airflow's own login.

    app = build_app(open_installation)

Whoever may read the runs of `kafka_rebalance` may read the reports. Every page carries a content
security policy that allows no script at all: the pages are shown on the origin of Airflow's login,
whose cookie scripts could read.

Limits: reading only; answers to approvals go through Airflow's own page.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from html import escape
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, Request, Response
from fastapi.params import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse

from counterpoise import queries
from counterpoise.errors import CounterpoiseError, InputError

if TYPE_CHECKING:
    from counterpoise.installation import Installation

OpenInstallation = Callable[[], AbstractContextManager["Installation"]]

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font-family: sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
li {{ margin: .3rem 0 }}</style></head>
<body><h1>{title}</h1>{body}</body></html>
"""

_may_read = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id="kafka_rebalance")


def build_app(open_installation: OpenInstallation) -> FastAPI:
    """Return the application; without the API description, which the dependencies would not cover.

    `open_installation` returns a context manager over an Installation.
    """
    app = FastAPI(
        title="Counterpoise", openapi_url=None, dependencies=[Depends(get_user), Depends(_may_read)]
    )

    @app.middleware("http")
    async def add_headers(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers.update(SECURITY_HEADERS)
        return response

    @app.exception_handler(CounterpoiseError)
    async def show_error(_request: Request, error: CounterpoiseError) -> HTMLResponse:
        status = 404 if isinstance(error, InputError) else 503
        return HTMLResponse(
            _page("Not available", f"<p>{escape(str(error))}</p>"), status_code=status
        )

    @app.get("/reports", response_class=HTMLResponse)
    def reports() -> str:
        with open_installation() as installation:
            names = queries.list_reports(installation)
        rows = "".join(
            f'<li><a href="reports/{quote(name)}">{escape(name)}</a></li>' for name in names
        )
        return _page("Reports", f"<ul>{rows}</ul>" if rows else "<p>There is none yet.</p>")

    @app.get("/reports/{name:path}", response_class=HTMLResponse)
    def report(name: Annotated[str, PathParameter()]) -> str:
        with open_installation() as installation:
            return queries.report(installation, name)

    @app.get("/runs/{run_id}/plan")
    def plan_report(run_id: str) -> RedirectResponse:
        with open_installation() as installation:
            return RedirectResponse(
                f"../../reports/{quote(queries.name_of_plan_report(installation, run_id))}"
            )

    return app


def _page(title: str, body: str) -> str:
    return _PAGE.format(title=escape(title), body=body)
