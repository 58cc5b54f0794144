"""Leaders by bytes-in: brokers exchange what they lead until it is even, by one of two searches.

    leaders = even_bytes_in(candidates, even_leaders(candidates), ignorable_permille=2)
    leaders = even_leader_traffic(candidates, even_topics(candidates, leaders), 10)

To share given rates out evenly is number partitioning, which is NP-hard, so both are local. The
first is for the policy that weighs leaders by bytes-in. Bytes come before counts and topics:

    start from the exact choice by count (`even_leaders`)
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
that does not raise this sum would make counts more even. Leaders that are even enough, or that no
change makes more even, stay, so choosing again changes nothing.

The second is for leaders that are even in number, and keeps counts and topics:

    fair share of each broker = water filling between what it has to lead and what it may lead
    every broker within the tolerance of its share: nothing changes
    for the broker that is farthest outside of a narrower band, and some at the other end:
        exchange two leaders so that the brokers come nearer to it, at the best gain for its cost
    until no exchange does

A leader goes to a broker that leads less of its topic, or comes back for one of the same topic.

Worked example: brokers 0 and 1 lead partitions with 50 and 30 MB/s, and with 10 and 10; each may be
led by both. The shares are 50 and 50. To exchange 50 for 10 leaves 40 and 60, to exchange 30 for 10
leaves 60 and 40: both bring each broker from 30 MB/s outside to 5 outside, where the band is 5.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.fair_shares import fill, highest_level
from counterpoise.planning.leader_candidates import Candidates, LeaderChange, Leadership
from counterpoise.planning.placing.exchanges import (
    AIM_PERCENT,
    best_with,
    improve_worst,
    min_gain_of,
    sample_by_rate,
)

_Floats: TypeAlias = NDArray[np.float64]

_BANDS_IN_MEAN: Final = 2000
_MAX_COST: Final = 15  # of two new leaders is below it, and above its negative
_MAX_AT_ONCE: Final = 8


# -- weighed by bytes-in


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
        brokers = candidates.eligible_brokers
        lower, upper = candidates.fixed_bytes[brokers], candidates.max_bytes[brokers]
        free_rates = candidates.bytes_in[candidates.free_partitions]
        total = int(free_rates.sum() + lower.sum())
        level = _water_level(total, lower, upper, free_rates)
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
class _Weighed(Leadership):
    """Leadership on its way to the target."""

    target: _Target

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


def even_bytes_in(candidates: Candidates, leaders: Ints, ignorable_permille: int) -> Ints:
    """Return the leader of each partition; the present one (or NOBODY) where it cannot be chosen.

    The search starts from `leaders`. Present leaders stay when they are even but for less than
    `ignorable_permille` of the mean, or when no change makes them more even.
    """
    target = _Target.of(candidates)
    free = candidates.free_partitions
    is_candidate = candidates.replicas[free] == candidates.leaders_now[free, None]
    if is_candidate.any(axis=1).all():
        present = _Weighed.of(candidates, candidates.leaders_now, target=target)
        if _is_even(present, ignorable_permille) or next(_improvements(present), None) is None:
            return present.leaders
    leadership = _Weighed.of(candidates, leaders, target=target)
    for changes in _improvements(leadership):
        leadership.take(changes)
    return leadership.leaders


def _is_even(leadership: _Weighed, ignorable_permille: int) -> bool:
    brokers, target = leadership.candidates.eligible_brokers, leadership.target
    counts = leadership.counts[brokers]
    distances = np.abs(leadership.loads[brokers] - target.level)
    allowed_count = max(1, int(counts.mean()) * ignorable_permille // 1000)
    allowed_bytes = target.mean * ignorable_permille // 1000
    return int(np.ptp(counts)) <= allowed_count and int(distances.max()) <= allowed_bytes


def _improvements(leadership: _Weighed) -> Iterator[list[LeaderChange]]:
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


def _exchange(leadership: _Weighed, broker: int) -> list[LeaderChange]:
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


def _change(leadership: _Weighed, broker: int) -> list[LeaderChange]:
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


def _best(leadership: _Weighed, broker: int, exchanges: _Exchanges) -> list[LeaderChange]:
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
    given, received = exchanges.given[good], exchanges.received[good]
    giving = leadership.further_cost(given, exchanges.others[good])
    receiving = leadership.further_cost(received, broker)
    costs = np.where(given == NOBODY, 0, giving) + np.where(received == NOBODY, 0, receiving)
    gain_per_cost = gains[good] / (_MAX_COST + costs)
    good = good[np.argsort(-gain_per_cost, kind="stable")][:_MAX_AT_ONCE]
    changes: list[LeaderChange] = []
    used_brokers: set[int] = set()
    used_partitions: set[int] = set()
    load = int(leadership.loads[broker])
    for exchange in good.tolist():
        other, shift = int(exchanges.others[exchange]), int(exchanges.shifts[exchange])
        going, coming = int(exchanges.given[exchange]), int(exchanges.received[exchange])
        partitions = {going, coming} - {NOBODY}
        if other in used_brokers or not used_partitions.isdisjoint(partitions):
            continue
        if leadership.gain(load, other, shift) < enough:
            continue
        if going != NOBODY:
            changes.append((going, other))
        if coming != NOBODY:
            changes.append((coming, broker))
        used_brokers.add(other)
        used_partitions |= partitions
        load -= shift
    return changes


def _even_count(leadership: _Weighed, broker: int) -> list[LeaderChange]:
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


# -- within the tolerance, at the same counts and topics


class _Exchange(NamedTuple):
    changes: list[LeaderChange]
    score: float


@dataclass(slots=True, eq=False)
class _Banded(Leadership):
    """Leadership on its way into a band around each broker's fair share."""

    band: ByteBand

    def exchange(self, broker: int) -> bool:
        """Exchange two leaders of a broker and another; False where that brings neither nearer."""
        above_fair = self.loads - self.band.fair
        eligible = self.candidates.eligible_brokers
        exchange = best_with(broker, eligible, above_fair, self.best_of_pair)
        if exchange is not None:
            self.take(exchange.changes)
        return exchange is not None

    def best_of_pair(self, heavy: int, light: int) -> _Exchange | None:
        going, returning = self.sample(heavy, light), self.sample(light, heavy)
        if not len(going) or not len(returning):
            return None
        rates = self.candidates.bytes_in
        shifts = np.subtract.outer(rates[going], rates[returning])
        gains = self.band.gains_of_two(self.loads, heavy, light, shifts)
        is_usable = gains >= min_gain_of(self.band)
        is_usable &= self.keeps_topics(going, returning, heavy, light)
        if not is_usable.any():
            return None
        costs = np.add.outer(self.further_cost(going, light), self.further_cost(returning, heavy))
        scores = gains / (_MAX_COST + costs)
        best = int(np.argmax(np.where(is_usable, scores, -1.0)))
        row, column = divmod(best, len(returning))
        changes = [(int(going[row]), light), (int(returning[column]), heavy)]
        return _Exchange(changes, float(scores[row, column]))

    def sample(self, tail: int, head: int) -> Ints:
        """Return what a broker leads and another one may lead, by rate, in even steps."""
        partitions = self.passable(tail, head)
        return np.asarray(partitions[sample_by_rate(partitions, self.candidates.bytes_in)])

    def keeps_topics(self, going: Ints, returning: Ints, heavy: int, light: int) -> Flags:
        """Return whether each pair leaves all topics as even as they are."""
        counts, topics = self.topic_counts, self.candidates.topic_numbers
        topics_going, topics_returning = topics[going], topics[returning]
        may_go = counts[topics_going, light] < counts[topics_going, heavy]
        may_return = counts[topics_returning, heavy] < counts[topics_returning, light]
        is_same_topic = topics_going[:, None] == topics_returning[None, :]
        return np.asarray(is_same_topic | (may_go[:, None] & may_return[None, :]))


def even_leader_traffic(candidates: Candidates, leaders: Ints, tolerance_percent: int) -> Ints:
    """Return leaders whose bytes-in are within the tolerance, or as near as exchanges bring it.

    `leaders` have one broker per partition; those that are not free stay.
    """
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    loads, brokers = candidates.led_bytes(leaders), candidates.eligible_brokers
    choices = (candidates.replicas >= 0).sum(axis=1)
    only_choice = np.where(choices == 1, candidates.replicas.max(axis=1), NOBODY)
    lower = candidates.fixed_bytes + candidates.led_bytes(only_choice)
    upper, total = candidates.max_bytes, int(loads[brokers].sum())
    fair = loads.copy()
    fair[brokers] = fill(total, lower[brokers], upper[brokers], loads[brokers])
    band, eligible = ByteBand.around(fair, tolerance_percent), candidates.is_eligible
    if not band.bytes_outside(loads)[eligible].any():
        return leaders
    aim = band.narrowed(AIM_PERCENT)
    search = _Banded.of(candidates, leaders, band=aim)
    improve_worst(eligible, lambda: aim.bytes_outside(search.loads), search.exchange)
    return search.leaders
