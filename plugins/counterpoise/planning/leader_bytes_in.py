"""Leaders by bytes-in: brokers exchange what they lead until it is within the tolerance.

    leaders = even_leader_traffic(candidates, even_topics(candidates, leaders), 10)

To share given rates out evenly is number partitioning, which is NP-hard, so the search is local.
Counts and topics stay as even as they are:

    fair share of each broker = water filling between what it has to lead and what it may lead
    every broker within the tolerance of its share: nothing changes
    for the broker that is farthest outside of a narrower band, and some at the other end:
        exchange two leaders so that the brokers come nearer to it, at the best gain for its cost
    until no exchange does
    a small cluster: from there, a solver looks for the least (`small_leader_traffic`)

A leader goes to a broker that leads less of its topic, or comes back for one of the same topic.

Worked example: brokers 0 and 1 lead partitions with 50 and 30 MB/s, and with 10 and 10; each may be
led by both. The shares are 50 and 50. To exchange 50 for 10 leaves 40 and 60, to exchange 30 for 10
leaves 60 and 40: both bring each broker from 30 MB/s outside to 5 outside, where the band is 5.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.fair_shares import AIM_PERCENT, fill, min_gain_of
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.small_leader_traffic import MAX_PARTITIONS, least_above_aim

LeaderChange: TypeAlias = tuple[int, int]  # a partition, and its new leader

_MAX_COST: Final = 15  # of two new leaders is below it, and above its negative
_MAX_PARTNERS: Final = 12
_MAX_SAMPLE: Final = 200


class _Exchange(NamedTuple):
    changes: list[LeaderChange]
    score: float


@dataclass(slots=True, eq=False)
class _Leadership:
    """Who leads what, on its way into a band around each broker's fair share."""

    candidates: Candidates
    leaders: Ints  # per partition
    loads: Ints  # bytes-in per broker, per second
    topic_counts: NDArray[np.int32]  # leaders by topic and broker
    band: ByteBand

    @classmethod
    def of(cls, candidates: Candidates, leaders: Ints, band: ByteBand) -> "_Leadership":
        topic_counts = np.zeros((candidates.topic_count, candidates.broker_count), dtype=np.int32)
        has_leader = leaders >= 0
        np.add.at(topic_counts, (candidates.topic_numbers[has_leader], leaders[has_leader]), 1)
        loads = candidates.led_bytes(leaders)
        return cls(candidates, leaders.copy(), loads, topic_counts, band)

    def even(self) -> None:
        """Improve the broker that is farthest outside, until none can be improved.

        A broker that cannot be is passed over. When no other is outside, what has changed since may
        have made it possible: all are tried again.
        """
        is_counted = self.candidates.is_eligible
        is_hopeless, has_changed = ~is_counted, False
        while True:
            outside = np.where(is_hopeless, 0, self.band.bytes_outside(self.loads))
            worst = int(np.argmax(outside))
            if outside[worst] > 0:
                is_hopeless[worst] = not self.exchange(worst)
                has_changed |= not is_hopeless[worst]
            elif has_changed:
                is_hopeless, has_changed = ~is_counted, False
            else:
                return

    def exchange(self, broker: int) -> bool:
        """Exchange two leaders of a broker and one at the other end of the band.

        False where that brings neither nearer.
        """
        above_fair, able = self.loads - self.band.fair, self.candidates.eligible_brokers
        is_heavy = bool(above_fair[broker] > 0)
        order = np.lexsort((able, above_fair[able] if is_heavy else -above_fair[able]))
        found: list[_Exchange] = []
        for other in able[order][:_MAX_PARTNERS].tolist():
            heavy, light = (broker, other) if is_heavy else (other, broker)
            if above_fair[heavy] > above_fair[light]:
                exchange = self.best_of_pair(heavy, light)
                found += [exchange] if exchange else []
        if found:
            self.take(max(found, key=lambda exchange: exchange.score).changes)
        return bool(found)

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
        partitions = self.candidates.shared_by(tail, head)
        partitions = partitions[self.leaders[partitions] == tail]
        partitions = partitions[np.lexsort((partitions, self.candidates.bytes_in[partitions]))]
        if len(partitions) <= _MAX_SAMPLE:
            return np.asarray(partitions)
        steps = np.linspace(0, len(partitions) - 1, _MAX_SAMPLE).astype(np.int64)
        return np.asarray(partitions[steps])

    def keeps_topics(self, going: Ints, returning: Ints, heavy: int, light: int) -> Flags:
        """Return whether each pair leaves all topics as even as they are."""
        counts, topics = self.topic_counts, self.candidates.topic_numbers
        topics_going, topics_returning = topics[going], topics[returning]
        may_go = counts[topics_going, light] < counts[topics_going, heavy]
        may_return = counts[topics_returning, heavy] < counts[topics_returning, light]
        is_same_topic = topics_going[:, None] == topics_returning[None, :]
        return np.asarray(is_same_topic | (may_go[:, None] & may_return[None, :]))

    def further_cost(self, partitions: Ints, leader: int) -> Ints:
        """Return what this leader costs more than the present one, per partition."""
        present = self.candidates.cost(partitions, self.leaders[partitions])
        return np.asarray(self.candidates.cost(partitions, leader) - present)

    def take(self, changes: list[LeaderChange]) -> None:
        for partition, head in changes:
            tail = self.leaders[partition]
            topic = self.candidates.topic_numbers[partition]
            rate = self.candidates.bytes_in[partition]
            self.loads[[tail, head]] += (-rate, rate)
            self.topic_counts[topic, tail] -= 1
            self.topic_counts[topic, head] += 1
            self.leaders[partition] = head


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
    band = ByteBand.around(fair, tolerance_percent)
    is_small = len(candidates.free_partitions) <= MAX_PARTITIONS
    is_above = loads > band.highest
    is_uneven = is_above if is_small else is_above | (loads < band.lowest)
    if not is_uneven[brokers].any():
        return leaders
    search = _Leadership.of(candidates, leaders, band.narrowed(AIM_PERCENT))
    search.even()
    if is_small:
        return least_above_aim(candidates, leaders, band, start=search.leaders)
    return search.leaders
