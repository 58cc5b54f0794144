"""The section `audit` of a policy: read strictly, each complaint with its line; the report's lines
can be pasted.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity, Waiver
from counterpoise.reporting.policy_lines import policy_lines
from counterpoise.settings import parse_settings, read_settings

ROOT = Path(__file__).parents[2]
HEAD = "clusters:\n  demo:\n    connection: kafka\n    policy:\n      audit:\n"


def audit_of(lines: str) -> AuditPolicy:
    return parse_settings(HEAD + lines, where="clusters.yaml").clusters["demo"].policy.audit


def test_everything_that_can_be_said() -> None:
    lines = """\
        fails_at: critical
        controller_racks: {3001: a, 3002: b}
        thresholds:
          leaders-uneven: {most_percent_of_mean: 120}
        waivers:
          - rule: replication-factor-1
            subjects: ["topic scratch-*"]
            reason: scratch data
            until: 2027-01-31
          - {rule: quorum-static, reason: no time}
"""
    assert audit_of(lines) == AuditPolicy(
        thresholds={"leaders-uneven": {"most_percent_of_mean": 120}},
        waivers=(
            Waiver(
                "replication-factor-1",
                "scratch data",
                ("topic scratch-*",),
                datetime(2027, 1, 31, tzinfo=UTC),
            ),
            Waiver("quorum-static", "no time"),
        ),
        controller_racks={3001: "a", 3002: "b"},
        fails_at=Severity.CRITICAL,
    )


def test_nothing_said_is_the_default_and_the_example_is_sound() -> None:
    assert audit_of("        thresholds: {}\n") == AuditPolicy()
    assert (
        read_settings(ROOT / "config/clusters.yaml").clusters["example"].policy.audit
        == AuditPolicy()
    )


def test_what_the_example_has_as_comments_is_sound_too() -> None:
    text = (ROOT / "config/clusters.yaml").read_text()
    begin = text.index("      audit:")
    section = text[begin : text.index("# notify:")]
    uncommented = re.sub(r"thresholds: \{\} +# such as (.*)", r"thresholds: {\1}", section)
    lines = [re.sub(r"^        # ", "        ", line) for line in uncommented.splitlines()[1:]]
    policy = audit_of("\n".join(lines))
    assert policy.fails_at is Severity.CRITICAL
    assert set(policy.controller_racks) == {3001, 3002, 3003}
    assert policy.thresholds and policy.waivers


@pytest.mark.parametrize(
    "subject", ["topic orders", 'a "quoted\\" one', "x\n  y: z\x7f\x1b\u2028", "größe 😀", "#: [*]"]
)
def test_the_lines_of_the_report_can_be_pasted(subject: str) -> None:
    lines = policy_lines("leaders-uneven", [subject], {"most_percent_of_mean": 110})
    pasted = lines.replace("YYYY-MM-DD", "2027-01-31")
    document = "\n".join(f"      {line}" for line in pasted.splitlines())
    policy = (
        parse_settings(HEAD.removesuffix("      audit:\n") + document, where="pasted")
        .clusters["demo"]
        .policy
    )
    assert policy.audit.waivers[0].subjects == (subject,)
    assert policy.audit.thresholds == {"leaders-uneven": {"most_percent_of_mean": 110}}


def test_of_many_subjects_some_are_named_and_the_rest_counted() -> None:
    lines = policy_lines("replication-factor-1", [f"topic t{number}" for number in range(400)], {})
    assert "and 390 more" in lines
    assert (
        len(
            yaml.safe_load(lines.replace("YYYY-MM-DD", "2027-01-31"))["audit"]["waivers"][0][
                "subjects"
            ]
        )
        == 10
    )
