"""What snapshots and the results of the Spark jobs say about a cluster: balance, events, load, and
which plan would help.

    balance = leader_balance(series, topics, cluster="demo")
    load = cluster_load(series, topic_load, partition_load, log_dir_load, cluster="demo")
    wanted = wanted_goals(balance, policy.balance, policy.proposals)    # (): nothing needs doing
    snapshot = with_inflow(later, observed_inflow(earlier, later))
    round = next_round(manifests, analysed)                         # what the Spark jobs analyse
"""

from counterpoise.analysis.balance import broker_loads, leader_balance
from counterpoise.analysis.daily_sums import busy_partitions, elections, flapping, topic_skew
from counterpoise.analysis.fleets import as_of_now, fleet, fleet_entry, with_age
from counterpoise.analysis.inflow import observed_inflow, with_inflow
from counterpoise.analysis.load import cluster_load, typical_bytes_in
from counterpoise.analysis.period import (
    AROUND,
    PeriodDays,
    days_of_period,
    end_of_whole_days,
    live_broker_counts,
    reaches,
    seconds_of_rates,
)
from counterpoise.analysis.rounds import Round, files_read, next_round
from counterpoise.analysis.series import (
    SeriesColumns,
    compared_snapshots,
    each_once,
    read_series,
    series_rows,
)
from counterpoise.analysis.wanted import uneven_snapshots, wanted_goals

__all__ = [
    "AROUND",
    "PeriodDays",
    "Round",
    "SeriesColumns",
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
    "leader_balance",
    "live_broker_counts",
    "next_round",
    "observed_inflow",
    "reaches",
    "read_series",
    "seconds_of_rates",
    "series_rows",
    "topic_skew",
    "typical_bytes_in",
    "uneven_snapshots",
    "wanted_goals",
    "with_age",
    "with_inflow",
]
