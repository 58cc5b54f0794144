"""Reports as they lie in the store: a list of those that somebody may view, and each of them."""

from pathlib import PurePosixPath
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from fastapi.params import Path as PathParameter

from counterpoise import queries
from counterpoise.web.responses import STORED_POLICY, may_not_view, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

# Only what we write as HTML is served as HTML: whatever else lies in the store is shown as text, or
# saved.
_CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
}


def report_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the reports."""
    router = APIRouter()

    @router.get("/reports")
    def reports(request: Request, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            names = queries.list_reports(installation, viewer)
        return page(request, "reports.html", names=names)

    @router.get("/reports/{name:path}")
    def report(
        request: Request, name: Annotated[str, PathParameter()], viewer: CurrentViewer
    ) -> Response:
        with open_installation() as installation:
            if not queries.may_view(installation, name, viewer):
                return may_not_view(request)
            data = queries.report_data(installation, name)
        content_type = _CONTENT_TYPES.get(PurePosixPath(name).suffix)
        headers = {"Content-Security-Policy": STORED_POLICY}
        if content_type is None:
            content_type = "application/octet-stream"
            headers["Content-Disposition"] = "attachment"
        return Response(data, media_type=content_type, headers=headers)

    return router
