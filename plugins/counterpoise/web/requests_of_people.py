"""What people may request of a run and of its cluster: a page that says what will happen and asks
why, and the row of the ledger that it writes.

    GET, POST /runs/{run_id}/requests/{control}
    POST /api/runs/{run_id}/requests/{control}

An answer that cannot be used comes back on the same page, with what was typed and one sentence;
then nothing was written. Who may not request it gets 403.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from counterpoise.errors import InputError, RefusedError, UnknownNameError
from counterpoise.model.control import CONTROL_EFFECTS, Control, ControlRequest
from counterpoise.model.person import Person
from counterpoise.model.policy import Action
from counterpoise.model.run import Run, RunState
from counterpoise.model.safe_text import limited
from counterpoise.services import requests, runs
from counterpoise.services.runs import RunDetails
from counterpoise.services.viewers import Viewer
from counterpoise.views import view_of
from counterpoise.views.run import RequestView
from counterpoise.web.forms import Sent, SentValues, act, form_page
from counterpoise.web.responses import answer, base_of, is_api, status_of
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

REQUEST_TITLES: Final[Mapping[Control, str]] = {
    Control.PAUSE: "Pause",
    Control.RESUME: "Resume",
    Control.RATE: "Change the rate",
    Control.CANCEL: "Cancel",
    Control.UNDO: "Undo",
    Control.FREEZE: "Freeze the cluster",
    Control.UNFREEZE: "End the freeze",
    Control.RELEASE: "Release brokers",
}
# Beside the reason.
_FIELD: Final = {Control.RATE: "rate", Control.FREEZE: "until", Control.RELEASE: "brokers"}
_OF_RUN: Final[Mapping[Control, Callable[..., ControlRequest]]] = {
    Control.PAUSE: requests.pause,
    Control.RESUME: requests.resume,
    Control.CANCEL: requests.cancel,
    Control.UNDO: requests.undo,
}
_CONTROLS: Final = (*_OF_RUN, Control.RATE, Control.FREEZE, Control.UNFREEZE)  # on a run's page


@dataclass(frozen=True, slots=True)
class OfferedRequest:
    """A request that can do something now, and the link to the page that asks why."""

    control: Control
    title: str
    path: str


@dataclass(frozen=True, slots=True)
class TypedRequest:
    """What somebody typed; kept where it cannot be used."""

    reason: str = ""
    rate: str = ""
    until: str = ""
    brokers: str = ""

    @classmethod
    def of(cls, sent: Sent, control: Control) -> "TypedRequest":
        """Return what was sent for a request. Raises InputError."""
        of_control = [_FIELD[control]] if control in _FIELD else []
        return cls(**sent.texts("reason", *of_control))


def request_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the requests of people."""
    router = APIRouter()

    @router.get("/runs/{run_id}/requests/{control}")
    def ask(request: Request, run_id: str, control: str, viewer: CurrentViewer) -> Response:
        wanted = _control(control)
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
        why_not = refusal(details, wanted)
        return _form(request, viewer, details, wanted, TypedRequest(), why_not=why_not)

    @act(router, "/runs/{run_id}/requests/{control}")
    def record(
        request: Request, run_id: str, control: str, viewer: CurrentViewer, sent: SentValues
    ) -> Response:
        wanted = _control(control)
        typed = TypedRequest.of(sent, wanted)
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            if why_not := refusal(details, wanted):
                raise RefusedError(why_not)
            try:
                recorded = _record(installation, details, wanted, typed)
            except (InputError, RefusedError) as error:
                status, problem = status_of(error), str(error)
                return _form(
                    request, viewer, details, wanted, typed, status=status, problem=problem
                )
        return recorded_response(request, recorded, f"/runs/{quote(run_id)}")

    return router


def recorded_response(
    request: Request, recorded: tuple[ControlRequest, ...], path: str
) -> Response:
    """Return the answer to whoever has requested something: the page at `path`, or JSON."""
    if not is_api(request):
        return back_to(request, path)
    first = recorded[0]
    shown = [view_of(RequestView, one) for one in recorded]
    return answer(cluster=first.cluster, run_id=first.run_id, requests=shown)


def offered_requests(details: RunDetails) -> list[OfferedRequest]:
    """Return what the viewer may request and what would do something now."""
    return [
        OfferedRequest(
            control,
            REQUEST_TITLES[control],
            f"/runs/{quote(details.run.run_id)}/requests/{control}",
        )
        for control in _CONTROLS
        if _is_of_use(details, control) and not refusal(details, control)
    ]


def refusal(details: RunDetails, control: Control) -> str:
    """Return why the viewer may not request this, and who may; "" where they may.

    A lower rate is for those who operate, a higher one for those who approve: `requests` checks
    which it is.
    """
    actions = (Action.OPERATE, Action.APPROVE) if control is Control.RATE else (Action.OPERATE,)
    refusals = [details.refusal(action, control) for action in actions]
    return refusals[0] if all(refusals) else ""


def back_to(request: Request, path: str) -> Response:
    """Return the answer to a form that was recorded: the browser reads another page of ours."""
    return RedirectResponse(f"{base_of(request)}{path}", status_code=303)


def _control(name: str) -> Control:
    if name not in _CONTROLS:
        raise UnknownNameError(f"there is no request {name!r} of a run")
    return Control(name)


def _is_of_use(details: RunDetails, control: Control) -> bool:
    """Return whether a request would do something, as the run and the cluster are now."""
    active, state = details.active, details.run.state
    match control:
        case Control.PAUSE:
            return state is RunState.RUNNING and active.paused is None
        case Control.RESUME:
            return details.is_under_way and active.paused is not None
        case Control.RATE:
            return details.is_under_way
        case Control.CANCEL | Control.UNDO:
            return details.is_under_way and active.cancelled is None
        case Control.FREEZE:
            return True  # also for longer than another one
        case Control.UNFREEZE:
            return active.frozen is not None
        case _:
            return False


def _record(
    installation: Any, details: RunDetails, control: Control, typed: TypedRequest
) -> tuple[ControlRequest, ...]:
    """Write the request. Raises InputError, RefusedError: nothing was written then."""
    run, by = details.run, details.viewer.person
    why = limited(typed.reason, "reason")
    if control in _OF_RUN:
        return (_OF_RUN[control](installation, run.run_id, by=by, why=why),)
    if control is Control.RATE:
        return (requests.change_rate(installation, run.run_id, typed.rate, by=by, why=why),)
    return record_of_cluster(installation, run.cluster, control, typed, by=by)


def record_of_cluster(
    installation: Any, cluster: str, control: Control, typed: TypedRequest, *, by: Person
) -> tuple[ControlRequest, ...]:
    """Freeze a cluster, end its freeze, or release brokers. Raises InputError, RefusedError:
    nothing was written then.
    """
    why = limited(typed.reason, "reason")
    if control is Control.FREEZE:
        until = limited(typed.until, "until")
        return (requests.freeze(installation, cluster, until=until, by=by, why=why),)
    if control is Control.RELEASE:
        return requests.release(installation, cluster, typed.brokers, by=by, why=why)
    return (requests.unfreeze(installation, cluster, by=by, why=why),)


def _form(
    request: Request,
    viewer: Viewer,
    details: RunDetails,
    control: Control,
    typed: TypedRequest,
    *,
    status: int = 200,
    problem: str = "",
    why_not: str = "",
) -> Response:
    return request_form(
        request,
        viewer,
        control,
        typed,
        cluster=details.run.cluster,
        run=details.run,
        approved_rate=details.approved_rate,
        status=status,
        problem=problem,
        why_not=why_not,
    )


def request_form(
    request: Request,
    viewer: Viewer,
    control: Control,
    typed: TypedRequest,
    *,
    cluster: str,
    run: Run | None = None,
    approved_rate: int | None = None,
    status: int = 200,
    problem: str = "",
    why_not: str = "",
) -> Response:
    """Return the page that asks why, of a run or of a cluster."""
    about = f"/runs/{quote(run.run_id)}" if run else f"/clusters/{quote(cluster)}"
    return form_page(
        request,
        viewer,
        "request.html",
        status=403 if why_not else status,
        cluster=cluster,
        run=run,
        about=f"{base_of(request)}{about}",
        approved_rate=approved_rate,
        control=control,
        title=REQUEST_TITLES[control],
        effect=CONTROL_EFFECTS[control],
        typed=typed,
        problem=problem,
        why_not=why_not,
    )
