"""What constraints leave undone or cost, for the person who approves; each says what would help.

topics_outside_sets(result)    # "3 partitions (a-0, ...) have replicas outside of ..."
"""

import numpy as np

from counterpoise.model.request import Goal
from counterpoise.model.words import list_brokers, name_brokers, pluralize, verb
from counterpoise.planning.explanation.minimum_gain import topic_leaders_lacking
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.units import format_rate


def unknown_brokers(result: PlanningResult) -> str:
    """Name brokers of constraints that are not registered: a slip of the pen, or gone."""
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


def topics_outside_sets(result: PlanningResult) -> str:
    """Name partitions with a replica that is not on the brokers of their set."""
    help_ = "" if result.request.goal is Goal.REBALANCE else "; goal rebalance moves them"
    why = f"outside of the broker set of their topic{help_}"
    return result.name_partitions(
        np.flatnonzero(result.after.outside_sets),
        f"has replicas {why}",
        f"have replicas {why}",
    )


def no_new_replicas(result: PlanningResult) -> str:
    """Name brokers that would have got replicas if no constraint were against it."""
    cluster = result.cluster
    is_below = (result.after.counts < result.best_counts) & result.sharing & cluster.takes_none
    closed = np.flatnonzero(is_below)
    if not result.goal.moves_replicas or not len(closed):
        return ""
    return (
        f"{_brokers(result, closed)} would get more, but no_new_replicas_on says that no new "
        f"replicas go there; {verb(len(closed), 'its', 'their')} share is on the others"
    )


def full_brokers(result: PlanningResult) -> str:
    """Name brokers that hold as many replicas as they may, or more."""
    cluster, counts, best = result.cluster, result.after.counts, result.best_counts
    max_count = result.request.policy.constraints.max_replicas_per_broker
    if max_count is None or not result.goal.moves_replicas:
        return ""
    if (others := result.left_out) is not None:
        counts = counts + others.load(others.replicas)
        best = best + others.load(others.replicas)
    is_grown = result.after.counts > result.before.counts
    is_bound = (counts == max_count) & ((best > max_count) | is_grown)
    above = np.flatnonzero(cluster.is_live & (counts > max_count))
    bound = np.flatnonzero(result.sharing & is_bound)
    sentences = []
    if len(bound):
        sentences.append(
            f"{_brokers(result, bound)} {verb(len(bound), 'holds', 'hold')} {max_count} replicas, "
            "all that max_replicas_per_broker allows; more brokers in their racks would help"
        )
    if len(above):
        sentences.append(
            f"{_brokers(result, above)} {verb(len(above), 'keeps', 'keep')} more replicas than "
            f"max_replicas_per_broker {max_count}: this goal moves no more of them, or no other "
            "broker may have them"
        )
    return "; ".join(sentences)


def few_topic_leaders(result: PlanningResult) -> str:
    lacking = sum(
        topic_leaders_lacking(part, part.assignment.leaders) for part in result.results_by_part
    )
    if not lacking:
        return ""
    help_ = "" if result.request.goal is Goal.REBALANCE else "; goal rebalance may do more"
    return (
        f"brokers lack {pluralize(lacking, 'leader')} of topics that min_topic_leaders names: "
        f"their replica sets allow no more{help_}"
    )


def leaders_above_limit(result: PlanningResult) -> str:
    """Name brokers whose leaders take in more than the limit allows."""
    limit = result.request.policy.constraints.max_leader_bytes_in_per_second
    cluster = result.cluster
    if limit is None:
        return ""
    if not cluster.is_rate_known.any():
        return (
            "no rate of bytes-in is known, so that max_leader_bytes_in cannot be kept; take two "
            "snapshots, so that rates are known"
        )
    led = cluster.leader_load(result.assignment.leaders, cluster.bytes_in)
    if (others := result.left_out) is not None:
        led = led + others.leader_load(others.leaders_now, others.bytes_in)
    above = np.flatnonzero(cluster.is_live & (led > limit))
    if not len(above):
        return ""
    highest = int(led[above].max())
    return (
        f"{_brokers(result, above)} will lead more than {format_rate(limit)} of bytes-in (up to "
        f"{format_rate(highest)}): no leaders were found that keep below the limit; more "
        "partitions, more brokers, or a wider scope would help"
    )


def cordoned_log_dirs(result: PlanningResult) -> str:
    """Name brokers that take no new replicas, and those that choose a log dir that does."""
    cluster = result.cluster
    if not result.goal.moves_replicas:
        return ""
    has_cordoned = cluster.is_live & cluster.is_in_scope & (cluster.cordoned_dirs > 0)
    closed = np.flatnonzero(has_cordoned & ~cluster.takes_replicas)
    partly = np.flatnonzero(has_cordoned & cluster.takes_replicas & result.roles.destinations)
    sentences = []
    if len(closed):
        sentences.append(
            f"{_brokers(result, closed)} can take no new replicas: all log dirs are cordoned; "
            "delete cordoned.log.dirs when the drain has ended"
        )
    if len(partly):
        sentences.append(
            f"{_brokers(result, partly)} have log dirs that are cordoned; which of the others new "
            "replicas go to is chosen by the broker"
        )
    return "; ".join(sentences)


def cordons(result: PlanningResult) -> str:
    request = result.request
    if not request.cordons_brokers:
        return ""
    brokers = list_brokers(sorted(request.broker_ids))
    return f"the log dirs of {brokers} are cordoned while the plan runs: no new topic goes there"


def _brokers(result: PlanningResult, positions: np.ndarray) -> str:
    return list_brokers(result.cluster.broker_ids[positions].tolist())
