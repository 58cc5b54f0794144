"""Refusals: what must be left alone stands in the way of the goal, or brokers or disks are too few.

    refuse_impossible(cluster, roles, request, "cluster demo")     # before anything moves
    refuse_unplaced(placement, roles, request)                     # when all has moved that could

Only a goal that is worth nothing half done is refused: a broker that cannot be emptied cannot be
taken away. What other goals have to leave undone is a warning, or the reason of an empty plan.
"""

import numpy as np

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.columns import Flags
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import name_brokers, pluralize
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles
from counterpoise.units import format_bytes


def refuse_impossible(
    cluster: ClusterArrays, roles: Roles, request: PlanRequest, cluster_name: str
) -> None:
    """Raise RefusedError when what must be left alone stands in the way of the goal.

    Raise InputError when there are too few brokers to take the replicas.
    """
    if request.goal is Goal.REMOVE_BROKERS:
        _refuse_stuck_replicas(cluster, roles, request)
        _refuse_too_few_brokers(cluster, roles, request, cluster_name)
    elif cluster.partition_count and not cluster.may_reorder.any():
        raise RefusedError(
            f"nothing can be planned: all {cluster.partition_count} partitions are excluded by the "
            "policy or the request, being reassigned or without a leader; change what is excluded, "
            "wait, or bring the brokers back"
        )


def refuse_unplaced(placement: Placement, roles: Roles, request: PlanRequest) -> None:
    """Raise RefusedError when a replica of a broker that is to be emptied fits on no other one."""
    if request.goal is not Goal.REMOVE_BROKERS:
        return
    cluster = placement.cluster
    is_on_leaving = np.append(roles.leaving, False)[placement.replicas].any(axis=1)
    unplaced = np.flatnonzero(is_on_leaving & cluster.may_drain)
    if not len(unplaced):
        return
    largest_first = unplaced[np.lexsort((unplaced, -cluster.size_bytes[unplaced]))]
    largest = int(largest_first[0])
    size = format_bytes(int(cluster.size_bytes[largest]))
    others = f" (and {len(unplaced) - 1} more)" if len(unplaced) > 1 else ""
    raise RefusedError(
        f"{name_brokers(sorted(request.broker_ids))} cannot be emptied: {cluster.name(largest)} "
        f"({size}){others} fits on no broker below {request.policy.disk_limit_percent} % full; "
        "add brokers or disk, keep fewer bytes (retention), or raise disk_limit_percent"
    )


def _refuse_stuck_replicas(cluster: ClusterArrays, roles: Roles, request: PlanRequest) -> None:
    """Refuse replicas that cannot leave; those that the request itself leaves out may stay."""
    is_on_leaving = np.append(roles.leaving, False)[cluster.replicas].any(axis=1)
    is_concerned = is_on_leaving & cluster.is_requested
    is_free = is_concerned & ~cluster.is_excluded
    is_excluded = is_concerned & cluster.is_excluded
    is_moving = is_free & cluster.is_moving
    is_leaderless = is_free & cluster.is_leaderless
    brokers = name_brokers(sorted(request.broker_ids))
    if is_excluded.any():
        raise RefusedError(
            f"{brokers} cannot be emptied: {_having(cluster, is_excluded)} there and the policy "
            "excludes their topics; take the topics out of excluded_topics, or leave them out of "
            "this plan too (--exclude-topics)"
        )
    if is_moving.any():
        raise RefusedError(
            f"{brokers} cannot be emptied now: {_having(cluster, is_moving)} there and a "
            "reassignment of theirs is under way; wait until it is done, or cancel it"
        )
    if is_leaderless.any():
        raise RefusedError(
            f"{brokers} cannot be emptied: {_having(cluster, is_leaderless)} there and no leader "
            "to copy from; bring back a broker that can lead them, or leave their topics out of "
            "this plan (--exclude-topics)"
        )


def _refuse_too_few_brokers(
    cluster: ClusterArrays, roles: Roles, request: PlanRequest, cluster_name: str
) -> None:
    leaving, destinations = np.append(roles.leaving, False), np.append(roles.destinations, False)
    destination_count, staying_count = int(roles.destinations.sum()), int(roles.staying.sum())
    to_place = leaving[cluster.replicas].sum(axis=1)
    free_destinations = destination_count - destinations[cluster.replicas].sum(axis=1)
    is_unplaceable = (to_place > free_destinations) & cluster.may_drain
    if not is_unplaceable.any() and staying_count:
        return
    replica_count = int(cluster.replica_counts[is_unplaceable].max(initial=1))
    in_scope = ""
    if destination_count != staying_count:
        in_scope = f", {destination_count} of them in scope"
    raise InputError(
        f"{cluster_name} would have {pluralize(staying_count, 'live broker')}{in_scope} without "
        f"{name_brokers(sorted(request.broker_ids))}, too few for partitions with "
        f"{pluralize(replica_count, 'replica')}; add brokers, or lower the replication factor first"
    )


def _having(cluster: ClusterArrays, is_concerned: Flags) -> str:
    partitions = np.flatnonzero(is_concerned)
    have = pluralize(len(partitions), "partition has a replica", "partitions have replicas")
    return f"{have} ({cluster.names(partitions)})"
