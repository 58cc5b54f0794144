"""Which clusters there are and what each team wants: `config/clusters.yaml`, read strictly.

    settings = parse_settings(text, where="config/clusters.yaml")
    settings.cluster("orders-eu").policy.movement.rate_bytes_per_second

Unknown keys, wrong types and missing values are all reported at once, each with its line. No
secrets live here: a cluster names connections, and these come from Airflow or from the environment.
"""

from counterpoise.settings.clusters_file import (
    ClusterSettings,
    ClustersFile,
    Settings,
    parse_settings,
    read_settings,
)
from counterpoise.settings.connections import FileConnections
from counterpoise.settings.locations import Locations, check_worker_variables
from counterpoise.settings.policy_rows import PolicyRow, policy_rows, shown
from counterpoise.settings.waivers_file import read_waivers

__all__ = [
    "ClusterSettings",
    "ClustersFile",
    "FileConnections",
    "Locations",
    "PolicyRow",
    "Settings",
    "check_worker_variables",
    "parse_settings",
    "policy_rows",
    "read_settings",
    "read_waivers",
    "shown",
]
