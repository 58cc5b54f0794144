"""The audit of a cluster: what was found, since when, and what changed."""

import json
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from counterpoise.archive import audit_report_name
from counterpoise.model.policy import Action
from counterpoise.reporting.finding_charts import finding_traces
from counterpoise.services.audits import audit_points, audit_view, newest_audit
from counterpoise.services.viewers import Viewing
from counterpoise.views.audit import audit_sections
from counterpoise.views.cluster import AuditPointView
from counterpoise.web.responses import answer, base_of, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation


def audit_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the audit of a cluster."""
    router = APIRouter()

    @router.get("/clusters/{name}/audit")
    def audit_page(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            settings = viewing.check(name)
            newest = newest_audit(installation, name)
            points = audit_points(installation, name)
            has_docs = installation.archive.has_data_docs(name)
        report = newest.report
        may_propose = viewing.may(name, Action.PROPOSE)
        cluster = f"{base_of(request)}/clusters/{quote(name, safe='')}"
        waive, make_plan = f"{cluster}/audit/waive", f"{cluster}/plan" if may_propose else ""
        sections = (
            audit_sections(
                audit_view(report, settings.policy.audit), waive=waive, make_plan=make_plan
            )
            if report
            else {"audit": None}
        )
        return page(
            request,
            "audit.html",
            name=name,
            unreadable=newest.unreadable,
            traces=finding_traces(points),
            audit_count=len(points),
            has_docs=has_docs,
            may_propose=may_propose,
            **sections,
        )

    @router.get("/api/clusters/{name}/audit")
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
            points=list(map(AuditPointView.of, points)),
        )

    return router
