"""What a rule is, and the decorator that makes one of a function.

    @rule(
        "disk-full-soon",
        Severity.WARNING,
        title="...", why="...", how="...", source="https://...",
        needs={Need.HISTORY},
        thresholds={"days": 30},
    )
    def disk_full_soon(facts: AuditFacts, *, days: int) -> Iterator[CheckResult]:
        yield CheckResult(subjects.broker(2), "broker 2: /data is full in 12 days", ...)

Everything about a rule stands in its decorator and in the function below it. The thresholds in
force arrive as keyword arguments of the same names. The decorated name is the `Rule`; `rules_of`
lists the rules of a module in the order in which they stand there, which is also the order of
reports and of docs/audit-rules.md.

A check is pure. It yields nothing where all is well, and `unknown(...)` where the data that it
needs is unavailable.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from types import ModuleType
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.model import subjects
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.severity import Severity
from counterpoise.units import format_bytes

MAX_EVIDENCE_ROWS: Final = 20
UNKNOWN_PREFIX: Final = "not known: "  # of the summary of a result without its data


class Need(StrEnum):
    """What a rule reads besides the snapshot.

    A rule that needs one item of the inspection names that instead of INSPECTION: the audit says
    "unknown" where a broker did not report it, or the whole cluster did not.
    """

    CONNECTIVITY = "the connectivity check of every endpoint"
    INSPECTION = "configs, quorum, groups, requested from the cluster now"
    HISTORY = "the history"
    RACKS = "the racks of brokers"  # without any the rule is not applicable
    # No broker reports those of controllers that are no brokers: then the rule is not applicable.
    CONTROLLERS = "the configs of the controllers"


class Measure(StrEnum):
    """What a plan has to improve for a finding to stand: the beginning of a field of BrokerFigure.

    ANYTHING: any plan with a move will do.
    """

    LEADERS = "leaders"
    REPLICAS = "replicas"
    BYTES = "bytes"
    BYTES_IN = "bytes_in"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found about one subject; the rule's id and severity are added afterwards.

    `severity` is given only where it differs from the rule's. `causes` are described at `Finding`.
    """

    subject: str
    summary: str
    evidence: Evidence | None = None
    fix: tuple[str, ...] = ()
    plan: WantedPlan | None = None
    severity: Severity | None = None
    causes: tuple[str, ...] = ()


Check = Callable[..., Iterable[CheckResult]]  # (facts, **thresholds)


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its texts. `thresholds`: names and defaults of what a policy may change.

    `severity` is the usual one, `severities` are all that its findings may have, `severity` first.
    A finding of a rule with `improves` stands only where a plan improves that; the others stand as
    they are, and tell what a plan would bring. `by_name_alone`: no pattern starts it.
    """

    id: str
    severity: Severity
    title: str
    why: str
    how: str
    source: str
    check: Check
    needs: frozenset[Need | InspectionItem] = frozenset()
    thresholds: Mapping[str, int] = field(default_factory=dict)
    severities: tuple[Severity, ...] = ()
    improves: Measure | None = None
    by_name_alone: bool = False

    def results(self, facts: AuditFacts) -> list[CheckResult]:
        """Run the check with the thresholds in force; return its results by subject."""
        thresholds = facts.thresholds.get(self.id, self.thresholds)
        results = self.check(facts, **thresholds)
        return sorted(results, key=lambda result: result.subject)


def rule(
    rule_id: str,
    severity: Severity,
    *,
    title: str,
    why: str,
    how: str,
    source: str,
    needs: Iterable[Need | InspectionItem] = (),
    thresholds: Mapping[str, int] | None = None,
    severities: Iterable[Severity] = (),
    improves: Measure | None = None,
    by_name_alone: bool = False,
) -> Callable[[Check], Rule]:
    """Return a decorator that makes a `Rule` of a check.

    `severities` are those that its results may have beside the usual one and `unknown`.
    """

    def decorate(check: Check) -> Rule:
        return Rule(
            id=rule_id,
            severity=severity,
            title=title,
            why=why,
            how=how,
            source=source,
            check=check,
            needs=_with_inspection(needs),
            thresholds=dict(thresholds or {}),
            improves=improves,
            by_name_alone=by_name_alone,
            severities=(severity, *sorted(severities, key=lambda one: -one.rank)),
        )

    return decorate


def _with_inspection(needs: Iterable[Need | InspectionItem]) -> frozenset[Need | InspectionItem]:
    """Return the needs; whoever needs an item of the inspection needs an inspection."""
    known = frozenset(needs)
    return known if known <= set(Need) else known | {Need.INSPECTION}


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """Return the rules that `module` defines, in the order of its lines; not those it imports.

    A tuple of rules, made from a table, counts as all of them.
    """
    values = vars(module).values()
    listed = [value if isinstance(value, tuple) else (value,) for value in values]
    rules = [value for values in listed for value in values if isinstance(value, Rule)]
    return tuple(rule for rule in rules if rule.check.__module__ == module.__name__)


def evidence(
    columns: tuple[str, ...], rows: Iterable[tuple[object, ...]], total: int | None = None
) -> Evidence:
    """Return the first rows as text, and their number.

    With `total`, the number of all rows, no more of them are read than are shown.
    """
    if total is None:
        rows = list(rows)
        total = len(rows)
    texts = (tuple(map(str, row)) for row in islice(rows, MAX_EVIDENCE_ROWS))
    return Evidence(columns, tuple(texts), total)


def bytes_in_words(size_bytes: int | None) -> str:
    """Return `1.5 GB`, or `not known`."""
    return "not known" if size_bytes is None else format_bytes(size_bytes)


def unknown(
    reason: str, subject: str = subjects.CLUSTER, causes: tuple[str, ...] = ()
) -> CheckResult:
    """Return the result of a check whose data is unavailable.

    `causes` are subjects of the rule `not-answered`, which reports the cause once for all rules.
    """
    summary = f"{UNKNOWN_PREFIX}{reason}"
    return CheckResult(subject, summary, severity=Severity.UNKNOWN, causes=causes)
