"""Warnings: what the person who approves should know, each with a count and some names.

    warnings_of(result)     # ("1 partition is being reassigned already and left alone: a-0",)

A warning is a small function from a result to a sentence, "" where it does not apply; `WARNINGS`
has all of them, in the order in which they are shown.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.request import Goal, Scope
from counterpoise.model.words import list_brokers, pluralize
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.explanation.constraint_warnings import (
    cordoned_log_dirs,
    cordons,
    few_topic_leaders,
    full_brokers,
    leaders_above_limit,
    no_new_replicas,
    topics_outside_sets,
    unknown_brokers,
)
from counterpoise.planning.explanation.planning_result import (
    PlanningResult,
    as_range,
    is_worse,
)
from counterpoise.planning.explanation.traffic_warnings import (
    rates_unknown,
    traffic_at_least,
    traffic_outside_band,
    traffic_unknown,
)
from counterpoise.units import format_bytes

IS_MOVING: Final = "under reassignment; wait until it is done, or cancel it"
IS_LEADERLESS: Final = "without a leader to copy from; bring a broker back"
HAS_NO_DESTINATION: Final = (
    "for which no other live broker in scope has room and no constraint is against it; add brokers "
    "or disk, widen the scope, or raise disk_limit_percent"
)
_IS_LEFT_TO_REPAIR = "left to goal repair: with a replica on a dead broker no copy could end"
_USUAL_REPLICATION_FACTOR = 3


def warnings_of(result: PlanningResult) -> tuple[str, ...]:
    """Return all sentences that apply; an imported plan is as somebody wanted it, so none do."""
    if result.request.goal is Goal.IMPORTED:
        return ()
    return tuple(filter(None, (warning(result) for warning in WARNINGS)))


def list_undone(result: PlanningResult, *kinds: tuple[Flags, str]) -> str:
    """Return which partitions are left and why, for each kind that has any; "" when none has."""
    sentences = []
    for is_concerned, why in kinds:
        partitions = np.flatnonzero(is_concerned)
        if len(partitions):
            names = result.cluster.names(partitions)
            singular, plural = f"partition ({names}) is {why}", f"partitions ({names}) are {why}"
            sentences.append(pluralize(len(partitions), singular, plural))
    return "; ".join(sentences)


def _brokers(result: PlanningResult, positions: Ints) -> str:
    return list_brokers(result.cluster.broker_ids[positions].tolist())


def _or_rebalance(result: PlanningResult) -> str:
    return "" if result.request.goal is Goal.REBALANCE else "; goal rebalance may do more"


# -- what the snapshot has, or lacks


def _under_reassignment(result: PlanningResult) -> str:
    moving = np.flatnonzero(result.cluster.is_moving)
    left_alone = "being reassigned already and left alone"
    return result.name_partitions(moving, f"is {left_alone}", f"are {left_alone}")


def _without_leader(result: PlanningResult) -> str:
    cluster = result.cluster
    if cluster.partition_count and not (cluster.leaders >= 0).any():
        return (
            "the snapshot has no leaders; each partition's first replica is taken to be its leader"
        )
    return result.name_partitions(
        np.flatnonzero(cluster.is_leaderless),
        "has no leader; bring one of its brokers back",
        "have no leader; bring one of their brokers back",
    )


def _excluded(result: PlanningResult) -> str:
    count = int(result.cluster.is_excluded.sum())
    if result.left_out is not None:
        count += result.left_out.partition_count
    if not count:
        return ""
    return pluralize(
        count,
        "partition is left alone: the policy or the request excludes its topic",
        "partitions are left alone: the policy or the request excludes their topics",
    )


def _on_dead_brokers(result: PlanningResult) -> str:
    dead = np.flatnonzero(~result.cluster.is_live & (result.after.counts > 0))
    if not len(dead):
        return ""
    replicas = pluralize(int(result.after.counts[dead].sum()), "replica stays", "replicas stay")
    help_ = "" if result.request.goal is Goal.REPAIR else "; goal repair replaces them"
    return f"{replicas} on {_brokers(result, dead)}, not live now{help_}"


def left_to_repair(result: PlanningResult) -> str:
    """Return partitions that stay as they are because a replica is on a dead broker.

    The goal is not about that broker.
    """
    return list_undone(result, (result.cluster.is_left_to_repair, _IS_LEFT_TO_REPAIR))


def _few_replicas(result: PlanningResult) -> str:
    return result.name_partitions(
        np.flatnonzero(result.after.replica_counts < _USUAL_REPLICATION_FACTOR),
        "has fewer than 3 replicas; the loss of one broker may stop it",
        "have fewer than 3 replicas; the loss of one broker may stop them",
    )


def _unknown_sizes(result: PlanningResult) -> str:
    unknown = np.flatnonzero(~result.cluster.is_size_known)
    if len(unknown) and len(unknown) == result.cluster.partition_count:
        return "no partition size is known; bytes count as 0, so the plan goes by counts alone"
    return result.name_partitions(
        unknown,
        "has no known size and counts as 0 bytes",
        "have no known size and count as 0 bytes",
    )


# -- what will not be even


def _racks_not_repaired(result: PlanningResult) -> str:
    end = "though the racks would allow better"
    if result.request.goal is not Goal.REBALANCE:
        end += "; goal rebalance can repair that"
    return result.name_partitions(
        np.flatnonzero(result.racks_missing(result.after)),
        f"has more replicas in one rack than needed, {end}",
        f"have more replicas in one rack than needed, {end}",
    )


def _racks_lost(result: PlanningResult) -> str:
    """Name partitions that the plan itself takes to fewer racks."""
    is_lost = result.racks_missing(result.after) > result.racks_missing(result.before)
    why = "since no broker of another rack has room for a replica, is in scope, and may have it"
    return result.name_partitions(
        np.flatnonzero(is_lost & result.assignment.is_in_plan),
        f"will be on fewer racks than now, {why}",
        f"will be on fewer racks than now, {why}",
    )


def _uneven_racks(result: PlanningResult) -> str:
    best = result.ideal_counts[result.sharing]
    low, high = int(best.min(initial=UNBOUNDED)), int(best.max(initial=0))
    reached = int(np.ptp(result.after.counts[result.sharing]))
    if high - low <= 1 or reached < high - low or not result.goal.evens_replicas:
        return ""
    if result.has_sets:
        return (
            f"replicas per broker cannot be more even than {low} to {high}: each broker set holds "
            "the replicas of its own topics; more brokers in the set that holds most would help"
        )
    return (
        f"replicas per broker cannot be more even than {low} to {high}: the racks have different "
        "numbers of brokers and each needs its part of every partition; one more broker in the "
        "smallest rack would help"
    )


def _left_alone_uneven(result: PlanningResult) -> str:
    """Say that what the plan must leave alone keeps the counts from being more even."""
    best, ideal = result.best_counts[result.sharing], result.ideal_counts[result.sharing]
    left_alone = int((~result.cluster.may_change).sum())
    if not result.goal.evens_replicas or not left_alone or not is_worse(best, ideal):
        return ""
    partitions = pluralize(left_alone, "partition", "partitions")
    return (
        f"replicas per broker cannot be more even than {as_range(best)}, where {as_range(ideal)} "
        f"would be possible: {partitions} must be left alone"
    )


def _counts_not_reached(result: PlanningResult) -> str:
    best, counts = result.best_counts[result.sharing], result.after.counts[result.sharing]
    if not result.goal.evens_replicas or not is_worse(counts, best):
        return ""
    return (
        f"replicas per broker will be {counts.min()} to {counts.max()}; {best.min()} to "
        f"{best.max()} is possible, but not by the moves this goal allows{_or_rebalance(result)}"
    )


def _bytes_outside_band(result: PlanningResult) -> str:
    if not result.goal.evens_replicas or not len(result.out_of_band):
        return ""
    percent = result.request.policy.bytes_tolerance_percent
    return (
        f"{_brokers(result, result.out_of_band)} will hold bytes more than {percent} % away from "
        "the fair share; the partition sizes or the moves this goal allows leave no better"
        + _or_rebalance(result)
    )


def _full_disks(result: PlanningResult) -> str:
    """Name the brokers that would have got more if their fullest log dir allowed it."""
    after = result.after
    has_few_replicas = after.counts < result.best_counts
    has_few_bytes = after.bytes_held < result.band.lowest
    is_resized = result.request.goal is Goal.REPLICATION_FACTOR
    is_lacking = has_few_replicas | has_few_bytes | is_resized
    is_full = after.room < int(result.cluster.size_bytes.max(initial=0))
    full = np.flatnonzero(result.roles.destinations & is_lacking & is_full)
    if not len(full):
        return ""
    percent = result.request.policy.disk_limit_percent
    return (
        f"{_brokers(result, full)} can take no more: a log dir would be over {percent} % of its "
        "disk while old copies are still there; more disk, fewer bytes (retention), or a higher "
        "disk_limit_percent would help"
    )


def _leaders_uneven(result: PlanningResult) -> str:
    counts = result.leader_counts[result.roles.leading]
    if np.ptp(counts) <= 1:
        return ""
    idle_count = int((counts == 0).sum())
    idle = ""
    if idle_count:
        idle = f"; {pluralize(idle_count, 'broker leads', 'brokers lead')} nothing"
    is_narrow = result.deferred.partitions or result.request.scope != Scope()
    limit = "scope and budget of the request" if is_narrow else "the replica sets"
    help_ = "" if is_narrow else _or_rebalance(result)
    return (
        f"leaders per broker will be {counts.min()} to {counts.max()}{idle}: "
        f"{limit} allow no better{help_}"
    )


def _goal_not_reached(result: PlanningResult) -> str:
    """Say what the whole goal would take, where the plan stops before it."""
    _, bound = result.bounds
    if bound is None or not result.assignment.is_in_plan.any():
        return ""
    replicas = pluralize(bound.replicas, "replica")
    return (
        f"the plan does not reach the whole goal, which takes {replicas} and "
        f"{format_bytes(bound.bytes)} or more; its lower bound is for what it reaches"
    )


def _not_proven(result: PlanningResult) -> str:
    """Say how much better another plan could be at most, where the best was not found for sure."""
    bound = result.after.bound
    if bound is None or bound.is_reached or not result.assignment.is_in_plan.any():
        return ""
    return (
        "the search for fewer bytes stopped at its limit: another plan could be nearer to the "
        f"fair shares of bytes, or copy less, but not less than {format_bytes(bound.bytes)}"
    )


def _undone(result: PlanningResult) -> str:
    return result.goal.undone(result)


# -- what clients notice, and what comes later


def _min_insync_is_all(result: PlanningResult) -> str:
    cluster = result.cluster
    min_insync = cluster.min_insync_replicas[cluster.topic_numbers]
    has_none_to_spare = (min_insync >= result.after.replica_counts) & (min_insync > 1)
    return result.name_partitions(
        np.flatnonzero(result.assignment.is_in_plan & has_none_to_spare),
        "of the plan needs as many in-sync replicas as it has (min.insync.replicas); "
        "one slow broker stops its producers",
        "of the plan need as many in-sync replicas as they have (min.insync.replicas); "
        "one slow broker stops their producers",
    )


def _coordinators(result: PlanningResult) -> str:
    cluster = result.cluster
    names = [name for name in cluster.topic_names if name in COORDINATOR_TOPICS]
    numbers = [cluster.topic_names.index(name) for name in names]
    is_touched = result.assignment.is_in_plan & np.isin(cluster.topic_numbers, numbers)
    count = int(is_touched.sum())
    if not count:
        return ""
    topics = ", ".join(names)
    touched = pluralize(count, f"partition of {topics} is", f"partitions of {topics} are")
    return (
        f"{touched} touched: where their leader changes, groups and transactions find a new "
        "coordinator, which takes clients a moment"
    )


def _tiered(result: PlanningResult) -> str:
    cluster, tiered = result.cluster, result.snapshot.tiered_topics
    if not tiered:
        return ""
    is_tiered = np.array([name in tiered for name in cluster.topic_names], dtype=np.bool_)
    is_copied = result.assignment.is_added.any(axis=1) & is_tiered[cluster.topic_numbers]
    return result.name_partitions(
        np.flatnonzero(is_copied),
        "has tiered storage: bytes, time and disks are of what is local, the rest stays remote",
        "have tiered storage: bytes, time and disks are of what is local, the rest stays remote",
    )


def _deferred_by_budget(result: PlanningResult) -> str:
    deferred = result.deferred
    if not deferred.partitions:
        return ""
    partitions, copies = pluralize(deferred.partitions, "partition"), ""
    if deferred.replicas:
        replicas = pluralize(deferred.replicas, "replica")
        copies = f" with {replicas} and {format_bytes(deferred.bytes)} to copy"
    return (
        f"the budget leaves {partitions}{copies} for a later plan; plan again when this one is done"
    )


WARNINGS: Final[tuple[Callable[[PlanningResult], str], ...]] = (
    _under_reassignment,
    _without_leader,
    _excluded,
    _on_dead_brokers,
    left_to_repair,
    _few_replicas,
    _unknown_sizes,
    _racks_not_repaired,
    _racks_lost,
    _uneven_racks,
    _left_alone_uneven,
    _counts_not_reached,
    _bytes_outside_band,
    traffic_at_least,
    traffic_unknown,
    traffic_outside_band,
    _full_disks,
    cordoned_log_dirs,
    _leaders_uneven,
    rates_unknown,
    _min_insync_is_all,
    _coordinators,
    _tiered,
    _deferred_by_budget,
    _goal_not_reached,
    _not_proven,
    _undone,
    cordons,
    unknown_brokers,
    topics_outside_sets,
    no_new_replicas,
    full_brokers,
    few_topic_leaders,
    leaders_above_limit,
)
