"""Does a run's plan wait for an answer, until when, and does the yes that it has hold?

    check_approved(installation, run, plan)      # when the run starts, and before it is waited for
    waits_for_answer(installation, run)          # its state does not say so where a yes has run out
    answer_until(installation, run)              # by the ledger's clock; None: without an end

The one place that says so, for the task that asks, for the answer and for the start.
"""

from datetime import datetime

from counterpoise import access
from counterpoise.approval import (
    check_granted,
    check_rule_still_holds,
    people_needed,
    standing_approvals,
)
from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action
from counterpoise.model.run import Run, RunState, asked_since, events_since_halt


def waits_for_answer(installation: Installation, run: Run) -> bool:
    """Return whether a yes is missing before the run may start, or go on after it has halted."""
    if run.state is RunState.PROPOSED:
        return True
    if run.state not in (RunState.APPROVED, RunState.HALTED):
        return False
    if run.state is RunState.HALTED and not _has_yes_since_halt(installation, run):
        return True
    try:
        check_approved(installation, run, installation.plan_of(run))
    except NotApprovedError:
        return True
    return False


def _has_yes_since_halt(installation: Installation, run: Run) -> bool:
    events = installation.ledger.journal(run.run_id).events()
    return any(event.kind == Decision.GRANTED for event in events_since_halt(events))


def answer_until(installation: Installation, run: Run) -> datetime | None:
    """Return when the time to answer ends; None where nobody was asked for an answer yet."""
    since = asked_since(installation.ledger.journal(run.run_id).events())
    if since is None:
        return None
    return since + installation.cluster(run.cluster).policy.approval.wait_for


def approved_by(installation: Installation, run: Run, plan: RebalancePlan) -> tuple[Person, ...]:
    """Return those whose yes to a plan counts now."""
    policy, ledger = installation.cluster(run.cluster).policy, installation.ledger
    needed = people_needed(plan, policy.approval)
    approvals = ledger.approvals_of(run.run_id)
    standing = standing_approvals(policy, run, approvals, ledger.now(), needed=needed)
    return tuple(approval.person for approval in standing)


def check_approved(installation: Installation, run: Run, plan: RebalancePlan) -> None:
    """Check that the approval holds now: policy and people may have changed since.

    Raises NotApprovedError.
    """
    policy, ledger = installation.cluster(run.cluster).policy, installation.ledger
    approval = check_granted(policy, run, plan, ledger.approvals_of(run.run_id), ledger.now())
    if approval.person.is_rule:
        check_rule_still_holds(installation, run, approval)
    _check_requested_rate(installation, run, approval)


def _check_requested_rate(installation: Installation, run: Run, approval: Approval) -> None:
    """Check the rate that somebody requested since the approval: it goes on to hold."""
    active = installation.active_requests(run.cluster, run.run_id)
    if active.rate is None:
        return
    policy = installation.cluster(run.cluster).policy
    rate = active.rate.rate_bytes_per_second or 0
    try:
        access.check_rate(policy, rate)
        if rate > (approval.rate_bytes_per_second or 0):
            access.check_may(policy, active.rate.person, Action.APPROVE)
    except RefusedError as error:
        raise NotApprovedError(
            f"the rate that {active.rate.person.shown} requested does not hold any more: {error}. "
            "Approve the plan again: the rate of that approval holds then"
        ) from None
