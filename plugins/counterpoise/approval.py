"""Is there an approval of exactly this plan, now, by people or by a rule of the policy?

    approvals = ledger.approvals_of(run_id)                             # oldest first
    standing_approvals(policy, run, approvals, now, needed=2)           # those that count
    check_granted(policy, run, plan, approvals, now)                    # when the run starts
    check_rule_approves(installation, run)                              # RefusedError: ask people

The ledger decides; what Airflow shows does not. Nothing is believed of an earlier check: people
have to be in the policy, and a rule has to hold, each time. An approval by a rule
(`approval: automatic`) is checked when it is recorded, and when the run starts.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from counterpoise.access import check_may_approve, check_rate
from counterpoise.errors import CounterpoiseError, NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.calendar import opens_at
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import (
    AUTOMATIC_APPROVALS_COUNT_FOR,
    ApprovalPolicy,
    AutomaticApproval,
    ClusterPolicy,
)
from counterpoise.model.run import Run, RunState, validated_at
from counterpoise.units import format_bytes, format_moment


def people_needed(plan: RebalancePlan, policy: ApprovalPolicy | None = None) -> int:
    """Return how many different people have to approve: two where replicas are given up, and where
    the policy asks for two.
    """
    return 2 if why_two_people(plan, policy) else 1


def why_two_people(plan: RebalancePlan, policy: ApprovalPolicy | None = None) -> str:
    """Return what of a plan needs two people, as `copies more than 1.0 TB (two_people_above)`; ""
    where one is enough.
    """
    if plan.lowers_replication_factor:
        return "lowers a replication factor"
    if policy is None:
        return ""
    if policy.critical:
        return "is for a critical cluster (critical)"
    most = policy.two_people_above_bytes
    if most is not None and plan.copied_bytes > most:
        return f"copies more than {format_bytes(most)} (two_people_above)"
    return ""


def approvals_since_a_no(approvals: Sequence[Approval]) -> tuple[Approval, ...]:
    """Return the approvals that no later rejection has undone; `approvals` are oldest first."""

    def is_granted(approval: Approval) -> bool:
        return approval.decision is Decision.GRANTED

    return tuple(takewhile(is_granted, reversed(approvals)))[::-1]


def standing_approvals(
    policy: ClusterPolicy, run: Run, approvals: Sequence[Approval], now: datetime, *, needed: int
) -> tuple[Approval, ...]:
    """Return the approvals of a run that count now, the newest of each person, in their order.

    They are for the run's plan, have not expired, no later rejection has undone them, and whoever
    gave them still may. Where two people have to approve, each is another one. `approvals` are
    oldest first. Example: alice approves, bob rejects, carol and alice approve: carol's, alice's.
    """
    standing: list[Approval] = []
    for approval in approvals_since_a_no(approvals):
        is_current = approval.expires_at is not None and now < approval.expires_at
        if approval.fingerprint != run.fingerprint or not is_current:
            continue
        earlier = [one for one in standing if not one.person.is_same(approval.person)]
        others = [one.person for one in earlier]
        try:
            _check_counts(policy, approval.person, run.requester, others, needed)
        except RefusedError:
            continue
        standing = [*earlier, approval]
    return tuple(standing)


def _check_counts(
    policy: ClusterPolicy, person: Person, requester: Person, others: Sequence[Person], needed: int
) -> None:
    """Raise RefusedError where a yes counts for nothing beside those of others."""
    if not person.is_rule:
        check_may_approve(policy, person, requester, others if needed > 1 else ())
    elif needed > 1:
        raise RefusedError(f"{needed} people have to approve this plan, and {person.shown} is none")


def check_would_count(
    policy: ClusterPolicy,
    run: Run,
    approvals: Sequence[Approval],
    now: datetime,
    *,
    needed: int,
    by: Person,
) -> None:
    """Raise RefusedError where an approval by somebody would not count with those before it.

    Where two people have to approve and one has, it is another one's turn; after that, both may
    renew what they said, at another rate say.
    """
    standing = standing_approvals(policy, run, approvals, now, needed=needed)
    is_renewal = len(standing) >= needed
    others = [one.person for one in standing if not (is_renewal and one.person.is_same(by))]
    _check_counts(policy, by, run.requester, others, needed)


def check_granted(
    policy: ClusterPolicy,
    run: Run,
    plan: RebalancePlan,
    approvals: Sequence[Approval],
    now: datetime,
) -> Approval:
    """Return the approval with which a run may start: the last one, whose rate counts.

    Raises NotApprovedError with the reason when there is none, when whoever gave it may not any
    more, and when fewer people have approved than have to.
    """
    needed = people_needed(plan, policy.approval)
    last = _last_granted(run, approvals, now)
    before = standing_approvals(policy, run, approvals[:-1], now, needed=needed)
    others = [one.person for one in before if not one.person.is_same(last.person)]
    try:
        _check_counts(policy, last.person, run.requester, others, needed)
        check_rate(policy, last.rate_bytes_per_second or 0)
    except RefusedError as error:
        raise _does_not_hold(last, error) from None
    if 1 + len(others) < needed:
        raise NotApprovedError(
            f"plan {run.fingerprint} {why_two_people(plan, policy.approval)}, so {needed} "
            f"different people have to approve it; until now {last.person.in_full} did. Another "
            "one has to approve it too (`counterpoise approve PLAN --rate RATE --reason TEXT`)"
        )
    return last


def _does_not_hold(approval: Approval, error: RefusedError) -> NotApprovedError:
    return NotApprovedError(
        f"the approval by {approval.person.shown} does not hold any more: {error}. Somebody who "
        "may has to approve the plan, or reject it"
    )


def _last_granted(run: Run, approvals: Sequence[Approval], now: datetime) -> Approval:
    """Return the last decision, which has to be an approval of this very plan that lasts."""
    fingerprint = run.fingerprint
    if not approvals:
        raise NotApprovedError(
            f"plan {fingerprint} was not approved; approve it first "
            "(`counterpoise approve PLAN --rate RATE --reason TEXT`)"
        )
    last = approvals[-1]
    if last.decision is not Decision.GRANTED:
        raise NotApprovedError(
            f"plan {fingerprint} was {last.decision} by {last.person.shown} at "
            f"{format_moment(last.at)}"
        )
    if last.fingerprint != fingerprint:
        raise NotApprovedError(
            f"the approval is for plan {last.fingerprint}, not for {fingerprint}; approve this one"
        )
    if last.expires_at is None or last.rate_bytes_per_second is None:
        raise NotApprovedError(
            f"the approval of plan {fingerprint} names no rate or no end; approve it again"
        )
    if now >= last.expires_at:
        raise NotApprovedError(
            f"the approval of plan {fingerprint} by {last.person.shown} expired at "
            f"{format_moment(last.expires_at)}; approve it again, or make a new plan"
        )
    return last


def check_validated(installation: Installation, run: Run) -> None:
    """Raise RefusedError where the task `validate` has not checked exactly this plan, or has found
    since that it must not run.
    """
    if validated_at(run, installation.ledger.journal(run.run_id).events()) is None:
        raise RefusedError(
            f"plan {run.fingerprint} was not validated (somebody may have marked the task as "
            "success); start a new Dag run for a new plan"
        )


# -- rules that approve without a person


def check_rule_approves(installation: Installation, run: Run) -> AutomaticApproval:
    """Return the rule that approves a plan that waits for its first answer.

    Raises RefusedError with the reason why a person has to.
    """
    if run.state is not RunState.PROPOSED or installation.ledger.approvals_of(run.run_id):
        raise RefusedError("a rule approves only what waits for its first answer")
    if installation.active_requests(run.cluster).frozen:
        raise RefusedError(f"a rule approves nothing while {run.cluster} is frozen")
    return _rule_that_holds(installation, run)


def check_rule_still_holds(installation: Installation, run: Run, approval: Approval) -> None:
    """Check, when a run starts, that the rule that approved it holds, still.

    Raises NotApprovedError. What has halted goes on after a person's yes: a rule starts a run once.
    """
    try:
        if run.state is RunState.HALTED:
            raise RefusedError(f"the run has halted ({run.reason}), and a rule starts a run once")
        _rule_that_holds(installation, run)
    except RefusedError as error:
        raise _does_not_hold(approval, error) from None


def _rule_that_holds(installation: Installation, run: Run) -> AutomaticApproval:
    policy, plan = installation.cluster(run.cluster).policy, installation.plan_of(run)
    rule = next((rule for rule in policy.approval.automatic if rule.goal == plan.goal), None)
    if rule is None:
        raise RefusedError(f"no rule of the policy approves plans for {plan.goal} (automatic)")
    check_validated(installation, run)
    _check_not_rejected(installation, run)
    if because := why_two_people(plan, policy.approval):
        raise RefusedError(f"the plan {because}, so two people have to approve it")
    if plan.copied_replicas:
        _check_bytes(installation, run, plan, rule)
    opens = opens_at(replace(policy.movement, windows=rule.windows), installation.ledger.now())
    if opens is not None:
        raise RefusedError(f"the rule approves again from {format_moment(opens)} (windows)")
    return rule


def _check_not_rejected(installation: Installation, run: Run) -> None:
    """Raise RefusedError where somebody has rejected the same plan, in this run or another."""
    for other in installation.ledger.runs(cluster=run.cluster, fingerprint=run.fingerprint):
        for decision in installation.ledger.approvals_of(other.run_id):
            if decision.decision is Decision.REJECTED:
                raise RefusedError(
                    f"{decision.person.shown} has rejected this plan (run {other.run_id})"
                )


def _check_bytes(
    installation: Installation, run: Run, plan: RebalancePlan, rule: AutomaticApproval
) -> None:
    """Raise RefusedError where the plan copies more than the rule has left of its 24 h."""
    if not rule.max_bytes_per_day:
        raise RefusedError("the rule is for plans that copy no replica (max_bytes_per_day)")
    _check_sizes(installation, plan)
    if plan.copied_bytes + _copied_within_a_day(installation, run, rule) > rule.max_bytes_per_day:
        most = format_bytes(rule.max_bytes_per_day)
        raise RefusedError(f"the rule approves up to {most} in 24 h (max_bytes_per_day)")


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


def _copied_within_a_day(installation: Installation, run: Run, rule: AutomaticApproval) -> int:
    """Return the bytes of the other plans that a rule has approved within 24 h."""
    ledger = installation.ledger
    since = ledger.now() - AUTOMATIC_APPROVALS_COUNT_FOR
    run_ids = {
        approval.run_id
        for approval in ledger.approvals_since(run.cluster, since)
        if approval.person == Person.of_rule(rule.goal) and approval.run_id != run.run_id
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


def rule_reason(rule: AutomaticApproval, plan: RebalancePlan) -> str:
    """Return why a rule approved, as the ledger keeps it: what the rule said at that time."""
    parts = [f"goal {plan.goal}", f"copies {format_bytes(plan.copied_bytes)}"]
    if rule.max_bytes_per_day:
        parts.append(f"up to {format_bytes(rule.max_bytes_per_day)} in 24 h are allowed")
    parts += [f"from {window.starts!r} on" for window in rule.windows]
    return f"approval: automatic ({', '.join(parts)})"
