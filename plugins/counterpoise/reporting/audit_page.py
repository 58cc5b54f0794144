"""The page of an audit, the worst first, with what changed since the last one; the same as Markdown
and as JSON.

    audit_report(report, texts)          # lies at reports/<cluster>/audit.html
    audit_markdown(report, texts), audit_json(report, texts)

Findings of one rule stand together: its reasons once, each subject with its rows and its lines to
paste. A wanted plan links to `kafka_rebalance` in the Airflow that serves the page, and names the
command line's way.

Limits: Airflow 3.3 opens the Dag from a link and leaves its form as it is, so what to fill in
stands beside the link.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup, escape

from counterpoise.model.audit_document import to_json
from counterpoise.model.finding import AuditReport, Evidence, Finding, RuleText, ReportedFinding, WantedPlan
from counterpoise.model.severity import Severity
from counterpoise.reporting.html import count, render, when
from counterpoise.reporting.markdown import escaped, table
from counterpoise.reporting.parts import Tile
from counterpoise.units import format_moment

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
_OTHER: Final = RuleText("", "waivers", "", "", "", "")
_SUBJECTS_OPEN: Final = 5  # of a rule; the others are folded
_SUBJECTS_TO_PASTE: Final = 10
_DAG_PAGE: Final = "../../../dags/kafka_rebalance"  # from <prefix>/reports/<cluster>/audit.html
_WIDTH: Final = 100.0
_FIELDS: Final = {  # of the form of kafka_rebalance
    "goal": "Goal",
    "broker_ids": "Brokers",
    "topics": "Only these topics",
    "replication_factor": "Replication factor",
}


@dataclass(frozen=True, slots=True)
class PlanLink:
    """How to start the plan that would help."""

    href: str
    fill_in: tuple[tuple[str, str], ...]  # field of the form, value
    command: str


@dataclass(frozen=True, slots=True)
class Sight:
    """One finding as the template draws it."""

    finding: Finding
    is_new: bool
    since: str
    rows_left: int
    fix: str  # lines to paste; empty: none
    plan: PlanLink | None


@dataclass(frozen=True, slots=True)
class Card:
    """The findings of one rule that are equally bad."""

    anchor: str
    severity: Severity
    text: RuleText
    title: str
    first: tuple[Sight, ...]
    others: tuple[Sight, ...]
    policy_lines: str

    @property
    def is_urgent(self) -> bool:
        return self.severity in (Severity.CRITICAL, Severity.WARNING)

    @property
    def sights(self) -> tuple[Sight, ...]:
        return (*self.first, *self.others)


def audit_report(
    report: AuditReport, texts: Mapping[str, RuleText], *, data_checks: str | None = None
) -> str:
    """One self-contained page.

    `data_checks` is where the checks of the data lie, relative to it; None: nowhere.
    """
    return render(
        "audit.html",
        report=report,
        tiles=audit_tiles(report),
        cards=_cards(report, texts),
        areas=_areas(report, texts),
        severities=[(IN_WORDS[severity], _COLOURS[severity]) for severity in SEVERITIES],
        words=IN_WORDS,
        new=[one for one in report.open if one.is_new] if report.previous_at else [],
        waived=[one for one in report.findings if one.waived_by is not None],
        titles={rule_id: text.title for rule_id, text in texts.items()},
        passed=[texts[rule_id].title for rule_id in report.passed if rule_id in texts],
        verdict=verdict(report),
        is_well=report.worst not in (Severity.CRITICAL, Severity.WARNING),
        data_checks=data_checks,
    )


def audit_tiles(report: AuditReport) -> tuple[Tile, ...]:
    """How many findings of each severity nobody waived, and what changed."""
    numbers = {
        severity: sum(one.finding.severity is severity for one in report.open)
        for severity in Severity
    }
    new = sum(one.is_new for one in report.open)
    changed = f"{count(new)}, {count(len(report.resolved))}" if report.previous_at else "–"
    since = f"since {when(report.previous_at)}" if report.previous_at else "this is the first audit"
    return (
        Tile(
            "Critical",
            count(numbers[Severity.CRITICAL]),
            "act on these now",
            numbers[Severity.CRITICAL] > 0,
        ),
        Tile("Warning", count(numbers[Severity.WARNING]), "will bite some day"),
        Tile("Info", count(numbers[Severity.INFO]), "good to know"),
        Tile("Not known", count(numbers[Severity.UNKNOWN]), "could not be read: not fine"),
        Tile("New, gone", changed, since),
        Tile("Waived", count(len(report.findings) - len(report.open)), "known, with a reason"),
    )


def verdict(report: AuditReport) -> str:
    """`2 critical findings, 5 warnings`; what nobody waived."""
    numbers = {
        severity: sum(one.finding.severity is severity for one in report.open)
        for severity in Severity
    }
    critical, warnings = numbers[Severity.CRITICAL], numbers[Severity.WARNING]
    parts = [
        *(
            [f"{count(critical)} critical finding{'' if critical == 1 else 's'}"]
            if critical
            else []
        ),
        *([f"{count(warnings)} warning{'' if warnings == 1 else 's'}"] if warnings else []),
    ]
    return ", ".join(parts) or "Nothing critical, and no warnings"


def audit_markdown(report: AuditReport, texts: Mapping[str, RuleText]) -> str:
    """A table, then each rule that found something; names from the cluster stay names."""
    rows = (
        (
            IN_WORDS[one.finding.severity],
            _title(one.finding, texts),
            one.finding.subject,
            one.finding.summary,
            "new" if one.is_new else f"since {one.first_seen:%Y-%m-%d}",
        )
        for one in report.open
    )
    parts = [
        f"# Audit of {escaped(report.cluster)}",
        escaped(f"{verdict(report)}. As of {when(report.audited_at)}, cluster id {report.cluster_id}."),
        table(("Severity", "Rule", "Subject", "ReportedFinding", "First seen"), rows) if report.open else "",
        *(_markdown_card(card) for card in _cards(report, texts)),
        *_markdown_lists(report, texts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def audit_json(report: AuditReport, texts: Mapping[str, RuleText]) -> str:
    """The audit as it is kept, with the words of the rules that found something under `rules`."""
    document: dict[str, Any] = json.loads(to_json(report))
    fired = sorted({one.finding.rule for one in report.findings} & texts.keys())
    document["rules"] = {rule_id: asdict(texts[rule_id]) for rule_id in fired}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _cards(report: AuditReport, texts: Mapping[str, RuleText]) -> list[Card]:
    """In the order of the findings, which is the worst first."""
    grouped: dict[tuple[Severity, str], list[ReportedFinding]] = {}
    for one in report.open:
        grouped.setdefault((one.finding.severity, one.finding.rule), []).append(one)
    cards = []
    for (severity, rule_id), found in grouped.items():
        text = texts.get(rule_id, _OTHER)
        sights = tuple(_sight(report, one) for one in found)
        cards.append(
            Card(
                anchor=f"{rule_id}-{severity}",
                severity=severity,
                text=text,
                title=text.title or rule_id,
                first=sights[:_SUBJECTS_OPEN],
                others=sights[_SUBJECTS_OPEN:],
                policy_lines=policy_lines(
                    rule_id, [one.finding.subject for one in found], text.thresholds
                ),
            )
        )
    return cards


def _sight(report: AuditReport, one: ReportedFinding) -> Sight:
    finding = one.finding
    evidence = finding.evidence
    return Sight(
        finding=finding,
        is_new=one.is_new and report.previous_at is not None,
        since=format_moment(one.first_seen),
        rows_left=max(0, evidence.total - len(evidence.rows)) if evidence else 0,
        fix="\n".join(finding.fix),
        plan=_plan_link(report.cluster, finding.plan) if finding.plan else None,
    )


def _plan_link(cluster: str, plan: WantedPlan) -> PlanLink:
    fields = [
        (_FIELDS[name], value if isinstance(value, str) else json.dumps(value))
        for name, value in plan.rebalance_request.items()
    ]
    query = urlencode({"partition_key": cluster, "conf": json.dumps(plan.rebalance_request)})
    return PlanLink(
        f"{_DAG_PAGE}?{query}", (("Partition key", cluster), *fields), plan.command(cluster)
    )


def policy_lines(rule_id: str, subjects: Sequence[str], thresholds: Mapping[str, int]) -> str:
    """What to put under `policy: audit:` of the cluster to waive these findings, or to measure by
    another figure.
    """
    named = ", ".join(_yaml_text(subject) for subject in subjects[:_SUBJECTS_TO_PASTE])
    left = len(subjects) - _SUBJECTS_TO_PASTE
    more = f'  # and {left} more; patterns like "topic scratch-*" do' if left > 0 else ""
    lines = [
        "audit:",
        "  waivers:",
        f"    - rule: {rule_id}",
        f"      subjects: [{named}]{more}",
        '      reason: "WHY IT MAY STAY"',
        "      until: YYYY-MM-DD",
    ]
    if thresholds:
        values = ", ".join(f"{name}: {value}" for name, value in thresholds.items())
        lines += ["  thresholds:", f"    {rule_id}: {{{values}}}"]
    return "\n".join(lines)


def _yaml_text(text: str) -> str:
    """In double quotes, with all that could end them, or is no letter, escaped."""
    return '"' + "".join(_yaml_character(character) for character in text) + '"'


def _yaml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _areas(report: AuditReport, texts: Mapping[str, RuleText]) -> list[tuple[str, int, Markup]]:
    """Area, its findings, and a bar of them by severity; the area with the worst first."""
    counts: dict[str, dict[Severity, int]] = {}
    for one in report.open:
        area = counts.setdefault(
            texts.get(one.finding.rule, _OTHER).area, dict.fromkeys(SEVERITIES, 0)
        )
        area[one.finding.severity] += 1
    widest = max((sum(numbers.values()) for numbers in counts.values()), default=1)
    ordered = sorted(
        counts.items(), key=lambda item: ([-item[1][severity] for severity in SEVERITIES], item[0])
    )
    return [
        (str(area), sum(numbers.values()), _bar(area, numbers, widest)) for area, numbers in ordered
    ]


def _bar(area: str, numbers: Mapping[Severity, int], widest: int) -> Markup:
    """Segments as long as their numbers, none thinner than can be seen."""
    parts, at = [], 0.0
    for severity in SEVERITIES:
        if numbers[severity]:
            width = max(2.0, numbers[severity] / widest * _WIDTH)
            look = f"fill: var(--{_COLOURS[severity]})"
            parts.append(f'<rect x="{at:.1f}" width="{width:.1f}" height="12" style="{look}"/>')
            at += width
    label = ", ".join(
        f"{numbers[severity]} {IN_WORDS[severity]}" for severity in SEVERITIES if numbers[severity]
    )
    head = f'viewBox="0 0 {max(_WIDTH, at):.1f} 12" preserveAspectRatio="none" role="img"'
    return Markup(
        f'<svg class="bar" {head} aria-label="{escape(f"{area}: {label}")}">{"".join(parts)}</svg>'
    )


def _markdown_card(card: Card) -> str:
    head = f"## {escaped(card.title)} ({IN_WORDS[card.severity]})"
    words = [escaped(words) for words in (card.text.why, card.text.how) if words]
    source = [f"Source: {escaped(card.text.source)}"] if card.text.source else []
    return "\n\n".join(
        [head, *words, *(part for sight in card.sights for part in _markdown_sight(sight)), *source]
    )


def _markdown_sight(sight: Sight) -> Iterable[str]:
    yield f"**{escaped(sight.finding.subject)}**: {escaped(sight.finding.summary)}"
    evidence = sight.finding.evidence
    if evidence is not None and evidence.rows:
        yield _markdown_rows(evidence, sight.rows_left)
    lines = [*sight.finding.fix, *([sight.plan.command] if sight.plan else [])]
    if lines:
        yield "\n".join(f"    {line}" for text in lines for line in text.splitlines())


def _markdown_rows(evidence: Evidence, rows_left: int) -> str:
    more = f"\n\nand {rows_left:,} more" if rows_left else ""
    return table([escaped(column) for column in evidence.columns], evidence.rows) + more


def _markdown_lists(report: AuditReport, texts: Mapping[str, RuleText]) -> Iterable[str]:
    lists = (
        (
            "Gone since the last audit",
            [f"{_title(gone, texts)}: {gone.subject}" for gone in report.resolved],
        ),
        (
            "Waived",
            [
                f"{_title(one.finding, texts)}: {one.finding.subject}: {one.waived_by.reason}"
                for one in report.findings
                if one.waived_by is not None
            ],
        ),
        ("Could not be asked", list(report.unavailable_data)),
    )
    for title, lines in lists:
        if lines:
            yield f"## {title}\n\n" + "\n".join(f"- {escaped(line)}" for line in lines)


def _title(finding: Finding, texts: Mapping[str, RuleText]) -> str:
    return texts[finding.rule].title if finding.rule in texts else finding.rule
