"""Answers that are "no": what must be left alone stands in the way of the goal, or brokers or disks
are too few.

    refuse_what_cannot_be(cluster, roles, request, "cluster demo")     # before anything moves
    refuse_voters(snapshot, request)
    refuse_what_found_no_place(placement, roles, request)              # once everything has moved that could

Only a goal that is worth nothing half done is refused: a broker that cannot be emptied cannot be
taken away. What other goals have to leave undone is a warning, or the reason of an empty plan.
"""

import numpy as np

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Ints
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles
from counterpoise.planning.wording import named, partition_names
from counterpoise.units import format_bytes


def refuse_what_cannot_be(
    cluster: ClusterArrays, roles: Roles, request: PlanRequest, name: str
) -> None:
    """Raises RefusedError when what must be left alone stands in the way, InputError when brokers
    are too few.
    """
    if request.goal is Goal.REMOVE_BROKERS:
        _refuse_stuck_replicas(cluster, roles, request)
        _refuse_too_few_brokers(cluster, roles, request, name)
    elif cluster.partition_count and not cluster.may_reorder.any():
        raise RefusedError(
            f"nothing can be planned: all {cluster.partition_count} partitions are excluded by the policy or the "
            "request, being reassigned or without a leader; change what is excluded, wait, or bring the brokers back"
        )


def refuse_voters(snapshot: ClusterSnapshot, request: PlanRequest) -> None:
    """Raises RefusedError when a broker that is to be removed votes in the metadata quorum
    (KIP-595, KIP-853).

    Emptied or not, it could not be stopped: the quorum would lose a voter. Node ids of brokers and
    controllers are one set, so the same id is the same process.
    """
    if request.goal is not Goal.REMOVE_BROKERS:
        return
    quorum = zip(
        snapshot.tables["quorum"]["node_id"].to_pylist(),
        snapshot.tables["quorum"]["role"].to_pylist(),
        strict=True,
    )
    voters = sorted(
        {node for node, role in quorum if role in ("leader", "voter")} & set(request.broker_ids)
    )
    if voters:
        raise RefusedError(
            f"{named(voters)} cannot be removed yet: a controller runs there, too, and votes in the metadata quorum. "
            "First add a controller elsewhere and take this one out of the quorum (kafka-metadata-quorum.sh "
            "remove-controller, where voters are dynamic; a new controller.quorum.voters and a rolling restart, where "
            "they are static). To move only the leaders away, use the goal demote-brokers"
        )


def refuse_what_found_no_place(placement: Placement, roles: Roles, request: PlanRequest) -> None:
    """Raises RefusedError when a replica of a broker that is to be emptied fits on no other one."""
    if request.goal is not Goal.REMOVE_BROKERS:
        return
    cluster = placement.cluster
    on_leaving = np.append(roles.leaving, False)[placement.replicas].any(axis=1)
    homeless = np.flatnonzero(on_leaving & cluster.may_drain)
    if not len(homeless):
        return
    largest = homeless[np.lexsort((homeless, -cluster.size_bytes[homeless]))]
    worst, more = int(largest[0]), f" (and {len(homeless) - 1} more)" if len(homeless) > 1 else ""
    raise RefusedError(
        f"{named(sorted(request.broker_ids))} cannot be emptied: {cluster.name(worst)} "
        f"({format_bytes(int(cluster.size_bytes[worst]))}){more} fits on no broker below "
        f"{request.policy.disk_limit_percent} % full; add brokers or disk, keep fewer bytes (retention), "
        "or raise disk_limit_percent"
    )


def _refuse_stuck_replicas(cluster: ClusterArrays, roles: Roles, request: PlanRequest) -> None:
    asked = request.scope.topics_in(
        cluster.topic_names
    )  # what the request itself leaves out stays: no surprise
    is_asked = np.array([name in asked for name in cluster.topic_names], dtype=np.bool_)[
        cluster.topic_numbers
    ]
    on_leaving = np.append(roles.leaving, False)[cluster.replicas].any(axis=1) & is_asked
    free = on_leaving & ~cluster.is_excluded
    brokers = named(sorted(request.broker_ids))
    if len(stuck := np.flatnonzero(on_leaving & cluster.is_excluded)):
        raise RefusedError(
            f"{brokers} cannot be emptied: {_held(cluster, stuck)} there and the policy excludes their topics; "
            "take the topics out of excluded_topics, or leave them out of this plan too (--exclude-topics)"
        )
    if len(stuck := np.flatnonzero(free & cluster.is_moving)):
        raise RefusedError(
            f"{brokers} cannot be emptied now: {_held(cluster, stuck)} there and a reassignment of theirs is under "
            "way; wait until it is done, or cancel it"
        )
    if len(stuck := np.flatnonzero(free & cluster.is_leaderless)):
        raise RefusedError(
            f"{brokers} cannot be emptied: {_held(cluster, stuck)} there and no leader to copy from; bring back a "
            "broker that can lead them, or leave their topics out of this plan (--exclude-topics)"
        )


def _refuse_too_few_brokers(
    cluster: ClusterArrays, roles: Roles, request: PlanRequest, name: str
) -> None:
    leaving, destinations = np.append(roles.leaving, False), np.append(roles.destinations, False)
    to_place = leaving[cluster.replicas].sum(axis=1)
    free = int(roles.destinations.sum()) - destinations[cluster.replicas].sum(axis=1)
    homeless = np.flatnonzero((to_place > free) & cluster.may_drain)
    if len(homeless) or not roles.staying.any():
        highest = int(cluster.replica_counts[homeless].max(initial=1))
        scoped = (
            ""
            if roles.destinations.sum() == roles.staying.sum()
            else f", {int(roles.destinations.sum())} of them in scope"
        )
        raise InputError(
            f"without {named(sorted(request.broker_ids))} {int(roles.staying.sum())} live broker(s) would be left in "
            f"{name}{scoped}, too few for partitions with {highest} replica(s); "
            "add brokers, or lower the replication factor first"
        )


def _held(cluster: ClusterArrays, partitions: Ints) -> str:
    have = pluralize(len(partitions), "partition has a replica", "partitions have replicas")
    return f"{have} ({partition_names(cluster, partitions)})"
