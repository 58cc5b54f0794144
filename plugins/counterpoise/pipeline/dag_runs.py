"""Which run a Dag run is about, and what its people are asked: by the ledger alone.

    run = run_of_dag_run(installation, "kafka_rebalance", dag_run_id)
    question = open_question(installation, run["run_id"])     # None: the ledger has the answer

Whoever may trigger a Dag may also change what Airflow keeps of it: XComs, states, notes. So
nothing of that says which plan is meant. One Dag run asks about one plan, since Airflow shows the
first question of a task for as long as there is that Dag run.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from counterpoise.answering import answer_until, approved_by, waits_for_answer
from counterpoise.approval import check_validated, people_needed
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.model.run import ASKED, ENDED_BY_PEOPLE, Run, RunState, asked_since
from counterpoise.pipeline.approving import PlanInShort, check_plan_rules, plan_in_short
from counterpoise.services.plans import PlannedRun


@dataclass(frozen=True, slots=True)
class Question:
    """What people are asked about a plan, and until when they may answer."""

    plan: PlanInShort
    is_first: bool  # they have not been asked before
    until: datetime  # UTC, by the ledger's clock
    time_left: timedelta  # none where the time is over
    seen: str  # as `Ledger.answer_seen`


def run_of_dag_run(installation: Installation, dag_id: str, dag_run_id: str) -> PlannedRun | None:
    """Return the run that the plan of a Dag run opened; None where it opened none."""
    run = installation.ledger.run_of(dag_id, dag_run_id)
    if run is None:
        return None
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)


def open_question(installation: Installation, run_id: str) -> Question | None:
    """Return what people are asked about a plan; None where it waits for no answer (any more).

    The ledger notes when they were first asked. Raises RefusedError where the plan was not
    validated, breaks a rule, or is done: there is nothing to approve then.
    """
    run = installation.ledger.run(run_id)
    if run.state is RunState.DONE:
        raise RefusedError(
            f"run {run_id} is done, so there is nothing to approve; start a new Dag run for a new "
            "plan"
        )
    if not waits_for_answer(installation, run):
        return None
    _check_approvable(installation, run)
    journal = installation.ledger.journal(run_id)
    seen = installation.ledger.answer_seen(run_id)
    is_first = asked_since(journal.events()) is None
    if is_first:
        journal.event(ASKED, run.fingerprint)
    until, now = answer_until(installation, run), installation.ledger.now()
    assert until is not None, "people were asked"
    plan = installation.plan_of(run)
    yes = approved_by(installation, run, plan)
    needed = people_needed(plan, installation.cluster(run.cluster).policy.approval)
    shown = plan_in_short(installation, run, plan, approved_by=yes, needed=needed)
    return Question(shown, is_first, until, max(until - now, timedelta(0)), seen)


def ended_by_people(installation: Installation, run_id: str) -> str:
    """Return how a run ended that goes on no more, as `rejected: too large`; "" for any other."""
    run = installation.ledger.run(run_id)
    return run.in_words if run.state in ENDED_BY_PEOPLE else ""


def _check_approvable(installation: Installation, run: Run) -> None:
    """Raise RefusedError where a plan can be approved neither by people nor by a rule: it was not
    validated, or breaks a rule of plans.
    """
    check_validated(installation, run)
    check_plan_rules(installation, installation.run_and_plan(run.run_id, run.fingerprint)[1])


def is_for_a_rule(installation: Installation, run_id: str) -> bool:
    """Return whether a rule of the policy may approve the plan of a run, which waits.

    Raises RefusedError for a plan that nobody may approve.
    """
    run = installation.ledger.run(run_id)
    policy = installation.cluster(run.cluster).policy
    if run.state is not RunState.PROPOSED or not policy.approval.automatic:
        return False
    _check_approvable(installation, run)
    return True


def check_plans_first(installation: Installation, dag_id: str, dag_run_id: str) -> None:
    """Raise RefusedError where a Dag run has asked somebody about a plan: it makes no other one."""
    run = installation.ledger.run_of(dag_id, dag_run_id)
    if run is None:
        return
    if any(event.kind == ASKED for event in installation.ledger.journal(run.run_id).events()):
        raise RefusedError(
            f"this Dag run has asked about plan {run.fingerprint} (run {run.run_id}), and Airflow "
            "would show that question for any other plan; start a new Dag run"
        )
