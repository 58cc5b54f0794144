"""The page of a run: how far it is, what it waits for, who decided what, and what they may request.

    GET /runs/{run_id}

While the run is under way the browser loads the page again by itself: by a header, since a page in
a sandbox without scripts may not do so by an element of its own.
"""

from typing import Final

from fastapi import APIRouter, Request, Response

from counterpoise.model.run import Event
from counterpoise.services import runs
from counterpoise.services.runs import RunDetails
from counterpoise.views.plan import goal_in_words
from counterpoise.views.run import EVENTS_SHOWN, RunDocument
from counterpoise.web.requests_of_people import offered_requests
from counterpoise.web.responses import answer, page
from counterpoise.web.undo import may_ask_undo
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_REFRESH_SECONDS: Final = 10  # as often as a run observes through Airflow
_KEYS_SHOWN: Final = 200


def run_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the route of the page of a run."""
    router = APIRouter()

    @router.get("/runs/{run_id}")
    def run_page(request: Request, run_id: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
        response = page(
            request,
            "run_now.html",
            details=details,
            title=title_of(details),
            requests=offered_requests(details),
            may_ask_undo=may_ask_undo(details),
            events=shown_events(details.events),
            events_left_out=max(0, len(details.events) - EVENTS_SHOWN),
            keys_shown=_KEYS_SHOWN,
            refresh_seconds=_REFRESH_SECONDS,
        )
        if details.is_under_way:
            response.headers["Refresh"] = str(_REFRESH_SECONDS)
        return response

    @router.get("/api/runs/{run_id}")
    def run_json(run_id: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
        return answer(view=RunDocument.of(details))

    return router


def title_of(details: RunDetails) -> str:
    """Return `demo: add-brokers 4`; the cluster alone where the plan is not there any more."""
    if details.plan is None:
        return details.run.cluster
    return f"{details.run.cluster}: {goal_in_words(details.plan)}"


def shown_events(events: tuple[Event, ...]) -> list[Event]:
    """Return the newest events, the newest first."""
    return list(reversed(events[-EVENTS_SHOWN:]))
