"""Emptying brokers: each of their replicas goes to another broker, and no other replica moves.

    drain(placement, roles, wanted, band, cluster.may_drain)

Largest first, each to a broker of the best rack that still may take one by its count; of these to
one that has not its share of the topic, and then to the one that lacks most bytes. Where the racks
leave no such broker, the count gives way; where they leave no fair rack, the rack does (the last
broker of a rack leaves), and the partition is stacked as low as the rest allows. Nothing goes where
it would fill a log dir too far: others are sent on to make room, and what fits nowhere even so
stays. In the end counts are as even as any choice of takers makes them (`exchange.py`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.exchange import Choosers, even_bytes, even_counts
from counterpoise.planning.placing.racks import rack_sizes
from counterpoise.planning.placing.shares import of_topics, whole_shares
from counterpoise.planning.roles import Roles

_MOST_ATTEMPTS = (
    20  # in vain: where disks are that full, brokers are missing, and no better order of replicas
)


def drain(
    placement: Placement, roles: Roles, wanted: Ints, band: ByteBand, may_move: Flags
) -> None:
    """Moves the replicas of partitions that `may_move` off the brokers that leave, all that have a
    place to go to.
    """
    leaving = np.append(roles.leaving, False)
    movable = leaving[placement.replicas] & may_move[:, None]
    partitions, positions = np.nonzero(movable)
    order = np.lexsort((positions, partitions, -placement.cluster.size_bytes[partitions]))
    intake = _Intake.of(placement, roles, wanted, band)
    patience = _MOST_ATTEMPTS
    for partition, position in zip(
        partitions[order].tolist(), positions[order].tolist(), strict=True
    ):
        if not intake.take(partition, position, movable[partition]) and patience:
            patience -= not _make_room(placement, roles, movable, partition, position)
    free = Choosers(placement, roles.destinations, movable & ~leaving[placement.replicas])
    even_counts(placement, roles.destinations, free)
    even_bytes(placement, roles.destinations, free, band)


@dataclass(frozen=True, slots=True, eq=False)
class _Intake:
    """The brokers that take, one entry per broker in each column."""

    placement: Placement
    destinations: Ints
    number_of: Ints  # of each broker among the takers; one past the end for the others
    racks: Ints
    wanted: Ints
    fair_bytes: Ints
    topic_shares: NDArray[np.float64]  # by topic and rack

    @classmethod
    def of(cls, placement: Placement, roles: Roles, wanted: Ints, band: ByteBand) -> "_Intake":
        destinations = np.flatnonzero(roles.destinations)
        number_of = np.full(placement.cluster.broker_count + 1, len(destinations))
        number_of[destinations] = np.arange(len(destinations))
        shares = of_topics(placement, rack_sizes(placement.cluster, roles.staying))
        racks = placement.cluster.racks[destinations]
        return cls(
            placement,
            destinations,
            number_of,
            racks,
            wanted[destinations],
            band.fair[destinations],
            shares,
        )

    def take(self, partition: int, position: int, leaves: Flags) -> bool:
        """Gives a replica to the best taker; False when none may have it.

        `leaves` has the row's other movables.
        """
        placement, row = self.placement, self.placement.replicas[partition]
        size = int(placement.cluster.size_bytes[partition])
        able = np.append(placement.room[self.destinations] >= size, False)
        able[self.number_of[row]] = False
        chosen = np.flatnonzero(able)
        if not len(chosen):
            return False
        chosen = _least(chosen, self._neighbours(row, leaves)[self.racks[chosen]])
        brokers = self.destinations[chosen]
        chosen = _least(chosen, np.maximum(0, placement.counts[brokers] + 1 - self.wanted[chosen]))
        chosen = _least(
            chosen, self._topic_level(chosen, int(placement.cluster.topic_numbers[partition]))
        )
        best = int(
            chosen[
                np.argmin(placement.bytes_held[self.destinations[chosen]] - self.fair_bytes[chosen])
            ]
        )
        placement.give(partition, position, int(self.destinations[best]))
        return True

    def _neighbours(self, row: Ints, leaves: Flags) -> Ints:
        """Replicas per rack of those in a row that stay, or have found their new place."""
        settled = row[~leaves | (self.number_of[row] < len(self.destinations))]
        racks = self.placement.racks_by_position[settled[settled >= 0]]
        return np.bincount(racks, minlength=self.topic_shares.shape[1])

    def _topic_level(self, chosen: Ints, topic: int) -> Ints:
        """0 for a broker below its share of the topic, 1 for one that is not above it, then how far
        it would be.
        """
        held = self.placement.topic_counts[topic, self.destinations[chosen]].astype(np.int64)
        lowest, highest = whole_shares(self.topic_shares[topic])
        lowest, highest = lowest[self.racks[chosen]], highest[self.racks[chosen]]
        return np.asarray(
            np.where(held < lowest, 0, np.where(held < highest, 1, 2 + held - highest))
        )


def _least(candidates: Ints, values: Ints) -> Ints:
    return np.asarray(candidates[values == values.min()])


def _make_room(
    placement: Placement, roles: Roles, movable: Flags, partition: int, position: int
) -> bool:
    """Sends one replica that has just come to a broker on to another, if that makes room for this
    one.
    """
    size = int(placement.cluster.size_bytes[partition])
    sizes = placement.cluster.size_bytes
    free = Choosers(
        placement,
        roles.destinations,
        movable & ~np.append(roles.leaving, False)[placement.replicas],
    )
    destinations = np.flatnonzero(roles.destinations)
    destinations = destinations[~np.isin(destinations, placement.replicas[partition])]
    for destination in destinations[
        np.lexsort((destinations, -placement.room[destinations]))
    ].tolist():
        missing = size - free.room(destination)
        for other in np.flatnonzero(free.reachable(destination)).tolist():
            partitions, positions = free.choices(destination, other)
            fitting = np.flatnonzero(
                (sizes[partitions] >= missing) & (sizes[partitions] <= free.room(other))
            )
            if len(fitting):
                best = fitting[np.lexsort((partitions[fitting], sizes[partitions[fitting]]))[:1]]
                free.pass_on(partitions[best], positions[best], other)
                placement.give(partition, position, destination)
                return True
    return False
