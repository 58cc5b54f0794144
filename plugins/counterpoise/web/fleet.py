"""All clusters, the worst first, and above them what waits for a decision."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from counterpoise.services.fleet import fleet, open_runs
from counterpoise.services.viewers import Viewing
from counterpoise.views.fleet import FILTERS, FleetQuery
from counterpoise.web.ledger import page_number
from counterpoise.web.responses import answer, base_of, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation


def _fleet_query(
    search: str = "", show: str = "", sort: str = "", order: str = "", number: str = "1"
) -> FleetQuery:
    return FleetQuery(search, show, sort, order, page_number(number))


Query = Annotated[FleetQuery, Depends(_fleet_query)]


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
            found = open_runs(installation, Viewing.of(installation, viewer)).waiting
        mine = [one for one in found if one.is_mine]
        path = f"/runs/{quote(mine[0].run_id)}" if len(mine) == 1 else "/fleet"
        return RedirectResponse(f"{base_of(request)}{path}", status_code=303)

    @router.get("/fleet")
    def fleet_page(request: Request, viewer: CurrentViewer, query: Query) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            if not viewing.settings.clusters:
                return RedirectResponse(f"{base_of(request)}/setup", status_code=303)
            found = fleet(installation, viewing)
            now = installation.clock()
        return page(
            request,
            "fleet.html",
            fleet=found,
            shown=found.page(query),
            query=query,
            wanted={
                "search": query.search,
                "show": query.filter if query.filter != "all" else "",
                "sort": query.column if query.column != "state" or query.order else "",
                "order": query.order,
            },
            filters=[(name, word) for name, (word, _) in FILTERS.items()],
            failures={row.cluster: row.condition for row in found.rows if row.failure},
            now=now,
        )

    @router.get("/api/fleet")
    def fleet_json(viewer: CurrentViewer, query: Query) -> Response:
        with open_installation() as installation:
            found = fleet(installation, Viewing.of(installation, viewer))
        return answer(**found.document(query))

    @router.get("/api/open-runs")
    def open_runs_json(viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = open_runs(installation, Viewing.of(installation, viewer))
        return answer(view=found)

    return router
