"""Reasons: why an empty plan is empty, and what a goal had to leave undone.

    reason_for_empty_plan(result)    # "already balanced: leaders 4 to 5 and replicas 12 to 13 ..."
    not_repaired(result)             # "2 partitions (a-0, a-1) are without a leader to copy ..."

An empty plan is an answer, not an error: already done, already balanced, or that the goal cannot be
reached, why, and what would help. What a goal leaves undone is said with the partitions and why,
in warnings too.
"""

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.explanation.planning_result import PlanningResult, is_worse
from counterpoise.units import format_bytes

_IS_MOVING = "under reassignment; wait until it is done, or cancel it"
_IS_LEADERLESS = "without a leader to copy from; bring a broker back"
_HAS_NO_DESTINATION = (
    "for which no other live broker in scope has room; add brokers or disk, widen the scope, or "
    "raise disk_limit_percent"
)
_HAS_TOO_FEW_IN_SCOPE = "with too few replicas on brokers in scope; widen it"
_IS_LEFT_TO_REPAIR = "left to goal repair: with a replica on a dead broker no copy could end"


def reason_for_empty_plan(result: PlanningResult) -> str:
    """Return one sentence for the person who requested the plan."""
    if result.request.goal is Goal.IMPORTED:
        return "every partition is already where the reassignment wants it"
    if not result.cluster.partition_count:
        return "already balanced: the cluster has no partitions"
    if result.deferred.partitions:
        return _budget_too_small(result)
    match result.request.goal:
        case Goal.LEADERS:
            return (
                f"already balanced: each broker leads {_leaders_per_broker(result)} partitions, "
                "as even as the replica sets allow"
            )
        case Goal.REMOVE_BROKERS:
            return (
                f"already done: no replica is left on these brokers{_in_scope(result)}, and "
                f"leaders are as even as they can be ({_leaders_per_broker(result)})"
            )
        case Goal.DEMOTE_BROKERS:
            return _why_not_demoted(result)
        case Goal.REPAIR:
            return _why_not_repaired(result)
        case Goal.REPLICATION_FACTOR:
            return _why_not_resized(result)
        case _:
            return _why_not_evened(result)


def _budget_too_small(result: PlanningResult) -> str:
    budget, deferred = result.request.budget, result.deferred
    if budget.max_bytes is None:
        partitions = pluralize(budget.max_partitions or 0, "partition")
        return f"cannot, because nothing that helps fits into the budget of {partitions}"
    return (
        f"cannot, because no copy that helps is as small as the budget of "
        f"{format_bytes(budget.max_bytes)}: {pluralize(deferred.partitions, 'partition')} with "
        f"{format_bytes(deferred.bytes)} to copy are left; give more with --max-bytes"
    )


def _why_not_demoted(result: PlanningResult) -> str:
    brokers = name_brokers(sorted(result.request.broker_ids))
    broker_count = len(result.request.broker_ids)
    partitions = _still_led(result)
    if not len(partitions):
        lead = verb(broker_count, "leads no partition and is", "lead no partition and are")
        return f"already done: {brokers} {lead} preferred leader of none{_in_scope(result)}"
    count = pluralize(len(partitions), "partition")
    return (
        f"cannot, because no other live replica may lead the {count} that "
        f"{verb(broker_count, 'it leads', 'they lead')} ({result.cluster.names(partitions)}); "
        "raise their replication factor, bring brokers back, or widen the scope"
    )


def _why_not_repaired(result: PlanningResult) -> str:
    if undone := not_repaired(result):
        return f"cannot, because {undone}"
    broker_ids = sorted(result.request.broker_ids)
    brokers = name_brokers(broker_ids) if broker_ids else "a broker that is dead"
    return f"already done: no replica is on {brokers}{_in_scope(result)}"


def _why_not_resized(result: PlanningResult) -> str:
    undone = [sentence for sentence in (not_resized(result), left_to_repair(result)) if sentence]
    if undone:
        return f"cannot, because {'; '.join(undone)}"
    replicas = pluralize(result.request.replication_factor or 0, "replica")
    may_change = int(result.cluster.may_change.sum())
    return f"already done: each of the {may_change} partitions that may change has {replicas}"


def _why_not_evened(result: PlanningResult) -> str:
    counts, best = result.after.counts[result.sharing], result.best_counts[result.sharing]
    facts = f"leaders {_leaders_per_broker(result)} and replicas {_range(counts)} per broker"
    if not is_worse(counts, best) and not len(result.out_of_band):
        percent = result.request.policy.bytes_tolerance_percent
        return f"already balanced: {facts}, bytes within {percent} % of the fair share"
    help_ = "goal rebalance may do more, since it moves replicas between all brokers"
    if result.request.goal is Goal.REBALANCE:
        help_ = (
            "more partitions, other sizes, brokers in the racks that lack some, or a wider scope "
            "would help"
        )
    return (
        f"cannot, because no move that this goal allows makes the cluster more even: {facts}; "
        f"{help_}"
    )


def _in_scope(result: PlanningResult) -> str:
    scope = result.request.scope
    return " in the scope of this plan" if scope.topics or scope.excluded_topics else ""


def _leaders_per_broker(result: PlanningResult) -> str:
    return _range(result.leader_counts[result.roles.leading])


def _range(values: Ints) -> str:
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"


# -- what the goal leaves undone


def _still_led(result: PlanningResult) -> Ints:
    """Return partitions that a demoted broker leads, or is first in, in the end.

    No other replica may lead them.
    """
    assignment = result.assignment
    is_demoted = result.roles.is_demoted
    leads, is_first = is_demoted[assignment.leaders], is_demoted[assignment.replicas[:, 0]]
    return np.flatnonzero(result.cluster.may_reorder & (leads | is_first))


def not_repaired(result: PlanningResult) -> str:
    """Return partitions in scope that keep a replica on a dead broker which the goal is about."""
    cluster = result.cluster
    is_on_dead = np.append(result.roles.leaving, False)[result.after.replicas].any(axis=1)
    is_concerned = is_on_dead & ~cluster.is_excluded
    is_leaderless = cluster.is_leaderless & ~cluster.is_moving
    return _undone(
        result,
        (is_concerned & cluster.is_moving, _IS_MOVING),
        (is_concerned & is_leaderless, _IS_LEADERLESS),
        (is_concerned & cluster.may_change, _HAS_NO_DESTINATION),
    )


def not_resized(result: PlanningResult) -> str:
    """Return partitions in scope that do not have the wanted number of replicas."""
    cluster, counts = result.cluster, result.after.replica_counts
    factor = result.request.replication_factor or 0
    is_left = (counts != factor) & ~cluster.is_excluded & ~cluster.is_left_to_repair
    is_leaderless = cluster.is_leaderless & ~cluster.is_moving
    return _undone(
        result,
        (is_left & cluster.is_moving, _IS_MOVING),
        (is_left & is_leaderless, _IS_LEADERLESS),
        (is_left & cluster.may_change & (counts < factor), _HAS_NO_DESTINATION),
        (is_left & cluster.may_change & (counts > factor), _HAS_TOO_FEW_IN_SCOPE),
    )


def left_to_repair(result: PlanningResult) -> str:
    """Return partitions that stay as they are because a replica is on a dead broker.

    The goal is not about that broker.
    """
    return _undone(result, (result.cluster.is_left_to_repair, _IS_LEFT_TO_REPAIR))


def _undone(result: PlanningResult, *kinds: tuple[Flags, str]) -> str:
    """Return which partitions are left and why, for each kind that has any; "" when none has."""
    sentences = []
    for is_concerned, why in kinds:
        partitions = np.flatnonzero(is_concerned)
        if len(partitions):
            names = result.cluster.names(partitions)
            singular, plural = f"partition ({names}) is {why}", f"partitions ({names}) are {why}"
            sentences.append(pluralize(len(partitions), singular, plural))
    return "; ".join(sentences)
