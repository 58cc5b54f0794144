"""Who is who, from the top of the file, and the lists of people in a policy.

    people: {alice: {airflow: ["2", alice], command_line: [asmith]}}
    groups: {sre: [alice, bob]}

A policy names people, "group:sre", and for `view` also "airflow-role:Viewer".
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import yaml

from counterpoise.errors import InputError
from counterpoise.model.person import AIRFLOW, GROUP, SYSTEM, People, name_key, normalized_name
from counterpoise.model.policy import (
    AIRFLOW_ROLE,
    Action,
    ApprovalPolicy,
    ApprovalRule,
    ClusterPolicy,
)
from counterpoise.model.request import Goal
from counterpoise.settings.sections import Section, texts
from counterpoise.units import format_bytes

# The key in the file, and the kind of account.
_ACCOUNTS: Final = {"airflow": AIRFLOW, "command_line": SYSTEM}
_MISSPELT_PREFIX: Final = re.compile(r"(groups?|airflow[-_ ]?roles?|roles?) *:", re.IGNORECASE)

# Whatever these plan, they copy replicas; fewer replicas are what two people approve.
_COPYING_GOALS: Final = frozenset(
    {Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.REPAIR, Goal.REPLICATION_FACTOR}
)


def read_people(top: Section) -> People:
    """Return who is behind which account, and the groups; both sections may be absent."""
    accounts: dict[str, str] = {}
    if listed := top.section("people"):
        spellings: dict[str, str] = {}
        for key in listed.names():
            name = _name(listed, key, spellings)
            _read_accounts(listed.section(key), name, accounts)
    return People(accounts, _read_groups(top.section("groups")))


def _name(listed: Section, key: str, spellings: dict[str, str]) -> str:
    """Return a name as the ledger writes it; complain of one that is another one's, or unusable."""
    try:
        name = _one_name(key, "a name of people")
    except InputError as error:
        listed.complain(key, str(error))
        return key
    if earlier := spellings.get(name_key(name)):
        listed.complain(key, f"people: {key!r} and {earlier!r} are the same name; list it once")
    spellings[name_key(name)] = key
    return name


def _read_accounts(section: Section | None, name: str, accounts: dict[str, str]) -> None:
    if section is None or not section.is_mapping:
        return
    for key, kind in _ACCOUNTS.items():
        account_ids: tuple[str, ...] = ()
        for account_id in section.value(key, _account_ids, account_ids):
            account = f"{kind}:{account_id}"
            if accounts.get(account, name) != name:
                section.complain(
                    key,
                    f"people: {key} {account_id!r} belongs to {accounts[account]} and to {name}; "
                    "an account is one person",
                )
            accounts[account] = name
    if not section.names():
        section.complain(None, f"people: {name} has no account; list airflow or command_line")
    section.finish()


def _account_ids(node: yaml.Node, name: str) -> tuple[str, ...]:
    account_ids = texts(node, name)
    if not account_ids:
        raise InputError(f"{name}: the list is empty; leave the key out")
    for account_id in account_ids:
        if normalized_name(account_id, where=name) != account_id:
            raise InputError(f"{name}: {account_id!r} has blanks that no account has")
    return account_ids


def _read_groups(section: Section | None) -> dict[str, tuple[str, ...]]:
    if section is None:
        return {}
    groups: dict[str, tuple[str, ...]] = {}
    nobody: tuple[str, ...] = ()
    for key in section.names():
        if not key.strip():
            section.complain(key, "groups: a group has an empty name")
        groups[key] = section.value(key, _members, nobody)
    return groups


def _members(node: yaml.Node, name: str) -> tuple[str, ...]:
    members = tuple(_one_name(text, f"group {name}") for text in texts(node, name))
    if not members:
        raise InputError(f"group {name}: names nobody")
    return members


def _one_name(text: str, where: str) -> str:
    name = normalized_name(text, where=where)
    if _MISSPELT_PREFIX.match(name):
        raise InputError(f"{where}: {name!r} is no person; write the person's name")
    return name


def approvers(node: yaml.Node, name: str) -> tuple[str, ...]:
    return tuple(_entry(text, name, with_roles=False) for text in texts(node, name))


def named_people(*, with_roles: bool = False) -> Callable[[yaml.Node, str], tuple[str, ...]]:
    """Return a reader of lists of people, groups and, `with_roles`, roles of Airflow."""

    def parse(node: yaml.Node, name: str) -> tuple[str, ...]:
        entries = tuple(_entry(text, name, with_roles=with_roles) for text in texts(node, name))
        if not entries:
            raise InputError(f"{name}: names nobody; leave the key out where everybody may")
        return entries

    return parse


def _entry(written: str, name: str, *, with_roles: bool) -> str:
    text = normalized_name(written, where=name)
    for prefix in (GROUP, AIRFLOW_ROLE):
        if text.startswith(prefix):
            if prefix == AIRFLOW_ROLE and not with_roles:
                raise InputError(
                    f"{name}: {text!r}: only pages can see the roles of Airflow, tasks and the "
                    "command line cannot, so only view may name them; name people or a group here"
                )
            return prefix + normalized_name(text.removeprefix(prefix), where=f"{name}: {prefix}")
    if _MISSPELT_PREFIX.match(text):
        raise InputError(
            f'{name}: {text!r} is unknown; write a name, "{GROUP}NAME", or for view '
            f'"{AIRFLOW_ROLE}NAME"'
        )
    return text


def check_policy(section: Section | None, policy: ClusterPolicy, people: People) -> None:
    """Complain where a policy names a group that there is not, or says one thing twice."""
    if section is None or not section.is_mapping:
        return
    access, approval = section.section("access"), section.section("approval")
    if access:
        for action in Action:
            _check_groups(access, action, getattr(policy.access, action), people)
    if approval is None:
        return
    _check_groups(approval, "approvers", policy.approval.approvers, people)
    if policy.access.approve and policy.approval.approvers:
        approval.complain(
            "approvers", "approvers and access: approve say the same; write access: approve only"
        )
    _check_two_people(approval, policy, people)
    _check_rules(approval, policy.approval)
    max_rate = policy.approval.max_rate_bytes_per_second
    if max_rate and policy.movement.rate_bytes_per_second > max_rate:
        approval.complain(
            "max_rate", "max_rate is less than the rate of movement, which approvers are offered"
        )


def _check_two_people(approval: Section, policy: ClusterPolicy, people: People) -> None:
    """Complain where two people have to approve, and the policy names one."""
    if not policy.approval.may_need_two_people or not policy.approvers:
        return
    names = {name_key(name) for entry in policy.approvers for name in people.names_in(entry)}
    if len(names) < 2:
        rules = {
            "critical": policy.approval.critical,
            "two_people_for_removals": policy.approval.two_people_for_removals,
            "two_people_above": policy.approval.two_people_above_bytes,
        }
        key = next(rule for rule, value in rules.items() if value)
        approval.complain(
            key,
            f"{key} asks for two people, but the policy names nobody but "
            f"{', '.join(policy.approvers)} to approve, so such a plan could never be approved; "
            "name another person",
        )


def _check_groups(part: Section, key: str, entries: tuple[str, ...], people: People) -> None:
    for entry in entries:
        group = entry.removeprefix(GROUP)
        if entry.startswith(GROUP) and group not in people.groups:
            known = ", ".join(sorted(people.groups)) or "none"
            part.complain(key, f"{key}: there is no group {group!r}; there are: {known}")
        elif entry in people.groups and entry not in people.accounts.values():
            part.complain(key, f'{key}: {entry!r} is a group; write "{GROUP}{entry}"')


# -- rules that approve without a person


def _check_rules(approval: Section, policy: ApprovalPolicy) -> None:
    """Complain of rules with one name, and of those that could approve no plan."""
    if policy.by_rule and policy.critical:
        approval.complain(
            "by_rule",
            "two people approve every plan of a critical cluster, so no rule could ever approve "
            "one; leave out by_rule or critical",
        )
    names = [rule.name for rule in policy.by_rule]
    for name in sorted({name for name in names if names.count(name) > 1}):
        approval.complain("by_rule", f"two rules are called {name}; the ledger names them")
    entries = approval.sections("by_rule")
    if len(entries) != len(policy.by_rule):  # of one of them something was complained already
        return
    for entry, rule in zip(entries, policy.by_rule, strict=True):
        if "windows" in entry.names() and not rule.windows:
            entry.complain("windows", "windows is empty; leave the key out for a rule at any time")
        for key, complaint in _complaints_of_rule(rule, policy):
            entry.complain(key if key in entry.names() else None, f"rule {rule.name}: {complaint}")


def _complaints_of_rule(rule: ApprovalRule, policy: ApprovalPolicy) -> Iterator[tuple[str, str]]:
    """Yield the key and what is wrong with it."""
    most = rule.copies_at_most_bytes
    for goal in rule.goals:
        if not most and goal in _COPYING_GOALS:
            yield (
                "goals",
                f"without copies_at_most it approves only what copies no replica, and no plan for "
                f"{goal} is such; give copies_at_most or leave out {goal}",
            )
        if goal == Goal.REMOVE_BROKERS and policy.two_people_for_removals:
            yield (
                "goals",
                f"two people approve {goal} (two_people_for_removals), so it could never approve "
                "that",
            )
    two_people_above = policy.two_people_above_bytes
    if two_people_above is not None and most > two_people_above:
        yield (
            "copies_at_most",
            f"two people approve what copies more than {format_bytes(two_people_above)} "
            "(two_people_above); write at most that",
        )
