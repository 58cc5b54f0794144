"""How the findings of a cluster went: small charts over the last audits, and rules since when.

traces = finding_traces(points)              # critical, warning, info, not known
rows = rule_rows(report, texts)              # the rule that has been open the longest first
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from counterpoise.model.finding import AuditPoint, AuditReport, ReportedFinding, RuleText
from counterpoise.model.load import Trace
from counterpoise.model.severity import Severity
from counterpoise.reporting import small
from counterpoise.reporting.audit_page import IN_WORDS, SEVERITIES
from counterpoise.reporting.html import when
from counterpoise.units import format_count, format_moment


@dataclass(frozen=True, slots=True)
class FindingTrace:
    """The numbers of one severity over the last audits."""

    severity: str
    picture: Markup
    now: str
    highest: str


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule with open findings."""

    title: str
    anchor: str  # of its card
    severity: str
    count: str
    since: str
    new: str  # how many are new; "" none


def finding_traces(points: Sequence[AuditPoint]) -> list[FindingTrace]:
    """Return a small chart for each severity, the worst first; none for fewer than two audits."""
    if len(points) < 2:
        return []
    return [_trace(points, severity) for severity in SEVERITIES]


def _trace(points: Sequence[AuditPoint], severity: Severity) -> FindingTrace:
    begin = points[0].audited_at
    seconds = (points[-1].audited_at - begin).total_seconds() or 1.0
    counts = [point.open_counts.get(severity, 0) for point in points]
    word = IN_WORDS[severity]
    trace = Trace(
        tuple((point.audited_at - begin).total_seconds() / seconds for point in points),
        tuple(counts),
        seconds,
    )
    label = f"Findings, {word}: {counts[0]} at {when(begin)}, {counts[-1]} now"
    return FindingTrace(
        word, small.spark(trace, label=label), format_count(counts[-1]), format_count(max(counts))
    )


def rule_rows(report: AuditReport, texts: Mapping[str, RuleText]) -> list[RuleRow]:
    """Return each severity of each rule with open findings, the longest open first."""
    groups: dict[tuple[Severity, str], list[ReportedFinding]] = {}
    for reported in report.open:
        key = (reported.finding.severity, reported.finding.rule)
        groups.setdefault(key, []).append(reported)
    oldest_first = sorted(groups.items(), key=lambda item: (_since(item[1]), item[0][1]))
    return [
        RuleRow(
            title=texts[rule].title if rule in texts else rule,
            anchor=f"{rule}-{severity}",
            severity=IN_WORDS[severity],
            count=format_count(len(group)),
            since=format_moment(_since(group)),
            new=_new(report, group),
        )
        for (severity, rule), group in oldest_first
    ]


def _since(group: Sequence[ReportedFinding]) -> datetime:
    return min(reported.first_seen for reported in group)


def _new(report: AuditReport, group: Sequence[ReportedFinding]) -> str:
    count = sum(reported.is_new for reported in group) if report.previous_at else 0
    return f"{format_count(count)} new" if count else ""
