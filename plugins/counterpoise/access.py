"""Who may do what: the one place that says so, for pages, Dag tasks and the command line.

    check_may(policy, person, Action.OPERATE)           # RefusedError, or nothing
    check_may_propose(policy, person)                   # the same, and somebody has to be known
    check_may_approve(policy, person, requester, ())    # four eyes
    check_rate(policy, 50_000_000)

An entry of `access` is `alice` (the account of that name, in Airflow or of the system),
`airflow:alice`, `system:alice` or, for `view`, `airflow-role:NAME`; groups are their members by
now. Names have to match exactly. Limits: Dags of Counterpoise may propose and nothing else;
`docs/security.md` has the table.
"""

from collections.abc import Collection, Iterable, Sequence

from counterpoise.errors import RefusedError
from counterpoise.model.person import (
    AIRFLOW_ROLE,
    KIND_NAMES,
    Person,
    accounts_of,
    count_of_one_kind,
)
from counterpoise.model.policy import Action, ClusterPolicy
from counterpoise.model.provider import profile_of
from counterpoise.model.words import pluralize
from counterpoise.units import format_rate


def named_entries(policy: ClusterPolicy, action: Action) -> tuple[str, ...]:
    """Return whom the policy names, groups as their members; () is everybody."""
    entries: tuple[str, ...] = getattr(policy.access, action)
    return entries


def check_may(
    policy: ClusterPolicy, person: Person, action: Action, *, roles: Collection[str] = ()
) -> None:
    """Raise RefusedError for somebody who may not do this; `roles` are theirs in Airflow."""
    is_propose = action is Action.PROPOSE
    if person.is_own_dag and is_propose:
        return
    if person.is_own_dag or person.is_rule or not (person.is_human or is_propose):
        raise RefusedError(f"{person.shown} may not {action}: that is for people")
    entries = named_entries(policy, action)
    accounts = (account for entry in entries for account in accounts_of(entry))
    has_role = any(f"{AIRFLOW_ROLE}{role}" in entries for role in roles)
    if entries and not has_role and person not in accounts:
        raise RefusedError(
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
    """Raise RefusedError for somebody who may not propose, and for somebody unknown where the
    requester may not approve: whoever sends an event over REST may be an approver.
    """
    check_may(policy, requester, Action.PROPOSE)
    _check_known(policy, requester)


def _check_known(policy: ClusterPolicy, requester: Person) -> None:
    is_known = requester.is_human or requester.is_own_dag
    if not is_known and not policy.requester_may_approve:
        raise RefusedError(
            f"nobody knows who requests this plan: Airflow says no more than {requester.shown}, "
            "and the policy asks for another person's approval than the requester's. Start "
            "kafka_rebalance by its form, or with `counterpoise propose`"
        )


# -- who may still approve a plan


def check_may_approve(
    policy: ClusterPolicy, person: Person, requester: Person, approved_by: Iterable[Person] = ()
) -> None:
    """Raise RefusedError for somebody who may not approve, and for the requester, or one of those
    whose approval stands, where the policy asks for another person.
    """
    check_may(policy, person, Action.APPROVE)
    for other, what in _others(policy, requester, approved_by).items():
        another = f"another {KIND_NAMES[other.kind]} has to approve it"
        if person.is_same(other):
            raise RefusedError(f"{person.shown} {what} this plan, so {another}")
        if person.kind is not other.kind:
            raise RefusedError(
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
