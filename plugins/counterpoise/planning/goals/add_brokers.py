"""Goal add-brokers: new brokers reach their fair share; old brokers receive nothing."""

from collections.abc import Sequence, Set
from typing import ClassVar

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.columns import Flags, Ints
from counterpoise.model.request import Goal
from counterpoise.model.words import verb
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.goals.rebalance import EveningGoal
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.small import best_counts
from counterpoise.planning.placing.targets import fair_counts
from counterpoise.planning.request_checks import brokers_are


class AddBrokers(EveningGoal):
    name: ClassVar[Goal] = Goal.ADD_BROKERS
    which_brokers: ClassVar[str] = "that were added"

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int], live: Set[int]) -> None:
        if dead:
            raise InputError(
                f"{brokers_are(dead)} fenced (not live) and cannot receive replicas; "
                f"start {verb(len(dead), 'it', 'them')}, then try again"
            )
        if live <= set(alive):
            raise InputError(
                "goal add-brokers names every live broker, so none is left to give replicas; "
                "name the new ones only, or use goal rebalance"
            )

    def lacking(self, in_scope: Set[int], others: Set[int]) -> str:
        return "" if others else "no old broker that may give replicas"

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        roles = super().roles(cluster, named)
        return roles.but(destinations=roles.destinations & named, sources=roles.sharing & ~named)

    def within(self, roles: Roles, part: ClusterArrays, brokers: Flags) -> Roles:
        roles = super().within(roles, part, brokers)
        return roles.but(sources=roles.sources & brokers)

    def max_counts(self, placement: Placement, roles: Roles) -> Ints:
        fair = fair_counts(placement, roles, best_counts(placement, roles))
        return np.minimum(fair, placement.cluster.max_counts)
