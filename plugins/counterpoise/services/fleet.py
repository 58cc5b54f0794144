"""All clusters that somebody may view, and one of them, as of now; and what waits for a decision.

    found = fleet(installation, Viewing.of(installation, viewer), search="orders")
    found.entries[0].worst, found.mine, found.under_way
    cluster(installation, Viewing.of(installation, viewer), "orders-eu").audit

Figures and charts are those of `reports/fleet.json`, which `kafka_leader_balance` writes after each
analysis. Snapshots, audits and runs are as of now: clusters that have become overdue, or have
critical findings since, stand where they belong.

Limits: a cluster that was added since the last analysis has no figures yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from counterpoise import access, analysis
from counterpoise.archive import audit_report_name, balance_report_name, fleet_report_name
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.connection import shown_settings
from counterpoise.ledger.overview import LedgerState
from counterpoise.model.control import ControlRequest
from counterpoise.model.finding import AuditPoint, AuditReport
from counterpoise.model.fleet_document import FleetDocument, FleetEntry, read_fleet
from counterpoise.model.policy import Action
from counterpoise.model.run import OPEN_STATES, UNDER_WAY_STATES, Run, RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.severity import Severity
from counterpoise.reporting.html import body_of
from counterpoise.services.approvals import WhoseYes, asks_people, whose_yes
from counterpoise.services.audits import newest_audit, newest_points
from counterpoise.services.requests import in_force
from counterpoise.services.viewers import Viewing, why_not
from counterpoise.settings import ClusterSettings, PolicyRow, policy_rows
from counterpoise.storage.file_cache import FileCache
from counterpoise.views.now import RunNow

_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that waits for a yes or a no."""

    run: Run
    waits_for: timedelta
    is_mine: bool  # the viewer may decide
    yes: WhoseYes


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """The runs that have not ended, of the clusters that somebody may view."""

    waiting: tuple[WaitingRun, ...]  # the oldest first
    approved: tuple[Run, ...]
    under_way: tuple[Run, ...]

    @property
    def mine(self) -> tuple[WaitingRun, ...]:
        return tuple(one for one in self.waiting if one.is_mine)

    @property
    def others(self) -> tuple[WaitingRun, ...]:
        return tuple(one for one in self.waiting if not one.is_mine)


@dataclass(frozen=True, slots=True)
class FleetNow(OpenRuns):
    analysed_at: datetime | None  # UTC; None: no analysis yet
    entries: tuple[FleetEntry, ...]  # worst first, those that were searched
    cluster_count: int  # that the viewer may view
    audits: Mapping[str, AuditPoint]
    unreadable_audits: Mapping[str, str]  # the path of the file, by cluster
    pausable: frozenset[str]  # ids of those under way that the viewer may pause now
    halted: tuple[Run, ...]  # of clusters that have had no other run since
    doing: Mapping[str, str]  # what a run under way does now, by its id
    freezes: tuple[ControlRequest, ...]  # in force, by cluster


def fleet(installation: Installation, viewing: Viewing, *, search: str = "") -> FleetNow:
    """Return the clusters whose name has `search` in it, and all open runs of the others too."""
    clusters = viewing.clusters
    document = _fleet_document(installation)
    known = {entry.cluster: entry for entry in document.clusters} if document else {}
    entries = [known.get(name, FleetEntry(name)) for name in _in_order(clusters, known)]
    audits = newest_points(installation, clusters)
    states = installation.ledger.cluster_states(clusters)
    ages = _ages(entries, document, states, installation.clock())
    critical = {
        name: point.open_counts.get(Severity.CRITICAL, 0) for name, point in audits.known.items()
    }
    wanted = search.strip().casefold()
    ordered = analysis.as_of_now(entries, ages, critical)
    now_open = open_runs(installation, viewing)
    active = in_force(installation, clusters)
    now = installation.ledger.now()
    runs_now = {name: state.run for name, state in states.items() if state.run}
    return FleetNow(
        analysed_at=document.as_of if document else None,
        entries=tuple(entry for entry in ordered if wanted in entry.cluster.casefold()),
        cluster_count=len(clusters),
        audits=audits.known,
        unreadable_audits=audits.unreadable,
        waiting=now_open.waiting,
        approved=now_open.approved,
        under_way=now_open.under_way,
        pausable=frozenset(
            run.run_id
            for run in now_open.under_way
            if run.state is RunState.RUNNING
            and not active[run.cluster].paused
            and viewing.may(run.cluster, Action.OPERATE)
        ),
        halted=tuple(run for run in runs_now.values() if run.state is RunState.HALTED),
        doing={
            runs_now[name].run_id: RunNow(runs_now[name], state.run_progress, now).sentence
            for name, state in states.items()
            if state.run_progress is not None
        },
        freezes=tuple(each.frozen for each in active.values() if each.frozen),
    )


def open_runs(installation: Installation, viewing: Viewing) -> OpenRuns:
    """Return the runs that wait for an answer, and who may give it; and those that go on."""
    runs = [
        run
        for run in installation.ledger.runs(states=OPEN_STATES)
        if run.cluster in viewing.clusters
    ]
    newest = installation.ledger.cluster_states(viewing.clusters).values()
    halted = [one.run for one in newest if one.run and one.run.state is RunState.HALTED]
    waiting = tuple(waiting_runs(installation, viewing, [*runs, *halted]))
    asked = {one.run.run_id for one in waiting}
    return OpenRuns(
        waiting=waiting,
        approved=tuple(
            run for run in runs if run.state is RunState.APPROVED and run.run_id not in asked
        ),
        under_way=tuple(run for run in runs if run.state in UNDER_WAY_STATES),
    )


def waiting_runs(
    installation: Installation, viewing: Viewing, runs: Sequence[Run]
) -> list[WaitingRun]:
    """Return those of the runs that wait for an answer, oldest first, and who may give it: also
    those whose yes has run out, and halted ones about which people are asked again.
    """
    now = installation.ledger.now()
    return [
        _waiting(installation, viewing, run, now)
        for run in sorted(runs, key=lambda run: (run.opened_at, run.run_id))
        if asks_people(installation, run)
    ]


def _waiting(installation: Installation, viewing: Viewing, run: Run, now: datetime) -> WaitingRun:
    policy = viewing.settings.clusters[run.cluster].policy
    approvals = installation.ledger.approvals_of(run.run_id)
    yes = whose_yes(policy, run, approvals, now)
    refusal = why_not(
        access.check_would_count,
        policy,
        run,
        approvals,
        now,
        needed=yes.needed,
        by=viewing.person,
    )
    is_mine = viewing.viewer.may_answer and not refusal
    waited_for = max(now - run.opened_at, timedelta(0))
    return WaitingRun(run, waited_for, is_mine, yes)


def _fleet_document(installation: Installation) -> FleetDocument | None:
    path = f"reports/{fleet_report_name(suffix='json')}"
    try:
        return _DOCUMENTS.of(installation.archive.store, path)
    except CounterpoiseError as error:
        _LOGGER.warning("the figures of the fleet are left out: %s", error)
        return None


def _in_order(clusters: tuple[str, ...], known: Mapping[str, FleetEntry]) -> list[str]:
    """Return the clusters in the order of the document, those that it lacks first."""
    wanted = set(clusters)
    new = [name for name in clusters if name not in known]
    return [*new, *(name for name in known if name in wanted)]


def _ages(
    entries: Sequence[FleetEntry],
    document: FleetDocument | None,
    states: Mapping[str, LedgerState],
    now: datetime,
) -> dict[str, timedelta | None]:
    """Return the age of each cluster's newest snapshot."""
    newest = {name: state.snapshot_at for name, state in states.items()}
    return {
        entry.cluster: _age(entry, document, newest.get(entry.cluster), now) for entry in entries
    }


def _age(
    entry: FleetEntry, document: FleetDocument | None, newest: datetime | None, now: datetime
) -> timedelta | None:
    """Return the age of the newest snapshot that ledger or document know of."""
    then = entry.age
    known = [] if newest is None else [now - newest]
    if document is not None and then is not None:
        known.append(now - document.as_of + then)
    return min(known, default=None)


_DOCUMENTS: Final = FileCache(read_fleet, max_entries=5)


# -- one cluster


_RUNS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class ShownConnection:
    """A connection by its id: which settings it has, without what may be secret."""

    connection_id: str
    work: str  # what it is for
    settings: tuple[tuple[str, str], ...]
    not_readable: str = ""  # why there are none


@dataclass(frozen=True, slots=True)
class ClusterNow:
    settings: ClusterSettings
    cluster_id: str  # "" while nobody has met it
    may_propose: bool
    why_not_operate: str  # why the viewer may not freeze the cluster; "" where they may
    snapshot_age: timedelta | None  # None: it has none
    balance: Markup  # sections of the report; empty: no analysis yet
    audit: AuditReport | None
    unreadable_audit: str  # the path of the newest audit's file; "": it is known, or there is none
    runs: tuple[Run, ...]  # the newest first, and only the newest
    run_count: int
    waiting: tuple[WaitingRun, ...]
    freeze: ControlRequest | None
    kept_empty: tuple[ControlRequest, ...]  # by broker
    connections: tuple[ShownConnection, ...]
    policy: tuple[PolicyRow, ...]
    downloads: tuple[str, ...]  # names of reports


def cluster(installation: Installation, viewing: Viewing, name: str) -> ClusterNow:
    """Return a cluster. Raises UnknownClusterError, MayNotViewError, StoreError, LedgerError."""
    settings = viewing.check(name)
    ledger = installation.ledger
    runs = ledger.runs(cluster=name)
    current = [run for run in runs if run.state in OPEN_STATES or run is runs[0]]
    snapshot_at: datetime | None = ledger.entries().newest_snapshots().get(name)
    store = installation.archive.store
    audit = newest_audit(installation, name)
    active = installation.active_requests(name)
    return ClusterNow(
        settings=settings,
        cluster_id=settings.pinned_cluster_id or ledger.pinned_clusters().get(name, ""),
        may_propose=viewing.may(name, Action.PROPOSE),
        why_not_operate=viewing.refusal(name, Action.OPERATE),
        snapshot_age=None if snapshot_at is None else installation.clock() - snapshot_at,
        balance=_BODIES.of(store, f"reports/{balance_report_name(name)}") or Markup(""),
        audit=audit.report,
        unreadable_audit=audit.unreadable,
        runs=runs[:_RUNS_SHOWN],
        run_count=len(runs),
        waiting=tuple(waiting_runs(installation, viewing, current)),
        freeze=active.frozen,
        kept_empty=tuple(active.kept_empty.values()),
        connections=tuple(_connections(installation, settings)),
        policy=policy_rows(settings.policy),
        downloads=_downloads(installation, name),
    )


def _connections(
    installation: Installation, settings: ClusterSettings
) -> Iterable[ShownConnection]:
    works: dict[str, str] = {settings.connection_id: "reads"}
    if settings.operator_connection_id in works:
        works[settings.connection_id] = "reads and changes"
    else:
        works[settings.operator_connection_id] = "changes the cluster"
    for connection_id, work in works.items():
        try:
            extra = installation.connections.settings_for(connection_id)
        except InputError:  # its text is for whoever configures connections
            reason = "It cannot be read here: the api-server does not know this connection."
            yield ShownConnection(connection_id, work, (), reason)
        else:
            yield ShownConnection(connection_id, work, tuple(shown_settings(extra).items()))


def _downloads(installation: Installation, name: str) -> tuple[str, ...]:
    """Return the names of the newest reports that are there."""
    names = [
        make_name(name, suffix=suffix)
        for make_name in (balance_report_name, audit_report_name)
        for suffix in ("html", "json")
    ]
    store = installation.archive.store
    return tuple(name for name in names if store.info(f"reports/{name}") is not None)


def balance_document(installation: Installation, name: str) -> str | None:
    """Return the newest balance report of a cluster as JSON; None where there is none."""
    try:
        return installation.archive.read_report(balance_report_name(name, suffix="json"))
    except CounterpoiseError:
        return None


def _body(text: str, *, where: str) -> Markup:
    return body_of(text)


_BODIES: Final = FileCache(_body, max_entries=20)
