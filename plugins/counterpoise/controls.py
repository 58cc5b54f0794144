"""Decisions and requests of people: approve, reject, pause, another rate, cancel, undo, freeze,
release.

    record_decision(
        installation, run_id, fingerprint,
        decision=Decision.GRANTED, by=alice, reason="broker 4", rate="50MB/s",
    )
    pause(installation, run_id, by=bob, why="month end")
    freeze(installation, "orders-eu", until="8h", by=bob, why="month end")
    release(installation, "orders-eu", (7,), by=bob, why="broker 7 has its new disks")

Each writes a row of the ledger, never the cluster; the run does it at its next step. Who may do
what is in `access.py`. When something is refused, nothing has been written.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from counterpoise import access
from counterpoise.answering import answer_until
from counterpoise.approval import (
    check_rule_approves,
    check_would_count,
    people_needed,
    rule_reason,
    standing_approvals,
)
from counterpoise.errors import CounterpoiseError, RefusedError, StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.movement import default_rate, max_moves_at_once, rate_warning
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action
from counterpoise.model.request import read_broker_ids
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.model.safe_text import limited, required
from counterpoise.model.words import join_ids, list_brokers, verb
from counterpoise.units import format_moment, parse_rate, parse_until


def check_may(installation: Installation, cluster: str, person: Person, action: Action) -> None:
    """Raise RefusedError for somebody who may not do something with a cluster, InputError for a
    cluster that the settings do not name.
    """
    access.check_may(installation.cluster(cluster).policy, person, action)


def check_grant(
    installation: Installation,
    plan: RebalancePlan,
    *,
    by: Person,
    requester: Person,
    rate: str | None,
) -> int:
    """Return the rate in bytes per second.

    Raises InputError for an unusable one, RefusedError when `by` may not approve, requested the
    plan, or at a rate that the policy forbids or at which the copies never end.
    """
    policy = installation.cluster(plan.cluster).policy
    access.check_may_approve(policy, by, requester)
    return _usable_rate(installation, plan, rate or "")


def check_reason(reason: str) -> str:
    """Return a reason without blanks around it. Raises InputError for one that nobody types."""
    return required(reason, "reason")


def record_decision(
    installation: Installation,
    run_id: str,
    fingerprint: str,
    *,
    decision: Decision,
    by: Person,
    reason: str,
    rate: str | None,
    seen: str = "",
) -> Approval:
    """Record a yes, a no or a missing answer about exactly this plan.

    Of two people that a plan needs, the second one's yes makes it approved. With `seen`, it is
    recorded only while the run is as it was seen (`Ledger.answer_seen`).

    Raises InputError for an unusable rate and for an answer without a reason, RefusedError for one
    from somebody who may not give it, that is too late, or with a rate at which the copies never
    end, StalePlanError for another plan, RunConflictError for a run that no longer waits. Nothing
    is granted then.
    """
    run = _run_of_plan(installation, run_id, fingerprint)
    try:
        reason, rate_bytes_per_second, needed = _checked_decision(
            installation, run, decision, by, reason, rate
        )
    except CounterpoiseError as error:
        text = f"{decision} by {by.shown}: {error}"
        installation.ledger.journal(run_id).event("answer refused", text)
        raise
    approval = Approval(
        run_id=run_id,
        fingerprint=fingerprint,
        decision=decision,
        by=by.recorded,
        reason=reason,
        at=installation.ledger.now(),
        rate_bytes_per_second=rate_bytes_per_second,
    )
    if decision is not Decision.GRANTED:
        installation.ledger.record_decision(approval, seen=seen)
        return approval
    policy = installation.cluster(run.cluster).policy
    approval = replace(approval, expires_at=approval.at + policy.approval.expires_after)

    def is_enough(approvals: Sequence[Approval]) -> bool:
        standing = standing_approvals(policy, run, approvals, approval.at, needed=needed)
        return len(standing) >= needed

    installation.ledger.record_decision(approval, is_enough=is_enough)
    return approval


def approve_by_rule(installation: Installation, run_id: str, fingerprint: str) -> Approval:
    """Record the yes of the policy's rule for the goal of a plan, at the rate that people are
    offered.

    Raises what `record_decision` raises; RefusedError where people decide.
    """
    run, plan = installation.run_and_plan(run_id, fingerprint)
    rule = check_rule_approves(installation, run)
    return record_decision(
        installation,
        run_id,
        fingerprint,
        decision=Decision.GRANTED,
        by=Person.of_rule(rule.goal),
        reason=rule_reason(rule, plan),
        rate=None,
    )


def _checked_decision(
    installation: Installation,
    run: Run,
    decision: Decision,
    by: Person,
    reason: str,
    rate: str | None,
) -> tuple[str, int | None, int]:
    """Return the reason, the bytes per second of a yes, and how many people have to say yes (0 for
    a no, which reads no plan).
    """
    is_typed = decision is not Decision.TIMED_OUT and not (by.is_own_dag or by.is_rule)
    reason = check_reason(reason) if is_typed else reason.strip()
    if decision is not Decision.GRANTED:
        _check_may_end(installation, run, decision, by)
        return reason, None, 0
    _check_in_time(installation, run)
    policy, plan = installation.cluster(run.cluster).policy, installation.plan_of(run)
    needed = people_needed(plan, policy.approval)
    if by.is_rule:
        check_rule_approves(installation, run)
        offered = default_rate(plan, policy.movement)
        return reason, _checked_rate(installation, plan, offered), needed
    approvals, now = installation.ledger.approvals_of(run.run_id), installation.ledger.now()
    check_would_count(policy, run, approvals, now, needed=needed, by=by)
    return reason, _usable_rate(installation, plan, rate or ""), needed


def _run_of_plan(installation: Installation, run_id: str, fingerprint: str) -> Run:
    run = installation.ledger.run(run_id)
    if run.fingerprint != fingerprint:
        raise StalePlanError(
            f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was "
            "granted"
        )
    return run


def _check_may_end(installation: Installation, run: Run, decision: Decision, by: Person) -> None:
    """Raise RefusedError for somebody who may not say no.

    The requester may withdraw their plan, and whoever may cancel a run may say no to one that is
    approved and has not started. That nobody answered in time needs no permission.
    """
    if decision is Decision.TIMED_OUT or by.is_same(run.requester):
        return
    policy = installation.cluster(run.cluster).policy
    is_cancel = run.state in (RunState.APPROVED, RunState.HALTED)
    if not (is_cancel and access.may(policy, by, Action.OPERATE)):
        access.check_may(policy, by, Action.APPROVE)


def pause(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Ask a run to submit nothing new; what is in flight finishes.

    Raises InputError, RefusedError.
    """
    run = _run_under_way(installation, run_id, Control.PAUSE)
    if run.state is RunState.SETTLING:
        raise RefusedError(
            f"run {run_id} is settling: it starts nothing new anyway, so there is nothing to pause"
        )
    return _request(installation, run, Control.PAUSE, by, why)


def resume(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Ask a paused run to go on. Raises InputError, RefusedError; also where it is not paused."""
    run = _run_under_way(installation, run_id, Control.RESUME)
    if installation.active_requests(run.cluster, run_id).paused is None:
        raise RefusedError(
            f"run {run_id} is not paused; `counterpoise status {run_id}` says what it waits for"
        )
    return _request(installation, run, Control.RESUME, by, why)


def change_rate(
    installation: Installation, run_id: str, rate: str, *, by: Person, why: str
) -> ControlRequest:
    """Ask a run to copy at another rate from its next step on.

    More than what was approved is an approval, too. Raises InputError for an unusable rate,
    RefusedError as `check_grant` does.
    """
    run = _run_under_way(installation, run_id, Control.RATE)
    plan = installation.plan_of(run)
    wanted, action = _typed_rate(rate), Action.OPERATE
    if wanted > _approved_rate(installation, run_id):
        action = Action.APPROVE
        check_grant(installation, plan, by=by, requester=run.requester, rate=rate)
    check_may(installation, run.cluster, by, action)
    wanted = _usable_rate(installation, plan, rate)
    return _request(
        installation, run, Control.RATE, by, why, action=action, rate_bytes_per_second=wanted
    )


def _approved_rate(installation: Installation, run_id: str) -> int:
    rates = [
        approval.rate_bytes_per_second
        for approval in installation.ledger.approvals_of(run_id)
        if approval.decision is Decision.GRANTED
    ]
    return (rates[-1] or 0) if rates else 0


def cancel(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Ask a run to cancel what is in flight, to settle and to end as cancelled.

    Raises InputError, RefusedError.
    """
    run = _run_under_way(installation, run_id, Control.CANCEL)
    return _request(installation, run, Control.CANCEL, by, why)


def undo(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Cancel a run that somebody wants to undo; the undo plan, made after its end, is approved on
    its own. Raises InputError, RefusedError.
    """
    run = _run_under_way(installation, run_id, Control.UNDO)
    return _request(installation, run, Control.UNDO, by, why)


def note_undo(
    installation: Installation, run_id: str, dag_run_id: str, *, by: Person, why: str
) -> None:
    """Note, once, at an ended run that a Dag run makes the plan which takes back what it moved."""
    text = f"by {by.shown}: {required(why, 'why')}; Dag run {dag_run_id} makes the plan"
    journal = installation.ledger.journal(run_id)
    if not any((event.kind, event.text) == ("undo plan asked", text) for event in journal.events()):
        journal.event("undo plan asked", text)


def freeze(
    installation: Installation, cluster: str, *, until: str, by: Person, why: str
) -> ControlRequest:
    """Let no run there start, or submit anything, until then. Raises InputError, RefusedError."""
    installation.cluster(cluster)
    end = parse_until(until, installation.ledger.now())
    return _request_of(installation, cluster, Control.FREEZE, by, why, until=end)


def unfreeze(installation: Installation, cluster: str, *, by: Person, why: str) -> ControlRequest:
    """End a freeze. Raises InputError, and RefusedError where the cluster is not frozen."""
    installation.cluster(cluster)
    if installation.active_requests(cluster).frozen is None:
        raise RefusedError(f"cluster {cluster} is not frozen, so there is no freeze to end")
    return _request_of(installation, cluster, Control.UNFREEZE, by, why)


def release(
    installation: Installation, cluster: str, brokers: str, *, by: Person, why: str
) -> tuple[ControlRequest, ...]:
    """Let plans move replicas and leaders to brokers like `7,8` again.

    Raises InputError, and RefusedError where one of them is not kept empty: none is released then.
    """
    installation.cluster(cluster)
    broker_ids = sorted(set(read_broker_ids(limited(brokers, "brokers"), "brokers")))
    kept_empty = installation.active_requests(cluster).kept_empty
    if others := sorted(set(broker_ids) - kept_empty.keys()):
        there_are = join_ids([*kept_empty]) if kept_empty else "none"
        raise RefusedError(
            f"{list_brokers(others)} of {cluster} {verb(len(others), 'is', 'are')} not kept empty, "
            f"so there is nothing to release; kept empty: {there_are}"
        )
    return tuple(
        _request_of(installation, cluster, Control.RELEASE, by, why, broker_id=broker_id)
        for broker_id in broker_ids
    )


def _request(
    installation: Installation,
    run: Run,
    control: Control,
    by: Person,
    why: str,
    *,
    action: Action = Action.OPERATE,
    rate_bytes_per_second: int | None = None,
) -> ControlRequest:
    return _request_of(
        installation,
        run.cluster,
        control,
        by,
        why,
        action=action,
        run_id=run.run_id,
        rate_bytes_per_second=rate_bytes_per_second,
    )


def _request_of(
    installation: Installation,
    cluster: str,
    control: Control,
    by: Person,
    why: str,
    *,
    action: Action = Action.OPERATE,
    run_id: str | None = None,
    rate_bytes_per_second: int | None = None,
    until: datetime | None = None,
    broker_id: int | None = None,
) -> ControlRequest:
    """Record a request of somebody who may make it. Raises RefusedError, InputError."""
    check_may(installation, cluster, by, action)
    request = ControlRequest(
        cluster=cluster,
        run_id=run_id,
        control=control,
        by=by.recorded,
        why=required(why, "why"),
        at=installation.ledger.now(),
        rate_bytes_per_second=rate_bytes_per_second,
        until=until,
        broker_id=broker_id,
    )
    return installation.ledger.record_request(request)


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
    return _checked_rate(installation, plan, _typed_rate(rate))


def _typed_rate(rate: str) -> int:
    return parse_rate(limited(rate, "rate"), where="rate")


def _checked_rate(installation: Installation, plan: RebalancePlan, wanted: int) -> int:
    policy = installation.cluster(plan.cluster).policy
    access.check_rate(policy, wanted)
    if warning := rate_warning(plan, wanted, max_moves_at_once(policy.movement)):
        raise RefusedError(warning)
    return wanted


def _check_in_time(installation: Installation, run: Run) -> None:
    """Raise RefusedError for a yes to a plan for which people were asked too long ago."""
    until = answer_until(installation, run) if run.state is RunState.PROPOSED else None
    if until is not None and installation.ledger.now() >= until:
        raise RefusedError(
            f"the time to answer about run {run.run_id} ended at {format_moment(until)} (wait_for "
            "of the policy): make a new plan"
        )
