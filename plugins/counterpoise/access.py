"""Who may do what: the one place that says so, for pages, Dag tasks and the command line.

    check_may(policy, people, person, Action.OPERATE)      # the person who counts, or RefusedError
    check_may_propose(policy, people, person)              # the same, and somebody has to be known
    check_requester(policy, people, approver, requester)   # four eyes
    check_approvers(policy, people, approvals, requester)  # again, when the run starts
    check_rate(policy, 50_000_000)

Where the policy names people, only verified accounts count: what somebody claims to be is not
looked at. Where it names nobody, a claimed name is believed, and shown as claimed. Limits: Dags of
Counterpoise may propose and nothing else; `docs/security.md` has the table.
"""

from collections.abc import Collection, Sequence

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.model.approval import Approval
from counterpoise.model.person import DAG, People, Person, name_key
from counterpoise.model.policy import Action, ClusterPolicy
from counterpoise.model.provider import profile_of
from counterpoise.model.setting import AIRFLOW_ROLE
from counterpoise.units import format_rate


def named_entries(policy: ClusterPolicy, action: Action) -> tuple[str, ...]:
    """Return whom the policy names, as the file writes them; () is everybody."""
    entries: tuple[str, ...] = getattr(policy.access, action)
    return entries


def named_people(policy: ClusterPolicy, people: People, action: Action) -> tuple[str, ...]:
    """Return the names of all whom the policy names, those of its groups included."""
    entries = named_entries(policy, action)
    names = (
        name
        for entry in entries
        for name in people.names_in(entry)
        if not entry.startswith(AIRFLOW_ROLE)
    )
    return tuple(dict.fromkeys(names))


def check_may(
    policy: ClusterPolicy,
    people: People,
    person: Person,
    action: Action,
    *,
    roles: Collection[str] = (),
) -> Person:
    """Return the person who counts: without the name that is only claimed, where people are named.

    `roles` are those that Airflow gives the account. Raises RefusedError.
    """
    if is_own_dag(person):
        if action is not Action.PROPOSE:
            raise RefusedError(f"{person.shown} may only propose: to {action} is for people")
        return person
    if person.is_rule:
        raise RefusedError(f"{person.shown} is nobody: to {action} is for people")
    entries = named_entries(policy, action)
    if not entries:
        is_listed = person.account in people.accounts and not person.is_claimed
        return people.verified(person) if is_listed else person
    counting = people.verified(person)
    names = named_people(policy, people, action)
    has_role = any(f"{AIRFLOW_ROLE}{role}" in entries for role in roles)
    if has_role or _is_named(people, counting, names):
        return counting
    raise RefusedError(_why_not(person, counting, action, entries))


def check_provider(policy: ClusterPolicy, cluster: str) -> None:
    """Raise RefusedError for a cluster whose provider lets nobody else reassign partitions."""
    profile = profile_of(policy.provider)
    if not profile.may_execute:
        raise RefusedError(
            f"cluster {cluster} is on {profile.name}: {profile.why_no_runs}. If it is not there, "
            "correct provider in its policy (clusters.yaml)"
        )


def check_may_propose(policy: ClusterPolicy, people: People, person: Person) -> Person:
    """Return the person who counts, as `check_may` does for PROPOSE.

    Where the requester may not approve, somebody has to be known as the requester: whoever sends an
    event over REST, and says it is somebody else's, may be an approver. Raises RefusedError.
    """
    counting = check_may(policy, people, person, Action.PROPOSE)
    is_unknown = counting.is_claimed and not counting.account
    if is_unknown and not policy.requester_may_approve:
        raise RefusedError(
            f"nobody knows who requests this plan: Airflow does not say who sent the event of "
            f"{counting.shown}, and the policy asks for another person's approval than the "
            "requester's. Start kafka_rebalance by its form, or with `counterpoise propose`"
        )
    return counting


def may(
    policy: ClusterPolicy,
    people: People,
    person: Person,
    action: Action,
    *,
    roles: Collection[str] = (),
) -> bool:
    """Return whether `check_may` refuses nothing."""
    try:
        check_may(policy, people, person, action, roles=roles)
    except RefusedError:
        return False
    return True


def is_own_dag(person: Person) -> bool:
    """Return whether this is a Dag of Counterpoise, by an event whose source Airflow knows."""
    return person.account.startswith(f"{DAG}:") and not person.is_claimed


def check_requester(
    policy: ClusterPolicy, people: People, approver: Person, requester: Person
) -> None:
    """Raise RefusedError where somebody approves what they requested, and the policy forbids it."""
    if policy.requester_may_approve or not people.may_be_one(approver, requester):
        return
    raise RefusedError(
        f"{approver.shown} requested this plan, so another person has to approve it "
        "(requester_may_approve is no, as is the default where the policy names who may approve)"
    )


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


def check_approvers(
    policy: ClusterPolicy,
    people: People,
    approvals: Sequence[Approval],
    requester: Person,
    *,
    needed: int = 1,
) -> None:
    """Check, when a run starts, whose yes is in force: the policy may have changed since.

    `approvals` are oldest first; the rate of the last one counts. Raises NotApprovedError where
    that one may not be given any more, or where fewer than `needed` people are left.
    """
    *earlier, last = approvals
    try:
        approvers = [_approver_of(policy, people, last, requester)]
        check_rate(policy, last.rate_bytes_per_second or 0)
    except RefusedError as error:
        raise NotApprovedError(
            f"the approval by {last.person.shown} does not hold any more: {error}. Somebody who "
            "may has to approve the plan, or reject it"
        ) from None
    for approval in earlier:
        try:
            approver = _approver_of(policy, people, approval, requester)
        except RefusedError:
            continue
        if not any(people.may_be_one(approver, other) for other in approvers):
            approvers.append(approver)
    if len(approvers) < needed:
        raise NotApprovedError(
            f"{needed} different people have to approve this plan; of those who did, only "
            f"{', '.join(approver.shown for approver in approvers)} may, so another person has to"
        )


def _approver_of(
    policy: ClusterPolicy, people: People, approval: Approval, requester: Person
) -> Person:
    approver = check_may(policy, people, approval.person, Action.APPROVE)
    check_requester(policy, people, approver, requester)
    return approver


def people_to_ask(
    policy: ClusterPolicy, people: People, requester: Person, approved_by: Sequence[Person] = ()
) -> tuple[str, ...]:
    """Return the names of those who may still approve; () where everybody may.

    Raises RefusedError when the policy names people and nobody of them is left.
    """
    names = named_people(policy, people, Action.APPROVE)
    if not names:
        return ()
    excluded = list(approved_by) if policy.requester_may_approve else [*approved_by, requester]
    others = tuple(
        name
        for name in names
        if not any(people.may_be_one(Person(name), person) for person in excluded)
    )
    if others:
        return others
    shown = " and ".join(dict.fromkeys(person.shown for person in excluded))
    raise RefusedError(
        f"another person than {shown} has to approve this plan, but the policy names nobody but "
        f"{', '.join(named_entries(policy, Action.APPROVE))}; add an approver to the policy"
    )


def check_can_be_approved(
    policy: ClusterPolicy,
    people: People,
    requester: Person,
    *,
    needed: int,
    approved_by: Sequence[Person] = (),
) -> tuple[str, ...]:
    """Return what `people_to_ask` does; raise RefusedError also where fewer people are left than
    have to approve.
    """
    others = people_to_ask(policy, people, requester, approved_by)
    if not others or len(others) + len(approved_by) >= needed:
        return others
    raise RefusedError(
        f"{needed} different people have to approve this plan, but of those whom the policy names "
        f"only {', '.join(others)} may; add an approver to the policy"
    )


def check_somebody_may_approve(
    policy: ClusterPolicy, people: People, requester: Person, *, needed: int
) -> None:
    """Raise RefusedError for a plan that nobody may approve, before it waits for that: neither as
    many people as it needs, nor a rule of the policy.
    """
    if needed > 1 or not policy.approval.by_rule:
        check_can_be_approved(policy, people, requester, needed=needed)


def _is_named(people: People, person: Person, names: Sequence[str]) -> bool:
    """Return whether a person is among names: those of `people:` however they are spelt, while the
    id of an account that is not listed has to match exactly.
    """
    if person.is_claimed:
        return False
    is_listed = not person.account or person.account in people.accounts
    if is_listed:
        return name_key(person.name) in map(name_key, names)
    return person.name in names


def _why_not(person: Person, counting: Person, action: Action, entries: Sequence[str]) -> str:
    shown = counting.shown
    if person.is_claimed:
        shown = f"{person.shown} counts as {counting.name}, who"
    return f"{shown} may not {action} here; the policy names {', '.join(entries)}"
