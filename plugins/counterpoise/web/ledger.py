"""The ledger: who did what and when."""

from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response

from counterpoise.model.ledger_entry import EntryTable
from counterpoise.services.fleet import failing_clusters
from counterpoise.services.ledger_entries import (
    MAX_PAGE,
    LedgerQuery,
    ledger_entries,
)
from counterpoise.services.viewers import Viewing
from counterpoise.web.responses import answer, json_response
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
            failed, now = failing_clusters(installation), installation.clock()
        typed = {name: value for name, value in asdict(query).items() if value}
        return drawn_page(
            request,
            "ledger.html",
            status=422 if found.problems else 200,
            found=found,
            failed=failed,
            now=now,
            query=query,
            tables=_TABLES,
            kinds=[kind for kind in found.kinds if kind not in _TABLES],
            before=f"?{urlencode(typed | {'page': found.page - 1})}" if found.page > 1 else "",
            after=f"?{urlencode(typed | {'page': found.page + 1})}" if found.has_more else "",
        )

    @router.get("/api/ledger")
    def ledger_json(viewer: CurrentViewer, query: Filter, page: PageNumber) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            found = ledger_entries(installation, viewing, query, page=page)
        if found.problems:
            return json_response({"detail": "; ".join(found.problems)}, status=422)
        return answer(
            page=found.page,
            has_more=found.has_more,
            entries=[asdict(one) | {"by": one.who, "who": one.who} for one in found.entries],
        )

    return router
