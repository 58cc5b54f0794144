"""All clusters, the worst first, and above them what waits for a decision."""

from collections import defaultdict
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from counterpoise.archive import balance_report_name
from counterpoise.model.run import Run
from counterpoise.reporting.fleet_page import fleet_tiles
from counterpoise.services.fleet import FleetNow, fleet, open_runs
from counterpoise.services.viewers import Viewing
from counterpoise.views.audit import urgent_in_words
from counterpoise.views.cluster import FleetView, OpenRunsView
from counterpoise.web.responses import answer, base_of, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

Note = tuple[str, str, bool]  # text, link, whether it is urgent


def fleet_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the page of all clusters, which is the first page, too."""
    router = APIRouter()

    @router.get("/")
    def first_page() -> Response:
        return RedirectResponse("fleet")

    @router.get("/waiting")
    def waiting(request: Request, viewer: CurrentViewer) -> Response:
        """Lead to the plan that waits for the viewer; to all of them where it is not one."""
        with open_installation() as installation:
            mine = open_runs(installation, Viewing.of(installation, viewer)).mine
        path = f"/runs/{quote(mine[0].run.run_id)}/plan" if len(mine) == 1 else "/fleet"
        return RedirectResponse(f"{base_of(request)}{path}", status_code=303)

    @router.get("/fleet")
    def fleet_page(request: Request, viewer: CurrentViewer, search: str = "") -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            found = fleet(installation, viewing, search=search)
        base = base_of(request)
        return page(
            request,
            "fleet.html",
            fleet=found,
            search=search,
            tiles=fleet_tiles(found.entries),
            notes=_notes(found, base),
        )

    @router.get("/api/fleet")
    def fleet_json(viewer: CurrentViewer, search: str = "") -> Response:
        with open_installation() as installation:
            found = fleet(installation, Viewing.of(installation, viewer), search=search)
        return answer(view=FleetView.of(found))

    @router.get("/api/open-runs")
    def open_runs_json(viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = open_runs(installation, Viewing.of(installation, viewer))
        return answer(view=OpenRunsView.of(found))

    return router


def _notes(found: FleetNow, base: str) -> dict[str, list[Note]]:
    """Return what the table says of clusters besides: reports, findings, questions and runs."""
    notes: dict[str, list[Note]] = defaultdict(list)
    for entry in found.entries:
        if entry.brokers is not None:  # it was analysed
            path = f"{base}/reports/{quote(balance_report_name(entry.cluster))}"
            notes[entry.cluster].append(("Balance report", path, False))
    for cluster, audit in found.audits.items():
        if found_now := urgent_in_words(audit.open_counts):
            path = f"{base}/clusters/{quote(cluster)}/audit"
            notes[cluster].append((f"Audit: {found_now}", path, False))
    for cluster, path in found.unreadable_audits.items():
        words = f"Findings not known: audit {path} cannot be read"
        notes[cluster].append((words, "", False))
    for waiting in found.waiting:
        words = "waits for you" if waiting.is_mine else "waits for approval"
        notes[waiting.run.cluster].append((words, _page_of(waiting.run, base), waiting.is_mine))
    for run in (*found.approved, *found.under_way):
        notes[run.cluster].append((f"a run is {run.state}", _page_of(run, base), False))
    return notes


def _page_of(run: Run, base: str) -> str:
    return f"{base}/runs/{quote(run.run_id)}"
