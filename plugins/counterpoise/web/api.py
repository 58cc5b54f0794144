"""What the pages show, as JSON, for programs; docs/api.md describes it.

    GET /api/fleet, /api/open-runs, /api/clusters/{name}, /api/clusters/{name}/audit, /api/ledger

The same accounts, the same policies: a token of Airflow in place of its cookie. These read; what
programs may do has the paths of the pages' forms, below /api (`forms.act`). An error is
`{"detail": ...}`.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from fastapi import APIRouter, Response

from counterpoise.archive import audit_report_name
from counterpoise.model.control import ControlRequest
from counterpoise.model.finding import AuditPoint, AuditReport
from counterpoise.model.fleet_document import document_of
from counterpoise.model.json_values import iso_time
from counterpoise.model.run import Run
from counterpoise.model.severity import Severity
from counterpoise.services.audits import audit_points, newest_audit
from counterpoise.services.fleet import (
    ClusterNow,
    WaitingRun,
    balance_document,
    cluster,
    fleet,
    open_runs,
)
from counterpoise.services.ledger_entries import ledger_entries
from counterpoise.services.viewers import Viewing
from counterpoise.web.ledger import Filter, PageNumber
from counterpoise.web.responses import json_response
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

FORMAT: Final = "counterpoise-api/1"


def api_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the JSON API that are about all clusters."""
    router = APIRouter(prefix="/api")

    @router.get("/fleet")
    def fleet_json(viewer: CurrentViewer, search: str = "") -> Response:
        with open_installation() as installation:
            found = fleet(installation, Viewing.of(installation, viewer), search=search)
        return answer(
            analysed_at=iso_time(found.analysed_at) if found.analysed_at else None,
            clusters=[
                document_of(entry)
                | {
                    "audit": _audit(found.audits.get(entry.cluster)),
                    "audit_unreadable": found.unreadable_audits.get(entry.cluster),
                }
                for entry in found.entries
            ],
            waiting=list(map(_waiting, found.waiting)),
            runs=_runs((*found.approved, *found.under_way, *found.halted)),
            freezes=list(map(_freeze, found.freezes)),
        )

    @router.get("/open-runs")
    def open_runs_json(viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = open_runs(installation, Viewing.of(installation, viewer))
        return answer(
            waiting=list(map(_waiting, found.waiting)),
            runs=_runs((*found.approved, *found.under_way)),
        )

    @router.get("/ledger")
    def ledger_json(viewer: CurrentViewer, query: Filter, page: PageNumber) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            found = ledger_entries(installation, viewing, query, page=page)
        if found.problems:
            return json_response({"detail": "; ".join(found.problems)}, status=422)
        return answer(
            page=found.page,
            has_more=found.has_more,
            entries=[
                asdict(entry) | {"at": iso_time(entry.at), "by": entry.who, "who": entry.who}
                for entry in found.entries
            ],
        )

    return router


def cluster_api_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the JSON API that are about one cluster."""
    router = APIRouter(prefix="/api/clusters/{name}")

    @router.get("")
    def cluster_json(name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = cluster(installation, Viewing.of(installation, viewer), name)
            balance = balance_document(installation, name)
        return answer(**_cluster(found), balance=json.loads(balance) if balance else None)

    @router.get("/audit")
    def audit_json(name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            Viewing.of(installation, viewer).check(name)
            newest = newest_audit(installation, name)
            points = audit_points(installation, name)
            document = audit_report_name(name, suffix="json")
            text = installation.archive.read_report(document) if newest.report else ""
        return answer(
            cluster=name,
            audit=json.loads(text) if text else None,
            audit_unreadable=newest.unreadable or None,
            points=list(map(_point, points)),
        )

    return router


def answer(status: int = 200, /, **values: Any) -> Response:
    return json_response({"format": FORMAT} | values, status=status)


def _cluster(found: ClusterNow) -> dict[str, Any]:
    age = found.snapshot_age
    return {
        "cluster": found.settings.name,
        "cluster_id": found.cluster_id,
        "snapshot_age_seconds": None if age is None else age.total_seconds(),
        "audit": _audit(found.audit),
        "audit_unreadable": found.unreadable_audit or None,
        "runs": _runs(found.runs),
        "waiting": list(map(_waiting, found.waiting)),
        "freeze": _freeze(found.freeze) if found.freeze else None,
        "kept_empty": list(map(_kept_empty, found.kept_empty)),
        "connections": [
            {"id": one.connection_id, "work": one.work, "settings": dict(one.settings)}
            for one in found.connections
        ],
        "policy": list(map(asdict, found.policy)),
        "reports": list(found.downloads),
    }


def _freeze(freeze: ControlRequest) -> dict[str, Any]:
    return {
        "cluster": freeze.cluster,
        "by": freeze.person.shown,
        "why": freeze.why,
        "at": iso_time(freeze.at),
        "until": iso_time(freeze.until) if freeze.until else None,
    }


def _kept_empty(request: ControlRequest) -> dict[str, Any]:
    return {
        "broker_id": request.broker_id,
        "by": request.person.shown,
        "why": request.why,
        "since": iso_time(request.at),
    }


def request_document(request: ControlRequest) -> dict[str, Any]:
    return {
        "at": iso_time(request.at),
        "control": str(request.control),
        "by": request.person.shown,
        "why": request.why,
        "rate_bytes_per_second": request.rate_bytes_per_second,
        "broker_id": request.broker_id,
        "until": iso_time(request.until) if request.until else None,
        "done_at": iso_time(request.done_at) if request.done_at else None,
    }


def _audit(audit: AuditReport | AuditPoint | None) -> dict[str, Any] | None:
    if audit is None:
        return None
    return {"at": iso_time(audit.audited_at), "open": _counts(audit.open_counts)}


def _counts(open_counts: Any) -> dict[str, int]:
    return {str(severity): open_counts.get(severity, 0) for severity in Severity}


def _point(point: AuditPoint) -> dict[str, Any]:
    return {
        "at": iso_time(point.audited_at),
        "open": _counts(point.open_counts),
        "new": point.new_count,
        "resolved": point.resolved_count,
    }


def _waiting(waiting: WaitingRun) -> dict[str, Any]:
    return run_document(waiting.run) | {
        "waits_seconds": waiting.waits_for.total_seconds(),
        "is_mine": waiting.is_mine,
        "may_approve": list(waiting.by),
    }


def _runs(runs: Iterable[Run]) -> list[dict[str, Any]]:
    return list(map(run_document, runs))


def run_document(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "cluster": run.cluster,
        "state": str(run.state),
        "reason": run.reason,
        "requested_by": run.requester.shown,
        "opened_at": iso_time(run.opened_at),
        "closed_at": iso_time(run.closed_at) if run.closed_at else None,
        "fingerprint": run.fingerprint,
        "dag_id": run.dag_id,
        "dag_run_id": run.dag_run_id,
    }
