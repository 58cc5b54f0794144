"""The main step: brokers above their target count give replicas to brokers below it, with the least bytes.

    spread(placement, roles, wanted, band)

Counts say how many replicas each broker gives and takes. Bytes say which ones: as few bytes in all as bring every
taker into the band (or relieve the givers above it), taken by water level from the givers that hold most. A
partition gives at most one replica here, so that it keeps its other replicas as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.planning.arrays import UNBOUNDED, Ints
from counterpoise.planning.handout import Handout
from counterpoise.planning.lanes import Lane, lanes, split
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles
from counterpoise.planning.selection import choose, sum_range
from counterpoise.planning.stock import Stock
from counterpoise.planning.targets import ByteBand
from counterpoise.planning.topics import TopicQuotas, TopicShares, rank_within
from counterpoise.planning.water import Weights, fill

_LEAST_WEIGHT = 1e-6
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
    shares = TopicShares.of(placement, roles, wanted)
    by_taker_rack: dict[int, list[Lane]] = {}
    for lane in lanes(placement, gives, takes):
        by_taker_rack.setdefault(lane.to_rack, []).append(lane)
    for to_rack, its_lanes in sorted(by_taker_rack.items()):
        takers = np.flatnonzero((placement.cluster.racks == to_rack) & (flow.takes > 0))
        offers = [offer for lane in its_lanes for offer in _offers(placement, flow, stock, lane)]
        offers.sort(
            key=lambda offer: (offer.count, offer.giver)
        )  # those with most freedom last: they make up for others
        give_bytes = _least_bytes(placement, band, offers, takers)
        partitions, positions = _picked(placement, band, shares, offers, give_bytes, takers)
        _hand_out(placement, band, flow, shares, takers, partitions, positions)


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
    room = int(np.clip(band.highest[takers] - held[takers], 0, np.maximum(0, placement.room[takers])).sum())
    surplus = int(np.maximum(0, held[givers] - band.highest[givers]).sum())
    wanted = min(max(need, min(surplus, room)), int(np.clip(placement.room[takers], 0, UNBOUNDED // len(takers)).sum()))
    wanted += wanted >> _MARGIN_SHIFT
    ranges = [sum_range(sizes[offer.partitions], offer.count) for offer in offers]
    least, most = (np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True))
    weights = _weights(band.fair[givers])
    left = fill(int(held[givers].sum()) - wanted, held[givers] - most, held[givers] - least, held[givers], weights)
    return [int(give) for give in held[givers] - left]


def _picked(
    placement: Placement,
    band: ByteBand,
    shares: TopicShares,
    offers: Sequence[_Offer],
    give_bytes: Sequence[int],
    takers: Ints,
) -> tuple[Ints, Ints]:
    """The replicas that go. Their partitions count as touched from here on, so that none gives two.

    What one giver gives too much or too little in bytes, the next ones make up for.
    """
    givers = np.array(sorted({offer.giver for offer in offers}), dtype=np.int64)
    quotas = TopicQuotas.of(placement, shares, givers, takers)
    partitions: list[Ints] = []
    positions: list[Ints] = []
    missing, left = 0, sum(offer.count for offer in offers)
    for offer, wanted in zip(offers, give_bytes, strict=True):
        free = ~placement.touched[offer.partitions]
        its_partitions, its_positions = offer.partitions[free], offer.positions[free]
        wanted_now = _kept_in_band(placement, band, offer.giver, wanted, missing * offer.count // left)
        chosen = _chosen(placement, quotas, offer, its_partitions, wanted_now)
        missing += wanted - int(placement.cluster.size_bytes[its_partitions[chosen]].sum())
        left -= offer.count
        placement.touched[its_partitions[chosen]] = True
        partitions.append(its_partitions[chosen])
        positions.append(its_positions[chosen])
    return np.concatenate(partitions), np.concatenate(positions)


def _kept_in_band(placement: Placement, band: ByteBand, giver: int, wanted: int, more: int) -> int:
    """What a giver gives when it gives `more` for others as well, as far as that leaves it in its band."""
    held = int(placement.bytes_held[giver])
    if more > 0:
        return max(wanted, min(wanted + more, held - int(band.lowest[giver])))
    return min(wanted, max(wanted + more, held - int(band.highest[giver])))


def _chosen(placement: Placement, quotas: TopicQuotas, offer: _Offer, partitions: Ints, wanted: int) -> Ints:
    """Which of `partitions` the offer's giver gives: by topic first, then by bytes, `offer.count` of them."""
    sizes, topics = placement.cluster.size_bytes[partitions], placement.cluster.topic_numbers[partitions]
    should, may = quotas.of_giver(offer.giver)
    off = np.abs(sizes - max(0, wanted) // offer.count)
    ranks = rank_within(topics, np.argsort(off, kind="stable"))
    first = np.flatnonzero(ranks < should[topics])
    if len(first) > offer.count:
        first = np.sort(first[np.argsort(off[first], kind="stable")[: offer.count]])
    second = np.flatnonzero((ranks >= should[topics]) & (ranks < may[topics]))
    left = offer.count - len(first)
    if len(second) < left:
        second = np.setdiff1d(np.arange(len(partitions)), first)
    chosen = np.concatenate([first, second[choose(sizes[second], left, wanted - int(sizes[first].sum()))]])
    quotas.take(topics[chosen])
    return chosen


def _weights(fair: Ints) -> Weights | None:
    """Fair shares relative to the largest of them."""
    highest = int(fair.max(initial=0))
    return np.maximum(fair / highest, _LEAST_WEIGHT) if highest else None


def _hand_out(
    placement: Placement,
    band: ByteBand,
    flow: _Flow,
    shares: TopicShares,
    takers: Ints,
    partitions: Ints,
    positions: Ints,
) -> None:
    """Largest first, each to the taker that lacks most bytes and may still take one, topics considered."""
    order = np.lexsort((partitions, -placement.cluster.size_bytes[partitions]))
    partitions, positions = partitions[order], positions[order]
    held, sizes = placement.bytes_held, placement.cluster.size_bytes[partitions]
    total = int(held[takers].sum() + sizes.sum())
    upper, weights = np.full(len(takers), UNBOUNDED), _weights(band.fair[takers])
    lacking = fill(total, held[takers], upper, held[takers], weights) - held[takers]
    left = {taker: int(flow.takes[taker]) for taker in takers.tolist()}
    handout = Handout.to(placement, takers, left, shares, lacking)
    columns = (
        placement.replicas[partitions].tolist(),
        placement.replicas[partitions, positions].tolist(),
        placement.cluster.topic_numbers[partitions].tolist(),
        sizes.tolist(),
    )
    takers_chosen = np.array([handout.next_for(*item) for item in zip(*columns, strict=True)], dtype=np.int64)
    placed = takers_chosen >= 0
    placement.touched[partitions[~placed]] = False
    placement.give_all(partitions[placed], positions[placed], takers_chosen[placed])
