"""One cluster: a head with what it needs, and tabs. Each tab has an address below the cluster's.

    head = cluster_head(installation, Viewing.of(installation, viewer), name)
    return cluster_page(request, viewer, head, "Balance", "cluster_balance.html", charts=charts)

A template of a tab extends `cluster.html` and fills its block `tab`; `head` and `now` are there.
"""

import json
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from counterpoise.archive import audit_report_name, report_title
from counterpoise.services.audits import audit_points, audit_view, newest_audit
from counterpoise.services.fleet import cluster, cluster_head
from counterpoise.services.viewers import Viewer, Viewing
from counterpoise.views.audit import SEVERITIES
from counterpoise.views.cluster import ClusterHead, ClusterView, Overview
from counterpoise.views.fleet import AuditPointView
from counterpoise.web.airflow_links import dag_run_link
from counterpoise.web.forms import form_token
from counterpoise.web.responses import airflow_of, answer, base_of, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_TABS: Final = {
    "Overview": "",
    "Balance": "/balance",
    "Load and disks": "/load",
    "Findings": "/findings",
    "Runs": "/runs",
    "Settings": "/settings",
}
_FINDINGS_SHOWN: Final = 3  # on the overview, and runs too
STATES: Final = {
    "proposed": ("warn", "clock", "Proposed"),
    "approved": ("calm", "clock", "Approved"),
    "running": ("move", "play", "Running"),
    "settling": ("move", "play", "Settling"),
    "done": ("ok", "check", "Done"),
    "halted": ("bad", "stop", "Halted"),
    "cancelled": ("calm", "stop", "Cancelled"),
    "rejected": ("calm", "stop", "Rejected"),
    "superseded": ("calm", "undo", "Superseded"),
}


def cluster_page(
    request: Request,
    viewer: Viewer,
    head: ClusterHead,
    tab: str,
    template: str,
    **values: Any,
) -> Response:
    """Return a tab of a cluster's page."""
    address = f"{base_of(request)}/clusters/{quote(head.name, safe='')}"
    counts = {"Findings": head.finding_count, "Runs": head.run_count}
    return page(
        request,
        template,
        head=head,
        tab=tab,
        tabs_of=[(name, counts.get(name), f"{address}{path}") for name, path in _TABS.items()],
        cluster=address,
        form_token=form_token(viewer) if head.may_propose else "",
        severities=SEVERITIES,
        states=STATES,
        **values,
    )


def cluster_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the page of a cluster."""
    router = APIRouter()

    @router.get("/clusters/{name}")
    def overview(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            found = cluster(installation, viewing, name)
            audit = newest_audit(installation, name).report
        groups = audit_view(audit, viewing.check(name).policy.audit).groups if audit else ()
        balance = found.head.balance
        return cluster_page(
            request,
            viewer,
            found.head,
            "Overview",
            "cluster_overview.html",
            overview=Overview.of(balance) if balance else None,
            findings=groups[:_FINDINGS_SHOWN],
            is_audited=audit is not None,
            runs=found.runs[:_FINDINGS_SHOWN],
            now=found.now,
        )

    @router.get("/clusters/{name}/findings")
    def findings(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            head = cluster_head(installation, viewing, name)
            newest = newest_audit(installation, name)
            has_docs = installation.archive.has_data_docs(name)
            now = installation.clock()
        policy = viewing.check(name).policy.audit
        audit = audit_view(newest.report, policy) if newest.report else None
        return cluster_page(
            request,
            viewer,
            head,
            "Findings",
            "cluster_findings.html",
            audit=audit,
            has_docs=has_docs,
            now=now,
        )

    @router.get("/clusters/{name}/runs")
    def runs(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = cluster(installation, Viewing.of(installation, viewer), name)
        airflow = airflow_of(request)
        return cluster_page(
            request,
            viewer,
            found.head,
            "Runs",
            "cluster_runs.html",
            runs=[(run, dag_run_link(airflow, run)) for run in found.runs],
            now=found.now,
        )

    @router.get("/clusters/{name}/settings")
    def settings(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = cluster(installation, Viewing.of(installation, viewer), name)
        return cluster_page(
            request,
            viewer,
            found.head,
            "Settings",
            "cluster_settings.html",
            cluster_id=found.cluster_id,
            connections=found.connections,
            own_policy=[row for row in found.policy if not row.is_default],
            policy=found.policy,
            downloads=[(report_title(path), path) for path in found.downloads],
            now=found.now,
        )

    @router.get("/api/clusters/{name}")
    def cluster_json(name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = cluster(installation, Viewing.of(installation, viewer), name)
        return answer(view=ClusterView.of(found))

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
