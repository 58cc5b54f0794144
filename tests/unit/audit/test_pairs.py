"""Each rule of the audit fires on one cluster, and is silent on another that is a step away.

A new rule needs a line in PAIRS (tests/support/rule_pairs.py): without one this fails.
"""

import re

import pytest

from counterpoise.audit import RULES
from counterpoise.audit.rule import Rule
from counterpoise.model.severity import Severity
from counterpoise.services.audits import findings_of as planned_findings_of
from tests.support.audits import findings_of
from tests.support.rule_pairs import PAIRS


def test_every_rule_has_a_pair() -> None:
    assert sorted(PAIRS) == sorted(rule.id for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_fires_on_one_and_is_silent_a_step_away(rule: Rule) -> None:
    assert rule.id in PAIRS, f"{rule.id} has no pair of clusters: add a line to PAIRS"
    fires, near = PAIRS[rule.id]
    found = findings_of(rule.id, fires())
    assert found
    if rule.severity is not Severity.UNKNOWN:
        assert all(finding.severity is not Severity.UNKNOWN for finding in found)
    assert findings_of(rule.id, near()) == ()


OF_BALANCE = [rule for rule in RULES if rule.improves]


@pytest.mark.parametrize("rule", OF_BALANCE, ids=lambda rule: rule.id)
def test_a_rule_about_balance_fires_where_there_is_a_plan(rule: Rule) -> None:
    fires, _ = PAIRS[rule.id]
    found = [one for one in planned_findings_of(fires()) if one.rule == rule.id]
    assert found
    assert all("; a plan copies" in one.summary for one in found)


COMMANDS = re.compile(r"kafka-[a-z-]+\.sh |counterpoise |airflow |echo ")
PLACEHOLDER = re.compile(r"\b(?!PLAINTEXT|SASL|SSL|CLIENT|BOOTSTRAP)[A-Z]{2,}(?:[-_][A-Z]+)*\b")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_line_to_paste_is_whole_and_says_where_it_goes(rule: Rule) -> None:
    """A line without a value of its own is a comment: pasted as it is, it does nothing."""
    for finding in findings_of(rule.id, PAIRS[rule.id][0]()):
        place = ""
        for line in finding.fix:
            if line.startswith("#"):
                place = line
                continue
            assert not PLACEHOLDER.search(line), line
            if not COMMANDS.match(line):
                assert re.search(r"server\.properties|every client|policy", place), line
                assert place.endswith(":") or "put into the policy" in place, place
