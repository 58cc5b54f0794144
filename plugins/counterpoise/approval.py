"""Is there an approval of exactly this plan, now? The ledger decides; what Airflow shows does not.

approvals = ledger.approvals_of(run_id)    # oldest first
approval = granted_approval(approvals, plan.fingerprint, now, listed=people, people=2)
why_rule_does_not_hold(rule, plan, policy, now, copied_before_bytes=0)    # "": no person has to
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from counterpoise.errors import NotApprovedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.calendar import opens_at
from counterpoise.model.movement import max_moves_at_once, rate_with_room
from counterpoise.model.person import People, Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ApprovalPolicy, ApprovalRule, ClusterPolicy, MovementPolicy
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


def approvals_in_force(approvals: Sequence[Approval]) -> tuple[Approval, ...]:
    """Return the approvals that no later rejection has undone; `approvals` are oldest first."""

    def is_granted(approval: Approval) -> bool:
        return approval.decision is Decision.GRANTED

    return tuple(takewhile(is_granted, reversed(approvals)))[::-1]


def approvers_in_force(approvals: Sequence[Approval], listed: People) -> tuple[Person, ...]:
    """Return those whose approval no later rejection has undone, in the order of their first.

    They are people, or a rule of the policy; `listed` says which accounts are one person's.

    `approvals` are oldest first. Whether each still holds is checked by `granted_approval`.
    Example: alice approves, bob rejects, carol and alice approve: (carol, alice).
    """
    approvers: list[Person] = []
    for approval in approvals_in_force(approvals):
        if not any(listed.may_be_one(approval.person, other) for other in approvers):
            approvers.append(approval.person)
    return tuple(approvers)


def approvals_missing(approvers: Sequence[Person], needed: int) -> int:
    """Return how many more people have to approve; a rule counts where one approval is enough."""
    people = [approver for approver in approvers if not approver.is_rule]
    return max(0, needed - len(approvers if needed == 1 else people))


def find_rule(policy: ApprovalPolicy, approver: Person) -> ApprovalRule | None:
    """Return the rule as which something was approved; None where the policy has it no more."""
    rules = (rule for rule in policy.by_rule if Person.of_rule(rule.name) == approver)
    return next(rules, None)


def why_rule_does_not_hold(
    rule: ApprovalRule,
    plan: RebalancePlan,
    policy: ClusterPolicy,
    now: datetime,
    *,
    copied_before_bytes: int,
) -> str:
    """Return why a person has to approve a plan, as `copies more than 10 GB`; "" where none has to.

    `copied_before_bytes` is what the rule has approved within 24 h, without this plan.
    """
    name = Person.of_rule(rule.name).shown
    if because := why_two_people(plan, policy.approval):
        return f"the plan {because}, so two people have to approve it"
    if plan.goal not in rule.goals:
        return f"{name} is not for the goal {plan.goal}"
    most = rule.copies_at_most_bytes
    if not most and plan.copied_replicas:
        return f"{name} is for plans that copy no replica"
    if plan.copied_bytes + copied_before_bytes > most:
        return f"{name} approves up to {format_bytes(most)} in 24 h (copies_at_most)"
    opens = opens_at(replace(policy.movement, windows=rule.windows), now)
    if opens is not None:
        return f"{name} approves again from {format_moment(opens)} (windows)"
    return ""


def rule_reason(rule: ApprovalRule, plan: RebalancePlan) -> str:
    """Return why a rule approved, as the ledger keeps it: what the rule said at that time."""
    parts = [f"goal {plan.goal}", f"copies {format_bytes(plan.copied_bytes)}"]
    if rule.copies_at_most_bytes:
        parts.append(f"up to {format_bytes(rule.copies_at_most_bytes)} in 24 h are allowed")
    parts += [f"from {window.starts!r} on" for window in rule.windows]
    return f"approval: by_rule: {rule.name} ({', '.join(parts)})"


def counting_approvals(
    approvals: Sequence[Approval], fingerprint: str, now: datetime
) -> tuple[Approval, ...]:
    """Return the decisions that count, oldest first: a rejection always does, an approval for this
    plan only, and until it expires.
    """

    def counts(approval: Approval) -> bool:
        if approval.decision is not Decision.GRANTED:
            return True
        has_expired = approval.expires_at is None or now >= approval.expires_at
        return approval.fingerprint == fingerprint and not has_expired

    return tuple(approval for approval in approvals if counts(approval))


def granted_approval(
    approvals: Sequence[Approval],
    fingerprint: str,
    now: datetime,
    *,
    listed: People,
    people: int = 1,
    because: str = "lowers a replication factor",
) -> Approval:
    """Return the approval to act on: the last one, whose rate counts. `approvals` are oldest first.

    Raises NotApprovedError with the reason when there is none, or when fewer than `people`
    different people approved; `because` says why so many are needed.
    """
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

    approvers = approvers_in_force(counting_approvals(approvals, fingerprint, now), listed)
    if approvals_missing(approvers, people):
        raise NotApprovedError(
            f"plan {fingerprint} {because}, so {people} different people have to approve it; until "
            f"now {join_people(approvers)} did. Somebody else has to approve it too "
            "(`counterpoise approve PLAN --by USER --rate RATE --reason TEXT`)"
        )
    return last


def join_people(people: Sequence[Person]) -> str:
    """Return for example `alice and bob (airflow:2)`."""
    return " and ".join(person.shown for person in people)


def suggested_rate(plan: RebalancePlan, policy: MovementPolicy) -> int | None:
    """Return the bytes per second that leave room for clients on every link.

    None without a link capacity in the policy, or where the plan knows no rates of clients.
    """
    capacity = policy.link_capacity_bytes_per_second
    return None if capacity is None else rate_with_room(plan, capacity, max_moves_at_once(policy))


def default_rate(plan: RebalancePlan, policy: MovementPolicy) -> int:
    """Return the bytes per second that an approver is offered: the policy's rate, or less where the
    links have less room.
    """
    suggested = suggested_rate(plan, policy)
    capacity = policy.link_capacity_bytes_per_second
    rates = (policy.rate_bytes_per_second, suggested, capacity)
    return min(rate for rate in rates if rate)
