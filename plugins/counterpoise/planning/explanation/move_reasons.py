"""Why each partition is in the plan: the measure that its change serves first.

    move_reasons_of(situation, Why.DRAIN)      # one entry per named partition, in order

A copy that takes a partition to more racks serves the racks; else one from a broker with more
replicas to one with fewer serves their counts, and any other one bytes. Without a copy it is the
leaders, or only the order.
"""

import numpy as np

from counterpoise.model.columns import missing_from
from counterpoise.model.plan import MoveReason
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.placing.racks import racks_missing


def move_reasons_of(
    planning_result: PlanningResult, of_goal: MoveReason | None
) -> list[MoveReason]:
    """`of_goal` is why the goal copies, where it is not for evenness."""
    outcome = planning_result.outcome
    named = np.flatnonzero(outcome.is_named)
    copies = outcome.added[named].any(axis=1)
    changes_leader = outcome.leaders[named] != planning_result.cluster.leaders_now[named]
    plain = np.where(changes_leader, MoveReason.LEADERS.value, MoveReason.PREFERRED.value).astype(
        object
    )
    if of_goal in (MoveReason.DEMOTE, MoveReason.IMPORTED):
        return [of_goal] * len(named)
    if of_goal is not None:
        resized = ((outcome.replicas >= 0).sum(axis=1) != (outcome.before >= 0).sum(axis=1))[named]
        return [
            MoveReason(value) for value in np.where(copies | resized, of_goal.value, plain).tolist()
        ]
    staying = planning_result.roles.staying
    racks_gained = (
        racks_missing(planning_result.before, staying)
        > racks_missing(planning_result.after, staying)
    )[named]
    counts = np.append(planning_result.before.counts, 0)
    lost = missing_from(outcome.replicas[named], outcome.before[named])
    from_counts = np.where(lost, counts[outcome.before[named]], 0).max(axis=1)
    to_counts = np.where(
        outcome.added[named], counts[outcome.replicas[named]], np.iinfo(np.int64).max
    ).min(axis=1)
    serves = np.where(
        from_counts > to_counts, MoveReason.REPLICAS.value, MoveReason.BYTES.value
    ).astype(object)
    serves = np.where(racks_gained, MoveReason.RACKS.value, serves)
    return [MoveReason(value) for value in np.where(copies, serves, plain).tolist()]
