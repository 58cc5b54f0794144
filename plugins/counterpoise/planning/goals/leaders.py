"""Goal leaders: no byte moves; replicas are reordered and leaders elected."""

from typing import ClassVar

import numpy as np

from counterpoise.model.columns import Flags
from counterpoise.model.request import Goal
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.goals.goal import PlanningGoal
from counterpoise.planning.placement import Roles


class Leaders(PlanningGoal):
    name: ClassVar[Goal] = Goal.LEADERS
    moves_replicas: ClassVar[bool] = False

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody = np.zeros_like(named)
        return super().roles(cluster, named).but(destinations=nobody, sources=nobody)

    def reason(self, result: PlanningResult) -> str:
        return (
            f"already balanced: each broker leads {result.leaders_per_broker} partitions, "
            "as even as the replica sets allow"
        )
