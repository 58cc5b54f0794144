"""The goals: each says who gives and takes, and in which steps the replicas find their place.

    goal = goal_named(Goal.ADD_BROKERS)
    roles = goal.roles(cluster, named)
    goal.place(placement, roles, tolerance_percent=10)

Leaders are chosen afterwards, over the replica sets that a goal leaves, in the same way for all goals.
"""

from typing import ClassVar, Final, Protocol

import numpy as np

from counterpoise.model.plan import Goal
from counterpoise.planning.arrays import ClusterArrays, Flags, Ints
from counterpoise.planning.drain import drain
from counterpoise.planning.level import exchange_bytes, level_counts
from counterpoise.planning.placement import Placement
from counterpoise.planning.racks import repair_racks
from counterpoise.planning.roles import Roles
from counterpoise.planning.rounds import in_rounds
from counterpoise.planning.spread import spread
from counterpoise.planning.targets import ByteBand, byte_band, count_targets, fair_counts
from counterpoise.planning.water import UNBOUNDED


class PlanningGoal(Protocol):
    """What the planner needs to know of a goal."""

    name: ClassVar[Goal]
    elects: ClassVar[bool]  # names partitions too whose only change is the election of their preferred leader

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        """Who gives and takes; `named` has the brokers of the request."""

    def place(self, placement: Placement, roles: Roles, tolerance_percent: int) -> None:
        """Moves replicas until the goal is reached, as far as it can be."""


class AddBrokers:
    """New brokers reach their fair share; old brokers receive nothing."""

    name: ClassVar[Goal] = Goal.ADD_BROKERS
    elects: ClassVar[bool] = True

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        return Roles(takers=named, givers=cluster.is_live & ~named, leaving=_nobody(cluster), staying=cluster.is_live)

    def place(self, placement: Placement, roles: Roles, tolerance_percent: int) -> None:
        def one_round() -> None:
            limit = fair_counts(placement, roles)
            repair_racks(placement, roles, count_targets(placement, roles, limit), limit)
            _even_out(placement, roles, tolerance_percent, limit)

        in_rounds(placement, roles, tolerance_percent, one_round)


class RemoveBrokers:
    """The named brokers end up empty; nothing else moves."""

    name: ClassVar[Goal] = Goal.REMOVE_BROKERS
    elects: ClassVar[bool] = False

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        staying = cluster.is_live & ~named
        return Roles(takers=staying, givers=named, leaving=named, staying=staying)

    def place(self, placement: Placement, roles: Roles, tolerance_percent: int) -> None:
        wanted, band = count_targets(placement, roles), byte_band(placement, roles, tolerance_percent)
        drain(placement, roles, wanted, band)


class Leaders:
    """No byte moves: replicas are reordered and leaders elected."""

    name: ClassVar[Goal] = Goal.LEADERS
    elects: ClassVar[bool] = True

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody = _nobody(cluster)
        return Roles(takers=nobody, givers=nobody, leaving=nobody, staying=cluster.is_live)

    def place(self, placement: Placement, roles: Roles, tolerance_percent: int) -> None:
        """Nothing to do: the replica sets stay."""


class Rebalance:
    """Racks repaired, then replicas and bytes even on all live brokers, with the least moves."""

    name: ClassVar[Goal] = Goal.REBALANCE
    elects: ClassVar[bool] = True

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        live = cluster.is_live
        return Roles(takers=live, givers=live, leaving=_nobody(cluster), staying=live)

    def place(self, placement: Placement, roles: Roles, tolerance_percent: int) -> None:
        no_limit = np.full(placement.cluster.broker_count, UNBOUNDED)

        def one_round() -> None:
            repair_racks(placement, roles, count_targets(placement, roles), no_limit)
            band = _even_out(placement, roles, tolerance_percent, no_limit)
            exchange_bytes(placement, roles, band)

        in_rounds(placement, roles, tolerance_percent, one_round)


GOALS: Final[tuple[PlanningGoal, ...]] = (AddBrokers(), RemoveBrokers(), Leaders(), Rebalance())


def goal_named(name: Goal) -> PlanningGoal:
    return next(goal for goal in GOALS if goal.name is name)


def _even_out(placement: Placement, roles: Roles, tolerance_percent: int, limit: Ints) -> ByteBand:
    wanted, band = count_targets(placement, roles, limit), byte_band(placement, roles, tolerance_percent)
    spread(placement, roles, wanted, band)
    level_counts(placement, roles, band, limit)
    return band


def _nobody(cluster: ClusterArrays) -> Flags:
    return np.zeros(cluster.broker_count, dtype=np.bool_)
