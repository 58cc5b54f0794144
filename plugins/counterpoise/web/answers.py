"""An answer about a plan: on its page, or of a program. Both are recorded in the ledger at once.

    POST /runs/{run_id}/answer          # a form: answer=check|approve|reject, rate, reason, plan
    POST /api/runs/{run_id}/decision    # JSON: decision, fingerprint, rate, reason

`controls.record_decision` decides, as for the command line; whoever answers needs Airflow's right
to answer required actions of the Dag, too. What cannot be used comes back on the plan's page with
one sentence and all that was typed, or as JSON; nothing was written then. The same answer again, by
the same person, changes nothing and is no error.
"""

from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from counterpoise import controls
from counterpoise.errors import InputError, RefusedError, StalePlanError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.json_values import iso_time
from counterpoise.model.run import Run
from counterpoise.model.safe_text import limited
from counterpoise.services import runs
from counterpoise.services.runs import RunDetails
from counterpoise.services.viewers import Viewer
from counterpoise.units import parse_rate
from counterpoise.web.forms import Sent, SentValues, check_form
from counterpoise.web.plans import Shown, TypedAnswer, plan_response, why_not_here
from counterpoise.web.requests_of_people import back_to
from counterpoise.web.responses import answer as api_answer
from counterpoise.web.responses import error_page, status_of
from counterpoise.web.viewers import CurrentViewer, OpenInstallation, check_may_answer

_DECISIONS: Final = {"approve": Decision.GRANTED, "reject": Decision.REJECTED}
_FIELDS: Final = ("fingerprint", "rate", "reason")


def answer_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes that take answers."""
    router = APIRouter()

    @router.post(
        "/runs/{run_id}/answer", dependencies=[Depends(check_form), Depends(check_may_answer)]
    )
    def take(request: Request, run_id: str, viewer: CurrentViewer, sent: SentValues) -> Response:
        typed = TypedAnswer(**sent.texts("rate", "reason", "plan"))
        decision = _DECISIONS.get(sent.text("answer"))
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            shown = _answered(installation, run, viewer, decision, typed)
            if shown is not None:
                return plan_response(request, installation, run, viewer, shown, may_answer=True)
        return back_to(request, f"/runs/{quote(run.run_id)}/plan#answer")

    @router.post(
        "/api/runs/{run_id}/decision",
        dependencies=[Depends(check_form), Depends(check_may_answer)],
    )
    def take_json(
        request: Request, run_id: str, viewer: CurrentViewer, sent: SentValues
    ) -> Response:
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            decision, typed = _read(sent)
            details = runs.run_details(installation, run, viewer)
            approval = _same_answer(details, decision, typed)
            if approval is None:
                _check_may_give(details, decision)
                try:
                    approval = _decided(installation, details, decision, typed)
                except (InputError, RefusedError) as error:
                    return error_page(request, status_of(error), str(error))
            after = runs.run_details(installation, installation.ledger.run(run_id), viewer)
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


def _read(sent: Sent) -> tuple[Decision, TypedAnswer]:
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
    return _DECISIONS[decision], TypedAnswer(typed["rate"], typed["reason"], typed["fingerprint"])


def _answered(
    installation: Any, run: Run, viewer: Viewer, decision: Decision | None, typed: TypedAnswer
) -> Shown | None:
    """Record an answer, or check a rate (no `decision`); return what comes back on the page, None
    where the answer is recorded.

    Raises RefusedError for somebody who may not answer.
    """
    details = runs.run_details(installation, run, viewer)
    if decision is not None and _same_answer(details, decision, typed) is not None:
        return None
    _check_may_give(details, decision)
    shown = Shown(typed=typed, rate_bytes_per_second=_usable_rate(typed))
    try:
        if decision is not None:
            _decided(installation, details, decision, typed)
            return None
        _check_open(details, decision, typed)
        _check_has_plan(details)
        _check_rate(installation, details, typed)
    except (InputError, RefusedError) as error:
        return replace(shown, status=status_of(error), problem=str(error))
    return replace(shown, is_checked=True)


def _check_may_give(details: RunDetails, decision: Decision | None) -> None:
    """Raise RefusedError for somebody who may not give this answer, whatever they typed. A yes that
    nobody can give any more is for `_check_open`.
    """
    if decision is Decision.GRANTED and not details.waits_for_answer:
        return
    may_reject = decision is Decision.REJECTED and details.may_reject
    if details.why_not_approve and not may_reject:
        raise RefusedError(details.why_not_approve)


def _usable_rate(typed: TypedAnswer) -> int | None:
    """Return the bytes per second that were typed; None for what is no rate."""
    try:
        return parse_rate(limited(typed.rate, "rate"))
    except InputError:
        return None


def _decided(
    installation: Any, details: RunDetails, decision: Decision, typed: TypedAnswer
) -> Approval:
    """Record an answer and return it. Raises InputError, RefusedError: nothing was written then."""
    _check_open(details, decision, typed)
    if decision is Decision.GRANTED:
        _check_has_plan(details)
        _check_validation(details)
    approval: Approval = controls.record_decision(
        installation,
        details.run.run_id,
        typed.plan,
        decision=decision,
        by=details.person,
        reason=limited(typed.reason, "reason"),
        rate=limited(typed.rate, "rate") if decision is Decision.GRANTED else None,
    )
    return approval


def _same_answer(details: RunDetails, decision: Decision, typed: TypedAnswer) -> Approval | None:
    """Return the answer that this person has given before and that holds, where it says the same;
    None for another one.
    """
    is_yes = decision is Decision.GRANTED
    for given in details.in_force if is_yes else details.approvals[-1:]:
        is_same = (given.decision, given.fingerprint) == (decision, typed.plan)
        has_same_rate = not is_yes or given.rate_bytes_per_second == _usable_rate(typed)
        if is_same and has_same_rate and given.person == details.person:
            return given
    return None


def _check_open(details: RunDetails, decision: Decision | None, typed: TypedAnswer) -> None:
    """Raise StalePlanError, RefusedError where an answer can decide nothing."""
    run = details.run
    if typed.plan != run.fingerprint:
        raise StalePlanError(
            f"this answer is for another plan than {run.fingerprint}, which the run has: read that "
            "plan, and answer again"
        )
    may_end = decision is Decision.REJECTED and details.may_be_rejected
    if not details.waits_for_answer and not may_end:
        raise RefusedError(
            f"run {run.run_id} is {run.state}, so it waits for no answer any more; for another "
            "answer, make a new plan"
        )


def _check_has_plan(details: RunDetails) -> None:
    if details.plan is None:
        raise RefusedError(
            f"the store does not have the plan of run {details.run.run_id}, so nobody can approve "
            "it; bring the file back, or reject the plan"
        )


def _check_validation(details: RunDetails) -> None:
    if problem := why_not_here(details):
        raise RefusedError(problem)
    if details.is_refused_by_validation:
        why = details.why_refused_by_validation or "the log of the task validate says why"
        raise RefusedError(f"this plan must not run: {why}. Make a new plan, and reject this one")
    if details.validated_at is None:
        raise RefusedError(
            "rules and data of this plan have not been checked yet: answer when the task validate "
            "has succeeded"
        )


def _check_rate(installation: Any, details: RunDetails, typed: TypedAnswer) -> None:
    run = details.run
    controls.check_grant(
        installation,
        installation.plan_of(run),
        by=details.person,
        requester=run.requester,
        rate=typed.rate,
    )
