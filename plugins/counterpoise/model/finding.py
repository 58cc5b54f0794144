"""What an audit found: findings, each with its evidence, and what to do.

    Finding("racks-missing", Severity.WARNING, "broker 3", "broker 3 has no rack", ...)

`rule` and `subject` together name a finding from one audit to the next: new, still there, resolved.
So a subject says where the trouble is (a topic, a broker, the cluster), never how much of it there
is; `model/subjects.py` builds it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.safe_text import one_line, shell_word
from counterpoise.model.severity import Severity, Waiver


@dataclass(frozen=True, slots=True)
class WantedPlan:
    """A plan that would help: pages link to `kafka_rebalance` with it, or show the command."""

    goal: Goal
    broker_ids: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()  # only these; empty: all
    replication_factor: int | None = None  # of the goal of that name

    @property
    def rebalance_request(self) -> Mapping[str, object]:
        """Return the fields of `model/rebalance_request.py` that are not empty, as in the form."""
        values = {
            "goal": str(self.goal),
            "broker_ids": list(self.broker_ids),
            "topics": list(self.topics),
            "replication_factor": self.replication_factor,
        }
        return {name: value for name, value in values.items() if value}

    def command(self, cluster: str) -> str:
        """Return the command that makes the plan, quoted for a shell."""
        words = ["counterpoise", "plan", "--cluster", cluster, "--goal", str(self.goal)]
        if self.broker_ids:
            words += ["--brokers", ",".join(map(str, self.broker_ids))]
        if self.topics:
            words += ["--topics", ",".join(self.topics)]
        if self.replication_factor is not None:
            words += ["--replication-factor", str(self.replication_factor)]
        words += ["--out", "plan.json"]
        return " ".join(map(shell_word, words))


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
    once for all rules of a stored audit.
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
    unavailable_data: tuple[str, ...] = field(default=())  # each with its reason

    @property
    def open(self) -> tuple[ReportedFinding, ...]:
        """Return the findings that nobody waived."""
        return tuple(reported for reported in self.findings if reported.waived_by is None)

    @property
    def open_counts(self) -> Counter[Severity]:
        """Return the numbers of findings that nobody waived, by severity."""
        return Counter(reported.finding.severity for reported in self.open)

    def open_at(self, severity: Severity) -> tuple[ReportedFinding, ...]:
        """Return what nobody waived and is as bad as `severity`, or worse."""
        return tuple(one for one in self.open if one.finding.severity.rank >= severity.rank)

    @property
    def worst(self) -> Severity | None:
        """Return the worst severity among the findings that nobody waived; None: no finding."""
        severities = [reported.finding.severity for reported in self.open]
        return max(severities, default=None, key=lambda severity: severity.rank)
