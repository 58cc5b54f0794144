"""Figures: every registered broker before, after, at best and at its fullest on the way.

    figures = figures_of(result, snapshot.brokers)

Best means: what no plan could do better, whatever it moved. Where racks have different numbers of
brokers it is uneven itself.
"""

import numpy as np
import pyarrow as pa

from counterpoise.model.columns import Ints
from counterpoise.model.plan import BrokerFigure
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.water_filling import fill


def figures_of(result: PlanningResult, broker_table: pa.Table) -> tuple[BrokerFigure, ...]:
    """Return a figure for every registered broker, by id."""
    cluster, before, after = result.cluster, result.before, result.after
    columns = {
        "leaders_before": cluster.leader_load(cluster.leaders_now),
        "leaders_after": result.leader_counts,
        "leaders_best": _evened(result, result.leader_counts),
        "replicas_before": before.counts,
        "replicas_after": after.counts,
        "replicas_best": result.best_counts,
        "bytes_before": before.bytes_held,
        "bytes_after": after.bytes_held,
        "bytes_best": result.band.fair,
        "bytes_peak": before.bytes_held + after.arriving,
    }
    if cluster.is_rate_known.any():
        bytes_in_after = cluster.leader_load(result.assignment.leaders, cluster.bytes_in)
        columns["bytes_in_before"] = cluster.leader_load(cluster.leaders_now, cluster.bytes_in)
        columns["bytes_in_after"] = bytes_in_after
        columns["bytes_in_best"] = _evened(result, bytes_in_after)
    rows = {row["broker_id"]: row for row in broker_table.to_pylist()}
    figures = []
    for position in np.flatnonzero(cluster.is_registered).tolist():
        row = rows[int(cluster.broker_ids[position])]
        total, usable = row["disk_total_bytes"], row["disk_usable_bytes"]
        figure = BrokerFigure(
            broker_id=row["broker_id"],
            rack=row["rack"],
            disk_total_bytes=total,
            disk_used_bytes=None if total is None or usable is None else total - usable,
            **{name: int(column[position]) for name, column in columns.items()},
        )
        figures.append(figure)
    return tuple(figures)


def _evened(result: PlanningResult, loads: Ints) -> Ints:
    """Return the sum of `loads` shared out over the brokers that may lead; others keep theirs."""
    leading = result.roles.leading
    lower = np.where(leading, 0, loads)
    upper = np.where(leading, UNBOUNDED, loads)
    return fill(int(loads.sum()), lower, upper, loads)
