"""An answer about a plan: checked as the ledger checks it, and then given to Airflow's question.

    POST /runs/{run_id}/answer      # answer=check|approve|reject, rate, reason, plan

What cannot be used comes back on the plan's page with one sentence and all that was typed; nothing
was written then. A good answer goes to the question of the Dag run as its user's own, and the task
records it in the ledger, which decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request, Response

from counterpoise import controls
from counterpoise.errors import InputError, RefusedError, StalePlanError
from counterpoise.model.approval import Decision
from counterpoise.model.run import Run
from counterpoise.model.safe_text import limited
from counterpoise.queries import Viewer, running
from counterpoise.queries.running import RunDetails
from counterpoise.units import parse_rate
from counterpoise.web.airflow_questions import AnswerInAirflow, AnswerQuestion
from counterpoise.web.airflow_runs import DagRunStateOf, StateInAirflow, has_ended
from counterpoise.web.forms import check_form, sent_mark
from counterpoise.web.plans import Shown, TypedAnswer, plan_response, why_not_here
from counterpoise.web.requests_of_people import back_to
from counterpoise.web.responses import status_of
from counterpoise.web.viewers import CurrentViewer, OpenInstallation, check_may_change

_OPTIONS: Final[Mapping[Decision, str]] = {  # as Airflow's ApprovalOperator names them
    Decision.GRANTED: "Approve",
    Decision.REJECTED: "Reject",
}
_ANSWERS: Final = {"approve": Decision.GRANTED, "reject": Decision.REJECTED}


@dataclass(frozen=True, slots=True)
class _Airflow:
    """What Airflow is told, and asked, as the user who answers."""

    answer: AnswerQuestion
    state_of: DagRunStateOf


def answer_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the route that takes answers."""
    router = APIRouter()

    @router.post(
        "/runs/{run_id}/answer", dependencies=[Depends(check_form), Depends(check_may_change)]
    )
    def take(
        request: Request,
        run_id: str,
        viewer: CurrentViewer,
        answer_in_airflow: AnswerInAirflow,
        state_in_airflow: StateInAirflow,
        answer: Annotated[str, Form()] = "check",
        rate: Annotated[str, Form()] = "",
        reason: Annotated[str, Form()] = "",
        plan: Annotated[str, Form()] = "",
    ) -> Response:
        typed = TypedAnswer(rate, reason, plan)
        with open_installation() as installation:
            run = running.run_to_view(installation, run_id, viewer)
            decision = _ANSWERS.get(answer)
            answer_count = len(installation.ledger.approvals_of(run_id))
            airflow = _Airflow(answer_in_airflow, state_in_airflow)
            shown = _answered(installation, run, viewer, decision, typed, airflow)
            if not shown.is_sent:
                return plan_response(request, installation, run, viewer, shown, may_change=True)
        mark = sent_mark(viewer, run.run_id, answer_count)
        return back_to(request, f"/runs/{quote(run.run_id)}/plan?sent={mark}#answer")

    return router


def _answered(
    installation: Any,
    run: Run,
    viewer: Viewer,
    decision: Decision | None,
    typed: TypedAnswer,
    airflow: _Airflow,
) -> Shown:
    """Hand an answer on, or check a rate (no `decision`); return what the page then shows.

    Raises RefusedError for somebody who may not answer.
    """
    details = running.run_details(installation, run, viewer)
    _check_may_answer(details, decision)
    shown = Shown(typed=typed, rate_bytes_per_second=_usable_rate(typed))
    try:
        _check_open(details, decision, typed)
        if decision is None:
            _check_has_plan(details)
            _check_rate(installation, details, typed)
            return replace(shown, is_checked=True)
        if decision is Decision.GRANTED:
            _check_has_plan(details)
            _check_validation(details)
        _check_answer(installation, details, decision, typed)
        _hand_on(installation, details, decision, typed, airflow)
    except (InputError, RefusedError) as error:
        return replace(shown, status=status_of(error), problem=str(error))
    return replace(shown, is_sent=True)


def _check_may_answer(details: RunDetails, decision: Decision | None) -> None:
    may_reject = decision is Decision.REJECTED and details.may_reject
    if details.why_not_approve and not may_reject:
        raise RefusedError(details.why_not_approve)


def _usable_rate(typed: TypedAnswer) -> int | None:
    """Return the bytes per second that were typed; None for what is no rate."""
    try:
        return parse_rate(limited(typed.rate, "rate"))
    except InputError:
        return None


def _check_open(details: RunDetails, decision: Decision | None, typed: TypedAnswer) -> None:
    """Raise StalePlanError, RefusedError where an answer can decide nothing."""
    run = details.run
    if typed.plan != run.fingerprint:
        raise StalePlanError(
            f"this page was of another plan than {run.fingerprint}, which the run has: open the "
            "page again and read it"
        )
    may_end = decision is Decision.REJECTED and details.may_be_rejected
    if not details.waits_for_answer and not may_end:
        raise RefusedError(f"run {run.run_id} is {run.state}, so it waits for no answer any more")


def _check_has_plan(details: RunDetails) -> None:
    if details.plan is None:
        raise RefusedError(
            f"the store does not have the plan of run {details.run.run_id}, so nobody can approve "
            "it; bring the file back, or reject the plan"
        )


def _check_validation(details: RunDetails) -> None:
    if details.is_refused_by_validation:
        why = details.why_refused_by_validation or "the log of the task validate says why"
        raise RefusedError(f"this plan must not run: {why}. Make a new plan, and reject this one")


def _check_rate(installation: Any, details: RunDetails, typed: TypedAnswer) -> None:
    run = details.run
    controls.check_grant(
        installation,
        installation.plan_of(run),
        by=details.person,
        requester=run.requester,
        rate=typed.rate,
    )


def _check_answer(
    installation: Any, details: RunDetails, decision: Decision, typed: TypedAnswer
) -> None:
    controls.check_decision(
        installation,
        details.run.run_id,
        typed.plan,
        decision=decision,
        by=details.person,
        reason=typed.reason,
        rate=limited(typed.rate, "rate"),
        must_be_another=bool(details.approved_by),
    )


def _hand_on(
    installation: Any,
    details: RunDetails,
    decision: Decision,
    typed: TypedAnswer,
    airflow: _Airflow,
) -> None:
    """Give an answer to the question of the Dag run; a no that it does not take is recorded here:
    to a run without a Dag run, to one whose Dag run has ended, to one that is approved, and of
    somebody whom Airflow does not ask.
    """
    run = details.run
    problem = why_not_here(details)
    if not problem and (decision is Decision.GRANTED or _is_asked(details, airflow)):
        params = {"rate": typed.rate, "reason": typed.reason.strip(), "plan": typed.plan}
        airflow.answer(run.dag_run_id or "", _OPTIONS[decision], params)
        return
    if decision is Decision.GRANTED:
        raise RefusedError(problem)
    controls.record_decision(
        installation,
        run.run_id,
        typed.plan,
        decision=decision,
        by=details.person,
        reason=typed.reason,
        rate=None,
    )


def _is_asked(details: RunDetails, airflow: _Airflow) -> bool:
    """Return whether the Dag run still takes this person's answer about a plan.

    Where the policy names who may approve, Airflow asks only them: no requester, and nobody who may
    operate alone.
    """
    run = details.run
    if not details.waits_for_answer or (details.may_approve and details.why_not_approve):
        return False
    return not has_ended(airflow.state_of(run.dag_id or "", run.dag_run_id or ""))
