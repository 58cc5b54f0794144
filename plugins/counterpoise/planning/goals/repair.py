"""Goal repair: replicas on dead brokers are copied anew elsewhere; nothing else moves."""

from collections.abc import Sequence, Set
from typing import ClassVar

from counterpoise.errors import InputError
from counterpoise.model.columns import Flags
from counterpoise.model.plan import MoveReason
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.explanation.warnings import (
    HAS_NO_DESTINATION,
    IS_LEADERLESS,
    IS_MOVING,
    left_to_repair,
    list_undone,
)
from counterpoise.planning.goals.remove_brokers import DrainingGoal
from counterpoise.planning.placement import Roles
from counterpoise.planning.request_checks import brokers_are


class Repair(DrainingGoal):
    name: ClassVar[Goal] = Goal.REPAIR
    copy_reason: ClassVar[MoveReason | None] = MoveReason.REPAIR

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int], live: Set[int]) -> None:
        if alive:
            raise InputError(
                f"{brokers_are(alive)} live, and goal repair is for brokers that are "
                "not; to empty a live broker use goal remove-brokers"
            )

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        dead = ~cluster.is_live & cluster.is_in_scope
        if named.any():
            dead &= named
        return super().roles(cluster, named).but(sources=dead, leaving=dead)

    def may_drain(self, cluster: ClusterArrays) -> Flags:
        return cluster.may_change  # without a leader there is no broker to copy from

    def reason(self, result: PlanningResult) -> str:
        if sentences := list(filter(None, (self.undone(result), left_to_repair(result)))):
            return f"cannot, because {'; '.join(sentences)}"
        broker_ids = sorted(result.request.broker_ids)
        brokers = name_brokers(broker_ids) if broker_ids else "a broker that is dead"
        return f"already done: no replica is on {brokers}{result.in_scope}"

    def undone(self, result: PlanningResult) -> str:
        """Return partitions in scope that keep a replica on a dead broker of the goal."""
        cluster = result.cluster
        is_concerned = (result.after.count_on(result.roles.leaving) > 0) & ~cluster.is_excluded
        is_concerned &= ~cluster.is_left_to_repair  # that is a warning of its own
        is_leaderless = cluster.is_leaderless & ~cluster.is_moving
        return list_undone(
            result,
            (is_concerned & cluster.is_moving, IS_MOVING),
            (is_concerned & is_leaderless, IS_LEADERLESS),
            (is_concerned & cluster.may_change, HAS_NO_DESTINATION),
        )
