"""What photographs and the results of the Spark jobs say about a cluster: balance, events, load,
what would help.

balance = leader_balance(series, topics, cluster="demo") load = cluster_load(series, topic_load,
partition_load, log_dir_load, cluster="demo") wanted = wanted_goal(balance, policy.balance)
# None: nothing needs doing snapshot = with_inflow(later, observed_inflow(earlier, later))      #
bytes_in_per_second where offsets tell it round = next_round(manifests, analysed)
# what the jobs are to look at next

What is here, and in which module, is told by `__init__.pyi`; modules are imported when first used.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
