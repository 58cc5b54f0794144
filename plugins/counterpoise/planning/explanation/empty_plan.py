"""Why an empty plan is empty: an answer, not an error.

    reason_for_nothing(situation)    # "already balanced: leaders 4 to 5, replicas 12 to 13 per broker, ..."

It says one of: already done, already balanced, or that the goal cannot be reached, why, and what
would help.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.request import Goal
from counterpoise.planning.explanation.planning_result import PlanningResult, is_worse
from counterpoise.planning.explanation.shortfalls import (
    left_to_repair,
    not_repaired,
    not_resized,
    still_led,
)
from counterpoise.planning.wording import named, partition_names
from counterpoise.units import format_bytes


def reason_for_nothing(planning_result: PlanningResult) -> str:
    """One sentence for the person who asked."""
    goal = planning_result.request.goal
    if not planning_result.cluster.partition_count:
        return "already balanced: the cluster has no partitions"
    if planning_result.left.partitions:
        return _too_small_a_budget(planning_result)
    if goal is Goal.LEADERS:
        return f"already balanced: each broker leads {_led(planning_result)} partitions, as even as the replica sets allow"
    if goal is Goal.REMOVE_BROKERS:
        what = "nothing is left to move off" + _in_scope(planning_result)
        return f"already done: {what}, and leaders are as even as they can be ({_led(planning_result)})"
    if goal is Goal.DEMOTE_BROKERS:
        return _not_demoted(planning_result)
    if goal is Goal.REPAIR:
        return _not_repaired(planning_result)
    if goal is Goal.REPLICATION_FACTOR:
        return _not_resized(planning_result)
    return _not_evened(planning_result)


def _too_small_a_budget(planning_result: PlanningResult) -> str:
    budget, left = planning_result.request.budget, planning_result.left
    if budget.max_bytes is None:
        return f"cannot, because the budget of {budget.max_partitions} partitions leaves nothing that helps"
    copies = f"{left.partitions} partition(s) with {format_bytes(left.bytes)} are left"
    return (
        f"cannot, because no copy that helps is as small as the budget of {format_bytes(budget.max_bytes)}: {copies}; "
        "give --max-bytes more"
    )


def _not_demoted(planning_result: PlanningResult) -> str:
    brokers = named(sorted(planning_result.request.broker_ids))
    kept = still_led(planning_result)
    if not len(kept):
        leads = (
            "leads nothing and is"
            if len(planning_result.request.broker_ids) == 1
            else "lead nothing and are"
        )
        return f"already done: {brokers} {leads} preferred nowhere{_in_scope(planning_result)}"
    count = f"{len(kept)} partition(s) that {'it leads' if len(planning_result.request.broker_ids) == 1 else 'they lead'}"
    return (
        f"cannot, because no other live replica may lead the {count} ({partition_names(planning_result.cluster, kept)}); "
        "raise their replication factor, bring brokers back, or widen the scope"
    )


def _not_repaired(planning_result: PlanningResult) -> str:
    left = not_repaired(planning_result)
    if not len(left.partitions):
        whom = (
            named(sorted(planning_result.request.broker_ids))
            if planning_result.request.broker_ids
            else "a broker that is dead"
        )
        return f"already done: no replica is on {whom}{_in_scope(planning_result)}"
    return f"cannot, because {left.sentence}"


def _not_resized(planning_result: PlanningResult) -> str:
    factor = planning_result.request.replication_factor
    sentences = [
        left.sentence
        for left in (not_resized(planning_result), left_to_repair(planning_result))
        if left.sentence
    ]
    if not sentences:
        may_change = int(planning_result.cluster.may_change.sum())
        return f"already done: each of the {may_change} partitions that may change has {factor} replica(s)"
    return f"cannot, because {'; '.join(sentences)}"


def _not_evened(planning_result: PlanningResult) -> str:
    counts, best = (
        planning_result.after.counts[planning_result.sharing],
        planning_result.best_counts[planning_result.sharing],
    )
    percent = planning_result.request.policy.bytes_tolerance_percent
    facts = f"leaders {_led(planning_result)} and replicas {_span(counts)} per broker"
    if is_worse(counts, best) or len(planning_result.out_of_band):
        if planning_result.request.goal is Goal.REBALANCE:
            helps = "more partitions, other sizes, brokers in the racks that lack some, or a wider scope would help"
        else:
            helps = "goal rebalance may do more, since it moves replicas between all brokers"
        return f"cannot, because no move that this goal allows makes the cluster more even: {facts}; {helps}"
    return f"already balanced: {facts}, bytes within {percent} % of the fair share"


def _in_scope(planning_result: PlanningResult) -> str:
    scope = planning_result.request.scope
    return " in the scope of this plan" if scope.topics or scope.excluded_topics else ""


def _led(planning_result: PlanningResult) -> str:
    return _span(planning_result.led[planning_result.roles.leading])


def _span(values: Ints) -> str:
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"
