"""The figures of a plan: every registered broker before, after, at best and at its fullest on the
way.

    figures = figures_of(situation)

Best means: what no plan could do better, whatever it moved. Where racks have different numbers of
brokers it is uneven itself.
"""

import numpy as np

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Ints
from counterpoise.model.plan import BrokerFigure
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.water_filling import fill


def figures_of(
    snapshot: ClusterSnapshot, planning_result: PlanningResult
) -> tuple[BrokerFigure, ...]:
    """By broker id, every registered broker."""
    cluster, outcome = planning_result.cluster, planning_result.outcome
    before, after = planning_result.before, planning_result.after
    columns = {
        "leaders_before": cluster.led(cluster.leaders_now),
        "leaders_after": planning_result.led,
        "leaders_best": _even(planning_result, planning_result.led),
        "replicas_before": before.counts,
        "replicas_after": after.counts,
        "replicas_best": planning_result.best_counts,
        "bytes_before": before.bytes_held,
        "bytes_after": after.bytes_held,
        "bytes_best": planning_result.band.fair,
        "bytes_peak": before.bytes_held + after.arriving,
    }
    if cluster.is_rate_known.any():
        columns["bytes_in_before"] = cluster.led(cluster.leaders_now, cluster.bytes_in)
        columns["bytes_in_after"] = led = cluster.led(outcome.leaders, cluster.bytes_in)
        columns["bytes_in_best"] = _even(planning_result, led)
    brokers = {row["broker_id"]: row for row in snapshot.brokers.to_pylist()}
    figures = []
    for at in np.flatnonzero(cluster.is_registered).tolist():
        broker = brokers[int(cluster.broker_ids[at])]
        total, usable = broker["disk_total_bytes"], broker["disk_usable_bytes"]
        figures.append(
            BrokerFigure(
                broker_id=broker["broker_id"],
                rack=broker["rack"],
                disk_total_bytes=total,
                disk_used_bytes=None if total is None or usable is None else total - usable,
                **{name: int(column[at]) for name, column in columns.items()},
            )
        )
    return tuple(figures)


def _even(planning_result: PlanningResult, led: Ints) -> Ints:
    """The sum of `led` as even as whole units can be over the brokers that may lead; others keep
    theirs.
    """
    leading = planning_result.roles.leading
    lower, upper = np.where(leading, 0, led), np.where(leading, UNBOUNDED, led)
    return fill(int(led.sum()), lower, upper, led)
