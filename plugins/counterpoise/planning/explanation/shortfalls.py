"""Shortfalls: what a goal had to leave undone, which partitions and why.

    shortfall = not_repaired(result)
    shortfall.partitions
    shortfall.sentence      # "2 partitions (a-0, a-1) are without a leader to copy from; ..."

Warnings and the reasons of empty plans are made of these.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.wording import partition_names

_IS_MOVING = "under reassignment; wait until it is done, or cancel it"
_IS_LEADERLESS = "without a leader to copy from; bring a broker back"
_HAS_NO_DESTINATION = (
    "for which no other live broker in scope has room; add brokers or disk, widen the scope, or "
    "raise disk_limit_percent"
)
_HAS_TOO_FEW_IN_SCOPE = "with too few replicas on brokers in scope; widen it"
_IS_LEFT_TO_REPAIR = "left to goal repair: with a replica on a dead broker no copy could end"


@dataclass(frozen=True, slots=True, eq=False)
class Shortfall:
    partitions: Ints
    sentence: str  # "" when there is no such partition


def still_led(result: PlanningResult) -> Ints:
    """Return partitions that a demoted broker leads, or is first in, in the end.

    No other replica may lead them.
    """
    assignment = result.assignment
    is_demoted = result.roles.is_demoted
    leads, is_first = is_demoted[assignment.leaders], is_demoted[assignment.replicas[:, 0]]
    return np.flatnonzero(result.cluster.may_reorder & (leads | is_first))


def not_repaired(result: PlanningResult) -> Shortfall:
    """Return partitions in scope that keep a replica on a dead broker which the goal is about."""
    cluster = result.cluster
    is_on_dead = np.append(result.roles.leaving, False)[result.after.replicas].any(axis=1)
    is_concerned = is_on_dead & ~cluster.is_excluded
    is_leaderless = cluster.is_leaderless & ~cluster.is_moving
    return _shortfall(
        result,
        (is_concerned & cluster.is_moving, _IS_MOVING),
        (is_concerned & is_leaderless, _IS_LEADERLESS),
        (is_concerned & cluster.may_change, _HAS_NO_DESTINATION),
    )


def not_resized(result: PlanningResult) -> Shortfall:
    """Return partitions in scope that do not have the wanted number of replicas."""
    cluster, counts = result.cluster, result.after.replica_counts
    factor = result.request.replication_factor or 0
    is_wrong = (counts != factor) & ~cluster.is_excluded & ~cluster.is_left_to_repair
    is_leaderless = cluster.is_leaderless & ~cluster.is_moving
    return _shortfall(
        result,
        (is_wrong & cluster.is_moving, _IS_MOVING),
        (is_wrong & is_leaderless, _IS_LEADERLESS),
        (is_wrong & cluster.may_change & (counts < factor), _HAS_NO_DESTINATION),
        (is_wrong & cluster.may_change & (counts > factor), _HAS_TOO_FEW_IN_SCOPE),
    )


def left_to_repair(result: PlanningResult) -> Shortfall:
    """Return partitions that stay as they are because a replica is on a dead broker.

    The goal is not about that broker.
    """
    return _shortfall(result, (result.cluster.is_left_to_repair, _IS_LEFT_TO_REPAIR))


def not_repaired_yet(result: PlanningResult) -> str | None:
    """Return a warning for plans that repair a part of the partitions."""
    if result.request.goal is not Goal.REPAIR:
        return None
    return not_repaired(result).sentence or None


def short_of_replicas(result: PlanningResult) -> str | None:
    """Return a warning for plans that give a part of the partitions the wanted replicas."""
    if result.request.goal is not Goal.REPLICATION_FACTOR or result.left.partitions:
        return None
    return not_resized(result).sentence or None


def _shortfall(result: PlanningResult, *kinds: tuple[Flags, str]) -> Shortfall:
    sentences = []
    for is_concerned, why in kinds:
        partitions = np.flatnonzero(is_concerned)
        if len(partitions):
            names = partition_names(result.cluster, partitions)
            one, more = f"partition ({names}) is {why}", f"partitions ({names}) are {why}"
            sentences.append(pluralize(len(partitions), one, more))
    is_any = np.logical_or.reduce([is_concerned for is_concerned, _ in kinds])
    return Shortfall(np.flatnonzero(is_any), "; ".join(sentences))
