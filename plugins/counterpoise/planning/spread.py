"""The main step: brokers above their target count give replicas to brokers below it, with the least bytes.

    spread(placement, roles, wanted, band)

Counts say how many replicas each broker gives and takes. Bytes say which ones: as few bytes in all as bring every
taker into the band (or relieve the givers above it), taken by water level from the givers that hold most. A
partition gives at most one replica here, so that it keeps its other replicas as they are.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.planning.arrays import UNBOUNDED, Ints
from counterpoise.planning.lanes import Lane, lanes, split
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles
from counterpoise.planning.selection import choose, sum_range
from counterpoise.planning.stock import Stock
from counterpoise.planning.targets import ByteBand
from counterpoise.planning.water import fill

_MARGIN_SHIFT = 11  # 1/2048 more than the least bytes, so that rounding leaves no taker below its band


@dataclass(slots=True, eq=False)
class _Flow:
    """What is left to give and to take, in replicas per broker."""

    gives: Ints
    takes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """What one broker gives through one lane: so many of these replicas, which come smallest first."""

    giver: int
    count: int
    partitions: Ints
    positions: Ints


def spread(placement: Placement, roles: Roles, wanted: Ints, band: ByteBand) -> None:
    """Moves replicas until counts are as `wanted`, as far as racks and untouched partitions allow."""
    gives = np.where(roles.givers, np.maximum(0, placement.counts - wanted), 0)
    takes = np.where(roles.takers, np.maximum(0, wanted - placement.counts), 0)
    if not gives.any() or not takes.any():
        return
    stock = Stock.of_givers(placement, gives > 0)
    flow = _Flow(gives, takes)
    by_taker_rack: dict[int, list[Lane]] = {}
    for lane in lanes(placement, gives, takes):
        by_taker_rack.setdefault(lane.to_rack, []).append(lane)
    for to_rack, its_lanes in sorted(by_taker_rack.items()):
        takers = np.flatnonzero((placement.cluster.racks == to_rack) & (flow.takes > 0))
        offers = [offer for lane in its_lanes for offer in _offers(placement, flow, stock, lane)]
        give_bytes = _least_bytes(placement, band, offers, takers)
        partitions, positions = _picked(placement, offers, give_bytes)
        _hand_out(placement, flow, takers, partitions, positions)


def _offers(placement: Placement, flow: _Flow, stock: Stock, lane: Lane) -> list[_Offer]:
    """The lane's replicas, shared out over the brokers of its rack in proportion to what each has to give."""
    givers = np.flatnonzero((placement.cluster.racks == lane.from_rack) & (flow.gives > 0))
    counts = split(lane.count, flow.gives[givers])
    flow.gives[givers] -= counts
    return [
        _Offer(giver, count, *stock.suiting(giver, lane.to_rack, placement))
        for giver, count in zip(givers.tolist(), counts.tolist(), strict=True)
        if count
    ]


def _least_bytes(placement: Placement, band: ByteBand, offers: Sequence[_Offer], takers: Ints) -> list[int]:
    """How many bytes each offer should come to: in all the least that does, from those who hold most."""
    held, sizes = placement.bytes_held, placement.cluster.size_bytes
    givers = np.array([offer.giver for offer in offers], dtype=np.int64)
    need = int(np.maximum(0, band.lowest[takers] - held[takers]).sum())
    room = int(np.maximum(0, band.highest[takers] - held[takers]).sum())
    surplus = int(np.maximum(0, held[givers] - band.highest[givers]).sum())
    wanted = max(need, min(surplus, room))
    wanted += wanted >> _MARGIN_SHIFT
    ranges = [sum_range(sizes[offer.partitions], offer.count) for offer in offers]
    least, most = (np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True))
    left = fill(int(held[givers].sum()) - wanted, held[givers] - most, held[givers] - least, held[givers])
    return [int(give) for give in held[givers] - left]


def _picked(placement: Placement, offers: Sequence[_Offer], give_bytes: Sequence[int]) -> tuple[Ints, Ints]:
    """The replicas that go. Their partitions count as touched from here on, so that none gives two."""
    partitions: list[Ints] = []
    positions: list[Ints] = []
    for offer, wanted in zip(offers, give_bytes, strict=True):
        free = ~placement.touched[offer.partitions]
        its_partitions, its_positions = offer.partitions[free], offer.positions[free]
        chosen = choose(placement.cluster.size_bytes[its_partitions], offer.count, wanted)
        placement.touched[its_partitions[chosen]] = True
        partitions.append(its_partitions[chosen])
        positions.append(its_positions[chosen])
    return np.concatenate(partitions), np.concatenate(positions)


def _hand_out(placement: Placement, flow: _Flow, takers: Ints, partitions: Ints, positions: Ints) -> None:
    """Largest first, each to the taker that lacks most bytes and may still take one."""
    order = np.lexsort((partitions, -placement.cluster.size_bytes[partitions]))
    partitions, positions = partitions[order], positions[order]
    held, sizes = placement.bytes_held, placement.cluster.size_bytes[partitions]
    total = int(held[takers].sum() + sizes.sum())
    lacking = fill(total, held[takers], np.full(len(takers), UNBOUNDED), held[takers]) - held[takers]
    heap = [(-lacks, taker) for lacks, taker in zip(lacking.tolist(), takers.tolist(), strict=True)]
    heapq.heapify(heap)
    left = {taker: int(flow.takes[taker]) for taker in takers.tolist()}
    rows = placement.replicas[partitions].tolist()
    chosen = [_next_taker(heap, left, row, size) for row, size in zip(rows, sizes.tolist(), strict=True)]
    takers_chosen = np.array(chosen, dtype=np.int64)
    placed = takers_chosen >= 0
    placement.touched[partitions[~placed]] = False
    placement.give_all(partitions[placed], positions[placed], takers_chosen[placed])


def _next_taker(heap: list[tuple[int, int]], left: dict[int, int], row: list[int], size: int) -> int:
    """The taker for one replica, or -1: the one that lacks most bytes and holds no replica of the partition."""
    passed: list[tuple[int, int]] = []
    found = -1
    while heap and found < 0:
        lacking, taker = heapq.heappop(heap)
        if taker in row:
            passed.append((lacking, taker))
            continue
        found = taker
        left[taker] -= 1
        if left[taker]:
            passed.append((lacking + size, taker))
    for entry in passed:
        heapq.heappush(heap, entry)
    return found
