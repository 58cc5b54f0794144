"""What an audit says: findings, each with its rows, and what to do.

    Finding("replication-factor-1", Severity.CRITICAL, "topic orders", "12 partitions have one replica", ...)

`rule` and `subject` together name a finding from one audit to the next: first seen, still there,
gone. So `subject` is about what is wrong where (a topic, a broker, the cluster), never about how
much.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from shlex import join

from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity, Waiver


@dataclass(frozen=True, slots=True)
class WantedPlan:
    """The plan that would help: a link that starts `kafka_rebalance` with it, or the command."""

    goal: Goal
    broker_ids: tuple[int, ...] = ()

    topics: tuple[str, ...] = ()  # only these; empty: all
    replication_factor: int | None = None  # of the goal of that name

    @property
    def rebalance_request(self) -> Mapping[str, object]:
        """As a form or an event names it: the fields of `model/rebalance_request.py` that are not
        empty.
        """
        values = {
            "goal": str(self.goal),
            "broker_ids": list(self.broker_ids),
            "topics": list(self.topics),
            "replication_factor": self.replication_factor,
        }
        return {name: value for name, value in values.items() if value}

    def command(self, cluster: str) -> str:
        """The line that makes it, quoted for a shell."""
        words = ["counterpoise", "plan", "--cluster", cluster, "--goal", str(self.goal)]
        if self.broker_ids:
            words += ["--brokers", ",".join(map(str, self.broker_ids))]
        if self.topics:
            words += ["--topics", ",".join(self.topics)]
        if self.replication_factor is not None:
            words += ["--replication-factor", str(self.replication_factor)]
        return join(words)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The rows that a finding was seen in: as many as are good to look at, and how many there are."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # text from the cluster; escaped where it is shown
    total: int


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule's words for people, as pages print them."""

    id: str
    area: str
    title: str
    why: str
    how: str
    source: str
    thresholds: Mapping[str, int] = field(default_factory=dict)  # as they are in force


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    severity: Severity
    subject: str
    summary: str  # one sentence, with the figures
    evidence: Evidence | None = None
    fix: tuple[str, ...] = ()  # commands or config lines to paste, in order
    plan: WantedPlan | None = None
    causes: tuple[
        str, ...
    ] = ()  # what kept the rule from looking; an audit that is kept says so in one finding

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding with its history, as a report shows it."""

    finding: Finding
    first_seen: datetime  # UTC
    is_new: bool  # not in the audit before this one
    waived_by: Waiver | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One audit of one cluster."""

    cluster: str
    cluster_id: str
    audited_at: datetime  # UTC
    snapshot_id: str
    findings: tuple[ReportedFinding, ...]  # the worst first
    resolved: tuple[Finding, ...] = ()  # of the audit before this one
    passed: tuple[str, ...] = ()  # rules that looked and found nothing
    previous_at: datetime | None = None
    unavailable_data: tuple[str, ...] = field(default=())  # what could not be read, with its reason

    @property
    def open(self) -> tuple[ReportedFinding, ...]:
        """Those that nobody waived."""
        return tuple(one for one in self.findings if one.waived_by is None)

    @property
    def worst(self) -> Severity | None:
        """Of those that nobody waived."""
        return max(
            (one.finding.severity for one in self.open),
            default=None,
            key=lambda severity: severity.rank,
        )
