"""What makes a rule that approves by itself impossible: one that could never apply is refused.

approval: {by_rule: [{name: leaders, goals: [leaders, demote-brokers]}]}
"""

from collections.abc import Iterator
from typing import Final

from counterpoise.model.policy import ApprovalPolicy, ApprovalRule
from counterpoise.model.request import Goal
from counterpoise.settings.sections import Section
from counterpoise.units import format_bytes

# Whatever these plan, they copy replicas; fewer replicas are what two people approve.
_COPYING_GOALS: Final = frozenset(
    {Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.REPAIR, Goal.REPLICATION_FACTOR}
)


def check_rules(approval: Section, policy: ApprovalPolicy) -> None:
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
        for key, complaint in _complaints(rule, policy):
            entry.complain(key if key in entry.names() else None, f"rule {rule.name}: {complaint}")


def _complaints(rule: ApprovalRule, policy: ApprovalPolicy) -> Iterator[tuple[str, str]]:
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
