"""What people say: yes, no, pause, slower, stop. Each writes a row of the ledger, never the
cluster.

    record_decision(site, run_id, fingerprint, decision=Decision.GRANTED, by="alice", reason="broker 4", rate="50MB/s")
    pause(site, run_id, by="bob", why="month end")
    freeze(site, "orders-eu", until="8h", by="bob", why="month end")

The next look at the run obeys. Everybody may make a run do less, and is written down; more speed,
and going back, need somebody who may approve. Whatever is refused, nothing has been written.
"""

from counterpoise.approval import check_approver, approvers_in_force
from counterpoise.errors import CounterpoiseError, InputError, RefusedError, StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest, ActiveRequests, find_active_requests
from counterpoise.model.movement import max_moves_at_once
from counterpoise.model.overview import rate_warning
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.units import parse_rate, parse_until


def check_grant(
    installation: Installation, plan: RebalancePlan, *, by: str, rate: str | None
) -> int:
    """The rate in bytes per second.

    Raises InputError for an unusable one, RefusedError when `by` may not approve, or when producers
    write faster to what the plan moves at once than the rate lets through.
    """
    check_approver(installation.cluster(plan.cluster).policy.approval, by)
    return _usable_rate(installation, plan, rate or "")


def record_decision(
    installation: Installation,
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

    Raises InputError for a yes with an unusable rate, RefusedError for one from somebody who may
    not approve, or with a rate that can never do, StalePlanError for another plan, RunConflictError
    for a run that no longer waits. Nothing is granted then.
    """
    run = installation.ledger.run(run_id)
    if run.fingerprint != fingerprint:
        raise StalePlanError(
            f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was granted"
        )
    policy = installation.cluster(run.cluster).policy.approval
    granted = decision is Decision.GRANTED
    try:
        rate_bytes_per_second = (
            check_grant(installation, _plan_of(installation, run), by=by, rate=rate)
            if granted
            else None
        )
        if granted and must_be_another:
            _check_another(installation, run_id, by)
    except CounterpoiseError as error:
        installation.ledger.journal(run_id).event("answer refused", f"{decision} by {by}: {error}")
        raise
    now = installation.clock()
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
    installation.ledger.record_decision(approval)
    return approval


def pause(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """Nothing new is submitted; what is in flight finishes. Raises InputError, RefusedError."""
    run = _run_under_way(installation, run_id, Control.PAUSE)
    if run.state is RunState.SETTLING:
        raise RefusedError(
            f"run {run_id} is settling: it starts nothing new anyway, so there is nothing to pause"
        )
    return _ask(installation, run, Control.PAUSE, by, why)


def resume(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """Raises InputError, RefusedError; also where the run is not paused."""
    run = _run_under_way(installation, run_id, Control.RESUME)
    if _standing(installation, run).paused is None:
        raise RefusedError(
            f"run {run_id} is not paused; `counterpoise status {run_id}` says what it waits for"
        )
    return _ask(installation, run, Control.RESUME, by, why)


def change_rate(
    installation: Installation, run_id: str, rate: str, *, by: str, why: str
) -> ControlRequest:
    """From the next look on.

    Raises InputError for an unusable rate, RefusedError as `check_grant` does.
    """
    run = _run_under_way(installation, run_id, Control.RATE)
    check_approver(installation.cluster(run.cluster).policy.approval, by)
    wanted = _usable_rate(installation, _plan_of(installation, run), rate)
    return _ask(installation, run, Control.RATE, by, why, rate_bytes_per_second=wanted)


def cancel(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """What is in flight is cancelled, then the run settles and ends as halted.

    Raises InputError, RefusedError.
    """
    return _ask(
        installation, _run_under_way(installation, run_id, Control.CANCEL), Control.CANCEL, by, why
    )


def undo(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """As `cancel`, of a run that somebody wants to take back; the plan back is made when it has
    halted.

    Raises InputError, and RefusedError for somebody who may not approve.
    """
    run = _run_under_way(installation, run_id, Control.UNDO)
    check_approver(installation.cluster(run.cluster).policy.approval, by)
    return _ask(installation, run, Control.UNDO, by, why)


def freeze(
    installation: Installation, cluster: str, *, until: str, by: str, why: str
) -> ControlRequest:
    """No run of the cluster starts, or submits anything, until then. Raises InputError."""
    installation.cluster(cluster)
    now = installation.clock()
    asked = ControlRequest(
        cluster,
        None,
        Control.FREEZE,
        _said(by, "by"),
        _said(why, "why"),
        now,
        until=parse_until(until, now),
    )
    installation.ledger.record_request(asked)
    return asked


def unfreeze(installation: Installation, cluster: str, *, by: str, why: str) -> ControlRequest:
    """Raises InputError, and RefusedError where the cluster is not frozen."""
    installation.cluster(cluster)
    now = installation.clock()
    if find_active_requests(installation.ledger.requests(cluster), now).frozen is None:
        raise RefusedError(f"cluster {cluster} is not frozen")
    asked = ControlRequest(cluster, None, Control.UNFREEZE, _said(by, "by"), _said(why, "why"), now)
    installation.ledger.record_request(asked)
    return asked


def _ask(
    installation: Installation,
    run: Run,
    control: Control,
    by: str,
    why: str,
    *,
    rate_bytes_per_second: int | None = None,
) -> ControlRequest:
    asked = ControlRequest(
        cluster=run.cluster,
        run_id=run.run_id,
        control=control,
        by=_said(by, "by"),
        why=_said(why, "why"),
        at=installation.clock(),
        rate_bytes_per_second=rate_bytes_per_second,
    )
    installation.ledger.record_request(asked)
    return asked


def _run_under_way(installation: Installation, run_id: str, control: Control) -> Run:
    """Raises InputError for an unknown id, RefusedError with what to do instead."""
    run = installation.ledger.run(run_id)
    if run.state in UNDER_WAY_STATES:
        return run
    if run.state in (RunState.PROPOSED, RunState.APPROVED):
        instead = "it has moved nothing yet; `counterpoise reject PLAN` says no to it"
        if control is Control.RATE:
            instead = "it has moved nothing yet; approve the plan at the rate that you want (`counterpoise approve`)"
    else:
        instead = "it has ended, and nothing of it is under way"
    raise RefusedError(f"run {run_id} is {run.state}, so {control} has no meaning: {instead}")


def _standing(installation: Installation, run: Run) -> ActiveRequests:
    return find_active_requests(
        installation.ledger.requests(run.cluster, run.run_id), installation.clock()
    )


def _usable_rate(installation: Installation, plan: RebalancePlan, rate: str) -> int:
    wanted = parse_rate(rate, where="rate")
    movement = installation.cluster(plan.cluster).policy.movement
    if warning := rate_warning(plan, wanted, max_moves_at_once(movement)):
        raise RefusedError(warning)
    return wanted


def _plan_of(installation: Installation, run: Run) -> RebalancePlan:
    return installation.archive.read_plan(run.plan_uri, run.fingerprint)


def _said(text: str, what: str) -> str:
    if not text.strip():
        raise InputError(
            f"{what}: must not be empty; it is kept in the ledger for whoever asks later"
        )
    return text.strip()


def _check_another(installation: Installation, run_id: str, by: str) -> None:
    if by in approvers_in_force(installation.ledger.approvals_of(run_id)):
        raise RefusedError(
            f"{by} has approved this plan already; the second yes has to come from another person"
        )
