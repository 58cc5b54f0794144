"""Why an empty plan is empty: an answer, not an error.

    reason_for_nothing(situation)    # "already balanced: leaders 4 to 5, replicas 12 to 13 per broker, ..."

It says one of: already done, already balanced, or that the goal cannot be reached, why, and what would help.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.request import Goal
from counterpoise.planning.telling.shortfalls import left_to_repair, not_repaired, not_resized, still_led
from counterpoise.planning.telling.situation import Situation, is_worse
from counterpoise.planning.wording import named, partition_names
from counterpoise.units import format_bytes


def reason_for_nothing(situation: Situation) -> str:
    """One sentence for the person who asked."""
    goal = situation.request.goal
    if not situation.cluster.partition_count:
        return "already balanced: the cluster has no partitions"
    if situation.left.partitions:
        return _too_small_a_budget(situation)
    if goal is Goal.LEADERS:
        return f"already balanced: each broker leads {_led(situation)} partitions, as even as the replica sets allow"
    if goal is Goal.REMOVE_BROKERS:
        what = "nothing is left to move off" + _in_scope(situation)
        return f"already done: {what}, and leaders are as even as they can be ({_led(situation)})"
    if goal is Goal.DEMOTE_BROKERS:
        return _not_demoted(situation)
    if goal is Goal.REPAIR:
        return _not_repaired(situation)
    if goal is Goal.REPLICATION_FACTOR:
        return _not_resized(situation)
    return _not_evened(situation)


def _too_small_a_budget(situation: Situation) -> str:
    budget, left = situation.request.budget, situation.left
    if budget.max_bytes is None:
        return f"cannot, because the budget of {budget.max_partitions} partitions leaves nothing that helps"
    copies = f"{left.partitions} partition(s) with {format_bytes(left.bytes)} are left"
    return (
        f"cannot, because no copy that helps is as small as the budget of {format_bytes(budget.max_bytes)}: {copies}; "
        "give --max-bytes more"
    )


def _not_demoted(situation: Situation) -> str:
    brokers = named(sorted(situation.request.broker_ids))
    kept = still_led(situation)
    if not len(kept):
        leads = "leads nothing and is" if len(situation.request.broker_ids) == 1 else "lead nothing and are"
        return f"already done: {brokers} {leads} preferred nowhere{_in_scope(situation)}"
    count = f"{len(kept)} partition(s) that {'it leads' if len(situation.request.broker_ids) == 1 else 'they lead'}"
    return (
        f"cannot, because no other live replica may lead the {count} ({partition_names(situation.cluster, kept)}); "
        "raise their replication factor, bring brokers back, or widen the scope"
    )


def _not_repaired(situation: Situation) -> str:
    left = not_repaired(situation)
    if not len(left.partitions):
        whom = named(sorted(situation.request.broker_ids)) if situation.request.broker_ids else "a broker that is dead"
        return f"already done: no replica is on {whom}{_in_scope(situation)}"
    return f"cannot, because {left.sentence}"


def _not_resized(situation: Situation) -> str:
    factor = situation.request.replication_factor
    sentences = [left.sentence for left in (not_resized(situation), left_to_repair(situation)) if left.sentence]
    if not sentences:
        may_change = int(situation.cluster.may_change.sum())
        return f"already done: each of the {may_change} partitions that may change has {factor} replica(s)"
    return f"cannot, because {'; '.join(sentences)}"


def _not_evened(situation: Situation) -> str:
    counts, best = situation.after.counts[situation.sharing], situation.best_counts[situation.sharing]
    percent = situation.request.policy.bytes_tolerance_percent
    facts = f"leaders {_led(situation)} and replicas {_span(counts)} per broker"
    if is_worse(counts, best) or len(situation.out_of_band):
        if situation.request.goal is Goal.REBALANCE:
            helps = "more partitions, other sizes, brokers in the racks that lack some, or a wider scope would help"
        else:
            helps = "goal rebalance may do more, since it moves replicas between all brokers"
        return f"cannot, because no move that this goal allows makes the cluster more even: {facts}; {helps}"
    return f"already balanced: {facts}, bytes within {percent} % of the fair share"


def _in_scope(situation: Situation) -> str:
    scope = situation.request.scope
    return " in the scope of this plan" if scope.topics or scope.excluded_topics else ""


def _led(situation: Situation) -> str:
    return _span(situation.led[situation.roles.leading])


def _span(values: Ints) -> str:
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"
