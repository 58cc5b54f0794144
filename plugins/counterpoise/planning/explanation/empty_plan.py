"""Why an empty plan is empty: an answer, not an error.

    reason_for_empty_plan(result)    # "already balanced: leaders 4 to 5 and replicas 12 to 13 ..."

It says one of: already done, already balanced, or that the goal cannot be reached, why, and what
would help.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.explanation.planning_result import PlanningResult, is_worse
from counterpoise.planning.explanation.shortfalls import (
    left_to_repair,
    not_repaired,
    not_resized,
    still_led,
)
from counterpoise.planning.wording import named, partition_names
from counterpoise.units import format_bytes


def reason_for_empty_plan(result: PlanningResult) -> str:
    """Return one sentence for the person who requested the plan."""
    if not result.cluster.partition_count:
        return "already balanced: the cluster has no partitions"
    if result.left.partitions:
        return _budget_too_small(result)
    match result.request.goal:
        case Goal.LEADERS:
            return (
                f"already balanced: each broker leads {_leader_range(result)} partitions, "
                "as even as the replica sets allow"
            )
        case Goal.REMOVE_BROKERS:
            return (
                f"already done: no replica is left on these brokers{_in_scope(result)}, and "
                f"leaders are as even as they can be ({_leader_range(result)})"
            )
        case Goal.DEMOTE_BROKERS:
            return _not_demoted(result)
        case Goal.REPAIR:
            return _not_repaired(result)
        case Goal.REPLICATION_FACTOR:
            return _not_resized(result)
        case _:
            return _not_evened(result)


def _budget_too_small(result: PlanningResult) -> str:
    budget, left = result.request.budget, result.left
    if budget.max_bytes is None:
        partitions = pluralize(budget.max_partitions or 0, "partition")
        return f"cannot, because nothing that helps fits into the budget of {partitions}"
    return (
        f"cannot, because no copy that helps is as small as the budget of "
        f"{format_bytes(budget.max_bytes)}: {pluralize(left.partitions, 'partition')} with "
        f"{format_bytes(left.bytes)} to copy are left; give more with --max-bytes"
    )


def _not_demoted(result: PlanningResult) -> str:
    broker_ids = sorted(result.request.broker_ids)
    is_one = len(broker_ids) == 1
    partitions = still_led(result)
    if not len(partitions):
        leads = "leads no partition and is" if is_one else "lead no partition and are"
        return (
            f"already done: {named(broker_ids)} {leads} preferred leader of none{_in_scope(result)}"
        )
    count = pluralize(len(partitions), "partition")
    names = partition_names(result.cluster, partitions)
    return (
        f"cannot, because no other live replica may lead the {count} that "
        f"{'it leads' if is_one else 'they lead'} ({names}); "
        "raise their replication factor, bring brokers back, or widen the scope"
    )


def _not_repaired(result: PlanningResult) -> str:
    shortfall = not_repaired(result)
    if shortfall.sentence:
        return f"cannot, because {shortfall.sentence}"
    broker_ids = sorted(result.request.broker_ids)
    brokers = named(broker_ids) if broker_ids else "a broker that is dead"
    return f"already done: no replica is on {brokers}{_in_scope(result)}"


def _not_resized(result: PlanningResult) -> str:
    shortfalls = not_resized(result), left_to_repair(result)
    sentences = [shortfall.sentence for shortfall in shortfalls if shortfall.sentence]
    if sentences:
        return f"cannot, because {'; '.join(sentences)}"
    replicas = pluralize(result.request.replication_factor or 0, "replica")
    may_change = int(result.cluster.may_change.sum())
    return f"already done: each of the {may_change} partitions that may change has {replicas}"


def _not_evened(result: PlanningResult) -> str:
    counts, best = result.after.counts[result.sharing], result.best_counts[result.sharing]
    facts = f"leaders {_leader_range(result)} and replicas {_range(counts)} per broker"
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


def _leader_range(result: PlanningResult) -> str:
    return _range(result.leader_counts[result.roles.leading])


def _range(values: Ints) -> str:
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"
