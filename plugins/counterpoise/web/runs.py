"""The page of a run, from proposal to undo; the files of its plan; and its JSON.

    GET /runs/{run_id}?tab=moves&text=orders&broker=4&why=bytes&sort=topic&number=2
    GET /runs/{run_id}/plan.json, reassignment.json, undo-reassignment.json
    GET /api/runs/{run_id}, /api/runs/{run_id}/progress, /api/runs/{run_id}/moves

`run_acts.py` takes what its forms send. While something may change, our script asks for the
progress every few seconds and draws it into the page; the browser loads the page again where no
script runs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from counterpoise.errors import UnknownNameError
from counterpoise.model.control import Control
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action
from counterpoise.model.reassignment import to_reassignment_json
from counterpoise.model.run import LOOKED_AFTER_STATES, OPEN_STATES, RunState
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import capitalized, join_names
from counterpoise.reporting.html import address
from counterpoise.services import runs
from counterpoise.services.runs import RunDetails
from counterpoise.services.viewers import EVERYBODY
from counterpoise.units import format_rate, format_seconds
from counterpoise.views.plan import MOVE_SORTS, MOVES_ON_A_PAGE, FoundMoves, MoveSearch, find_moves
from counterpoise.views.run import MovesDocument, ProgressDocument, RunDocument
from counterpoise.views.workspace import (
    BROKER_SORTS,
    Badge,
    RunWorkspace,
    badge_of,
    promised_in_words,
)
from counterpoise.web.airflow_links import dag_run_link
from counterpoise.web.forms import form_token
from counterpoise.web.requests_of_people import back_to
from counterpoise.web.responses import airflow_of, answer, base_of, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

TABS: Final = ("moves", "brokers", "checks", "settings", "timeline")
_POLLS_MOVING: Final = 5  # seconds; a run observes every 10 s through Airflow, and soon starts
_POLLS_WAITING: Final = 15
_MAX_PAGE_DIGITS: Final = 6
_FILES: Final[Mapping[str, Callable[[RebalancePlan], str]]] = {
    "plan.json": RebalancePlan.to_json,
    "reassignment.json": to_reassignment_json,
    "undo-reassignment.json": lambda plan: to_reassignment_json(plan, undo=True),
}
_FORMER_PAGES: Final = ("plan", "undo")
_TAKES_BACK: Final = OPEN_STATES | {RunState.DONE}  # a run whose plan is an undo
# In the order of the panel.
_CONTROLS: Final = (Control.PAUSE, Control.RESUME, Control.CANCEL, Control.RATE)


@dataclass(frozen=True, slots=True)
class Typed:
    """What somebody typed into a form of the page, and the plan that they saw."""

    rate: str = ""
    reason: str = ""
    plan: str = ""  # the fingerprint of the page


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows beside the run: a tab, and a form that came back."""

    tab: str = ""  # "": the one that helps most in this state
    search: MoveSearch = field(default_factory=MoveSearch)
    typed: Typed = field(default_factory=Typed)
    status: int = 200
    problem: str = ""
    rate_bytes_per_second: int | None = None  # of a form; None: the one that is offered
    asks_cancel: bool = False


def _search(
    text: str = "",
    broker: str = "",
    why: str = "",
    sort: str = MOVE_SORTS[0],
    number: str = "1",
) -> MoveSearch:
    """Return the search for moves that an address asks for; page 1 for what is no number."""
    is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_PAGE_DIGITS
    return MoveSearch(text, broker, why, sort, int(number) if is_number else 1)


TypedSearch = Annotated[MoveSearch, Depends(_search)]


def run_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes that read."""
    router = APIRouter()

    @router.get("/runs/{run_id}")
    def run_page(
        request: Request,
        run_id: str,
        viewer: CurrentViewer,
        search: TypedSearch,
        tab: str = "",
    ) -> Response:
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            return run_response(request, installation, details, Shown(tab, search))

    @router.get("/runs/{run_id}/requests/{control}")
    def former_request_page(request: Request, run_id: str, control: str) -> Response:
        """Lead to where a request is made now: a bookmark may name what it was before."""
        return back_to(request, f"/runs/{quote(run_id)}")

    @router.get("/runs/{run_id}/{name}")
    def plan_file(request: Request, run_id: str, name: str, viewer: CurrentViewer) -> Response:
        if name in _FORMER_PAGES:
            return back_to(request, f"/runs/{quote(run_id)}")
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

    @router.get("/api/runs/{run_id}")
    def run_json(run_id: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
        return answer(view=RunDocument.of(details))

    @router.get("/api/runs/{run_id}/progress")
    def progress_json(run_id: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            plan = runs.plan_of(installation, details.run)
            seen = runs.workspace(installation, details, plan)
        return answer(view=ProgressDocument.of(seen))

    @router.get("/api/runs/{run_id}/moves")
    def moves_json(
        run_id: str,
        viewer: CurrentViewer,
        search: TypedSearch,
    ) -> Response:
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            plan = runs.plan_of(installation, run)
        return answer(view=MovesDocument.of(run, find_moves(plan, search)))

    return router


def run_response(
    request: Request, installation: Any, details: RunDetails, shown: Shown
) -> Response:
    """Return the page of a run as one person sees it."""
    if details.plan is None:
        return _without_plan(request, details, shown)
    seen = runs.workspace(installation, details, details.plan, rate=shown.rate_bytes_per_second)
    may_yes, may_no = may_approve(details), may_reject(details)
    offered = offered_requests(details)
    undo_run = details.undo_run
    is_taken_back = undo_run is not None and undo_run.state in _TAKES_BACK
    may_undo = has_left_something(details) and not is_taken_back
    undo_refused = undo_refusal(installation, details) if may_undo else ""
    has_form = may_yes or may_no or bool(offered) or (may_undo and not undo_refused)
    may_rate = Control.RATE in offered and not shown.asks_cancel
    badge = seen.badge
    if details.run.state is RunState.PROPOSED and may_yes:
        badge = Badge("warn", "clock", "Waiting for you")
    polls = 0 if shown.problem or shown.asks_cancel else _poll_seconds(details)
    path = f"{base_of(request)}/runs/{quote(details.run.run_id)}"
    found = find_moves(details.plan, shown.search)
    tab = shown.tab if shown.tab in TABS else _first_tab(details, seen)
    docs, stored = _stored(request, details)
    return page(
        request,
        "run.html",
        status=shown.status,
        here="/fleet",
        here_now=address(path, {"tab": shown.tab}),
        details=details,
        seen=seen,
        badge=badge,
        typed=_typed(shown.typed, seen, details),
        problem=shown.problem,
        problem_at=_problem_at(shown.problem, has_form=has_form, has_rate=may_yes or may_rate),
        told=_told(shown.problem),
        has_form=has_form,
        asks_cancel=shown.asks_cancel,
        form_token=form_token(details.viewer),
        may_yes=may_yes,
        may_no=may_no,
        why_no_answer=why_no_answer(details),
        who_answers=who_answers(details),
        offered=offered,
        why_no_request=details.refusal(Action.OPERATE),
        who_operates=_who_operates(details),
        bytes_left=_bytes_left(details),
        may_undo=may_undo,
        undo_refused=undo_refused,
        undo_badge=badge_of(undo_run.state) if undo_run else None,
        other_rates=_other_rates(seen),
        promised=promised_in_words(seen.view),
        polls=polls,
        tab=tab,
        search=shown.search,
        broker_sort=_broker_sort(request),
        found=found,
        first=_first_shown(found),
        query=_query(shown.search),
        docs=docs,
        stored=stored,
        dag_run=dag_run_link(airflow_of(request), details.run),
    )


def _without_plan(request: Request, details: RunDetails, shown: Shown) -> Response:
    """Return what the ledger knows of a run whose plan the store does not have."""
    return page(
        request,
        "plan_missing.html",
        status=shown.status,
        details=details,
        may_no=may_reject(details),
        # Another rate is checked against the plan.
        offered=[one for one in offered_requests(details) if one is not Control.RATE],
        asks_cancel=shown.asks_cancel,
        problem=shown.problem,
        reason=shown.typed.reason,
        plan_path=details.run.plan_uri,
        form_token=form_token(details.viewer),
        dag_run=dag_run_link(airflow_of(request), details.run),
    )


# -- who may do what, in words


def may_approve(details: RunDetails) -> bool:
    """Return whether the viewer's yes would count now."""
    is_refused = details.why_not_approve or details.must_not_run or details.yes.why_nobody
    return details.viewer.may_answer and details.waits_for_answer and not is_refused


def may_reject(details: RunDetails) -> bool:
    return details.viewer.may_answer and details.may_be_rejected and details.may_reject


def why_no_answer(details: RunDetails) -> str:
    """Return why the viewer cannot approve what waits; "" where they can, and nothing waits."""
    if may_approve(details) or not details.may_be_rejected:
        return ""
    if not details.viewer.may_answer:
        return "Airflow lets you read runs, and not answer questions about them."
    if not details.waits_for_answer:
        may = " or ".join({details.who_may[Action.APPROVE], details.who_may[Action.OPERATE]})
        return "" if details.may_reject else f"It may be rejected by {may}."
    can_reject = " You can reject it." if details.may_reject else ""
    if details.must_not_run:
        return f"Nobody can approve it.{can_reject} Make a new plan when this has been put right."
    if details.yes.why_nobody:
        return f"Nobody can approve it: {details.yes.why_nobody}.{can_reject}"
    if details.is_requester and details.is_requester_excluded:
        return f"You requested this plan, so somebody else has to answer: {_approvers(details)}."
    return f"You cannot approve it: {details.why_not_approve}.{can_reject}"


def who_answers(details: RunDetails) -> str:
    """Return `You or carol (bob requested it, so bob can't)`."""
    if details.yes.why_nobody:
        return f"Nobody: {details.yes.why_nobody}"
    excluded = ""
    if details.is_requester_excluded and details.run.requested_by:
        name = "you" if details.is_requester else details.run.requester.shown
        excluded = f" ({name} requested it, so {name} can’t)"
    several = ""
    if details.yes.needed > 1:
        several = (
            f". {details.yes.needed} different people have to, since the plan "
            f"{details.why_two_people}"
        )
    return f"{_approvers(details)}{excluded}{several}"


def _approvers(details: RunDetails) -> str:
    names = list(details.yes.may_give)
    if not names:
        return details.who_may[Action.APPROVE]
    if may_approve(details):
        names = ["You", *(name for name in names if name != details.viewer.user_name)]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def _who_operates(details: RunDetails) -> str:
    """Return `You or oscar`."""
    who = details.who_may[Action.OPERATE]
    if details.refusal(Action.OPERATE):
        return who
    if who == EVERYBODY:
        return f"You and {who.replace('everybody', 'everybody else')}"
    others = [name for name in who.split(", ") if name != details.viewer.user_name]
    return join_names(["You", *others])


def offered_requests(details: RunDetails) -> list[Control]:
    """Return what the viewer may request and what would do something now."""
    return [
        control
        for control in _CONTROLS
        if _is_of_use(details, control) and not request_refusal(details, control)
    ]


def request_refusal(details: RunDetails, control: Control) -> str:
    """Return why the viewer may not request this, and who may; "" where they may.

    A lower rate is for those who operate, a higher one for those who approve: `requests` checks
    which it is.
    """
    actions = (Action.OPERATE, Action.APPROVE) if control is Control.RATE else (Action.OPERATE,)
    refusals = [details.refusal(action, control) for action in actions]
    return refusals[0] if all(refusals) else ""


def _is_of_use(details: RunDetails, control: Control) -> bool:
    """Return whether a request would do something, as the run is now."""
    active, state = details.active, details.run.state
    match control:
        case Control.PAUSE:
            return state is RunState.RUNNING and active.paused is None
        case Control.RESUME:
            return details.is_under_way and active.paused is not None
        case Control.CANCEL:
            return details.is_under_way and active.cancelled is None
        case _:
            return details.is_under_way


def has_left_something(details: RunDetails) -> bool:
    """Return whether the run has ended and moved something, and the viewer may ask for an undo."""
    has_ended = details.run.state in LOOKED_AFTER_STATES and details.has_moved
    return has_ended and not details.refusal(Action.PROPOSE)


def undo_refusal(installation: Any, details: RunDetails) -> str:
    """Return why no undo can be made, as a sentence; "" where one can."""
    refusal = runs.why_not_undo(installation, details)
    return f"{refusal[0].upper()}{refusal[1:]}." if refusal else ""


# -- what stands on the page


def _poll_seconds(details: RunDetails) -> int:
    """Return how often the page asks what has changed; 0 where nothing will."""
    if details.is_under_way or details.run.state is RunState.APPROVED:
        return _POLLS_MOVING
    return _POLLS_WAITING if details.may_be_rejected else 0


def _first_tab(details: RunDetails, seen: RunWorkspace) -> str:
    if details.is_under_way:
        return "brokers"
    if details.run.state is RunState.PROPOSED:
        return "checks" if details.must_not_run else "moves"
    return "timeline" if details.was_started else "moves"


def _typed(typed: Typed, seen: RunWorkspace, details: RunDetails) -> Typed:
    """Return what a form had, or the rate that is offered."""
    if typed != Typed():
        return typed
    rate = seen.view.rate_bytes_per_second
    if details.is_under_way and details.run_progress is not None:
        rate = details.active.rate_bytes_per_second or details.approved_rate or rate
    return Typed(rate=format_rate(rate) if rate else "")


def _bytes_left(details: RunDetails) -> int:
    """Return what the busiest broker has to copy yet, as the time left says."""
    found, seconds = details.run_progress, details.doing.seconds_left
    return seconds * found.rate_bytes_per_second if found is not None and seconds else 0


def _other_rates(seen: RunWorkspace) -> list[tuple[str, str]]:
    """Return half the rate and twice the rate, each with the time that it makes."""
    rate, seconds = seen.view.rate_bytes_per_second, seen.view.expected_seconds
    if not rate or not seconds:
        return []
    return [(format_rate(rate * factor), format_seconds(seconds / factor)) for factor in (0.5, 2.0)]


def _broker_sort(request: Request) -> str:
    """Return the column that an address sorts brokers by; the moves have other ones."""
    asked = request.query_params.get("sort", "")
    return asked if asked in BROKER_SORTS else next(iter(BROKER_SORTS))


def _problem_at(problem: str, *, has_form: bool, has_rate: bool) -> str:
    """Return the field of the page that a problem is about; "" where it is about none."""
    if has_form and problem.startswith("reason: "):
        return "reason"
    return "rate" if has_rate and "rate" in re.findall(r"\w+", problem) else ""


def _told(problem: str) -> str:
    return f"Nothing was changed. {capitalized(one_line(problem)).rstrip('.')}."


def _query(search: MoveSearch) -> dict[str, object]:
    return {
        "tab": "moves",
        "text": search.text,
        "broker": search.broker,
        "why": search.why,
        "sort": search.sort,
    }


def _first_shown(found: FoundMoves) -> int:
    """Return the number of the first move of the page."""
    return (found.page - 1) * MOVES_ON_A_PAGE + 1


def _stored(request: Request, details: RunDetails) -> tuple[str, str]:
    """Return the addresses of the checks of the data, and of the stored copy; "" for none."""
    addresses = [f"{base_of(request)}/reports/{quote(name)}" for name in details.reports]
    copies = [path for path in addresses if path.endswith("-run.html")]
    docs = [path for path in addresses if path not in copies]
    return "".join(docs[:1]), "".join(copies[:1])
