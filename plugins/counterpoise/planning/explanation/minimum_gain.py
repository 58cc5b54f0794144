"""Minimum gain: a gain that nobody would notice counts as balanced, so that clusters do not churn.

    is_worth_moving(result)

    for each measure: gain = what is uneven before - what is uneven after
    worth moving: any gain is more than `ignorable_permille` of what it is measured against

Worked example: 10,000 replicas, 2 permille, so 20 may be ignored. If the counts of replicas per
broker are uneven by 30 before (squared distances from the mean) and by 5 after, the gain is 25: the
plan is worth it.
"""

from collections.abc import Iterator

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import highest_share, units_misplaced
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import racks_missing
from counterpoise.planning.placing.targets import byte_band
from counterpoise.planning.placing.topics import TopicShares


def is_worth_moving(result: PlanningResult) -> bool:
    """Return whether any measure that goals about evenness serve gains more than may be ignored."""
    permille = result.request.policy.ignorable_permille
    return any(gain > total * permille // 1000 for gain, total in _gains(result))


def _gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure, and what it is measured against."""
    cluster, roles = result.cluster, result.roles
    before, after = result.before, result.after
    leaders_before, leaders_after = cluster.leaders_now, result.assignment.leaders
    rows_before, rows_after = cluster.replicas, result.assignment.replicas
    partition_count, replica_count = cluster.partition_count, int(after.counts.sum())

    racks_gained = racks_missing(before, roles.staying) - racks_missing(after, roles.staying)
    yield int(racks_gained.sum()), 0
    replicas_misplaced = _misplaced(before.counts, roles.sharing)
    yield replicas_misplaced - _misplaced(after.counts, roles.sharing), replica_count
    leaders_misplaced = _misplaced(cluster.leader_load(leaders_before), roles.leading)
    yield leaders_misplaced - _misplaced(result.leader_counts, roles.leading), partition_count
    bytes_gained = _bytes_outside(before, result) - _bytes_outside(after, result)
    yield bytes_gained, int(after.bytes_held.sum())
    yield _above_topic_share(before, result) - _above_topic_share(after, result), replica_count
    leaders_above = _leaders_above_share(result, leaders_before)
    yield leaders_above - _leaders_above_share(result, leaders_after), partition_count
    not_preferred = _not_preferred(rows_before, leaders_before)
    yield not_preferred - _not_preferred(rows_after, leaders_after), partition_count


def _bytes_outside(placement: Placement, result: PlanningResult) -> int:
    """Return the bytes that would have to move for every broker to be in its band."""
    percent = result.request.policy.bytes_tolerance_percent
    band = byte_band(placement, result.roles, percent)
    bytes_outside = band.bytes_outside(placement.bytes_held)
    return int(bytes_outside[result.sharing].sum())


def _misplaced(counts: Ints, is_counted: Flags) -> int:
    return units_misplaced(counts[is_counted].tolist())


def _above_topic_share(placement: Placement, result: PlanningResult) -> int:
    """Return the replicas above the highest share of their topic, over all topics and brokers."""
    shares = TopicShares.of(placement, result.roles, placement.counts)
    total = 0
    for broker in np.flatnonzero(result.sharing).tolist():
        above = placement.topic_counts[:, broker] - shares.highest(broker)
        total += int(np.maximum(0, above).sum())
    return total


def _leaders_above_share(result: PlanningResult, leaders: Ints) -> int:
    """Return the leaders above the highest share of their topic, over all topics and brokers."""
    cluster = result.cluster
    has_leader = leaders >= 0
    cells = cluster.topic_numbers[has_leader] * cluster.broker_count + leaders[has_leader]
    used_cells, counts = np.unique(cells, return_counts=True)
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    shares = highest_share(partition_counts, int(result.roles.leading.sum()))
    topics = used_cells // cluster.broker_count
    return int(np.maximum(0, counts - shares[topics]).sum())


def _not_preferred(replicas: Ints, leaders: Ints) -> int:
    """Return the partitions that another replica than the preferred one leads."""
    return int(((leaders >= 0) & (replicas[:, 0] != leaders)).sum())
