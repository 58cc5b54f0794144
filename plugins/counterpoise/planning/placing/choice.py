"""The choice of a goal: on which brokers may each partition stand, and how many replicas may each
broker hold.

    choice = ReplicaChoice.to_even(placement, roles, max_counts)
    chosen = copy_fewest_bytes(choice)              # a flag per partition and broker (`flow`)
    choice.apply(placement, chosen)

The one place that answers "may this partition stand on that broker": the flow and the program of
`flow` and `small` ask it and know no goals, so that a constraint needs a line here and
nothing there.

    to even out      present brokers, and destinations with room; those that may give nothing stay
    to empty         only replicas on brokers that leave are chosen anew
    to add           all present replicas stay, destinations with room may get one
    to drop          only present brokers; the in-sync replicas stay as long as there are others

Worked example: brokers 1, 2 and 3 (new), partition a-0 on [1, 2]. For goal add-brokers it may stand
on 1, 2 and 3 and has two replicas in the end; to empty broker 2 it must stand on 1, and may on 3.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.fair_shares import bounds_of_partition
from counterpoise.planning.placement import Placement, Roles


@dataclass(frozen=True, eq=False)
class ReplicaChoice:
    """Partitions whose replicas are chosen: a row for each, and mostly a column per broker."""

    start: Placement
    partitions: Ints
    factors: Ints  # replicas in the end
    may_stand: Flags
    must_stand: Flags
    leaving: Flags  # brokers: a replica stays there only where no other broker may have it
    staying: Flags  # brokers
    max_counts: Ints  # per broker, of all partitions
    topic_limits: Ints  # per topic: no broker should get more of its replicas
    min_topic_counts: Ints  # per topic: each broker should have so many of its replicas

    @classmethod
    def to_even(
        cls,
        placement: Placement,
        roles: Roles,
        max_counts: Ints | None = None,
        topic_limits: Ints | None = None,
    ) -> "ReplicaChoice":
        """Return the choice of goals about evenness."""
        choice = cls._to_place(placement, roles, placement.cluster.may_change, roles.sources)
        if max_counts is not None:
            choice = replace(choice, max_counts=max_counts)
        return choice if topic_limits is None else replace(choice, topic_limits=topic_limits)

    @classmethod
    def to_empty(cls, placement: Placement, roles: Roles, is_chosen: Flags) -> "ReplicaChoice":
        """Return the choice of goals that empty brokers; `is_chosen` has partitions on these."""
        return cls._to_place(placement, roles, is_chosen, roles.leaving)

    @classmethod
    def to_add(cls, placement: Placement, roles: Roles, factor: int) -> "ReplicaChoice":
        """Return the choice of new replicas until each partition has `factor`."""
        is_short = placement.cluster.may_change & (placement.replica_counts < factor)
        no_sources = np.zeros_like(roles.sources)
        return cls._to_place(placement, roles, is_short, no_sources, factor)

    @classmethod
    def to_drop(
        cls,
        placement: Placement,
        roles: Roles,
        partitions: Ints,
        factors: Ints,
        may_stay: Flags,
        must_stay: Flags,
    ) -> "ReplicaChoice":
        """Return the choice of the replicas that stay; the flags are as the rows of replicas."""
        stands = stands_of(placement, partitions)
        may_stand, must_stand = np.zeros_like(stands), np.zeros_like(stands)
        rows, columns = np.nonzero(placement.replicas[partitions][:, : may_stay.shape[1]] >= 0)
        brokers = placement.replicas[partitions][rows, columns]
        may_stand[rows, brokers] = may_stay[rows, columns]
        must_stand[rows, brokers] = must_stay[rows, columns]
        return cls._of(placement, roles, partitions, may_stand, must_stand, factors)

    @classmethod
    def _to_place(
        cls,
        placement: Placement,
        roles: Roles,
        is_chosen: Flags,
        sources: Flags,
        factor: int | None = None,
    ) -> "ReplicaChoice":
        """Return the choice where replicas may leave `sources`, and come to any destination with
        room.
        """
        partitions = np.flatnonzero(is_chosen)
        stands = stands_of(placement, partitions)
        sizes = placement.cluster.size_bytes[partitions]
        has_room = sizes[:, None] <= placement.cluster.headroom_bytes
        may_stand = stands | (roles.destinations & has_room)
        factors = None if factor is None else np.full(len(partitions), factor)
        return cls._of(placement, roles, partitions, may_stand, stands & ~sources, factors)

    @classmethod
    def _of(
        cls,
        placement: Placement,
        roles: Roles,
        partitions: Ints,
        may_stand: Flags,
        must_stand: Flags,
        factors: Ints | None = None,
    ) -> "ReplicaChoice":
        return cls(
            start=placement.copy(),
            partitions=partitions,
            factors=placement.replica_counts[partitions] if factors is None else factors,
            may_stand=may_stand,
            must_stand=must_stand,
            leaving=roles.leaving,
            staying=roles.staying,
            max_counts=placement.cluster.max_counts,
            topic_limits=np.full(len(placement.cluster.topic_names), UNBOUNDED),
            min_topic_counts=placement.cluster.min_topic_leaders,
        )

    @property
    def replica_count(self) -> int:
        """Return how many replicas are chosen."""
        return int(self.factors.sum() - self.must_stand.sum())

    @property
    def may_lack_place(self) -> bool:
        """Return whether a replica may find no place; else each may stay where it is."""
        must_move = bool(self.leaving.any())
        return must_move or bool((self.factors > self.stands.sum(axis=1)).any())

    @cached_property
    def stands(self) -> Flags:
        """Return where each partition stands now."""
        return stands_of(self.start, self.partitions)

    @cached_property
    def fixed_counts(self) -> Ints:
        """Return replicas per broker that are not chosen: of other partitions."""
        return np.asarray(self.start.counts - self.stands.sum(axis=0))

    @cached_property
    def fixed_bytes(self) -> Ints:
        return np.asarray(self.start.bytes_held - self.sizes @ self.stands)

    @property
    def sizes(self) -> Ints:
        return np.asarray(self.start.cluster.size_bytes[self.partitions])

    @cached_property
    def in_rack(self) -> Ints:
        """Return a row of flags for each rack: is the broker there?"""
        racks = self.start.cluster.racks
        return np.asarray(racks == np.arange(int(racks.max(initial=-1)) + 1)[:, None], np.int64)

    @cached_property
    def stack_limits(self) -> Ints:
        """Return, per partition and rack, how many replicas are no stack that is too high.

        As many as the highest stack of the partition has now, and as the most even stacks have.
        """
        rack_sizes = self.start.cluster.rack_sizes(self.staying)
        max_factor = int(self.factors.max(initial=0))
        even_by_factor = np.zeros((max_factor + 1, len(rack_sizes)), dtype=np.int64)
        for factor in np.unique(self.factors).tolist():
            even_by_factor[factor] = bounds_of_partition(factor, rack_sizes)[1]
        rack_counts = (self.stands & ~self.leaving) @ self.in_rack.T
        highest_now = rack_counts.max(axis=1, initial=1)
        return np.asarray(np.maximum(even_by_factor[self.factors], highest_now[:, None]))

    def has_room_for(self, chosen: Flags) -> bool:
        """Return whether all that arrives fits onto every broker at once."""
        arriving = self.sizes @ (chosen & ~self.stands)
        return bool((arriving <= self.start.cluster.headroom_bytes).all())

    def copied_bytes(self, chosen: Flags) -> int:
        return int((self.sizes @ (chosen & ~self.stands)).sum())

    def counts_of(self, chosen: Flags) -> Ints:
        return np.asarray(self.fixed_counts + chosen.sum(axis=0))

    def bytes_of(self, chosen: Flags) -> Ints:
        return np.asarray(self.fixed_bytes + self.sizes @ chosen)

    def apply(self, placement: Placement, chosen: Flags) -> None:
        """Set the chosen replicas: those that stay keep their places, new ones fill the gaps."""
        placement.widen(int(self.factors.max(initial=0)))
        rows = np.full_like(placement.replicas, NOBODY)
        rows[:, : self.start.replicas.shape[1]] = self.start.replicas
        for number in np.flatnonzero((chosen != self.stands).any(axis=1)).tolist():
            row, is_chosen = rows[self.partitions[number]], chosen[number]
            arriving = iter(np.flatnonzero(is_chosen & ~self.stands[number]).tolist())
            new_row = [
                broker if is_chosen[broker] else next(arriving, NOBODY) for broker in row[row >= 0]
            ]
            new_row = [broker for broker in new_row if broker != NOBODY]
            new_row += arriving
            row[:] = NOBODY
            row[: len(new_row)] = new_row
        placement.reset_to(rows)


def stands_of(placement: Placement, partitions: Ints) -> Flags:
    """Return a flag for each of the partitions and each broker: does the partition stand there?"""
    rows = placement.replicas[partitions]
    stands = np.zeros((len(partitions), placement.cluster.broker_count + 1), dtype=np.bool_)
    stands[np.arange(len(partitions))[:, None], rows] = True
    return stands[:, :NOBODY]
