"""Who may do what, and whose yes counts: the one place that says so, for pages, Dag tasks and the
command line.

    check_may(policy, person, Action.OPERATE)           # MayNotError, or nothing
    check_may_propose(policy, person)                   # the same, and somebody has to be known
    check_may_approve(policy, person, requester, ())    # four eyes
    standing_approvals(policy, run, approvals, now, needed=2)   # those that count now
    check_granted(policy, run, plan, approvals, now)            # when the run starts
    check_rate(policy, 50_000_000)

Nothing is believed of an earlier check: people have to be in the policy each time.

An entry of `access` is `alice` (the account of that name, in Airflow or of the system),
`airflow:alice`, `system:alice` or, for `view`, `airflow-role:NAME`; groups are their members by
now. Names have to match exactly. Limits: Dags of Counterpoise may propose and nothing else;
`docs/security.md` has the table.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import takewhile

from counterpoise.errors import MayNotError, NotApprovedError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import (
    AIRFLOW_ROLE,
    KIND_NAMES,
    Person,
    accounts_of,
    count_of_one_kind,
)
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action, ApprovalPolicy, ClusterPolicy
from counterpoise.model.provider import profile_of
from counterpoise.model.run import Run, RunState
from counterpoise.model.words import pluralize
from counterpoise.units import format_bytes, format_moment, format_rate


def named_entries(policy: ClusterPolicy, action: Action) -> tuple[str, ...]:
    """Return whom the policy names, groups as their members; () is everybody."""
    entries: tuple[str, ...] = getattr(policy.access, action)
    return entries


def check_may(
    policy: ClusterPolicy, person: Person, action: Action, *, roles: Collection[str] = ()
) -> None:
    """Raise MayNotError for somebody who may not do this; `roles` are theirs in Airflow."""
    is_propose = action is Action.PROPOSE
    if person.is_own_dag and is_propose:
        return
    if person.is_own_dag or person.is_rule or not (person.is_human or is_propose):
        raise MayNotError(f"{person.shown} may not {action}: that is for people")
    entries = named_entries(policy, action)
    accounts = (account for entry in entries for account in accounts_of(entry))
    has_role = any(f"{AIRFLOW_ROLE}{role}" in entries for role in roles)
    if entries and not has_role and person not in accounts:
        raise MayNotError(
            f"{person.shown} may not {action} here; the policy names {', '.join(entries)}"
        )


def may(
    policy: ClusterPolicy, person: Person, action: Action, *, roles: Collection[str] = ()
) -> bool:
    """Return whether `check_may` refuses nothing."""
    try:
        check_may(policy, person, action, roles=roles)
    except RefusedError:
        return False
    return True


def check_provider(policy: ClusterPolicy, cluster: str) -> None:
    """Raise RefusedError for a cluster whose provider lets nobody else reassign partitions."""
    profile = profile_of(policy.provider)
    if not profile.may_execute:
        raise RefusedError(
            f"cluster {cluster} is on {profile.name}: {profile.why_no_runs}. If it is not there, "
            "correct provider in its policy (clusters.yaml)"
        )


def check_may_propose(policy: ClusterPolicy, requester: Person) -> None:
    """Raise MayNotError for somebody who may not propose, and for somebody unknown where the
    requester may not approve: whoever sends an event over REST may be an approver.
    """
    check_may(policy, requester, Action.PROPOSE)
    _check_known(policy, requester)


def _check_known(policy: ClusterPolicy, requester: Person) -> None:
    is_known = requester.is_human or requester.is_own_dag
    if not is_known and not policy.requester_may_approve:
        raise MayNotError(
            f"nobody knows who requests this plan: Airflow says no more than {requester.shown}, "
            "and the policy asks for another person's approval than the requester's. Start "
            "kafka_rebalance by its form, or with `counterpoise propose`"
        )


# -- who may still approve a plan


def check_may_approve(
    policy: ClusterPolicy, person: Person, requester: Person, approved_by: Iterable[Person] = ()
) -> None:
    """Raise MayNotError for somebody who may not approve, and for the requester, or one of those
    whose approval stands, where the policy asks for another person.
    """
    check_may(policy, person, Action.APPROVE)
    for other, what in _others(policy, requester, approved_by).items():
        another = f"another {KIND_NAMES[other.kind]} has to approve it"
        if person.is_same(other):
            raise MayNotError(f"{person.shown} {what} this plan, so {another}")
        if person.kind is not other.kind:
            raise MayNotError(
                f"{what} by {other.in_full}: {another}. Whether {person.in_full} is somebody else "
                "is not known"
            )


def _others(
    policy: ClusterPolicy, requester: Person, approved_by: Iterable[Person]
) -> dict[Person, str]:
    """Return whom the next approver has to differ from, and what each did."""
    others = dict.fromkeys(approved_by, "approved")
    if not policy.requester_may_approve:
        _check_known(policy, requester)
        others[requester] = "requested"
    return {person: what for person, what in others.items() if person.is_human}


def people_to_ask(
    policy: ClusterPolicy, requester: Person, approved_by: Sequence[Person] = (), *, needed: int = 1
) -> tuple[str, ...]:
    """Return the entries of those who may still approve; () where everybody may.

    Raises RefusedError where the policy names people, and fewer of them are left than have to.
    """
    entries = named_entries(policy, Action.APPROVE)
    others = _others(policy, requester, approved_by)
    if not entries:
        return ()

    def may_still(account: Person) -> bool:
        try:
            check_may_approve(policy, account, requester, approved_by)
        except RefusedError:
            return False
        return True

    left = tuple(entry for entry in entries if any(map(may_still, accounts_of(entry))))
    missing = max(1, needed - len(approved_by))
    if count_of_one_kind(left) >= missing:
        return left
    done = "".join(f"{what} by {person.in_full}: " for person, what in others.items())
    whom = f"other {KIND_NAMES[next(iter(others)).kind]}" if others else "person"
    raise RefusedError(
        f"{done}it takes a yes of {pluralize(missing, whom)}, but the policy names nobody but "
        f"{', '.join(entries)} to approve, of whom {', '.join(left) or 'nobody'} may; add an "
        "approver to the policy"
    )


def check_somebody_may_approve(policy: ClusterPolicy, requester: Person, *, needed: int) -> None:
    """Raise RefusedError for a plan that nobody may approve, before it waits for that: neither as
    many people as it needs, nor a rule of the policy.
    """
    if needed > 1 or not policy.approval.automatic:
        people_to_ask(policy, requester, needed=needed)


def check_may_reject(policy: ClusterPolicy, run: Run, person: Person) -> None:
    """Raise MayNotError for somebody who may not say no.

    The requester may withdraw their plan, and whoever may cancel a run may say no to one that is
    approved and has not started, or has halted.
    """
    if person.is_same(run.requester):
        return
    is_cancel = run.state in (RunState.APPROVED, RunState.HALTED)
    if not (is_cancel and may(policy, person, Action.OPERATE)):
        check_may(policy, person, Action.APPROVE)


# -- whose yes counts


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
        raise approval_does_not_hold(last, error) from None
    if 1 + len(others) < needed:
        raise NotApprovedError(
            f"plan {run.fingerprint} {why_two_people(plan, policy.approval)}, so {needed} "
            f"different people have to approve it; until now {last.person.in_full} did. Another "
            "one has to approve it too (`counterpoise approve PLAN --rate RATE --reason TEXT`)"
        )
    return last


def approval_does_not_hold(approval: Approval, error: RefusedError) -> NotApprovedError:
    """Return the error of a yes that counted when it was given."""
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


# -- at which rate


def highest_rate(policy: ClusterPolicy) -> int | None:
    """Return the highest rate that anybody may approve or request; None without a limit."""
    limits = (
        policy.approval.max_rate_bytes_per_second,
        policy.movement.link_capacity_bytes_per_second,
    )
    return min((limit for limit in limits if limit is not None), default=None)


def check_rate(policy: ClusterPolicy, rate_bytes_per_second: int) -> None:
    """Raise RefusedError for a rate that nobody may approve."""
    rate = format_rate(rate_bytes_per_second)
    max_rate = policy.approval.max_rate_bytes_per_second
    if max_rate is not None and rate_bytes_per_second > max_rate:
        raise RefusedError(
            f"rate {rate} is more than the policy allows: max_rate is {format_rate(max_rate)}"
        )
    capacity = policy.movement.link_capacity_bytes_per_second
    if capacity is not None and rate_bytes_per_second > capacity:
        raise RefusedError(
            f"rate {rate} is more than a broker's network carries: link_capacity of the policy is "
            f"{format_rate(capacity)}"
        )
