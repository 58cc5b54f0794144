"""An answer about a plan: on its page, or of a program. Both are recorded in the ledger at once.

    POST /runs/{run_id}/answer          # a form: answer=check|approve|reject, rate, reason, plan
    POST /api/runs/{run_id}/decision    # JSON: decision, fingerprint, rate, reason

`approvals.answer` decides, as for the command line; whoever answers needs Airflow's right to answer
required actions of the Dag, too. What cannot be used comes back on the plan's page with one
sentence and all that was typed, or as JSON. The same answer again, by the same person, changes
nothing and is no error.
"""

from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from counterpoise.errors import InputError, MayNotError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.json_values import iso_time
from counterpoise.model.run import Run
from counterpoise.services import approvals, runs
from counterpoise.services.viewers import Viewer
from counterpoise.web.forms import Sent, SentValues, check_form
from counterpoise.web.plans import Shown, TypedAnswer, plan_response
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
        shown = Shown(typed=typed, rate_bytes_per_second=approvals.rate_or_none(typed.rate))
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            try:
                if decision is not None:
                    _answer(installation, run, viewer, decision, typed)
                    return back_to(request, f"/runs/{quote(run.run_id)}/plan#answer")
                by = viewer.person
                approvals.check_yes(installation, run.run_id, typed.plan, by=by, rate=typed.rate)
                shown = replace(shown, is_checked=True)
            except MayNotError:
                raise
            except (InputError, RefusedError) as error:
                shown = replace(shown, status=status_of(error), problem=str(error))
            return plan_response(request, installation, run, viewer, shown)

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


def _answer(
    installation: Any, run: Run, viewer: Viewer, decision: Decision, typed: TypedAnswer
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
