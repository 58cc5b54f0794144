"""Reports as they lie in the store: lists of those that somebody may view, and each of them.

GET /reports?cluster=orders-eu&text=audit&number=2
"""

from pathlib import PurePosixPath
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from fastapi.params import Path as PathParameter

from counterpoise.archive import report_title
from counterpoise.services.fleet import failing_clusters
from counterpoise.services.reports import read_report, reports_of_cluster, reports_of_fleet
from counterpoise.services.viewers import Viewing
from counterpoise.web.ledger import page_number
from counterpoise.web.responses import STORED_POLICY, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

# Only what we write as HTML is served as HTML: whatever else lies in the store is shown as text, or
# saved.
_CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
}


def report_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the reports."""
    router = APIRouter()

    @router.get("/reports")
    def reports(
        request: Request,
        viewer: CurrentViewer,
        cluster: str = "",
        text: str = "",
        number: str = "1",
    ) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            failed = failing_clusters(installation)
            if not cluster:
                of_fleet = reports_of_fleet(installation, viewing, text)
                return page(
                    request,
                    "reports.html",
                    cluster="",
                    text=text,
                    failed=failed,
                    of_fleet=of_fleet,
                    title_of=report_title,
                )
            found = reports_of_cluster(
                installation, viewing, cluster, text=text, page=page_number(number)
            )
            now = installation.clock()
        return page(
            request,
            "reports.html",
            cluster=cluster,
            text=text,
            failed=failed,
            found=found,
            title_of=report_title,
            now=now,
        )

    @router.get("/reports/{name:path}")
    def report(name: Annotated[str, PathParameter()], viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            data = read_report(installation, Viewing.of(installation, viewer), name)
        content_type = _CONTENT_TYPES.get(PurePosixPath(name).suffix)
        headers = {"Content-Security-Policy": STORED_POLICY}
        if content_type is None:
            content_type = "application/octet-stream"
            headers["Content-Disposition"] = "attachment"
        return Response(data, media_type=content_type, headers=headers)

    return router
