"""One cluster as it is now: what its reports say, its runs, and its settings as they were read.

    found = cluster(installation, Viewing.of(installation, viewer), "orders-eu")
    found.balance, found.audit, found.runs, found.connections, found.policy

The balance is the report that `kafka_leader_balance` writes after each analysis: it is not drawn
again for a page.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from counterpoise.archive import audit_report_name, balance_report_name
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.connection import shown_settings
from counterpoise.model.control import ControlRequest
from counterpoise.model.finding import AuditReport
from counterpoise.model.policy import Action
from counterpoise.model.run import OPEN_STATES, Run
from counterpoise.queries.fleet import WaitingRun, waiting_runs
from counterpoise.reporting.html import body_of
from counterpoise.services.audits import newest_audit
from counterpoise.services.viewers import Viewing
from counterpoise.settings import ClusterSettings, PolicyRow, policy_rows
from counterpoise.storage.file_cache import FileCache

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
    open_runs = [run for run in runs if run.state in OPEN_STATES]
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
        waiting=tuple(waiting_runs(installation, viewing, open_runs)),
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


def _body(text: str, _where: str) -> Markup:
    return body_of(text)


_BODIES: Final = FileCache(_body, max_entries=20)
