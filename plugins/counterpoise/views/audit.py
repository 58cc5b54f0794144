"""What people see of an audit: one value that page, terminal, JSON and JUnit read.

    seen = AuditView.of(report, texts, ("--cluster", "orders-eu"))
    seen.groups[0].in_words                # the worst; what follows from it is in `consequences`
    seen.shown(seen.groups[0].plans[0]).command
    audit_html(seen), audit_json(seen)

Limits: a page that `audit --out` writes lies anywhere, so it leads to no other page of ours.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self
from urllib.parse import urlencode

from counterpoise.model.finding import AuditReport, RuleText, WantedPlan, to_json
from counterpoise.model.finding_groups import NO_TEXT, FindingGroup, groups_of
from counterpoise.model.safe_text import for_json
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.reporting.html import render
from counterpoise.reporting.policy_lines import policy_lines

_MAX_QUERY: Final = 8_000
# Colour, icon and word of a finding.
SEVERITIES: Final[Mapping[Severity, tuple[str, str, str]]] = {
    Severity.CRITICAL: ("bad", "stop", "Critical"),
    Severity.WARNING: ("warn", "warn", "Warning"),
    Severity.INFO: ("calm", "info", "Info"),
    Severity.UNKNOWN: ("calm", "info", "Not known"),
}
_COUNTED: Final = {Severity.CRITICAL: "critical finding", Severity.WARNING: "warning"}


@dataclass(frozen=True, slots=True)
class PlanLink:
    """How to start the plan that would help."""

    query: str  # of our form, which then is filled in; "" of more topics than an address can have
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
    def verdict(self) -> tuple[str, str, str]:
        """Return colour, icon and word of the worst that was found."""
        worst = self.report.worst or (Severity.UNKNOWN if self.report.unknown else None)
        return SEVERITIES[worst] if worst else ("ok", "check", "No findings")

    @property
    def counts_in_words(self) -> str:
        """Return `1 critical finding, 3 warnings, 2 for your information`."""
        counts = self.report.open_counts
        info, unknown = counts[Severity.INFO], counts[Severity.UNKNOWN]
        parts = [pluralize(counts[one], word) for one, word in _COUNTED.items() if counts[one]]
        parts += [f"{info} for your information"] if info else []
        parts += [f"{unknown} not known"] if unknown else []
        return ", ".join(parts) or "Nothing was found"

    @staticmethod
    def words_of(severity: Severity) -> tuple[str, str, str]:
        return SEVERITIES[severity]

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
        fields = {name: _in_one_line(value) for name, value in plan.rebalance_request.items()}
        query = urlencode(fields)
        return PlanLink(query if len(query) <= _MAX_QUERY else "", plan.command(self.cluster_words))


def audit_html(seen: AuditView, *, in_store: bool = False, checks: str = "") -> str:
    """Return one self-contained page; one that lies in the store leads to the cluster's page.

    `checks` is the path of the checks of the data, relative to the page; "": there are none.
    """
    return render("audit_copy.html", audit=seen, in_store=in_store, checks=checks)


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
