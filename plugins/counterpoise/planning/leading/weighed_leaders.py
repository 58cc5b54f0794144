"""Leaders weighed by bytes-in: what producers send as even per broker as can be found, then the
numbers of leaders.

    leads = even_bytes_in(candidates, ignorable_permille=2)

Sharing given rates out evenly is number partitioning, which is NP-hard, so this is a search and no
exact optimum. It starts from the exact choice by count (`leader_flow`) and takes steps, first for
the broker that is farthest off: two partitions exchange their leaders, which leaves all counts as
they are; once that helps no more, one is passed on. Counts that have become less even by that are
evened again where it costs no evenness of bytes.

What a broker should get is a water level: the mean, unless brokers that cannot get that much, or
single partitions that are larger, leave less or more to the others. It is off by what its bytes are
further away from the level than a band of one part in 2,000 of the mean.

Promised: in the end no exchange of two leaders and no single change of leader would lower the sum
of the squares of what brokers are off by more than the square of the band, and no single change
that does not raise this sum would make counts more even. Not promised: that longer chains of
changes could do no better, nor that topics are led evenly. Leaders that are even enough, or that no
step makes more even, stay, so choosing again changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Ints
from counterpoise.planning.leading.candidates import Candidates
from counterpoise.planning.leading.leader_flow import even_leaders

_Floats: TypeAlias = NDArray[np.float64]
_Step: TypeAlias = tuple[int, int]  # a partition, and the broker that is to lead it

_BANDS_IN_MEAN = 2000
_HIGHEST_COST = 14  # of two new leaders; the lowest is as far below 0
_MOST_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Aim:
    """What each broker should lead, in bytes per second."""

    level: int
    mean: int

    @property
    def band(self) -> float:
        return max(1.0, self.mean / _BANDS_IN_MEAN)

    @classmethod
    def of(cls, candidates: Candidates) -> "_Aim":
        rates, leading = candidates.bytes_in, candidates.leading
        lower = _loads(candidates, np.where(candidates.is_free, NOBODY, candidates.present))
        at, column = np.nonzero(candidates.rows >= 0)
        upper = lower.copy()
        np.add.at(upper, candidates.rows[at, column], rates[at])
        total = int(rates[candidates.free].sum() + lower[leading].sum())
        return cls(
            _water_level(total, lower[leading], upper[leading], rates[candidates.free]),
            total // len(leading),
        )


def _water_level(total: int, lower: Ints, upper: Ints, rates: Ints) -> int:
    """The level up to which brokers are filled, when each partition above it has a broker of its
    own.
    """
    ordered = np.sort(rates)
    above = np.append(np.cumsum(ordered[::-1])[::-1], 0)

    def needed(level: int) -> int:
        first = int(np.searchsorted(ordered, level, side="right"))
        excess = int(above[first]) - (len(ordered) - first) * level
        return int(np.clip(level, lower, upper).sum()) + excess

    low, high = 0, total + 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= total else (low, middle - 1)
    return low


@dataclass(frozen=True, slots=True, eq=False)
class _Offers:
    """What one broker could do: give a partition to another broker, take one from it, or both (else
    NOBODY).
    """

    others: Ints
    passed: Ints  # bytes per second, to the other broker
    given: Ints
    taken: Ints


@dataclass(slots=True, eq=False)
class _Board:
    """Who leads what, and how much that makes per broker."""

    candidates: Candidates
    aim: _Aim
    leads: Ints
    loads: Ints  # bytes per second
    counts: Ints
    # broker x number of partitions + partition, in order, for each partition that a broker may lead
    by_broker: Ints

    @classmethod
    def of(cls, candidates: Candidates, aim: _Aim, leads: Ints) -> "_Board":
        at, column = np.nonzero(candidates.rows >= 0)
        by_broker = np.sort(candidates.rows[at, column] * len(leads) + at)
        counts = np.bincount(leads[leads >= 0], minlength=candidates.broker_count).astype(np.int64)
        return cls(candidates, aim, leads.copy(), _loads(candidates, leads), counts, by_broker)

    def off(self, loads: Ints) -> _Floats:
        """By how much loads are outside the band around the level."""
        return np.asarray(np.maximum(0.0, np.abs(loads - self.aim.level) - self.aim.band))

    def gains(self, one: int, others: Ints, passed: Ints) -> _Floats:
        """What the sum of squares loses when `one` passes bytes on to each of the others (or, below
        0, gets them).
        """
        now = self.off(self.loads[[one]]) ** 2 + self.off(self.loads[others]) ** 2
        then = self.off(self.loads[one] - passed) ** 2 + self.off(self.loads[others] + passed) ** 2
        return np.asarray(now - then)

    def is_off(self, broker: int) -> bool:
        return bool(self.off(self.loads[[broker]])[0] > 0)

    def gain(self, load: int, other: int, passed: int) -> float:
        """As `gains`, for one other broker and for a broker with a given load."""

        def cost(load: int) -> float:
            return max(0.0, abs(load - self.aim.level) - self.aim.band) ** 2

        other_load = int(self.loads[other])
        return cost(load) + cost(other_load) - cost(load - passed) - cost(other_load + passed)

    def given(self, broker: int) -> tuple[Ints, Ints]:
        """The partitions that a broker leads, once for each other broker that may lead them, and
        these brokers.
        """
        held = self._may_lead(broker)
        held = held[self.leads[held] == broker]
        rows = self.candidates.rows[held]
        at, column = np.nonzero((rows >= 0) & (rows != broker))
        return held[at], rows[at, column]

    def taken(self, broker: int) -> tuple[Ints, Ints]:
        """The partitions that a broker may lead and others do, and these brokers."""
        held = self._may_lead(broker)
        held = held[self.leads[held] != broker]
        return held, self.leads[held]

    def _may_lead(self, broker: int) -> Ints:
        start = broker * len(self.leads)
        first, end = np.searchsorted(self.by_broker, (start, start + len(self.leads)))
        return np.asarray(self.by_broker[first:end] - start)

    def take(self, steps: list[_Step]) -> None:
        for partition, head in steps:
            rate, tail = self.candidates.bytes_in[partition], self.leads[partition]
            self.loads[[tail, head]] += (-rate, rate)
            self.counts[[tail, head]] += (-1, 1)
            self.leads[partition] = head


def even_bytes_in(candidates: Candidates, ignorable_permille: int) -> Ints:
    """The leader of each partition; the present one (or NOBODY) where it cannot be chosen.

    Present leaders stay when they are even but for less than `ignorable_permille` of the mean.
    """
    aim = _Aim.of(candidates)
    free = candidates.free
    if (candidates.rows[free] == candidates.present[free, None]).any(axis=1).all():
        board = _Board.of(candidates, aim, candidates.present)
        if _is_even(board, ignorable_permille) or next(_improvements(board), None) is None:
            return board.leads
    board = _Board.of(candidates, aim, even_leaders(candidates))
    for steps in _improvements(board):
        board.take(steps)
    return board.leads


def _loads(candidates: Candidates, leads: Ints) -> Ints:
    loads = np.zeros(candidates.broker_count, dtype=np.int64)
    known = leads >= 0
    np.add.at(loads, leads[known], candidates.bytes_in[known])
    return loads


def _is_even(board: _Board, ignorable_permille: int) -> bool:
    leading = board.candidates.leading
    counts, off = board.counts[leading], np.abs(board.loads - board.aim.level)[leading]
    most_apart = max(1, int(counts.mean()) * ignorable_permille // 1000)
    return (
        int(np.ptp(counts)) <= most_apart
        and int(off.max()) <= board.aim.mean * ignorable_permille // 1000
    )


def _improvements(board: _Board) -> Iterator[list[_Step]]:
    """Steps, the next one for as long as there is any; the caller takes each before asking for the
    next.
    """
    brokers = board.candidates.leading
    is_left = True
    while is_left:
        is_left = False
        by_off = brokers[np.argsort(-board.off(board.loads[brokers]), kind="stable")]
        by_count = brokers[np.argsort(-board.counts[brokers], kind="stable")]
        for find, order in ((_exchange, by_off), (_change, by_off), (_even_count, by_count)):
            for broker in order.tolist():
                while steps := find(board, broker):
                    is_left = True
                    yield steps
            if is_left:
                break


def _exchange(board: _Board, broker: int) -> list[_Step]:
    """Exchanges of two leaders with other brokers that make bytes more even; empty where none does."""
    if not board.is_off(broker):
        return []
    rates = board.candidates.bytes_in
    given, destinations = board.given(broker)
    taken, sources = board.taken(broker)
    order = np.lexsort((taken, rates[taken], sources))
    taken, sources = taken[order], sources[order]
    # For each partition given, those of its taker whose rates are nearest to what would leave both
    # with the same bytes.
    base = int(rates[taken].max(initial=0)) + 1
    half = (board.loads[broker] - board.loads[destinations]) // 2
    wanted = np.clip(rates[given] - half, 0, base - 1)
    above = np.searchsorted(sources * base + rates[taken], destinations * base + wanted)
    one, other = np.tile(np.arange(len(given)), 2), np.concatenate([above - 1, above])
    fits = (other >= 0) & (other < len(taken))
    fits[fits] = sources[other[fits]] == destinations[one[fits]]
    given, destinations, taken = given[one[fits]], destinations[one[fits]], taken[other[fits]]
    return _best(board, broker, _Offers(destinations, rates[given] - rates[taken], given, taken))


def _change(board: _Board, broker: int) -> list[_Step]:
    """Changes of one leader each, from the broker or to it, that make bytes more even; empty where
    none does.
    """
    if not board.is_off(broker):
        return []
    rates = board.candidates.bytes_in
    given, destinations = board.given(broker)
    taken, sources = board.taken(broker)
    nothing = np.full(len(given) + len(taken), NOBODY)
    offers = _Offers(
        others=np.concatenate([destinations, sources]),
        passed=np.concatenate([rates[given], -rates[taken]]),
        given=np.concatenate([given, nothing[: len(taken)]]),
        taken=np.concatenate([nothing[: len(given)], taken]),
    )
    return _best(board, broker, offers)


def _best(board: _Board, broker: int, offers: _Offers) -> list[_Step]:
    """The steps of the best offers: those that gain at least half of the most, first what gains
    most for its cost.

    At most one for each other broker, and only while what was taken before leaves as much to gain.
    """
    gains = board.gains(broker, offers.others, offers.passed)
    if not len(gains) or gains.max() < board.aim.band**2:
        return []
    enough = max(board.aim.band**2, gains.max() / 2)
    good = np.flatnonzero(gains >= enough)
    worth = gains[good] / (_HIGHEST_COST + 1 + _costs(board, broker, offers, good))
    good = good[np.argsort(-worth, kind="stable")][:_MOST_AT_ONCE]
    steps: list[_Step] = []
    partners: set[int] = set()
    partitions: set[int] = set()
    load = int(board.loads[broker])
    for offer in good.tolist():
        other, passed = int(offers.others[offer]), int(offers.passed[offer])
        given, taken = int(offers.given[offer]), int(offers.taken[offer])
        is_new = other not in partners and given not in partitions and taken not in partitions
        if not is_new or board.gain(load, other, passed) < enough:
            continue
        steps += [(given, other)] * (given != NOBODY) + [(taken, broker)] * (taken != NOBODY)
        partners.add(other)
        partitions |= {given, taken} - {NOBODY}
        load -= passed
    return steps


def _costs(board: _Board, broker: int, offers: _Offers, which: Ints) -> Ints:
    cost, others = board.candidates.cost, offers.others[which]
    given, taken = offers.given[which], offers.taken[which]
    giving = np.where(given == NOBODY, 0, cost(given, others) - cost(given, board.leads[given]))
    return giving + np.where(
        taken == NOBODY, 0, cost(taken, broker) - cost(taken, board.leads[taken])
    )


def _even_count(board: _Board, broker: int) -> list[_Step]:
    """One partition less for a broker that leads at least two more than another one, at no loss in
    bytes.
    """
    given, destinations = board.given(broker)
    is_less = board.counts[destinations] <= board.counts[broker] - 2
    given, destinations = given[is_less], destinations[is_less]
    gains = board.gains(broker, destinations, board.candidates.bytes_in[given])
    costs = board.candidates.cost(given, destinations) - board.candidates.cost(
        given, np.full(len(given), broker)
    )
    for best in np.lexsort((given, -gains, costs, board.counts[destinations])).tolist():
        if gains[best] >= 0:
            return [(int(given[best]), int(destinations[best]))]
    return []
