"""The tabs of a cluster's page that tell of a period: Balance, Load and disks."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from counterpoise.reporting.leader_balance import balance_values
from counterpoise.reporting.load_section import load_section
from counterpoise.services.fleet import cluster_head
from counterpoise.services.shown_figures import (
    DEFAULT_PERIOD,
    PERIODS,
    ShownFigures,
    shown_figures,
)
from counterpoise.services.viewers import Viewer, Viewing
from counterpoise.web.clusters import cluster_page
from counterpoise.web.responses import base_of
from counterpoise.web.viewers import CurrentViewer, OpenInstallation


def cluster_figure_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of both tabs; a period that is none is the usual one."""
    router = APIRouter()

    @router.get("/clusters/{name}/balance")
    def balance(
        request: Request, name: str, viewer: CurrentViewer, period: str = DEFAULT_PERIOD
    ) -> Response:
        return show(request, viewer, name, period, "balance")

    @router.get("/clusters/{name}/load")
    def load(
        request: Request, name: str, viewer: CurrentViewer, period: str = DEFAULT_PERIOD
    ) -> Response:
        return show(request, viewer, name, period, "load")

    def show(request: Request, viewer: Viewer, name: str, asked: str, part: str) -> Response:
        period = asked if asked in PERIODS else DEFAULT_PERIOD
        with open_installation() as installation:
            head = cluster_head(installation, Viewing.of(installation, viewer), name)
            figures = shown_figures(installation, name, period, with_load=part == "load")
            now = installation.clock()
        path = f"{base_of(request)}/clusters/{quote(name, safe='')}/{part}"
        return cluster_page(
            request,
            viewer,
            head,
            "Balance" if part == "balance" else "Load and disks",
            f"cluster_{part}.html",
            figures=figures,
            period=period,
            periods=[(key, words, f"{path}?period={key}") for key, (words, _) in PERIODS.items()],
            now=now,
            **_values(figures, part),
        )

    return router


def _values(figures: ShownFigures | None, part: str) -> dict[str, Any]:
    """Return what the template of the tab shows."""
    if part == "balance":
        return balance_values(figures.balance, figures.left_out) if figures else {}
    if figures is None or figures.load is None:
        return {"section": None}
    return {"section": load_section(figures.load, figures.balance.events)}
