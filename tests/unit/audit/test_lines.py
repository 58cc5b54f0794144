"""What each rule gives to paste is executed on real brokers, or it is said why it cannot be."""

from typing import Final

import pytest

from counterpoise.audit import RULES
from counterpoise.audit.rule import Rule
from tests.support import audit_lines as lines
from tests.support.audits import findings_of
from tests.support.rule_pairs import PAIRS

TABLES: Final = (
    lines.IN_FILES,
    lines.BY_COMMANDS,
    lines.ONE_BY_ONE,
    lines.FOR_CLIENTS,
    tuple(lines.SHOWN),
    tuple(lines.SHOWN_ANYHOW),
    lines.WITH_A_PLAN,
    tuple(lines.NOT_EXECUTED),
)


def test_every_rule_is_in_one_table() -> None:
    named = [rule for table in TABLES for rule in table]
    assert sorted(named) == sorted(rule.id for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_what_is_not_executed_has_nothing_that_a_shell_would_do(rule: Rule) -> None:
    if rule.id not in lines.NOT_EXECUTED:
        return
    for finding in findings_of(rule.id, PAIRS[rule.id][0]()):
        done = [line for line in finding.fix if not line.startswith("#")]
        assert not [line for line in done if not line.startswith("bootstrap.servers=")]
