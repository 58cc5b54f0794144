"""One local search for where replicas stand: moves of one replica, and exchanges of two.

    search(placement, roles, policy, may_copy_for_traffic=True)

Racks and counts are as they should be when it begins, and get no worse. What is better, each before
the next:

    bytes    fewer bytes outside the band around each broker's share, summed over the brokers
    traffic  fewer bytes per second outside the band of what brokers take in, where rates are known
    copied   fewer bytes of replicas that stand where they did not stand before

    a replica larger than any share gets a broker of its own, and stays there: the others can
        reach their band only where they share what is left
    repeat, until nothing changes:
        for each load, bytes first:
            take the broker farthest outside that has not failed since it changed last
                need, room = what should go from the heavy to the light one, what may go at most
                for the brokers at the other end, a few at a time, until some exchange gains:
                    for every replica of the heavy one:
                        bisect those of the light one for one that leaves a shift of `need`, or of
                        `room`; also among those that come home by it; also none, where counts allow
                of what gains half of the best or more: what copies least for each byte gained
                nothing gains: failed, until it changes, or until the last sweep
        for the broker farthest above the lower end of its band, until all have failed:
            for each one that arrivals of it come from, those with most room in their band first:
                send the arrival home that saves most, for another replica, where both bands allow
                    it; a second new replica of its partition only where all brokers receive, and
                    that saves twice as much and a thousandth of a share
            nothing is saved: failed, until it changes
        over where the work that saves a two-thousandth has saved less

Worked example: brokers 1 and 2 hold 9 + 2 + 1 and 1 + 1 + 1 GB, and the band reaches from 6.5 to
8.5 GB. Broker 1 has 3.5 GB too many, broker 2 as many too few: 7 GB are outside. To exchange 9 for
1 shifts 8 GB, and 2 for 1 shifts 1 GB; either leaves 5 GB outside. The first copies 10 GB, the
second 3, so it is the second.

Work is counted in replicas that are looked at, never in seconds: the same input gives the same
plan. Where the work of a search is over, `Search.has_ended_early` says so.

Limits: a local optimum of moves and exchanges of two. A gain below a ten-thousandth of a share is
none, unless it is a tenth of what is outside.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import islice, product
from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.fair_shares import (
    AIM_PERCENT,
    TopicShares,
    min_gain_of,
    replica_costs,
    shares_of_bytes,
    traffic_band,
)
from counterpoise.planning.placement import Placement, Roles

MAX_WORK: Final = 1_000_000_000  # replicas looked at
MAX_SAVING_WORK: Final = 500_000  # of those, for each two-thousandth less that is copied
_NEAR: Final = 1.001  # of the bytes that have to be copied anyway: so few are not worth the work
_MIN_SAVINGS: Final = 2_000
_MIN_GAINS: Final = 10_000  # of bytes: so many of them make up a share
_MIN_GAINS_TO_HARM: Final = 10  # so many are worth a partition's second new replica
_MAX_STEPS: Final = 10  # into the band, of a broker that is just outside
_SPENT_PARTS: Final = 1_000  # of what may be copied: with one of them left, it is spent
_SPENT_GAIN: Final = 10  # times the least gain of before
_NEAR_PRICE: Final = 1.01  # so much dearer is as good
_SPARE_OFFERS: Final = 2  # of a pair of brokers, for each that may be needed
_PARTNERS_AT_ONCE: Final = 4
_MAX_PARTNERS_FOR_TRAFFIC: Final = 12
_MAX_PARTNERS_FOR_ARRIVALS: Final = 4
_MAX_DESTINATIONS: Final = 60  # of a broker whose smallest replicas are looked for
_SAMPLE: Final = 128  # replicas of a broker that are tried first; all of them before it fails
_MAX_PAIRS: Final = 100_000  # of two brokers that are all looked at, before one of them fails
_MAX_PAIRS_TO_SAVE: Final = 20_000
_HARMS: Final = 3  # as `_Choices` counts them
_NOT_THERE: Final = -2  # unlike NOBODY, so that a gap in a row before is no broker of today's


def search(
    placement: Placement,
    roles: Roles,
    policy: BalancePolicy,
    *,
    may_copy_for_traffic: bool,
    max_steps: int = _MAX_STEPS,
) -> None:
    """Move replicas until no move or exchange makes bytes, traffic or copies better.

    Without `may_copy_for_traffic`, traffic is evened with replicas that move anyway.
    """
    searched = Search.of(
        placement,
        roles,
        policy,
        may_copy_for_traffic=may_copy_for_traffic,
        max_steps=max_steps,
    )
    searched.run()
    placement.has_budget_ended |= searched.has_ended_early
    placement.traffic_gains |= searched.gains


def even_counts(placement: Placement, roles: Roles, policy: BalancePolicy, wanted: Ints) -> None:
    """Move replicas until each broker has its `wanted` count, as far as racks and room allow."""
    if (placement.counts != wanted)[roles.sharing].any():
        Search.of(placement, roles, policy, may_copy_for_traffic=False).even_counts(wanted)


# -- what is evened


@dataclass(eq=False)
class Load:
    """One sum per broker, of bytes or of bytes per second, and the band that it should be in."""

    weights: Ints  # one per partition
    held: Ints
    band: ByteBand
    is_counted: Flags  # brokers that are to be in the band
    may_copy: bool  # also what nothing else asks for
    max_partners: int  # that a broker is tried with
    min_gain: int

    @property
    def outside(self) -> Ints:
        return np.where(self.is_counted, self.band.bytes_outside(self.held), 0)

    def gains(self, heavy: int, light: int, shifts: Ints) -> Ints:
        """Return by how much less the two are outside if the light one gets each of the shifts."""
        return self.band.gains_of_two(self.held, heavy, light, shifts)

    def move(self, partition: int, source: int, destination: int) -> None:
        weight = self.weights[partition]
        self.held[source] -= weight
        self.held[destination] += weight


def _traffic_of(
    placement: Placement, roles: Roles, policy: BalancePolicy, *, may_copy: bool
) -> Load:
    """Return the bytes that each broker takes in per second.

    Where any is outside of its band, a narrower one is aimed at. Without `may_copy` only brokers
    count that get replicas anyway.
    """
    band, traffic = (
        traffic_band(placement, roles, policy.bytes_in_tolerance_percent),
        placement.traffic,
    )
    if band.bytes_outside(traffic)[roles.sharing].any():
        band = band.narrowed(AIM_PERCENT)
    is_counted = roles.sharing if may_copy else roles.sharing & (placement.arriving != 0)
    partners = _MAX_PARTNERS_FOR_TRAFFIC if may_copy else _MAX_PARTNERS_FOR_ARRIVALS
    rates, least = placement.cluster.bytes_in, min_gain_of(band)
    return Load(rates, traffic, band, is_counted, may_copy, partners, least)


class _Exchange(NamedTuple):
    """A replica of `going` goes from the heavy to the light broker, one of `returning` back."""

    heavy: int
    light: int
    going: int  # a partition
    returning: int  # a partition; NOBODY where none comes back
    copied: int  # bytes more
    gain: int
    harm: int  # of the worse of the two, as in `_Choices`

    @property
    def cost(self) -> tuple[int, float, int, int, int, int, int]:
        return (
            self.harm,
            self.copied / self.gain,
            -self.gain,
            self.heavy,
            self.light,
            self.going,
            self.returning,
        )


class _Choices(NamedTuple):
    """Partitions with a replica that may go from one broker to another, one entry for each."""

    partitions: Ints
    copied: Ints  # bytes more; below 0 where a replica comes home
    harm: Ints  # 0: the partition has one new replica then, or none; 1: several; 2: no old one

    def only(self, chosen: Ints | Flags | slice) -> "_Choices":
        return _Choices(self.partitions[chosen], self.copied[chosen], self.harm[chosen])

    @property
    def least_harm(self) -> int:
        """Return the smallest partition of those that do least harm; NOBODY where there is none."""
        if not len(self.partitions):
            return NOBODY
        return int(self.partitions[np.argmin(self.harm)])

    @property
    def or_none(self) -> "_Choices":
        """Return the same with an entry at the end (NOBODY) for no replica."""
        return _Choices(
            np.append(self.partitions, 0), np.append(self.copied, 0), np.append(self.harm, 0)
        )


# -- the search


@dataclass(eq=False)
class Search:
    placement: Placement
    roles: Roles
    loads: tuple[Load, ...]  # in the order of what counts more
    topic_shares: TopicShares
    home: Ints  # replicas before, as wide as now
    held_by: list[Ints]  # partitions that may move, per broker, smallest first
    is_pinned: Flags  # per partition: too large to go anywhere else
    factors: Ints  # replicas per partition
    replica_costs: Ints  # per broker
    bytes_to_buy: int  # that may be copied, when it begins
    bytes_left: int  # of these
    max_work: int
    max_steps: int
    changes: list[int]  # of each broker, so far
    # What found nothing between two brokers, with their changes by then: nothing until they change.
    failed: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    gains: dict[int, int] = field(default_factory=dict)
    work: int = 0

    @classmethod
    def of(
        cls,
        placement: Placement,
        roles: Roles,
        policy: BalancePolicy,
        *,
        may_copy_for_traffic: bool,
        max_copied_bytes: int = UNBOUNDED,
        max_work: int = UNBOUNDED,
        max_steps: int = _MAX_STEPS,
        may_leave: Flags | None = None,
    ) -> "Search":
        """Return the search; `may_leave` says of each replica whether it may, else all may."""
        cluster = placement.cluster
        bytes_to_buy = max_copied_bytes - int(placement.arriving.sum())
        percent = policy.bytes_tolerance_percent
        of_bytes = shares_of_bytes(placement, roles, percent)
        band = of_bytes.band
        sizes, held = cluster.size_bytes, placement.bytes_held.copy()
        least = max(1, int(band.fair.max(initial=0)) // _MIN_GAINS)
        loads = [Load(sizes, held, band, roles.sharing, True, cluster.broker_count, least)]
        if cluster.knows_traffic:
            loads.append(_traffic_of(placement, roles, policy, may_copy=may_copy_for_traffic))
        is_open = cluster.may_change[:, None]
        is_open = is_open if may_leave is None else is_open & may_leave
        return cls(
            placement=placement,
            roles=roles,
            loads=tuple(loads),
            topic_shares=TopicShares.of(placement, roles, placement.counts),
            home=np.where(placement.original >= 0, placement.original, _NOT_THERE),
            held_by=[held.partitions for held in placement.replicas_by_broker(is_open)],
            is_pinned=of_bytes.is_giant,
            factors=placement.replica_counts,
            replica_costs=replica_costs(cluster, roles),
            bytes_to_buy=bytes_to_buy,
            bytes_left=bytes_to_buy,
            max_work=max_work,
            max_steps=max_steps,
            changes=[0] * cluster.broker_count,
        )

    @property
    def has_ended_early(self) -> bool:
        return self.work >= min(self.max_work, MAX_WORK)

    def even_bytes(self) -> None:
        """Search for fewer bytes outside their band, and for nothing else."""
        self._even(0)

    def run(self) -> None:
        """Search until nothing changes any more, or the work is over."""
        while not self.has_ended_early:
            has_evened = [self._even(order) for order in range(len(self.loads))]
            has_saved = not self.copies_little_more_than_needed(_NEAR) and self._copy_less()
            if not has_saved and not any(has_evened[1:]):
                return

    def copies_little_more_than_needed(self, near: float) -> bool:
        """Return whether no more than `near` times the bytes are copied that brokers have to get to
        come into their band, or that have to leave theirs: then nearly nothing can be saved.

        What brokers have too many is not counted: a goal may be unable to take it away.
        """
        band, roles, cluster = self.loads[0].band, self.roles, self.placement.cluster
        original, sizes = self.placement.original, cluster.size_bytes
        before = cluster.load(original, sizes)
        receiving = roles.sharing & roles.destinations
        missing_bytes = int(np.maximum(0, band.lowest - before)[receiving].sum())
        movable = cluster.load(np.where(cluster.may_change[:, None], original, NOBODY), sizes)
        leaving_bytes = int(movable[roles.leaving].sum())
        return int(self.placement.arriving.sum()) <= max(missing_bytes, leaving_bytes) * near

    # -- counts

    def even_counts(self, wanted: Ints) -> None:
        """Move replicas from brokers above their `wanted` count to brokers below it.

        In bulk between two brokers, of partitions without another new replica first; then, where
        no pair is left, over a third broker.
        """
        for harm in range(_HARMS):
            for is_first_turn in (True, False):
                self._fill_pairs(wanted, harm, shares_out=is_first_turn)
        while self._move_by_third(wanted):
            pass

    @property
    def _is_spent(self) -> bool:
        """Return whether next to nothing is left to buy: then only what copies no more can be
        exchanged. A search that may buy nothing from the first has all its time for that.

        Most of that gains little for its work, so only samples are looked at, for larger gains, and
        for traffic with as few partners as where nothing may be copied for it.
        """
        return self.bytes_left * _SPENT_PARTS < self.bytes_to_buy

    def buy_counts(self, wanted: Ints) -> None:
        """Move replicas from brokers above their `wanted` count to brokers below it, while bytes
        are left: first those that even counts most for their bytes.
        """
        while self._buy_once(wanted):
            pass

    def _buy_once(self, wanted: Ints) -> bool:
        """Move each partition once at most, so that what was found holds; return whether any moved.

        The queue has a pair of brokers for its next replica, at a price that rises while others
        move, and never falls: where the lowest one is about the same now, no move is cheaper.
        """
        lack, sources, destinations = self._lacking(wanted)
        most_lacking = destinations[np.lexsort((destinations, -lack[destinations]))]
        moved: set[int] = set()
        queue: list[tuple[float, int, int, int, Iterator[int]]] = []
        for source, destination in product(
            sources.tolist(), most_lacking.tolist()[:_MAX_DESTINATIONS]
        ):
            partitions = self._choices(self.held_by[source], source, destination).partitions
            count = _SPARE_OFFERS * min(int(-lack[source]), int(lack[destination]))
            smallest_first = iter(partitions[:count].tolist())
            queue += (
                (0.0, partition, source, destination, smallest_first)
                for partition in islice(smallest_first, 1)
            )
        heapify(queue)
        while queue:
            price, partition, source, destination, others = heappop(queue)
            counts, room = self.placement.counts, int(self.placement.room[destination])
            is_wanted = (
                counts[source] > wanted[source] and counts[destination] < wanted[destination]
            )
            if not is_wanted or self._size(partition) > min(room, self.bytes_left):
                continue  # the pair's other replicas are larger
            is_cheapest = self._price(partition, source, destination) <= price * _NEAR_PRICE
            if is_cheapest and partition not in moved:
                self._move(partition, source, destination)
                moved.add(partition)
            if partition in moved:
                partition = next((other for other in others if other not in moved), NOBODY)
            if partition != NOBODY:
                price = self._price(partition, source, destination)
                heappush(queue, (price, partition, source, destination, others))
        return bool(moved)

    def _price(self, partition: int, source: int, destination: int) -> float:
        """Return the bytes of a move for what it takes off the sum of squared counts."""
        counts, costs = self.placement.counts, self.replica_costs
        given = (2 * counts[source] - 1) * costs[source]
        received = (2 * counts[destination] + 1) * costs[destination]
        return self._size(partition) / max(1, int(given - received))

    def _size(self, partition: int) -> int:
        return int(self.placement.cluster.size_bytes[partition])

    def _lacking(self, wanted: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what each broker lacks, those that have too many, and those that lack some."""
        lack = wanted - self.placement.counts
        sources = np.flatnonzero((lack < 0) & self.roles.sharing)
        return lack, sources, np.flatnonzero((lack > 0) & self.roles.sharing)

    def _fill_pairs(self, wanted: Ints, harm: int, *, shares_out: bool) -> None:
        """Move replicas between pairs; each destination gets its part of each source's surplus
        where these are shared out, else as many as it can.
        """
        lack, sources, destinations = self._lacking(wanted)
        total = int(lack[destinations].sum())
        for source in sources.tolist():
            surplus = int(-lack[source])
            for destination in destinations.tolist():
                part = -(-surplus * int(lack[destination]) // total) if shares_out else surplus
                count = min(
                    part,
                    int(self.placement.counts[source] - wanted[source]),
                    int(wanted[destination] - self.placement.counts[destination]),
                )
                if count > 0:
                    self._fill_pair(source, destination, count, harm)

    def _fill_pair(self, source: int, destination: int, count: int, harm: int) -> None:
        """Move up to `count` replicas with about the bytes that bring both nearer to their band."""
        choices = self._choices(self.held_by[source], source, destination)
        choices = choices.only(choices.harm == harm)
        partitions = choices.partitions
        if not choices.copied.any():  # then topics decide
            topics_harmed = self.topic_shares.harm(self.placement, partitions, source, destination)
            if (topics_harmed == 0).sum() >= count:
                partitions = partitions[topics_harmed == 0]
        load = self.loads[0]
        excess = int(load.held[source] - load.band.highest[source])
        deficit = int(load.band.lowest[destination] - load.held[destination])
        room = int(load.band.highest[destination] - load.held[destination])
        slack = int(load.held[source] - load.band.lowest[source])
        wanted_bytes = max(0, min(max(excess, deficit), room, slack))
        for partition in self._with_sum(partitions, count, wanted_bytes).tolist():
            if self.placement.cluster.size_bytes[partition] <= self.placement.room[destination]:
                self._move(partition, source, destination)

    def _with_sum(self, partitions: Ints, count: int, wanted_bytes: int) -> Ints:
        """Return `count` of the partitions, which come smallest first, with about so many bytes.

        They are neighbours in size, whose largest gives way to one that makes up for what is
        missing.
        """
        if len(partitions) <= count or not wanted_bytes:
            return partitions[:count]
        sizes = self.placement.cluster.size_bytes[partitions]
        sums = np.concatenate(([0], np.cumsum(sizes)))
        start = int(np.searchsorted(sums[count:] - sums[:-count], wanted_bytes, side="right")) - 1
        start = max(0, start)
        chosen = np.arange(start, start + count)
        missing = wanted_bytes - int(sizes[chosen[:-1]].sum())
        chosen[-1] = max(chosen[-1], int(np.searchsorted(sizes, missing, side="right")) - 1)
        return partitions[chosen]

    def _move_by_third(self, wanted: Ints) -> bool:
        """Move a replica on to a third broker, which gives one to a broker that lacks it."""
        lack, sources, destinations = self._lacking(wanted)
        middles = np.flatnonzero((lack == 0) & self.roles.sharing)
        for source in sources.tolist():
            for middle in middles.tolist():
                first = self._choices(self.held_by[source], source, middle).least_harm
                for destination in destinations.tolist() if first != NOBODY else ():
                    held = self.held_by[middle]
                    second = self._choices(held[held != first], middle, destination).least_harm
                    if second != NOBODY:
                        self._move(first, source, middle)
                        self._move(second, middle, destination)
                        return True
        return False

    # -- one load after the other

    def _even(self, order: int) -> bool:
        """Bring brokers into the band of a load, where those before it get no worse.

        Return whether anything moved.
        """
        load = self.loads[order]
        has_failed = np.zeros(len(load.held), dtype=np.bool_)
        has_changed = was_changed = False
        while not self.has_ended_early:
            outside = np.where(has_failed, 0, load.outside)
            worst = int(np.argmax(outside))
            if outside[worst] > 0:
                changed = self._improve(order, worst)
                has_failed[worst] = not changed
                has_failed[changed] = False
                has_changed |= bool(changed)
            elif has_changed and has_failed.any():
                # What has failed may succeed now, with others as they are.
                has_failed[:], has_changed, was_changed = False, False, True
            else:
                break
        return has_changed or was_changed

    def _improve(self, order: int, broker: int) -> list[int]:
        """Take the best exchange of a broker; return the brokers that changed."""
        load, is_spent = self.loads[order], self._is_spent
        outside = load.outside
        is_heavy = bool(load.held[broker] > load.band.highest[broker])
        room = load.band.highest - load.held if is_heavy else load.held - load.band.lowest
        partners = np.flatnonzero((room > 0) & self.roles.sharing)
        partners = partners[partners != broker]
        most_room_first = partners[np.lexsort((partners, -room[partners]))]
        max_partners = load.max_partners
        if order and is_spent:
            max_partners = _MAX_PARTNERS_FOR_ARRIVALS
        by_room = most_room_first[:max_partners].tolist()
        for sample in (_SAMPLE,) if is_spent else (_SAMPLE, 0):
            for start in range(0, len(by_room), _PARTNERS_AT_ONCE):
                found: list[_Exchange] = []
                for other in by_room[start : start + _PARTNERS_AT_ONCE]:
                    heavy, light = (broker, other) if is_heavy else (other, broker)
                    tried, now = (order, sample, heavy, light), self._changes_of(heavy, light)
                    if self.failed.get(tried) == now:
                        continue
                    most_outside = max(int(outside[heavy]), int(outside[light]))
                    enough = min(load.min_gain, max(1, most_outside // self.max_steps))
                    enough *= _SPENT_GAIN if is_spent else 1
                    if exchange := self._best_of_pair(order, heavy, light, sample, enough):
                        found.append(exchange)
                    else:
                        self.failed[tried] = now
                if found:
                    most = max(exchange.gain for exchange in found)
                    near = [exchange for exchange in found if 2 * exchange.gain >= most]
                    return self._take(min(near, key=lambda one: one.cost), order)
        return []

    def _changes_of(self, first: int, second: int) -> tuple[int, int]:
        return self.changes[first], self.changes[second]

    def _best_of_pair(
        self, order: int, heavy: int, light: int, sample: int, enough: int
    ) -> _Exchange | None:
        """Return the best exchange of two brokers for a load that gains `enough`; of all replicas
        without `sample`.
        """
        load = self.loads[order]
        leaving, coming = self._affordable(heavy, light)
        if not len(leaving):
            return None
        leaving = self._sampled(leaving, order, 2 * sample if order else sample, is_going=True)
        going = self._choices(leaving, heavy, light)
        if not len(going.partitions):
            return None
        coming = self._sampled(coming, order, 2 * sample)
        returning = self._choices(coming, light, heavy)
        if order:
            by_weight = np.argsort(load.weights[returning.partitions], kind="stable")
            returning = returning.only(by_weight)
        band, held = load.band, load.held
        need = max(held[heavy] - band.highest[heavy], band.lowest[light] - held[light], 1)
        room = max(1, min(held[heavy] - band.lowest[heavy], band.highest[light] - held[light]))
        picks = self._picks(
            load.weights[going.partitions],
            load.weights[returning.partitions],
            {int(need), int(min(need, room)), int(room)},
            (np.arange(len(returning.partitions)), np.flatnonzero(returning.copied <= 0)),
            may_move=self._may_move_one(heavy, light, 1 if order and load.may_copy else 2),
            max_pairs=0 if sample else _MAX_PAIRS,
        )
        if not len(picks):
            return None
        rows = np.tile(np.arange(len(going.partitions)), len(picks) // len(going.partitions))
        gone, back = going.only(rows), returning.or_none.only(picks)
        gains = self._gains(order, heavy, light, gone.partitions, back.partitions, picks != NOBODY)
        copied = gone.copied + back.copied
        gains = np.where(copied <= self.bytes_left, gains, 0)
        if order:
            keeps_topics = self._keeps_topics(
                going.partitions, returning.partitions, rows, picks, heavy, light
            )
            gains = np.where(keeps_topics, gains, 0)
        if not load.may_copy:
            gains = np.where(copied <= 0, gains, 0)
        harm = np.maximum(gone.harm, back.harm)
        if order:  # a partition with one replica is led where it stands
            is_alone = self.factors[gone.partitions] == 1
            harm = np.maximum(harm, is_alone != (self.factors[back.partitions] == 1))
        harm = np.where(gains >= enough, harm, UNBOUNDED)
        least = int(harm.min())
        if least == UNBOUNDED:
            return None
        gains = np.where(harm == least, gains, 0)
        good = np.flatnonzero(2 * gains >= gains.max())
        best = good[np.lexsort((good, -gains[good], copied[good] / gains[good]))[0]]
        return _Exchange(
            heavy,
            light,
            int(gone.partitions[best]),
            int(back.partitions[best]) if picks[best] != NOBODY else NOBODY,
            int(copied[best]),
            int(gains[best]),
            least,
        )

    def _affordable(self, heavy: int, light: int) -> tuple[Ints, Ints]:
        """Return the partitions of two brokers that may be exchanged for the bytes that are left.

        More are left where a replica comes home for another one.
        """
        leaving, coming = self.held_by[heavy], self.held_by[light]
        sizes, left = self.placement.cluster.size_bytes, self.bytes_left
        if int(sizes[leaving[-1:]].sum() + sizes[coming[-1:]].sum()) <= left:
            return leaving, coming
        leaving_copies = sizes[leaving] * self._copies(leaving, heavy, light)
        coming_copies = sizes[coming] * self._copies(coming, light, heavy)
        return (
            leaving[leaving_copies + coming_copies.min(initial=0) <= left],
            coming[coming_copies + leaving_copies.min(initial=0) <= left],
        )

    def _copies(self, partitions: Ints, source: int, destination: int) -> Ints:
        """Return how many more replicas of each partition are copied if it goes: -1, 0 or 1."""
        leaves, arrives = self._was_on(partitions, source), ~self._was_on(partitions, destination)
        return np.asarray(arrives.astype(np.int64) - ~leaves)

    def _sampled(
        self, partitions: Ints, order: int, sample: int, *, is_going: bool = False
    ) -> Ints:
        """Return some of a broker's partitions, smallest first: of all sizes, with the largest.

        For rates, those that take in most for their size go, and the smallest ones come back: both
        copy little.
        """
        if not sample or len(partitions) <= sample:
            return partitions
        if order and is_going:
            sizes = np.maximum(1, self.placement.cluster.size_bytes[partitions])
            rates_per_byte = self.loads[order].weights[partitions] / sizes
            return partitions[np.sort(np.argsort(-rates_per_byte, kind="stable")[:sample])]
        if order:
            return partitions[:sample]
        half = sample // 2
        steps = np.arange(half) * (len(partitions) - half) // half
        return np.concatenate((partitions[steps], partitions[-half:]))

    def _gains(
        self, order: int, heavy: int, light: int, going: Ints, returning: Ints, is_swap: Flags
    ) -> Ints:
        """Return what each exchange gains in a load; below 0 where a load before it gets worse."""
        gains: Ints = np.zeros(len(going), dtype=np.int64)
        for load in self.loads[: order + 1]:
            shifts = load.weights[going] - load.weights[returning] * is_swap
            gains = np.where(gains >= 0, load.gains(heavy, light, shifts), gains)
        return gains

    def _keeps_topics(
        self, going: Ints, coming: Ints, rows: Ints, picks: Ints, heavy: int, light: int
    ) -> Flags:
        """Return whether each exchange leaves all topics as even as they are.

        `rows` and `picks` have, for each, the row of `going`, and that of `coming` or NOBODY.
        """
        placement, shares = self.placement, self.topic_shares
        going_keeps = shares.harm(placement, going, heavy, light) == 0
        coming_keeps = np.append(shares.harm(placement, coming, light, heavy) == 0, True)
        topics = placement.cluster.topic_numbers
        coming_topics = np.append(topics[coming], NOBODY)
        is_same = topics[going][rows] == coming_topics[picks]
        return np.asarray(is_same | (going_keeps[rows] & coming_keeps[picks]))

    def _picks(
        self,
        going: Ints,
        coming: Ints,
        shifts: set[int],
        choices: tuple[Ints, ...],
        *,
        may_move: bool,
        max_pairs: int,
    ) -> Ints:
        """Return, for each of the weights that go, rows of `coming` that leave about a shift.

        One after the other for all that go, as many times as there are ways: `coming` is sorted,
        and so is what each of the `choices` picks of it. NOBODY stands for a move of one. Where
        there are no more than `max_pairs`, all of them are returned.
        """
        picks = []
        if len(going) * len(coming) <= max_pairs:
            picks, choices = [np.repeat(np.arange(len(coming)), len(going))], ()
        for choice in choices:
            for shift in sorted(shifts) if len(choice) else ():
                at = np.searchsorted(coming[choice], going - shift)
                picks += [choice[np.maximum(at - 1, 0)], choice[np.minimum(at, len(choice) - 1)]]
        if may_move:
            picks.append(np.full(len(going), NOBODY))
        return np.concatenate(picks) if picks else np.zeros(0, dtype=np.int64)

    def _take(self, exchange: _Exchange, order: int) -> list[int]:
        if order and exchange.copied > 0:  # else it is copied for another reason anyway
            self._note(exchange.going, exchange.gain)
            if exchange.returning != NOBODY:
                self._note(exchange.returning, 0)
        self._move(exchange.going, exchange.heavy, exchange.light)
        if exchange.returning != NOBODY:
            self._move(exchange.returning, exchange.light, exchange.heavy)
        return [exchange.heavy, exchange.light]

    def _note(self, partition: int, gain: int) -> None:
        """Note the gain, unless the plan copies the partition for another reason anyway."""
        if partition in self.gains or not self.placement.new_replicas[partition]:
            self.gains[partition] = self.gains.get(partition, 0) + gain

    # -- fewer copies

    def _copy_less(self) -> bool:
        """Send arrivals home for other replicas, as far as the bands allow and it is worth the
        work; return whether it was.
        """
        load, copied = self.loads[0], int(self.placement.arriving.sum())
        saved, has_saved = 0, False
        has_failed = np.zeros(len(load.held), dtype=np.bool_)
        failed: set[tuple[int, int]] = set()  # what is to spare gets less: they would fail again
        may_work = self.work + MAX_SAVING_WORK
        while self.work < may_work and not has_failed.all():
            to_spare = np.where(has_failed, -UNBOUNDED, load.held - load.band.lowest)
            broker = int(np.argmax(to_spare))
            exchange = self._first_return(broker, failed)
            has_failed[broker] = not exchange
            if exchange:
                has_failed[self._take(exchange, 0)] = False
                saved += exchange.gain
            if saved * _MIN_SAVINGS > copied:
                saved, may_work, has_saved = 0, self.work + MAX_SAVING_WORK, True
        return has_saved

    @cached_property
    def _most_harm(self) -> int:
        """Return the most harm that may be done to copy less: only where all brokers receive."""
        return int(self.roles.destinations[self.roles.sharing].all())

    def _first_return(self, broker: int, failed: set[tuple[int, int]]) -> _Exchange | None:
        """Return what saves bytes with one of the homes of arrivals, those with most room first."""
        load, arrivals = self.loads[0], self._arrivals(broker)
        homes = self._homes(broker, arrivals)
        room = load.band.highest[homes] - load.held[homes]
        for home in homes[np.lexsort((homes, -room))].tolist():
            if (broker, home) not in failed:
                if exchange := self._best_return(broker, home, arrivals):
                    return exchange
                failed.add((broker, home))
        return None

    def _arrivals(self, broker: int) -> Ints:
        """Return the partitions of a broker that were not there before, smallest first."""
        partitions = self.held_by[broker]
        return partitions[~self._was_on(partitions, broker)]

    def _homes(self, broker: int, arrivals: Ints) -> Ints:
        """Return the brokers that arrivals of a broker come from."""
        is_worth = self.placement.cluster.size_bytes[arrivals] >= self.loads[0].min_gain
        homes = np.unique(self.home[arrivals[is_worth]])
        return np.asarray(homes[(homes >= 0) & (homes != broker)])

    def _best_return(self, broker: int, home: int, arrivals: Ints) -> _Exchange | None:
        """Return the exchange of an arrival for another replica that saves most bytes; or None."""
        sizes, load = self.placement.cluster.size_bytes, self.loads[0]
        going = self._choices(arrivals[self._was_on(arrivals, home)], broker, home)
        if not len(going.partitions):
            return None
        others = self._choices(self.held_by[home], home, broker)
        shift = min(
            load.held[broker] - load.band.lowest[broker], load.band.highest[home] - load.held[home]
        )
        picks = self._picks(
            sizes[going.partitions],
            sizes[others.partitions],
            {0, max(0, int(shift))},
            (np.arange(len(others.partitions)), np.flatnonzero(others.copied <= 0)),
            may_move=self._may_move_one(broker, home, 2),
            max_pairs=_MAX_PAIRS_TO_SAVE,
        )
        if not len(picks):
            return None
        rows = np.tile(np.arange(len(going.partitions)), len(picks) // len(going.partitions))
        gone, back = going.only(rows), others.or_none.only(picks)
        saved = np.where(back.harm > self._most_harm, 0, -(gone.copied + back.copied))
        for any_load in self.loads:
            shifts = any_load.weights[gone.partitions]
            shifts = shifts - any_load.weights[back.partitions] * (picks != NOBODY)
            saved = np.where(any_load.gains(broker, home, shifts) >= 0, saved, 0)
        best = int(np.argmax(saved))
        harmless = np.where(back.harm == 0, saved, 0)  # no partition has several new ones
        if saved[best] < max(2 * harmless.max(), _MIN_GAINS_TO_HARM * load.min_gain):
            best, saved = int(np.argmax(harmless)), harmless
        if saved[best] < load.min_gain:
            return None
        returning = int(back.partitions[best]) if picks[best] != NOBODY else NOBODY
        saving = int(saved[best])
        return _Exchange(broker, home, int(gone.partitions[best]), returning, -saving, saving, 0)

    # -- which may go

    def _may_move_one(self, source: int, destination: int, by: int) -> bool:
        """Return whether one replica may go where none comes back: the source has so many more.

        By 2, counts get more even; by 1 they stay so, for one replica more that is copied. Where
        disks differ, what counts is the cost of the replica on both.
        """
        counts, max_counts = self.placement.counts, self.placement.cluster.max_counts
        given = (2 * counts[source] - 1) * self.replica_costs[source]
        received = (2 * counts[destination] + 1) * self.replica_costs[destination]
        is_fuller = given > received if by > 1 else given >= received
        return bool(is_fuller and counts[destination] < max_counts[destination])

    def _choices(self, partitions: Ints, source: int, destination: int) -> _Choices:
        """Return which replicas of the source may go to the destination, and what each costs.

        No partition stands on fewer racks, or higher on one, than before.
        """
        placement, roles, cluster = self.placement, self.roles, self.placement.cluster
        self.work += len(partitions)
        rows = placement.replicas[partitions]
        may = ~_has(rows, destination) & ~self.is_pinned[partitions]
        source_rack, rack = cluster.racks[source], cluster.racks[destination]
        if source_rack != rack:
            racks = placement.racks_by_position[rows]
            may &= (racks == rack).sum(axis=1) < (racks == source_rack).sum(axis=1)
        partitions = partitions[may]
        sizes = cluster.size_bytes[partitions]
        arrives, leaves = ~self._was_on(partitions, destination), self._was_on(partitions, source)
        may = ~arrives | (sizes <= placement.room[destination])
        if not roles.destinations[destination]:  # what has left it may come back, unless it leaves
            may &= ~arrives & ~roles.leaving[destination]
        if not roles.sources[source]:
            may &= ~leaves
        copies = arrives.astype(np.int64) - ~leaves
        new = placement.new_replicas[partitions] + copies
        is_worse = arrives & leaves
        harm = is_worse * (
            (new > 1).astype(np.int64) + (new > 1) * (new >= self.factors[partitions])
        )
        return _Choices(partitions, sizes * copies, harm).only(may)

    def _was_on(self, partitions: Ints, broker: int) -> Flags:
        return _has(self.home[partitions], broker)

    def _move(self, partition: int, source: int, destination: int) -> None:
        row, home = self.placement.replicas[partition], self.home[partition].tolist()
        copies = int(destination not in home) - int(source not in home)
        self.bytes_left -= copies * self._size(partition)
        self.placement.give(partition, int(np.argmax(row == source)), destination)
        for load in self.loads:
            load.move(partition, source, destination)
        self.changes[source] += 1
        self.changes[destination] += 1
        sizes = self.placement.cluster.size_bytes
        left, came = self.held_by[source], self.held_by[destination]
        self.held_by[source] = left[left != partition]
        at = int(np.searchsorted(sizes[came], sizes[partition]))
        self.held_by[destination] = np.insert(came, at, partition)


def _has(rows: Ints, broker: int) -> Flags:
    """Return which rows name a broker; column by column, since rows are short and many."""
    found: Flags = rows[:, 0] == broker
    for column in range(1, rows.shape[1]):
        found |= rows[:, column] == broker
    return found
