"""What Counterpoise adds to Airflow: its reports, behind Airflow's login.

Limits: the api-server reads this at its start; after a change, restart it.
"""

from functools import partial

from airflow.plugins_manager import AirflowPlugin

from counterpoise import installation
from counterpoise.web.app import build_app

_OPEN_FOR_PAGES = partial(installation.open_worker_installation, may_migrate_ledger=False)


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
    external_views = [  # noqa: RUF012 - Airflow's own form
        {
            "name": "Balance reports",
            "href": "/counterpoise/reports",
            "destination": "nav",
            "category": "browse",
            "url_route": "balance-reports",
        }
    ]
