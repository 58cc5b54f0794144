"""One cluster: what it needs, how evenly it is used, its runs, and its settings as read."""

import json
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, Request, Response

from counterpoise.model.finding import AuditReport
from counterpoise.reporting.finding_charts import SEVERITY_WORDS
from counterpoise.services.fleet import balance_document, cluster
from counterpoise.services.viewers import Viewing
from counterpoise.views.audit import verdict
from counterpoise.views.cluster import ClusterView
from counterpoise.web.airflow_links import dag_run_link
from counterpoise.web.responses import STORED_POLICY, airflow_of, answer, page
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_FINDINGS_SHOWN = 5


def cluster_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the page of a cluster."""
    router = APIRouter()

    @router.get("/clusters/{name}")
    def cluster_page(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = cluster(installation, Viewing.of(installation, viewer), name)
        airflow = airflow_of(request)
        response = page(
            request,
            "cluster.html",
            cluster=found,
            name=name,
            findings=_findings(found.audit),
            verdict=verdict(found.audit) if found.audit else "",
            words=SEVERITY_WORDS,
            runs=[(run, dag_run_link(airflow, run)) for run in found.runs],
            downloads=[(PurePosixPath(path).name, path) for path in found.downloads],
            own_policy=[row for row in found.policy if not row.is_default],
        )
        # What lies in the store may send no form, here as there.
        response.headers["Content-Security-Policy"] = STORED_POLICY
        return response

    @router.get("/api/clusters/{name}")
    def cluster_json(name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            found = cluster(installation, Viewing.of(installation, viewer), name)
            balance = balance_document(installation, name)
        return answer(view=ClusterView.of(found, json.loads(balance) if balance else None))

    return router


def _findings(audit: AuditReport | None) -> list[Any]:
    return list(audit.open[:_FINDINGS_SHOWN]) if audit else []
