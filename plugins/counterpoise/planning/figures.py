"""The figures of a plan: every registered broker before, after, at best and at its fullest on the way.

    figures = figures_of(situation)

Best means: what no plan could do better, whatever it moved. Where racks have different numbers of brokers it is
uneven itself.
"""

import numpy as np

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import BrokerFigure
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays, Ints
from counterpoise.planning.situation import Situation
from counterpoise.planning.water import fill


def figures_of(snapshot: ClusterSnapshot, situation: Situation) -> tuple[BrokerFigure, ...]:
    """By broker id, every registered broker."""
    cluster, outcome = situation.cluster, situation.outcome
    held = cluster.load(cluster.replicas, cluster.size_bytes)
    now = np.bincount(_known(cluster.leaders_now), minlength=cluster.broker_count).astype(np.int64)
    columns = {
        "leaders_before": now,
        "leaders_after": situation.led,
        "leaders_best": _even(situation, situation.led),
        "replicas_before": cluster.load(cluster.replicas),
        "replicas_after": situation.after.counts,
        "replicas_best": situation.best_counts,
        "bytes_before": held,
        "bytes_after": situation.after.bytes_held,
        "bytes_best": situation.band.fair,
        "bytes_peak": held + situation.after.arriving,
    }
    if cluster.is_rate_known.any():
        columns["bytes_in_before"] = _led_bytes(cluster, cluster.leaders_now)
        columns["bytes_in_after"] = after = _led_bytes(cluster, outcome.leaders)
        columns["bytes_in_best"] = _even(situation, after)
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


def _even(situation: Situation, led: Ints) -> Ints:
    """The sum of `led` as even as whole units can be over the brokers that may lead; others keep theirs."""
    leading = situation.roles.leading
    lower, upper = np.where(leading, 0, led), np.where(leading, UNBOUNDED, led)
    return fill(int(led.sum()), lower, upper, led)


def _led_bytes(cluster: ClusterArrays, leaders: Ints) -> Ints:
    rates = cluster.bytes_in[leaders >= 0]
    total = np.zeros(cluster.broker_count, dtype=np.int64)
    np.add.at(total, _known(leaders), rates)
    return total


def _known(leaders: Ints) -> Ints:
    return leaders[leaders >= 0]
