"""Rules that approve by themselves, as the settings have them: off by default, and one that could
never approve anything is refused with its line.
"""

import pytest

from counterpoise.errors import ConfigurationError
from counterpoise.model.policy import AutomaticApproval, MaintenanceWindow
from counterpoise.settings import parse_settings
from counterpoise.units import parse_duration

TEXT = """\
clusters:
  demo:
    connection: kafka_demo
    policy:
      approval:
"""


def rules(approval: str) -> tuple[AutomaticApproval, ...]:
    text = TEXT + "".join(f"        {line}\n" for line in approval.splitlines())
    return parse_settings(text, where="clusters.yaml").clusters["demo"].policy.approval.automatic


def test_no_rule_is_the_default_and_each_says_its_goal() -> None:
    assert rules("wait_for: 2h") == ()
    night = MaintenanceWindow("0 2 * * *", parse_duration("4h"))
    assert rules(
        "automatic:\n"
        "  - goal: leaders\n"
        "  - goal: rebalance\n"
        "    max_bytes_per_day: 10GB\n"
        "    windows: [{starts: '0 2 * * *', lasts: 4h}]\n"
    ) == (
        AutomaticApproval("leaders"),
        AutomaticApproval("rebalance", 10**10, (night,)),
    )


@pytest.mark.parametrize(
    ("approval", "line", "why"),
    [
        ("automatic: [{max_bytes_per_day: 1GB}]", 6, "goal"),
        ("automatic: [{goal: everything}]", 6, "'everything' is none of add-brokers"),
        ("automatic: [{goal: imported}]", 6, "'imported' is none of"),
        ("automatic: [{goal: rebalance, max_bytes_per_day: 0B}]", 6, "out of range"),
        (
            "automatic:\n  - goal: add-brokers",
            7,
            "each plan for add-brokers copies replicas, so without max_bytes_per_day",
        ),
        ("automatic:\n  - goal: leaders\n  - goal: leaders", 8, "two entries for leaders"),
        ("critical: yes\nautomatic: [{goal: leaders}]", 7, "critical cluster"),
        (
            "automatic:\n  - goal: leaders\n    windows: [{starts: '0 0 31 2 *', lasts: 1h}]",
            8,
            "never comes true",
        ),
        (
            "automatic:\n  - goal: leaders\n    windows: [{starts: '0 2 * * *', lasts: 0h}]",
            8,
            "lasts",
        ),
        ("automatic:\n  - {goal: leaders, windows: []}", 7, "windows is empty"),
    ],
)
def test_a_rule_that_can_never_approve_is_refused(approval: str, line: int, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        rules(approval)
    assert any(
        complaint.startswith(f"line {line}: ") and why in complaint
        for complaint in refused.value.complaints
    ), refused.value
