"""From the final replica sets and leaders to what the plan document holds: moves and figures.

    outcome = Outcome.of(placement, first, elects=True)
    moves, figures = moves_of(snapshot, outcome), figures_of(outcome)

The chosen leader comes first, the others keep their order; a new replica has the place of the one it replaced.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import BrokerFigure, Move
from counterpoise.planning.arrays import ClusterArrays, Flags, Ints
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Per partition: the replicas in their final order, and whether the plan names it."""

    cluster: ClusterArrays
    replicas: Ints
    is_named: Flags

    @classmethod
    def of(cls, placement: Placement, first: Ints, *, elects: bool) -> "Outcome":
        """`first` leads. With `elects`, partitions that only need an election are named too."""
        cluster = placement.cluster
        columns = np.arange(placement.replicas.shape[1])
        order = np.argsort(np.where(placement.replicas == first[:, None], -1, columns), axis=1, kind="stable")
        replicas = np.take_along_axis(placement.replicas, order, axis=1)
        is_named = (replicas != cluster.replicas).any(axis=1)
        if elects:
            is_led_by_another = (cluster.leaders >= 0) & (cluster.leaders != replicas[:, 0])
            is_named |= is_led_by_another & cluster.may_change
        return cls(cluster, replicas, is_named)

    @property
    def leaders(self) -> Ints:
        """Who leads once the plan is executed; NOBODY where a partition without a leader is left alone."""
        return np.where(self.is_named, self.replicas[:, 0], self.cluster.leaders_now)


def moves_of(snapshot: ClusterSnapshot, outcome: Outcome) -> tuple[Move, ...]:
    """The moves, by topic and partition."""
    cluster = outcome.cluster
    named = np.flatnonzero(outcome.is_named)
    ids = np.append(cluster.broker_ids, -1)
    before, after = ids[cluster.replicas[named]].tolist(), ids[outcome.replicas[named]].tolist()
    topic_ids = snapshot.topic_ids
    return tuple(
        Move(
            topic=topic,
            partition=number,
            topic_id=topic_ids.get(topic) or "",
            replicas_before=tuple(old[:count]),
            replicas_after=tuple(new[:count]),
            leader_before=leader,
            size_bytes=size,
        )
        for topic, number, old, new, count, leader, size in zip(
            cluster.topics.take(named).to_pylist(),
            cluster.numbers[named].tolist(),
            before,
            after,
            cluster.replica_counts[named].tolist(),
            ids[cluster.leaders[named]].tolist(),
            cluster.size_bytes[named].tolist(),
            strict=True,
        )
    )


def figures_of(outcome: Outcome) -> tuple[BrokerFigure, ...]:
    """Leaders, replicas and bytes of every registered broker, before and after."""
    cluster = outcome.cluster
    columns = (
        cluster.broker_ids,
        _led(cluster, cluster.leaders_now),
        _led(cluster, outcome.leaders),
        cluster.load(cluster.replicas),
        cluster.load(outcome.replicas),
        cluster.load(cluster.replicas, cluster.size_bytes),
        cluster.load(outcome.replicas, cluster.size_bytes),
    )
    rows = np.column_stack(columns)[cluster.is_registered]
    return tuple(BrokerFigure(*row) for row in rows.tolist())


def _led(cluster: ClusterArrays, leaders: Ints) -> Ints:
    return np.bincount(leaders[leaders >= 0], minlength=cluster.broker_count).astype(np.int64)
