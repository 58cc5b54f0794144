"""Is there a yes for exactly this plan, now? The ledger's rows decide; what Airflow shows does not.

approval = granted_approval(ledger.approvals_of(run_id), plan.fingerprint, now)
"""

from collections.abc import Sequence
from datetime import datetime

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.policy import ApprovalPolicy


def granted_approval(approvals: Sequence[Approval], fingerprint: str, now: datetime) -> Approval:
    """The approval to act on: the last word spoken. Raises NotApprovedError with the reason when there is none."""
    if not approvals:
        raise NotApprovedError(f"plan {fingerprint} was not approved; approve it first (`counterpoise approve PLAN`)")
    last = approvals[-1]
    if last.decision is not Decision.GRANTED:
        raise NotApprovedError(f"plan {fingerprint} was {last.decision} by {last.by} at {last.at:%Y-%m-%d %H:%M} UTC")
    if last.fingerprint != fingerprint:
        raise NotApprovedError(f"the approval is for plan {last.fingerprint}, not for {fingerprint}; approve this one")
    if last.expires_at is None or last.rate_bytes_per_second is None:
        raise NotApprovedError(f"the approval of plan {fingerprint} names no rate or no end; approve it again")
    if now >= last.expires_at:
        raise NotApprovedError(
            f"the approval of plan {fingerprint} by {last.by} expired at {last.expires_at:%Y-%m-%d %H:%M} UTC; "
            "approve it again, or make a new plan"
        )
    return last


def check_approver(policy: ApprovalPolicy, by: str) -> None:
    """Raises RefusedError when the policy names approvers and `by` is none of them."""
    if policy.approvers and by not in policy.approvers:
        raise RefusedError(f"{by} may not approve here; the policy names {', '.join(policy.approvers)}")
