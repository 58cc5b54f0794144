"""The replicas that brokers may give, ready to choose from: by broker, and smallest first.

    stock = Stock.of_givers(placement, givers)
    partitions, positions = stock.of(broker, placement)      # only those whose partitions are still untouched

It is made once and stays true while replicas move, since a partition that gave or got one is no
longer offered.
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
    def of_sources(cls, placement: Placement, sources: Flags) -> "MovableReplicas":
        cluster = placement.cluster
        free = cluster.may_change & ~placement.touched
        partitions, positions = np.nonzero(
            np.append(sources, False)[placement.replicas] & free[:, None]
        )
        kept = placement.keeps_one(partitions, positions)
        partitions, positions = partitions[kept], positions[kept]
        owners = placement.replicas[partitions, positions]
        order = np.lexsort((partitions, cluster.size_bytes[partitions], owners))
        starts = np.searchsorted(owners[order], np.arange(cluster.broker_count + 1))
        return cls(partitions[order], positions[order], starts)

    def of(self, broker: int, placement: Placement) -> tuple[Ints, Ints]:
        """Partitions and positions that a broker may still give."""
        mine = slice(int(self.starts[broker]), int(self.starts[broker + 1]))
        free = ~placement.touched[self.partitions[mine]]
        return self.partitions[mine][free], self.positions[mine][free]

    def suiting(self, broker: int, rack: int, placement: Placement) -> tuple[Ints, Ints]:
        """As `of`, of these the ones that may go to a rack."""
        partitions, positions = self.of(broker, placement)
        if rack == placement.cluster.racks[broker]:
            return partitions, positions
        suitable = placement.suits(partitions, positions, rack)
        return partitions[suitable], positions[suitable]
