"""The question to a person, and the record of the answer: who, when and why, whatever it is.

    RecordedApproval(task_id="approve")
    RecordedApproval(task_id="approve_second", is_second=True)

A rule of the policy may approve instead of the first (`rule_approvals.py`): then nobody is asked.
The second asks another person, and only where the plan needs two; otherwise it ends at once.

The ledger's row decides: `execute` reads it, not Airflow's state. No answer in time is a no. The
form carries the plan's fingerprint, which Airflow's page sends back as it was shown: an answer
counts only for that plan. One that cannot count (a rate without a unit, no reason, an old page)
grants nothing, and the question stays open; the task's log, an XCom of it and the run's events say
why.

While it waits, `open_question.py` closes it in Airflow where the run is superseded, or rejected
elsewhere. Where the triggerer cannot (it does not live), the task waits
as Airflow's own do: an answer and the end of the time still count.

Limits: never inside a mapped task group, where Airflow does not stop what follows a reject. Airflow
keeps the text of a task's first question, so it cannot say what was wrong with an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import TaskAwaitingInput

from counterpoise.errors import InputError, RefusedError, RunConflictError
from counterpoise.model.approval import Decision
from counterpoise.model.person import People, Person
from counterpoise.model.run import Run
from counterpoise.model.safe_text import one_line, safe_logger
from counterpoise.orchestration.delivery import tell_about_run
from counterpoise.orchestration.handover import dag_task, planned_run
from counterpoise.orchestration.installation import airflow_installation
from counterpoise.orchestration.links import PLAN, RUN, page_url, show_run
from counterpoise.orchestration.open_question import CLOSED_STATES, QuestionTrigger
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.model.approval import Approval

_LOGGER = safe_logger(__name__)
_UNUSABLE = (
    "An answer that cannot count (an unusable rate, no reason, a page of another plan) leaves this "
    "question open; the task says why (XCom, log). The page of the plan says so before you send it."
)
NOT_COUNTED = "the last answer that did not count"  # an XCom: who gave it, and why
NOBODY = Person("nobody")  # who decided when nobody answered in time
# After the end of the time, for a triggerer that is restarted meanwhile.
_TRIGGER_GRACE: Final = timedelta(minutes=10)
_TRIGGER_FAILED: Final = "__fail__"  # Airflow's word for: the trigger failed, or took too long
_GO_ON: Final = "execute_complete"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered, or that time was up."""

    decision: Decision
    user_id: str  # as Airflow's auth manager knows them; "" where time was up
    user_name: str
    plan: str | None  # the fingerprint on the page; None where time was up, "" where it has none
    rate: str | None  # as typed; only for a yes
    reason: str

    @property
    def who_in_words(self) -> str:
        return one_line(self.user_name or self.user_id or NOBODY.name)

    def person(self, people: People) -> Person:
        """Return who answered. Raises InputError for a user who cannot be told from another."""
        return people.airflow_user(self.user_id, self.user_name) if self.user_id else NOBODY


class _UnusableAnswerError(Exception):
    """Somebody answered, and nothing was granted or rejected: they may answer again."""


class _ClosedError(Exception):
    """A newer plan took the place of this one, or it was rejected elsewhere, before an answer here
    could count.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(f"run {run.run_id} is {run.state}: {run.reason or 'no reason given'}")
        self.decided = {"decision": str(run.state), "reason": run.reason}


class RecordedApproval(ApprovalOperator):
    """Shows the plan's summary, lets the policy's approvers answer, records the decision in the
    ledger.
    """

    # Subject and body hold names from the cluster. They are set at run time and must never pass
    # through Jinja.
    template_fields = ()
    operator_extra_links = (PLAN, RUN)

    def __init__(self, *, is_second: bool = False, **arguments: Any) -> None:
        # Airflow passes the Dag's own parameters in here; this form has only these three.
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
            # Airflow's page hides what has only one value, and sends it back as it was shown.
            "plan": Param("", type="string", title="Plan"),
        }
        super().__init__(subject="Rebalance", body="", defaults=self.REJECT, **arguments)
        self.is_second = is_second

    def execute(self, context: Any) -> Any:
        """Ask; the task is then deferred and holds no worker. Where a rule of the policy approves
        the plan, nobody is asked.
        """
        if not self.is_second and self._is_approved_by_rule(context["ti"]):
            return None
        return self._ask(context)

    def _is_approved_by_rule(self, ti: Any) -> bool:
        """Return whether a rule of the policy approves the plan, now recorded in the ledger."""
        from counterpoise import controls, pipeline

        with airflow_installation() as installation:
            run = planned_run(installation, ti)
            rule = pipeline.rule_that_approves(installation, dag_task(ti))
            if rule is None:
                return False
            try:
                approval = controls.approve_by_rule(
                    installation, run["run_id"], run["fingerprint"], rule
                )
            except RefusedError as error:  # since it was found: an answer, a freeze
                _LOGGER.info("%s does not approve: %s", rule.shown, error)
                return False
            show_run(ti, run["run_id"])
            tell_about_run(installation, run["run_id"])
        _LOGGER.info("approved by %s: %s", approval.person.shown, approval.reason)
        decided = {
            "decision": str(approval.decision),
            "by": approval.by,
            "rate": format_rate(approval.rate_bytes_per_second or 0),
            "reason": approval.reason,
        }
        ti.xcom_push(key="decision", value=decided)
        return True

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer, or ask again; tasks downstream see only what was recorded."""
        answer = read_answer(event)
        try:
            approval = self._record(context["ti"], answer)
        except _UnusableAnswerError as error:
            _LOGGER.warning("This answer does not count, the question stays open: %s", error)
            context["ti"].xcom_push(key=NOT_COUNTED, value=f"{answer.who_in_words}: {error}")
            return self._ask(context, is_again=True)
        except _ClosedError as error:
            _LOGGER.warning("This question is closed, and nothing was granted: %s", error)
            return self._end(context, event, self.REJECT, error.decided)
        _LOGGER.info("%s by %s: %s", answer.decision, approval.person.shown, answer.reason)
        decided = {
            "decision": str(answer.decision),
            "by": approval.by,
            "rate": answer.rate,
            "reason": answer.reason,
        }
        option = self.APPROVE if answer.decision is Decision.GRANTED else self.REJECT
        return self._end(context, event, option, decided)

    def _end(
        self, context: Any, event: dict[str, Any], option: str, decided: Mapping[str, Any]
    ) -> Any:
        """End the task with what the ledger says; after a reject all that follows is skipped."""
        context["ti"].xcom_push(key="decision", value=decided)
        # `record_decision` has checked the form, more strictly than Airflow does; if Airflow then
        # refused it, ledger and Airflow would disagree.
        return super().execute_complete(
            context, {**event, "chosen_options": [option], "params_input": None}
        )

    def _ask(self, context: Any, *, is_again: bool = False) -> Any:
        from counterpoise import pipeline

        ti = context["ti"]
        with airflow_installation() as installation:
            run = planned_run(installation, ti)
            question = pipeline.put_question(
                installation, dag_task(ti), is_second=self.is_second, is_again=is_again
            )
            tell_about_run(installation, run["run_id"])
            now = installation.ledger.now()
        if question is None:
            _LOGGER.info("nobody (else) has to approve this plan")
            return None
        run_page = page_url(f"runs/{run['run_id']}")
        self.subject = question.subject
        self.body = (
            f"{question.body_markdown}\n\n[The whole plan]({run_page}/plan)\n\n"
            f"To undo: *Undo* on [the page of the run]({run_page}), or "
            f"`counterpoise undo {run['run_id']}`.\n\n{_UNUSABLE}\n"
        )
        self.assigned_users = [{"id": user, "name": user} for user in question.airflow_ids] or None
        self.response_timeout = question.wait_for
        self.params["rate"] = question.default_rate
        fingerprint = run["fingerprint"]
        self.params["plan"] = Param(fingerprint, type="string", title="Plan", const=fingerprint)
        try:
            return super().execute(context)
        except TaskAwaitingInput:  # the question is open now
            self._wait_beside_the_ledger(ti, run["run_id"], now, question.wait_for)

    def _wait_beside_the_ledger(
        self, ti: Any, run_id: str, now: datetime, wait_for: timedelta
    ) -> None:
        """Wait as HITLOperator does, and for the end of the run elsewhere."""
        trigger = QuestionTrigger(ti.id, run_id, now + wait_for, default=self.REJECT)
        self.defer(trigger=trigger, method_name=_GO_ON, timeout=wait_for + _TRIGGER_GRACE)

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any
    ) -> Any:
        """Go on with an answer; without a trigger, wait as HITLOperator does."""
        if next_method != _TRIGGER_FAILED:
            return super().resume_execution(next_method, next_kwargs, context)
        _LOGGER.warning(
            "The triggerer does not look after this question (%s): it waits for an answer, or for "
            "the end of the time. Restart the triggerer after an update, and see its log",
            (next_kwargs or {}).get("error", "no reason given"),
        )
        raise TaskAwaitingInput(method_name=_GO_ON, timeout=self._time_left(context["ti"]))

    def _time_left(self, ti: Any) -> timedelta:
        from counterpoise import pipeline

        with airflow_installation() as installation:
            return pipeline.time_to_answer(installation, dag_task(ti))

    def _record(self, ti: Any, answer: Answer) -> "Approval":
        """Record an answer in the ledger.

        Raises _UnusableAnswerError where it cannot count, _ClosedError where none is needed now.
        """
        from counterpoise import controls, pipeline

        with airflow_installation() as installation:
            run = planned_run(installation, ti)
            before = installation.ledger.run(run["run_id"])
            if answer.decision is Decision.TIMED_OUT and before.state in CLOSED_STATES:
                raise _ClosedError(before)
            try:
                pipeline.check_answer(installation, dag_task(ti), answer.plan)
                approval = controls.record_decision(
                    installation,
                    run["run_id"],
                    run["fingerprint"],
                    decision=answer.decision,
                    by=answer.person(installation.people),
                    reason=answer.reason,
                    rate=answer.rate,
                    must_be_another=self.is_second,
                )
            except (InputError, RefusedError) as error:
                now = installation.ledger.run(run["run_id"])
                if now.state in CLOSED_STATES:
                    raise _ClosedError(now) from error
                if isinstance(error, RunConflictError):
                    raise
                raise _UnusableAnswerError(str(error)) from error
            tell_about_run(installation, run["run_id"])
        return approval


def read_answer(event: Mapping[str, Any]) -> Answer:
    """Read the event with which Airflow resumes the task: a person's answer, or the default when
    time was up or the run had ended.
    """
    params = event.get("params_input") or {}
    user = event.get("responded_by_user")
    reason = str(params.get("reason") or "").strip()
    is_timed_out = event.get("timedout") or event.get("error_type") == "timeout"
    if is_timed_out or not user:
        return Answer(Decision.TIMED_OUT, "", "", None, None, "nobody answered in time")
    who = (str(user["id"]), str(user.get("name") or ""), str(params.get("plan") or ""))
    if event.get("chosen_options") == [ApprovalOperator.APPROVE]:
        return Answer(Decision.GRANTED, *who, str(params.get("rate") or ""), reason)
    return Answer(Decision.REJECTED, *who, None, reason)
