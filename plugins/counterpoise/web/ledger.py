"""The ledger: who did what and when, the check of its chains, and its rows as JSON lines."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from counterpoise.model.ledger_entry import EntryTable
from counterpoise.queries import Viewer
from counterpoise.queries.ledger import (
    MAX_PAGE,
    LedgerQuery,
    check_cluster,
    export,
    ledger_entries,
    verify,
)
from counterpoise.queries.viewing import Viewing
from counterpoise.web.responses import page as drawn_page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_TABLES = tuple(str(table) for table in EntryTable)


def ledger_query(
    cluster: str = "",
    run: str = "",
    kind: str = "",
    person: str = "",
    since: str = "",
    until: str = "",
) -> LedgerQuery:
    """Return the filter of an address."""
    return LedgerQuery(cluster, run, kind, person, since, until)


def page_number(page: str = "1") -> int:
    """Return the page of an address, from 1; the first one for what is no number."""
    return max(1, min(MAX_PAGE, int(page))) if page.isdecimal() and len(page) < 6 else 1


Filter = Annotated[LedgerQuery, Depends(ledger_query)]
PageNumber = Annotated[int, Depends(page_number)]


def ledger_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the ledger."""
    router = APIRouter()

    @router.get("/ledger")
    def ledger_page(
        request: Request,
        viewer: CurrentViewer,
        query: Filter,
        page: PageNumber,
    ) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            found = ledger_entries(installation, viewing, query, page=page)
        typed = {name: value for name, value in asdict(query).items() if value}
        return drawn_page(
            request,
            "ledger.html",
            status=422 if found.problems else 200,
            found=found,
            query=query,
            tables=_TABLES,
            kinds=[kind for kind in found.kinds if kind not in _TABLES],
            before=f"?{urlencode(typed | {'page': found.page - 1})}" if found.page > 1 else "",
            after=f"?{urlencode(typed | {'page': found.page + 1})}" if found.has_more else "",
        )

    @router.get("/ledger/verify")
    def verify_page(request: Request, viewer: CurrentViewer, cluster: str = "") -> Response:
        with open_installation() as installation:
            report = verify(installation, Viewing.of(installation, viewer), cluster)
        return drawn_page(request, "ledger_verify.html", report=report, cluster=cluster)

    @router.get("/ledger/export")
    def export_lines(viewer: CurrentViewer, cluster: str = "") -> Response:
        with open_installation() as installation:
            check_cluster(installation, Viewing.of(installation, viewer), cluster)
        name = f"ledger-{cluster}.jsonl" if cluster else "ledger.jsonl"
        return StreamingResponse(
            _lines(open_installation, viewer, cluster),
            media_type="application/jsonl",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    return router


def _lines(open_installation: OpenInstallation, viewer: Viewer, cluster: str) -> Iterator[str]:
    """Yield the export; the ledger stays open until the last line is out."""
    with open_installation() as installation:
        yield from export(installation, Viewing.of(installation, viewer), cluster)
