"""Rules that approve by themselves, as the settings have them: off by default, and one that could
never approve anything is refused with its line.
"""

import pytest

from counterpoise.errors import ConfigurationError
from counterpoise.model.policy import ApprovalRule, MaintenanceWindow
from counterpoise.settings import parse_settings
from counterpoise.units import parse_duration

TEXT = """\
clusters:
  demo:
    connection: kafka_demo
    policy:
      approval:
"""


def rules(approval: str) -> tuple[ApprovalRule, ...]:
    text = TEXT + "".join(f"        {line}\n" for line in approval.splitlines())
    return parse_settings(text, where="clusters.yaml").clusters["demo"].policy.approval.by_rule


def test_no_rule_is_the_default_and_each_says_its_goals() -> None:
    assert rules("wait_for: 2h") == ()
    night = MaintenanceWindow("0 2 * * *", parse_duration("4h"))
    assert rules(
        "by_rule:\n"
        "  - {name: leaders, goals: [leaders, demote-brokers]}\n"
        "  - name: small\n"
        "    goals: [rebalance]\n"
        "    copies_at_most: 10GB\n"
        "    windows: [{starts: '0 2 * * *', lasts: 4h}]\n"
    ) == (
        ApprovalRule("leaders", ("leaders", "demote-brokers")),
        ApprovalRule("small", ("rebalance",), 10**10, (night,)),
    )


@pytest.mark.parametrize(
    ("approval", "line", "why"),
    [
        ("by_rule: [{goals: [leaders]}]", 6, "name"),
        ("by_rule: [{name: all}]", 6, "goals"),
        ("by_rule: [{name: all, goals: []}]", 6, "names no goal"),
        ("by_rule: [{name: all, goals: [everything]}]", 6, "'everything' is unknown"),
        ("by_rule: [{name: all, goals: [imported]}]", 6, "'imported' is unknown"),
        ("by_rule: [{name: 'a b', goals: [leaders]}]", 6, "no name of a rule"),
        ("by_rule: [{name: a, goals: [rebalance], copies_at_most: 0B}]", 6, "out of range"),
        ("by_rule:\n  - {name: a, goals: [add-brokers]}", 7, "no plan for add-brokers is such"),
        (
            "by_rule:\n  - {name: a, goals: [leaders]}\n  - {name: a, goals: [repair]}",
            6,
            "called a",
        ),
        ("critical: yes\nby_rule: [{name: a, goals: [leaders]}]", 7, "critical cluster"),
        (
            "two_people_above: 1GB\nby_rule:\n  - name: a\n    goals: [rebalance]\n"
            "    copies_at_most: 2GB",
            10,
            "two people approve what copies more than 1.0 GB",
        ),
        (
            "by_rule:\n  - name: a\n    goals: [leaders]\n"
            "    windows: [{starts: '0 0 31 2 *', lasts: 1h}]",
            9,
            "never comes true",
        ),
        (
            "by_rule:\n  - name: a\n    goals: [leaders]\n"
            "    windows: [{starts: '0 2 * * *', lasts: 0h}]",
            9,
            "lasts",
        ),
        (
            "by_rule:\n  - {name: a, goals: [leaders], windows: []}",
            7,
            "windows is empty",
        ),
    ],
)
def test_a_rule_that_can_never_approve_is_refused(approval: str, line: int, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        rules(approval)
    assert any(
        complaint.startswith(f"line {line}: ") and why in complaint
        for complaint in refused.value.complaints
    ), refused.value
