"""The question to a person, and the record of the answer: who, when and why, on every branch.

    RecordedApproval(task_id="approve")
    RecordedApproval(task_id="approve_second", is_second=True)

The second asks another person, and only where the plan needs two; otherwise it is done at once.

The ledger's row is what counts: `execute` asks it, not Airflow. Silence is a no. An answer that
cannot be used (a rate without a unit) fails the task with the reason and grants nothing; clearing
the task asks again.

Limits: never inside a mapped task group, where Airflow does not stop what follows a reject.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param

from counterpoise.model.approval import Decision
from counterpoise.orchestration.handover import planned_run
from counterpoise.orchestration.installation import airflow_installation

NOBODY = "nobody"  # answered: silence decided


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, in our words."""

    decision: Decision
    by: str
    rate: str | None  # as typed; only for a yes
    reason: str


class RecordedApproval(ApprovalOperator):
    """Asks with the plan's summary, lets the policy's approvers answer, and records the decision in
    the ledger.
    """

    # Subject and body hold names from the cluster. They are set at run time and must never pass
    # through Jinja.
    template_fields = ()

    def __init__(self, *, is_second: bool = False, **arguments: Any) -> None:
        # Airflow hands the Dag's own parameters in here; this form has nothing but its two.
        arguments["params"] = {
            "rate": Param(
                "",
                type="string",
                title="Rate",
                description="The most that any broker may copy, with its unit: 20MB/s",
            ),
            "reason": Param(
                "", type="string", title="Reason", description="Why, for those who ask later"
            ),
        }
        super().__init__(subject="Rebalance", body="", defaults=self.REJECT, **arguments)
        self.is_second = is_second

    def execute(self, context: Any) -> Any:
        """Ask; the task then waits in `awaiting_input` and holds no worker.

        Without a question it is done.
        """
        from counterpoise import pipeline

        run = planned_run(context["ti"])
        with airflow_installation() as installation:
            ask = (
                pipeline.second_approval_question if self.is_second else pipeline.approval_question
            )
            question = ask(installation, run["run_id"])
        if question is None:
            self.log.info("No other person has to approve this plan")
            return None
        self.subject = question.subject
        self.body = f"{question.body_markdown}\n\n[The whole plan](/counterpoise/runs/{run['run_id']}/plan)\n"
        self.assigned_users = [{"id": user, "name": user} for user in question.approvers] or None
        self.response_timeout = question.wait_for
        self.params["rate"] = question.default_rate
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer first; only then does anything downstream get to see it."""
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
        # The form was checked by `record_decision`, more strictly than Airflow would; a complaint
        # of Airflow's about it, after the record, would only make the two disagree.
        option = self.APPROVE if answer.decision is Decision.GRANTED else self.REJECT
        return super().execute_complete(
            context, {**event, "chosen_options": [option], "params_input": None}
        )


def read_answer(event: Mapping[str, Any]) -> Answer:
    """The event with which Airflow resumes the task: a person's answer, or the default when time
    was up.
    """
    params = event.get("params_input") or {}
    user = event.get("responded_by_user")
    reason = str(params.get("reason") or "").strip()
    if event.get("timedout") or event.get("error_type") == "timeout" or not user:
        return Answer(Decision.TIMED_OUT, NOBODY, None, "nobody answered in time")
    if event.get("chosen_options") == [ApprovalOperator.APPROVE]:
        return Answer(Decision.GRANTED, str(user["id"]), str(params.get("rate") or ""), reason)
    return Answer(Decision.REJECTED, str(user["id"]), None, reason)
