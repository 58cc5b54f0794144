"""Racks: how the replicas of one partition are spread over them, and how far from it they are.

    bounds_of_partition(4, rack_sizes=[3, 3])      # RackBounds([2, 2], [2, 2])
    replicas_to_move(racks, rack_sizes)            # one number per partition

A partition stands on as many racks as it can, and as evenly: no rack has two replicas more than
another that has a broker left for one.

    height of a partition = smallest h with: sum of min(brokers in the rack, h) >= replicas
    each rack holds at most min(brokers in the rack, height); one less where that leaves room

Worked example, 4 replicas on racks with 3, 2 and 1 brokers: height 1 has room for 3 only, height 2
for 2 + 2 + 1 = 5, so the first two racks hold one or two replicas each, and the last one holds one.
A partition that stands 3 + 1 + 0 there has one replica to move.
"""

from typing import NamedTuple

import numpy as np

from counterpoise.model.columns import Flags, Ints


class RackBounds(NamedTuple):
    """The least and the most that each rack holds when partitions are spread as they should be."""

    lowest: Ints
    highest: Ints

    @property
    def is_closed(self) -> bool:
        """Return whether each rack holds a fixed part, so that replicas never cross racks."""
        return bool((self.lowest == self.highest).all())


def bounds_of_partition(replication_factor: int, rack_sizes: Ints) -> RackBounds:
    """Return the least and the most replicas of one partition, per rack: as even as can be."""
    height = _stack_height(replication_factor, rack_sizes)
    highest = np.minimum(rack_sizes, height)
    has_room_to_spare = highest.sum() > replication_factor
    may_hold_one_less = (highest == height) & has_room_to_spare
    return RackBounds(highest - may_hold_one_less, highest)


def _stack_height(replication_factor: int, rack_sizes: Ints) -> int:
    """Return the most replicas of one partition that a rack has to hold."""
    for height in range(1, replication_factor):
        if np.minimum(rack_sizes, height).sum() >= replication_factor:
            return height
    return replication_factor


def spread_bounds(
    replica_counts: Ints, is_counted: Flags, weights: Ints, rack_sizes: Ints
) -> RackBounds:
    """Return the least and the most weight per rack of partitions that are spread over them.

    All but `rack_sizes` have one entry per partition.
    """
    lowest, highest = np.zeros_like(rack_sizes), np.zeros_like(rack_sizes)
    for factor in np.unique(replica_counts[is_counted]).tolist():
        total = int(weights[is_counted & (replica_counts == factor)].sum())
        lowest_of_one, highest_of_one = bounds_of_partition(factor, rack_sizes)
        lowest += lowest_of_one * total
        highest += highest_of_one * total
    return RackBounds(lowest, highest)


def stack_positions(racks: Ints) -> Ints:
    """Return, for each replica, how many replicas before it in its row are in the same rack.

    `racks` has a row per partition, -1 where there is no replica. [a, b, a, a] has [0, 0, 1, 2].
    """
    positions = np.zeros(racks.shape, dtype=np.int64)
    for column in range(1, racks.shape[1]):
        for earlier in range(column):
            positions[:, column] += racks[:, column] == racks[:, earlier]
    return positions


def pairs_in_racks(racks: Ints) -> Ints:
    """Return, per partition, the pairs of replicas in the same rack: 2 + 2 has 2, 3 + 1 has 3."""
    return np.asarray((stack_positions(racks) * (racks >= 0)).sum(axis=1))


def replicas_to_move(racks: Ints, rack_sizes: Ints) -> Ints:
    """Return, per partition, how many replicas have to change racks until it is spread evenly.

    `racks` has the racks of each partition's replicas, -1 for none; `rack_sizes` the brokers that
    count in each rack.
    """
    is_replica = racks >= 0
    factors = is_replica.sum(axis=1)
    shape = int(factors.max(initial=0)) + 1, len(rack_sizes)
    lowest, highest = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for factor in np.flatnonzero(np.bincount(factors)).tolist():
        lowest[factor], highest[factor] = bounds_of_partition(factor, rack_sizes)
    positions = stack_positions(racks)
    # Where each rack has brokers and need not hold any, one replica in each is as even as can be.
    is_open = bool((rack_sizes > 0).all()) & (lowest.sum(axis=1) == 0)[factors]
    rows = np.flatnonzero(~is_open | ((positions > 0) & is_replica).any(axis=1))
    racks, positions = racks[rows], positions[rows]
    is_replica, factors = is_replica[rows], factors[rows]
    row_factors = factors[:, None]
    too_many = (is_replica & (positions >= highest[row_factors, racks])).sum(axis=1)
    needed = (is_replica & (positions < lowest[row_factors, racks])).sum(axis=1)
    too_few = lowest.sum(axis=1)[factors] - needed
    moves = np.zeros(len(is_open), dtype=np.int64)
    moves[rows] = np.maximum(too_many, too_few)
    return moves
