"""The replica sets while a plan is being made, and what brokers hold because of them.

    placement.give(partition, position, destination)    # the replica at that position of the row

The one mutable thing in planning. Positions in a row keep their meaning: a new replica takes the
place of the one that it replaces, so that the order of the others is kept. In the row [3, 1, 2], to
give the replica at position 1 to broker 7 makes it [3, 7, 2].

`Roles` say what each broker does in a plan.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.model.racks import replicas_to_move
from counterpoise.planning.arrays import ClusterArrays


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How large a cluster may be to be solved, and how long the solver may search."""

    max_replicas: int  # to choose
    work: float  # of each step, in the solver's own unit, which takes about a second


_MAX_TURNS: Final = 20  # of the goal and of traffic, or of all broker sets
SEARCH_LIMITS: Final = SearchLimits(220, 0.8)


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """One flag per broker in each field."""

    destinations: Flags  # may receive replicas
    sources: Flags  # may lose replicas
    leaving: Flags  # have to end up empty
    staying: Flags  # in the cluster when the plan is done: live and not leaving
    sharing: Flags  # of these, the ones that are to be even: all that the request does not exclude
    leading: Flags  # of these, the ones that may lead

    def but(self, **flags: Flags) -> "Roles":
        return replace(self, **flags)

    @property
    def unrestricted(self) -> "Roles":
        """Return the roles as if every broker that shares could give and receive: no goal does
        better.
        """
        return self.but(destinations=self.sharing, sources=self.sharing | self.leaving)

    @property
    def is_demoted(self) -> Flags:
        """Return flags per broker, and False at the end for NOBODY: shares, but may not lead."""
        return np.append(self.sharing & ~self.leading, False)


class Replicas(NamedTuple):
    """Some replicas of a placement, each as a partition and a position in its row."""

    partitions: Ints
    positions: Ints

    def only(self, chosen: Ints | Flags | slice) -> "Replicas":
        return Replicas(self.partitions[chosen], self.positions[chosen])


@dataclass(frozen=True, slots=True)
class CopyBound:
    """What any plan with racks, counts and bytes as even as these has to copy at least."""

    replicas: int
    bytes: int
    is_reached: bool  # is it proven that no such plan copies fewer bytes than this one?


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
    racks_by_position: Ints  # rack of each broker, and -1 at the end so that NOBODY has none
    bound: CopyBound | None = None  # of these replica sets, where it is known
    has_budget_ended: bool = False  # the search's, before it found nothing better
    min_copied_bytes: int = 0  # by any as even as these, as far as a linear program says
    # Bytes per second, by partition that is copied for the sake of traffic.
    traffic_gains: dict[int, int] = field(default_factory=dict)

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
            traffic_gains=self.traffic_gains.copy(),
        )

    def as_cluster(self) -> "Placement":
        """Return a placement in which these replicas are where everything has been from the start.

        What arrives still takes its room.
        """
        replicas = self.replicas.copy()
        cluster = replace(self.cluster, replicas=replicas.copy(), headroom_bytes=self.room)
        return Placement.of(cluster, replicas)

    def repeat(self, place: Callable[["Placement"], None]) -> None:
        """Place again from where the replicas are, as if that were the cluster, while it moves any.

        `place` moves replicas of the placement that it is given. What any plan as even has to copy
        stays the same.
        """
        min_copied_bytes = self.min_copied_bytes
        for _ in range(_MAX_TURNS):
            again = self.as_cluster()
            place(again)
            self.has_budget_ended |= again.has_budget_ended
            if (again.replicas == self.replicas).all():
                break
            traffic_gains = self.traffic_gains | again.traffic_gains
            self.reset_to(again.replicas)
            self.traffic_gains = traffic_gains
        self.min_copied_bytes = min_copied_bytes

    def take_over(self, other: "Placement") -> None:
        """Set the replicas of another placement of the same cluster, with their bound and gains."""
        self.widen(other.replicas.shape[1])
        self.reset_to(other.replicas.copy())
        self.bound = other.bound
        self.traffic_gains = dict(other.traffic_gains)

    @property
    def original(self) -> Ints:
        """Return the replicas before, as wide as `replicas`."""
        missing = self.replicas.shape[1] - self.cluster.replicas.shape[1]
        if missing <= 0:
            return self.cluster.replicas
        return np.pad(self.cluster.replicas, ((0, 0), (0, missing)), constant_values=NOBODY)

    @property
    def is_added(self) -> Flags:
        """Return which of `replicas` are new."""
        return missing_from(self.original, self.replicas)

    @property
    def is_removed(self) -> Flags:
        """Return which of the `original` replicas are gone."""
        return missing_from(self.replicas, self.original)

    @property
    def replica_counts(self) -> Ints:
        """Return replicas per partition."""
        return np.asarray((self.replicas >= 0).sum(axis=1))

    @property
    def search_limits(self) -> SearchLimits:
        return SEARCH_LIMITS

    def is_small(self, is_chosen: Flags | None = None) -> bool:
        """Return whether the replicas to choose, of some partitions or of all, can be solved."""
        is_chosen = self.cluster.may_change if is_chosen is None else is_chosen
        return int(self.replica_counts[is_chosen].sum()) <= self.search_limits.max_replicas

    @property
    def traffic(self) -> Ints:
        """Return the bytes per second that each broker takes in, from producers and leaders."""
        return self.cluster.load(self.replicas, self.cluster.bytes_in)

    @property
    def room(self) -> Ints:
        """Return the bytes per broker that may still arrive before a log dir is past its limit."""
        return np.asarray(self.cluster.headroom_bytes - self.arriving)

    def rack_moves(self, staying: Flags) -> Ints:
        """Return, per partition, how many replicas have to change racks until it stands on as many
        racks as it can, and as evenly; only brokers that stay count.
        """
        racks = self.racks_by_position[self.replicas]
        return replicas_to_move(racks, self.cluster.rack_sizes(staying))

    def give(self, partition: int, position: int, destination: int) -> None:
        """Replace one replica; the partition must have no other one on the destination."""
        source = int(self.replicas[partition, position])
        self.replicas[partition, position] = destination
        self._count(partition, source, -1)
        self._count(partition, destination, 1)
        self.bound = None

    def widen(self, columns: int) -> None:
        """Make place for `columns` replicas in each row."""
        missing = columns - self.replicas.shape[1]
        if missing > 0:
            self.replicas = np.pad(self.replicas, ((0, 0), (0, missing)), constant_values=NOBODY)

    def _count(self, partition: int, broker: int, by: int) -> None:
        size = by * int(self.cluster.size_bytes[partition])
        self.counts[broker] += by
        self.bytes_held[broker] += size
        self.topic_counts[self.cluster.topic_numbers[partition], broker] += by
        if not (self.cluster.replicas[partition] == broker).any():
            self.arriving[broker] += size
            self.new_replicas[partition] += by

    def give_all(self, replicas: Replicas, destinations: Ints) -> None:
        """Replace replicas of many partitions at once, each named once; none has a new replica."""
        partitions = replicas.partitions
        sources, sizes = self.replicas[replicas], self.cluster.size_bytes[partitions]
        topics = self.cluster.topic_numbers[partitions]
        self.replicas[replicas] = destinations
        np.add.at(self.counts, sources, -1)
        np.add.at(self.counts, destinations, 1)
        np.add.at(self.bytes_held, sources, -sizes)
        np.add.at(self.bytes_held, destinations, sizes)
        np.add.at(self.arriving, destinations, sizes)
        self.new_replicas[partitions] += 1
        np.add.at(self.topic_counts, (topics, sources), -1)
        np.add.at(self.topic_counts, (topics, destinations), 1)
        self.bound = None

    def reset_to(self, replicas: Ints) -> None:
        """Set all replicas at once, and count anew.

        Partitions whose replicas stay keep what traffic gains by them.
        """
        cluster = self.cluster
        self.traffic_gains = {
            row: gain
            for row, gain in self.traffic_gains.items()
            if np.array_equal(self.replicas[row], replicas[row])
        }
        self.replicas = replicas
        is_added = self.is_added
        self.new_replicas = is_added.sum(axis=1)
        self.counts = cluster.load(replicas)
        self.bytes_held = cluster.load(replicas, cluster.size_bytes)
        self.arriving = cluster.load(np.where(is_added, replicas, NOBODY), cluster.size_bytes)
        shape = len(cluster.topic_names), cluster.broker_count
        cells = cluster.topic_numbers[:, None] * cluster.broker_count + replicas
        counts = np.bincount(cells[replicas >= 0], minlength=shape[0] * shape[1])
        self.topic_counts = counts.reshape(shape).astype(np.int32)
        self.bound = None
        self.min_copied_bytes = 0

    def suits(self, replicas: Replicas, rack: int) -> Flags:
        """Return whether each replica may go to a rack.

        It may when it gets no more neighbours there than it has now. So a partition never ends up
        on fewer racks, nor stacked higher on one. Example: replicas on racks a, a and b; one of
        those on a may go to c (0 neighbours) or b (1, as now), the one on b may not go to a (2).
        """
        own_racks = self.racks_by_position[self.replicas[replicas]]
        is_suitable = own_racks == rack
        if not is_suitable.all():
            racks = self.racks_by_position[self.replicas[replicas.partitions]]
            neighbours_now = (racks == own_racks[:, None]).sum(axis=1) - 1
            is_suitable |= (racks == rack).sum(axis=1) <= neighbours_now
        return np.asarray(is_suitable)

    def count_on(self, is_counted: Flags) -> Ints:
        """Return, per partition, how many of its replicas are on the given brokers."""
        on_counted = np.append(is_counted, False)[self.replicas]
        return np.asarray(on_counted.sum(axis=1), dtype=np.int64)

    def replicas_by_broker(self, is_chosen: Flags) -> list[Replicas]:
        """Return some of the replicas by broker, smallest first; flags are per replica, or a column
        of one per partition.
        """
        rows, positions = np.nonzero((self.replicas >= 0) & is_chosen)
        brokers = self.replicas[rows, positions]
        order = np.lexsort((rows, self.cluster.size_bytes[rows], brokers))
        replicas = Replicas(rows[order], positions[order])
        starts = np.searchsorted(brokers[order], np.arange(self.cluster.broker_count + 1))
        return [replicas.only(slice(low, high)) for low, high in pairwise(starts.tolist())]
