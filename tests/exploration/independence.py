"""Which actions may change places: what an action reads, and what the actions of others write.

    An actor A stands at p1, reads, and comes to p2. Another actor may come first at p1, or at p2.
    p2 is explored before p1 (the newest branch is followed first). If nothing that was done there
    before A went on writes what A had read, the same states follow from p1: it is not explored.

    p1: | B writes the cluster | A reads the ledger | ...   leads where
    p2: A reads the ledger | B writes the cluster | ...     leads.

A probe collects what is written on all paths below a branch until A acts again. Where a path ends
in a state that was met before, those that went on from there tell the rest, if they are through;
otherwise a probe knows nothing, and nothing is left out.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from counterpoise.model.run import STEP_LOCK_SECONDS
from tests.support.ledger_view import TABLES

if TYPE_CHECKING:
    from tests.exploration.freezing import Frozen, Meanwhile
    from tests.exploration.paths import Budget

TIME: Final = "time"
_DATABASE_CLOCK: Final = "strftime"
_WRITES: Final = re.compile(r"\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) \"?(\w+)")
_TABLES: Final = re.compile(rf"\b({'|'.join(TABLES)})\b")
# Which part of the cluster an answer depends on; of what is not named here: on all but the configs.
_READ_BY_CALL: Final = {
    "describe_configs": {"configs", "brokers", "topic ids"},
    "describe_cluster": {"brokers"},
    "describe_versions": {"brokers"},
}
_READ_OTHERWISE: Final = {"partitions", "brokers", "topic ids"}


def by_others(kind: str) -> str:
    """What somebody else changes, also when it is as it was: the promises ask who has seen it."""
    return f"{kind} by others"


@dataclass(slots=True)
class Footprint:
    """What was read and written: tables, parts of the cluster, the time."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def note_call(self, name: str) -> None:
        self.reads |= _READ_BY_CALL.get(name, _READ_OTHERWISE)

    def note_statement(self, statement: str, rows: int) -> None:
        reads, writes = _tables_of(statement)
        self.reads |= reads
        if rows:
            self.writes |= writes


@lru_cache(maxsize=10_000)
def _tables_of(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    reads = frozenset(_TABLES.findall(statement))
    if _DATABASE_CLOCK in statement:
        reads |= {TIME}
    if statement.lstrip().startswith("SELECT"):
        return reads, frozenset()
    found = _WRITES.match(statement)
    return reads, frozenset([found.group(1)]) if found else reads


@dataclass(slots=True, eq=False)
class Probe:
    """What others write below a branch before the actor that stands there acts again."""

    began_at: float
    writes: set[str] = field(default_factory=set)
    seconds: float = 0.0  # the longest time until then
    is_complete: bool = False  # everything below the branch has been explored
    is_unknown: bool = False

    def note(self, writes: set[str], now: float) -> None:
        self.writes |= writes
        self._note_seconds(now - self.began_at)

    def join(self, other: "Probe | None", now: float) -> None:
        """Go on as another one did, from the same state."""
        if other is None or other.is_unknown or not other.is_complete:
            self.is_unknown = True
        else:
            self.writes |= other.writes
            self._note_seconds(now - self.began_at + other.seconds)

    def _note_seconds(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)
        # A call that comes so late is excused: it matters where the actor stood meanwhile.
        self.is_unknown = self.is_unknown or self.seconds >= STEP_LOCK_SECONDS


Probes = dict[str, tuple[Probe, ...]]  # by the name of the actor that was preempted


@dataclass(slots=True)
class Visit:
    """A state that was met: the probes that were open, and those of the branches from there."""

    budget: "Budget"
    probes: Probes
    # By choice, and who goes on that was frozen.
    branches: dict[tuple[str, object], Probe] = field(default_factory=dict)
    meanwhile: "Meanwhile | None" = None  # while a process is frozen
    frozen: "Frozen | None" = None  # who was frozen here


@dataclass(slots=True)
class Reading:
    """An actor's way from one point to the next, on which it only read."""

    visit: Visit  # where it began
    reads: set[str] = field(default_factory=set)
    following: Visit | None = None  # None: it did something else

    def is_covered(self, choice: tuple[str, object]) -> bool:
        """Return whether this preemption leads where the one at the following point led."""
        probe = self.following.branches.get(choice) if self.following else None
        if probe is None or probe.is_unknown or not probe.is_complete:
            return False
        if self.reads & probe.writes:
            return False
        self.visit.branches[choice] = probe
        return True
