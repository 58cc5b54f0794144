"""Leaders weighed by bytes-in: first the bytes from producers per broker, then the counts.

    leaders = even_bytes_in(candidates, even_leaders(candidates), ignorable_permille=2)

To share given rates out evenly is number partitioning, which is NP-hard, so this is a local search:

    start from the exact choice by count (`leader_flow`)
    for each broker, the one that is farthest from the target level first:
        exchange leaders with another broker where that helps (all counts stay as they are)
    when no exchange helps: pass single partitions on, or take them over
    when that does not help either: even the counts out where it costs no evenness of bytes

The target level is a water level: the mean, unless brokers that cannot get that much, or single
partitions that are larger, leave less or more to the others. A broker is off by what its bytes are
further away from the level than a band of one part in 2,000 of the mean.

Worked example: broker 0 leads partitions of 50 and 30 MB/s, broker 1 of 20 and 10; each partition
may be led by both. The level is 55 MB/s, so broker 0 is 25 above it. To exchange 50 for 20 shifts
30 and leaves 50 and 60; to exchange 30 for 10 shifts 20 and leaves 60 and 50. Both gain as much, so
the partition that comes first decides: 50 goes for 20. No exchange gains anything after that.

Promised: in the end no exchange of two leaders and no single change of leader would lower the sum
of the squares of what brokers are off by more than the square of the band, and no single change
that does not raise this sum would make counts more even. Limits: longer chains of changes could do
better, and topics are not led evenly. Leaders that are even enough, or that no change makes more
even, stay, so choosing again changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Ints
from counterpoise.planning.fair_shares import highest_level
from counterpoise.planning.leader_candidates import Candidates

_Floats: TypeAlias = NDArray[np.float64]
_LeaderChange: TypeAlias = tuple[int, int]  # a partition, and its new leader

_BANDS_IN_MEAN = 2000
_MAX_COST = 14  # of two new leaders; the lowest is as far below 0
_MAX_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Target:
    """What each broker should lead, in bytes per second."""

    level: int
    mean: int

    @property
    def band(self) -> float:
        return max(1.0, self.mean / _BANDS_IN_MEAN)

    @classmethod
    def of(cls, candidates: Candidates) -> "_Target":
        brokers, rates = candidates.eligible_brokers, candidates.bytes_in
        fixed_leaders = np.where(candidates.is_free, NOBODY, candidates.leaders_now)
        lower = candidates.led_bytes(fixed_leaders)
        upper = lower.copy()
        partitions, columns = np.nonzero(candidates.replicas >= 0)
        np.add.at(upper, candidates.replicas[partitions, columns], rates[partitions])
        free_rates = rates[candidates.free_partitions]
        total = int(free_rates.sum() + lower[brokers].sum())
        level = _water_level(total, lower[brokers], upper[brokers], free_rates)
        return cls(level, total // len(brokers))


def _water_level(total: int, lower: Ints, upper: Ints, rates: Ints) -> int:
    """Return the level to which brokers are filled, by bisection.

    A partition above the level counts as if it had a broker of its own. Example: rates 90, 10 and
    10 on two brokers that may lead all of them: above level 20 lie 70 bytes of the first partition,
    and 2 x 20 + 70 is 110, all there is; so the level is 20, not the mean of 55.
    """
    ordered = np.sort(rates)
    sums_from = np.append(np.cumsum(ordered[::-1])[::-1], 0)

    def total_at(level: int) -> int:
        first_above = int(np.searchsorted(ordered, level, side="right"))
        count_above = len(ordered) - first_above
        excess = int(sums_from[first_above]) - count_above * level
        return int(np.clip(level, lower, upper).sum()) + excess

    return highest_level(total_at, total, 0, total + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Exchanges:
    """What one broker could do: give a partition to another broker, get one from it, or both.

    A partition that is not there is NOBODY.
    """

    others: Ints
    shifts: Ints  # bytes per second that go to the other broker; below 0 where it passes some on
    given: Ints
    received: Ints


@dataclass(slots=True, eq=False)
class _Leadership:
    """Who leads what while leaders are being changed, and how much that makes per broker."""

    candidates: Candidates
    target: _Target
    leaders: Ints  # per partition
    loads: Ints  # per broker, bytes per second
    counts: Ints  # per broker

    @classmethod
    def of(cls, candidates: Candidates, target: _Target, leaders: Ints) -> "_Leadership":
        loads, counts = candidates.led_bytes(leaders), candidates.counts(leaders)
        return cls(candidates, target, leaders.copy(), loads, counts)

    def bytes_off(self, loads: Ints) -> _Floats:
        """Return by how much loads are outside the band around the level."""
        distances = np.abs(loads - self.target.level)
        return np.asarray(np.maximum(0.0, distances - self.target.band))

    def is_off(self, broker: int) -> bool:
        return bool(self.bytes_off(self.loads[[broker]])[0] > 0)

    def gains(self, broker: int, others: Ints, shifts: Ints) -> _Floats:
        """Return what the sum of squares loses when `broker` passes bytes on to each of `others`.

        Shifts below 0 are bytes that it gets.
        """
        load, other_loads = self.loads[[broker]], self.loads[others]
        squares_before = self.bytes_off(load) ** 2 + self.bytes_off(other_loads) ** 2
        load_after, other_loads_after = load - shifts, other_loads + shifts
        squares_after = self.bytes_off(load_after) ** 2 + self.bytes_off(other_loads_after) ** 2
        return np.asarray(squares_before - squares_after)

    def gain(self, load: int, other: int, shift: int) -> float:
        """Return the same for one other broker, and for a broker with a given load."""

        def square(load: int) -> float:
            distance = abs(load - self.target.level)
            return max(0.0, distance - self.target.band) ** 2

        other_load = int(self.loads[other])
        return square(load) + square(other_load) - square(load - shift) - square(other_load + shift)

    def given_by(self, broker: int) -> tuple[Ints, Ints]:
        """Return each partition that a broker leads with each other broker that may lead it."""
        partitions = self.candidates.of_broker(broker)
        partitions = partitions[self.leaders[partitions] == broker]
        rows, others = self.candidates.alternatives(partitions, broker)
        return partitions[rows], others

    def received_by(self, broker: int) -> tuple[Ints, Ints]:
        """Return the partitions that a broker may lead and others do, with these brokers."""
        partitions = self.candidates.of_broker(broker)
        partitions = partitions[self.leaders[partitions] != broker]
        return partitions, self.leaders[partitions]

    def further_cost(self, partitions: Ints, leaders: Ints | int) -> Ints:
        return self.candidates.further_cost(partitions, leaders, self.leaders[partitions])

    def take(self, changes: list[_LeaderChange]) -> None:
        for partition, head in changes:
            rate, tail = self.candidates.bytes_in[partition], self.leaders[partition]
            self.loads[[tail, head]] += (-rate, rate)
            self.counts[[tail, head]] += (-1, 1)
            self.leaders[partition] = head


def even_bytes_in(candidates: Candidates, leaders: Ints, ignorable_permille: int) -> Ints:
    """Return the leader of each partition; the present one (or NOBODY) where it cannot be chosen.

    The search starts from `leaders`. Present leaders stay when they are even but for less than
    `ignorable_permille` of the mean, or when no change makes them more even.
    """
    target = _Target.of(candidates)
    free = candidates.free_partitions
    is_candidate = candidates.replicas[free] == candidates.leaders_now[free, None]
    if is_candidate.any(axis=1).all():
        present = _Leadership.of(candidates, target, candidates.leaders_now)
        if _is_even(present, ignorable_permille) or next(_improvements(present), None) is None:
            return present.leaders
    leadership = _Leadership.of(candidates, target, leaders)
    for changes in _improvements(leadership):
        leadership.take(changes)
    return leadership.leaders


def _is_even(leadership: _Leadership, ignorable_permille: int) -> bool:
    brokers, target = leadership.candidates.eligible_brokers, leadership.target
    counts = leadership.counts[brokers]
    distances = np.abs(leadership.loads[brokers] - target.level)
    allowed_count = max(1, int(counts.mean()) * ignorable_permille // 1000)
    allowed_bytes = target.mean * ignorable_permille // 1000
    return int(np.ptp(counts)) <= allowed_count and int(distances.max()) <= allowed_bytes


def _improvements(leadership: _Leadership) -> Iterator[list[_LeaderChange]]:
    """Yield changes for as long as there are any; the caller takes each before the next one."""
    brokers = leadership.candidates.eligible_brokers
    is_improved = True
    while is_improved:
        is_improved = False
        bytes_off = leadership.bytes_off(leadership.loads[brokers])
        by_bytes = brokers[np.argsort(-bytes_off, kind="stable")]
        by_count = brokers[np.argsort(-leadership.counts[brokers], kind="stable")]
        for find, order in ((_exchange, by_bytes), (_change, by_bytes), (_even_count, by_count)):
            for broker in order.tolist():
                while changes := find(leadership, broker):
                    is_improved = True
                    yield changes
            if is_improved:
                break


def _exchange(leadership: _Leadership, broker: int) -> list[_LeaderChange]:
    """Return exchanges of leaders with other brokers that make bytes more even; maybe none.

    for each partition that the broker could give, and each other broker that may lead it:
        wanted rate = what has to come back so that both brokers lead the same bytes
        of what the other one leads, by rate: the last below the wanted rate, and the one after it

    Worked example: the broker leads 80 MB/s, another one 30. For a partition of 50 that goes, half
    of the difference, 25, is to be gained: 25 MB/s should come back. Of partitions with 10, 20 and
    40 MB/s the ones with 20 and 40 count.
    """
    if not leadership.is_off(broker):
        return []
    rates = leadership.candidates.bytes_in
    given, destinations = leadership.given_by(broker)
    received, sources = leadership.received_by(broker)
    order = np.lexsort((received, rates[received], sources))
    received, sources = received[order], sources[order]
    half_difference = (leadership.loads[broker] - leadership.loads[destinations]) // 2
    max_rate = int(rates[received].max(initial=0))
    wanted_rates = np.clip(rates[given] - half_difference, 0, max_rate)
    # One number per (broker, rate), so that one sorted column can be searched for both.
    received_keys = sources * (max_rate + 1) + rates[received]
    wanted_keys = destinations * (max_rate + 1) + wanted_rates
    first_not_below = np.searchsorted(received_keys, wanted_keys)
    given_rows = np.tile(np.arange(len(given)), 2)
    received_rows = np.concatenate([first_not_below - 1, first_not_below])
    is_found = (received_rows >= 0) & (received_rows < len(received))
    found_sources = sources[received_rows[is_found]]
    is_found[is_found] = found_sources == destinations[given_rows[is_found]]
    given_rows, received_rows = given_rows[is_found], received_rows[is_found]
    given, destinations = given[given_rows], destinations[given_rows]
    received = received[received_rows]
    shifts = rates[given] - rates[received]
    return _best(leadership, broker, _Exchanges(destinations, shifts, given, received))


def _change(leadership: _Leadership, broker: int) -> list[_LeaderChange]:
    """Return single changes from or to the broker that make bytes more even; maybe none."""
    if not leadership.is_off(broker):
        return []
    rates = leadership.candidates.bytes_in
    given, destinations = leadership.given_by(broker)
    received, sources = leadership.received_by(broker)
    exchanges = _Exchanges(
        others=np.concatenate([destinations, sources]),
        shifts=np.concatenate([rates[given], -rates[received]]),
        given=np.concatenate([given, np.full(len(received), NOBODY)]),
        received=np.concatenate([np.full(len(given), NOBODY), received]),
    )
    return _best(leadership, broker, exchanges)


def _best(leadership: _Leadership, broker: int, exchanges: _Exchanges) -> list[_LeaderChange]:
    """Return the changes of the exchanges that gain at least half of the most.

    Those that gain most for their cost come first; at most one for each other broker, and only
    while what was taken before leaves as much to gain.
    """
    band_square = leadership.target.band**2
    gains = leadership.gains(broker, exchanges.others, exchanges.shifts)
    if not len(gains) or gains.max() < band_square:
        return []
    enough = max(band_square, gains.max() / 2)
    good = np.flatnonzero(gains >= enough)
    costs = _costs(leadership, broker, exchanges, good)
    gain_per_cost = gains[good] / (_MAX_COST + 1 + costs)
    good = good[np.argsort(-gain_per_cost, kind="stable")][:_MAX_AT_ONCE]
    changes: list[_LeaderChange] = []
    used_brokers: set[int] = set()
    used_partitions: set[int] = set()
    load = int(leadership.loads[broker])
    for exchange in good.tolist():
        other, shift = int(exchanges.others[exchange]), int(exchanges.shifts[exchange])
        given, received = int(exchanges.given[exchange]), int(exchanges.received[exchange])
        partitions = {given, received} - {NOBODY}
        if other in used_brokers or not used_partitions.isdisjoint(partitions):
            continue
        if leadership.gain(load, other, shift) < enough:
            continue
        if given != NOBODY:
            changes.append((given, other))
        if received != NOBODY:
            changes.append((received, broker))
        used_brokers.add(other)
        used_partitions |= partitions
        load -= shift
    return changes


def _costs(leadership: _Leadership, broker: int, exchanges: _Exchanges, chosen: Ints) -> Ints:
    """Return what the chosen exchanges cost more than to leave the leaders as they are."""
    given, received = exchanges.given[chosen], exchanges.received[chosen]
    giving = leadership.further_cost(given, exchanges.others[chosen])
    receiving = leadership.further_cost(received, broker)
    return np.where(given == NOBODY, 0, giving) + np.where(received == NOBODY, 0, receiving)


def _even_count(leadership: _Leadership, broker: int) -> list[_LeaderChange]:
    """Return a change to a broker that leads two or more fewer, at no loss in bytes; maybe none."""
    given, destinations = leadership.given_by(broker)
    is_fewer = leadership.counts[destinations] <= leadership.counts[broker] - 2
    given, destinations = given[is_fewer], destinations[is_fewer]
    gains = leadership.gains(broker, destinations, leadership.candidates.bytes_in[given])
    costs = leadership.further_cost(given, destinations)
    order = np.lexsort((given, -gains, costs, leadership.counts[destinations]))
    for best in order.tolist():
        if gains[best] >= 0:
            return [(int(given[best]), int(destinations[best]))]
    return []
