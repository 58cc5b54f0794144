"""Emptying brokers: each of their replicas goes to another broker, and no other replica moves.

    drain(placement, roles, policy, is_movable)

    for each replica to move, largest first: of the brokers that have room for it
        those on racks with fewest replicas of its partition
        of these, those that are least above their wanted count
        of these, those that hold least of the topic, measured by their share
        of these, the one that misses most bytes
    if no broker has room: send a replica that came to one of them on to another broker, and retry
    in the end counts are made as even as any choice of brokers makes them (`free_replicas`)

Worked example: a replica of a partition whose others are on racks a and b. Brokers 5 (rack a),
6 and 7 (rack c) have room: 6 and 7 are on the better rack. Both are below their wanted count, and
both below their share of the topic; 6 misses 40 GB, 7 misses 55 GB: broker 7 gets it.

Limits: where racks leave no other way, counts give way first, then racks (the last broker of a rack
leaves); the partition is then stacked as low as the others allow. Nothing goes where it would fill
a log dir too far; what fits nowhere stays.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.fair_shares import byte_band, count_targets
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.free_replicas import (
    FreeReplicas,
    even_bytes,
    even_counts,
    of_topics,
    whole_shares,
)

# In vain: where disks are that full, brokers are missing, and not a better order of replicas.
_MAX_FAILED_ATTEMPTS = 20


def drain(placement: Placement, roles: Roles, policy: BalancePolicy, is_movable: Flags) -> None:
    """Move replicas off the brokers that leave; `is_movable` says of which partitions."""
    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, policy.bytes_tolerance_percent)
    is_leaving = np.append(roles.leaving, False)
    is_to_move = is_leaving[placement.replicas] & is_movable[:, None]
    partitions, positions = np.nonzero(is_to_move)
    sizes = placement.cluster.size_bytes[partitions]
    largest_first = np.lexsort((positions, partitions, -sizes))
    destinations = _Destinations.of(placement, roles, wanted, band)
    failed_attempts = 0
    rows = np.column_stack([partitions, positions])[largest_first].tolist()
    for partition, position in rows:
        if destinations.take(partition, position, is_to_move[partition]):
            continue
        if failed_attempts < _MAX_FAILED_ATTEMPTS:
            is_placed = _make_room(placement, roles, is_to_move, partition, position)
            failed_attempts += not is_placed
    is_placed_now = is_to_move & ~is_leaving[placement.replicas]
    free = FreeReplicas(placement, roles.destinations, is_placed_now)
    even_counts(placement, roles.destinations, free)
    even_bytes(placement, roles.destinations, free, band)


@dataclass(frozen=True, slots=True, eq=False)
class _Destinations:
    """The brokers that receive replicas; columns have one entry for each of them."""

    placement: Placement
    brokers: Ints
    racks: Ints
    wanted: Ints
    fair_bytes: Ints
    number_of: Ints  # of each broker of the cluster in `brokers`; one past the end for the others
    topic_shares: NDArray[np.float64]  # by topic and rack

    @classmethod
    def of(
        cls, placement: Placement, roles: Roles, wanted: Ints, band: ByteBand
    ) -> "_Destinations":
        cluster = placement.cluster
        brokers = np.flatnonzero(roles.destinations)
        number_of = np.full(cluster.broker_count + 1, len(brokers))
        number_of[brokers] = np.arange(len(brokers))
        return cls(
            placement=placement,
            brokers=brokers,
            racks=cluster.racks[brokers],
            wanted=wanted[brokers],
            fair_bytes=band.fair[brokers],
            number_of=number_of,
            topic_shares=of_topics(placement, cluster.rack_sizes(roles.staying)),
        )

    def take(self, partition: int, position: int, is_to_move: Flags) -> bool:
        """Give a replica to the best destination; False when none may have it.

        `is_to_move` has the replicas of the row that leave their brokers.
        """
        placement, row = self.placement, self.placement.replicas[partition]
        topic = int(placement.cluster.topic_numbers[partition])
        has_room = placement.room[self.brokers] >= placement.cluster.size_bytes[partition]
        has_room &= placement.counts[self.brokers] < placement.cluster.max_counts[self.brokers]
        is_able = np.append(has_room, False)
        is_able[self.number_of[row]] = False
        able = np.flatnonzero(is_able)
        if not len(able):
            return False
        able = _smallest(able, self._neighbours(row, is_to_move)[self.racks[able]])
        counts_after = placement.counts[self.brokers[able]] + 1
        able = _smallest(able, np.maximum(0, counts_after - self.wanted[able]))
        able = _smallest(able, self._topic_levels(able, topic))
        over_fair = placement.bytes_held[self.brokers[able]] - self.fair_bytes[able]
        best = int(able[np.argmin(over_fair)])
        placement.give(partition, position, int(self.brokers[best]))
        return True

    def _neighbours(self, row: Ints, is_to_move: Flags) -> Ints:
        """Return, per rack, the replicas of a row that stay or have found their new place."""
        is_on_destination = self.number_of[row] < len(self.brokers)
        settled = row[~is_to_move | is_on_destination]
        racks = self.placement.racks_by_position[settled[settled >= 0]]
        return np.bincount(racks, minlength=self.topic_shares.shape[1])

    def _topic_levels(self, able: Ints, topic: int) -> Ints:
        """Return 0 for brokers below their share of the topic, 1 inside, else how far above."""
        topic_counts = self.placement.topic_counts[topic, self.brokers[able]].astype(np.int64)
        lowest_by_rack, highest_by_rack = whole_shares(self.topic_shares[topic])
        lowest, highest = lowest_by_rack[self.racks[able]], highest_by_rack[self.racks[able]]
        inside_or_above = np.where(topic_counts < highest, 1, 2 + topic_counts - highest)
        return np.asarray(np.where(topic_counts < lowest, 0, inside_or_above))


def _smallest(candidates: Ints, values: Ints) -> Ints:
    return np.asarray(candidates[values == values.min()])


def _make_room(
    placement: Placement, roles: Roles, is_to_move: Flags, partition: int, position: int
) -> bool:
    """Send a replica that has just come on to another broker; False where none makes room."""
    sizes = placement.cluster.size_bytes
    size = int(sizes[partition])
    is_leaving = np.append(roles.leaving, False)
    has_come = is_to_move & ~is_leaving[placement.replicas]
    free = FreeReplicas(placement, roles.destinations, has_come)
    destinations = np.flatnonzero(roles.destinations)
    destinations = destinations[~np.isin(destinations, placement.replicas[partition])]
    by_room = np.lexsort((destinations, -placement.room[destinations]))
    for destination in destinations[by_room].tolist():
        missing_bytes = size - free.room(destination)
        for other in np.flatnonzero(free.reachable(destination)).tolist():
            replicas = free.choices(destination, other)
            other_sizes = sizes[replicas.partitions]
            is_fitting = (other_sizes >= missing_bytes) & (other_sizes <= free.room(other))
            if is_fitting.any():
                fitting = replicas.only(is_fitting)
                smallest_first = np.lexsort((fitting.partitions, other_sizes[is_fitting]))
                free.move(fitting.only(smallest_first[:1]), other)
                placement.give(partition, position, destination)
                return True
    return False
