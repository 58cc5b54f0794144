"""What is true of every rule, and of the file that is made of them."""

import inspect
import re
from collections import Counter
from pathlib import Path

from counterpoise.audit import RULES, RULES_BY_AREA
from dev.rule_book import main, rule_book

ROOT = Path(__file__).parents[3]


def test_the_file_is_what_the_rules_say(tmp_path: Path) -> None:
    assert main([str(tmp_path / "book.md")]) == 0
    assert (ROOT / "docs/audit-rules.md").read_text() == (tmp_path / "book.md").read_text(), (
        "run: make docs-audit"
    )


def test_every_rule_has_a_name_of_its_own_and_words() -> None:
    assert [name for name, count in Counter(rule.id for rule in RULES).items() if count > 1] == []
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
        assert all(len(words) > 10 for words in (rule.title, rule.why, rule.how, rule.source)), (
            rule.id
        )
        assert all(re.fullmatch(r"[a-z_]+", name) for name in rule.thresholds), rule.id


def test_thresholds_are_the_arguments_of_the_check() -> None:
    for rule in RULES:
        arguments = set(inspect.signature(rule.check).parameters)
        assert arguments == {"facts", *rule.thresholds}, rule.id


def test_every_area_has_rules_and_a_chapter() -> None:
    book = rule_book()
    for area, rules in RULES_BY_AREA.items():
        assert rules, area
        assert f"## {area.capitalize()}\n" in book
