"""What photographs and the tables of the Spark job say about one cluster: its balance, what would help, its inflow.

balance = leader_balance(broker_table, topic_table, cluster="demo")
wanted = wanted_goal(balance, policy.balance)                       # None: nothing needs doing
snapshot = with_inflow(later, observed_inflow(earlier, later))      # bytes_in_per_second where offsets tell it
"""

from counterpoise.analysis.balance import TOPICS_SHOWN, broker_loads, leader_balance, wanted_goal
from counterpoise.analysis.inflow import observed_inflow, with_inflow

__all__ = ["TOPICS_SHOWN", "broker_loads", "leader_balance", "observed_inflow", "wanted_goal", "with_inflow"]
