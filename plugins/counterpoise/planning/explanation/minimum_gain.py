"""Is a plan worth while? A gain that nobody would notice counts as balanced, so that clusters do
not churn.

    is_worth_moving(situation)

Compared are the measures that evening goals serve: racks, replicas and leaders per broker and per
topic, bytes outside the band, and partitions that another replica than the preferred one leads.
"""

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import highest_share, units_misplaced
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import racks_missing
from counterpoise.planning.placing.targets import byte_band
from counterpoise.planning.placing.topics import TopicShares


def is_worth_moving(planning_result: PlanningResult) -> bool:
    """Does any measure gain more than the policy's `ignorable_permille` of what it is measured
    against?
    """
    cluster, outcome, roles = (
        planning_result.cluster,
        planning_result.outcome,
        planning_result.roles,
    )
    before, after = planning_result.before, planning_result.after
    now, then = cluster.leaders_now, outcome.leaders
    permille, percent = (
        planning_result.request.policy.ignorable_permille,
        planning_result.request.policy.bytes_tolerance_percent,
    )
    lost = _outside(before, planning_result, percent) - _outside(after, planning_result, percent)
    partitions, replicas = cluster.partition_count, int(after.counts.sum())
    gains = (
        (
            int((racks_missing(before, roles.staying) - racks_missing(after, roles.staying)).sum()),
            0,
        ),
        (_uneven(before.counts, roles.sharing) - _uneven(after.counts, roles.sharing), replicas),
        (
            _uneven(cluster.led(now), roles.leading) - _uneven(planning_result.led, roles.leading),
            partitions,
        ),
        (lost, int(after.bytes_held.sum())),
        (
            _topics_uneven(before, planning_result) - _topics_uneven(after, planning_result),
            replicas,
        ),
        (_lean(planning_result, now) - _lean(planning_result, then), partitions),
        (
            _not_preferred(cluster.replicas, now) - _not_preferred(outcome.replicas, then),
            partitions,
        ),
    )
    return any(gain > whole * permille // 1000 for gain, whole in gains)


def _outside(placement: Placement, planning_result: PlanningResult, percent: int) -> int:
    """Bytes that would have to move for every broker to be in its band."""
    band = byte_band(placement, planning_result.roles, percent)
    outside = band.bytes_outside(placement.bytes_held)
    return int(outside[planning_result.roles.sharing].sum())


def _uneven(counts: Ints, brokers: Flags) -> int:
    return units_misplaced(counts[brokers].tolist())


def _topics_uneven(placement: Placement, planning_result: PlanningResult) -> int:
    """Replicas above the highest share of their topic, over all topics and brokers."""
    roles, above = planning_result.roles, 0
    shares = TopicShares.of(placement, roles, placement.counts)
    for broker in np.flatnonzero(roles.sharing).tolist():
        above += int(
            np.maximum(0, placement.topic_counts[:, broker] - shares.highest(broker)).sum()
        )
    return above


def _lean(planning_result: PlanningResult, leaders: Ints) -> int:
    """Leaders above the highest whole share of their topic, over all topics and brokers."""
    cluster, leading = planning_result.cluster, planning_result.roles.leading
    known = leaders >= 0
    cells = cluster.topic_numbers[known] * cluster.broker_count + leaders[known]
    used, counts = np.unique(cells, return_counts=True)
    per_topic = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    most = highest_share(per_topic, int(leading.sum()))
    return int(np.maximum(0, counts - most[used // cluster.broker_count]).sum())


def _not_preferred(replicas: Ints, leaders: Ints) -> int:
    return int(((leaders >= 0) & (replicas[:, 0] != leaders)).sum())
