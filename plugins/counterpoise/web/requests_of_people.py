"""What people may request of a cluster, and what they type for it: a page that says what happens
and asks why, and the row of the ledger that it writes.

`cluster_requests.py` has the routes; those of a run are in `run_acts.py`. An answer that cannot be
used comes back on the same page, with what was typed and one sentence; then nothing was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from counterpoise.model.control import CONTROL_EFFECTS, Control, ControlRequest
from counterpoise.model.person import Person
from counterpoise.model.safe_text import limited, required
from counterpoise.services import requests
from counterpoise.services.viewers import Viewer
from counterpoise.views import view_of
from counterpoise.views.fleet import Condition
from counterpoise.views.run import RequestView
from counterpoise.web.forms import Sent, form_page
from counterpoise.web.responses import answer, base_of, is_api

_TITLES: Final[Mapping[Control, str]] = {
    Control.FREEZE: "Freeze the cluster",
    Control.UNFREEZE: "End the freeze",
    Control.RELEASE: "Release brokers",
}
# Beside the reason.
_FIELD: Final = {Control.RATE: "rate", Control.FREEZE: "until", Control.RELEASE: "brokers"}


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


def recorded_response(
    request: Request, recorded: tuple[ControlRequest, ...], path: str
) -> Response:
    """Return the answer to whoever has requested something: the page at `path`, or JSON."""
    if not is_api(request):
        return back_to(request, path)
    first = recorded[0]
    shown = [view_of(RequestView, one) for one in recorded]
    return answer(cluster=first.cluster, run_id=first.run_id, requests=shown)


def back_to(request: Request, path: str) -> Response:
    """Return the answer to a form that was recorded: the browser reads another page of ours."""
    return RedirectResponse(f"{base_of(request)}{path}", status_code=303)


def record_of_cluster(
    installation: Any, cluster: str, control: Control, typed: TypedRequest, *, by: Person
) -> tuple[ControlRequest, ...]:
    """Freeze a cluster, end its freeze, or release brokers. Raises InputError, RefusedError:
    nothing was written then.
    """
    why = required(typed.reason, "reason")
    if control is Control.FREEZE:
        until = limited(typed.until, "until")
        return (requests.freeze(installation, cluster, until=until, by=by, why=why),)
    if control is Control.RELEASE:
        return requests.release(installation, cluster, typed.brokers, by=by, why=why)
    return (requests.unfreeze(installation, cluster, by=by, why=why),)


def request_form(
    request: Request,
    viewer: Viewer,
    control: Control,
    typed: TypedRequest,
    *,
    cluster: str,
    failed: Condition | None,
    status: int = 200,
    problem: str = "",
    why_not: str = "",
) -> Response:
    """Return the page that asks why."""
    return form_page(
        request,
        viewer,
        "request.html",
        status=403 if why_not else status,
        cluster=cluster,
        failed=failed,
        about=f"{base_of(request)}/clusters/{quote(cluster)}",
        control=control,
        title=_TITLES[control],
        effect=CONTROL_EFFECTS[control],
        typed=typed,
        problem=problem,
        why_not=why_not,
    )
