"""The open findings of an audit as people read them: those of one rule together, causes first.

    for group in groups_of(report):
        group.subjects_in_words         # "28 topics: a, b, c, d, e and 23 more"
        group.consequences              # groups: what this broker's absence does

A finding that two groups explain stands in both. Terminal, page and JUnit read this.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from counterpoise.model.finding import (
    CAUSE_RULES,
    AuditReport,
    ReportedFinding,
    WantedPlan,
    merged_plans,
)
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_names, pluralize

_TOPIC = "topic "


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one rule that have the same severity, and the groups that they explain."""

    findings: tuple[ReportedFinding, ...]  # at least one
    consequences: tuple["FindingGroup", ...] = ()

    @property
    def rule(self) -> str:
        return self.findings[0].finding.rule

    @property
    def severity(self) -> Severity:
        return self.findings[0].finding.severity

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(reported.finding.subject for reported in self.findings)

    @property
    def subjects_in_words(self) -> str:
        """Return `topic orders`, or `28 topics: a, b, c, d, e and 23 more`."""
        subjects = self.subjects
        if len(subjects) == 1:
            return subjects[0]
        if all(subject.startswith(_TOPIC) for subject in subjects):
            names = [subject.removeprefix(_TOPIC) for subject in subjects]
            return f"{pluralize(len(names), 'topic')}: {join_names(names)}"
        return join_names(subjects)

    @property
    def fix(self) -> tuple[str, ...]:
        """Return the lines to paste for all of them; what several findings share, once."""
        fixes = dict.fromkeys(reported.finding.fix for reported in self.findings)
        return tuple(chain.from_iterable(fixes))

    @property
    def plans(self) -> tuple[WantedPlan, ...]:
        return merged_plans(
            reported.finding.plan for reported in self.findings if reported.finding.plan
        )


def groups_of(report: AuditReport) -> tuple[FindingGroup, ...]:
    """Return the open findings in the order of the report, the consequences below their causes."""
    explained = [reported for reported in report.open if reported.finding.causes]
    return tuple(
        FindingGroup(group.findings, _explained_by(group, explained))
        for group in _by_rule(report.unexplained)
    )


def _by_rule(findings: Iterable[ReportedFinding]) -> list[FindingGroup]:
    groups: dict[tuple[Severity, str], list[ReportedFinding]] = {}
    for reported in findings:
        key = (reported.finding.severity, reported.finding.rule)
        groups.setdefault(key, []).append(reported)
    return [FindingGroup(tuple(group)) for group in groups.values()]


def _explained_by(
    cause: FindingGroup, explained: Iterable[ReportedFinding]
) -> tuple[FindingGroup, ...]:
    if cause.rule not in CAUSE_RULES:
        return ()
    consequences = [
        reported
        for reported in explained
        if not set(cause.subjects).isdisjoint(reported.finding.causes)
    ]
    return tuple(_by_rule(consequences))
