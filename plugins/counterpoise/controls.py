"""Decisions and requests of people: approve, reject, pause, another rate, cancel, undo, freeze.

    record_decision(
        installation, run_id, fingerprint,
        decision=Decision.GRANTED, by="alice", reason="broker 4", rate="50MB/s",
    )
    pause(installation, run_id, by="bob", why="month end")
    freeze(installation, "orders-eu", until="8h", by="bob", why="month end")

Each writes a row of the ledger, never the cluster; the run does it at its next step. Everybody may
make a run do less, and is recorded; another rate and an undo need somebody who may approve. When
something is refused, nothing has been written.
"""

from counterpoise.approval import approvers_in_force, check_approver
from counterpoise.errors import CounterpoiseError, InputError, RefusedError, StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest, find_active_requests
from counterpoise.model.movement import max_moves_at_once, rate_warning
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.units import parse_rate, parse_until


def check_grant(
    installation: Installation, plan: RebalancePlan, *, by: str, rate: str | None
) -> int:
    """Return the rate in bytes per second.

    Raises InputError for an unusable one, RefusedError when `by` may not approve, or when producers
    write faster to what the plan moves at once than the rate allows to copy.
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
    """Record a yes, a no or a missing answer about exactly this plan.

    With `must_be_another`, a yes counts only from somebody who has not said it yet.

    Raises InputError for a yes with an unusable rate, RefusedError for one from somebody who may
    not approve, or with a rate at which the copies never end, StalePlanError for another plan,
    RunConflictError for a run that no longer waits. Nothing is granted then.
    """
    run = installation.ledger.run(run_id)
    if run.fingerprint != fingerprint:
        raise StalePlanError(
            f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was "
            "granted"
        )
    policy = installation.cluster(run.cluster).policy.approval
    is_granted = decision is Decision.GRANTED
    rate_bytes_per_second: int | None = None
    try:
        if is_granted:
            plan = installation.plan_of(run)
            rate_bytes_per_second = check_grant(installation, plan, by=by, rate=rate)
            if must_be_another:
                _check_is_another(installation, run_id, by)
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
        expires_at=now + policy.expires_after if is_granted else None,
    )
    installation.ledger.record_decision(approval)
    return approval


def pause(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """Ask a run to submit nothing new; what is in flight finishes.

    Raises InputError, RefusedError.
    """
    run = _run_under_way(installation, run_id, Control.PAUSE)
    if run.state is RunState.SETTLING:
        raise RefusedError(
            f"run {run_id} is settling: it starts nothing new anyway, so there is nothing to pause"
        )
    return _request(installation, run, Control.PAUSE, by, why)


def resume(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """Ask a paused run to go on. Raises InputError, RefusedError; also where it is not paused."""
    run = _run_under_way(installation, run_id, Control.RESUME)
    requests = installation.ledger.requests(run.cluster, run_id)
    if find_active_requests(requests, installation.clock()).paused is None:
        raise RefusedError(
            f"run {run_id} is not paused; `counterpoise status {run_id}` says what it waits for"
        )
    return _request(installation, run, Control.RESUME, by, why)


def change_rate(
    installation: Installation, run_id: str, rate: str, *, by: str, why: str
) -> ControlRequest:
    """Ask a run to copy at another rate from its next step on.

    Raises InputError for an unusable rate, RefusedError as `check_grant` does.
    """
    run = _run_under_way(installation, run_id, Control.RATE)
    check_approver(installation.cluster(run.cluster).policy.approval, by)
    wanted = _usable_rate(installation, installation.plan_of(run), rate)
    return _request(installation, run, Control.RATE, by, why, rate_bytes_per_second=wanted)


def cancel(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """Ask a run to cancel what is in flight, to settle and to end as halted.

    Raises InputError, RefusedError.
    """
    run = _run_under_way(installation, run_id, Control.CANCEL)
    return _request(installation, run, Control.CANCEL, by, why)


def undo(installation: Installation, run_id: str, *, by: str, why: str) -> ControlRequest:
    """Cancel a run that somebody wants to undo; the undo plan is made when it has halted.

    Raises InputError, and RefusedError for somebody who may not approve.
    """
    run = _run_under_way(installation, run_id, Control.UNDO)
    check_approver(installation.cluster(run.cluster).policy.approval, by)
    return _request(installation, run, Control.UNDO, by, why)


def freeze(
    installation: Installation, cluster: str, *, until: str, by: str, why: str
) -> ControlRequest:
    """Let no run of the cluster start, or submit anything, until then. Raises InputError."""
    installation.cluster(cluster)
    now = installation.clock()
    request = ControlRequest(
        cluster=cluster,
        run_id=None,
        control=Control.FREEZE,
        by=_required(by, "by"),
        why=_required(why, "why"),
        at=now,
        until=parse_until(until, now),
    )
    installation.ledger.record_request(request)
    return request


def unfreeze(installation: Installation, cluster: str, *, by: str, why: str) -> ControlRequest:
    """End a freeze. Raises InputError, and RefusedError where the cluster is not frozen."""
    installation.cluster(cluster)
    now = installation.clock()
    if find_active_requests(installation.ledger.requests(cluster), now).frozen is None:
        raise RefusedError(f"cluster {cluster} is not frozen, so there is no freeze to end")
    request = ControlRequest(
        cluster=cluster,
        run_id=None,
        control=Control.UNFREEZE,
        by=_required(by, "by"),
        why=_required(why, "why"),
        at=now,
    )
    installation.ledger.record_request(request)
    return request


def _request(
    installation: Installation,
    run: Run,
    control: Control,
    by: str,
    why: str,
    *,
    rate_bytes_per_second: int | None = None,
) -> ControlRequest:
    request = ControlRequest(
        cluster=run.cluster,
        run_id=run.run_id,
        control=control,
        by=_required(by, "by"),
        why=_required(why, "why"),
        at=installation.clock(),
        rate_bytes_per_second=rate_bytes_per_second,
    )
    installation.ledger.record_request(request)
    return request


def _run_under_way(installation: Installation, run_id: str, control: Control) -> Run:
    """Return a run that is under way.

    Raises InputError for an unknown id, RefusedError with what to do instead.
    """
    run = installation.ledger.run(run_id)
    if run.state in UNDER_WAY_STATES:
        return run
    if run.state not in (RunState.PROPOSED, RunState.APPROVED):
        instead = (
            "it has ended, and nothing of it is under way; `counterpoise status` names the runs "
            "that are"
        )
    elif control is Control.RATE:
        instead = (
            "it has moved nothing yet; approve the plan at the rate that you want "
            "(`counterpoise approve`)"
        )
    else:
        instead = "it has moved nothing yet; `counterpoise reject PLAN --reason TEXT` says no to it"
    raise RefusedError(f"run {run_id} is {run.state}, so {control} can do nothing: {instead}")


def _usable_rate(installation: Installation, plan: RebalancePlan, rate: str) -> int:
    wanted = parse_rate(rate, where="rate")
    movement = installation.cluster(plan.cluster).policy.movement
    if warning := rate_warning(plan, wanted, max_moves_at_once(movement)):
        raise RefusedError(warning)
    return wanted


def _required(text: str, what: str) -> str:
    if not text.strip():
        raise InputError(f"{what}: must not be empty; the ledger keeps it for later questions")
    return text.strip()


def _check_is_another(installation: Installation, run_id: str, by: str) -> None:
    if by in approvers_in_force(installation.ledger.approvals_of(run_id)):
        raise RefusedError(
            f"{by} has approved this plan already; the second approval has to come from another "
            "person"
        )
