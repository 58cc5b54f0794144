"""What an audit found: findings, each with its evidence, and what to do.

    Finding("racks-missing", Severity.WARNING, "broker 3", "broker 3 has no rack", ...)

`rule` and `subject` together name a finding from one audit to the next: new, still there, resolved.
So a subject says where the trouble is (a topic, a broker, the cluster), never how much of it there
is; `model/subjects.py` builds it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.json_values import iso_time, read_json, to_content
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.safe_text import one_line, shell_word
from counterpoise.model.severity import Severity, Waiver
from counterpoise.model.words import pluralize

MAX_REASONS: Final = 3  # of rules that could not run, in one line


@dataclass(frozen=True, slots=True)
class WantedPlan:
    """A plan that would help: pages link to `kafka_rebalance` with it, or show the command."""

    goal: Goal
    broker_ids: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()  # only these; empty: all
    replication_factor: int | None = None  # of the goal of that name
    below_percent: int | None = None  # of the goal relief: how full disks may be

    @property
    def rebalance_request(self) -> Mapping[str, object]:
        """Return the fields of `model/request.py` that are not empty, as in the form."""
        values = {
            "goal": str(self.goal),
            "broker_ids": list(self.broker_ids),
            "topics": list(self.topics),
            "replication_factor": self.replication_factor,
            "below_percent": self.below_percent,
        }
        return {name: value for name, value in values.items() if value}

    def command(self, cluster_words: Sequence[str]) -> str:
        """Return the command that makes the plan, quoted for a shell.

        `cluster_words` name the cluster: `("--cluster", "orders-eu")`.
        """
        words = ["counterpoise", "plan", *cluster_words, "--goal", str(self.goal)]
        if self.broker_ids:
            words += ["--brokers", ",".join(map(str, self.broker_ids))]
        if self.topics:
            words += ["--topics", ",".join(self.topics)]
        if self.replication_factor is not None:
            words += ["--replication-factor", str(self.replication_factor)]
        if self.below_percent is not None:
            words += ["--below", f"{self.below_percent}%"]
        words += ["--out", f"{self._file_name}.json"]
        return " ".join(map(shell_word, words))

    @property
    def _file_name(self) -> str:
        """Return another name for each plan that one audit asks for."""
        factor = "" if self.replication_factor is None else f"-{self.replication_factor}"
        return f"{self.goal}{factor}"


def merged_plans(plans: Iterable[WantedPlan]) -> tuple[WantedPlan, ...]:
    """Return one plan for those that differ in topics alone, in the order of the first of each.

    A plan without topics is for all of them.
    """
    topics_by_plan: dict[WantedPlan, list[tuple[str, ...]]] = {}
    for plan in plans:
        topics_by_plan.setdefault(replace(plan, topics=()), []).append(plan.topics)
    return tuple(
        replace(plan, topics=tuple(sorted(set(chain(*topics))) if all(topics) else ()))
        for plan, topics in topics_by_plan.items()
    )


@dataclass(frozen=True, slots=True)
class PlanOutlook:
    """What the planner says to a wanted plan: the plan, which may be empty, or why it refuses."""

    plan: RebalancePlan | None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The first rows that show a finding, and the number of all of them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # text from the cluster; escaped where it is shown
    total: int


# Before commands that change nothing, where there is nothing to paste that mends the finding.
LOOK: Final = "# shows more, and changes nothing:"


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule's texts, as pages print them."""

    id: str
    area: str
    title: str
    why: str
    how: str
    source: str
    thresholds: Mapping[str, int] = field(default_factory=dict)  # in force


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule found about one subject.

    `causes` say why a rule could not run: subjects of the rule `not-answered`, which names them
    once for all rules of a stored audit. In a stored audit they are subjects of the open findings
    of CAUSE_RULES that explain this one: "broker 2" of a topic that lacks broker 2.
    """

    rule: str
    severity: Severity
    subject: str
    summary: str  # one sentence, with the figures
    evidence: Evidence | None = None
    fix: tuple[str, ...] = ()  # commands or config lines to paste, in order
    plan: WantedPlan | None = None
    causes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A name with a line break would make lines of its own where these are pasted.
        object.__setattr__(self, "fix", tuple(map(one_line, self.fix)))

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding with its history, as a report shows it."""

    finding: Finding
    first_seen: datetime  # UTC
    is_new: bool  # not in the previous audit
    waived_by: Waiver | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One audit of one cluster."""

    cluster: str
    cluster_id: str
    audited_at: datetime  # UTC
    snapshot_id: str
    findings: tuple[ReportedFinding, ...]  # the worst first
    resolved: tuple[Finding, ...] = ()  # in the previous audit, and not any more
    passed: tuple[str, ...] = ()  # ids of rules that ran and found nothing
    previous_at: datetime | None = None
    # Rules by id, each with the reason: those that lacked a permission, a broker or time, in whole
    # or in part; and those about something that this cluster does not have.
    unknown: Mapping[str, str] = field(default_factory=dict)
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    unused_waivers: tuple[Waiver, ...] = ()  # in force, and their rules ran and found nothing such

    @property
    def open(self) -> tuple[ReportedFinding, ...]:
        """Return the findings that nobody waived."""
        return tuple(reported for reported in self.findings if reported.waived_by is None)

    @property
    def unexplained(self) -> tuple[ReportedFinding, ...]:
        """Return the open findings without those that another open finding explains."""
        return tuple(reported for reported in self.open if not reported.finding.causes)

    @property
    def waived(self) -> tuple[ReportedFinding, ...]:
        return tuple(reported for reported in self.findings if reported.waived_by is not None)

    @property
    def new(self) -> tuple[ReportedFinding, ...]:
        """Return what nobody waived, no other finding explains, and the previous audit did not
        find; () where there is no previous one.
        """
        return tuple(reported for reported in self.unexplained if self.has_as_new(reported))

    def has_as_new(self, reported: ReportedFinding) -> bool:
        return reported.is_new and self.previous_at is not None

    @property
    def open_counts(self) -> Counter[Severity]:
        """Return the numbers of findings that nobody waived, by severity; a cause counts once."""
        return Counter(reported.finding.severity for reported in self.unexplained)

    def open_at(self, severity: Severity) -> tuple[ReportedFinding, ...]:
        """Return what nobody waived and is as bad as `severity`, or worse; a cause counts once.

        Of `unknown`, which is neither good nor bad, it is what is unknown alone.
        """
        if severity is Severity.UNKNOWN:
            return tuple(one for one in self.open if one.finding.severity is severity)
        return tuple(one for one in self.unexplained if one.finding.severity.rank >= severity.rank)

    @property
    def unknown_in_words(self) -> str:
        """Return `9 of 70 rules could not run: broker configs of broker 2`; "" if all could."""
        if not self.unknown:
            return ""
        with_findings = {reported.finding.rule for reported in self.findings}
        rules = {*with_findings, *self.passed, *self.unknown, *self.not_applicable}
        reasons = list(dict.fromkeys(self.unknown.values()))
        shown = "; ".join(reasons[:MAX_REASONS])
        more = f"; and {len(reasons) - MAX_REASONS} more" if len(reasons) > MAX_REASONS else ""
        count = f"{len(self.unknown)} of {pluralize(len(rules), 'rule')}"
        return f"{count} could not run: {shown}{more}"

    @property
    def worst(self) -> Severity | None:
        """Return the worst severity among the findings that nobody waived; None: no finding."""
        severities = [reported.finding.severity for reported in self.open]
        return max(severities, default=None, key=lambda severity: severity.rank)


# -- An audit as JSON: what machines read, and what the next audit is compared with
#
#     text = to_json(report)
#     from_json(text, where="audits/demo/demo-20261121T150000Z.json") == report
#
# Canonical: keys sorted, times in UTC; the same audit gives the same text. Keys are added, never
# renamed.
#
# Limits: reads what `to_json` wrote. Anything else raises, and is not compared with.


# -- One audit in the series of a cluster: the numbers of findings that nobody had waived then
#
# AuditPoint(audited_at, {Severity.CRITICAL: 2}, new_count=1, resolved_count=0)


@dataclass(frozen=True, slots=True)
class AuditPoint:
    audited_at: datetime  # UTC
    open_counts: Mapping[Severity, int]
    new_count: int  # since the audit before it
    resolved_count: int


FORMAT: Final = "counterpoise-audit/1"

# Findings that explain others: an outage is one of them and its consequences, in this order.
CAUSE_RULES: Final = ("quorum-no-leader", "broker-fenced", "log-dir-offline")

# The fields whose key in the document is not their name.
_KEYS: Final[Mapping[str, str]] = {
    "audited_at": "at",
    "summary": "seen",
    "resolved": "gone",
}
_NAMES: Final = {key: name for name, key in _KEYS.items()}


def to_json(report: AuditReport) -> str:
    """Return one JSON object and a line break: the worst findings first; null is not known."""
    document = to_content(report, _KEYS)
    # A finding and its history are one object in the document.
    document["findings"] = [row.pop("finding") | row for row in document["findings"]]
    for row in (*document["findings"], *document["gone"]):
        if row["plan"]:
            row["plan"] = {key: value for key, value in row["plan"].items() if value}
    open_counts = report.open_counts
    document |= {
        "format": FORMAT,
        "worst": report.worst,
        "open": {severity: open_counts.get(severity, 0) for severity in Severity},
    }
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, default=iso_time)
    return text + "\n"


def point_from_json(text: str, *, where: str) -> AuditPoint:
    """Return the numbers of an audit alone, ten times as fast as all of it. Raises InputError."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        open_rows = [
            row
            for row in document["findings"]
            if row["waived_by"] is None and not row.get("causes")
        ]
        is_first = document["previous_at"] is None
        return AuditPoint(
            audited_at=datetime.fromisoformat(document["at"]),
            open_counts=Counter(Severity(row["severity"]) for row in open_rows),
            new_count=0 if is_first else sum(bool(row["is_new"]) for row in open_rows),
            resolved_count=len(document["gone"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where} is no audit that can be read ({type(error).__name__}: {error})"
        ) from None


def from_json(text: str, *, where: str) -> AuditReport:
    """Return the audit. Raises InputError, naming `where`, for a text that is none."""
    try:
        document: dict[str, Any] = json.loads(text, object_hook=_with_field_names)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        document["findings"] = [{"finding": row, **row} for row in document["findings"]]
        return read_json(AuditReport, json.dumps(document))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where} is no audit that can be read ({type(error).__name__}: {error})"
        ) from None


def _with_field_names(row: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(key, key): value for key, value in row.items()}
