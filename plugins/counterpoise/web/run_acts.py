"""What people send from the page of a run, and programs as JSON: answers, requests, an undo.

    POST /runs/{run_id}/answer              # a form: answer, rate, reason, plan
    POST /api/runs/{run_id}/decision        # JSON: decision, fingerprint, rate, reason
    POST /runs/{run_id}/requests/{control}  # and below /api: reason, rate, until
    POST /runs/{run_id}/undo                # and below /api: reason

The services decide, as for the command line; whoever answers needs Airflow's right to answer
required actions of the Dag, too. What cannot be used comes back on the page with one sentence and
all that was typed, or as JSON: then nothing was written. The same answer again, by the same person,
changes nothing and is no error. A page asks once more before it cancels.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from counterpoise.errors import InputError, MayNotError, RefusedError, UnknownNameError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.json_values import iso_time
from counterpoise.model.policy import Action
from counterpoise.model.request import CLUSTER_FIELD, UNDO_FIELD
from counterpoise.model.run import Run
from counterpoise.model.safe_text import required
from counterpoise.services import approvals, requests, runs
from counterpoise.services.runs import RunDetails
from counterpoise.services.viewers import Viewer
from counterpoise.web.airflow_runs import StartInAirflow
from counterpoise.web.forms import Sent, SentValues, act, check_form
from counterpoise.web.requests_of_people import (
    TypedRequest,
    back_to,
    record_of_cluster,
    recorded_response,
)
from counterpoise.web.responses import answer as api_answer
from counterpoise.web.responses import error_page, is_api, status_of
from counterpoise.web.runs import Shown, Typed, request_refusal, run_response
from counterpoise.web.started import to_started
from counterpoise.web.viewers import DAG_ID, CurrentViewer, OpenInstallation, check_may_answer

_DECISIONS: Final = {"approve": Decision.GRANTED, "reject": Decision.REJECTED}
_FIELDS: Final = ("fingerprint", "rate", "reason")
_OF_RUN: Final[Mapping[Control, Callable[..., ControlRequest]]] = {
    Control.PAUSE: requests.pause,
    Control.RESUME: requests.resume,
    Control.CANCEL: requests.cancel,
    Control.UNDO: requests.undo,
}
_CONTROLS: Final = (*_OF_RUN, Control.RATE, Control.FREEZE, Control.UNFREEZE)
_SURE: Final = "sure"  # the field of a form that asks once more


def answer_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes that take answers; `answer` of the form is check, approve or reject."""
    router = APIRouter()
    may_answer = [Depends(check_form), Depends(check_may_answer)]

    @router.post("/runs/{run_id}/answer", dependencies=may_answer)
    def take(request: Request, run_id: str, viewer: CurrentViewer, sent: SentValues) -> Response:
        typed = Typed(**sent.texts("rate", "reason", "plan"))
        decision = _DECISIONS.get(sent.text("answer"))
        shown = Shown(typed=typed, rate_bytes_per_second=approvals.rate_or_none(typed.rate))
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            try:
                if decision is not None:
                    _answer(installation, run, viewer, decision, typed)
                    return back_to(request, _path(run_id))
                by = viewer.person
                approvals.check_yes(installation, run.run_id, typed.plan, by=by, rate=typed.rate)
            except MayNotError:
                raise
            except (InputError, RefusedError) as error:
                shown = replace(shown, status=status_of(error), problem=str(error))
            details = runs.run_details(installation, run_id, viewer)
            return run_response(request, installation, details, shown)

    @router.post("/api/runs/{run_id}/decision", dependencies=may_answer)
    def take_json(
        request: Request, run_id: str, viewer: CurrentViewer, sent: SentValues
    ) -> Response:
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            decision, typed = _read(sent)
            try:
                approval = _answer(installation, run, viewer, decision, typed)
            except (InputError, RefusedError) as error:
                return error_page(request, status_of(error), str(error))
            after = runs.run_details(installation, run_id, viewer)
        return api_answer(
            run_id=run.run_id,
            fingerprint=approval.fingerprint,
            decision=str(approval.decision),
            decided_by=approval.person.shown,
            rate_bytes_per_second=approval.rate_bytes_per_second,
            expires_at=iso_time(approval.expires_at) if approval.expires_at else None,
            approvals_missing=after.yes_missing,
            state=str(after.run.state),
        )

    return router


def request_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes that take requests, and ask for an undo."""
    router = APIRouter()

    @act(router, "/runs/{run_id}/requests/{control}")
    def ask(
        request: Request, run_id: str, control: str, viewer: CurrentViewer, sent: SentValues
    ) -> Response:
        wanted = _control(control)
        typed = TypedRequest.of(sent, wanted)
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            if why_not := request_refusal(details, wanted):
                raise RefusedError(why_not)
            shown = Shown(typed=Typed(typed.rate, typed.reason))
            if wanted is Control.CANCEL and not is_api(request) and not sent.text(_SURE):
                return run_response(
                    request, installation, details, replace(shown, asks_cancel=True)
                )
            try:
                recorded = _record(installation, details, wanted, typed)
            except (InputError, RefusedError) as error:
                return _back(request, installation, details, shown, error)
        return recorded_response(request, recorded, _path(run_id))

    @act(router, "/runs/{run_id}/undo")
    def undo(
        request: Request,
        run_id: str,
        viewer: CurrentViewer,
        start_dag_run: StartInAirflow,
        sent: SentValues,
    ) -> Response:
        reason = sent.texts("reason")["reason"]
        with open_installation() as installation:
            details = runs.run_details(installation, run_id, viewer)
            if refusal := details.refusal(Action.PROPOSE):
                raise RefusedError(refusal)
            try:
                why = required(reason, "reason")
                if cannot := runs.why_not_undo(installation, details):
                    raise RefusedError(cannot)
                wanted = {CLUSTER_FIELD: details.run.cluster, UNDO_FIELD: run_id}
                dag_run_id = start_dag_run(DAG_ID, wanted, why)
            except (InputError, RefusedError) as error:
                shown = Shown(typed=Typed(reason=reason))
                return _back(request, installation, details, shown, error)
            plan = requests.undo_by_dag_run(dag_run_id)
            requests.note_undo(installation, run_id, plan, by=viewer.person, why=why)
        return to_started(request, details.run.cluster, DAG_ID, dag_run_id)

    return router


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id)}"


def _back(
    request: Request,
    installation: Any,
    details: RunDetails,
    shown: Shown,
    error: InputError | RefusedError,
) -> Response:
    """Return the page with what was typed and what is wrong with it; a program is told the problem
    alone.
    """
    status, problem = status_of(error), str(error)
    if is_api(request):
        return error_page(request, status, problem)
    shown = replace(shown, status=status, problem=problem)
    return run_response(request, installation, details, shown)


# -- answers


def _read(sent: Sent) -> tuple[Decision, Typed]:
    """Return the decision of a JSON body, and what goes with it. Raises InputError."""
    typed = sent.texts("decision", *_FIELDS)
    decision = typed["decision"]
    if decision not in _DECISIONS:
        raise InputError(f"decision: has to be one of {', '.join(_DECISIONS)}")
    if not typed["fingerprint"]:
        raise InputError(
            "fingerprint: has to be that of the plan which you have read "
            "(`fingerprint` of GET /counterpoise/api/runs/RUN)"
        )
    return _DECISIONS[decision], Typed(typed["rate"], typed["reason"], typed["fingerprint"])


def _answer(
    installation: Any, run: Run, viewer: Viewer, decision: Decision, typed: Typed
) -> Approval:
    return approvals.answer(
        installation,
        run.run_id,
        typed.plan,
        decision=decision,
        by=viewer.person,
        reason=typed.reason,
        rate=typed.rate,
    )


# -- requests


def _control(name: str) -> Control:
    if name not in _CONTROLS:
        raise UnknownNameError(f"there is no request {name!r} of a run")
    return Control(name)


def _record(
    installation: Any, details: RunDetails, control: Control, typed: TypedRequest
) -> tuple[ControlRequest, ...]:
    """Write the request. Raises InputError, RefusedError: nothing was written then."""
    run, by = details.run, details.viewer.person
    why = required(typed.reason, "reason")
    if control in _OF_RUN:
        return (_OF_RUN[control](installation, run.run_id, by=by, why=why),)
    if control is Control.RATE:
        return (requests.change_rate(installation, run.run_id, typed.rate, by=by, why=why),)
    return record_of_cluster(installation, run.cluster, control, typed, by=by)
