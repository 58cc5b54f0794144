from .balance import broker_loads, leader_balance, uneven_snapshots, wanted_goal
from .flapping import flapping
from .fleets import as_of_now, fleet
from .inflow import observed_inflow, with_inflow
from .load import cluster_load, typical_bytes_in
from .period import seconds_of_rates
from .rounds import Round, files_read, next_round
from .series import compared_snapshots, each_once, latest_snapshot_id, series_rows

__all__ = [
    "Round",
    "as_of_now",
    "broker_loads",
    "cluster_load",
    "compared_snapshots",
    "each_once",
    "files_read",
    "flapping",
    "fleet",
    "latest_snapshot_id",
    "leader_balance",
    "next_round",
    "observed_inflow",
    "seconds_of_rates",
    "series_rows",
    "typical_bytes_in",
    "uneven_snapshots",
    "wanted_goal",
    "with_inflow",
]
