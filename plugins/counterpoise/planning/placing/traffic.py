"""Traffic: what each broker takes in, as leader and as follower, evened after counts and bytes.

    gains = even_traffic(placement, roles, policy, may_copy=True)    # by partition

    band = the tolerance around each broker's fair share of the traffic
    every broker in its band: nothing moves
    repeat, for the broker that is farthest outside of a narrower band, and those at the other end:
        of all exchanges of two replicas, and of moves of one where counts stay as even,
        which leave racks, topics and bytes as even as they are:
        take the one that gains most bytes per second for each byte that is copied
    until none brings a broker nearer to the band

Worked example: brokers 1 and 2 take in 90 and 50 MB/s, so the fair share is 70 and the band, with a
tolerance of 10 %, 63 to 77. Broker 1 has replicas with 30 MB/s (8 GB) and 20 MB/s (2 GB), broker 2
one without traffic (2 GB). To exchange the second for it gains 13 + 13 MB/s for 4 GB; the first
would gain no more, for 10 GB.

Replicas that the plan has moved already are exchanged first, since that copies nothing more; where
the goal may not copy for the sake of traffic (`may_copy`), they are all that is exchanged. The band
that is aimed at is narrower than the one that starts a search, so that rates which differ a little
tomorrow start no other one.

Limits: a local search, so chains of three moves could do better; of a broker with many replicas it
looks at those whose rates lie evenly between the lowest and the highest.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.fair_shares import TopicShares, byte_band, traffic_band
from counterpoise.planning.placement import MovableReplicas, Placement, Replicas, Roles
from counterpoise.planning.placing.exchanges import (
    AIM_PERCENT,
    MAX_PARTNERS,
    best_with,
    improve_worst,
    min_gain_of,
    sample_by_rate,
)

_MAX_PARTNERS_FOR_ARRIVALS: Final = 4
_MAX_EXCHANGES_PER_BROKER: Final = 50


def even_traffic(
    placement: Placement, roles: Roles, policy: BalancePolicy, *, may_copy: bool
) -> dict[int, int]:
    """Exchange replicas until every broker is in the band, or none comes nearer to it.

    Without `may_copy`, only the replicas that the plan moves already. Return, for each partition
    that gets a new replica because of traffic, the bytes per second gained: by how much less the
    two brokers are outside; 0 for the one that comes back in an exchange.
    """
    band = traffic_band(placement, roles, policy.bytes_in_tolerance_percent)
    traffic = placement.traffic
    if not band.bytes_outside(traffic)[roles.sharing].any():
        return {}
    aim = band.narrowed(AIM_PERCENT)
    shares = TopicShares.of(placement, roles, placement.counts)
    bytes_band = byte_band(placement, roles, policy.bytes_tolerance_percent)
    gains: dict[int, int] = {}
    while True:
        placement.touched[:] = False  # each search takes a partition once
        movable_replicas = MovableReplicas.of_sources(placement, roles.sharing)
        search = _Search(
            placement, roles, shares, bytes_band, aim, traffic, may_copy, gains, movable_replicas
        )
        may_go_on = search.exchange_all() or search.may_do_more()
        if not may_go_on or not may_copy:
            return gains


class _Choices(NamedTuple):
    """Replicas of one broker that another one may receive."""

    replicas: Replicas
    rates: Ints
    sizes: Ints
    copied: Ints  # bytes more that the plan copies; below 0 where a replica goes back
    topics: Ints
    is_harmless: Flags  # to the shares of its topic


class _Exchange(NamedTuple):
    source: int
    destination: int
    going: tuple[int, int]  # a partition, and the position in its row
    returning: tuple[int, int] | None
    copied: int  # bytes more
    gain: int
    score: float


@dataclass(slots=True, eq=False)
class _Search:
    placement: Placement
    roles: Roles
    shares: TopicShares
    bytes: ByteBand
    band: ByteBand  # of the traffic
    traffic: Ints  # per broker
    may_copy: bool
    gains: dict[int, int]
    movable_replicas: MovableReplicas
    samples: dict[int, Replicas] = field(default_factory=dict)  # by broker

    def exchange_all(self) -> bool:
        """Exchange replicas, each partition once; False when nothing was found."""
        may_improve = self.roles.sharing
        if not self.may_copy:
            may_improve = may_improve & (self.placement.arriving != 0)
        return improve_worst(
            may_improve,
            lambda: self.band.bytes_outside(self.traffic),
            self.exchange,
            max_steps=_MAX_EXCHANGES_PER_BROKER * self.placement.cluster.broker_count,
            tries_again=False,
        )

    def may_do_more(self) -> bool:
        """Allow partitions to give their last old replica; False where that changes nothing."""
        is_outside = self.band.bytes_outside(self.traffic)[self.roles.sharing].any()
        if not is_outside or self.placement.may_replace_all or not self.placement.holds_back:
            return False
        self.placement.may_replace_all = True
        return True

    def exchange(self, broker: int) -> bool:
        """Take what gains most per byte copied between a broker and some at the other end."""
        above_fair = self.traffic - self.band.fair
        sharing = np.flatnonzero(self.roles.sharing)
        max_partners = MAX_PARTNERS if self.may_copy else _MAX_PARTNERS_FOR_ARRIVALS
        exchange = best_with(broker, sharing, above_fair, self.best_of_pair, max_partners)
        if exchange is not None:
            self.take(exchange)
        return exchange is not None

    def best_of_pair(self, heavy: int, light: int) -> _Exchange | None:
        """Return the best exchange of two brokers, or move from the first to the second."""
        going = self.choices(heavy, light)
        if not len(going.rates):
            return None
        returning = self.choices(light, heavy)
        counts = self.placement.counts
        may_move = bool(counts[heavy] > counts[light])
        may_move &= bool(counts[light] < self.placement.cluster.max_counts[light])
        rate_shifts = _pairwise(going.rates, returning.rates, np.subtract)
        size_shifts = _pairwise(going.sizes, returning.sizes, np.subtract)
        copied = _pairwise(going.copied, returning.copied, np.add)
        gains = self.band.gains_of_two(self.traffic, heavy, light, rate_shifts)
        bytes_held = self.placement.bytes_held
        is_usable = self.bytes.gains_of_two(bytes_held, heavy, light, size_shifts) >= 0
        is_usable &= _keeps_topics(going, returning)
        is_usable &= gains >= min_gain_of(self.band)
        is_usable[:, -1] &= may_move
        if not self.may_copy:
            is_usable &= copied <= 0
        if not is_usable.any():
            return None
        # What copies nothing more comes first, the largest gain first.
        scores = np.where(copied > 0, gains / np.maximum(1, copied), gains * float(UNBOUNDED))
        best = int(np.argmax(np.where(is_usable, scores, -1.0)))
        row, column = divmod(best, gains.shape[1])
        is_move = column == len(returning.rates)
        return _Exchange(
            heavy,
            light,
            going.replicas.one(row),
            None if is_move else returning.replicas.one(column),
            int(copied[row, column]),
            int(gains[row, column]),
            float(scores[row, column]),
        )

    def choices(self, source: int, destination: int) -> _Choices:
        """Return what a broker may give another one in this plan, by rate."""
        placement = self.placement
        roles = self.roles
        cluster = self.placement.cluster
        replicas = self.sample(source)
        original = placement.original[replicas.partitions]
        has_arrived = ~(original == source).any(axis=1)
        would_arrive = ~(original == destination).any(axis=1)
        is_usable = placement.may_receive(replicas, destination)
        is_usable &= has_arrived | roles.sources[source]
        is_usable &= ~would_arrive | (
            roles.destinations[destination] & placement.has_room(replicas, destination)
        )
        replicas, partitions = replicas.only(is_usable), replicas.partitions[is_usable]
        copies = would_arrive[is_usable].astype(np.int64) - has_arrived[is_usable]
        return _Choices(
            replicas=replicas,
            rates=cluster.bytes_in[partitions],
            sizes=cluster.size_bytes[partitions],
            copied=cluster.size_bytes[partitions] * copies,
            topics=cluster.topic_numbers[partitions],
            is_harmless=self.shares.harm(placement, partitions, source, destination) == 0,
        )

    def sample(self, source: int) -> Replicas:
        """Return what a broker may give by rate, from the lowest to the highest, in even steps."""
        if source not in self.samples:
            replicas = self.movable_replicas.of(source)
            order = sample_by_rate(replicas.partitions, self.placement.cluster.bytes_in)
            self.samples[source] = replicas.only(order)
        replicas = self.samples[source]
        return replicas.only(~self.placement.touched[replicas.partitions])

    def take(self, exchange: _Exchange) -> None:
        source = exchange.source
        destination = exchange.destination
        is_for_traffic = exchange.copied > 0  # else the plan copies as much for another reason
        if is_for_traffic:
            self.note(exchange.going[0], exchange.gain)
        self.give(exchange.going, source, destination)
        if exchange.returning is not None:
            if is_for_traffic:
                self.note(exchange.returning[0], 0)
            self.give(exchange.returning, destination, source)

    def give(self, replica: tuple[int, int], source: int, destination: int) -> None:
        self.placement.give(*replica, destination)
        rate = int(self.placement.cluster.bytes_in[replica[0]])
        self.traffic[source] -= rate
        self.traffic[destination] += rate

    def note(self, partition: int, gain: int) -> None:
        """Note the gain, unless the plan copies the partition for another reason anyway."""
        if partition in self.gains or not self.placement.new_replicas[partition]:
            self.gains[partition] = self.gains.get(partition, 0) + gain


def _pairwise(going: Ints, returning: Ints, combine: np.ufunc) -> Ints:
    """Return a row per replica that goes, a column per one that returns, and one for none."""
    return np.asarray(combine.outer(going, np.append(returning, 0)))


def _keeps_topics(going: _Choices, returning: _Choices) -> Flags:
    """Return whether each pair leaves all topics as even as they are."""
    is_harmless = going.is_harmless[:, None] & np.append(returning.is_harmless, True)[None, :]
    is_same_topic = going.topics[:, None] == np.append(returning.topics, NOBODY)[None, :]
    return np.asarray(is_harmless | is_same_topic)
