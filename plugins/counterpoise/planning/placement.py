"""The replica sets while a plan is being made, and what brokers hold because of them.

    placement.give(partition, position, destination)    # the replica at that position of the row

The one mutable thing in planning. Positions in a row keep their meaning: a new replica takes the
place of the one that it replaces, so that the order of the others is kept. In the row [3, 1, 2], to
give the replica at position 1 to broker 7 makes it [3, 7, 2].
"""

from dataclasses import dataclass, replace

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.planning.arrays import ClusterArrays


@dataclass(slots=True, eq=False)
class Placement:
    """Replica sets with their counts and bytes per broker; brokers are positions, not ids."""

    cluster: ClusterArrays
    replicas: Ints  # as wide as the widest row, also while replicas are added
    counts: Ints  # per broker
    bytes_held: Ints  # per broker
    arriving: Ints  # bytes per broker that were not there before
    topic_counts: Ints  # replicas by topic and broker
    new_replicas: Ints  # per partition
    touched: Flags  # per partition: it got a new replica already
    may_replace_all: bool  # as a last resort: also the last old replica of a partition
    racks_by_position: Ints  # rack of each broker, and -1 at the end so that NOBODY has none

    @classmethod
    def of(cls, cluster: ClusterArrays, replicas: Ints | None = None) -> "Placement":
        """Return the replica sets of the cluster, or others for the same partitions."""
        rows = cluster.replicas.copy() if replicas is None else replicas
        placement = cls(
            cluster=cluster,
            replicas=rows,
            counts=np.empty(0, dtype=np.int64),
            bytes_held=np.empty(0, dtype=np.int64),
            arriving=np.empty(0, dtype=np.int64),
            topic_counts=np.empty((0, 0), dtype=np.int64),
            new_replicas=np.empty(0, dtype=np.int64),
            touched=np.zeros(cluster.partition_count, dtype=np.bool_),
            may_replace_all=False,
            racks_by_position=np.append(cluster.racks, -1),
        )
        placement.reset_to(rows)
        return placement

    def copy(self) -> "Placement":
        """Return an independent placement with the same replicas."""
        return replace(
            self,
            replicas=self.replicas.copy(),
            counts=self.counts.copy(),
            bytes_held=self.bytes_held.copy(),
            arriving=self.arriving.copy(),
            topic_counts=self.topic_counts.copy(),
            new_replicas=self.new_replicas.copy(),
            touched=self.touched.copy(),
        )

    @property
    def original(self) -> Ints:
        """Return the replicas before, as wide as `replicas`."""
        missing = self.replicas.shape[1] - self.cluster.replicas.shape[1]
        if missing <= 0:
            return self.cluster.replicas
        return np.pad(self.cluster.replicas, ((0, 0), (0, missing)), constant_values=NOBODY)

    @property
    def replica_counts(self) -> Ints:
        """Return replicas per partition."""
        return np.asarray((self.replicas >= 0).sum(axis=1))

    @property
    def room(self) -> Ints:
        """Return the bytes per broker that may still arrive before a log dir is past its limit."""
        return np.asarray(self.cluster.headroom_bytes - self.arriving)

    def give(self, partition: int, position: int, destination: int) -> None:
        """Replace one replica; the partition must have no other one on the destination."""
        source = int(self.replicas[partition, position])
        self.replicas[partition, position] = destination
        self._count(partition, source, -1)
        self._count(partition, destination, 1)
        self.touched[partition] = True

    def add(self, partition: int, destination: int) -> None:
        """Add one replica, last in the row, which has a place left."""
        self.replicas[partition, int((self.replicas[partition] >= 0).sum())] = destination
        self._count(partition, destination, 1)
        self.touched[partition] = True

    def widen(self, columns: int) -> None:
        """Make place for `columns` replicas in each row."""
        missing = columns - self.replicas.shape[1]
        if missing > 0:
            self.replicas = np.pad(self.replicas, ((0, 0), (0, missing)), constant_values=NOBODY)

    def drop(self, partition: int, position: int) -> None:
        """Drop one replica; the others keep their order."""
        row = self.replicas[partition]
        self._count(partition, int(row[position]), -1)
        row[position:-1] = row[position + 1 :]
        row[-1] = NOBODY
        self.touched[partition] = True

    def _count(self, partition: int, broker: int, by: int) -> None:
        size = by * int(self.cluster.size_bytes[partition])
        self.counts[broker] += by
        self.bytes_held[broker] += size
        self.topic_counts[self.cluster.topic_numbers[partition], broker] += by
        if not (self.cluster.replicas[partition] == broker).any():
            self.arriving[broker] += size
            self.new_replicas[partition] += by

    def give_all(self, partitions: Ints, positions: Ints, destinations: Ints) -> None:
        """Replace replicas of many partitions at once, each named once.

        The destinations must not have held a replica of their partition before the plan.
        """
        sources, sizes = self.replicas[partitions, positions], self.cluster.size_bytes[partitions]
        topics = self.cluster.topic_numbers[partitions]
        rows_before = self.cluster.replicas[partitions]
        had_arrived = ~(rows_before == sources[:, None]).any(axis=1)
        self.replicas[partitions, positions] = destinations
        np.add.at(self.counts, sources, -1)
        np.add.at(self.counts, destinations, 1)
        np.add.at(self.bytes_held, sources, -sizes)
        np.add.at(self.bytes_held, destinations, sizes)
        np.add.at(self.arriving, destinations, sizes)
        np.add.at(self.arriving, sources[had_arrived], -sizes[had_arrived])
        self.new_replicas[partitions] += 1 - had_arrived
        np.add.at(self.topic_counts, (topics, sources), -1)
        np.add.at(self.topic_counts, (topics, destinations), 1)
        self.touched[partitions] = True

    def reset_to(self, replicas: Ints) -> None:
        """Set all replicas at once, and count anew; no partition is touched then."""
        cluster = self.cluster
        self.replicas = replicas
        is_new = missing_from(self.original, replicas)
        new_replicas = np.where(is_new, replicas, NOBODY)
        self.new_replicas = is_new.sum(axis=1)
        self.counts = cluster.load(replicas)
        self.bytes_held = cluster.load(replicas, cluster.size_bytes)
        self.arriving = cluster.load(new_replicas, cluster.size_bytes)
        shape = len(cluster.topic_names), cluster.broker_count
        cells = cluster.topic_numbers[:, None] * cluster.broker_count + replicas
        counts = np.bincount(cells[replicas >= 0], minlength=shape[0] * shape[1])
        self.topic_counts = counts.reshape(shape).astype(np.int32)
        self.touched[:] = False

    def holds(self, broker: int, partitions: Ints) -> Flags:
        return np.asarray((self.replicas[partitions] == broker).any(axis=1))

    def replicas_on(self, broker: int) -> tuple[Ints, Ints]:
        """Return partitions and positions of the replicas on a broker that a plan may move."""
        is_movable = (self.replicas == broker) & self.cluster.may_change[:, None]
        partitions, positions = np.nonzero(is_movable)
        return partitions.astype(np.int64), positions.astype(np.int64)

    def new_replicas_after(self, partitions: Ints, positions: Ints) -> Ints:
        """Return the new replicas of each partition if the one at its position moved (on)."""
        rows_before = self.original[partitions]
        sources = self.replicas[partitions, positions]
        is_old_replica = (rows_before == sources[:, None]).any(axis=1)
        return np.asarray(self.new_replicas[partitions] + is_old_replica)

    def keeps_one(self, partitions: Ints, positions: Ints) -> Flags:
        """Return whether an old replica would be left to copy from.

        A single replica has to be copied whole, and may be.
        """
        if self.may_replace_all:
            return np.ones(len(partitions), dtype=np.bool_)
        counts = (self.replicas[partitions] >= 0).sum(axis=1)
        keeps_old_one = self.new_replicas_after(partitions, positions) < counts
        return np.asarray(keeps_old_one | (counts == 1))

    @property
    def holds_back(self) -> bool:
        """Return whether `keeps_one` forbids a partition to give another old replica."""
        counts = self.replica_counts
        return bool(((counts > 1) & (self.new_replicas >= counts - 1)).any())

    def neighbours(self, partitions: Ints, positions: Ints, rack: int) -> Ints:
        """Return the replicas of each partition in a rack, without the one at its position."""
        is_in_rack = self.racks_by_position[self.replicas[partitions]] == rack
        is_own_in_rack = is_in_rack[np.arange(len(partitions)), positions]
        return np.asarray(is_in_rack.sum(axis=1) - is_own_in_rack, dtype=np.int64)

    def suits(self, partitions: Ints, positions: Ints, rack: int) -> Flags:
        """Return whether the replica at each position may go to a rack.

        It may when it gets no more neighbours there than it has now. So a partition never ends up
        on fewer racks, nor stacked higher on one. Example: replicas on racks a, a and b; one of
        those on a may go to c (0 neighbours) or b (1, as now), the one on b may not go to a (2).
        """
        is_suitable = np.zeros(len(partitions), dtype=np.bool_)
        own_racks = self.racks_by_position[self.replicas[partitions, positions]]
        there = self.neighbours(partitions, positions, rack)
        for own_rack in np.unique(own_racks).tolist():
            is_from = own_racks == own_rack
            here = self.neighbours(partitions[is_from], positions[is_from], own_rack)
            is_suitable[is_from] = there[is_from] <= here
        return is_suitable
