"""The reports, served by Airflow's api-server behind Airflow's own login.

    app = build_app(open_installation)

Whoever may read the runs of `kafka_rebalance` may read the reports, where the policy of the cluster
names nobody else (`access: view`). Every answer carries a content
security policy that allows no script and no form at all: the pages are shown on the origin of
Airflow's login, whose cookie scripts could read. A failure shows one neutral sentence and a
reference; the log has the reason under the same reference.

Limits: reading only; answers to approvals go through Airflow's own page.
"""

import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from html import escape
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, Request, Response
from fastapi.params import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse

from counterpoise import queries
from counterpoise.errors import InputError
from counterpoise.model.safe_text import one_line, safe_logger
from counterpoise.queries import Viewer

if TYPE_CHECKING:
    from counterpoise.installation import Installation

_LOGGER = safe_logger(__name__)

OpenInstallation = Callable[[], AbstractContextManager["Installation"]]

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; "
        # Without "allow-same-origin" a link inside Airflow's own frame would lose the login.
        "sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox "
        "allow-top-navigation-by-user-activation"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

# Only what we write as HTML is served as HTML: whatever else lies in the store is shown as text, or
# saved.
_CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
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

    app.middleware("http")(_safe_answer)

    @app.get("/reports", response_class=HTMLResponse)
    def reports(viewer: Annotated[Viewer, Depends(_viewer)]) -> str:
        with open_installation() as installation:
            names = queries.list_reports(installation, viewer)
        rows = "".join(
            f'<li><a href="reports/{quote(name)}">{escape(one_line(name))}</a></li>'
            for name in names
        )
        return _page("Reports", f"<ul>{rows}</ul>" if rows else "<p>There is none yet.</p>")

    @app.get("/reports/{name:path}")
    def report(
        name: Annotated[str, PathParameter()], viewer: Annotated[Viewer, Depends(_viewer)]
    ) -> Response:
        with open_installation() as installation:
            if not queries.may_view(installation, name, viewer):
                return _may_not_view()
            data = queries.report_data(installation, name)
        content_type = _CONTENT_TYPES.get(PurePosixPath(name).suffix)
        if content_type is None:
            headers = {"Content-Disposition": "attachment"}
            return Response(data, media_type="application/octet-stream", headers=headers)
        return Response(data, media_type=content_type)

    @app.get("/runs/{run_id}/plan")
    def plan_report(run_id: str, viewer: Annotated[Viewer, Depends(_viewer)]) -> Response:
        with open_installation() as installation:
            name = queries.name_of_plan_report(installation, run_id)
            if not queries.may_view(installation, name, viewer):
                return _may_not_view()
        return RedirectResponse(f"../../reports/{quote(name)}")

    return app


def _viewer(user: Annotated[Any, Depends(get_user)]) -> Viewer:
    """Return who asks: the SimpleAuthManager's users have one role, those of FAB several."""
    found = getattr(user, "roles", None) or [getattr(user, "role", None)]
    roles = tuple(str(getattr(role, "name", role)) for role in found if role)
    return Viewer(str(user.get_id()), str(user.get_name()), roles)


async def _safe_answer(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Return the answer with the security headers; a failure shows a reference, not its reason."""
    try:
        response = await call_next(request)
    except InputError:
        response = _error_page(404, "There is nothing of this name. It may have been renamed.")
    except Exception as error:  # noqa: BLE001 - its text may hold what a viewer must not see
        reference = uuid.uuid4().hex[:12]
        _LOGGER.error("page error %s: %s: %s", reference, type(error).__name__, error)
        response = _error_page(
            503,
            "This page cannot be shown now. The api-server's log has the reason under the "
            f"reference {reference}.",
        )
    response.headers.update(SECURITY_HEADERS)
    return response


def _may_not_view() -> Response:
    return _error_page(403, "The policy of this cluster does not name you (view).")


def _error_page(status: int, sentence: str) -> Response:
    return HTMLResponse(_page("Not available", f"<p>{escape(sentence)}</p>"), status_code=status)


def _page(title: str, body: str) -> str:
    return _PAGE.format(title=escape(title), body=body)
