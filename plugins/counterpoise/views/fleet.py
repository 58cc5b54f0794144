"""What people see of all clusters: a row for each, the worst first, and what waits for an answer.

    shown = seen.page(FleetQuery(search="orders", show="attention", sort="disk", page=2))
    shown.rows[0].condition.word      # "Not answering"
    seen.document(query)              # GET /api/fleet

Figures are those of the newest analysis; failures, snapshots, findings and runs are as of now.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self

from msgspec import Struct, field

from counterpoise.model.cluster_failure import ClusterFailure, FailureKind
from counterpoise.model.control import ControlRequest
from counterpoise.model.finding import AuditPoint, AuditReport
from counterpoise.model.fleet_document import Concern, FleetDocument, FleetEntry, document_of
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.model.severity import Severity
from counterpoise.model.words import capitalized
from counterpoise.units import format_moment
from counterpoise.views import as_document, view_of
from counterpoise.views.run import RunView, WaitingRunView

ROWS_ON_A_PAGE: Final = 50
WAITING_SHOWN: Final = 10
NOT_READ: Final = "The ledger cannot be read now, so runs, questions and freezes are not known."


class AuditCounts(Struct, frozen=True, kw_only=True):
    """Findings of an audit that nobody waived, by severity."""

    audited_at: datetime = field(name="at")
    open: dict[Severity, int]

    @classmethod
    def of(cls, audit: AuditReport | AuditPoint) -> Self:
        counts = {severity: audit.open_counts.get(severity, 0) for severity in Severity}
        return view_of(cls, audit, open=counts)


class AuditPointView(AuditCounts, frozen=True, kw_only=True):
    """An audit, and what changed since the one before it."""

    new_count: int = field(name="new")
    resolved_count: int = field(name="resolved")


class FreezeView(Struct, frozen=True):
    cluster: str
    who: str = field(name="by")
    why: str
    at: datetime
    until: datetime | None


class Condition(Struct, frozen=True):
    """The gravest thing that is the matter with a cluster, or what goes on there."""

    kind: str  # bad, warn, move, calm, ok: the colour
    icon: str
    word: str
    why: str = ""
    run_id: str | None = None  # that it is about
    is_concern: bool = False  # found by analysis or audit, and not what happens now

    @property
    def needs_attention(self) -> bool:
        return self.kind in ("bad", "warn")


_HEALTHY: Final = Condition("ok", "check", "Healthy")
_KINDS: Final = ("bad", "warn", "move", "calm", "ok")
_OF_CONCERNS: Final[Mapping[str, tuple[str, str, str]]] = {
    Concern.SILENT: ("bad", "clock", "No new snapshot"),
    Concern.NOT_ANALYSED: ("warn", "clock", "Not analysed"),
    Concern.OFFLINE: ("bad", "off", "Partitions offline"),
    Concern.CRITICAL: ("bad", "stop", "Critical findings"),
    Concern.DISK: ("bad", "stop", "Disk fills up"),
    Concern.DEAD: ("bad", "off", "Broker down"),
    Concern.IDLE: ("warn", "warn", "Idle broker"),
    Concern.UNEVEN: ("warn", "warn", "Leaders uneven"),
    Concern.OFF_SHARE: ("warn", "warn", "Replicas uneven"),
    Concern.NOT_PREFERRED: ("calm", "info", "Not preferred leaders"),
    Concern.BUSY: ("calm", "info", "Busy broker"),
    Concern.LEFT_OUT: ("calm", "info", "Snapshots left out"),
}


class FleetRow(Struct, frozen=True, kw_only=True):
    """One cluster."""

    cluster: str
    condition: Condition  # the gravest
    others: tuple[Condition, ...]
    entry: FleetEntry  # what the newest analysis has of it
    failure: ClusterFailure | None
    audit: AuditPoint | None
    unreadable_audit: str | None  # the path of the newest audit's file
    is_waiting: bool
    is_moving: bool
    is_frozen: bool

    @property
    def age_seconds(self) -> float | None:
        """Return the age of the newest snapshot; None: it has none."""
        return self.entry.age_seconds

    @property
    def is_stale(self) -> bool:
        """Return whether its figures are of another time than the page."""
        return self.failure is not None or self.entry.has(Concern.SILENT)

    @property
    def best_leaders(self) -> float:
        """Return the fair share of a live broker."""
        leaders = self.entry.live_leaders
        return sum(leaders) / len(leaders) if leaders else 0.0

    @property
    def disk_share(self) -> float | None:
        """Return how full the disk is that fills up first; 0.0 to 1.0."""
        return self.entry.first_disk.used_share if self.entry.first_disk else None

    @property
    def disk_kind(self) -> str:
        days = self.entry.first_full_days
        if days is None:
            return ""
        return "bad" if days <= 30 else "warn" if days <= 90 else ""

    @property
    def document(self) -> dict[str, Any]:
        failure = self.failure and {
            "kind": self.failure.kind,
            "since": self.failure.since,
            "text": self.failure.text,
        }
        return document_of(self.entry) | {
            "audit": as_document(AuditCounts.of(self.audit)) if self.audit else None,
            "audit_unreadable": self.unreadable_audit,
            "failure": failure,
        }


class OpenRunsView(Struct, frozen=True):
    waiting: tuple[WaitingRunView, ...]
    runs: tuple[RunView, ...]  # approved and under way

    @classmethod
    def of(cls, waiting: Sequence[WaitingRunView], runs: Sequence[Run]) -> Self:
        """Return them; of runs, the approved ones first."""
        ordered = sorted(runs, key=lambda run: run.state is not RunState.APPROVED)
        return cls(tuple(waiting), tuple(view_of(RunView, run) for run in ordered))


class FleetQuery(Struct, frozen=True):
    """What somebody wants to see of the fleet; what is no filter or column is as if not given."""

    search: str = ""  # part of a name
    show: str = "all"
    sort: str = "state"
    order: str = ""  # "ascending", "descending"; "": as the column begins
    page: int = 1

    @property
    def is_descending(self) -> bool:
        begins = COLUMNS[self.column][1]
        return {"ascending": False, "descending": True}.get(self.order, begins)

    @property
    def column(self) -> str:
        return self.sort if self.sort in COLUMNS else "state"

    @property
    def filter(self) -> str:
        return self.show if self.show in FILTERS else "all"


FILTERS: Final[Mapping[str, tuple[str, Callable[[FleetRow], bool]]]] = {
    "all": ("All", lambda row: True),
    "attention": ("Need attention", lambda row: row.condition.needs_attention),
    "waiting": ("Waiting", lambda row: row.is_waiting),
    "moving": ("Moving", lambda row: row.is_moving),
    "frozen": ("Frozen", lambda row: row.is_frozen),
}
# By column: its value (None is not known, and last), and whether the first click is for the most.
COLUMNS: Final[Mapping[str, tuple[Callable[[FleetRow], Any], bool]]] = {
    "state": (lambda row: 0, True),  # the rows are in this order
    "cluster": (lambda row: row.cluster, False),
    "brokers": (lambda row: row.entry.brokers, True),
    "bytes_in": (lambda row: row.entry.bytes_in_per_second, True),
    "disk": (lambda row: row.disk_share, True),
    "snapshot": (lambda row: row.age_seconds, True),
}


class FleetPage(Struct, frozen=True):
    """The rows of one page, of all that a query wants."""

    rows: tuple[FleetRow, ...]
    number: int  # of the page, from 1
    pages: int
    first: int  # row on it, from 1
    count: int  # rows on all pages
    by_filter: dict[str, int]  # how many rows each filter would show


class FleetView(Struct, frozen=True, kw_only=True):
    """All clusters that somebody may view, the worst first, and what waits."""

    analysed_at: datetime | None  # UTC; None: no analysis yet
    rows: tuple[FleetRow, ...]
    waiting: tuple[WaitingRunView, ...]  # the oldest first
    runs: tuple[RunView, ...]  # approved, under way, halted
    freezes: tuple[FreezeView, ...]
    ledger_away: str = ""  # what is not known, and why; "": the ledger was read

    @classmethod
    def of(cls, document: FleetDocument) -> Self:
        """Return what an analysis alone knows: no failures, audits, runs and freezes."""
        return cls(
            analysed_at=document.as_of,
            rows=in_order(list(map(_row_of, document.clusters))),
            waiting=(),
            runs=(),
            freezes=(),
        )

    @property
    def waiting_first(self) -> tuple[WaitingRunView, ...]:
        """Return the plans that are shown, those that the viewer may answer first."""
        ordered = sorted(self.waiting, key=lambda one: not one.is_mine)
        return tuple(ordered[:WAITING_SHOWN])

    @property
    def attention_count(self) -> int:
        return sum(row.condition.needs_attention for row in self.rows)

    @property
    def broker_count(self) -> int:
        return sum(row.entry.live_brokers or 0 for row in self.rows)

    @property
    def is_known(self) -> bool:
        """Return whether any cluster was analysed, so that there is something to sum up."""
        return any(row.entry.live_brokers is not None for row in self.rows)

    @property
    def held_bytes(self) -> int:
        return sum(row.entry.bytes or 0 for row in self.rows)

    def page(self, query: FleetQuery) -> FleetPage:
        wanted = query.search.strip().casefold().strip("*")
        named = [row for row in self.rows if wanted in row.cluster.casefold()]
        by_filter = {name: sum(map(is_in, named)) for name, (_, is_in) in FILTERS.items()}
        found = _sorted(list(filter(FILTERS[query.filter][1], named)), query)
        pages = max(1, -(-len(found) // ROWS_ON_A_PAGE))
        number = min(max(1, query.page), pages)
        first = (number - 1) * ROWS_ON_A_PAGE
        rows = tuple(found[first : first + ROWS_ON_A_PAGE])
        return FleetPage(rows, number, pages, first + 1, len(found), by_filter)

    def document(self, query: FleetQuery) -> dict[str, Any]:
        """Return what the JSON API answers: of the clusters one page."""
        shown = self.page(query)
        return {
            "analysed_at": self.analysed_at,
            "clusters": [row.document for row in shown.rows],
            "page": shown.number,
            "pages": shown.pages,
            "count": shown.count,
            "waiting": as_document(self.waiting),
            "runs": as_document(self.runs),
            "freezes": as_document(self.freezes),
            "ledger_away": self.ledger_away or None,
        }


def _row_of(entry: FleetEntry) -> FleetRow:
    worst, *others = conditions(entry)
    return FleetRow(
        cluster=entry.cluster,
        condition=worst,
        others=tuple(others),
        entry=entry,
        failure=None,
        audit=None,
        unreadable_audit=None,
        is_waiting=False,
        is_moving=False,
        is_frozen=False,
    )


def _sorted(rows: list[FleetRow], query: FleetQuery) -> list[FleetRow]:
    """Return the rows in the order of a column; equal ones, the worst first."""
    if query.column == "state":
        return rows if query.is_descending else rows[::-1]
    value_of = COLUMNS[query.column][0]
    known = [row for row in rows if value_of(row) is not None]
    unknown = [row for row in rows if value_of(row) is None]
    return sorted(known, key=value_of, reverse=query.is_descending) + unknown


# -- what is the matter with a cluster


def conditions(
    entry: FleetEntry,
    *,
    failure: ClusterFailure | None = None,
    unreadable_audit: str | None = None,
    run: Run | None = None,  # the one under way, else the one that waits, else the newest
    doing: str = "",  # of the run under way
    waiting: WaitingRunView | None = None,
    freeze: ControlRequest | None = None,
) -> list[Condition]:
    """Return what there is to say of a cluster, the gravest first."""
    found: list[Condition] = []
    if failure:
        found.append(failing(failure))
    if run and run.state is RunState.HALTED:
        found.append(Condition("bad", "stop", "Run halted", capitalized(run.reason), run.run_id))
    if waiting:
        found.append(_of_waiting(waiting))
    found += [_of_concern(entry, one.concern, one.words) for one in entry.concerns]
    if unreadable_audit:
        why = f"Audit {unreadable_audit} cannot be read"
        found.append(Condition("warn", "warn", "Findings not known", why, is_concern=True))
    if run and run.state in UNDER_WAY_STATES:
        words = capitalized(doing or f"the run is {run.state}")
        found.append(Condition("move", "play", "Moving", words, run.run_id))
    if freeze:
        words = capitalized(freeze.frozen_in_words.removeprefix("frozen").strip())
        found.append(Condition("calm", "snow", "Frozen", words))
    if run and run.state is RunState.APPROVED and not waiting:
        found.append(Condition("calm", "clock", "Approved", "Not started yet", run.run_id))
    by_kind = sorted(found, key=lambda one: _KINDS.index(one.kind))
    return by_kind or [_HEALTHY]


def failing(failure: ClusterFailure) -> Condition:
    """Return that the brokers do not answer, or that the last snapshot failed, and why."""
    is_away = failure.kind is FailureKind.NOT_ANSWERING
    word, icon = ("Not answering", "off") if is_away else ("Snapshot failed", "stop")
    why = f"Since {format_moment(failure.since)}: {failure.text}"
    return Condition("bad", icon, word, why)


def _of_waiting(waiting: WaitingRunView) -> Condition:
    kind, word = ("warn", "Waits for you") if waiting.is_mine else ("calm", "Waits for approval")
    return Condition(kind, "clock", word, capitalized(waiting.goal or "A plan"), waiting.run_id)


def _of_concern(entry: FleetEntry, concern: str, words: str) -> Condition:
    kind, icon, word = _OF_CONCERNS.get(concern, ("warn", "warn", concern))
    if concern == Concern.SILENT and entry.age_seconds is None:
        kind, word = "warn", "No snapshot yet"
    return Condition(kind, icon, word, capitalized(words), is_concern=True)


def in_order(rows: Sequence[FleetRow]) -> tuple[FleetRow, ...]:
    """Return the rows, the worst first: by the kind of their condition, then as they were; what
    does not work now is worse than all that was found.
    """
    kinds = list(FailureKind)

    def badness(row: FleetRow) -> tuple[int, int]:
        failed = len(kinds) if row.failure is None else kinds.index(row.failure.kind)
        return _KINDS.index(row.condition.kind), failed

    return tuple(sorted(rows, key=badness))
