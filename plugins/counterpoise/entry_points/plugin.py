"""What Counterpoise adds to Airflow: its pages, behind Airflow's login.

Limits: the api-server reads this at its start; after a change, restart it.
"""

from collections.abc import Iterator
from functools import cached_property, partial
from importlib.metadata import entry_points
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from counterpoise import installation
from counterpoise.orchestration import end_note
from counterpoise.orchestration.installation import AirflowConnections

_GROUP: Final = "airflow.plugins"
_BASE_URL: Final = conf.get("api", "base_url", fallback="") or ""
_ICON: Final = (  # that of our pages
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath "
    "fill='%232167c2' d='M2 5h3v9H2zm4.5 0h3v9h-3zM11 5h3v9h-3zM1 2h14v1.5H1z'/%3E%3C/svg%3E"
)


class PagesWhenServed:
    """Our pages, made when the api-server asks for them.

    Every component and every task of Airflow imports all plugins, and only the api-server has what
    pages are made of: for all others that would be seconds of imports.
    """

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield {"app": self._app, "url_prefix": "/counterpoise", "name": "counterpoise"}

    @cached_property
    def _app(self) -> object:
        from counterpoise.web.app import build_app, warm_up

        open_for_pages = partial(
            installation.open_worker_installation,
            connections=AirflowConnections(),  # to show which settings they have
            may_migrate_ledger=False,
        )
        warm_up(open_for_pages)
        return build_app(open_for_pages)


def menu_entries(base_url: str) -> list[dict[str, Any]]:
    """Return what Airflow's menu has of ours, below *Browse*: the fleet, the plan that waits for an
    answer, and the reports. `base_url` is Airflow's own address.

    Without "url_route" Airflow opens them in a tab of their own. In its frame, which is sandboxed,
    links to Airflow's pages would do nothing, or open Airflow inside Airflow. Airflow 3.3 shows an
    entry at the top level ("nav_top_level") as a button that does nothing.
    """
    pages = _pages(base_url)
    return [
        {
            "name": name,
            "href": f"{pages}/{path}",
            "destination": "nav",
            "category": "browse",
            "icon": _ICON,
        }
        for name, path in (
            ("Kafka fleet", "fleet"),
            ("Kafka approvals", "waiting"),
            ("Balance reports", "reports"),
        )
    ]


def home_entry(base_url: str) -> dict[str, Any]:
    """Return what Airflow's own home shows of ours: what waits and what runs, as links."""
    return {
        "name": "Kafka clusters",
        "bundle_url": f"{_pages(base_url)}/static/home.js",
        "destination": "dashboard",
    }


def _pages(base_url: str) -> str:
    """Return the path of our pages: Airflow may stand below a prefix of its own."""
    return f"{urlsplit(base_url).path.rstrip('/')}/counterpoise"


class CounterpoisePlugin(AirflowPlugin):
    """Pages, and where Airflow shows them; and the notes of ended Dag runs."""

    name = "counterpoise"
    fastapi_apps = PagesWhenServed()  # type: ignore[assignment]  # Airflow iterates over it
    external_views = menu_entries(_BASE_URL)
    listeners = [end_note]  # noqa: RUF012 - as Airflow declares it
    react_apps = [home_entry(_BASE_URL)]  # noqa: RUF012 - as Airflow declares it


def is_entry_point() -> bool:
    """Return whether Airflow finds the plugin by itself, as where the package is installed.

    It reports a plugin that it finds a second time, in its plugins folder, as an error.
    """
    return any(entry.name == CounterpoisePlugin.name for entry in entry_points(group=_GROUP))
