from .balance import broker_loads, leader_balance, wanted_goal
from .fleets import fleet
from .inflow import observed_inflow, with_inflow
from .load import cluster_load, typical_bytes_in
from .rounds import Round, next_round
from .series import latest_snapshot_id, merged, series_rows

__all__ = [
    "Round",
    "broker_loads",
    "cluster_load",
    "fleet",
    "latest_snapshot_id",
    "leader_balance",
    "merged",
    "next_round",
    "observed_inflow",
    "series_rows",
    "typical_bytes_in",
    "wanted_goal",
    "with_inflow",
]
