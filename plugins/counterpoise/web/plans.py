"""The page of a plan: what it does, what it costs, what a yes means, every move, and its files.

    GET /runs/{run_id}/plan?text=orders&broker=4&why=bytes&sort=topic&page=2
    GET /runs/{run_id}/plan.json, reassignment.json, undo-reassignment.json

The form of the answer is on the page too; `answers.py` takes what it sends.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from counterpoise.errors import UnknownNameError
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.reassignment import to_reassignment_json
from counterpoise.model.run import Run
from counterpoise.services import runs
from counterpoise.services.runs import RunDetails
from counterpoise.services.viewers import Viewer
from counterpoise.units import format_rate
from counterpoise.views.plan import MOVE_SORTS, FoundMoves, MoveSearch, find_moves
from counterpoise.web.forms import form_token
from counterpoise.web.responses import base_of, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_MAX_PAGE_DIGITS: Final = 6
_FILES: Final[Mapping[str, Callable[[RebalancePlan], str]]] = {
    "plan.json": RebalancePlan.to_json,
    "reassignment.json": to_reassignment_json,
    "undo-reassignment.json": lambda plan: to_reassignment_json(plan, undo=True),
}


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    """What somebody typed into the form of the answer, and the plan that they saw."""

    rate: str = ""
    reason: str = ""
    plan: str = ""  # the fingerprint of the page


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows beside the plan: an answer that came back, the moves looked for."""

    typed: TypedAnswer = field(default_factory=TypedAnswer)
    search: MoveSearch = field(default_factory=MoveSearch)
    status: int = 200
    problem: str = ""
    is_checked: bool = False
    rate_bytes_per_second: int | None = None  # None: the one that is offered


def plan_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of plans."""
    router = APIRouter()

    @router.get("/runs/{run_id}/plan")
    def plan_page(
        request: Request,
        run_id: str,
        viewer: CurrentViewer,
        text: str = "",
        broker: str = "",
        why: str = "",
        sort: str = MOVE_SORTS[0],
        number: str = "1",
    ) -> Response:
        search = MoveSearch(text, broker, why, sort, _page_number(number))
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            shown = Shown(search=search)
            return plan_response(request, installation, run, viewer, shown)

    @router.get("/runs/{run_id}/{name}")
    def plan_file(request: Request, run_id: str, name: str, viewer: CurrentViewer) -> Response:
        if name not in _FILES:
            raise UnknownNameError(f"a plan has no file {name!r}")
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            plan = runs.plan_of(installation, run)
        saved_as = f'attachment; filename="{quote(run.run_id)}-{name}"'
        return Response(
            _FILES[name](plan),
            media_type="application/json",
            headers={"Content-Disposition": saved_as},
        )

    return router


def plan_response(
    request: Request, installation: Any, run: Run, viewer: Viewer, shown: Shown
) -> Response:
    """Return the page of a plan as one person sees it."""
    details = runs.run_details(installation, run.run_id, viewer)
    if details.plan is None:
        return _without_plan(request, viewer, details, shown)
    approved = details.approval.rate_bytes_per_second if details.approval else None
    view = runs.plan_to_approve(installation, run, shown.rate_bytes_per_second or approved)
    typed = shown.typed
    if typed == TypedAnswer():
        rate = view.rate_bytes_per_second
        typed = TypedAnswer(rate=format_rate(rate).replace(" ", "") if rate else "")
    found = find_moves(details.plan, shown.search)
    return page(
        request,
        "plan_now.html",
        status=shown.status,
        view=view,
        details=details,
        shown=shown,
        typed=typed,
        found=found,
        search=shown.search,
        links=_links(f"{base_of(request)}/runs/{quote(run.run_id)}/plan", shown.search, found),
        sorts=MOVE_SORTS,
        files=tuple(_FILES),
        form_token=form_token(viewer),
    )


def _without_plan(request: Request, viewer: Viewer, details: RunDetails, shown: Shown) -> Response:
    """Return what the ledger knows of a run whose plan the store does not have."""
    return page(
        request,
        "plan_missing.html",
        status=shown.status,
        details=details,
        problem=shown.problem,
        reason=shown.typed.reason,
        plan_path=details.run.plan_uri,
        form_token=form_token(viewer),
    )


def _page_number(text: str) -> int:
    """Return the page that an address names, 1 for what is no number."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_PAGE_DIGITS
    return int(text) if is_number else 1


def _links(page_of_plan: str, search: MoveSearch, found: FoundMoves) -> dict[str, str]:
    """Return the addresses of the page before and the page after, as far as there are such.

    They name the page: an answer that came back stands at another address.
    """
    words = {"text": search.text, "broker": search.broker, "why": search.why, "sort": search.sort}
    numbers = {"before": found.page - 1, "after": found.page + 1}
    return {
        name: f"{page_of_plan}?{urlencode({**words, 'number': number})}#moves"
        for name, number in numbers.items()
        if 1 <= number <= found.pages
    }
