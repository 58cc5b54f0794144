"""The goals: each says which brokers give, receive and lead, and how replicas are placed.

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
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.counts import level_counts
from counterpoise.planning.placing.drain import drain
from counterpoise.planning.placing.lowering import drop_surplus
from counterpoise.planning.placing.raising import add_missing
from counterpoise.planning.placing.rounds import in_rounds
from counterpoise.planning.placing.spread import spread
from counterpoise.planning.placing.swaps import exchange_bytes, exchange_topics, trade_arrivals
from counterpoise.planning.placing.targets import (
    byte_band,
    count_targets,
    fair_counts,
    repair_racks,
)
from counterpoise.planning.placing.topics import TopicShares


class PlanningGoal(Protocol):
    """What the planner needs to know of a goal."""

    name: ClassVar[Goal]
    # Are partitions in the plan too whose only change is the election of their preferred leader?
    elects: ClassVar[bool]
    copy_reason: ClassVar[MoveReason | None]  # of every copy; None where it is evenness

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        """Return which brokers give, receive and lead; `named` has the brokers of the request."""

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Move replicas until the goal is reached, as far as it can be."""

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        """Return, per partition, whether the goal may give it another leader."""


class _Evening:
    """What goals have in common that make a cluster more even."""

    elects: ClassVar[bool] = True
    copy_reason: ClassVar[MoveReason | None] = None

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
        return Roles(
            destinations=named & able,
            sources=able & ~named,
            leaving=_nobody(cluster),
            staying=live,
            sharing=able,
            leading=able,
        )

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        def one_round() -> None:
            limit = fair_counts(placement, roles)
            repair_racks(placement, roles, count_targets(placement, roles, limit), limit)
            _even_out(placement, roles, request, limit)

        in_rounds(placement, roles, request.policy, one_round)


class RemoveBrokers(_Replacing):
    """The named brokers end up empty; nothing else moves."""

    name: ClassVar[Goal] = Goal.REMOVE_BROKERS
    copy_reason: ClassVar[MoveReason | None] = MoveReason.DRAIN

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        staying = cluster.is_live & ~named
        able = staying & cluster.is_in_scope
        return Roles(
            destinations=able,
            sources=named,
            leaving=named,
            staying=staying,
            sharing=able,
            leading=able,
        )

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        _drain(placement, roles, request, placement.cluster.may_drain)


class Repair(_Replacing):
    """Replicas on dead brokers are copied anew elsewhere; nothing else moves."""

    name: ClassVar[Goal] = Goal.REPAIR
    copy_reason: ClassVar[MoveReason | None] = MoveReason.REPAIR

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        able = cluster.is_live & cluster.is_in_scope
        dead = ~cluster.is_live & cluster.is_in_scope
        if named.any():
            dead &= named
        return Roles(
            destinations=able,
            sources=dead,
            leaving=dead,
            staying=cluster.is_live,
            sharing=able,
            leading=able,
        )

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        # Without a leader there is no broker to copy from.
        _drain(placement, roles, request, placement.cluster.may_change)


class DemoteBrokers:
    """The named brokers give up what they lead, and keep their replicas, last in the order."""

    name: ClassVar[Goal] = Goal.DEMOTE_BROKERS
    elects: ClassVar[bool] = True
    copy_reason: ClassVar[MoveReason | None] = MoveReason.DEMOTE

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody, able = _nobody(cluster), cluster.is_live & cluster.is_in_scope
        return Roles(
            destinations=nobody,
            sources=nobody,
            leaving=nobody,
            staying=cluster.is_live,
            sharing=able,
            leading=able & ~named,
        )

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Do nothing: the replica sets stay."""

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        """Return where a named broker leads, or is the preferred leader."""
        leads, is_first = cluster.leaders, cluster.replicas[:, 0]
        is_concerned = roles.is_demoted[leads] | roles.is_demoted[is_first]
        return np.asarray(cluster.may_reorder & is_concerned)


class Leaders(_Evening):
    """No byte moves: replicas are reordered and leaders elected."""

    name: ClassVar[Goal] = Goal.LEADERS

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody, able = _nobody(cluster), cluster.is_live & cluster.is_in_scope
        return Roles(
            destinations=nobody,
            sources=nobody,
            leaving=nobody,
            staying=cluster.is_live,
            sharing=able,
            leading=able,
        )

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Nothing to do: the replica sets stay."""


class Rebalance(_Evening):
    """Racks repaired, then replicas and bytes even on all live brokers, with the least moves."""

    name: ClassVar[Goal] = Goal.REBALANCE

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        able = cluster.is_live & cluster.is_in_scope
        return Roles(
            destinations=able,
            sources=able,
            leaving=_nobody(cluster),
            staying=cluster.is_live,
            sharing=able,
            leading=able,
        )

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
    """Replicas are added or dropped until each partition has the wanted number; none moves.

    Partitions that may not change stay as they are, and so do those without a leader, since there
    is no broker to copy from. Where no broker may receive a replica (each has one, is out of scope,
    or has no room) a partition stays short of the factor; the explanation names it.
    """

    name: ClassVar[Goal] = Goal.REPLICATION_FACTOR
    copy_reason: ClassVar[MoveReason | None] = MoveReason.REPLICATION_FACTOR

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        able = cluster.is_live & cluster.is_in_scope
        return Roles(
            destinations=able,
            sources=able,
            leaving=_nobody(cluster),
            staying=cluster.is_live,
            sharing=able,
            leading=able,
        )

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        if request.replication_factor is not None:
            # Dropped first, so that added replicas go to the brokers that are emptier then.
            drop_surplus(placement, roles, request.replication_factor)
            add_missing(placement, roles, request.replication_factor)


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


def is_left_to_repair(cluster: ClusterArrays, request: PlanRequest) -> Flags:
    """Return, per partition, whether it would keep a replica on a dead broker beside a new one.

    Kafka ends a reassignment when every replica of its target is in sync, so a run would halt at
    such a partition.
    """
    is_dead = np.append(~cluster.is_live, False)
    is_on_dead = cluster.may_reorder & is_dead[cluster.replicas].any(axis=1)
    if request.goal is Goal.REPLICATION_FACTOR:
        gets_copies = cluster.replica_counts < (request.replication_factor or 0)
        return np.asarray(is_on_dead & gets_copies)
    gets_copies_anywhere = request.goal in (Goal.ADD_BROKERS, Goal.REBALANCE)
    return np.asarray(is_on_dead & gets_copies_anywhere)


def _even_out(placement: Placement, roles: Roles, request: PlanRequest, limit: Ints) -> ByteBand:
    wanted = count_targets(placement, roles, limit)
    band = byte_band(placement, roles, request.policy.bytes_tolerance_percent)
    shares = TopicShares.of(placement, roles, wanted)
    spread(placement, roles, wanted, band, shares)
    level_counts(placement, roles, band, shares, limit)
    trade_arrivals(placement, roles, band)
    return band


def _drain(placement: Placement, roles: Roles, request: PlanRequest, is_movable: Flags) -> None:
    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, request.policy.bytes_tolerance_percent)
    drain(placement, roles, wanted, band, is_movable)


def _nobody(cluster: ClusterArrays) -> Flags:
    return np.zeros(cluster.broker_count, dtype=np.bool_)
