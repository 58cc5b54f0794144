"""Emptying brokers: each of their replicas goes to another broker, and no other replica moves.

    drain(placement, roles, wanted, band, cluster.may_drain)

Largest first, each to a broker of the best rack that still may take one by its count, and of these to the one that
lacks most bytes. Where the racks leave no such broker, the count gives way; where they leave no fair rack, the rack
does (the last broker of a rack leaves), and the partition is stacked as low as the rest allows.
"""

import numpy as np

from counterpoise.planning.arrays import Flags, Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles
from counterpoise.planning.targets import ByteBand


def drain(placement: Placement, roles: Roles, wanted: Ints, band: ByteBand, may_move: Flags) -> None:
    """Moves every replica of the partitions that `may_move` off the brokers that leave."""
    leaving = np.append(roles.leaving, False)
    movable = leaving[placement.replicas] & may_move[:, None]
    partitions, positions = np.nonzero(movable)
    order = np.lexsort((positions, partitions, -placement.cluster.size_bytes[partitions]))
    takers = np.flatnonzero(roles.takers)
    received: list[tuple[int, int]] = []
    for partition, position in zip(partitions[order].tolist(), positions[order].tolist(), strict=True):
        taker = _best_taker(placement, takers, wanted, band, partition, position)
        placement.give(partition, position, taker)
        received.append((partition, position))
    _even_out(placement, takers, received)


def _best_taker(placement: Placement, takers: Ints, wanted: Ints, band: ByteBand, partition: int, position: int) -> int:
    able, stacked = _able(placement, takers, partition, position)
    is_full = np.maximum(0, placement.counts[able] + 1 - wanted[able])
    lacking = band.fair[able] - placement.bytes_held[able]
    return int(able[np.lexsort((able, -lacking, is_full, stacked))[0]])


def _able(placement: Placement, takers: Ints, partition: int, position: int) -> tuple[Ints, Ints]:
    """Takers without a replica of the partition, and how many neighbours each one's rack would have."""
    row = placement.replicas[partition]
    others = np.delete(row, position)
    others = others[others >= 0]
    racks = placement.cluster.racks
    in_rack = np.bincount(racks[others], minlength=int(racks.max()) + 1)
    able = takers[~np.isin(takers, row[row >= 0])]
    return able, in_rack[racks[able]]


def _even_out(placement: Placement, takers: Ints, received: list[tuple[int, int]]) -> None:
    """Sends received replicas on from brokers that got too many to others of an equally good rack."""
    improved = True
    while improved:
        improved = False
        for partition, position in received:
            holder = int(placement.replicas[partition, position])
            if placement.counts[holder] <= placement.counts[takers].min() + 1:
                continue
            able, stacked = _able(placement, np.append(takers, holder), partition, position)
            racks = placement.cluster.racks
            row = placement.replicas[partition]
            others = row[(row >= 0) & (row != holder)]
            here = int((racks[others] == racks[holder]).sum())
            better = able[(stacked <= here) & (placement.counts[able] + 1 < placement.counts[holder])]
            if len(better):
                target = int(better[np.lexsort((better, placement.counts[better]))[0]])
                placement.give(partition, position, target)
                improved = True
