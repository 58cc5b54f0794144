"""Is there an approval of exactly this plan, now? The ledger decides; what Airflow shows does not.

approvals = ledger.approvals_of(run_id)    # oldest first
approval = granted_approval(approvals, plan.fingerprint, now, people=people_needed(plan))
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.movement import max_moves_at_once, rate_with_room
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ApprovalPolicy, MovementPolicy
from counterpoise.units import format_moment


def people_needed(plan: RebalancePlan) -> int:
    """Return how many different people have to approve: two where replicas are given up."""
    return 2 if plan.lowers_replication_factor else 1


def approvers_in_force(approvals: Sequence[Approval]) -> tuple[str, ...]:
    """Return the people whose approval no later rejection has undone, in the order of their first.

    `approvals` are oldest first. Whether each still holds is checked by `granted_approval`.
    Example: alice approves, bob rejects, carol and alice approve: ("carol", "alice").
    """

    def is_granted(approval: Approval) -> bool:
        return approval.decision is Decision.GRANTED

    since_rejection = list(takewhile(is_granted, reversed(approvals)))
    return tuple(dict.fromkeys(approval.by for approval in reversed(since_rejection)))


def granted_approval(
    approvals: Sequence[Approval], fingerprint: str, now: datetime, *, people: int = 1
) -> Approval:
    """Return the approval to act on: the last one, whose rate counts. `approvals` are oldest first.

    Raises NotApprovedError with the reason when there is none, or when fewer than `people`
    different people approved.
    """
    if not approvals:
        raise NotApprovedError(
            f"plan {fingerprint} was not approved; approve it first "
            "(`counterpoise approve PLAN --rate RATE --reason TEXT`)"
        )
    last = approvals[-1]
    if last.decision is not Decision.GRANTED:
        raise NotApprovedError(
            f"plan {fingerprint} was {last.decision} by {last.by} at {format_moment(last.at)}"
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
            f"the approval of plan {fingerprint} by {last.by} expired at "
            f"{format_moment(last.expires_at)}; approve it again, or make a new plan"
        )

    def counts(approval: Approval) -> bool:
        """Return whether a decision counts: a rejection always does, an approval for this plan
        only, and until it expires.
        """
        if approval.decision is not Decision.GRANTED:
            return True
        has_expired = approval.expires_at is None or now >= approval.expires_at
        return approval.fingerprint == fingerprint and not has_expired

    approvers = approvers_in_force([approval for approval in approvals if counts(approval)])
    if len(approvers) < people:
        raise NotApprovedError(
            f"plan {fingerprint} lowers a replication factor, so {people} different people have to "
            f"approve it; until now {' and '.join(approvers)} did. Somebody else has to approve it "
            "too (`counterpoise approve PLAN --by USER --rate RATE --reason TEXT`)"
        )
    return last


def check_approver(policy: ApprovalPolicy, by: str) -> None:
    """Raise RefusedError when the policy names approvers and `by` is none of them."""
    if policy.approvers and by not in policy.approvers:
        raise RefusedError(
            f"{by} may not approve here; the policy names {', '.join(policy.approvers)}"
        )


def others_to_ask(policy: ApprovalPolicy, approved_by: Sequence[str]) -> tuple[str, ...]:
    """Return the approvers of the policy who have not approved yet; () where everybody may.

    Raises RefusedError when nobody is left.
    """
    others = tuple(user for user in policy.approvers if user not in approved_by)
    if policy.approvers and not others:
        raise RefusedError(
            "the plan lowers a replication factor, so two people have to approve it, but the "
            f"policy names nobody but "
            f"{' and '.join(approved_by)}; add an approver to the policy, or "
            "reject the plan"
        )
    return others


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
    return min(policy.rate_bytes_per_second, suggested or policy.rate_bytes_per_second)
