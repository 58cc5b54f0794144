"""What people say: yes, no. Each writes a row of the ledger, never the cluster; the next look at the run obeys.

record_decision(site, run_id, fingerprint, decision=Decision.GRANTED, by="alice", reason="broker 4", rate="50MB/s")
"""

from counterpoise.approval import check_approver, who_said_yes
from counterpoise.errors import CounterpoiseError, RefusedError, StalePlanError
from counterpoise.installation import Site
from counterpoise.model.approval import Approval, Decision
from counterpoise.units import parse_rate


def check_grant(site: Site, cluster: str, *, by: str, rate: str | None) -> int:
    """The rate in bytes per second. Raises InputError for an unusable one, RefusedError when `by` may not approve."""
    check_approver(site.cluster(cluster).policy.approval, by)
    return parse_rate(rate or "", where="rate")


def record_decision(
    site: Site,
    run_id: str,
    fingerprint: str,
    *,
    decision: Decision,
    by: str,
    reason: str,
    rate: str | None,
    must_be_another: bool = False,
) -> Approval:
    """Writes down a yes, a no or a silence about exactly this plan.

    With `must_be_another`, a yes counts only from somebody who has not said it yet.

    Raises InputError for a yes with an unusable rate, RefusedError for one from somebody who may not approve,
    StalePlanError for another plan, RunConflictError for a run that no longer waits. Nothing is granted then.
    """
    run = site.ledger.run(run_id)
    if run.fingerprint != fingerprint:
        raise StalePlanError(f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was granted")
    policy = site.cluster(run.cluster).policy.approval
    granted = decision is Decision.GRANTED
    try:
        rate_bytes_per_second = check_grant(site, run.cluster, by=by, rate=rate) if granted else None
        if granted and must_be_another:
            _check_another(site, run_id, by)
    except CounterpoiseError as error:
        site.ledger.journal(run_id).event("answer refused", f"{decision} by {by}: {error}")
        raise
    now = site.clock()
    approval = Approval(
        run_id=run_id,
        fingerprint=fingerprint,
        decision=decision,
        by=by,
        reason=reason,
        at=now,
        rate_bytes_per_second=rate_bytes_per_second,
        expires_at=now + policy.expires_after if granted else None,
    )
    site.ledger.record_decision(approval)
    return approval


def _check_another(site: Site, run_id: str, by: str) -> None:
    if by in who_said_yes(site.ledger.approvals_of(run_id)):
        raise RefusedError(f"{by} has approved this plan already; the second yes has to come from another person")
