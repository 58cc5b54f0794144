"""The question to a person, and the record of the answer: who, when and why, whatever it is.

    RecordedApproval(task_id="approve")
    RecordedApproval(task_id="approve_second", is_second=True)

The second asks another person, and only where the plan needs two; otherwise it ends at once.

The ledger's row decides: `execute` reads it, not Airflow's state. No answer in time is a no. An
answer that cannot be used (a rate without a unit) fails the task with the reason and grants
nothing; clearing the task asks again.

Limits: never inside a mapped task group, where Airflow does not stop what follows a reject.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param

from counterpoise.model.approval import Decision
from counterpoise.orchestration.handover import planned_run
from counterpoise.orchestration.installation import airflow_installation

if TYPE_CHECKING:
    from counterpoise.pipeline import ApprovalQuestion

NOBODY = "nobody"  # who decided when nobody answered in time


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered, or that time was up."""

    decision: Decision
    by: str
    rate: str | None  # as typed; only for a yes
    reason: str


class RecordedApproval(ApprovalOperator):
    """Shows the plan's summary, lets the policy's approvers answer, records the decision in the
    ledger.
    """

    # Subject and body hold names from the cluster. They are set at run time and must never pass
    # through Jinja.
    template_fields = ()

    def __init__(self, *, is_second: bool = False, **arguments: Any) -> None:
        # Airflow passes the Dag's own parameters in here; this form has only these two.
        arguments["params"] = {
            "rate": Param(
                "",
                type="string",
                title="Rate",
                description="The limit for what any broker copies, with its unit: 20MB/s",
            ),
            "reason": Param(
                "", type="string", title="Reason", description="Why; kept in the ledger"
            ),
        }
        super().__init__(subject="Rebalance", body="", defaults=self.REJECT, **arguments)
        self.is_second = is_second

    def execute(self, context: Any) -> Any:
        """Ask; the task then waits in `awaiting_input` and holds no worker."""
        from counterpoise import pipeline

        run = planned_run(context["ti"])
        with airflow_installation() as installation:
            question: ApprovalQuestion | None
            if self.is_second:
                question = pipeline.second_approval_question(installation, run["run_id"])
            else:
                question = pipeline.approval_question(installation, run["run_id"])
        if question is None:
            self.log.info("no second person has to approve this plan")
            return None
        plan_page = f"/counterpoise/runs/{run['run_id']}/plan"
        self.subject = question.subject
        self.body = f"{question.body_markdown}\n\n[The whole plan]({plan_page})\n"
        self.assigned_users = [{"id": user, "name": user} for user in question.approvers] or None
        self.response_timeout = question.wait_for
        self.params["rate"] = question.default_rate
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer; tasks downstream see it only afterwards."""
        from counterpoise import controls

        run = planned_run(context["ti"])
        answer = read_answer(event)
        with airflow_installation() as installation:
            controls.record_decision(
                installation,
                run["run_id"],
                run["fingerprint"],
                decision=answer.decision,
                by=answer.by,
                reason=answer.reason,
                rate=answer.rate,
                must_be_another=self.is_second,
            )
        self.log.info(
            "%s by %s: %s", answer.decision, answer.by, answer.reason or "no reason given"
        )
        context["ti"].xcom_push(
            key="decision",
            value={
                "decision": str(answer.decision),
                "by": answer.by,
                "rate": answer.rate,
                "reason": answer.reason,
            },
        )
        # `record_decision` has checked the form, more strictly than Airflow does; if Airflow then
        # refused it, ledger and Airflow would disagree.
        option = self.APPROVE if answer.decision is Decision.GRANTED else self.REJECT
        return super().execute_complete(
            context, {**event, "chosen_options": [option], "params_input": None}
        )


def read_answer(event: Mapping[str, Any]) -> Answer:
    """Read the event with which Airflow resumes the task: a person's answer, or the default when
    time was up.
    """
    params = event.get("params_input") or {}
    user = event.get("responded_by_user")
    reason = str(params.get("reason") or "").strip()
    is_timed_out = event.get("timedout") or event.get("error_type") == "timeout"
    if is_timed_out or not user:
        return Answer(Decision.TIMED_OUT, NOBODY, None, "nobody answered in time")
    if event.get("chosen_options") == [ApprovalOperator.APPROVE]:
        return Answer(Decision.GRANTED, str(user["id"]), str(params.get("rate") or ""), reason)
    return Answer(Decision.REJECTED, str(user["id"]), None, reason)
