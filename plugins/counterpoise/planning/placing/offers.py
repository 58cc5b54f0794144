"""Offers: how many replicas, with how many bytes, each broker gives to the brokers of each rack.

    offers = make_offers(placement, gives, takes, stock)      # {to_rack: [Offer, ...]}
    plan_bytes(placement, band, offers, takes)                # fills in `wanted_bytes`

Counts come from the lanes. Bytes are the least that brings every taker into the band, and relieves every giver above
it as far as the takers have room; by water level they come from the givers that hold most of their share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.lanes import lanes, split
from counterpoise.planning.placing.selection import sum_range
from counterpoise.planning.placing.stock import Stock
from counterpoise.planning.placing.targets import ByteBand
from counterpoise.planning.water import fill, relative


@dataclass(slots=True, eq=False)
class Offer:
    """What one broker gives to one rack: `count` of these replicas, which come smallest first."""

    giver: int
    count: int
    partitions: Ints
    positions: Ints
    wanted_bytes: int = 0


def make_offers(placement: Placement, gives: Ints, takes: Ints, stock: Stock) -> dict[int, list[Offer]]:
    """The offers to each rack, by rack; those with most freedom come last, since they make up for the others."""
    left = gives.copy()
    offers: dict[int, list[Offer]] = {}
    for lane in lanes(placement, gives, takes):
        givers = np.flatnonzero((placement.cluster.racks == lane.from_rack) & (left > 0))
        counts = split(lane.count, left[givers])
        left[givers] -= counts
        offers.setdefault(lane.to_rack, []).extend(
            Offer(giver, count, *stock.suiting(giver, lane.to_rack, placement))
            for giver, count in zip(givers.tolist(), counts.tolist(), strict=True)
            if count
        )
    return {rack: sorted(offers[rack], key=lambda offer: (offer.count, offer.giver)) for rack in sorted(offers)}


def plan_bytes(placement: Placement, band: ByteBand, offers: Mapping[int, list[Offer]], takes: Ints) -> None:
    """What takers need comes first, for all racks; then what givers have too much, where there still is room."""
    held, inner = placement.bytes_held.copy(), band.inner
    taken = dict.fromkeys(offers, 0)
    for relieves in (False, True):
        for rack, its_offers in offers.items():
            takers = np.flatnonzero((placement.cluster.racks == rack) & (takes > 0))
            givers = np.array([offer.giver for offer in its_offers], dtype=np.int64)
            room = np.maximum(0, placement.room[takers])
            if relieves:
                surplus = int(np.maximum(0, held[givers] - inner.highest[givers]).sum())
                space = int(np.clip(inner.highest[takers] - placement.bytes_held[takers], 0, room).sum())
                wanted = taken[rack] + max(0, min(surplus, space - taken[rack]))
            else:
                wanted = int(np.clip(inner.lowest[takers] - placement.bytes_held[takers], 0, room).sum())
            held[givers] += [offer.wanted_bytes for offer in its_offers]
            taken[rack] = _share_out(placement, band, its_offers, held[givers], wanted)
            held[givers] -= [offer.wanted_bytes for offer in its_offers]


def _share_out(placement: Placement, band: ByteBand, offers: list[Offer], held: Ints, wanted: int) -> int:
    """Gives each offer its part of the wanted bytes, within what its count allows; what they come to."""
    ranges = [sum_range(placement.cluster.size_bytes[offer.partitions], offer.count) for offer in offers]
    least, most = (np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True))
    weights = relative(band.fair[[offer.giver for offer in offers]])
    gives = held - fill(int(held.sum()) - wanted, held - most, held - least, held, weights)
    for offer, give in zip(offers, gives.tolist(), strict=True):
        offer.wanted_bytes = give
    return int(np.minimum(gives.sum(), UNBOUNDED))
