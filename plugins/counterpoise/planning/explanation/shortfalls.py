"""What a goal had to leave undone: the partitions, and why, in a sentence for warnings and reasons.

left = not_repaired(situation) left.partitions, left.sentence      # "2 partitions have no leader to
copy from (a-0, a-1); bring a broker back"
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.wording import partition_names


@dataclass(frozen=True, slots=True, eq=False)
class Shortfall:
    """`sentence` is "" when there is no such partition."""

    partitions: Ints
    sentence: str


def still_led(planning_result: PlanningResult) -> Ints:
    """Partitions that a demoted broker leads or is named first for in the end: no other replica may
    lead them.
    """
    outcome, roles = planning_result.outcome, planning_result.roles
    demoted = np.append(roles.sharing & ~roles.leading, False)
    return np.flatnonzero(
        planning_result.cluster.may_reorder
        & (demoted[outcome.leaders] | demoted[outcome.replicas[:, 0]])
    )


def not_repaired(planning_result: PlanningResult) -> Shortfall:
    """Partitions in scope that keep a replica on a dead broker which the goal is about."""
    cluster, after = planning_result.cluster, planning_result.after
    on_dead = (
        np.append(planning_result.roles.leaving, False)[after.replicas].any(axis=1)
        & ~cluster.is_excluded
    )
    return _told(
        planning_result,
        (on_dead & cluster.is_moving, "under reassignment; wait until it is done, or cancel it"),
        (
            on_dead & cluster.is_leaderless & ~cluster.is_moving,
            "without a leader to copy from; bring a broker back",
        ),
        (on_dead & cluster.may_change, _NO_DESTINATION),
    )


def not_resized(planning_result: PlanningResult) -> Shortfall:
    """Partitions in scope that have not the wanted number of replicas."""
    cluster = planning_result.cluster
    held, factor = planning_result.after.replica_counts, planning_result.request.replication_factor
    wrong = (held != factor) & ~cluster.is_excluded & ~cluster.is_left_to_repair
    return _told(
        planning_result,
        (wrong & cluster.is_moving, "under reassignment; wait until it is done, or cancel it"),
        (
            wrong & cluster.is_leaderless & ~cluster.is_moving,
            "without a leader to copy from; bring a broker back",
        ),
        (wrong & cluster.may_change & (held < (factor or 0)), _NO_DESTINATION),
        (
            wrong & cluster.may_change & (held > (factor or 0)),
            "with too few replicas on brokers in scope; widen it",
        ),
    )


def left_to_repair(planning_result: PlanningResult) -> Shortfall:
    """Partitions whose replicas stay as they are because one is on a dead broker, which the goal is
    not about.
    """
    why = "left to goal repair: with a replica on a dead broker no copy could end"
    return _told(planning_result, (planning_result.cluster.is_left_to_repair, why))


def not_repaired_yet(planning_result: PlanningResult) -> str | None:
    """A warning for plans that repair a part."""
    if planning_result.request.goal is not Goal.REPAIR:
        return None
    return not_repaired(planning_result).sentence or None


def short_of_replicas(planning_result: PlanningResult) -> str | None:
    """A warning for plans that give a part of the partitions the wanted number of replicas."""
    if (
        planning_result.request.goal is not Goal.REPLICATION_FACTOR
        or planning_result.left.partitions
    ):
        return None
    return not_resized(planning_result).sentence or None


_NO_DESTINATION = (
    "for which no other live broker in scope has room; add brokers or disk, widen the scope, or raise "
    "disk_limit_percent"
)


def _told(planning_result: PlanningResult, *kinds: tuple[Flags, str]) -> Shortfall:
    found = [(np.flatnonzero(which), why) for which, why in kinds]
    parts = [
        pluralize(len(which), f"partition ({names}) is {why}", f"partitions ({names}) are {why}")
        for which, why in found
        if len(which) and (names := partition_names(planning_result.cluster, which))
    ]
    every = np.unique(np.concatenate([which for which, _ in found]))
    return Shortfall(every, "; ".join(parts))
