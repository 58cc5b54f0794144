"""Transfers: how many replicas each broker gives to each rack, and which.

    quotas = make_transfer_quotas(placement, surplus, missing)   # {to_rack: [TransferQuota, ...]}
    replicas = choose_of_all(placement, band, topic_quotas, rack_quotas, planned_bytes)

    1. replicas stay in their rack as far as it needs them; the others go to racks that need some
    2. the brokers of a rack share in that by what each has to give

Worked example: rack a has the brokers 1 and 2, with 6 and 3 replicas too many, and broker 3, with 4
too few; rack b has broker 4, with 5 too few. 4 replicas stay in rack a, 5 go from a to b. For the
first 4 the sources share 6 : 3, so 3 come from broker 1 and 1 from broker 2; the 5 for rack b come
3 : 2.

The replicas of one source, so many with so many bytes (`spread` says how many):

    first those that their topics require, then those that their topics allow
    if that misses the bytes: those that topics require, then any
    if that misses the bytes too: any

Worked example: a source gives 2 replicas with 9 GB in all, 1 GB more or less tolerated. It has
replicas of 1, 2, 4 and 8 GB, and its topics allow all of them: 1 and 8 GB are chosen. If a topic
required the one of 4 GB, the best with it would be 4 + 8 = 12 GB. That is too much, so bytes win,
and it is 1 and 8 GB again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Flags, Ints, rank_within
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.fair_shares import TopicShares
from counterpoise.planning.placement import Placement, Replicas

_MAX_EXCHANGES = 6
# An eighth of the band is what a source may be off for the sake of topics; others make up for it.
_TOLERANCE_SHIFT = 3
_REQUIRED_SHARE_OF_TOLERANCE = 8
_PHASES, _GOLDEN = 1024, 633  # multiples of the golden ratio lie evenly, wherever one starts


@dataclass(slots=True, eq=False)
class TransferQuota:
    """What one broker gives to one rack: `count` of these replicas, which come smallest first."""

    source: int
    count: int
    replicas: Replicas
    wanted_bytes: int = 0  # `spread` fills it in


def make_transfer_quotas(
    placement: Placement, surplus: Ints, missing: Ints, may_go: Flags
) -> dict[int, list[TransferQuota]]:
    """Return the quotas by destination rack; `surplus` and `missing` are replicas per broker,
    `may_go` flags per partition.

    In a rack the largest come last, since they have most freedom to make up for the others.
    """
    racks = placement.cluster.racks
    held_by = placement.replicas_by_broker(may_go[:, None])
    remaining = surplus.copy()
    quotas: dict[int, list[TransferQuota]] = {}
    for from_rack, to_rack, rack_count in _rack_transfers(placement, surplus, missing, may_go):
        sources = np.flatnonzero((racks == from_rack) & (remaining > 0))
        counts = _proportional_parts(rack_count, remaining[sources])
        remaining[sources] -= counts
        rack_quotas = quotas.setdefault(to_rack, [])
        for source, count in zip(sources.tolist(), counts.tolist(), strict=True):
            if count:
                replicas = held_by[source]
                is_suitable = placement.suits(replicas, to_rack)
                rack_quotas.append(TransferQuota(source, count, replicas.only(is_suitable)))
    return {
        rack: sorted(quotas[rack], key=lambda quota: (quota.count, quota.source))
        for rack in sorted(quotas)
    }


def _rack_transfers(
    placement: Placement, surplus: Ints, missing: Ints, may_go: Flags
) -> list[tuple[int, int, int]]:
    """Return (from rack, to rack, replicas), those inside a rack first.

    Between racks, the one that has most suitable replicas gives first.
    """
    racks = placement.cluster.racks
    rack_count = int(racks.max(initial=-1)) + 1
    offered = np.bincount(racks, weights=surplus, minlength=rack_count).astype(np.int64)
    needed = np.bincount(racks, weights=missing, minlength=rack_count).astype(np.int64)
    inside = np.minimum(offered, needed)
    transfers = [(rack, rack, int(inside[rack])) for rack in np.flatnonzero(inside).tolist()]
    offered, needed = offered - inside, needed - inside
    suitable = _suitable_counts(placement, surplus, offered, needed, may_go)
    for to_rack in np.flatnonzero(needed).tolist():
        from_racks = np.flatnonzero(offered)
        by_suitable = np.lexsort((from_racks, -suitable[from_racks, to_rack]))
        for from_rack in from_racks[by_suitable].tolist():
            limits = offered[from_rack], needed[to_rack], suitable[from_rack, to_rack]
            count = int(min(limits))
            if count:
                transfers.append((from_rack, to_rack, count))
                offered[from_rack] -= count
                needed[to_rack] -= count
    return transfers


def _suitable_counts(
    placement: Placement, surplus: Ints, offered: Ints, needed: Ints, may_go: Flags
) -> Ints:
    """Return how many replicas that may go suit each rack in need: from rack x to rack."""
    racks = placement.cluster.racks
    counts = np.zeros((len(offered), len(needed)), dtype=np.int64)
    if not offered.any() or not needed.any():
        return counts
    is_source = np.append((surplus > 0) & (offered[racks] > 0), False)
    replicas = Replicas(*np.nonzero(is_source[placement.replicas] & may_go[:, None]))
    from_racks = racks[placement.replicas[replicas]]
    for to_rack in np.flatnonzero(needed).tolist():
        is_suitable = placement.suits(replicas, to_rack)
        counts[:, to_rack] = np.bincount(from_racks[is_suitable], minlength=len(offered))
    return counts


def _proportional_parts(total: int, parts: Ints) -> Ints:
    """Return `total` shared out in proportion to `parts`, never more than a part.

    The largest remainders round up: 5 in proportion to [6, 3, 1] is [3, 2, 0].
    """
    whole = int(parts.sum())
    if total >= whole:
        return parts.copy()
    shares, remainders = np.divmod(parts * total, whole)
    largest_first = np.lexsort((np.arange(len(parts)), -remainders))
    leftover = total - int(shares.sum())
    shares[largest_first[:leftover]] += 1
    return shares


# -- which replicas


@dataclass(slots=True, eq=False)
class TopicQuotas:
    """What sources should give of each topic to the brokers of one rack; each source asks once.

    Fields have one entry per topic. Worked example: two sources hold 4 replicas of a topic each and
    should hold 3; the destinations miss 2. Each source has 1 too many, and its part of what is
    needed is 2 x 1 / 2 = 1, so each should give 1, and may give no more.
    """

    shares: TopicShares
    counts: Ints  # topics x brokers, of the placement before this rack's moves
    needed: Ints  # by the destinations, up to their lowest shares
    room: Ints  # of the destinations, up to their highest shares
    remaining_surplus: Ints  # above the highest share, of the sources that have not asked yet
    remaining_spare: Ints  # above the lowest share, of the same
    phases: Ints  # 0 to _PHASES: where each topic rounds up

    @classmethod
    def of(
        cls, placement: Placement, shares: TopicShares, sources: Ints, destinations: Ints
    ) -> "TopicQuotas":
        counts = placement.topic_counts
        topic_counts = counts[:, destinations]
        missing = np.maximum(0, shares.lowest(destinations) - topic_counts)
        room = np.maximum(0, shares.highest(destinations) - topic_counts)
        surplus, spare = np.zeros_like(shares.totals), np.zeros_like(shares.totals)
        for source in sources.tolist():
            surplus += np.maximum(0, counts[:, source] - shares.highest(source))
            spare += np.maximum(0, counts[:, source] - shares.lowest(source))
        return cls(
            shares=shares,
            counts=counts,
            needed=missing.sum(axis=1),
            room=room.sum(axis=1),
            remaining_surplus=surplus,
            remaining_spare=spare,
            phases=np.arange(len(surplus)) * _GOLDEN % _PHASES,
        )

    def of_source(self, source: int) -> tuple[Ints, Ints]:
        """Return, per topic, how many replicas the source should give, and how many it may give.

        Its part of what is needed is what it can spare, relative to what all remaining sources can.
        Each topic rounds at another point, or the first sources would all round up together.

        Worked example: 3 replicas of a topic are needed; this source can spare 2, all remaining
        ones 4 together: its part is 3 x 2 / 4 = 1.5. A topic with phase 0 rounds it down to 1, one
        with the phase 512 of 1024 up to 2.
        """
        topic_counts = self.counts[:, source].astype(np.int64)
        surplus = np.maximum(0, topic_counts - self.shares.highest(source))
        spare = np.maximum(0, topic_counts - self.shares.lowest(source))
        available = np.minimum(self.needed, self.remaining_spare)
        numerators = available * spare * _PHASES + self.phases * self.remaining_spare
        part = numerators // np.maximum(1, self.remaining_spare * _PHASES)
        self.remaining_surplus -= surplus
        self.remaining_spare -= spare
        free_room = self.room - self.remaining_surplus  # which later sources do not have to fill
        should_give = np.minimum(np.maximum(surplus, np.minimum(part, free_room)), self.room)
        may_give = np.minimum(spare, np.maximum(should_give, free_room))
        return should_give, may_give

    def take(self, topics: Ints) -> None:
        """Count the topics of the replicas that a source gives."""
        given = np.bincount(topics, minlength=len(self.needed))
        self.needed = np.maximum(0, self.needed - given)
        self.room = np.maximum(0, self.room - given)


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


def choose_of_all(
    placement: Placement,
    band: ByteBand,
    topic_quotas: TopicQuotas,
    quotas: Sequence[TransferQuota],
    planned_bytes: Counter[int],
) -> Replicas:
    """Return the replicas that go, of partitions without a new replica.

    `planned_bytes` has what each source still plans to give, to all racks. What one source gives
    too much or too little, the next ones make up for.
    """
    sizes, is_free = placement.cluster.size_bytes, placement.new_replicas == 0
    all_chosen: list[Replicas] = []
    missing_bytes, remaining_count = 0, sum(quota.count for quota in quotas)
    for quota in quotas:
        bytes_in_the_end = int(placement.bytes_held[quota.source]) - planned_bytes[quota.source]
        to_make_up = missing_bytes * quota.count // remaining_count
        goal = _ByteGoal.of(quota, band, bytes_in_the_end, to_make_up)
        free = quota.replicas.only(is_free[quota.replicas.partitions])
        chosen = free.only(_choose(placement, topic_quotas, quota, free.partitions, goal))
        is_free[chosen.partitions] = False
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
        chosen = np.concatenate([first, rest[_nearest_sum(sizes[rest], rest_count, rest_bytes)]])
        if goal.lowest <= int(sizes[chosen].sum()) <= goal.highest:
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


def _nearest_sum(sorted_sizes: Ints, count: int, wanted_sum: int) -> Ints:
    """Return positions of `count` sizes (or of all) whose sum is near `wanted_sum`.

    1. slide a window over the sizes, smallest first, until its sum reaches the wanted one
    2. exchange one size inside for one outside, the pair that leaves least, up to 6 times

    Worked example: two of [1, 2, 4, 8] that sum to 9. The windows have 3, 6 and 12, so it starts
    with 4 + 8 = 12, which is 3 too many. To exchange 4 for 1 leaves nothing over: 1 + 8 = 9.
    Two or three exchanges are enough for a remainder far below 0.1 %.
    """
    if count >= len(sorted_sizes):
        return np.arange(len(sorted_sizes))
    if count <= 0:
        return np.arange(0)
    sums_before = np.concatenate(([0], np.cumsum(sorted_sizes)))
    window_sums = sums_before[count:] - sums_before[:-count]
    start = min(int(np.searchsorted(window_sums, wanted_sum)), len(window_sums) - 1)
    is_chosen = np.zeros(len(sorted_sizes), dtype=np.bool_)
    is_chosen[start : start + count] = True
    excess = int(window_sums[start]) - wanted_sum
    for _ in range(_MAX_EXCHANGES):
        exchange = _best_exchange(sorted_sizes, is_chosen, excess)
        if exchange is None:
            break
        leaving, entering = exchange
        is_chosen[leaving], is_chosen[entering] = False, True
        excess -= int(sorted_sizes[leaving] - sorted_sizes[entering])
    return np.flatnonzero(is_chosen)


def _best_exchange(sizes: Ints, is_chosen: Flags, excess: int) -> tuple[int, int] | None:
    """Return positions (leaving, entering) that bring the excess nearest to 0, or None."""
    if excess == 0:
        return None
    chosen, others = np.flatnonzero(is_chosen), np.flatnonzero(~is_chosen)
    wanted_sizes = sizes[chosen] - excess
    next_larger = np.searchsorted(sizes[others], wanted_sizes)
    best: tuple[int, int, int] | None = None
    for neighbours in (next_larger, next_larger - 1):
        candidates = np.clip(neighbours, 0, len(others) - 1)
        remainders = np.abs(sizes[others[candidates]] - wanted_sizes)
        nearest = int(np.argmin(remainders))
        entering = int(others[candidates[nearest]])
        found = (int(remainders[nearest]), int(chosen[nearest]), entering)
        best = found if best is None else min(best, found)
    if best is None or best[0] >= abs(excess):
        return None
    return best[1], best[2]
