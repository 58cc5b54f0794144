"""Warnings and notes: what the person who approves should know, with a count and some names.

    warnings_of(result)     # ("1 partition is being reassigned already and left alone: a-0",)
    notes_of(result)        # ("6 partitions of __consumer_offsets are touched: ...",)

A warning asks for attention: something is wrong, unknown, or not reached. A note tells what healthy
clusters have too, or what the request asked for. Each is a small function from a result to a
sentence, "" where it does not apply; `WARNINGS` and `NOTES` have all of them, in the order in which
they are shown. What stays uneven comes last: each of `_MEASURES` finds it, and says what keeps it
so.
"""

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Final

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import by_disk
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.request import Goal
from counterpoise.model.words import join_names, name_brokers, pluralize, verb
from counterpoise.planning.arrays import MIN_KNOWN_PERCENT, UNBOUNDED
from counterpoise.planning.fair_shares import shares_of_bytes
from counterpoise.planning.minimum_gain import replicas_outside_sets
from counterpoise.planning.planning_result import PlanningResult, as_range
from counterpoise.units import format_bytes

_USUAL_REPLICATION_FACTOR = 3
_LEFT_BY_BUDGET: Final = "the budget of the request leaves the rest for a later plan"


def warnings_of(result: PlanningResult) -> tuple[str, ...]:
    """Return all sentences that apply.

    An imported plan is as somebody wanted it: nothing is said of what it reaches.
    """
    if result.request.goal is Goal.IMPORTED:
        return tuple(filter(None, (_offline_log_dirs(result), _without_topic_ids(result))))
    return tuple(filter(None, (*(warning(result) for warning in WARNINGS), *_unevenness(result))))


def notes_of(result: PlanningResult) -> tuple[str, ...]:
    """Return all notes that apply; none of an imported plan."""
    if result.request.goal is Goal.IMPORTED:
        return ()
    return tuple(filter(None, (note(result) for note in NOTES)))


# -- what the snapshot has, or lacks


def _under_reassignment(result: PlanningResult) -> str:
    sentence = "{is} being reassigned already and left alone"
    return result.name_others(result.cluster.is_moving, sentence)


def _without_leader(result: PlanningResult) -> str:
    cluster = result.cluster
    if ((cluster.leaders < 0) & ~cluster.is_leaderless).any():
        return (
            "the snapshot has no leaders; each partition's first replica is taken to be its "
            "leader; take a new snapshot, or give the leaders in the cluster document"
        )
    sentence = "{has} no leader; bring one of {their} brokers back"
    return result.name_others(cluster.is_leaderless, sentence)


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
    replica_count = int(result.after.counts[dead].sum())
    replicas = pluralize(replica_count, "replica stays", "replicas stay")
    it = verb(len(dead), "it", "them")
    is_dead = np.append(~result.cluster.is_live, False)
    has_dead = is_dead[result.after.replicas].any(axis=1)
    can_repair = (has_dead & ~result.cluster.is_leaderless).any()
    help_ = ""
    if can_repair and result.request.goal is not Goal.REPAIR:
        help_ = f", or let goal repair replace {verb(replica_count, 'it', 'them')}"
    return f"{replicas} on {result.list_brokers(dead)}, not live now; bring {it} back{help_}"


def _nothing_repaired(result: PlanningResult) -> str:
    """Return why a plan for repair has nothing to repair, where it only changes leaders."""
    repairs = result.assignment.is_added.any() or not result.assignment.is_in_plan.any()
    if result.request.goal is not Goal.REPAIR or repairs:
        return ""
    why = result.goal.reason(result).removeprefix("already done: ")
    return f"nothing is repaired, only leaders change: {why}"


def _few_replicas(result: PlanningResult) -> str:
    is_other_goal = result.request.goal is not Goal.REPLICATION_FACTOR
    help_ = "; goal replication-factor adds some" if is_other_goal else ""
    return result.name_partitions(
        result.after.replica_counts < _USUAL_REPLICATION_FACTOR,
        f"{{has}} fewer than 3 replicas; the loss of one broker may stop {{them}}{help_}",
    )


def _unknown_sizes(result: PlanningResult) -> str:
    is_unknown = ~result.cluster.is_size_known
    budget = "" if result.request.budget.max_bytes is None else ", within --max-bytes too"
    if len(is_unknown) and is_unknown.all():
        return (
            f"no partition size is known; bytes count as 0{budget}, so the plan goes by counts "
            "alone; allow snapshots to describe log dirs, or give sizes in the cluster document"
        )
    return result.name_partitions(
        is_unknown,
        f"{{has}} no known size and count{{s}} as 0 bytes{budget}; bring offline log dirs back and "
        "take another snapshot",
    )


def _unknown_room(result: PlanningResult) -> str:
    """Return a warning of brokers that get replicas and tell no sizes of their disks."""
    receiving = np.unique(result.assignment.replicas[result.assignment.is_added])
    unknown = receiving[result.cluster.headroom_bytes[receiving] >= UNBOUNDED]
    if not len(unknown):
        return ""
    tell = verb(len(unknown), "tells", "tell")
    return (
        f"{result.list_brokers(unknown)} {tell} no sizes of log dirs (brokers before 3.3 do not): "
        "whether the new replicas fit there is not known"
    )


def _unknown_racks(result: PlanningResult) -> str:
    """Return a warning of brokers without a rack beside brokers that have one."""
    is_live = set(result.snapshot.live_broker_ids)
    racks = {b: rack for b, rack in result.snapshot.racks.items() if b in is_live}
    unknown = sorted(broker_id for broker_id, rack in racks.items() if not rack)
    if not result.goal.moves_replicas or len(unknown) in (0, len(racks)):
        return ""
    return (
        f"{name_brokers(unknown)} {verb(len(unknown), 'tells', 'tell')} no rack, and "
        f"{verb(len(unknown), 'counts', 'count together')} as a rack of "
        f"{verb(len(unknown), 'its', 'their')} own: whether replicas there share a rack with "
        "others is not known; set broker.rack"
    )


def _offline_log_dirs(result: PlanningResult) -> str:
    """Return a warning of brokers that get replicas, and of which a log dir is offline."""
    added = result.assignment.replicas[result.assignment.is_added]
    receiving = set(result.cluster.broker_ids[np.unique(added)].tolist())
    paths = grouped(
        (row["broker_id"], row["log_dir"])
        for row in result.snapshot.log_dirs.to_pylist()
        if row["error"] is not None and row["broker_id"] in receiving
    )
    if not paths:
        return ""
    names = "; ".join(f"broker {one} ({', '.join(paths[one])})" for one in sorted(paths))
    return (
        f"new replicas go to brokers that have lost a log dir: {names}: their other log dirs take "
        "all; mend the disk first, or leave these brokers out (--no-new-replicas-on)"
    )


def _fullest_log_dir(result: PlanningResult) -> str:
    """Return which log dir is the fullest when the new replicas are there, where brokers that get
    some have several.

    A broker takes the one with the fewest replicas, whatever its room (KIP-113). Dirs with 3 and 5
    replicas get the first three that arrive thus: 3 + 1, 4 + 1, then one of both with 5.
    """
    arriving = _arriving_sizes(result)
    dirs = grouped(
        (row["broker_id"], row)
        for row in result.snapshot.log_dirs.to_pylist()
        if row["broker_id"] in arriving and row["error"] is None and not row["is_cordoned"]
    )
    several = {broker_id: rows for broker_id, rows in dirs.items() if len(rows) > 1}
    if not several:
        return ""
    by_dir = result.snapshot.replicas.group_by(["broker_id", "log_dir"])
    counted = by_dir.aggregate([([], "count_all")]).to_pylist()
    held = Counter({(row["broker_id"], row["log_dir"]): row["count_all"] for row in counted})
    used: list[tuple[float, str]] = []
    for broker_id, rows in several.items():
        figures = [(row["total_bytes"], row["usable_bytes"]) for row in rows]
        if (broker_id, None) in held or any(None in figure for figure in figures):
            continue
        counts = [held[broker_id, row["log_dir"]] for row in rows]
        arrived = [0] * len(rows)
        for size_bytes in arriving[broker_id]:
            chosen = counts.index(min(counts))
            counts[chosen] += 1
            arrived[chosen] += size_bytes
        for disk in by_disk(figures):
            total, usable = figures[disk[0]]
            taken = total - usable + sum(arrived[position] for position in disk)
            name = f"{rows[disk[0]]['log_dir']} of broker {broker_id}"
            used.append((100 * taken / max(1, total), name))
    words = (
        f"{name_brokers(sorted(several))} {verb(len(several), 'has', 'have')} several log dirs: "
        "Kafka puts a new replica into the one with the fewest, whatever its room (KIP-113)"
    )
    if not used:
        return f"{words}; which will be the fullest is not known"
    percent, name = max(used)
    return f"{words}; the fullest of them will be {name}, with {percent:.0f} %"


def _arriving_sizes(result: PlanningResult) -> dict[int, list[int]]:
    """Return the sizes of the new replicas of each broker, in the order of the plan."""
    rows, columns = np.nonzero(result.assignment.is_added)
    brokers = result.cluster.broker_ids[result.assignment.replicas[rows, columns]].tolist()
    return grouped(zip(brokers, result.cluster.size_bytes[rows].tolist(), strict=True))


# -- because of the topics


def _without_topic_ids(result: PlanningResult) -> str:
    topic_ids = result.snapshot.topic_ids
    planned = np.unique(result.cluster.topic_numbers[result.assignment.is_in_plan])
    names = [result.cluster.topic_names[number] for number in planned]
    without = [name for name in names if topic_ids.get(name) == ""]
    if not without:
        return ""
    return (
        f"the brokers give no ids of {pluralize(len(without), 'topic')} (inter-broker protocol "
        "before 2.8): one that is deleted and made again under its name is not recognised as "
        "another, and the run would go on with it"
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
        is_copied,
        "{has} tiered storage: bytes, time and disks are of what is local, the rest stays remote",
    )


# -- how near to the goal


def _goal_not_reached(result: PlanningResult) -> str:
    """Return what the whole goal would take, where the plan stops before it."""
    _, bound = result.bounds
    if bound is None or not result.assignment.is_in_plan.any():
        return ""
    replicas = pluralize(bound.replicas, "replica")
    return (
        f"the plan does not reach the whole goal, which takes {replicas} and "
        f"{format_bytes(bound.bytes)} or more; its lower bound is for what it reaches"
    )


def _not_proven(result: PlanningResult) -> str:
    """Return how much better another plan could be, where the best is not proven."""
    bound = result.after.bound
    if bound is None or bound.is_reached or not result.assignment.is_in_plan.any():
        return ""
    or_less = ""
    if int(result.after.arriving.sum()) > bound.bytes:
        or_less = f", or copy less, but not less than {format_bytes(bound.bytes)}"
    return (
        "the search for fewer bytes stopped at its limit: another plan could be nearer to the "
        f"fair shares of bytes{or_less}; a scope of fewer topics may find it"
    )


# -- what will not be even


def _shares_by_disk(result: PlanningResult) -> str:
    """Return what the share of each broker is, where it is not the same for all."""
    cluster, sharing = result.cluster, result.roles.sharing
    if not result.goal.evens_replicas or result.has_equal_shares:
        return ""
    total = max(1, int(result.band.fair[sharing].sum()))
    brokers_by_share = grouped(
        (f"{result.band.fair[broker] / total:.1%}".replace("%", " %"), broker)
        for broker in np.flatnonzero(sharing).tolist()
    )
    shares = "; ".join(
        f"{result.list_brokers(np.array(brokers))} {share}{' each' if len(brokers) > 1 else ''}"
        for share, brokers in brokers_by_share.items()
    )
    if cluster.broker_weight.named:
        return f"shares of replicas and bytes are by broker_weight of the policy: {shares}"
    disks = cluster.disk_bytes[sharing]
    sizes = f"{format_bytes(int(disks.min()))} to {format_bytes(int(disks.max()))}"
    return f"shares of replicas and bytes are by disk, since disks differ ({sizes}): {shares}"


def _beside_giants(result: PlanningResult) -> str:
    """Return which band can be reached where a replica is larger than a fair share."""
    if not result.goal.evens_replicas:
        return ""
    percent = result.request.policy.bytes_tolerance_percent
    giants = result.by_broker(lambda part: shares_of_bytes(part.after, part.roles, percent).bottoms)
    holders, others = np.flatnonzero(giants), result.roles.sharing & (giants == 0)
    if not len(holders) or not others.any():
        return ""
    cluster, band = result.cluster, result.band
    is_held = np.isin(result.after.replicas, holders).any(axis=1)
    largest = int(np.where(is_held, cluster.size_bytes, -1).argmax())
    lowest, highest = int(band.lowest[others].min()), int(band.highest[others].max())
    return (
        f"{cluster.name(largest)} of {format_bytes(int(cluster.size_bytes[largest]))} is larger "
        f"than a fair share: {result.list_brokers(holders)} "
        f"{verb(len(holders), 'holds', 'hold')} such replicas, and the band that the others can "
        f"reach is {format_bytes(lowest)} to {format_bytes(highest)}"
    )


def _racks_not_repaired(result: PlanningResult) -> str:
    sentence = "{has} more replicas in one rack than needed, though the racks would allow better"
    if result.request.goal is not Goal.REBALANCE:
        sentence += "; goal rebalance can repair that"
    is_to_change = result.is_to_leave | result.cluster.is_moving
    return result.name_partitions((result.rack_moves_after > 0) & ~is_to_change, sentence)


def _racks_lost(result: PlanningResult) -> str:
    """Return a warning of partitions that the plan itself spreads less evenly over racks."""
    is_lost = result.rack_moves_after > result.rack_moves_before
    return result.name_partitions(
        is_lost & result.assignment.is_in_plan,
        "will be less even over racks than now, since no broker of another rack has room for a "
        "replica, is in scope, and may have it; add brokers or disk there, or widen the scope",
    )


def _uneven_at_best(result: PlanningResult) -> str:
    """Return what keeps replicas per broker from being more even, whatever moves."""
    best, ideal, sharing = result.best_counts, result.ideal_counts, result.roles.sharing
    if not result.goal.evens_replicas or not sharing.any():
        return ""
    cannot = f"replicas {result.per_broker} cannot"
    left_alone = int((~result.cluster.may_change).sum())
    if left_alone and result.is_less_even(best, ideal):
        what = "follow the shares"
        if result.has_equal_shares:
            what = (
                f"be more even than {as_range(best[sharing])}, where {as_range(ideal[sharing])} "
                "would be possible"
            )
        return (
            f"{cannot} {what}: "
            f"{pluralize(left_alone, 'partition')} must be left alone; exclude fewer topics, bring "
            "dead brokers back, or wait until reassignments are done"
        )
    spread, reached = int(np.ptp(ideal[sharing])), int(np.ptp(result.after.counts[sharing]))
    is_cut = bool(result.deferred.partitions) and result.is_to_leave.any()
    if spread <= 1 or reached < spread or not result.has_equal_shares or is_cut:
        return ""
    why = (
        "the racks have different numbers of brokers and each needs its part of every partition; "
        "one more broker in the smallest rack would help"
    )
    if result.has_sets:
        why = (
            "each broker set holds the replicas of its own topics; more brokers in the set that "
            "holds most would help"
        )
    return f"{cannot} be more even than {as_range(ideal[sharing])}: {why}"


def _unevenness(result: PlanningResult) -> list[str]:
    """Return what stays uneven, each with what keeps it so; all that a budget leaves is one
    warning.
    """
    uneven = [(what, why) for find, why in _MEASURES if (what := find(result))]
    if uneven and result.deferred.partitions and result.goal.evens_replicas:
        return [f"{'; '.join(what for what, _ in uneven)}: {_LEFT_BY_BUDGET}"]
    return [f"{what}{why(result)}" for what, why in uneven]


def _counts_uneven(result: PlanningResult) -> str:
    counts, best, sharing = result.after.counts, result.best_counts, result.roles.sharing
    if not result.goal.evens_replicas or not result.is_less_even(counts, best):
        return ""
    if result.deferred.partitions and result.is_to_leave.any():  # shares are those of the end
        return ""
    if result.is_less_even(result.ideal_counts, best):  # that is only with racks as they are
        best = result.ideal_counts
    if not result.has_equal_shares:
        farthest = int(np.where(sharing, np.abs(counts - best), -1).argmax())
        return (
            f"replicas {result.per_broker} will not follow the shares: broker "
            f"{result.cluster.broker_ids[farthest]} will hold {counts[farthest]}, where "
            f"{best[farthest]} is possible"
        )
    return (
        f"replicas {result.per_broker} will be {as_range(counts[sharing])}; "
        f"{as_range(best[sharing])} is possible"
    )


def _why_counts(result: PlanningResult) -> str:
    return (
        f", but not by the moves this goal allows{_limits_that_bind(result)}{result.or_rebalance}"
    )


def _bytes_outside(result: PlanningResult) -> str:
    if not result.goal.evens_replicas or not len(result.out_of_band):
        return ""
    brokers = result.list_brokers(result.out_of_band)
    percent = result.request.policy.bytes_tolerance_percent
    return f"{brokers} will hold bytes more than {percent} % away from the fair share"


def _why_bytes(result: PlanningResult) -> str:
    return _why_outside(result, result.out_of_band, result.cluster.size_bytes, result.band)


def _why_outside(result: PlanningResult, outside: Ints, weights: Ints, band: ByteBand) -> str:
    """Return which reasons bind: brokers are `outside` their band of bytes, or of rates.

    Each begins with a semicolon. Only what is proven is called the best there is.
    """
    cluster, after = result.cluster, result.after
    fixed = cluster.load(np.where(cluster.may_change[:, None], NOBODY, after.replicas), weights)
    has_fixed = (fixed > band.highest)[outside]
    is_giant = weights[:, None] > np.append(band.highest, UNBOUNDED)[after.replicas]
    has_giant = ~has_fixed & np.isin(outside, after.replicas[is_giant])
    reasons = []
    if has_fixed.any():
        left_alone = (
            "what is left alone there (excluded topics, reassignments, beside dead brokers) is "
            "more than that"
        )
        reasons.append((has_fixed, left_alone))
    if has_giant.any():
        is_there = is_giant & np.isin(after.replicas, outside[has_giant])
        largest = int(np.where(is_there.any(axis=1), weights, -1).argmax())
        name, holders = cluster.name(largest), after.replicas[largest]
        is_the_same = np.isin(outside[has_giant], holders).all()
        alone = f"{name} alone" if is_the_same else f"one replica alone (such as {name})"
        reasons.append((has_giant, f"{alone} is more than a fair share"))
    others = ~has_giant & ~has_fixed
    if others.any():
        reasons.append((others, _why_no_better(result, is_bytes=weights is cluster.size_bytes)))
    if len(reasons) == 1:
        return f"; {reasons[0][1]}"
    return "".join(f"; {result.list_brokers(outside[which])}: {why}" for which, why in reasons)


def _why_no_better(result: PlanningResult, *, is_bytes: bool) -> str:
    after, within = result.after, _limits_that_bind(result)
    is_proven = after.bound is not None and after.bound.is_reached
    if is_proven and is_bytes:
        return f"no plan for this goal does better{within}, as is proven{result.or_rebalance}"
    if after.has_budget_ended or not (is_proven or after.bound is None):
        return "the search ended by its budget; a scope of fewer topics may find better"
    how = "no move or exchange of two replicas that this goal allows takes a tenth off that"
    return f"{how}{within}{result.or_rebalance}"


def _limited(result: PlanningResult) -> dict[str, Flags]:
    """Return, by the name of a limit, the brokers that can get no more because of it."""
    after, cluster, roles = result.after, result.cluster, result.roles
    is_full = after.room < int(cluster.size_bytes.max(initial=0))
    return {
        "max_replicas_per_broker": roles.destinations & (after.counts >= cluster.max_counts),
        "no_new_replicas_on": roles.sharing & cluster.takes_none,
        "disk_limit_percent": roles.destinations & is_full,
    }


def _kept_from_more(result: PlanningResult, limit: str) -> Ints:
    """Return positions of the brokers that a limit keeps from their share."""
    after, is_resized = result.after, result.request.goal is Goal.REPLICATION_FACTOR
    has_few = (after.counts < result.best_counts) | (after.bytes_held < result.band.lowest)
    return np.flatnonzero(_limited(result)[limit] & (has_few | is_resized))


def _limits_that_bind(result: PlanningResult) -> str:
    """Return ` within broker_sets, ...`: all that keeps brokers from getting replicas."""
    left_out, scope = result.left_out, result.request.scope
    is_partial = bool(left_out and left_out.partition_count) or bool(
        result.cluster.is_excluded.any()
    )
    limits = {
        "broker_sets": result.has_sets,
        **{name: brokers.any() for name, brokers in _limited(result).items()},
        "the topics of the plan": is_partial,
        "the brokers of the plan": scope.names_brokers,
    }
    names = [name for name, binds in limits.items() if binds]
    return f" within {join_names(names)}" if names else ""


def _traffic_at_least(result: PlanningResult) -> str:
    """Return a note of rates of topics that are or may be compacted, by which this plan weighs:
    they are lower bounds.
    """
    count = int(result.cluster.is_rate_at_least.sum())
    if not result.evens_traffic or not count:
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


def _traffic_outside(result: PlanningResult) -> str:
    if not result.evens_traffic or not len(result.out_of_traffic_band):
        return ""
    percent = result.request.policy.bytes_in_tolerance_percent
    brokers = result.list_brokers(result.out_of_traffic_band)
    return (
        f"{brokers} will take in (as leader and as follower) more than {percent} % away from "
        "the fair share"
    )


def _why_traffic(result: PlanningResult) -> str:
    outside, rates = result.out_of_traffic_band, result.cluster.bytes_in
    return _why_outside(result, outside, rates, result.traffic_band)


def _full_disks(result: PlanningResult) -> str:
    """Return a warning of brokers that would get more if their fullest log dir allowed it."""
    full = _kept_from_more(result, "disk_limit_percent")
    if result.goal.keeps_order or not len(full):
        return ""
    percent = result.request.policy.disk_limit_percent
    return (
        f"{result.list_brokers(full)} can take no more: a log dir would be over {percent} % of its "
        "disk while old copies are still there; plan again once they are gone; more disk, fewer "
        "bytes (retention), or a higher disk_limit_percent would help too"
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
            f"{result.list_brokers(partly)} {verb(len(partly), 'has', 'have')} log dirs that are "
            "cordoned; which of the others new replicas go to is chosen by the broker"
        )
    return "; ".join(sentences)


def _led(result: PlanningResult) -> str:
    """Return how many partitions brokers lead, where that is uneven."""
    counts = result.leader_counts[result.roles.leading]
    if result.goal.keeps_order or np.ptp(counts) <= 1:
        return ""
    idle_count = int((counts == 0).sum())
    idle = ""
    if idle_count:
        idle = f"; {pluralize(idle_count, 'broker leads', 'brokers lead')} nothing"
    return f"leaders {result.per_broker} will be {as_range(counts)}{idle}"


def _why_leaders(result: PlanningResult) -> str:
    """Return what keeps leaders from being more even: the first that binds."""
    cluster, scope = result.cluster, result.request.scope
    elected = cluster.leader_load(result.assignment.replicas[:, 0])[result.roles.leading]
    if not result.goal.elects and np.ptp(elected) <= 1:
        return f"; {as_range(elected)} once preferred leaders are elected (goal leaders)"
    is_partial = bool(result.left_out and result.left_out.partition_count)
    is_partial |= scope.names_brokers or not cluster.is_requested.all()
    could = _could_lead_more_evenly(result)
    if result.deferred.partitions:
        return f": {_LEFT_BY_BUDGET}"
    if could and is_partial:
        return ": the scope of the request allows no better"
    if not could:
        return f": the replica sets allow no better{result.or_rebalance}"
    if result.request.goal is Goal.DEMOTE_BROKERS:
        return ": this goal leaves what other brokers lead; goal leaders may do more"
    return ": replicas out of sync, and partitions that are left alone, allow no better"


def _could_lead_more_evenly(result: PlanningResult) -> bool:
    """Return whether the same replicas could lead more evenly, whatever the scope of the request.

    They could where a broker that leads two more than another can pass leadership on to it, from
    broker to broker, each to a replica of the same partition (Harvey et al. 2003, "Semi-matchings
    for bipartite graphs and load balancing").
    """
    cluster, replicas = result.cluster, result.assignment.replicas
    is_leading = result.roles.leading | (cluster.is_live & ~cluster.is_in_scope)
    leaders, counts = result.assignment.leaders, result.leader_counts
    rows, columns = np.nonzero((replicas >= 0) & (leaders >= 0)[:, None])
    passes_on = np.zeros((len(counts), len(counts)), dtype=np.bool_)
    passes_on[leaders[rows], replicas[rows, columns]] = True
    passes_on &= is_leading & is_leading[:, None]
    is_reached = np.zeros_like(is_leading)
    for level in np.unique(counts[is_leading])[::-1].tolist():
        is_new = is_leading & (counts == level) & ~is_reached
        while is_new.any():
            is_reached |= is_new
            is_new = passes_on[is_new].any(axis=0) & ~is_reached
        if (counts[is_reached] <= level - 2).any():
            return True
    return False


def _leaders_outside(result: PlanningResult) -> str:
    """Return how many leaders will stand outside of the policy's `leader_racks`, and why."""
    cluster, preferences = result.cluster, result.request.policy.leader_racks
    unknown = sorted({*chain(*preferences.values())} - set(result.snapshot.racks.values()))
    sentences = [f"no broker is in a rack of leader_racks: {', '.join(unknown)}"] if unknown else []
    is_outside = cluster.is_outside(result.assignment.leaders)
    replicas = result.assignment.replicas
    has_one = ((replicas >= 0) & ~cluster.is_outside(replicas)).any(axis=1)
    if without := int((is_outside & ~has_one).sum()):
        stand = pluralize(without, "leader stands", "leaders stand")
        sentences.append(f"{stand} outside of leader_racks, without a replica there")
    if others := int((is_outside & has_one).sum()):
        stand = pluralize(others, "leader stands", "leaders stand")
        sentences.append(
            f"{stand} outside of leader_racks: this goal leaves them, leaders per broker would be "
            "less even, or no replica there may lead"
        )
    return "; ".join(sentences)


# -- what clients notice, and what comes later


def _min_insync_is_all(result: PlanningResult) -> str:
    cluster = result.cluster
    min_insync = cluster.min_insync_replicas[cluster.topic_numbers]
    has_none_to_spare = (min_insync >= result.after.replica_counts) & (min_insync > 1)
    return result.name_partitions(
        result.assignment.is_in_plan & has_none_to_spare,
        "of the plan need{s} as many in-sync replicas as {they} {has} (min.insync.replicas); one "
        "slow broker stops {their} producers; lower it, or raise the replication factor first",
    )


# -- what constraints leave undone or cost


def _unknown_brokers(result: PlanningResult) -> str:
    """Return a warning of brokers in constraints that are misspelt, or gone."""
    constraints = result.request.policy.constraints
    named = set(constraints.no_new_replicas_on)
    for broker_set in constraints.broker_sets:
        named.update(broker_set.broker_ids)
    unknown = sorted(named - set(result.snapshot.registered_broker_ids))
    if not unknown:
        return ""
    return (
        f"the constraints name {name_brokers(unknown)}, which "
        f"{verb(len(unknown), 'is', 'are')} not registered in the cluster"
    )


def _brokers_without_topics(result: PlanningResult) -> str:
    """Return a warning of brokers that get nothing, since no topic belongs to their broker set."""
    idle = np.flatnonzero(result.cluster.is_live & ~result.cluster.has_topics)
    if not result.goal.evens_replicas or not len(idle):
        return ""
    return (
        f"{result.list_brokers(idle)} {verb(len(idle), 'is', 'are')} in no broker set that has "
        f"topics and {verb(len(idle), 'gets', 'get')} no replica; add "
        f"{verb(len(idle), 'it', 'them')} to a set"
    )


def _topics_outside_sets(result: PlanningResult) -> str:
    """Return a warning of partitions with replicas outside of their broker set."""
    help_ = "" if result.request.goal is Goal.REBALANCE else "; goal rebalance moves them"
    sentence = "{has} replicas outside of the broker set of their topic" + help_
    return result.name_partitions(replicas_outside_sets(result.after) > 0, sentence)


def _no_new_replicas(result: PlanningResult) -> str:
    """Return a warning of brokers that a constraint keeps from getting replicas."""
    closed = _kept_from_more(result, "no_new_replicas_on")
    if not result.goal.moves_replicas or not len(closed):
        return ""
    return (
        f"{result.list_brokers(closed)} would get more, but no_new_replicas_on says that no new "
        f"replicas go there; {verb(len(closed), 'its', 'their')} share is on the others"
    )


def _full_brokers(result: PlanningResult) -> str:
    """Return a warning of brokers that hold as many replicas as they may, or more."""
    cluster, after = result.cluster, result.after
    max_count = result.request.policy.constraints.max_replicas_per_broker
    if max_count is None or not result.goal.moves_replicas:
        return ""
    is_left_alone = ~cluster.may_change[:, None]
    counts, left_alone = after.counts, cluster.load(np.where(is_left_alone, after.replicas, NOBODY))
    if (others := result.left_out) is not None:
        beside = others.load(others.replicas)
        counts, left_alone = counts + beside, left_alone + beside
    is_above, is_held_fast = cluster.is_live & (counts > max_count), left_alone > max_count
    is_bound = (counts == max_count) & (after.counts > result.before.counts)
    is_bound[_kept_from_more(result, "max_replicas_per_broker")] = True
    more = f"more replicas than max_replicas_per_broker {max_count}"
    kinds = (
        (
            result.roles.sharing & is_bound & ~is_above,
            ("holds", "hold"),
            f"{max_count} replicas, all that max_replicas_per_broker allows; more brokers in their "
            "racks would help",
        ),
        (
            is_above & is_held_fast,
            ("keeps", "keep"),
            f"{more}: so many are left alone there (topics excluded, under reassignment)",
        ),
        (
            is_above & ~is_held_fast & ~cluster.is_in_scope,
            ("keeps", "keep"),
            f"{more}: the scope of the request takes none away there",
        ),
        (
            is_above & ~is_held_fast & cluster.is_in_scope,
            ("keeps", "keep"),
            f"{more}: this goal moves no more of them, or no other broker may have them",
        ),
    )
    return "; ".join(
        f"{result.list_brokers(np.flatnonzero(are))} {verb(int(are.sum()), *verbs)} {what}"
        for are, verbs, what in kinds
        if are.any()
    )


WARNINGS: Final[tuple[Callable[[PlanningResult], str], ...]] = (
    lambda result: result.goal.undone(result),
    PlanningResult.list_non_empty,
    _under_reassignment,
    _without_leader,
    _nothing_repaired,
    _on_dead_brokers,
    PlanningResult.list_left_to_repair,
    _few_replicas,
    _unknown_sizes,
    _unknown_room,
    _unknown_racks,
    _offline_log_dirs,
    _without_topic_ids,
    _racks_not_repaired,
    _racks_lost,
    _uneven_at_best,
    _traffic_unknown,
    _full_disks,
    _cordoned_log_dirs,
    _leaders_outside,
    _min_insync_is_all,
    _goal_not_reached,
    _unknown_brokers,
    _brokers_without_topics,
    _topics_outside_sets,
    _no_new_replicas,
    _full_brokers,
)

_MEASURES: Final = (
    (_counts_uneven, _why_counts),
    (_led, _why_leaders),
    (_bytes_outside, _why_bytes),
    (_traffic_outside, _why_traffic),
)

NOTES: Final[tuple[Callable[[PlanningResult], str], ...]] = (
    _excluded,
    _shares_by_disk,
    _beside_giants,
    _fullest_log_dir,
    _traffic_at_least,
    _coordinators,
    _tiered,
    _not_proven,
)
