"""A form that makes the lines of a waiver, to paste into clusters.yaml; it writes nothing."""

from fastapi import APIRouter, Request, Response

from counterpoise.services.audits import WantedWaiver, rule_titles, waiver_lines
from counterpoise.services.fleet import failing_clusters
from counterpoise.services.viewers import Viewing
from counterpoise.web.responses import page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation


def waiver_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the route of the form."""
    router = APIRouter()

    @router.get("/clusters/{name}/findings/waive")
    def waive_page(
        request: Request,
        name: str,
        viewer: CurrentViewer,
        rule: str = "",
        subject: str = "",
        reason: str | None = None,
        until: str = "",
    ) -> Response:
        """`reason` is None until the form is sent: then nothing is wrong yet."""
        with open_installation() as installation:
            Viewing.of(installation, viewer).check(name)
            failed, now = failing_clusters(installation).get(name), installation.clock()
        wanted = WantedWaiver(rule, subject, reason or "", until)
        problems = wanted.problems(now) if reason is not None else ()
        is_ready = reason is not None and not problems
        return page(
            request,
            "waive.html",
            status=422 if problems else 200,
            name=name,
            failed=failed,
            wanted=wanted,
            rules=rule_titles(),
            problems=problems,
            lines=waiver_lines(wanted) if is_ready else "",
        )

    return router
