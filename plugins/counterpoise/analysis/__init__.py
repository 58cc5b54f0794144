"""What photographs and the results of the Spark jobs say about a cluster: balance, events, load, what would help.

balance = leader_balance(series, topics, cluster="demo")
load = cluster_load(series, topic_load, partition_load, log_dir_load, cluster="demo")
wanted = wanted_goal(balance, policy.balance)                       # None: nothing needs doing
snapshot = with_inflow(later, observed_inflow(earlier, later))      # bytes_in_per_second where offsets tell it
round = next_round(manifests, analysed)                             # what the jobs are to look at next
"""

from counterpoise.analysis.balance import TOPICS_SHOWN, broker_loads, leader_balance, wanted_goal
from counterpoise.analysis.fleet import fleet
from counterpoise.analysis.inflow import observed_inflow, with_inflow
from counterpoise.analysis.load import cluster_load, peak_bytes_in, typical_bytes_in
from counterpoise.analysis.rounds import Round, next_round
from counterpoise.analysis.series import merged, series_rows

__all__ = [
    "TOPICS_SHOWN",
    "Round",
    "broker_loads",
    "cluster_load",
    "fleet",
    "leader_balance",
    "merged",
    "next_round",
    "observed_inflow",
    "peak_bytes_in",
    "series_rows",
    "typical_bytes_in",
    "wanted_goal",
    "with_inflow",
]
