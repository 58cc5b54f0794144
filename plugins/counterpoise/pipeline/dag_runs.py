"""Which run a Dag run is about, and what its people were asked: by the ledger alone.

    run = run_of_dag_run(installation, "kafka_rebalance", dag_run_id)
    question = put_question(installation, DagTask("kafka_rebalance", dag_run_id, "approve"))
    check_answer(installation, task, fingerprint)   # of the page on which somebody answered

Whoever may trigger a Dag may also change what Airflow keeps of it: XComs, states, notes. So
nothing of that says which plan is meant. One Dag run asks about one plan, since Airflow shows the
first question of a task for as long as there is that Dag run.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from counterpoise.errors import NotApprovedError, RefusedError, StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.approval import Question
from counterpoise.model.person import Person
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.model.safe_text import one_line
from counterpoise.pipeline.approving import (
    ApprovalQuestion,
    approval_question,
    check_plan_rules,
    second_approval_question,
)
from counterpoise.pipeline.planning import PlannedRun
from counterpoise.rule_approvals import applying_rule, check_still_holds, check_validated

_FIRST_QUESTION: Final = "approve"  # the task that asks the first person
_SHORTEST_WAIT: Final = timedelta(seconds=1)
_SHOWN: Final = 80  # characters of what an answer says in place of a fingerprint
_APPROVABLE_STATES: Final = (RunState.PROPOSED, RunState.APPROVED, RunState.HALTED)


@dataclass(frozen=True, slots=True)
class DagTask:
    """A task of a Dag run, by the names that Airflow has for them."""

    dag_id: str
    dag_run_id: str
    task_id: str


def run_of_dag_run(installation: Installation, dag_id: str, dag_run_id: str) -> PlannedRun | None:
    """Return the run that the plan of a Dag run opened; None where it opened none."""
    run = installation.ledger.run_of(dag_id, dag_run_id)
    return None if run is None else _planned(run)


def put_question(
    installation: Installation, task: DagTask, *, is_second: bool = False, is_again: bool = False
) -> ApprovalQuestion | None:
    """Record what a person is asked, and return it; None where nobody has to be asked (any more).

    With `is_again`, the same question goes on, within the time that it was asked for. Raises
    RefusedError where the plan was not validated or breaks a rule, where the run has ended, or
    where this task has asked about another plan before.
    """
    run = _run_of(installation, task)
    if run.state in UNDER_WAY_STATES or _is_approved_by_rule(installation, run):
        return None
    _check_approvable(installation, run)
    ask = second_approval_question if is_second else approval_question
    asked = ask(installation, run.run_id)
    if asked is None:
        return None
    before = installation.ledger.last_question(task.dag_id, task.dag_run_id, task.task_id)
    if before is not None and before.fingerprint != run.fingerprint:
        raise RefusedError(
            f"this Dag run has asked about plan {before.fingerprint} before, and Airflow would "
            f"show that question again for plan {run.fingerprint}; start a new Dag run"
        )
    if is_again and before is not None:
        return replace(asked, wait_for=_time_left(installation, before, asked.wait_for))
    question = Question(
        dag_id=task.dag_id,
        dag_run_id=task.dag_run_id,
        task_id=task.task_id,
        run_id=run.run_id,
        fingerprint=run.fingerprint,
        asked_at=installation.ledger.now(),
    )
    installation.ledger.record_question(question)
    return asked


def time_to_answer(installation: Installation, task: DagTask) -> timedelta:
    """Return how long an open question still waits; a second where there is nothing to answer."""
    run = _run_of(installation, task)
    question = installation.ledger.last_question(task.dag_id, task.dag_run_id, task.task_id)
    if question is None or run.state not in _APPROVABLE_STATES:
        return _SHORTEST_WAIT
    wait_for = installation.cluster(run.cluster).policy.approval.wait_for
    return _time_left(installation, question, wait_for)


def _time_left(installation: Installation, question: Question, wait_for: timedelta) -> timedelta:
    return max(question.asked_at + wait_for - installation.ledger.now(), _SHORTEST_WAIT)


def _check_approvable(installation: Installation, run: Run) -> None:
    """Raise RefusedError where a plan can be approved neither by people nor by a rule: it was not
    validated, breaks a rule of plans, or its run has ended.
    """
    if run.state not in _APPROVABLE_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state} ({run.reason or 'no reason given'}), so there is "
            "nothing to approve; start a new Dag run for a new plan"
        )
    check_validated(installation, run)
    check_plan_rules(installation, installation.run_and_plan(run.run_id, run.fingerprint)[1])


def rule_that_approves(installation: Installation, task: DagTask) -> Person | None:
    """Return as whom a rule of the policy approves the plan of a Dag run; None where people do.

    Raises RefusedError for a plan that nobody may approve.
    """
    run = _run_of(installation, task)
    policy = installation.cluster(run.cluster).policy
    if run.state is not RunState.PROPOSED or not policy.approval.by_rule:
        return None
    _check_approvable(installation, run)
    return applying_rule(installation, run)


def _is_approved_by_rule(installation: Installation, run: Run) -> bool:
    """Return whether a rule has approved a run, and still does: its task was lost since."""
    if run.state is not RunState.APPROVED:
        return False
    last = installation.ledger.approvals_of(run.run_id)[-1]
    if not last.person.is_rule:
        return False
    try:
        check_still_holds(installation, run, last)
    except NotApprovedError:
        return False
    return True


def check_answer(installation: Installation, task: DagTask, fingerprint: str | None) -> PlannedRun:
    """Return the run that an answer is for: page, question and run have to name the same plan.

    `fingerprint` is that of the page; None where nobody answered in time. Raises StalePlanError
    where they differ; nothing was granted or rejected then.
    """
    run = _run_of(installation, task)
    question = installation.ledger.last_question(task.dag_id, task.dag_run_id, task.task_id)
    if question is None or (question.run_id, question.fingerprint) != (
        run.run_id,
        run.fingerprint,
    ):
        raise StalePlanError(
            f"nobody was asked about run {run.run_id} of plan {run.fingerprint} by this task; "
            "clear it, and it asks"
        )
    if fingerprint not in (None, run.fingerprint):
        shown = f"plan {one_line(fingerprint)[:_SHOWN]}" if fingerprint else "no plan"
        installation.ledger.journal(run.run_id).event(
            "answer refused", f"the answer names {shown}, the question {run.fingerprint}"
        )
        raise StalePlanError(
            f"the answer names {shown}, but the question is about plan {run.fingerprint}: load the "
            "page again and read it. An answer over REST sends `plan` back as the question has it"
        )
    return _planned(run)


def check_plans_first(installation: Installation, dag_id: str, dag_run_id: str) -> None:
    """Raise RefusedError where a Dag run has asked somebody about a plan: it makes no other one."""
    question = installation.ledger.last_question(dag_id, dag_run_id, _FIRST_QUESTION)
    if question is not None:
        raise RefusedError(
            f"this Dag run has asked about plan {question.fingerprint} (run {question.run_id}), "
            "and Airflow would show that question for any other plan; start a new Dag run"
        )


def _run_of(installation: Installation, task: DagTask) -> Run:
    run = installation.ledger.run_of(task.dag_id, task.dag_run_id)
    if run is None:
        raise RefusedError(
            f"no run of the ledger belongs to Dag run {task.dag_run_id}; start a new Dag run"
        )
    return run


def _planned(run: Run) -> PlannedRun:
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)
