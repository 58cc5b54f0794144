"""The main step: brokers above their target count give replicas to brokers below it.

    spread(placement, roles, wanted, band, shares)

    surplus, missing = how many replicas each broker has above or below its wanted count
    quotas           = who gives how many replicas and bytes to which rack (`transfer_quotas`)
    for each destination rack:
        for each source: choose replicas by topic and size (below)
        assign them, largest first, to the brokers of the rack (`destination_assignment`)

    How the replicas of one source are chosen, so many with so many bytes:
        first those that their topics require, then those that their topics allow
        if that misses the bytes: those that topics require, then any
        if that misses the bytes too: any

Worked example: a source gives 2 replicas with 9 GB in all, 1 GB more or less tolerated. It has
replicas of 1, 2, 4 and 8 GB, and its topics allow all of them: 1 and 8 GB are chosen. If a topic
required the one of 4 GB, the best with it would be 4 + 8 = 12 GB. That is too much, so bytes win,
and it is 1 and 8 GB again.

Limits: a partition gives at most one replica here, so that it keeps its other replicas as they are.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.destination_assignment import DestinationAssignment
from counterpoise.planning.placing.selection import choose
from counterpoise.planning.placing.topics import TopicQuotas, TopicShares, rank_within
from counterpoise.planning.placing.transfer_quotas import (
    TransferQuota,
    make_transfer_quotas,
    plan_bytes,
)
from counterpoise.planning.roles import Roles
from counterpoise.planning.water_filling import fill, relative

# An eighth of the band is what a source may be off for the sake of topics; others make up for it.
_TOLERANCE_SHIFT = 3
_REQUIRED_SHARE_OF_TOLERANCE = 8


@dataclass(frozen=True, slots=True)
class _ByteGoal:
    """The bytes that one source should give to one rack, and the bounds that are as good."""

    wanted: int
    lowest: int
    highest: int

    @classmethod
    def of(
        cls, quota: TransferQuota, band: ByteBand, bytes_in_the_end: int, to_make_up: int
    ) -> "_ByteGoal":
        """Return the goal; `to_make_up` are bytes that other sources gave too little.

        The source makes up for them as far as it stays in its band.
        """
        lowest, highest = int(band.lowest[quota.source]), int(band.highest[quota.source])
        can_give_more = max(0, bytes_in_the_end - lowest)
        can_give_less = max(0, highest - bytes_in_the_end)
        making_up = min(max(to_make_up, -can_give_less), can_give_more)
        wanted = quota.wanted_bytes + making_up
        tolerance = (highest - lowest) >> _TOLERANCE_SHIFT
        return cls(
            wanted=wanted,
            lowest=wanted - min(tolerance, can_give_less),
            highest=wanted + min(tolerance, can_give_more),
        )

    @property
    def max_required_bytes(self) -> int:
        """Return the bytes that may be given for the sake of topics alone."""
        return self.wanted + (self.highest - self.wanted) // _REQUIRED_SHARE_OF_TOLERANCE

    def is_met(self, given_bytes: int) -> bool:
        return self.lowest <= given_bytes <= self.highest


def spread(
    placement: Placement, roles: Roles, wanted: Ints, band: ByteBand, shares: TopicShares
) -> None:
    """Move replicas until counts are as `wanted`, where racks and untouched partitions allow it."""
    counts = placement.counts
    surplus = np.where(roles.sources, np.maximum(0, counts - wanted), 0)
    missing = np.where(roles.destinations, np.maximum(0, wanted - counts), 0)
    if not surplus.any() or not missing.any():
        return
    quotas = make_transfer_quotas(placement, surplus, missing)
    plan_bytes(placement, band, quotas, missing)
    planned_bytes = Counter[int]()
    for rack_quotas in quotas.values():
        for quota in rack_quotas:
            planned_bytes[quota.source] += quota.wanted_bytes
    for to_rack, rack_quotas in quotas.items():
        is_destination = (placement.cluster.racks == to_rack) & (missing > 0)
        destinations = np.flatnonzero(is_destination)
        sources = np.array(sorted({quota.source for quota in rack_quotas}), dtype=np.int64)
        topic_quotas = TopicQuotas.of(placement, shares, sources, destinations)
        chosen = _choose_of_all(placement, band, topic_quotas, rack_quotas, planned_bytes)
        _assign(placement, band, shares, missing, destinations, *chosen)


def _choose_of_all(
    placement: Placement,
    band: ByteBand,
    topic_quotas: TopicQuotas,
    quotas: Sequence[TransferQuota],
    planned_bytes: Counter[int],
) -> tuple[Ints, Ints]:
    """Return partitions and positions of the replicas that go, and mark the partitions as touched.

    `planned_bytes` has what each source still plans to give, to all racks. What one source gives
    too much or too little, the next ones make up for.
    """
    sizes = placement.cluster.size_bytes
    partitions: list[Ints] = []
    positions: list[Ints] = []
    missing_bytes, remaining_count = 0, sum(quota.count for quota in quotas)
    for quota in quotas:
        bytes_in_the_end = int(placement.bytes_held[quota.source]) - planned_bytes[quota.source]
        to_make_up = missing_bytes * quota.count // remaining_count
        goal = _ByteGoal.of(quota, band, bytes_in_the_end, to_make_up)
        is_untouched = ~placement.touched[quota.partitions]
        own_partitions = quota.partitions[is_untouched]
        own_positions = quota.positions[is_untouched]
        chosen = _choose(placement, topic_quotas, quota, own_partitions, goal)
        placement.touched[own_partitions[chosen]] = True
        partitions.append(own_partitions[chosen])
        positions.append(own_positions[chosen])
        missing_bytes += quota.wanted_bytes - int(sizes[own_partitions[chosen]].sum())
        planned_bytes[quota.source] -= quota.wanted_bytes
        remaining_count -= quota.count
    return np.concatenate(partitions), np.concatenate(positions)


def _choose(
    placement: Placement,
    topic_quotas: TopicQuotas,
    quota: TransferQuota,
    partitions: Ints,
    goal: _ByteGoal,
) -> Ints:
    """Return which of `partitions` (smallest first) the source gives: `quota.count` of them."""
    sizes = placement.cluster.size_bytes[partitions]
    topics = placement.cluster.topic_numbers[partitions]
    should_give, may_give = topic_quotas.of_source(quota.source)
    mean_size = max(0, goal.wanted) // quota.count
    nearest_first = np.argsort(np.abs(sizes - mean_size), kind="stable")
    ranks = rank_within(topics, nearest_first)
    is_required = ranks < should_give[topics]
    is_allowed = ranks < may_give[topics]
    required = np.flatnonzero(is_required)
    allowed = np.flatnonzero(~is_required & is_allowed)
    affordable_count = _affordable_count(
        sizes[required], sizes[allowed], quota.count, goal.max_required_bytes
    )
    required = required[:affordable_count]
    everything, chosen = np.arange(len(partitions)), required
    for first, others in ((required, allowed), (required, everything), (required[:0], everything)):
        rest = np.setdiff1d(others, first, assume_unique=True)
        rest_count = quota.count - len(first)
        if len(rest) < rest_count:
            continue
        rest_bytes = goal.wanted - int(sizes[first].sum())
        chosen = np.concatenate([first, rest[choose(sizes[rest], rest_count, rest_bytes)]])
        if goal.is_met(int(sizes[chosen].sum())):
            break
    topic_quotas.take(topics[chosen])
    return chosen


def _affordable_count(required: Ints, others: Ints, count: int, max_bytes: int) -> int:
    """Return how many of the smallest required sizes fit, when the smallest others fill the count.

    Example: required sizes 1, 2 and 4, others of 1, 1 and 1, count 3 and at most 5 bytes. Two of
    the required ones and one other have 4 bytes, all three have 7, so it is 2.
    """
    required_sums = np.concatenate(([0], np.cumsum(required)))[: count + 1]
    other_sums = np.concatenate(([0], np.cumsum(others)))
    other_counts = np.minimum(count - np.arange(len(required_sums)), len(others))
    totals = required_sums + other_sums[other_counts]
    fits = np.flatnonzero(totals <= max(max_bytes, int(totals.min())))
    return int(fits[-1])


def _assign(
    placement: Placement,
    band: ByteBand,
    shares: TopicShares,
    missing: Ints,
    destinations: Ints,
    partitions: Ints,
    positions: Ints,
) -> None:
    """Move the chosen replicas, largest first, each to the destination that suits it best."""
    largest_first = np.lexsort((partitions, -placement.cluster.size_bytes[partitions]))
    partitions, positions = partitions[largest_first], positions[largest_first]
    sizes = placement.cluster.size_bytes[partitions]
    missing_bytes = _missing_bytes(placement, band, destinations, int(sizes.sum()))
    assignment = DestinationAssignment.to(
        placement, destinations, missing[destinations], shares, missing_bytes
    )
    columns = (
        placement.replicas[partitions].tolist(),
        placement.replicas[partitions, positions].tolist(),
        placement.cluster.topic_numbers[partitions].tolist(),
        sizes.tolist(),
    )
    assigned = [assignment.next_for(*replica) for replica in zip(*columns, strict=True)]
    chosen = np.array(assigned, dtype=np.int64)
    is_placed = chosen >= 0
    placement.touched[partitions[~is_placed]] = False
    placement.give_all(partitions[is_placed], positions[is_placed], chosen[is_placed])


def _missing_bytes(
    placement: Placement, band: ByteBand, destinations: Ints, arriving_bytes: int
) -> Ints:
    """Return what each destination misses to be even with the others when all has arrived."""
    held = placement.bytes_held[destinations]
    total = int(held.sum()) + arriving_bytes
    upper = np.full(len(destinations), UNBOUNDED)
    return fill(total, held, upper, held, relative(band.fair[destinations])) - held
