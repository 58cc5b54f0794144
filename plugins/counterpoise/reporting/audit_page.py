"""The page of an audit, the worst first, with what changed since the last one; the same as JSON.

    audit_report(report, texts)          # written to reports/<cluster>/audit.html
    audit_json(report, texts)

Findings of one rule stand together: its reasons once, each subject with its evidence and its
commands to paste. A wanted plan links to our form, filled in, and shows the command.

Limits: a stored report is served below any address, and knows of no form of ours: its link opens
the Dag `kafka_rebalance`, and what to paste into the form ("Advanced Options") stands beside it,
since Airflow 3.3 has no address that opens the form of a Dag, or fills it in.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup, escape

from counterpoise.model.finding import (
    AuditPoint,
    AuditReport,
    ReportedFinding,
    RuleText,
    WantedPlan,
    to_json,
)
from counterpoise.model.finding_groups import FindingGroup, groups_of
from counterpoise.model.load import Trace
from counterpoise.model.request import CLUSTER_FIELD, CLUSTER_TITLE, FORM_TITLES
from counterpoise.model.safe_text import for_json
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.reporting.html import render, when
from counterpoise.reporting.policy_lines import policy_lines

SEVERITIES: Final = tuple(sorted(Severity, key=lambda severity: -severity.rank))
IN_WORDS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "critical",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
    Severity.UNKNOWN: "not known",
}
_COLOURS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "alert",
    Severity.WARNING: "rack-1",
    Severity.INFO: "after",
    Severity.UNKNOWN: "no-rack",
}
_URGENT: Final = (Severity.CRITICAL, Severity.WARNING)
_NO_TEXT: Final = RuleText("", "waivers", "", "", "", "")  # of a rule of another release
_DAG_PAGE: Final = "../../../dags/kafka_rebalance"  # from <prefix>/reports/<cluster>/audit.html
_BAR_WIDTH: Final = 100.0
_MIN_SEGMENT_WIDTH: Final = 2.0


@dataclass(frozen=True, slots=True)
class PlanLink:
    """How to start the plan that would help."""

    query: str  # of our form, which then is filled in
    href: str
    fill_in: tuple[tuple[str, str], ...]  # field of the form, value
    configuration: str  # the same as JSON
    command: str


@dataclass(frozen=True, slots=True)
class RuleCard:
    """The findings of one rule that have the same severity, and the cards of what they explain."""

    rule: str
    severity: Severity
    text: RuleText
    findings: tuple[ReportedFinding, ...]
    subjects: str  # in words
    consequences: tuple["RuleCard", ...]

    @property
    def anchor(self) -> str:
        return f"{self.rule}-{self.severity}"

    @property
    def title(self) -> str:
        return self.text.title or self.rule

    @property
    def is_urgent(self) -> bool:
        return self.severity in _URGENT

    @property
    def since(self) -> datetime:
        return min(reported.first_seen for reported in self.findings)

    @property
    def policy_lines(self) -> str:
        """Return what waives them, or changes the thresholds of the rule."""
        subjects = [reported.finding.subject for reported in self.findings]
        return policy_lines(self.rule, subjects, self.text.thresholds)


def audit_report(
    report: AuditReport,
    texts: Mapping[str, RuleText],
    cluster_words: tuple[str, ...] = (),
    *,
    data_checks: str | None = None,
) -> str:
    """Return one self-contained page.

    `cluster_words` name the cluster in our commands, by default `--cluster` and its name.
    `data_checks` is the path of the checks of the data, relative to the page; None: there are none.
    """
    return render(
        "audit.html", data_checks=data_checks, **audit_sections(report, texts, cluster_words)
    )


def audit_sections(
    report: AuditReport,
    texts: Mapping[str, RuleText],
    cluster_words: tuple[str, ...] = (),
    *,
    waive: str = "",
    make_plan: str | None = None,
) -> dict[str, Any]:
    """Return what a page that includes `audit_sections.html` needs.

    `waive` is the path of a form that takes rule and subject; "" where there is none. `make_plan`
    is the path of the form that makes a plan; "" for a reader who may not use it, None where there
    is none: then the link opens Airflow's.
    """
    return {
        "report": report,
        "waive": waive,
        "make_plan": make_plan,
        "cards": [_card(group, texts) for group in groups_of(report)],
        "areas": _areas(report, texts),
        "severities": [(IN_WORDS[severity], _COLOURS[severity]) for severity in SEVERITIES],
        "words": IN_WORDS,
        "plan_link": partial(
            _plan_link, report.cluster, cluster_words or ("--cluster", report.cluster)
        ),
        "titles": {rule_id: text.title for rule_id, text in texts.items()},
        "passed": [texts[rule_id].title for rule_id in report.passed if rule_id in texts],
        "verdict": verdict(report),
        "is_well": report.worst not in _URGENT,
    }


def verdict(report: AuditReport) -> str:
    """Return `2 critical findings, 5 warnings`, without what is waived."""
    return urgent_in_words(report.open_counts) or "Nothing critical, and no warnings"


def urgent_in_words(counts: Mapping[Severity, int]) -> str:
    words = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning"}
    found = [pluralize(counts[one], word) for one, word in words.items() if counts.get(one)]
    return ", ".join(found)


def audit_json(report: AuditReport, texts: Mapping[str, RuleText]) -> str:
    """Return the audit as it is stored, with the texts of rules with findings under `rules`."""
    document: dict[str, Any] = json.loads(to_json(report))
    rule_ids = {reported.finding.rule for reported in report.findings}
    document["rules"] = {rule_id: asdict(texts[rule_id]) for rule_id in rule_ids & texts.keys()}
    return for_json(document, indent=1) + "\n"


# -- cards


def _card(group: FindingGroup, texts: Mapping[str, RuleText]) -> RuleCard:
    return RuleCard(
        rule=group.rule,
        severity=group.severity,
        text=texts.get(group.rule, _NO_TEXT),
        findings=group.findings,
        subjects=group.subjects_in_words,
        consequences=tuple(_card(consequence, texts) for consequence in group.consequences),
    )


def _plan_link(cluster: str, cluster_words: tuple[str, ...], plan: WantedPlan) -> PlanLink:
    request = {CLUSTER_FIELD: cluster, **plan.rebalance_request}
    titles = {CLUSTER_FIELD: CLUSTER_TITLE, **FORM_TITLES}
    fill_in = tuple((titles[name], _to_type(value)) for name, value in request.items())
    return PlanLink(
        urlencode({name: _in_one_line(value) for name, value in plan.rebalance_request.items()}),
        _DAG_PAGE,
        fill_in,
        json.dumps(request),
        plan.command(cluster_words),
    )


def _in_one_line(value: object) -> str:
    """Return what our form takes: the parts of a list with commas between them."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _to_type(value: object) -> str:
    """Return what to type into a field: ids in one line, texts one a line."""
    if not isinstance(value, list):
        return str(value)
    separator = "\n" if all(isinstance(part, str) for part in value) else ", "
    return separator.join(map(str, value))


# -- areas


def _areas(report: AuditReport, texts: Mapping[str, RuleText]) -> list[tuple[str, int, Markup]]:
    """Return each area, its number of findings, and a bar of them; the worst area first."""
    counts_by_area: dict[str, Counter[Severity]] = {}
    for reported in report.unexplained:
        area = texts.get(reported.finding.rule, _NO_TEXT).area
        counts_by_area.setdefault(area, Counter())[reported.finding.severity] += 1
    largest = max((counts.total() for counts in counts_by_area.values()), default=1)

    def badness(item: tuple[str, Counter[Severity]]) -> tuple[list[int], str]:
        area, counts = item
        return [-counts[severity] for severity in SEVERITIES], area

    return [
        (str(area), counts.total(), _bar(area, counts, largest))
        for area, counts in sorted(counts_by_area.items(), key=badness)
    ]


def _bar(area: str, counts: Counter[Severity], largest: int) -> Markup:
    """Return segments as long as their numbers, none too thin to be seen."""
    segments, left = [], 0.0
    present = [severity for severity in SEVERITIES if counts[severity]]
    for severity in present:
        width = max(_MIN_SEGMENT_WIDTH, counts[severity] / largest * _BAR_WIDTH)
        style = f"fill: var(--{_COLOURS[severity]})"
        segments.append(f'<rect x="{left:.1f}" width="{width:.1f}" height="12" style="{style}"/>')
        left += width
    numbers = ", ".join(f"{counts[severity]} {IN_WORDS[severity]}" for severity in present)
    view_box = f'viewBox="0 0 {max(_BAR_WIDTH, left):.1f} 12" preserveAspectRatio="none"'
    label = escape(f"{area}: {numbers}")
    return Markup(
        f'<svg class="bar" {view_box} role="img" aria-label="{label}">{"".join(segments)}</svg>'
    )


# -- how the findings went


def finding_traces(points: Sequence[AuditPoint]) -> list[tuple[str, str, Trace]]:
    """Return the numbers of each severity over the last audits, the worst first, and the label of
    their chart; none for fewer than two audits.
    """
    if len(points) < 2:
        return []
    begin = points[0].audited_at
    seconds = (points[-1].audited_at - begin).total_seconds() or 1.0
    at = tuple((point.audited_at - begin).total_seconds() / seconds for point in points)
    traces = []
    for severity in SEVERITIES:
        word, counts = IN_WORDS[severity], [point.open_counts.get(severity, 0) for point in points]
        label = f"Findings, {word}: {counts[0]} at {when(begin)}, {counts[-1]} now"
        traces.append((word, label, Trace(at, tuple(counts), seconds)))
    return traces
