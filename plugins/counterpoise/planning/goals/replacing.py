"""replace-brokers: the same replica lists with new ids, in place, and nothing else.

    make_plan(snapshot, PlanRequest(Goal.REPLACE_BROKERS, (3,), new_broker_ids=(9,)))

Worked example: 3=9 makes [1, 3, 2] to [1, 9, 2], so broker 9 leads what broker 3 was the preferred
leader of. The old brokers may be dead, or no longer registered. What any plan has to copy is what
they hold; it is also what this plan copies.

Limits: partitions that move, have no leader or a replica on another dead broker keep the old id,
and are named.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.plan import MoveReason
from counterpoise.model.racks import pairs_in_racks
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.goals.emptying import DrainingGoal
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.planning_result import PlanningResult
from counterpoise.planning.request_checks import refuse_pairs
from counterpoise.units import format_bytes


class ReplaceBrokers(DrainingGoal):
    name: ClassVar[Goal] = Goal.REPLACE_BROKERS
    copy_reason: ClassVar[MoveReason | None] = MoveReason.REPLACE
    keeps_order: ClassVar[bool] = True
    unplaced_because: ClassVar[str] = (
        "led by a broker out of scope, and would get another leader; widen the scope"
    )

    def within(self, roles: Roles, part: ClusterArrays, brokers: Flags) -> Roles:
        """Return the roles of the whole cluster: a new broker of another set is refused."""
        return roles

    def may_drain(self, cluster: ClusterArrays) -> Flags:
        return np.asarray(cluster.may_change & cluster.may_elect)

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        return np.zeros(cluster.partition_count, dtype=np.bool_)

    def refuse_impossible(self, result: PlanningResult) -> None:
        """Raise InputError with all that speaks against the pairs."""
        refuse_pairs(result.request, [*_complaints(result)])

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        _replace(placement, request, self.may_drain(placement.cluster))

    def copies(self, result: PlanningResult) -> Ints:
        leaving = result.before.count_on(result.roles.leaving)
        return np.where(self.may_drain(result.cluster), leaving, 0)


def _replace(placement: Placement, request: PlanRequest, is_movable: Flags) -> None:
    """Write the new ids in the place of the old ones."""
    cluster = placement.cluster
    new_positions = np.arange(cluster.broker_count + 1)
    new_positions[-1] = -1  # NOBODY stays
    new_positions[cluster.positions(request.broker_ids)] = cluster.positions(request.new_broker_ids)
    replicas = new_positions[placement.replicas]
    placement.reset_to(np.where(is_movable[:, None], replicas, placement.replicas))


def _complaints(result: PlanningResult) -> Iterator[str]:
    """Yield what speaks against the pairs, each with the brokers or partitions concerned."""
    cluster, request = result.cluster, result.request
    live = set(cluster.broker_ids[cluster.is_live].tolist())
    if not_live := sorted(set(request.new_broker_ids) - live):
        them = verb(len(not_live), "is not live; start it", "are not live; start them")
        yield f"{name_brokers(not_live)} {them}, or name others"
        return
    takes_none = cluster.flags(request.new_broker_ids) & ~result.roles.destinations
    if takes_none.any():
        yield (
            f"{result.list_brokers(np.flatnonzero(takes_none))} may take no new replica: out of "
            "the scope, cordoned, or in no_new_replicas_on"
        )
    after = result.before.copy()
    result.goal.place_part(after, result.roles, request)
    ordered = np.sort(after.replicas, axis=1)
    is_there = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    racks = after.racks_by_position
    has_more_pairs = pairs_in_racks(racks[after.replicas]) > pairs_in_racks(racks[after.original])
    is_less_even = has_more_pairs & (after.rack_moves(cluster.is_live) > 0)
    sets = np.append(cluster.broker_sets, -1)[after.replicas]
    is_new = after.is_added
    leaves_set = (is_new & (sets != cluster.sets_of_partitions[:, None])).any(axis=1)
    for is_concerned, sentence in (
        (is_there, "{has} a replica on the new broker already"),
        (
            is_less_even & ~is_there,
            "would be less even over racks; take a broker of the old one's rack",
        ),
        (leaves_set, "would leave the broker set of {their} topic; take a broker of that set"),
    ):
        if sentence := result.name_partitions(is_concerned, sentence):
            yield sentence
    yield from _lacking_room(result, after)


def _lacking_room(result: PlanningResult, after: Placement) -> Iterator[str]:
    """Yield new brokers on which the replicas do not fit."""
    cluster, request = result.cluster, result.request
    for position in np.flatnonzero((after.room < 0) & result.roles.destinations).tolist():
        arriving, missing = int(after.arriving[position]), -int(after.room[position])
        yield (
            f"{format_bytes(arriving)} would arrive on broker {int(cluster.broker_ids[position])}, "
            f"{format_bytes(missing)} more than fit below {request.policy.disk_limit_percent} % of "
            "a log dir"
        )
    too_many = np.flatnonzero((after.counts > cluster.max_counts) & result.roles.destinations)
    if len(too_many):
        most = request.policy.constraints.max_replicas_per_broker or 0
        yield (
            f"{result.list_brokers(too_many)} would hold more than {pluralize(most, 'replica')} "
            "(max_replicas_per_broker)"
        )
