"""The goals: a file for each, and a line for each below.

    goal = goal_named(Goal.ADD_BROKERS)
    roles = goal.roles(cluster, named)
    goal.place(placement, roles, request)

A new goal is a name in `model/request.py`, with its sentence for people, a file here, and its line.
"""

from typing import Final

from counterpoise.errors import InputError
from counterpoise.model.request import PLANNED_GOALS, Goal
from counterpoise.planning.goals.add_brokers import AddBrokers
from counterpoise.planning.goals.demote_brokers import DemoteBrokers
from counterpoise.planning.goals.goal import PlanningGoal
from counterpoise.planning.goals.leaders import Leaders
from counterpoise.planning.goals.rebalance import Rebalance
from counterpoise.planning.goals.remove_brokers import RemoveBrokers
from counterpoise.planning.goals.repair import Repair
from counterpoise.planning.goals.replication_factor import ReplicationFactor

GOALS: Final[tuple[PlanningGoal, ...]] = (
    AddBrokers(),
    RemoveBrokers(),
    DemoteBrokers(),
    Leaders(),
    Rebalance(),
    ReplicationFactor(),
    Repair(),
)


def goal_named(name: Goal) -> PlanningGoal:
    """Return the goal of that name; raise InputError for one that cannot be planned."""
    for goal in GOALS:
        if goal.name is name:
            return goal
    goals = ", ".join(PLANNED_GOALS)
    raise InputError(f"goal {name} cannot be planned; choose one of {goals}")
