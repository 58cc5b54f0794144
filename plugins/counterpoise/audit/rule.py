"""What a rule is: its words for people, and a pure function from facts to sightings.

    def _one_replica(facts: AuditFacts) -> Iterator[Sighting]:
        ...
        yield Sighting("topic orders", "12 of 12 partitions have one replica", evidence=..., fix=(...,))

    RULES: Final = (Rule("replication-factor-1", Area.REPLICATION, Severity.CRITICAL, ..., look=_one_replica), ...)

A rule that needs something that could not be read yields `unknown(...)`; one that has nothing to
say yields nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.severity import Severity


class Area(StrEnum):
    """The chapters of docs/audit-rules.md, in their order."""

    BOOTSTRAP = "bootstrap"
    LISTENERS = "advertised listeners"
    CONTROLLERS = "controllers"
    REPLICATION = "replication"
    AVAILABILITY = "availability now"
    RACKS = "racks"
    BALANCE = "balance"
    PARTITIONS = "partitions"
    LEFTOVERS = "leftovers"
    SNAPSHOTS = "snapshots"
    DISK = "disk"
    RIGHTS = "rights"
    COEXISTENCE = "coexistence"
    WAIVERS = "waivers"
    ANSWERS = "what was not answered"


class Need(StrEnum):
    """What a rule looks at beside the snapshot."""

    WALK = "the walk to every endpoint"
    INSPECTION = "configs, quorum, groups, asked now"
    HISTORY = "the history"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding as the rule sees it; `severity` only where it differs from the rule's.

    `causes`: see `Finding`.
    """

    subject: str
    seen: str
    evidence: Evidence | None = None
    fix: tuple[str, ...] = ()
    plan: WantedPlan | None = None
    severity: Severity | None = None
    causes: tuple[str, ...] = ()


Look = Callable[[AuditFacts], Iterable[Sighting]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`thresholds`: names and defaults of what a policy may change; `facts.threshold(id, name)`
    reads one.
    """

    id: str
    area: Area
    severity: Severity
    title: str
    why: str
    how: str
    source: str
    look: Look
    needs: frozenset[Need] = frozenset()
    thresholds: Mapping[str, int] = field(default_factory=dict)


MOST_ROWS: Final = 20


def evidence(
    columns: tuple[str, ...], rows: Iterable[tuple[object, ...]], total: int | None = None
) -> Evidence:
    """The first rows as text, and how many there are; `total` where `rows` are not all of them."""
    listed = list(rows)
    told = len(listed) if total is None else total
    return Evidence(columns, tuple(tuple(map(str, row)) for row in listed[:MOST_ROWS]), told)


def unknown(subject: str, why: str, causes: tuple[str, ...] = ()) -> Sighting:
    """What the rule needs could not be read; `causes`: subjects of `not-answered`, which says so
    for all rules.
    """
    return Sighting(subject, f"not known: {why}", severity=Severity.UNKNOWN, causes=causes)
