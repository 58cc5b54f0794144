"""What snapshots and the results of the Spark jobs say about a cluster: balance, events, load, and
which plan would help.

    balance = leader_balance(series, topics, cluster="demo")
    load = cluster_load(series, topic_load, partition_load, log_dir_load, cluster="demo")
    wanted = wanted_goals(balance, policy.balance, policy.proposals)    # (): nothing needs doing
    snapshot = with_inflow(later, observed_inflow(earlier, later))
    round = next_round(manifests, analysed)                         # what the Spark jobs analyse

`__init__.pyi` lists the names and their modules; a module is imported when it is first used.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
