"""An audit as JUnit XML, for pages of CI systems: a test case for each rule.

    audit_junit(seen, failing)      # <testsuites><testsuite name="audit of demo" ...

A rule fails with the findings that make the command fail, says in its output what else it found,
and is skipped where it could not run, or where everything that it found follows from a failure of
another rule.
"""

from collections.abc import Collection
from typing import Final
from xml.etree import ElementTree

from counterpoise.model.finding import ReportedFinding
from counterpoise.model.finding_groups import FindingGroup
from counterpoise.model.json_values import iso_time
from counterpoise.model.safe_text import without_control_characters
from counterpoise.model.severity import Severity
from counterpoise.views.audit import AuditView

_CLASS: Final = "counterpoise.audit"


def audit_junit(seen: AuditView, failing: Collection[ReportedFinding]) -> str:
    """Return the document; `failing` are the findings for which the command fails."""
    report = seen.report
    keys = {reported.finding.key for reported in failing}
    groups: dict[str, list[FindingGroup]] = {}
    for group in seen.groups:
        groups.setdefault(group.rule, []).append(group)
    explained = {one.finding.rule: one.finding.causes for one in report.open if one.finding.causes}
    skipped = {
        **{rule: f"follows from {', '.join(causes)}" for rule, causes in explained.items()},
        **{rule: f"not applicable: {reason}" for rule, reason in report.not_applicable.items()},
        **{rule: f"not known: {reason}" for rule, reason in report.unknown.items()},
    }
    waived = {reported.finding.rule for reported in report.waived}
    rules = sorted({*report.passed, *groups, *skipped, *waived})
    cases = [_case(rule, seen, groups.get(rule, []), skipped.get(rule, ""), keys) for rule in rules]
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=f"audit of {report.cluster}",
        timestamp=iso_time(report.audited_at),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        errors="0",
    )
    suite.extend(cases)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    rule: str,
    seen: AuditView,
    groups: list[FindingGroup],
    skipped: str,
    failing: Collection[tuple[str, str]],
) -> ElementTree.Element:
    area = seen.texts[rule].area if rule in seen.texts else ""
    case = ElementTree.Element("testcase", classname=f"{_CLASS}.{area}".rstrip("."), name=rule)
    failed = [
        group
        for group in groups
        if any(reported.finding.key in failing for reported in group.findings)
    ]
    others = [group for group in groups if group not in failed]
    if failed:
        worst = failed[0]
        message = f"{worst.severity}: {worst.findings[0].finding.summary}"
        failure = ElementTree.SubElement(
            case, "failure", type=str(worst.severity), message=_text(message)
        )
        failure.text = _text("\n\n".join(map(_details, failed)))
    elif skipped:
        ElementTree.SubElement(case, "skipped", message=_text(skipped))
    known = [group for group in others if group.severity is not Severity.UNKNOWN]
    if known:
        output = ElementTree.SubElement(case, "system-out")
        output.text = _text("\n\n".join(map(_details, known)))
    return case


def _details(group: FindingGroup) -> str:
    """Return each finding in a line, what follows from them, and the lines to paste."""
    lines = [
        f"{reported.finding.severity}: {reported.finding.subject}: {reported.finding.summary}"
        for reported in group.findings
    ]
    lines += [f"  and so {one.rule}: {one.subjects_in_words}" for one in group.consequences]
    return "\n".join([*lines, *(f"    {line}" for line in group.fix)])


def _text(text: str) -> str:
    """Return the text with its line breaks, without characters that XML cannot have."""
    return without_control_characters(text)
