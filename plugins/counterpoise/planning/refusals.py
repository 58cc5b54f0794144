"""Refusals: what must be left alone stands in the way of the goal, or brokers or disks are too few.

    refuse_impossible(result)     # before anything moves
    refuse_unplaced(result)       # when all has moved that could

Only a goal that is worth nothing half done is refused: a broker that cannot be emptied cannot be
taken away. What other goals have to leave undone is a warning, or the reason of an empty plan.
"""

import numpy as np

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.columns import Flags
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers, pluralize
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.request_checks import name_cluster
from counterpoise.units import format_bytes


def refuse_impossible(result: PlanningResult) -> None:
    """Raise RefusedError when what must be left alone stands in the way of the goal.

    Raise InputError when there are too few brokers to take the replicas.
    """
    cluster = result.cluster
    if result.request.goal is Goal.REMOVE_BROKERS:
        _refuse_stuck_replicas(result)
        _refuse_too_few_brokers(result)
    elif cluster.partition_count and not cluster.may_reorder.any():
        raise RefusedError(
            f"nothing can be planned: all {cluster.partition_count} partitions are excluded by the "
            "policy or the request, being reassigned or without a leader; change what is excluded, "
            "wait, or bring the brokers back"
        )


def refuse_unplaced(result: PlanningResult) -> None:
    """Raise RefusedError when a replica of a broker that is to be emptied fits on no other one."""
    cluster, request = result.cluster, result.request
    if request.goal is not Goal.REMOVE_BROKERS:
        return
    is_on_leaving = np.append(result.roles.leaving, False)[result.after.replicas].any(axis=1)
    unplaced = np.flatnonzero(is_on_leaving & cluster.may_drain)
    if not len(unplaced):
        return
    largest_first = unplaced[np.lexsort((unplaced, -cluster.size_bytes[unplaced]))]
    largest = int(largest_first[0])
    size = format_bytes(int(cluster.size_bytes[largest]))
    others = f" (and {len(unplaced) - 1} more)" if len(unplaced) > 1 else ""
    raise RefusedError(
        f"{_leaving_brokers(result)} cannot be emptied: {cluster.name(largest)} "
        f"({size}){others} fits on no broker below {request.policy.disk_limit_percent} % full; "
        "add brokers or disk, keep fewer bytes (retention), or raise disk_limit_percent"
    )


def _refuse_stuck_replicas(result: PlanningResult) -> None:
    """Refuse replicas that cannot leave; those that the request itself leaves out may stay."""
    cluster = result.cluster
    is_on_leaving = np.append(result.roles.leaving, False)[cluster.replicas].any(axis=1)
    is_concerned = is_on_leaving & cluster.is_requested
    is_free = is_concerned & ~cluster.is_excluded
    is_excluded = is_concerned & cluster.is_excluded
    is_moving = is_free & cluster.is_moving
    is_leaderless = is_free & cluster.is_leaderless
    brokers = _leaving_brokers(result)
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


def _refuse_too_few_brokers(result: PlanningResult) -> None:
    cluster, roles = result.cluster, result.roles
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
        f"{name_cluster(result.snapshot)} would have {pluralize(staying_count, 'live broker')}"
        f"{in_scope} without {_leaving_brokers(result)}, too few for partitions with "
        f"{pluralize(replica_count, 'replica')}; add brokers, or lower the replication factor first"
    )


def _leaving_brokers(result: PlanningResult) -> str:
    return name_brokers(sorted(result.request.broker_ids))


def _having(cluster: ClusterArrays, is_concerned: Flags) -> str:
    partitions = np.flatnonzero(is_concerned)
    have = pluralize(len(partitions), "partition has a replica", "partitions have replicas")
    return f"{have} ({cluster.names(partitions)})"
