"""Movable replicas: those that brokers may give, by broker and smallest first.

    movable_replicas = MovableReplicas.of_sources(placement, is_source)
    partitions, positions = movable_replicas.of(broker, placement)

They are collected once and stay true while replicas move: `of` leaves out partitions that have been
touched since, because they gave or got a replica.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, slots=True, eq=False)
class MovableReplicas:
    """Replicas by broker, then size, then partition; `starts[broker]` is where a broker's begin."""

    partitions: Ints
    positions: Ints
    starts: Ints

    @classmethod
    def of_sources(cls, placement: Placement, is_source: Flags) -> "MovableReplicas":
        cluster = placement.cluster
        is_free = cluster.may_change & ~placement.touched
        is_on_source = np.append(is_source, False)[placement.replicas]
        partitions, positions = np.nonzero(is_on_source & is_free[:, None])
        may_go = placement.keeps_one(partitions, positions)
        partitions, positions = partitions[may_go], positions[may_go]
        brokers = placement.replicas[partitions, positions]
        order = np.lexsort((partitions, cluster.size_bytes[partitions], brokers))
        starts = np.searchsorted(brokers[order], np.arange(cluster.broker_count + 1))
        return cls(partitions[order], positions[order], starts)

    def of(self, broker: int, placement: Placement) -> tuple[Ints, Ints]:
        """Return partitions and positions of the replicas that a broker may still give."""
        own = slice(int(self.starts[broker]), int(self.starts[broker + 1]))
        partitions, positions = self.partitions[own], self.positions[own]
        is_untouched = ~placement.touched[partitions]
        return partitions[is_untouched], positions[is_untouched]

    def suiting(self, broker: int, rack: int, placement: Placement) -> tuple[Ints, Ints]:
        """Return, of these, the ones that may go to a rack."""
        partitions, positions = self.of(broker, placement)
        if rack == placement.cluster.racks[broker]:
            return partitions, positions
        is_suitable = placement.suits(partitions, positions, rack)
        return partitions[is_suitable], positions[is_suitable]

    def receivable(self, source: int, destination: int, placement: Placement) -> tuple[Ints, Ints]:
        """Return, of these, the ones that a given broker may receive."""
        rack = int(placement.cluster.racks[destination])
        partitions, positions = self.suiting(source, rack, placement)
        sizes = placement.cluster.size_bytes[partitions]
        is_new = ~placement.holds(destination, partitions)
        is_usable = is_new & (sizes <= placement.room[destination])
        return partitions[is_usable], positions[is_usable]
