from .balance import broker_loads, leader_balance
from .flapping import elections, flapping
from .fleets import as_of_now, fleet, fleet_entry, with_age
from .inflow import observed_inflow, with_inflow
from .load import cluster_load, typical_bytes_in
from .partitions import busy_partitions
from .period import (
    AROUND,
    PeriodDays,
    days_of_period,
    end_of_whole_days,
    live_broker_counts,
    reaches,
    seconds_of_rates,
)
from .rounds import Round, files_read, next_round
from .series import compared_snapshots, each_once, latest_snapshot_id, series_rows
from .skew import topic_skew
from .wanted import uneven_snapshots, wanted_goals

__all__ = [
    "AROUND",
    "PeriodDays",
    "Round",
    "as_of_now",
    "broker_loads",
    "busy_partitions",
    "cluster_load",
    "compared_snapshots",
    "days_of_period",
    "each_once",
    "elections",
    "end_of_whole_days",
    "files_read",
    "flapping",
    "fleet",
    "fleet_entry",
    "latest_snapshot_id",
    "leader_balance",
    "live_broker_counts",
    "next_round",
    "observed_inflow",
    "reaches",
    "seconds_of_rates",
    "series_rows",
    "topic_skew",
    "typical_bytes_in",
    "uneven_snapshots",
    "wanted_goals",
    "with_age",
    "with_inflow",
]
