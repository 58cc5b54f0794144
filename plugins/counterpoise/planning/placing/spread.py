"""The main step: brokers above their target count give replicas to brokers below it.

    spread(placement, roles, wanted, band, shares)

    surplus, missing = how many replicas each broker has above or below its wanted count
    quotas           = who gives how many replicas and bytes to which rack (`transfers`)
    for each destination rack:
        for each source: choose replicas by topic and size (below)
        assign them, largest first, to the brokers of the rack (`_Destinations`)

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

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement, Replicas, Roles
from counterpoise.planning.placing.topics import TopicQuotas, TopicShares, rank_within
from counterpoise.planning.placing.transfers import (
    TransferQuota,
    choose,
    make_transfer_quotas,
    plan_bytes,
)
from counterpoise.planning.water_filling import fill, relative

# An eighth of the band is what a source may be off for the sake of topics; others make up for it.
_TOLERANCE_SHIFT = 3
_REQUIRED_SHARE_OF_TOLERANCE = 8
_MAX_COMPARED = 3

_Entry: TypeAlias = tuple[int, int]  # (-missing bytes, broker): the smallest comes first in a heap


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
        _assign(placement, band, shares, missing, destinations, chosen)


def _choose_of_all(
    placement: Placement,
    band: ByteBand,
    topic_quotas: TopicQuotas,
    quotas: Sequence[TransferQuota],
    planned_bytes: Counter[int],
) -> Replicas:
    """Return the replicas that go, and mark their partitions as touched.

    `planned_bytes` has what each source still plans to give, to all racks. What one source gives
    too much or too little, the next ones make up for.
    """
    sizes = placement.cluster.size_bytes
    all_chosen: list[Replicas] = []
    missing_bytes, remaining_count = 0, sum(quota.count for quota in quotas)
    for quota in quotas:
        bytes_in_the_end = int(placement.bytes_held[quota.source]) - planned_bytes[quota.source]
        to_make_up = missing_bytes * quota.count // remaining_count
        goal = _ByteGoal.of(quota, band, bytes_in_the_end, to_make_up)
        untouched = quota.replicas.only(~placement.touched[quota.replicas.partitions])
        chosen = untouched.only(_choose(placement, topic_quotas, quota, untouched.partitions, goal))
        placement.touched[chosen.partitions] = True
        all_chosen.append(chosen)
        missing_bytes += quota.wanted_bytes - int(sizes[chosen.partitions].sum())
        planned_bytes[quota.source] -= quota.wanted_bytes
        remaining_count -= quota.count
    return Replicas(*(np.concatenate(column) for column in zip(*all_chosen, strict=True)))


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
    replicas: Replicas,
) -> None:
    """Move the chosen replicas, largest first, each to the destination that suits it best."""
    all_sizes = placement.cluster.size_bytes
    largest_first = np.lexsort((replicas.partitions, -all_sizes[replicas.partitions]))
    replicas = replicas.only(largest_first)
    partitions, sizes = replicas.partitions, all_sizes[replicas.partitions]
    missing_bytes = _missing_bytes(placement, band, destinations, int(sizes.sum()))
    assignment = _Destinations.of(placement, destinations, missing, shares, missing_bytes)
    columns = (
        placement.replicas[partitions].tolist(),
        placement.replicas[replicas].tolist(),
        placement.cluster.topic_numbers[partitions].tolist(),
        sizes.tolist(),
    )
    assigned = [assignment.next_for(*replica) for replica in zip(*columns, strict=True)]
    chosen = np.array(assigned, dtype=np.int64)
    is_placed = chosen >= 0
    placement.touched[partitions[~is_placed]] = False
    placement.give_all(replicas.only(is_placed), chosen[is_placed])


def _missing_bytes(
    placement: Placement, band: ByteBand, destinations: Ints, arriving_bytes: int
) -> Ints:
    """Return what each destination misses to be even with the others when all has arrived."""
    held = placement.bytes_held[destinations]
    total = int(held.sum()) + arriving_bytes
    upper = np.full(len(destinations), UNBOUNDED)
    return fill(total, held, upper, held, relative(band.fair[destinations])) - held


# -- who gets them


@dataclass(slots=True)
class _Destination:
    """What one broker may still get; lists have an entry per topic, or per broker."""

    replicas_left: int
    bytes_left: int
    topic_counts: list[int]
    topic_shares: list[int]  # below this it should get more of the topic
    topic_limits: list[int]  # below this it may get more of the topic
    shared_partitions: list[int]  # with each other broker


@dataclass(slots=True)
class _Destinations:
    """Which broker of a rack gets each of the replicas that go there, largest first.

    ask the brokers in order of the bytes they miss, most first
        skip it if it has a replica of the partition, or no room for the bytes
        below its share of the topic: it fits
    stop at 3 that fit, or when the next one misses less than the first by more than one replica
    of those that fit: the one that shares fewest partitions with the other brokers of this one
    if none fits: the first that was asked, or one after it that has room for the topic

    Worked example: broker 4 misses 120 GB, broker 8 misses 119, both are below their share of the
    topic. A replica of 10 GB, with other replicas on brokers 1 and 2, could go to either. Broker 4
    shares 7 partitions with broker 1 already, broker 8 at most 5 with any of the two: broker 8 gets
    it, and misses 109 GB now. So the loss of any two brokers hits few partitions.
    """

    heap: list[_Entry]
    destinations: dict[int, _Destination]

    @classmethod
    def of(
        cls,
        placement: Placement,
        destinations: Ints,
        missing: Ints,
        shares: TopicShares,
        missing_bytes: Ints,
    ) -> "_Destinations":
        """Return the destinations; each gets as many replicas as it is `missing`, at most."""
        brokers = destinations.tolist()
        heap = list(zip((-missing_bytes).tolist(), brokers, strict=True))
        heapq.heapify(heap)
        shared = _shared_partitions(placement, destinations)
        topic_shares = np.maximum(1, shares.lowest(destinations))
        topic_limits = shares.highest(destinations)
        by_broker = {
            broker: _Destination(
                replicas_left=int(missing[broker]),
                bytes_left=int(room),
                topic_counts=placement.topic_counts[:, broker].tolist(),
                topic_shares=topic_shares[:, number].tolist(),
                topic_limits=topic_limits[:, number].tolist(),
                shared_partitions=shared[number].tolist(),
            )
            for number, (broker, room) in enumerate(
                zip(brokers, placement.room[destinations], strict=True)
            )
        }
        return cls(heap, by_broker)

    def next_for(self, row: list[int], source: int, topic: int, size: int) -> int:
        """Return the broker that gets a replica of the partition with replicas `row`.

        It is -1 when no broker may take it.
        """
        asked: list[_Entry] = []
        fitting: list[_Entry] = []
        fallback: _Entry | None = None
        while self.heap and len(fitting) < _MAX_COMPARED:
            entry = self.heap[0]
            if fitting and entry[0] - fitting[0][0] > size:
                break
            asked.append(heapq.heappop(self.heap))
            broker = entry[1]
            destination = self.destinations[broker]
            if broker in row or destination.bytes_left < size:
                continue
            if destination.topic_counts[topic] < destination.topic_shares[topic]:
                fitting.append(entry)
            elif fallback is None or self._suits_topic_better(entry, fallback, topic):
                fallback = entry
        others = [broker for broker in row if broker >= 0 and broker != source]
        chosen = self._with_fewest_shared(fitting, others) if fitting else fallback
        for entry in asked:
            if entry is not chosen:
                heapq.heappush(self.heap, entry)
        if chosen is None:
            return -1
        self._take(chosen, others, topic, size)
        return chosen[1]

    def _suits_topic_better(self, entry: _Entry, other: _Entry, topic: int) -> bool:
        """Return whether it may get more of the topic, and the other one may not."""
        mine, theirs = self.destinations[entry[1]], self.destinations[other[1]]
        if mine.topic_counts[topic] >= mine.topic_limits[topic]:
            return False
        return theirs.topic_counts[topic] >= theirs.topic_limits[topic]

    def _with_fewest_shared(self, entries: list[_Entry], others: list[int]) -> _Entry:
        """Return the entry whose broker shares fewest partitions with any of `others`."""

        def max_shared(entry: _Entry) -> int:
            shared = self.destinations[entry[1]].shared_partitions
            return max((shared[other] for other in others), default=0)

        return min(entries, key=lambda entry: (max_shared(entry), entry))

    def _take(self, entry: _Entry, others: list[int], topic: int, size: int) -> None:
        """Count the replica, and put the broker back in the heap if it may get more."""
        negative_bytes, broker = entry
        destination = self.destinations[broker]
        destination.replicas_left -= 1
        destination.bytes_left -= size
        destination.topic_counts[topic] += 1
        for other in others:
            destination.shared_partitions[other] += 1
        if destination.replicas_left:
            heapq.heappush(self.heap, (negative_bytes + size, broker))


def _shared_partitions(placement: Placement, brokers: Ints) -> Ints:
    """Return how many partitions each of `brokers` (rows) shares with each broker (columns)."""
    replicas, broker_count = placement.replicas, placement.cluster.broker_count
    row_of = np.full(broker_count + 1, -1, dtype=np.int64)
    row_of[brokers] = np.arange(len(brokers))
    counts = np.zeros(len(brokers) * broker_count, dtype=np.int64)
    for column in range(replicas.shape[1]):
        rows = row_of[replicas[:, column]]
        for other_column in range(replicas.shape[1]):
            others = replicas[:, other_column]
            is_pair = (rows >= 0) & (others >= 0)
            if column != other_column and is_pair.any():
                cells = rows[is_pair] * broker_count + others[is_pair]
                counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(len(brokers), broker_count)
