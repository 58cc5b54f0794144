"""All clusters that somebody may view, and one of them, as of now; and what waits for a decision.

    seen = fleet(installation, Viewing.of(installation, viewer))
    seen.rows[0].condition, seen.waiting
    cluster_head(installation, Viewing.of(installation, viewer), "orders-eu").row

Figures are those of `reports/fleet.json` and `leader-balance.json`, which `kafka_leader_balance`
writes after each analysis. Failures, snapshots, audits and runs are as of now. Without the ledger
there is what the store has, and the views say so.

Limits: a cluster that was added since the last analysis has no figures yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from counterpoise import access, analysis
from counterpoise.archive import audit_report_name, balance_report_name
from counterpoise.errors import CounterpoiseError, InputError, LedgerError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.connection import shown_settings
from counterpoise.ledger.ledger import LedgerState
from counterpoise.model.cluster_failure import ClusterFailure
from counterpoise.model.control import ActiveRequests
from counterpoise.model.fleet_document import FleetDocument, FleetEntry
from counterpoise.model.policy import Action
from counterpoise.model.run import OPEN_STATES, UNDER_WAY_STATES, Run, RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.severity import Severity
from counterpoise.services.approvals import asks_people, whose_yes
from counterpoise.services.audits import newest_points
from counterpoise.services.requests import in_force
from counterpoise.services.runs import plan_to_approve
from counterpoise.services.viewers import Viewing, why_not
from counterpoise.settings import ClusterSettings, PolicyRow, policy_rows
from counterpoise.storage.file_cache import FileCache
from counterpoise.views import view_of
from counterpoise.views.balance import BalanceDocument, read_balance
from counterpoise.views.cluster import ClusterHead
from counterpoise.views.fleet import (
    NOT_READ,
    Condition,
    FleetRow,
    FleetView,
    FreezeView,
    OpenRunsView,
    conditions,
    failing,
    in_order,
)
from counterpoise.views.now import RunNow
from counterpoise.views.run import WaitingRunView

_LOGGER = safe_logger(__name__)
_BALANCES: Final = FileCache(read_balance, max_entries=20)
_RUNS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class LedgerNow:
    """What the ledger knows of the clusters that somebody may view; nothing while it is away."""

    now: datetime
    states: Mapping[str, LedgerState]
    active: Mapping[str, ActiveRequests]
    failures: Mapping[str, ClusterFailure]
    runs: tuple[Run, ...] = ()  # that have not ended
    waiting: tuple[WaitingRunView, ...] = ()  # the oldest first
    away: str = ""  # what is not known; "": it was read


def fleet(installation: Installation, viewing: Viewing) -> FleetView:
    """Return all clusters, the worst first."""
    ledger = _ledger_now(installation, viewing)
    document = installation.archive.fleet()
    halted = _halted(ledger.states.values())
    waiting_ids = {one.run_id for one in ledger.waiting}
    going_on = [run for run in ledger.runs if run.run_id not in waiting_ids]
    frozen = [requests.frozen for requests in ledger.active.values() if requests.frozen]
    return FleetView(
        analysed_at=document.as_of if document else None,
        rows=in_order(_rows(installation, viewing.clusters, ledger, document)),
        waiting=ledger.waiting,
        runs=OpenRunsView.of((), [*going_on, *halted]).runs,
        freezes=tuple(view_of(FreezeView, request) for request in frozen),
        ledger_away=ledger.away,
    )


def open_runs(installation: Installation, viewing: Viewing) -> OpenRunsView:
    """Return the runs that wait for an answer, and who may give it; and those that go on.

    Raises LedgerError.
    """
    runs = _open_runs(installation, viewing)
    newest = installation.ledger.cluster_states(viewing.clusters).values()
    waiting = _waiting_runs(installation, viewing, [*runs, *_halted(newest)])
    asked = {one.run_id for one in waiting}
    return OpenRunsView.of(waiting, [run for run in runs if run.run_id not in asked])


def _open_runs(installation: Installation, viewing: Viewing) -> list[Run]:
    found = installation.ledger.runs(states=OPEN_STATES)
    return [run for run in found if run.cluster in viewing.clusters]


def _halted(states: Iterable[LedgerState]) -> list[Run]:
    return [state.run for state in states if state.run and state.run.state is RunState.HALTED]


def failing_clusters(installation: Installation) -> dict[str, Condition]:
    """Return what does not work now, by cluster; {} while the ledger is away, too."""
    try:
        failures = installation.ledger.failures()
    except LedgerError as error:
        _LOGGER.warning("a page is shown without the ledger: %s", error)
        return {}
    return {name: failing(failure) for name, failure in failures.items()}


def _ledger_now(installation: Installation, viewing: Viewing) -> LedgerNow:
    try:
        ledger = installation.ledger
        states = ledger.cluster_states(viewing.clusters)
        runs = _open_runs(installation, viewing)
        return LedgerNow(
            now=ledger.now(),
            states=states,
            active=in_force(installation, viewing.clusters),
            failures=ledger.failures(),
            runs=tuple(runs),
            waiting=_waiting_runs(installation, viewing, [*runs, *_halted(states.values())]),
        )
    except LedgerError as error:
        _LOGGER.warning("pages are shown without the ledger: %s", error)
        return LedgerNow(installation.clock(), {}, {}, {}, away=NOT_READ)


def _rows(
    installation: Installation,
    clusters: Sequence[str],
    ledger: LedgerNow,
    document: FleetDocument | None,
) -> list[FleetRow]:
    """Return the rows of clusters in the order of their concerns, the worst first."""
    known = {entry.cluster: entry for entry in document.clusters} if document else {}
    entries = [known.get(name, FleetEntry(name)) for name in clusters]
    audits = newest_points(installation, clusters)
    critical = {
        name: point.open_counts.get(Severity.CRITICAL, 0) for name, point in audits.known.items()
    }
    ages = {
        entry.cluster: _age(entry, document, ledger.states.get(entry.cluster), installation.clock())
        for entry in entries
    }
    waiting = {one.cluster: one for one in ledger.waiting}
    rows = []
    for entry in analysis.as_of_now(entries, ages, critical):
        name = entry.cluster
        state = ledger.states.get(name, LedgerState())
        requests = ledger.active.get(name)
        frozen = requests.frozen if requests else None
        found = conditions(
            entry,
            failure=ledger.failures.get(name),
            unreadable_audit=audits.unreadable.get(name),
            run=state.run,
            doing=_doing(state, ledger.now),
            waiting=waiting.get(name),
            freeze=frozen,
        )
        row = FleetRow(
            cluster=name,
            condition=found[0],
            others=tuple(found[1:]),
            entry=entry,
            failure=ledger.failures.get(name),
            audit=audits.known.get(name),
            unreadable_audit=audits.unreadable.get(name),
            is_waiting=name in waiting,
            is_moving=bool(state.run and state.run.state in UNDER_WAY_STATES),
            is_frozen=frozen is not None,
        )
        rows.append(row)
    return rows


def _doing(state: LedgerState, now: datetime) -> str:
    if state.run is None or state.run_progress is None:
        return ""
    return RunNow(state.run, state.run_progress, now).sentence


def _waiting_runs(
    installation: Installation, viewing: Viewing, runs: Sequence[Run]
) -> tuple[WaitingRunView, ...]:
    """Return those of the runs that wait for an answer, oldest first, and who may give it: also
    those whose yes has run out, and halted ones about which people are asked again.
    """
    now = installation.ledger.now()
    return tuple(
        _waiting(installation, viewing, run, now)
        for run in sorted(runs, key=lambda run: (run.opened_at, run.run_id))
        if asks_people(installation, run)
    )


def _waiting(
    installation: Installation, viewing: Viewing, run: Run, now: datetime
) -> WaitingRunView:
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
    try:
        plan = plan_to_approve(installation, run)
    except CounterpoiseError as error:
        _LOGGER.debug("the plan of run %s is not known: %s", run.run_id, error)
        plan = None
    return view_of(
        WaitingRunView,
        run,
        waits_seconds=max(now - run.opened_at, timedelta(0)).total_seconds(),
        is_mine=viewing.viewer.may_answer and not refusal,
        may_approve=yes.may_give,
        why_nobody=yes.why_nobody,
        goal=plan.goal_in_words if plan else None,
        copied_bytes=plan.copied_bytes if plan else None,
        expected_seconds=plan.expected_seconds if plan else None,
    )


def _age(
    entry: FleetEntry, document: FleetDocument | None, state: LedgerState | None, now: datetime
) -> timedelta | None:
    """Return the age of the newest snapshot that ledger or document know of."""
    then = entry.age
    known = [] if state is None or state.snapshot_at is None else [now - state.snapshot_at]
    if document is not None and then is not None:
        known.append(now - document.as_of + then)
    return min(known, default=None)


# -- one cluster


@dataclass(frozen=True, slots=True)
class ShownConnection:
    """A connection by its id: which settings it has, without what may be secret."""

    connection_id: str
    work: str  # what it is for
    settings: tuple[tuple[str, str], ...]
    not_readable: str = ""  # why there are none


@dataclass(frozen=True, slots=True)
class ClusterNow:
    """What the JSON API has of a cluster beside its head, and the tabs of runs and settings."""

    head: ClusterHead
    now: datetime
    cluster_id: str  # "" while nobody has met it
    runs: tuple[Run, ...]  # the newest first, and only the newest
    connections: tuple[ShownConnection, ...]
    policy: tuple[PolicyRow, ...]
    downloads: tuple[str, ...]  # names of reports


def cluster_head(installation: Installation, viewing: Viewing, name: str) -> ClusterHead:
    """Return what stands above every tab of a cluster's page.

    Raises UnknownClusterError, MayNotViewError, StoreError.
    """
    viewing.check(name)
    ledger = _ledger_now(installation, viewing.narrowed_to(name))
    (row,) = _rows(installation, (name,), ledger, installation.archive.fleet())
    active = ledger.active.get(name)
    age = row.age_seconds
    run_count = None if ledger.away else len(installation.ledger.runs(cluster=name))
    return ClusterHead(
        name=name,
        row=row,
        balance=_balance(installation, name),
        snapshot_at=None if age is None else installation.clock() - timedelta(seconds=age),
        may_propose=viewing.may(name, Action.PROPOSE),
        why_not_operate=viewing.refusal(name, Action.OPERATE),
        freeze=active.frozen if active else None,
        kept_empty=tuple(active.kept_empty.values()) if active else (),
        waiting=ledger.waiting,
        finding_count=sum(row.audit.open_counts.values()) if row.audit else None,
        run_count=run_count,
        ledger_away=ledger.away,
    )


def cluster(installation: Installation, viewing: Viewing, name: str) -> ClusterNow:
    """Return a cluster. Raises UnknownClusterError, MayNotViewError, StoreError."""
    settings = viewing.check(name)
    head = cluster_head(installation, viewing, name)
    is_away = bool(head.ledger_away)
    pinned = {} if is_away else installation.ledger.pinned_clusters()
    runs = () if is_away else installation.ledger.runs(cluster=name)
    return ClusterNow(
        head=head,
        now=installation.clock(),
        cluster_id=settings.pinned_cluster_id or pinned.get(name, ""),
        runs=tuple(runs[:_RUNS_SHOWN]),
        connections=tuple(_connections(installation, settings)),
        policy=policy_rows(settings.policy),
        downloads=_downloads(installation, name),
    )


def _balance(installation: Installation, name: str) -> BalanceDocument | None:
    path = f"reports/{balance_report_name(name, suffix='json')}"
    try:
        return _BALANCES.of(installation.archive.store, path)
    except CounterpoiseError as error:
        _LOGGER.warning("the balance of %s is left out: %s", name, error)
        return None


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
