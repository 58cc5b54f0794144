"""What people see of a cluster, of its audits, and of the fleet.

as_document(FleetView.of(found))                      # GET /api/fleet
as_document(ClusterView.of(found, balance=document))  # GET /api/clusters/NAME
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field

from counterpoise.model.finding import AuditPoint, AuditReport
from counterpoise.model.fleet_document import document_of
from counterpoise.model.severity import Severity
from counterpoise.settings import PolicyRow
from counterpoise.views import as_document, view_of
from counterpoise.views.run import RunView, WaitingRunView

if TYPE_CHECKING:
    from counterpoise.services.fleet import ClusterNow, FleetNow, OpenRuns


class AuditCounts(Struct, frozen=True, kw_only=True):
    """Findings of an audit that nobody waived, by severity."""

    audited_at: datetime = field(name="at")
    open: dict[Severity, int]

    @classmethod
    def of(cls, audit: AuditReport | AuditPoint) -> Self:
        return view_of(cls, audit, open=_counts(audit))


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


class KeptEmptyView(Struct, frozen=True):
    """A broker that gets nothing until somebody releases it."""

    broker_id: int
    who: str = field(name="by")
    why: str
    at: datetime = field(name="since")


class ConnectionView(Struct, frozen=True):
    connection_id: str = field(name="id")
    work: str  # what it is for
    settings: dict[str, str]  # without what may be secret


class ClusterView(Struct, frozen=True, kw_only=True):
    """One cluster as it is now."""

    name: str = field(name="cluster")
    cluster_id: str
    snapshot_age_seconds: float | None
    audit: AuditCounts | None
    audit_unreadable: str | None  # the path of the newest audit's file
    runs: tuple[RunView, ...]  # the newest
    waiting: tuple[WaitingRunView, ...]
    freeze: FreezeView | None
    kept_empty: tuple[KeptEmptyView, ...]
    connections: tuple[ConnectionView, ...]
    policy: tuple[PolicyRow, ...]
    downloads: tuple[str, ...] = field(name="reports")
    balance: dict[str, Any] | None  # the document of the newest balance report

    @classmethod
    def of(cls, found: "ClusterNow", balance: dict[str, Any] | None) -> Self:
        age = found.snapshot_age
        return view_of(
            cls,
            found,
            found.settings,
            snapshot_age_seconds=None if age is None else age.total_seconds(),
            audit=AuditCounts.of(found.audit) if found.audit else None,
            audit_unreadable=found.unreadable_audit or None,
            waiting=tuple(map(WaitingRunView.of, found.waiting)),
            connections=[
                {"id": one.connection_id, "work": one.work, "settings": dict(one.settings)}
                for one in found.connections
            ],
            balance=balance,
        )


class OpenRunsView(Struct, frozen=True):
    waiting: tuple[WaitingRunView, ...]
    runs: tuple[RunView, ...]  # approved and under way

    @classmethod
    def of(cls, found: "OpenRuns") -> Self:
        runs = (*found.approved, *found.under_way)
        return view_of(cls, waiting=tuple(map(WaitingRunView.of, found.waiting)), runs=runs)


class FleetView(Struct, frozen=True):
    """All clusters, the worst first, and what waits."""

    analysed_at: datetime | None
    clusters: list[dict[str, Any]]
    waiting: tuple[WaitingRunView, ...]
    runs: tuple[RunView, ...]  # approved, under way, halted
    freezes: tuple[FreezeView, ...]

    @classmethod
    def of(cls, found: "FleetNow") -> Self:
        audits = {name: as_document(AuditCounts.of(one)) for name, one in found.audits.items()}
        return view_of(
            cls,
            found,
            clusters=[
                document_of(entry)
                | {
                    "audit": audits.get(entry.cluster),
                    "audit_unreadable": found.unreadable_audits.get(entry.cluster),
                }
                for entry in found.entries
            ],
            waiting=tuple(map(WaitingRunView.of, found.waiting)),
            runs=(*found.approved, *found.under_way, *found.halted),
        )


def _counts(audit: AuditReport | AuditPoint) -> Mapping[Severity, int]:
    return {severity: audit.open_counts.get(severity, 0) for severity in Severity}
