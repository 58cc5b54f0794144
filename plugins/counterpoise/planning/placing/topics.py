"""Topics: how many replicas of each topic a broker should hold, and which of its replicas it gives
first because of it.

    shares = TopicShares.of(placement, roles, wanted)
    shares.lowest(broker), shares.highest(broker)          # one number per topic

A broker that is to hold a part of all replicas should hold the same part of every topic, rounded
down or up. Replicas are chosen accordingly among those that move anyway: no replica moves for the
sake of its topic alone, since on clusters of thousands of topics that would move a large part of
the data for little (docs/decisions/0008).
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles

_PHASES, _GOLDEN = 1024, 633  # multiples of the golden ratio lie evenly, wherever one starts


@dataclass(frozen=True, slots=True, eq=False)
class TopicShares:
    """`totals` are the replicas of each topic on the brokers that share; `wanted` has the replicas
    of each broker.
    """

    totals: Ints
    wanted: Ints
    whole: int

    @classmethod
    def of(cls, placement: Placement, roles: Roles, wanted: Ints) -> "TopicShares":
        holding = roles.sharing | roles.leaving
        totals = placement.topic_counts[:, holding].sum(axis=1, dtype=np.int64)
        return cls(totals, wanted, max(1, int(wanted[roles.sharing].sum())))

    def lowest(self, brokers: Ints | int) -> Ints:
        """Per topic (rows, where several brokers are given as columns)."""
        return np.asarray(np.multiply.outer(self.totals, self.wanted[brokers]) // self.whole)

    def highest(self, brokers: Ints | int) -> Ints:
        return np.asarray(-(-np.multiply.outer(self.totals, self.wanted[brokers]) // self.whole))

    def harm(self, placement: Placement, partitions: Ints, source: int, destination: int) -> Ints:
        """Per partition: how many of the two brokers would leave their topic's share by a move from
        giver to taker.
        """
        topics = placement.cluster.topic_numbers[partitions]
        too_many = placement.topic_counts[topics, destination] >= self.highest(destination)[topics]
        too_few = placement.topic_counts[topics, source] <= self.lowest(source)[topics]
        return np.asarray(too_many.astype(np.int64) + too_few)


@dataclass(slots=True, eq=False)
class TopicQuotas:
    """What the takers of a rack still need and have room for, and what the givers to come have to
    part with.
    """

    shares: TopicShares
    counts: Ints  # topics x brokers, of the placement before this rack's moves
    need: Ints
    room: Ints
    owed: Ints  # above the highest share, over the givers that have not chosen yet
    spare: Ints  # above the lowest share, over the same
    phase: Ints  # 0 to _PHASES

    @classmethod
    def of(
        cls, placement: Placement, shares: TopicShares, sources: Ints, destinations: Ints
    ) -> "TopicQuotas":
        counts = placement.topic_counts
        held = counts[:, destinations]
        owed, spare = np.zeros_like(shares.totals), np.zeros_like(shares.totals)
        for source in sources.tolist():
            owed += np.maximum(0, counts[:, source] - shares.highest(source))
            spare += np.maximum(0, counts[:, source] - shares.lowest(source))
        return cls(
            shares=shares,
            counts=counts,
            need=np.maximum(0, shares.lowest(destinations) - held).sum(axis=1),
            room=np.maximum(0, shares.highest(destinations) - held).sum(axis=1),
            owed=owed,
            spare=spare,
            phase=np.arange(len(owed)) * _GOLDEN % _PHASES,
        )

    def of_source(self, source: int) -> tuple[Ints, Ints]:
        """Per topic: how many replicas it should give, and how many it may give, so that all come
        out even.
        """
        own = self.counts[:, source].astype(np.int64)
        above, spare = (
            np.maximum(0, own - self.shares.highest(source)),
            np.maximum(0, own - self.shares.lowest(source)),
        )
        # Its part of what the takers need, by what it can spare of what all the givers to come can.
        # Each topic rounds at another point, or the first givers would all round up together.
        part = (
            np.minimum(self.need, self.spare) * spare * _PHASES + self.phase * self.spare
        ) // np.maximum(1, self.spare * _PHASES)
        self.owed -= above
        self.spare -= spare
        free = self.room - self.owed  # what those to come do not have to part with
        should = np.minimum(np.maximum(above, np.minimum(part, free)), self.room)
        may = np.minimum(spare, np.maximum(should, free))
        return should, may

    def take(self, topics: Ints) -> None:
        """The topics of the replicas that a giver chose."""
        given = np.bincount(topics, minlength=len(self.need))
        self.need -= given
        np.maximum(self.need, 0, out=self.need)
        self.room -= given
        np.maximum(self.room, 0, out=self.room)


def rank_within(topics: Ints, order: Ints) -> Ints:
    """The place of each item among those of its topic, when they come in the given order."""
    by_topic = order[np.argsort(topics[order], kind="stable")]
    ordered = topics[by_topic]
    starts = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(topics), dtype=np.int64)
    ranks[by_topic] = np.arange(len(topics)) - starts
    return ranks
