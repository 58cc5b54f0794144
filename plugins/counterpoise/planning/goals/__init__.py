"""The goals of a plan; `planning_result.py` says what the planner asks of each.

    evening                brokers become even in replicas, bytes and traffic
    emptying               all replicas of some brokers are copied elsewhere
    leaders                no replica moves, only leaders do
    relieving              disks get below a mark
    replacing              brokers give their place in each list to new ones
    replication_factor     replicas are added or dropped, none moves
    lower_bounds           what any plan for a goal has to copy

A new goal is a name in `model/request.py`, with its sentence for people, its class here, and its
line in `GOALS`.
"""

from typing import Final

from counterpoise.planning.goals.emptying import RemoveBrokers, Repair
from counterpoise.planning.goals.evening import AddBrokers, Rebalance
from counterpoise.planning.goals.leaders import DemoteBrokers, Leaders
from counterpoise.planning.goals.relieving import Relief
from counterpoise.planning.goals.replacing import ReplaceBrokers
from counterpoise.planning.goals.replication_factor import ReplicationFactor
from counterpoise.planning.planning_result import PlanningGoal

GOALS: Final[tuple[PlanningGoal, ...]] = (
    AddBrokers(),
    RemoveBrokers(),
    DemoteBrokers(),
    Leaders(),
    Rebalance(),
    ReplicationFactor(),
    Repair(),
    ReplaceBrokers(),
    Relief(),
)
