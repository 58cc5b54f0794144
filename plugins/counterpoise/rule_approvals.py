"""Does a rule of the policy approve a run's plan, by the ledger, the settings and the clock?

    rule = applying_rule(installation, run)          # as whom it approves; None: ask people
    check_may_approve(installation, run, rule)       # when it is recorded
    check_still_holds(installation, run, approval)   # when the run starts

The one place that says so, for the question, for the record and for the start. Nothing here is
believed of an earlier check: a rule has to be in the settings, and to hold, each time.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from counterpoise.approval import find_rule, why_rule_does_not_hold
from counterpoise.errors import CounterpoiseError, NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import find_active_requests
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import RULE_APPROVALS_COUNT_FOR, ApprovalRule
from counterpoise.model.run import Event, Run, RunState

# The events of a plan that nothing speaks against, and of one that must not run; the last counts.
VALIDATED: Final = "validated"
NOT_VALIDATED: Final = "not validated"
MUST_NOT_RUN: Final = "must not run"  # follows NOT_VALIDATED, and says why


def validated_at(run: Run, events: Sequence[Event]) -> datetime | None:
    """Return when rules and data were last checked; None where that was never, or the last check
    found that the plan must not run.
    """
    last = _last_check(run, events)
    return last.at if last is not None and last.kind == VALIDATED else None


def is_refused_by_validation(run: Run, events: Sequence[Event]) -> bool:
    """Return whether the last check of rules and data found that the plan must not run."""
    last = _last_check(run, events)
    return last is not None and last.kind == NOT_VALIDATED


def _last_check(run: Run, events: Sequence[Event]) -> Event | None:
    kinds = (VALIDATED, NOT_VALIDATED)
    checks = [event for event in events if event.kind in kinds and event.text == run.fingerprint]
    return checks[-1] if checks else None


def check_validated(installation: Installation, run: Run) -> None:
    """Raise RefusedError where the task `validate` has not checked exactly this plan, or has found
    since that it must not run.
    """
    if validated_at(run, installation.ledger.journal(run.run_id).events()) is None:
        raise RefusedError(
            f"plan {run.fingerprint} was not validated (somebody may have marked the task as "
            "success); start a new Dag run for a new plan"
        )


def applying_rule(installation: Installation, run: Run) -> Person | None:
    """Return the first rule of the policy that approves the plan now; None where people decide."""
    for rule in installation.cluster(run.cluster).policy.approval.by_rule:
        approver = Person.of_rule(rule.name)
        try:
            check_may_approve(installation, run, approver)
        except RefusedError:
            continue
        return approver
    return None


def check_may_approve(installation: Installation, run: Run, approver: Person) -> None:
    """Check that a rule approves a plan that waits for its first answer.

    Raises RefusedError with the reason why a person has to.
    """
    if run.state is not RunState.PROPOSED or installation.ledger.approvals_of(run.run_id):
        raise RefusedError(f"{approver.shown} approves only what waits for its first answer")
    requests = installation.ledger.requests(run.cluster)
    if find_active_requests(requests, installation.ledger.now()).frozen:
        raise RefusedError(f"{approver.shown} approves nothing while {run.cluster} is frozen")
    _check_holds(installation, run, approver)


def check_still_holds(installation: Installation, run: Run, approval: Approval) -> None:
    """Check, when a run starts, that the rule that approved it is in the policy and holds, still.

    Raises NotApprovedError. What has halted goes on after a person's yes: a rule starts a run once.
    """
    try:
        if run.state is RunState.HALTED:
            raise RefusedError(f"the run has halted ({run.reason}), and a rule starts a run once")
        _check_holds(installation, run, approval.person)
    except RefusedError as error:
        raise NotApprovedError(
            f"the approval by {approval.person.shown} does not hold any more: {error}. Somebody "
            "who may has to approve the plan (clear `approve`, or `counterpoise approve PLAN`), or "
            "reject it"
        ) from None


def _check_holds(installation: Installation, run: Run, approver: Person) -> None:
    policy = installation.cluster(run.cluster).policy
    rule = find_rule(policy.approval, approver)
    if rule is None:
        raise RefusedError(f"the policy of {run.cluster} has no {approver.shown} any more")
    check_validated(installation, run)
    _check_not_rejected(installation, run)
    plan = installation.plan_of(run)
    copied_before = 0
    if rule.copies_at_most_bytes and plan.copied_replicas:
        _check_sizes(installation, plan)
        copied_before = _copied_within_a_day(installation, run, rule)
    why_not = why_rule_does_not_hold(
        rule, plan, policy, installation.ledger.now(), copied_before_bytes=copied_before
    )
    if why_not:
        raise RefusedError(why_not)


def _check_not_rejected(installation: Installation, run: Run) -> None:
    """Raise RefusedError where somebody has rejected the same plan, in this run or another."""
    for other in installation.ledger.runs(cluster=run.cluster, fingerprint=run.fingerprint):
        for decision in installation.ledger.approvals_of(other.run_id):
            if decision.decision is Decision.REJECTED:
                raise RefusedError(
                    f"{decision.person.shown} has rejected this plan (run {other.run_id})"
                )


def _check_sizes(installation: Installation, plan: RebalancePlan) -> None:
    """Raise RefusedError where it is not known how much a plan copies."""
    without_size = {
        move.topic_partition for move in plan.moves if move.adding and not move.size_bytes
    }
    if not without_size:
        return
    unknown = "it is not known how much the plan copies"
    try:
        snapshot = installation.archive.read_snapshot(plan.cluster, plan.snapshot_id)
    except CounterpoiseError as error:
        raise RefusedError(f"{unknown}: {error}") from None
    rows = snapshot.partitions.select(["topic", "partition", "size_bytes"]).to_pylist()
    if any(
        row["size_bytes"] is None
        for row in rows
        if (row["topic"], row["partition"]) in without_size
    ):
        raise RefusedError(f"{unknown}: the brokers did not tell the sizes of all its partitions")


def _copied_within_a_day(installation: Installation, run: Run, rule: ApprovalRule) -> int:
    """Return the bytes of the other plans that a rule has approved within 24 h."""
    ledger = installation.ledger
    since = installation.ledger.now() - RULE_APPROVALS_COUNT_FOR
    account = Person.of_rule(rule.name).account
    run_ids = {
        approval.run_id
        for approval in ledger.approvals_since(run.cluster, since)
        if approval.account == account and approval.run_id != run.run_id
    }
    others = [ledger.run(run_id) for run_id in sorted(run_ids)]
    try:
        return sum(
            installation.plan_of(other).copied_bytes
            for other in others
            if other.state is not RunState.SUPERSEDED  # it has moved nothing
        )
    except CounterpoiseError as error:
        raise RefusedError(f"it is not known how much it has approved in 24 h: {error}") from None
