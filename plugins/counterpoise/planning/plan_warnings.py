"""Warnings and notes: what the person who approves should know, with a count and some names.

    warnings_of(result)     # ("1 partition is being reassigned already and left alone: a-0",)
    notes_of(result)        # ("6 partitions of __consumer_offsets are touched: ...",)

A warning asks for attention: something is wrong, unknown, or not reached. A note tells what healthy
clusters have too, or what the request asked for. Each is a small function from a result to a
sentence, "" where it does not apply; `WARNINGS` and `NOTES` have all of them, in the order in which
they are shown.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np

from counterpoise.model.columns import NOBODY
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import by_disk
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.evenness import (
    EVENNESS_WARNINGS,
    beside_giants,
    replicas_outside_sets,
    shares_by_disk,
    traffic_at_least,
)
from counterpoise.planning.planning_result import PlanningResult
from counterpoise.units import format_bytes

_USUAL_REPLICATION_FACTOR = 3


def warnings_of(result: PlanningResult) -> tuple[str, ...]:
    """Return all sentences that apply.

    An imported plan is as somebody wanted it: nothing is said of what it reaches.
    """
    is_imported = result.request.goal is Goal.IMPORTED
    warnings = (_offline_log_dirs, _without_topic_ids) if is_imported else WARNINGS
    return tuple(filter(None, (warning(result) for warning in warnings)))


def notes_of(result: PlanningResult) -> tuple[str, ...]:
    """Return all notes that apply; none of an imported plan."""
    if result.request.goal is Goal.IMPORTED:
        return ()
    return tuple(filter(None, (note(result) for note in NOTES)))


# -- what the snapshot has, or lacks


def _under_reassignment(result: PlanningResult) -> str:
    sentence = "{is} being reassigned already and left alone"
    return result.name_partitions(result.cluster.is_moving, sentence)


def _without_leader(result: PlanningResult) -> str:
    cluster = result.cluster
    if ((cluster.leaders < 0) & ~cluster.is_leaderless).any():
        return (
            "the snapshot has no leaders; each partition's first replica is taken to be its "
            "leader; take a new snapshot, or give the leaders in the cluster document"
        )
    sentence = "{has} no leader; bring one of {their} brokers back"
    return result.name_partitions(cluster.is_leaderless, sentence)


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
    it = verb(len(dead), "it", "them")
    is_dead = np.append(~result.cluster.is_live, False)
    has_dead = is_dead[result.after.replicas].any(axis=1)
    can_repair = (has_dead & ~result.cluster.is_leaderless).any()
    is_other_goal = result.request.goal is not Goal.REPAIR
    help_ = ", or let goal repair replace them" if is_other_goal and can_repair else ""
    return f"{replicas} on {result.list_brokers(dead)}, not live now; bring {it} back{help_}"


def _nothing_repaired(result: PlanningResult) -> str:
    """Return why a plan for repair has nothing to repair, where it only changes leaders."""
    repairs = result.assignment.is_added.any() or not result.assignment.is_in_plan.any()
    if result.request.goal is not Goal.REPAIR or repairs:
        return ""
    why = result.goal.reason(result).removeprefix("already done: ")
    return f"nothing is repaired, only leaders change: {why}"


def _few_replicas(result: PlanningResult) -> str:
    return result.name_partitions(
        result.after.replica_counts < _USUAL_REPLICATION_FACTOR,
        "{has} fewer than 3 replicas; the loss of one broker may stop {them}; goal "
        "replication-factor adds some",
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
    return (
        "the search for fewer bytes stopped at its limit: another plan could be nearer to the "
        f"fair shares of bytes, or copy less, but not less than {format_bytes(bound.bytes)}; "
        "a scope of fewer topics may find it"
    )


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
    may_get_none = result.roles.sharing & result.cluster.takes_none
    is_below = result.after.counts < result.best_counts
    closed = np.flatnonzero(may_get_none & is_below)
    if not result.goal.moves_replicas or not len(closed):
        return ""
    return (
        f"{result.list_brokers(closed)} would get more, but no_new_replicas_on says that no new "
        f"replicas go there; {verb(len(closed), 'its', 'their')} share is on the others"
    )


def _full_brokers(result: PlanningResult) -> str:
    """Return a warning of brokers that hold as many replicas as they may, or more."""
    cluster, counts, best = result.cluster, result.after.counts, result.best_counts
    max_count = result.request.policy.constraints.max_replicas_per_broker
    if max_count is None or not result.goal.moves_replicas:
        return ""
    is_left_alone = ~cluster.may_change[:, None]
    left_alone = cluster.load(np.where(is_left_alone, result.after.replicas, NOBODY))
    if (others := result.left_out) is not None:
        counts = counts + others.load(others.replicas)
        best = best + others.load(others.replicas)
        left_alone = left_alone + others.load(others.replicas)
    is_grown = result.after.counts > result.before.counts
    is_bound = (counts == max_count) & ((best > max_count) | is_grown)
    above = np.flatnonzero(cluster.is_live & (counts > max_count))
    bound = np.flatnonzero(result.roles.sharing & is_bound)
    sentences = []
    if len(bound):
        sentences.append(
            f"{result.list_brokers(bound)} {verb(len(bound), 'holds', 'hold')} {max_count} "
            "replicas, all that max_replicas_per_broker allows; more brokers in their racks would "
            "help"
        )
    is_held_fast = left_alone[above] > max_count
    reasons = {
        "so many are left alone there (topics excluded, under reassignment)": above[is_held_fast],
        "this goal moves no more of them, or no other broker may have them": above[~is_held_fast],
    }
    for reason, brokers in reasons.items():
        if len(brokers):
            sentences.append(
                f"{result.list_brokers(brokers)} {verb(len(brokers), 'keeps', 'keep')} more "
                f"replicas than max_replicas_per_broker {max_count}: {reason}"
            )
    return "; ".join(sentences)


WARNINGS: Final[tuple[Callable[[PlanningResult], str], ...]] = (
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
    *EVENNESS_WARNINGS,
    _min_insync_is_all,
    _goal_not_reached,
    lambda result: result.goal.undone(result),
    _unknown_brokers,
    _brokers_without_topics,
    _topics_outside_sets,
    _no_new_replicas,
    _full_brokers,
)

NOTES: Final[tuple[Callable[[PlanningResult], str], ...]] = (
    _excluded,
    shares_by_disk,
    beside_giants,
    _fullest_log_dir,
    traffic_at_least,
    _coordinators,
    _tiered,
    _not_proven,
)
