"""The endpoint that a scraper reads: gauges of the clusters that its account may view.

GET /counterpoise/metrics        # with a token of Airflow; docs/api.md has the scrape config
"""

from typing import Final

from fastapi import APIRouter, Request, Response

from counterpoise.model.metric import exposition
from counterpoise.services import metrics
from counterpoise.services.viewers import Viewing
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_OPEN_METRICS: Final = "application/openmetrics-text"
_OPEN_METRICS_TYPE: Final = f"{_OPEN_METRICS}; version=1.0.0; charset=utf-8"
_TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"  # the same text; what older ones ask


def metrics_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the route of the metrics."""
    router = APIRouter()

    @router.get("/metrics")
    def metrics_text(request: Request, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            clusters = Viewing.of(installation, viewer).clusters
            text = exposition(metrics.samples(installation, clusters))
        is_asked = _OPEN_METRICS in request.headers.get("accept", "")
        content_type = _OPEN_METRICS_TYPE if is_asked else _TEXT_TYPE
        return Response(text, headers={"content-type": content_type})

    return router
