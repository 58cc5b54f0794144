"""The main step: brokers above their target count give replicas to brokers below it, with the least
bytes.

    spread(placement, roles, wanted, band, shares)

Counts say how many replicas each broker gives and takes, bytes and topics which ones. A partition
gives at most one replica here, so that it keeps its other replicas as they are.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.destination_assignment import DestinationAssignment
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.placing.selection import choose
from counterpoise.planning.placing.topics import TopicQuotas, TopicShares, rank_within
from counterpoise.planning.placing.transfer_quotas import (
    TransferQuota,
    make_transfer_quotas,
    plan_bytes,
)
from counterpoise.planning.roles import Roles
from counterpoise.planning.water_filling import fill, relative

# an eighth of the band is what one giver may be off for the sake of topics; others make up for it
_NEAR_SHIFT = 3


def spread(
    placement: Placement, roles: Roles, wanted: Ints, band: ByteBand, shares: TopicShares
) -> None:
    """Moves replicas until counts are as `wanted`, as far as racks and untouched partitions allow."""
    gives = np.where(roles.sources, np.maximum(0, placement.counts - wanted), 0)
    takes = np.where(roles.destinations, np.maximum(0, wanted - placement.counts), 0)
    if not gives.any() or not takes.any():
        return
    offers = make_transfer_quotas(
        placement, gives, takes, MovableReplicas.of_sources(placement, gives > 0)
    )
    plan_bytes(placement, band, offers, takes)
    to_give = Counter[int]()
    for its_offers in offers.values():
        for offer in its_offers:
            to_give[offer.source] += offer.wanted_bytes
    for to_rack, its_offers in offers.items():
        destinations = np.flatnonzero((placement.cluster.racks == to_rack) & (takes > 0))
        partitions, positions = _picked(placement, band, shares, its_offers, destinations, to_give)
        _hand_out(placement, band, shares, takes, destinations, partitions, positions)


def _picked(
    placement: Placement,
    band: ByteBand,
    shares: TopicShares,
    offers: Sequence[TransferQuota],
    destinations: Ints,
    to_give: Counter[int],
) -> tuple[Ints, Ints]:
    """The replicas that go. Their partitions count as touched from here on, so that none gives two.

    What one giver gives too much or too little in bytes, the next ones make up for as far as they
    stay in their band. `to_give` has the bytes that each giver has still planned to give, to all
    racks.
    """
    sources = np.array(sorted({offer.source for offer in offers}), dtype=np.int64)
    quotas = TopicQuotas.of(placement, shares, sources, destinations)
    sizes = placement.cluster.size_bytes
    partitions: list[Ints] = []
    positions: list[Ints] = []
    missing, left = 0, sum(offer.count for offer in offers)
    for offer in offers:
        source, ends_with = (
            offer.source,
            int(placement.bytes_held[offer.source]) - to_give[offer.source],
        )
        below, above = ends_with - int(band.lowest[source]), ends_with - int(band.highest[source])
        more = min(max(missing * offer.count // left, min(0, above)), max(0, below))
        free = ~placement.touched[offer.partitions]
        its_partitions, its_positions = offer.partitions[free], offer.positions[free]
        wanted = offer.wanted_bytes + more
        off = int(band.highest[source] - band.lowest[source]) >> _NEAR_SHIFT
        tolerated = (wanted - min(off, max(0, -above)), wanted + min(off, max(0, below)))
        chosen = _chosen(placement, quotas, offer, its_partitions, wanted, tolerated)
        missing += offer.wanted_bytes - int(sizes[its_partitions[chosen]].sum())
        to_give[source] -= offer.wanted_bytes
        left -= offer.count
        placement.touched[its_partitions[chosen]] = True
        partitions.append(its_partitions[chosen])
        positions.append(its_positions[chosen])
    return np.concatenate(partitions), np.concatenate(positions)


def _chosen(
    placement: Placement,
    quotas: TopicQuotas,
    offer: TransferQuota,
    partitions: Ints,
    wanted: int,
    tolerated: tuple[int, int],
) -> Ints:
    """Which of `partitions` (smallest first) the offer's giver gives: `offer.count` of them, with
    `wanted` bytes.

    Those that their topics ask for come first, as many as the bytes allow; then those that no topic
    minds. Where that does not come to `tolerated` bytes (least and most), topics matter less, and
    in the end not at all.
    """
    sizes, topics = (
        placement.cluster.size_bytes[partitions],
        placement.cluster.topic_numbers[partitions],
    )
    should, may = quotas.of_source(offer.source)
    off = np.abs(sizes - max(0, wanted) // offer.count)
    ranks = rank_within(topics, np.argsort(off, kind="stable"))
    asked = np.flatnonzero(ranks < should[topics])
    unminded = np.flatnonzero((ranks >= should[topics]) & (ranks < may[topics]))
    asked = asked[
        : _affordable(
            sizes[asked], sizes[unminded], offer.count, wanted + (tolerated[1] - wanted) // 8
        )
    ]
    everything, chosen = np.arange(len(partitions)), asked
    for first, others in ((asked, unminded), (asked, everything), (asked[:0], everything)):
        rest = np.setdiff1d(others, first, assume_unique=True)
        left = offer.count - len(first)
        if len(rest) >= left:
            chosen = np.concatenate(
                [first, rest[choose(sizes[rest], left, wanted - int(sizes[first].sum()))]]
            )
            if tolerated[0] <= int(sizes[chosen].sum()) <= tolerated[1]:
                break
    quotas.take(topics[chosen])
    return chosen


def _affordable(asked: Ints, others: Ints, count: int, most: int) -> int:
    """How many of the smallest `asked` sizes fit into `most` bytes, when the smallest others make
    up the count.
    """
    least = np.concatenate(([0], np.cumsum(asked)))[: count + 1]
    missing = np.minimum(count - np.arange(len(least)), len(others))
    total = least + np.concatenate(([0], np.cumsum(others)))[missing]
    fits = np.flatnonzero(total <= max(most, int(total.min())))
    return int(fits[-1])


def _hand_out(
    placement: Placement,
    band: ByteBand,
    shares: TopicShares,
    takes: Ints,
    destinations: Ints,
    partitions: Ints,
    positions: Ints,
) -> None:
    """Largest first, each to the taker that lacks most bytes and may still take one, topics
    considered.
    """
    order = np.lexsort((partitions, -placement.cluster.size_bytes[partitions]))
    partitions, positions = partitions[order], positions[order]
    held, sizes = placement.bytes_held, placement.cluster.size_bytes[partitions]
    total = int(held[destinations].sum() + sizes.sum())
    upper = np.full(len(destinations), UNBOUNDED)
    lacking = (
        fill(
            total, held[destinations], upper, held[destinations], relative(band.fair[destinations])
        )
        - held[destinations]
    )
    left = {destination: int(takes[destination]) for destination in destinations.tolist()}
    destination_assignment = DestinationAssignment.to(
        placement, destinations, left, shares, lacking
    )
    columns = (
        placement.replicas[partitions].tolist(),
        placement.replicas[partitions, positions].tolist(),
        placement.cluster.topic_numbers[partitions].tolist(),
        sizes.tolist(),
    )
    destinations_chosen = np.array(
        [destination_assignment.next_for(*item) for item in zip(*columns, strict=True)],
        dtype=np.int64,
    )
    placed = destinations_chosen >= 0
    placement.touched[partitions[~placed]] = False
    placement.give_all(partitions[placed], positions[placed], destinations_chosen[placed])
