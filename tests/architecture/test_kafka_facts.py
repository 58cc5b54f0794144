"""docs/kafka-facts.md: each belief names its test, and each conformance test stands there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "docs" / "kafka-facts.md"
CONFORMANCE = ROOT / "tests" / "conformance"


def named_tests() -> list[str]:
    return re.findall(r"`(test_\w+\.py::test_\w+)`", FACTS.read_text())


def conformance_tests() -> list[str]:
    return [
        f"{path.name}::{node.name}"
        for path in sorted(CONFORMANCE.glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_every_belief_has_its_test_and_every_test_is_a_belief() -> None:
    tests = conformance_tests()
    assert len(tests) > 80
    assert sorted(named_tests()) == sorted(tests)


def test_every_line_of_a_belief_names_a_test() -> None:
    lines = [line for line in FACTS.read_text().splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith(("| belief", "| ---"))]
    assert [row for row in rows if not re.search(r"`test_\w+\.py::test_\w+` \|$", row)] == []
