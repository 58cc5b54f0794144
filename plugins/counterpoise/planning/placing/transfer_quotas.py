"""Offers: how many replicas, with how many bytes, each broker gives to the brokers of each rack.

    offers = make_transfer_quotas(placement, gives, takes, stock)      # {to_rack: [Offer, ...]}
    plan_bytes(placement, band, offers, takes)                # fills in `wanted_bytes`

Counts come from the lanes. Bytes are the least that brings every taker into the band, and relieves
every giver above it as far as the takers have room; by water level they come from the givers that
hold most of their share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.placing.rack_transfers import rack_transfers, split
from counterpoise.planning.placing.selection import sum_range
from counterpoise.planning.water_filling import fill, relative


@dataclass(slots=True, eq=False)
class TransferQuota:
    """What one broker gives to one rack: `count` of these replicas, which come smallest first."""

    source: int
    count: int
    partitions: Ints
    positions: Ints
    wanted_bytes: int = 0


def make_transfer_quotas(
    placement: Placement, gives: Ints, takes: Ints, movable_replicas: MovableReplicas
) -> dict[int, list[TransferQuota]]:
    """The offers to each rack, by rack; those with most freedom come last, since they make up for
    the others.
    """
    left = gives.copy()
    offers: dict[int, list[TransferQuota]] = {}
    for rack_transfer in rack_transfers(placement, gives, takes):
        sources = np.flatnonzero((placement.cluster.racks == rack_transfer.from_rack) & (left > 0))
        counts = split(rack_transfer.count, left[sources])
        left[sources] -= counts
        offers.setdefault(rack_transfer.to_rack, []).extend(
            TransferQuota(
                source, count, *movable_replicas.suiting(source, rack_transfer.to_rack, placement)
            )
            for source, count in zip(sources.tolist(), counts.tolist(), strict=True)
            if count
        )
    return {
        rack: sorted(offers[rack], key=lambda offer: (offer.count, offer.source))
        for rack in sorted(offers)
    }


def plan_bytes(
    placement: Placement, band: ByteBand, offers: Mapping[int, list[TransferQuota]], takes: Ints
) -> None:
    """What takers need comes first, for all racks; then what givers have too much, where there
    still is room.
    """
    held, inner = placement.bytes_held.copy(), band.inner
    taken = dict.fromkeys(offers, 0)
    for relieves in (False, True):
        for rack, its_offers in offers.items():
            destinations = np.flatnonzero((placement.cluster.racks == rack) & (takes > 0))
            sources = np.array([offer.source for offer in its_offers], dtype=np.int64)
            room = np.maximum(0, placement.room[destinations])
            if relieves:
                surplus = int(np.maximum(0, held[sources] - inner.highest[sources]).sum())
                space = int(
                    np.clip(
                        inner.highest[destinations] - placement.bytes_held[destinations], 0, room
                    ).sum()
                )
                wanted = taken[rack] + max(0, min(surplus, space - taken[rack]))
            else:
                wanted = int(
                    np.clip(
                        inner.lowest[destinations] - placement.bytes_held[destinations], 0, room
                    ).sum()
                )
            held[sources] += [offer.wanted_bytes for offer in its_offers]
            taken[rack] = _share_out(placement, band, its_offers, held[sources], wanted)
            held[sources] -= [offer.wanted_bytes for offer in its_offers]


def _share_out(
    placement: Placement, band: ByteBand, offers: list[TransferQuota], held: Ints, wanted: int
) -> int:
    """Gives each offer its part of the wanted bytes, within what its count allows; what they come
    to.
    """
    ranges = [
        sum_range(placement.cluster.size_bytes[offer.partitions], offer.count) for offer in offers
    ]
    least, most = (np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True))
    weights = relative(band.fair[[offer.source for offer in offers]])
    gives = held - fill(int(held.sum()) - wanted, held - most, held - least, held, weights)
    for offer, give in zip(offers, gives.tolist(), strict=True):
        offer.wanted_bytes = give
    return int(np.minimum(gives.sum(), UNBOUNDED))
