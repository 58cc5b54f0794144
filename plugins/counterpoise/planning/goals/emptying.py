"""Goals that copy all replicas of some brokers elsewhere, and move nothing else.

remove-brokers: the named brokers end up empty. The only goal that is worth nothing half done: a
broker that cannot be emptied cannot be taken away, so what stands in the way is refused. What other
goals leave undone is a warning. repair: replicas on dead brokers are copied anew elsewhere.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.columns import Flags, Ints
from counterpoise.model.constraints import names_of_sets
from counterpoise.model.plan import MoveReason
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.fair_shares import byte_band
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.local_search import search
from counterpoise.planning.placing.new_replicas import drain
from counterpoise.planning.placing.replica_choice import ReplicaChoice
from counterpoise.planning.placing.small import place_best
from counterpoise.planning.planning_result import (
    HAS_NO_DESTINATION,
    PlanningGoal,
    PlanningResult,
)
from counterpoise.planning.request_checks import brokers_are, name_cluster
from counterpoise.units import format_bytes


class DrainingGoal(PlanningGoal):
    """What goals have in common that copy all replicas of some brokers elsewhere."""

    elects: ClassVar[bool] = False
    others_may: ClassVar[str] = "take the replicas"
    unplaced_because: ClassVar[str] = HAS_NO_DESTINATION

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        staying = cluster.is_live & ~named
        able = staying & cluster.is_in_scope
        return Roles(
            destinations=able & cluster.takes_replicas,
            sources=named,
            leaving=named,
            staying=staying,
            sharing=able,
            leading=able,
        )

    def may_drain(self, cluster: ClusterArrays) -> Flags:
        """Return the partitions whose replicas may leave their brokers."""
        raise NotImplementedError

    def left_to_repair(self, cluster: ClusterArrays, request: PlanRequest) -> Flags:
        """Return partitions that would keep a replica on another dead broker beside a copy."""
        leaving = self.roles(cluster, cluster.flags(request.broker_ids)).leaving
        is_leaving, is_dead = np.append(leaving, False), np.append(~cluster.is_live, False)
        has_leaving = is_leaving[cluster.replicas].any(axis=1)
        keeps_dead = (is_dead & ~is_leaving)[cluster.replicas].any(axis=1)
        return np.asarray(has_leaving & keeps_dead)

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        self.empty(placement, roles, request, self.may_drain(placement.cluster))

    def empty(
        self, placement: Placement, roles: Roles, request: PlanRequest, is_movable: Flags
    ) -> None:
        """Copy the replicas that leave to other brokers, of movable partitions."""
        percent = request.policy.bytes_tolerance_percent
        find_band = partial(byte_band, roles=roles, tolerance_percent=percent)
        is_chosen = is_movable & (placement.count_on(roles.leaving) > 0)
        if placement.is_small(is_chosen):
            choice = ReplicaChoice.to_empty(placement, roles, is_chosen)
            if place_best(placement, choice, find_band, roles.destinations):
                return
        drain(placement, roles, request.policy, is_movable)

    def unreached(self, result: PlanningResult) -> Flags:
        """Return partitions that keep a replica on a broker that is to be emptied."""
        is_on_leaving = result.after.count_on(result.roles.leaving) > 0
        is_other_reason = result.cluster.is_excluded | result.cluster.is_left_to_repair
        return np.asarray(is_on_leaving & ~is_other_reason)

    def undone(self, result: PlanningResult) -> str:
        return result.list_undone((result.cluster.may_change, self.unplaced_because))

    def done(self, result: PlanningResult) -> str:
        broker_ids = sorted(result.request.broker_ids)
        brokers = name_brokers(broker_ids) if broker_ids else "a broker that is dead"
        return f"already done: no replica is on {brokers}{result.in_scope}"

    def copies(self, result: PlanningResult) -> Ints:
        leaving = result.before.count_on(result.roles.leaving)
        is_placeable = leaving <= result.free_destinations
        return np.where(self.may_drain(result.cluster) & is_placeable, leaving, 0)


class RemoveBrokers(DrainingGoal):
    name: ClassVar[Goal] = Goal.REMOVE_BROKERS
    evens_replicas: ClassVar[bool] = True
    copy_reason: ClassVar[MoveReason | None] = MoveReason.DRAIN

    def may_drain(self, cluster: ClusterArrays) -> Flags:
        return cluster.may_drain

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        super().place_part(placement, roles, request)
        search(placement, roles, request.policy, may_copy_for_traffic=False)

    def refuse_impossible(self, result: PlanningResult) -> None:
        _refuse_voters(result)
        _refuse_stuck_replicas(result)
        _refuse_too_few_brokers(result)

    def place(self, result: PlanningResult) -> Placement:
        """Return the replicas; raise RefusedError when one fits on no other broker."""
        cluster, request, placement = result.cluster, result.request, super().place(result)
        is_on_leaving = placement.count_on(result.roles.leaving) > 0
        unplaced = np.flatnonzero(is_on_leaving & cluster.may_drain)
        if not len(unplaced):
            return placement
        largest_first = unplaced[np.lexsort((unplaced, -cluster.size_bytes[unplaced]))]
        largest = int(largest_first[0])
        size_bytes, room = int(cluster.size_bytes[largest]), result.before.room
        size = format_bytes(size_bytes)
        able = np.flatnonzero(result.roles.destinations)
        most = able[np.argsort(-room[able], kind="stable")[:1]]
        where = ""
        if len(most) and room[most[0]] < size_bytes:
            missing = format_bytes(size_bytes - int(room[most[0]]))
            brokers = result.list_brokers(most)
            where = f" (most room is on {brokers}, where {missing} or more are missing)"
        others = f" (and {len(unplaced) - 1} more)" if len(unplaced) > 1 else ""
        raise RefusedError(
            f"{_leaving_brokers(result)} cannot be emptied: {cluster.name(largest)} "
            f"({size}){others} fits on no broker below {request.policy.disk_limit_percent} % full"
            f"{where}{_within_constraints(request)}; add brokers or disk, keep fewer bytes "
            "(retention), or raise disk_limit_percent"
        )

    def done(self, result: PlanningResult) -> str:
        return (
            f"already done: no replica is left on these brokers{result.in_scope}, and "
            f"leaders are as even as they can be ({result.leaders_per_broker})"
        )


class Repair(DrainingGoal):
    name: ClassVar[Goal] = Goal.REPAIR
    copy_reason: ClassVar[MoveReason | None] = MoveReason.REPAIR

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int]) -> None:
        if alive:
            raise InputError(
                f"{brokers_are(alive)} live, and goal repair is for brokers that are "
                "not; to empty a live broker use goal remove-brokers"
            )

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        dead = ~cluster.is_live & cluster.is_in_scope
        if named.any():
            dead &= named
        return super().roles(cluster, dead)

    def may_drain(self, cluster: ClusterArrays) -> Flags:
        return cluster.may_change  # without a leader there is no broker to copy from

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Replace all dead replicas of a partition, or none where that fits on too few brokers.

        Kafka ends a reassignment when every replica of its target is in sync, so no copy could end
        beside one that stays on a dead broker.
        """
        before = placement.replicas.copy()
        is_movable = self.may_drain(placement.cluster)
        while True:
            self.empty(placement, roles, request, is_movable)
            is_changed = (placement.replicas != before).any(axis=1)
            is_half_done = is_changed & (placement.count_on(roles.leaving) > 0)
            if not is_half_done.any():
                return
            is_movable = is_movable & ~is_half_done
            placement.reset_to(before.copy())

    def done(self, result: PlanningResult) -> str:
        if result.cluster.is_live.all():
            done = f"already done: no broker is dead, all {result.cluster.broker_count} are live"
            return "; ".join(filter(None, (done, _lost_log_dirs(result))))
        return super().done(result)


def _lost_log_dirs(result: PlanningResult) -> str:
    """Return which live brokers have lost a log dir, and what makes its replicas anew."""
    dirs = result.snapshot.log_dirs.to_pylist()
    lost = sorted({row["broker_id"] for row in dirs if row["error"] is not None})
    if not lost:
        return ""
    have = f"{name_brokers(lost)} {verb(len(lost), 'has', 'have')} lost a log dir"
    return f"{have}: mend the disk, or empty the broker (goal remove-brokers)"


# -- why brokers cannot be emptied


def _within_constraints(request: PlanRequest) -> str:
    """Return which constraints leave a replica fewer brokers; "" when none does."""
    constraints = request.policy.constraints
    names = [
        name
        for name in ("broker_sets", "max_replicas_per_broker", "no_new_replicas_on")
        if getattr(constraints, name)
    ]
    return f" and within {', '.join(names)}" if names else ""


def _refuse_voters(result: PlanningResult) -> None:
    """Refuse brokers that vote in the metadata quorum (KIP-595, KIP-853).

    Emptied or not, they could not be stopped: the quorum would lose a voter. Node ids of brokers
    and controllers are one set, so the same id is the same process.
    """
    quorum = result.snapshot.tables["quorum"]
    nodes = zip(quorum["node_id"].to_pylist(), quorum["role"].to_pylist(), strict=True)
    all_voters = {node_id for node_id, role in nodes if role in ("leader", "voter")}
    voters = sorted(all_voters & set(result.request.broker_ids))
    if voters:
        raise RefusedError(
            f"{name_brokers(voters)} cannot be removed yet: a controller runs there, too, and "
            "votes in the metadata quorum. First add a controller elsewhere and take this one "
            "out of the quorum (kafka-metadata-quorum.sh remove-controller, where voters are "
            "dynamic; a new controller.quorum.voters and a rolling restart, where they are "
            "static). To move only the leaders away, use the goal demote-brokers"
        )


def _refuse_stuck_replicas(result: PlanningResult) -> None:
    """Refuse replicas that cannot leave; those that the request itself leaves out may stay."""
    cluster = result.cluster
    is_on_leaving = result.before.count_on(result.roles.leaving) > 0
    is_concerned = is_on_leaving & cluster.is_requested
    is_free = is_concerned & ~cluster.is_excluded
    stuck = (
        (
            is_concerned & cluster.is_excluded,
            "",
            "the policy excludes their topics; take the topics out of excluded_topics, or leave "
            "them out of this plan too (--exclude-topics)",
        ),
        (
            is_free & cluster.is_moving,
            " now",
            "a reassignment of theirs is under way; wait until it is done, or cancel it",
        ),
        (
            is_free & cluster.is_leaderless,
            "",
            "no leader to copy from; bring back a broker that can lead them, or leave their topics "
            "out of this plan (--exclude-topics)",
        ),
    )
    for is_stuck, now, why in stuck:
        partitions = np.flatnonzero(is_stuck)
        if len(partitions):
            have = pluralize(len(partitions), "partition has a replica", "partitions have replicas")
            raise RefusedError(
                f"{_leaving_brokers(result)} cannot be emptied{now}: {have} "
                f"({cluster.names(partitions)}) there and {why}"
            )


def _refuse_too_few_brokers(result: PlanningResult) -> None:
    """Refuse where a partition has more replicas than brokers are left: of its set, if any."""
    cluster = result.cluster
    to_place = result.before.count_on(result.roles.leaving)
    is_unplaceable = (to_place > result.free_destinations) & cluster.may_drain
    if not is_unplaceable.any() and result.roles.staying.any():
        return
    replica_count = int(cluster.replica_counts[is_unplaceable].max(initial=1))
    place, roles, more = name_cluster(result.snapshot), result.roles, "add brokers"
    if result.has_sets and is_unplaceable.any():
        part = next(p for p in result.parts if is_unplaceable[p.rows].any())
        sets = names_of_sets(result.request.policy.constraints.broker_sets)
        place, roles, more = f"broker set {sets[part.number]}", part.roles, "add brokers to the set"
    destination_count, staying_count = int(roles.destinations.sum()), int(roles.staying.sum())
    in_scope = ""
    if destination_count != staying_count:
        in_scope = f", {destination_count} of them in scope"
    raise InputError(
        f"{place} would have {pluralize(staying_count, 'live broker')}{in_scope} without "
        f"{_leaving_brokers(result)}, too few for partitions with "
        f"{pluralize(replica_count, 'replica')}; {more}, or lower the replication factor first"
    )


def _leaving_brokers(result: PlanningResult) -> str:
    return name_brokers(sorted(result.request.broker_ids))
