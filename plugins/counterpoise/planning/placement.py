"""The replica sets while a plan is being made: who holds what, how much, and which partitions were touched.

    placement.give(partition, position, taker)     # the replica at that position of the row goes to `taker`

The one mutable thing in this room. Positions in a row keep their meaning: a new replica takes the place of the one
that it replaces, so that the order of the others is kept.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.planning.arrays import ClusterArrays, Flags, Ints


@dataclass(slots=True, eq=False)
class Placement:
    """Replica sets with their counts and bytes per broker."""

    cluster: ClusterArrays
    replicas: Ints
    counts: Ints  # per broker
    bytes_held: Ints  # per broker
    touched: Flags  # per partition: it got a new replica already
    racks_by_position: Ints  # rack of each broker, and -1 at the end so that NOBODY has none

    @classmethod
    def of(cls, cluster: ClusterArrays) -> "Placement":
        replicas = cluster.replicas.copy()
        return cls(
            cluster=cluster,
            replicas=replicas,
            counts=cluster.load(replicas),
            bytes_held=cluster.load(replicas, cluster.size_bytes),
            touched=np.zeros(cluster.partition_count, dtype=np.bool_),
            racks_by_position=np.append(cluster.racks, -1),
        )

    def give(self, partition: int, position: int, taker: int) -> None:
        """Replaces one replica. The caller has made sure that the partition has no other replica on `taker`."""
        giver, size = self.replicas[partition, position], self.cluster.size_bytes[partition]
        self.replicas[partition, position] = taker
        self.counts[giver] -= 1
        self.counts[taker] += 1
        self.bytes_held[giver] -= size
        self.bytes_held[taker] += size
        self.touched[partition] = True

    def give_all(self, partitions: Ints, positions: Ints, takers: Ints) -> None:
        """As `give`, for many partitions at once, each named once."""
        givers, sizes = self.replicas[partitions, positions], self.cluster.size_bytes[partitions]
        self.replicas[partitions, positions] = takers
        np.add.at(self.counts, givers, -1)
        np.add.at(self.counts, takers, 1)
        np.add.at(self.bytes_held, givers, -sizes)
        np.add.at(self.bytes_held, takers, sizes)
        self.touched[partitions] = True

    def reset_to(self, replicas: Ints) -> None:
        """Takes moves back: the replicas are the given ones again."""
        self.replicas = replicas
        self.counts = self.cluster.load(replicas)
        self.bytes_held = self.cluster.load(replicas, self.cluster.size_bytes)
        self.touched[:] = False

    def holds(self, broker: int, partitions: Ints) -> Flags:
        return np.asarray((self.replicas[partitions] == broker).any(axis=1))

    def replicas_on(self, broker: int) -> tuple[Ints, Ints]:
        """Partitions and positions of the replicas on a broker that a plan may move, by partition."""
        partitions, positions = np.nonzero((self.replicas == broker) & self.cluster.may_change[:, None])
        return partitions.astype(np.int64), positions.astype(np.int64)

    def neighbours(self, partitions: Ints, positions: Ints, rack: int) -> Ints:
        """How many replicas each partition has in a rack, the one at the given position left out."""
        in_rack = self.racks_by_position[self.replicas[partitions]] == rack
        return np.asarray(in_rack.sum(axis=1) - in_rack[np.arange(len(partitions)), positions], dtype=np.int64)

    def suits(self, partitions: Ints, positions: Ints, rack: int) -> Flags:
        """May the replica at each position go to a rack? Yes when it gets no more neighbours there than it has.

        So a partition never ends up on fewer racks, nor stacked higher on one.
        """
        suitable = np.zeros(len(partitions), dtype=np.bool_)
        own = self.racks_by_position[self.replicas[partitions, positions]]
        there = self.neighbours(partitions, positions, rack)
        for own_rack in np.unique(own):
            mask = own == own_rack
            here = self.neighbours(partitions[mask], positions[mask], int(own_rack))
            suitable[mask] = there[mask] <= here
        return suitable
