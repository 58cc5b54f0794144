"""From the final replica sets and leaders to the moves that the plan document lists.

    outcome = Outcome.of(placement, first, is_free=is_free, elects=True, last=demoted)
    moves = moves_of(snapshot, outcome, why)

The chosen leader comes first, the others keep their order; a new replica has the place of the one
it replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Flags, Ints, missing_from
from counterpoise.model.plan import Move, MoveReason
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, slots=True, eq=False)
class FinalAssignment:
    """Per partition: the replicas before and in their final order, and whether the plan names it."""

    cluster: ClusterArrays
    before: Ints
    replicas: Ints
    is_named: Flags

    @classmethod
    def of(
        cls, placement: Placement, first: Ints, *, is_free: Flags, elects: bool, last: Flags
    ) -> "FinalAssignment":
        """`first` leads the partitions that are free; others that change keep their leader, if it
        keeps its replica.

        With `elects`, free partitions are named too when an election is all that they need. Brokers
        that are `last` come last in the rows whose leader changes from one of them.
        """
        cluster, before = placement.cluster, placement.original
        keeps_leader = (placement.replicas == cluster.leaders_now[:, None]).any(axis=1) & (
            cluster.leaders_now >= 0
        )
        keeps_leader &= ~is_free & (placement.replicas != before).any(axis=1)
        first = np.where(keeps_leader, cluster.leaders_now, first)
        columns = np.arange(placement.replicas.shape[1])
        rank = np.where(placement.replicas == first[:, None], -1, columns)
        gives_up = (first != placement.replicas[:, 0]) | (
            is_free & np.append(last, False)[cluster.leaders_now]
        )
        is_last = np.append(last, False)[placement.replicas] & gives_up[:, None]
        rank = np.where(is_last, rank + len(columns), rank)
        rank = np.where(placement.replicas < 0, 2 * len(columns), rank)
        replicas = np.take_along_axis(
            placement.replicas, np.argsort(rank, axis=1, kind="stable"), axis=1
        )
        is_named = (replicas != before).any(axis=1)
        if elects:
            is_named |= is_free & (cluster.leaders >= 0) & (cluster.leaders != replicas[:, 0])
        return cls(cluster, before, replicas, is_named)

    @classmethod
    def unchanged(cls, cluster: ClusterArrays) -> "FinalAssignment":
        return cls(
            cluster,
            cluster.replicas,
            cluster.replicas,
            np.zeros(cluster.partition_count, dtype=np.bool_),
        )

    @property
    def leaders(self) -> Ints:
        """Who leads once the plan is executed; NOBODY where a partition without a leader is left
        alone.
        """
        return np.where(self.is_named, self.replicas[:, 0], self.cluster.leaders_now)

    @property
    def added(self) -> Flags:
        """Which of `replicas` are new."""
        return missing_from(self.before, self.replicas)


def moves_of(
    snapshot: ClusterSnapshot, outcome: FinalAssignment, why: Sequence[MoveReason]
) -> tuple[Move, ...]:
    """The moves, by topic and partition; `why` has one entry for each."""
    cluster = outcome.cluster
    named = np.flatnonzero(outcome.is_named)
    ids = np.append(cluster.broker_ids, -1)
    before, after = outcome.before[named], outcome.replicas[named]
    topic_ids = snapshot.topic_ids
    rates = np.where(cluster.is_rate_known[named], cluster.bytes_in[named], -1)
    return tuple(
        Move(
            topic=topic,
            partition=number,
            topic_id=topic_ids.get(topic) or "",
            replicas_before=tuple(old[:held]),
            replicas_after=tuple(new[:wanted]),
            leader_before=leader,
            size_bytes=size,
            bytes_in_per_second=rate if rate >= 0 else None,
            why=reason,
        )
        for topic, number, old, held, new, wanted, leader, size, rate, reason in zip(
            cluster.topics.take(named).to_pylist(),
            cluster.numbers[named].tolist(),
            ids[before].tolist(),
            (before >= 0).sum(axis=1).tolist(),
            ids[after].tolist(),
            (after >= 0).sum(axis=1).tolist(),
            ids[cluster.leaders[named]].tolist(),
            cluster.size_bytes[named].tolist(),
            rates.tolist(),
            why,
            strict=True,
        )
    )
