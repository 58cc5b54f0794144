"""The goals: each says who gives, takes and leads, and in which steps the replicas find their
place.

    goal = goal_named(Goal.ADD_BROKERS)
    roles = goal.roles(cluster, named)
    goal.place(placement, roles, request)

Leaders are chosen afterwards, over the replica sets that a goal leaves, in the same way for all
goals.
"""

from typing import ClassVar, Final, Protocol

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.plan import MoveReason
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.drain import drain
from counterpoise.planning.placing.level import exchange_bytes, level_counts
from counterpoise.planning.placing.racks import repair_racks
from counterpoise.planning.placing.replication import set_replication_factor
from counterpoise.planning.placing.rounds import in_rounds
from counterpoise.planning.placing.spread import spread
from counterpoise.planning.placing.targets import byte_band, count_targets, fair_counts
from counterpoise.planning.placing.topic_exchange import exchange_topics
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.placing.trade import trade_arrivals
from counterpoise.planning.roles import Roles


class PlanningGoal(Protocol):
    """What the planner needs to know of a goal."""

    name: ClassVar[Goal]
    elects: ClassVar[
        bool
    ]  # names partitions too whose only change is the election of their preferred leader
    why: ClassVar[MoveReason | None]  # what every copy serves; None where it is evenness

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        """Who gives, takes and leads; `named` has the brokers of the request."""

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Moves replicas until the goal is reached, as far as it can be."""

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        """Per partition: may the goal give it another leader?"""


class _Evening:
    """What goals have in common that make a cluster more even."""

    elects: ClassVar[bool] = True
    why: ClassVar[MoveReason | None] = None

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        return cluster.may_reorder


class _Replacing:
    """What goals have in common that copy certain replicas and leave all others where they are."""

    elects: ClassVar[bool] = False

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        return cluster.may_reorder


class AddBrokers(_Evening):
    """New brokers reach their fair share; old brokers receive nothing."""

    name: ClassVar[Goal] = Goal.ADD_BROKERS

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        live, able = cluster.is_live, cluster.is_live & cluster.is_in_scope
        return Roles(named & able, able & ~named, _nobody(cluster), live, able, able)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        def one_round() -> None:
            limit = fair_counts(placement, roles)
            repair_racks(placement, roles, count_targets(placement, roles, limit), limit)
            _even_out(placement, roles, request, limit)

        in_rounds(placement, roles, request.policy, one_round)


class RemoveBrokers(_Replacing):
    """The named brokers end up empty; nothing else moves."""

    name: ClassVar[Goal] = Goal.REMOVE_BROKERS
    why: ClassVar[MoveReason | None] = MoveReason.DRAIN

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        staying = cluster.is_live & ~named
        able = staying & cluster.is_in_scope
        return Roles(able, named, named, staying, able, able)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        tolerance = request.policy.bytes_tolerance_percent
        movable = placement.cluster.may_drain
        drain(
            placement,
            roles,
            count_targets(placement, roles),
            byte_band(placement, roles, tolerance),
            movable,
        )


class Repair(_Replacing):
    """Replicas on dead brokers are copied anew elsewhere; nothing else moves."""

    name: ClassVar[Goal] = Goal.REPAIR
    why: ClassVar[MoveReason | None] = MoveReason.REPAIR

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        able = cluster.is_live & cluster.is_in_scope
        dead = ~cluster.is_live & cluster.is_in_scope & (named if named.any() else True)
        return Roles(able, dead, dead, cluster.is_live, able, able)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        tolerance = request.policy.bytes_tolerance_percent
        movable = placement.cluster.may_change  # there is nobody to copy from where no leader is
        drain(
            placement,
            roles,
            count_targets(placement, roles),
            byte_band(placement, roles, tolerance),
            movable,
        )


class DemoteBrokers:
    """The named brokers give up what they lead, and keep their replicas, last in the order."""

    name: ClassVar[Goal] = Goal.DEMOTE_BROKERS
    elects: ClassVar[bool] = True
    why: ClassVar[MoveReason | None] = MoveReason.DEMOTE

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody, able = _nobody(cluster), cluster.is_live & cluster.is_in_scope
        return Roles(nobody, nobody, nobody, cluster.is_live, able, able & ~named)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Nothing to do: the replica sets stay."""

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        """Only where a named broker leads or is named first."""
        demoted = np.append(roles.sharing & ~roles.leading, False)
        return np.asarray(
            cluster.may_reorder & (demoted[cluster.leaders] | demoted[cluster.replicas[:, 0]])
        )


class Leaders(_Evening):
    """No byte moves: replicas are reordered and leaders elected."""

    name: ClassVar[Goal] = Goal.LEADERS

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody, able = _nobody(cluster), cluster.is_live & cluster.is_in_scope
        return Roles(nobody, nobody, nobody, cluster.is_live, able, able)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Nothing to do: the replica sets stay."""


class Rebalance(_Evening):
    """Racks repaired, then replicas and bytes even on all live brokers, with the least moves."""

    name: ClassVar[Goal] = Goal.REBALANCE

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        able = cluster.is_live & cluster.is_in_scope
        return Roles(able, able, _nobody(cluster), cluster.is_live, able, able)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        no_limit = np.full(placement.cluster.broker_count, UNBOUNDED)

        def one_round() -> None:
            repair_racks(placement, roles, count_targets(placement, roles), no_limit)
            band = _even_out(placement, roles, request, no_limit)
            if request.policy.topics_max_above_share is not None:
                shares = TopicShares.of(placement, roles, placement.counts)
                exchange_topics(placement, roles, shares, request.policy.topics_max_above_share)
            exchange_bytes(placement, roles, band)

        in_rounds(placement, roles, request.policy, one_round)


class ReplicationFactor(_Replacing):
    """Replicas are added or taken away until each partition has the wanted number; none moves."""

    name: ClassVar[Goal] = Goal.REPLICATION_FACTOR
    why: ClassVar[MoveReason | None] = MoveReason.REPLICATION_FACTOR

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        able = cluster.is_live & cluster.is_in_scope
        return Roles(able, able, _nobody(cluster), cluster.is_live, able, able)

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        if request.replication_factor is not None:
            set_replication_factor(placement, roles, request.replication_factor)


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
    return next(goal for goal in GOALS if goal.name is name)


def left_to_repair(cluster: ClusterArrays, request: PlanRequest) -> Flags:
    """Partitions that would keep a replica on a dead broker beside a new one.

    Kafka ends a reassignment when every replica of its target is in sync, so a run would halt at
    them.
    """
    on_dead = cluster.may_reorder & np.append(~cluster.is_live, False)[cluster.replicas].any(axis=1)
    if request.goal is Goal.REPLICATION_FACTOR:
        return np.asarray(on_dead & (cluster.replica_counts < (request.replication_factor or 0)))
    return np.asarray(on_dead & (request.goal in (Goal.ADD_BROKERS, Goal.REBALANCE)))


def _even_out(placement: Placement, roles: Roles, request: PlanRequest, limit: Ints) -> ByteBand:
    wanted = count_targets(placement, roles, limit)
    band = byte_band(placement, roles, request.policy.bytes_tolerance_percent)
    shares = TopicShares.of(placement, roles, wanted)
    spread(placement, roles, wanted, band, shares)
    level_counts(placement, roles, band, shares, limit)
    trade_arrivals(placement, roles, band)
    return band


def _nobody(cluster: ClusterArrays) -> Flags:
    return np.zeros(cluster.broker_count, dtype=np.bool_)
