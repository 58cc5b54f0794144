"""Is there a yes for exactly this plan, now? The ledger's rows decide; what Airflow shows does not.

approval = granted_approval(ledger.approvals_of(run_id), plan.fingerprint, now,
people=people_needed(plan))
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ApprovalPolicy
from counterpoise.units import format_moment


def people_needed(plan: RebalancePlan) -> int:
    """How many different people have to say yes: two where a replication factor is lowered, for
    copies are given up.
    """
    return 2 if plan.lowers_replication_factor else 1


def who_said_yes(approvals: Sequence[Approval]) -> tuple[str, ...]:
    """The people whose yes no later no has undone, in the order in which they said it first;
    `approvals` oldest first.

    Whether each yes still holds is for `granted_approval` to say.
    """
    standing = reversed(
        list(takewhile(lambda a: a.decision is Decision.GRANTED, reversed(approvals)))
    )
    return tuple(dict.fromkeys(approval.by for approval in standing))


def granted_approval(
    approvals: Sequence[Approval], fingerprint: str, now: datetime, *, people: int = 1
) -> Approval:
    """The approval to act on: the last word spoken, whose rate counts. `approvals` are oldest
    first.

    Raises NotApprovedError with the reason when there is none, or when fewer than `people`
    different people said yes.
    """
    if not approvals:
        raise NotApprovedError(
            f"plan {fingerprint} was not approved; approve it first (`counterpoise approve PLAN`)"
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
            f"the approval of plan {fingerprint} by {last.by} expired at {format_moment(last.expires_at)}; "
            "approve it again, or make a new plan"
        )
    said = who_said_yes(
        [a for a in approvals if a.decision is not Decision.GRANTED or _holds(a, fingerprint, now)]
    )
    if len(said) < people:
        raise NotApprovedError(
            f"plan {fingerprint} lowers a replication factor, so {people} different people have to approve it; until "
            f"now {' and '.join(said)} did. Somebody else has to say yes too (`counterpoise approve PLAN --by USER`)"
        )
    return last


def _holds(yes: Approval, fingerprint: str, now: datetime) -> bool:
    return yes.fingerprint == fingerprint and yes.expires_at is not None and now < yes.expires_at


def check_approver(policy: ApprovalPolicy, by: str) -> None:
    """Raises RefusedError when the policy names approvers and `by` is none of them."""
    if policy.approvers and by not in policy.approvers:
        raise RefusedError(
            f"{by} may not approve here; the policy names {', '.join(policy.approvers)}"
        )


def others_to_ask(policy: ApprovalPolicy, said: Sequence[str]) -> tuple[str, ...]:
    """The approvers who have not said yes yet; () where everybody may.

    Raises RefusedError when nobody is left.
    """
    others = tuple(user for user in policy.approvers if user not in said)
    if policy.approvers and not others:
        raise RefusedError(
            "the plan lowers a replication factor, so two people have to approve it, but the policy names nobody but "
            f"{' and '.join(said)}; add an approver to the policy, or reject the plan"
        )
    return others
