"""Topics: which replicas of each a broker should give, and which it needs.

    per_broker(2, rack_sizes=[2, 1, 1])                    # [0.5, 0.5, 0.5]: a broker of each rack
    bring_topics(placement, roles)                         # for brokers that have to lead a topic

Limits: replicas are chosen by topic among those that move anyway. None moves for the sake of its
topic alone: on clusters of thousands of topics that would move a large part of the data for little
(docs/decisions/0008). The exception are topics of which every broker has to lead some
(`min_topic_leaders`); in small clusters the flow brings these at least cost (`flow`), in larger
ones `bring_topics`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.fair_shares import TopicShares, bounds_of_partition
from counterpoise.planning.placement import MovableReplicas, Placement, Roles

BYTES_FIRST: Final = 0.9  # this part of all bytes is placed before the number of replicas decides
# Of bytes; nothing is copied for it, so it is narrower than a policy's.
TOLERANCE_PERCENT: Final = 5
_ROUNDING_ERROR = 1e-9
_BISECTION_STEPS = 60
_PHASES, _GOLDEN = 1024, 633  # multiples of the golden ratio lie evenly, wherever one starts


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


# -- replicas that are added or taken away


def per_broker(factor: int, rack_sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of one partition per broker of each rack, as even as the racks allow.

    `rack_sizes` are the brokers per rack. The level is the part of a replica per broker that adds
    up to `factor` over all racks; it is found by bisection.

    Worked example: 3 replicas on racks of 4, 1 and 1 brokers: each rack holds one replica, so a
    broker has 0.25, 1 or 1 of them. A topic of 8 partitions has 2, 8 and 8 per broker.
    """
    lowest, highest = bounds_of_partition(factor, rack_sizes)
    low, high = 0.0, 1.0
    for _ in range(_BISECTION_STEPS):
        level = (low + high) / 2
        if np.clip(level * rack_sizes, lowest, highest).sum() < factor:
            low = level
        else:
            high = level
    in_rack = np.clip(high * rack_sizes, lowest, highest)
    return np.asarray(in_rack / np.maximum(1, rack_sizes), dtype=np.float64)


def of_topics(placement: Placement, rack_sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of each topic per broker of each rack: a row per topic, a column per rack."""
    cluster = placement.cluster
    shares = np.zeros((len(cluster.topic_names), len(rack_sizes)))
    for factor in np.unique(placement.replica_counts).tolist():
        topics = cluster.topic_numbers[placement.replica_counts == factor]
        partition_counts = np.bincount(topics, minlength=len(shares))
        shares += partition_counts[:, None] * per_broker(factor, rack_sizes)[None, :]
    return shares


def whole_shares(share: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Return shares rounded down and up; one that is whole but for rounding errors stays."""
    lowest = np.floor(share + _ROUNDING_ERROR).astype(np.int64)
    highest = np.ceil(share - _ROUNDING_ERROR).astype(np.int64)
    return lowest, highest


def largest_topics_first(placement: Placement, partitions: Ints) -> Ints:
    """Return the order of `partitions`: topics with most bytes first, then large partitions.

    At first bytes decide where replicas go; in the small topics at the end the number of replicas
    does. So both come out even: few replicas hold most bytes, and many replicas few.
    """
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    topic_bytes = np.zeros(len(cluster.topic_names), dtype=np.int64)
    np.add.at(topic_bytes, topics, sizes)
    return np.lexsort((partitions, -sizes, topics, -topic_bytes[topics]))


# -- replicas of a topic for every broker that has to lead some of it


def leaders_lacking(
    topics: Ints, leaders: Ints, min_topic_leaders: Ints, is_counted: Flags
) -> Ints:
    """Return, per topic, the leaders that the counted brokers lack, of which each has to lead some.

    `topics` and `leaders` have one entry per partition, `min_topic_leaders` one per topic.
    """
    lacking = np.zeros_like(min_topic_leaders)
    for topic in np.flatnonzero(min_topic_leaders).tolist():
        of_topic = leaders[(topics == topic) & (leaders >= 0)]
        counts = np.bincount(of_topic, minlength=len(is_counted))[is_counted]
        lacking[topic] = np.maximum(0, min_topic_leaders[topic] - counts).sum()
    return lacking


def bring_topics(placement: Placement, roles: Roles) -> None:
    """Exchange replicas until no broker lacks one of a topic, or no exchange is left.

    for each topic and broker with too few replicas of it:
        the broker with most of the topic gives one, and gets one of another topic for it, as near
        in size as can be: counts per broker stay

    Worked example: orders has 4 replicas on broker 1, 2 on broker 2 and none on broker 3, and every
    broker is to lead one partition of it. Broker 1 gives broker 3 a replica of 5 GB, and gets one
    of another topic with 4.8 GB.
    """
    lacking = placement.lacking_topics(roles.sharing)
    if not lacking:
        return
    placement.touched[:] = False
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources & roles.destinations)
    for topic, broker in lacking:
        if roles.destinations[broker]:
            _bring_one(movable_replicas, topic, broker)


def _bring_one(movable_replicas: MovableReplicas, topic: int, broker: int) -> None:
    placement = movable_replicas.placement
    counts = placement.topic_counts[topic]
    by_count = np.lexsort((np.arange(len(counts)), -counts))
    for source in by_count.tolist():
        if counts[source] <= placement.cluster.min_topic_leaders[topic]:
            return
        going = _of_topic(movable_replicas, topic, source, broker)
        for number in range(len(going)):
            returned = _returned(movable_replicas, broker, source, int(going[number]))
            if returned is not None:
                partition = int(going[number])
                position = int(np.flatnonzero(placement.replicas[partition] == source)[0])
                placement.give(partition, position, broker)
                placement.give(*returned, source)
                return


def _of_topic(movable_replicas: MovableReplicas, topic: int, source: int, destination: int) -> Ints:
    """Return partitions of the topic that could go, the smallest first."""
    if source == destination:
        return np.empty(0, dtype=np.int64)
    partitions = movable_replicas.receivable(source, destination).partitions
    topics = movable_replicas.placement.cluster.topic_numbers[partitions]
    return np.asarray(partitions[topics == topic])


def _returned(
    movable_replicas: MovableReplicas, source: int, destination: int, partition: int
) -> tuple[int, int] | None:
    """Return the replica nearest in size whose topic the source can spare; or None."""
    placement = movable_replicas.placement
    cluster = placement.cluster
    replicas = movable_replicas.receivable(source, destination)
    topics = cluster.topic_numbers[replicas.partitions]
    min_topic_leaders = cluster.min_topic_leaders[topics]
    topic_counts = placement.topic_counts[topics, source]
    can_spare = (min_topic_leaders == 0) | (topic_counts > min_topic_leaders)
    replicas = replicas.only(can_spare & (replicas.partitions != partition))
    return placement.nearest_in_size(replicas, partition)
