"""Leaders by traffic: brokers exchange what they lead, to be as even as can be, or below a limit.

    leaders = even_leader_traffic(candidates, even_topics(candidates, leaders), 10)
    leaders = keep_below(candidates, leaders)

The first is for leaders that are even in number:

    fair share of each broker = water filling between what it has to lead and what it may lead
    every broker within the tolerance of its share: nothing changes
    for the broker that is farthest outside of a narrower band, and some at the other end:
        exchange two leaders so that the brokers come nearer to it, at the best gain for its cost
    until no exchange does

All counts per broker stay, and no topic is led less evenly: a leader goes to a broker that leads
less of its topic, or comes back for another one of the same topic.

Worked example: brokers 0 and 1 lead partitions with 50 and 30 MB/s, and with 10 and 10; each may be
led by both. The shares are 50 and 50. To exchange 50 for 10 leaves 40 and 60, to exchange 30 for 10
leaves 60 and 40: both bring each broker from 30 MB/s outside to 5 outside, where the band is 5.

No more bytes-in than a broker may lead (`max_leader_bytes_in_per_second`), where that can be:

    for the broker that is furthest above the limit:
        another broker leads one of its partitions instead, for a lower rate of its own: the counts
        of leaders stay; else it just gives one away
        of these what leaves least above the limit on both brokers, an exchange before a gift
    until none is above, or nothing helps

Worked example: the limit is 50 MB/s; brokers 1 and 2 lead 40 + 20 and 15 + 10 MB/s. Broker 1 gives
the 20 for the 10: 50 and 35 MB/s, and each leads two partitions as before.

Limits: local searches, of exchanges of two only. A broker alone with a partition that has one
replica keeps it, and a partition whose own rate is above the limit stays so: a warning says.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.fair_shares import fill
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.placing.exchanges import (
    AIM_PERCENT,
    best_with,
    improve_worst,
    min_gain_of,
    sample_by_rate,
)

_MAX_COST: Final = 15  # of two changes is below it, and above its negative
_MAX_CHANGES_PER_PARTITION: Final = 4


class _Exchange(NamedTuple):
    going: int  # a partition
    returning: int
    source: int
    destination: int
    score: float


@dataclass(slots=True, eq=False)
class _Search:
    candidates: Candidates
    leaders: Ints
    loads: Ints  # per broker, bytes per second
    topic_counts: Ints  # leaders by topic and broker
    band: ByteBand

    def exchange(self, broker: int) -> bool:
        """Exchange two leaders of a broker and another; False where that brings neither nearer."""
        above_fair = self.loads - self.band.fair
        eligible = self.candidates.eligible_brokers
        exchange = best_with(broker, eligible, above_fair, self.best_of_pair)
        if exchange is not None:
            self.take(exchange)
        return exchange is not None

    def best_of_pair(self, heavy: int, light: int) -> _Exchange | None:
        going, returning = self.led(heavy, light), self.led(light, heavy)
        if not len(going) or not len(returning):
            return None
        rates = self.candidates.bytes_in
        shifts = np.subtract.outer(rates[going], rates[returning])
        gains = self.band.gains_of_two(self.loads, heavy, light, shifts)
        is_usable = gains >= min_gain_of(self.band)
        is_usable &= self.keeps_topics(going, returning, heavy, light)
        if not is_usable.any():
            return None
        costs = np.add.outer(
            self.candidates.further_cost(going, light, heavy),
            self.candidates.further_cost(returning, heavy, light),
        )
        scores = gains / (_MAX_COST + costs)
        best = int(np.argmax(np.where(is_usable, scores, -1.0)))
        row, column = divmod(best, len(returning))
        score = float(scores[row, column])
        return _Exchange(int(going[row]), int(returning[column]), heavy, light, score)

    def led(self, broker: int, other: int) -> Ints:
        """Return what a broker leads and another one may lead, by rate, in even steps."""
        partitions = self.candidates.shared_by(broker, other)
        partitions = partitions[self.leaders[partitions] == broker]
        return np.asarray(partitions[sample_by_rate(partitions, self.candidates.bytes_in)])

    def keeps_topics(self, going: Ints, returning: Ints, heavy: int, light: int) -> Flags:
        topics = self.candidates.topic_numbers
        counts = self.topic_counts

        def is_harmless(partitions: Ints, source: int, destination: int) -> Flags:
            concerned = topics[partitions]
            return np.asarray(counts[concerned, destination] < counts[concerned, source])

        may_go, may_return = is_harmless(going, heavy, light), is_harmless(returning, light, heavy)
        is_same_topic = topics[going][:, None] == topics[returning][None, :]
        return np.asarray(is_same_topic | (may_go[:, None] & may_return[None, :]))

    def take(self, exchange: _Exchange) -> None:
        self.pass_on(exchange.going, exchange.source, exchange.destination)
        self.pass_on(exchange.returning, exchange.destination, exchange.source)

    def pass_on(self, partition: int, source: int, destination: int) -> None:
        rate, topic = self.candidates.bytes_in[partition], self.candidates.topic_numbers[partition]
        self.leaders[partition] = destination
        self.loads[[source, destination]] += (-rate, rate)
        self.topic_counts[topic, [source, destination]] += (-1, 1)


def even_leader_traffic(candidates: Candidates, leaders: Ints, tolerance_percent: int) -> Ints:
    """Return leaders whose bytes-in are within the tolerance, or as near as exchanges bring it.

    `leaders` have one broker per partition; those that are not free stay.
    """
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    loads = candidates.led_bytes(leaders)
    fair = _fair_shares(candidates, loads)
    band, eligible = ByteBand.around(fair, tolerance_percent), candidates.is_eligible
    if not band.bytes_outside(loads)[eligible].any():
        return leaders
    cells = candidates.topic_numbers * candidates.broker_count + leaders
    shape = candidates.topic_count, candidates.broker_count
    counts = np.bincount(cells[leaders >= 0], minlength=shape[0] * shape[1]).reshape(shape)
    aim = band.narrowed(AIM_PERCENT)
    search = _Search(candidates, leaders, loads, counts.astype(np.int64), aim)
    improve_worst(eligible, lambda: aim.bytes_outside(search.loads), search.exchange)
    return search.leaders


def _fair_shares(candidates: Candidates, loads: Ints) -> Ints:
    """Return the most even loads between what each broker has to lead and what it may lead."""
    brokers, rates = candidates.eligible_brokers, candidates.bytes_in
    fixed = candidates.led_bytes(np.where(candidates.is_free, NOBODY, candidates.leaders_now))
    choices = (candidates.replicas >= 0).sum(axis=1)
    only_choice = np.where(choices == 1, candidates.replicas.max(axis=1), NOBODY)
    lower = fixed + candidates.led_bytes(only_choice)
    upper = fixed.copy()
    rows, columns = np.nonzero(candidates.replicas >= 0)
    np.add.at(upper, candidates.replicas[rows, columns], rates[rows])
    fair = loads.copy()
    total = int(loads[brokers].sum())
    fair[brokers] = fill(total, lower[brokers], upper[brokers], loads[brokers])
    return fair


# -- a limit of bytes-in


class _Change(NamedTuple):
    going: int  # a partition
    returning: int | None
    destination: int
    key: tuple[int, int, int, int]  # the smallest is the best


def bytes_above(led_bytes: Ints, max_led_bytes: Ints, is_counted: Flags) -> int:
    """Return the bytes per second that the counted brokers lead above what they may."""
    return int(np.maximum(0, led_bytes - max_led_bytes)[is_counted].sum())


def keep_below(candidates: Candidates, leaders: Ints) -> Ints:
    """Return leaders with as little above the limits of brokers as the search finds.

    `leaders` have one broker per partition; those that are not free stay.
    """
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    loads = candidates.led_bytes(leaders)

    def change_leaders(broker: int) -> bool:
        change = _best_change(candidates, leaders, loads, broker)
        if change is None:
            return False
        shift = int(candidates.bytes_in[change.going])
        leaders[change.going] = change.destination
        if change.returning is not None:
            shift -= int(candidates.bytes_in[change.returning])
            leaders[change.returning] = broker
        loads[broker] -= shift
        loads[change.destination] += shift
        return True

    improve_worst(
        candidates.is_eligible,
        lambda: loads - candidates.max_led_bytes,
        change_leaders,
        max_steps=_MAX_CHANGES_PER_PARTITION * len(leaders),
    )
    return leaders


def _best_change(candidates: Candidates, leaders: Ints, loads: Ints, broker: int) -> _Change | None:
    """Return the change that takes most off what two brokers lead above the limit."""
    partitions_led = candidates.of_broker(broker)
    partitions_led = partitions_led[leaders[partitions_led] == broker]
    found = []
    for destination in candidates.eligible_brokers.tolist():
        going = np.intersect1d(partitions_led, candidates.of_broker(destination))
        if destination == broker or not len(going):
            continue
        returning = candidates.shared_by(broker, destination)
        returning = returning[leaders[returning] == destination]
        found += _changes(candidates, loads, (broker, destination), going, returning)
    usable = (change for change in found if _keeps_topics(candidates, leaders, change, broker))
    return min(usable, key=lambda change: change.key, default=None)


def _changes(
    candidates: Candidates, loads: Ints, ends: tuple[int, int], going: Ints, back: Ints
) -> list[_Change]:
    """Return the best exchanges and the best gifts from the first of two brokers to the other."""
    rates, (source, destination) = candidates.bytes_in, ends
    shifts = np.subtract.outer(rates[going], np.append(rates[back], 0))
    source_limit, destination_limit = candidates.max_led_bytes[[source, destination]].tolist()
    above_now = max(0, int(loads[source]) - source_limit)
    above_now += max(0, int(loads[destination]) - destination_limit)
    above = np.maximum(0, loads[source] - shifts - source_limit)
    above += np.maximum(0, loads[destination] + shifts - destination_limit)
    is_usable = above < above_now
    found = []
    for is_gift in (False, True):
        columns = slice(len(back), None) if is_gift else slice(0, len(back))
        rows, numbers = np.nonzero(is_usable[:, columns])
        if not len(rows):
            continue
        over = above[:, columns][rows, numbers] - above_now
        best = int(np.lexsort((numbers, rows, shifts[:, columns][rows, numbers], over))[0])
        partition = int(going[rows[best]])
        returning = None if is_gift else int(back[numbers[best]])
        key = (int(over[best]), int(is_gift), partition, destination)
        found.append(_Change(partition, returning, destination, key))
    return found


def _keeps_topics(candidates: Candidates, leaders: Ints, change: _Change, source: int) -> bool:
    """Return whether both brokers keep the leaders of a topic that they have to have."""
    giving = [(change.going, source)]
    if change.returning is not None:
        giving.append((change.returning, change.destination))
    for partition, broker in giving:
        topic = candidates.topic_numbers[partition]
        min_topic_leaders = candidates.min_topic_leaders[topic]
        if not min_topic_leaders:
            continue
        leaders_of_topic = leaders[candidates.topic_numbers == topic]
        if int((leaders_of_topic == broker).sum()) <= min_topic_leaders:
            return False
    return True
