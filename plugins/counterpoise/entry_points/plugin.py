"""What Counterpoise adds to Airflow: its pages, behind Airflow's login.

Limits: the api-server reads this at its start; after a change, restart it.
"""

from functools import partial
from importlib.metadata import entry_points
from typing import Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from counterpoise import installation
from counterpoise.orchestration.installation import AirflowConnections
from counterpoise.web.app import build_app

_GROUP: Final = "airflow.plugins"
_OPEN_FOR_PAGES = partial(
    installation.open_worker_installation,
    connections=AirflowConnections(),  # to show which settings they have
    may_migrate_ledger=False,
)


def menu_entries(base_url: str) -> list[dict[str, str]]:
    """Return the entries of Airflow's menu "Browse"; `base_url` is Airflow's own address.

    Without "url_route" Airflow opens them in a tab of their own. In its frame, which is sandboxed,
    links to Airflow's pages would do nothing, or open Airflow inside Airflow.
    """
    prefix = urlsplit(base_url).path.rstrip("/")
    return [
        {
            "name": name,
            "href": f"{prefix}/counterpoise/{path}",
            "destination": "nav",
            "category": "browse",
        }
        for name, path in (("Kafka fleet", "fleet"), ("Balance reports", "reports"))
    ]


class CounterpoisePlugin(AirflowPlugin):
    """Pages, and where Airflow shows them."""

    name = "counterpoise"
    fastapi_apps = [  # noqa: RUF012 - Airflow's own form
        {
            "app": build_app(_OPEN_FOR_PAGES),
            "url_prefix": "/counterpoise",
            "name": "counterpoise",
        }
    ]
    external_views = menu_entries(conf.get("api", "base_url", fallback="") or "")


def is_entry_point() -> bool:
    """Return whether Airflow finds the plugin by itself, as where the package is installed.

    It reports a plugin that it finds a second time, in its plugins folder, as an error.
    """
    return any(entry.name == CounterpoisePlugin.name for entry in entry_points(group=_GROUP))
