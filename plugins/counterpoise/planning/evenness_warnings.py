"""Warnings about what will not be even: racks, counts, bytes, traffic and leaders.

Each is a sentence, "" where it does not apply; `plan_warnings` shows them in the order of the tuple
at the end.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from counterpoise.model.evenness import is_worse
from counterpoise.model.policy import LeaderWeight
from counterpoise.model.request import Goal, Scope
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import MIN_KNOWN_PERCENT, UNBOUNDED
from counterpoise.planning.planning_result import PlanningResult, as_range


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
    """Return a warning of partitions that the plan itself takes to fewer racks."""
    is_lost = result.racks_missing(result.after) > result.racks_missing(result.before)
    why = (
        "since no broker of another rack has room for a replica, is in scope, and may have it; add "
        "brokers or disk there, or widen the scope"
    )
    return result.name_partitions(
        np.flatnonzero(is_lost & result.assignment.is_in_plan),
        f"will be on fewer racks than now, {why}",
        f"will be on fewer racks than now, {why}",
    )


def _uneven_racks(result: PlanningResult) -> str:
    sharing = result.roles.sharing
    best = result.ideal_counts[sharing]
    low, high = int(best.min(initial=UNBOUNDED)), int(best.max(initial=0))
    reached = int(np.ptp(result.after.counts[sharing]))
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
    """Return a warning of counts that what is left alone keeps from being more even."""
    sharing = result.roles.sharing
    best, ideal = result.best_counts[sharing], result.ideal_counts[sharing]
    left_alone = int((~result.cluster.may_change).sum())
    if not result.goal.evens_replicas or not left_alone or not is_worse(best, ideal):
        return ""
    partitions = pluralize(left_alone, "partition", "partitions")
    return (
        f"replicas per broker cannot be more even than {as_range(best)}, where {as_range(ideal)} "
        f"would be possible: {partitions} must be left alone; exclude fewer topics, bring dead "
        "brokers back, or wait until reassignments are done"
    )


def _counts_not_reached(result: PlanningResult) -> str:
    sharing = result.roles.sharing
    best, counts = result.best_counts[sharing], result.after.counts[sharing]
    if not result.goal.evens_replicas or not is_worse(counts, best):
        return ""
    help_ = result.or_rebalance or "; more disk, fewer constraints, or a wider scope would help"
    return (
        f"replicas per broker will be {counts.min()} to {counts.max()}; {best.min()} to "
        f"{best.max()} is possible, but not by the moves this goal allows{help_}"
    )


def _bytes_outside_band(result: PlanningResult) -> str:
    if not result.goal.evens_replicas or not len(result.out_of_band):
        return ""
    brokers = result.list_brokers(result.out_of_band)
    percent = result.request.policy.bytes_tolerance_percent
    return (
        f"{brokers} will hold bytes more than {percent} % away from the fair share; the partition "
        "sizes or the moves this goal allows leave no better" + result.or_rebalance
    )


def _traffic_at_least(result: PlanningResult) -> str:
    """Return a warning of rates of topics that are or may be compacted, by which this plan weighs:
    they are lower bounds.
    """
    by_rates = result.evens_traffic or (
        result.request.policy.leader_weight is LeaderWeight.BYTES_IN
        and result.cluster.is_rate_known.any()
    )
    count = int(result.cluster.is_rate_at_least.sum())
    if not by_rates or not count:
        return ""
    subject = "rate of 1 partition is a lower bound: its topic is compacted, or may be"
    if count > 1:
        subject = (
            f"rates of {count} partitions are lower bounds: their topics are compacted, or may be"
        )
    return (
        f"the {subject} (where the cleanup policy is not known). Compaction removes records "
        "unnoticed, so brokers that lead or follow them may take in more than the plan says"
    )


def _traffic_unknown(result: PlanningResult) -> str:
    """Return a warning where too few rates are known to even traffic."""
    cluster = result.cluster
    if not result.goal.evens_replicas or not cluster.bytes_in.any() or result.evens_traffic:
        return ""
    unknown_count = int((~cluster.is_rate_known).sum())
    return (
        f"traffic is not evened: the rates of {unknown_count} of {cluster.partition_count} "
        f"partitions are not known, and {MIN_KNOWN_PERCENT} % have to be; take another snapshot, "
        "so that more are known"
    )


def _traffic_outside_band(result: PlanningResult) -> str:
    """Return a warning of brokers that take in too much or too little."""
    if not result.evens_traffic or not len(result.out_of_traffic_band):
        return ""
    percent = result.request.policy.bytes_in_tolerance_percent
    brokers = result.list_brokers(result.out_of_traffic_band)
    return (
        f"{brokers} will take in (as leader and as follower) more than {percent} % away from "
        "the fair share; the rates of the partitions or the moves this goal allows leave no better"
        + result.or_rebalance
    )


def _full_disks(result: PlanningResult) -> str:
    """Return a warning of brokers that would get more if their fullest log dir allowed it."""
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
        f"{result.list_brokers(full)} can take no more: a log dir would be over {percent} % of its "
        "disk while old copies are still there; more disk, fewer bytes (retention), or a higher "
        "disk_limit_percent would help"
    )


def _cordoned_log_dirs(result: PlanningResult) -> str:
    """Return a warning of brokers that take no new replicas, or only in some log dirs."""
    cluster = result.cluster
    if not result.goal.moves_replicas:
        return ""
    has_cordoned = cluster.is_live & cluster.is_in_scope & (cluster.cordoned_dirs > 0)
    closed = np.flatnonzero(has_cordoned & ~cluster.takes_replicas)
    partly = np.flatnonzero(has_cordoned & cluster.takes_replicas & result.roles.destinations)
    sentences = []
    if len(closed):
        sentences.append(
            f"{result.list_brokers(closed)} can take no new replicas: all log dirs are cordoned; "
            "delete cordoned.log.dirs when the drain has ended"
        )
    if len(partly):
        sentences.append(
            f"{result.list_brokers(partly)} have log dirs that are cordoned; which of the others "
            "new replicas go to is chosen by the broker"
        )
    return "; ".join(sentences)


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
    help_ = "" if is_narrow else result.or_rebalance
    return (
        f"leaders per broker will be {counts.min()} to {counts.max()}{idle}: "
        f"{limit} allow no better{help_}"
    )


def _rates_unknown(result: PlanningResult) -> str:
    """Return a warning where leaders cannot be weighed by bytes-in."""
    by_count = result.request.policy.leader_weight is not LeaderWeight.BYTES_IN
    if by_count or result.cluster.is_rate_known.any():
        return ""
    return (
        "leaders are to be weighed by bytes-in, but the snapshot has no rates; "
        "they are even in number instead; take two snapshots, so that rates are known"
    )


EVENNESS_WARNINGS: Final[tuple[Callable[[PlanningResult], str], ...]] = (
    _racks_not_repaired,
    _racks_lost,
    _uneven_racks,
    _left_alone_uneven,
    _counts_not_reached,
    _bytes_outside_band,
    _traffic_at_least,
    _traffic_unknown,
    _traffic_outside_band,
    _full_disks,
    _cordoned_log_dirs,
    _leaders_uneven,
    _rates_unknown,
)
