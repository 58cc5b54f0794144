"""The open findings of an audit as people read them: those of one rule together, causes first.

    for group in groups_of(report, texts):
        group.in_words                  # "Few replicas, 28 topics: a, b, c, d, e and 23 more"
        group.consequences              # groups: what this broker's absence does

A finding that two groups explain stands in both. A plan that several groups want is one, for the
topics of all of them, and stands in the first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Final

from counterpoise.model import subjects
from counterpoise.model.finding import (
    CAUSE_RULES,
    LOOK,
    AuditReport,
    ReportedFinding,
    RuleText,
    WantedPlan,
    merged_plans,
)
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_names, pluralize

NO_TEXT: Final = RuleText("", "waivers", "", "", "", "")  # of a rule of another release
_TOPIC: Final = "topic "
_OF_THE_WHOLE: Final = (subjects.CLUSTER, subjects.QUORUM)
_NO_TEXTS: Final[Mapping[str, RuleText]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one rule that have the same severity, and the groups that they explain."""

    findings: tuple[ReportedFinding, ...]  # at least one
    text: RuleText
    consequences: tuple["FindingGroup", ...] = ()
    plans: tuple[WantedPlan, ...] = ()  # that would help, and that no group before wants

    @property
    def rule(self) -> str:
        return self.findings[0].finding.rule

    @property
    def severity(self) -> Severity:
        return self.findings[0].finding.severity

    @property
    def anchor(self) -> str:
        return f"{self.rule}-{self.severity}"

    @property
    def title(self) -> str:
        return self.text.title or self.rule

    @property
    def since(self) -> datetime:
        return min(reported.first_seen for reported in self.findings)

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(reported.finding.subject for reported in self.findings)

    @property
    def subjects_in_words(self) -> str:
        """Return `topic orders`, or `28 topics: a, b, c, d, e and 23 more`."""
        if len(self.subjects) == 1:
            return self.subjects[0]
        if all(subject.startswith(_TOPIC) for subject in self.subjects):
            names = [subject.removeprefix(_TOPIC) for subject in self.subjects]
            return f"{pluralize(len(names), 'topic')}: {join_names(names)}"
        return join_names(self.subjects)

    @property
    def in_words(self) -> str:
        """Return the sentence of the only finding, else the title of the rule, and the subjects."""
        if len(self.findings) > 1:
            return f"{self.title}, {self.subjects_in_words}"
        finding = self.findings[0].finding
        is_said = subjects.is_named_in(finding.summary, finding.subject)
        is_said |= finding.subject in _OF_THE_WHOLE
        return finding.summary if is_said else f"{finding.subject}: {finding.summary}"

    @property
    def fix(self) -> tuple[str, ...]:
        """Return the lines to paste for all of them; what several findings share, once."""
        fixes = dict.fromkeys(reported.finding.fix for reported in self.findings)
        return tuple(chain.from_iterable(fixes))

    @property
    def has_mending_lines(self) -> bool:
        """Return whether something can be pasted, or is said to be done; lines may only show."""
        has_plan = any(reported.finding.plan for reported in self.findings)
        return has_plan or bool(self.fix and self.fix[0] != LOOK)


def groups_of(
    report: AuditReport, texts: Mapping[str, RuleText] = _NO_TEXTS
) -> tuple[FindingGroup, ...]:
    """Return the open findings in the order of the report, the consequences below their causes.

    `texts` are those of the rules by id.
    """
    explained = [reported for reported in report.open if reported.finding.causes]
    groups = _by_rule(report.unexplained, texts)
    left = merged_plans(plan for group in groups for plan in group.plans)
    found = []
    for group in groups:
        plans = tuple(plan for plan in left if _has_part_of(plan, group.plans))
        left = tuple(plan for plan in left if plan not in plans)
        consequences = tuple(_by_rule(_explained_by(group, explained), texts))
        found.append(replace(group, plans=plans, consequences=consequences))
    return tuple(found)


def _by_rule(
    findings: Iterable[ReportedFinding], texts: Mapping[str, RuleText]
) -> list[FindingGroup]:
    """Return the groups, each with its own plans."""
    groups: dict[tuple[Severity, str], list[ReportedFinding]] = {}
    for reported in findings:
        key = (reported.finding.severity, reported.finding.rule)
        groups.setdefault(key, []).append(reported)
    return [
        FindingGroup(
            tuple(group),
            texts.get(rule_id, NO_TEXT),
            plans=merged_plans(one.finding.plan for one in group if one.finding.plan),
        )
        for (_, rule_id), group in groups.items()
    ]


def _has_part_of(merged: WantedPlan, plans: Iterable[WantedPlan]) -> bool:
    return any(replace(merged, topics=plan.topics) == plan for plan in plans)


def _explained_by(
    cause: FindingGroup, explained: Iterable[ReportedFinding]
) -> list[ReportedFinding]:
    if cause.rule not in CAUSE_RULES:
        return []
    return [
        reported
        for reported in explained
        if not set(cause.subjects).isdisjoint(reported.finding.causes)
    ]
