"""What people see of an audit: one value that page, terminal, JSON and JUnit read.

    seen = AuditView.of(report, texts, ("--cluster", "orders-eu"))
    seen.groups[0].in_words                # the worst; what follows from it is in `consequences`
    seen.shown(seen.groups[0].plans[0]).command
    audit_html(seen), audit_json(seen)

Limits: a stored report is served below any address, and knows of no form of ours: its link opens
the Dag `kafka_rebalance`, and what to paste into the form ("Advanced Options") stands beside it,
since Airflow 3.3 has no address that opens the form of a Dag, or fills it in.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self
from urllib.parse import urlencode

from counterpoise.model.finding import AuditReport, RuleText, WantedPlan, to_json
from counterpoise.model.finding_groups import NO_TEXT, URGENT, FindingGroup, groups_of
from counterpoise.model.request import CLUSTER_FIELD, CLUSTER_TITLE, FORM_TITLES
from counterpoise.model.safe_text import for_json
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.reporting.html import render
from counterpoise.reporting.policy_lines import policy_lines

_MAX_QUERY: Final = 8_000
_SEVERITY_WORDS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "critical",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
    Severity.UNKNOWN: "not known",
}
_DAG_PAGE: Final = "../../../dags/kafka_rebalance"  # from <prefix>/reports/<cluster>/audit.html


@dataclass(frozen=True, slots=True)
class PlanLink:
    """How to start the plan that would help."""

    query: str  # of our form, which then is filled in; "" of more topics than an address can have
    href: str
    fill_in: tuple[tuple[str, str], ...]  # field of the form, value
    configuration: str  # the same as JSON
    command: str


@dataclass(frozen=True, slots=True)
class AuditView:
    """One audit as people see it."""

    report: AuditReport
    texts: Mapping[str, RuleText]  # of the rules by id
    cluster_words: tuple[str, ...]  # name the cluster in our commands
    groups: tuple[FindingGroup, ...]  # of the open findings, the worst first

    @classmethod
    def of(
        cls, report: AuditReport, texts: Mapping[str, RuleText], cluster_words: tuple[str, ...] = ()
    ) -> Self:
        """Return what is seen; the cluster is named by `--cluster` and its name by default."""
        words = cluster_words or ("--cluster", report.cluster)
        return cls(report, texts, words, groups_of(report, texts))

    @property
    def verdict(self) -> str:
        return verdict(self.report)

    @property
    def is_well(self) -> bool:
        return self.report.worst not in URGENT

    @property
    def passed(self) -> tuple[str, ...]:
        """Return the titles of the rules that found nothing."""
        return tuple(self.texts[one].title for one in self.report.passed if one in self.texts)

    def title_of(self, rule_id: str) -> str:
        return self.texts.get(rule_id, NO_TEXT).title or rule_id

    def policy_lines(self, group: FindingGroup) -> str:
        """Return what waives the findings, or changes the thresholds of their rule."""
        return policy_lines(group.rule, group.subjects, group.text.thresholds)

    def shown(self, plan: WantedPlan) -> PlanLink:
        request = {CLUSTER_FIELD: self.report.cluster, **plan.rebalance_request}
        titles = {CLUSTER_FIELD: CLUSTER_TITLE, **FORM_TITLES}
        fields = {name: _in_one_line(value) for name, value in plan.rebalance_request.items()}
        query = urlencode(fields)
        return PlanLink(
            query if len(query) <= _MAX_QUERY else "",
            _DAG_PAGE,
            tuple((titles[name], _to_type(value)) for name, value in request.items()),
            json.dumps(request),
            plan.command(self.cluster_words),
        )


def verdict(report: AuditReport) -> str:
    """Return `2 critical findings, 5 warnings`, without what is waived."""
    return urgent_in_words(report.open_counts) or "Nothing critical, and no warnings"


def plural_counts(report: AuditReport) -> str:
    """Return `1 critical finding, 3 warnings, 2 for your information`."""
    counts = report.open_counts
    info, unknown = counts[Severity.INFO], counts[Severity.UNKNOWN]
    parts = [urgent_in_words(counts)]
    parts += [f"{info} for your information"] if info else []
    parts += [f"{unknown} not known"] if unknown else []
    return ", ".join(filter(None, parts)) or "Nothing was found"


def urgent_in_words(counts: Mapping[Severity, int]) -> str:
    words = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning"}
    found = [pluralize(counts[one], word) for one, word in words.items() if counts.get(one)]
    return ", ".join(found)


def audit_html(seen: AuditView, *, data_checks: str | None = None) -> str:
    """Return one self-contained page.

    `data_checks` is the path of the checks of the data, relative to the page; None: there are none.
    """
    return render("audit.html", audit=seen, words=_SEVERITY_WORDS, data_checks=data_checks)


def audit_json(seen: AuditView) -> str:
    """Return the audit as it is stored, with the texts of rules with findings under `rules`."""
    document: dict[str, Any] = json.loads(to_json(seen.report))
    rule_ids = {reported.finding.rule for reported in seen.report.findings}
    rules = {rule_id: asdict(seen.texts[rule_id]) for rule_id in rule_ids & seen.texts.keys()}
    document["rules"] = rules
    return for_json(document, indent=1) + "\n"


def _in_one_line(value: object) -> str:
    """Return what our form takes: the parts of a list with commas between them."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _to_type(value: object) -> str:
    """Return what to type into a field: ids in one line, texts one a line."""
    if not isinstance(value, list):
        return str(value)
    separator = "\n" if all(isinstance(part, str) for part in value) else ", "
    return separator.join(map(str, value))
