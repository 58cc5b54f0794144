"""Topics: exchanges of replicas for the sake of a topic, where a constraint or the policy asks.

    bring_topics(placement, roles, lacking)                # for brokers that have to lead a topic
    exchange_topics(placement, roles, shares, max_above=3)

Limits: replicas are chosen by topic among those that move anyway. None moves for the sake of its
topic alone: on clusters of thousands of topics that would move a large part of the data for little
(docs/decisions/0008). Exceptions: what the policy asks for (`topics_max_above_share`), and topics
of which every broker has to lead some (`min_topic_leaders`); in small clusters the flow brings
these at least cost (`replica_choice`), in larger ones `bring_topics`.
"""

from collections.abc import Callable

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.fair_shares import TopicShares
from counterpoise.planning.placement import MovableReplicas, Placement, Replicas, Roles

_MAX_TOPIC_PARTNERS = 8


# -- replicas of a topic for every broker that has to lead some of it


def bring_topics(placement: Placement, roles: Roles, lacking: list[tuple[int, int]]) -> None:
    """Exchange replicas until no broker lacks one of a topic, or no exchange is left.

    `lacking` has (topic, broker) once for each replica that is missing; it has one or more.

    for each topic and broker with too few replicas of it:
        the broker with most of the topic gives one, and gets one of another topic for it, as near
        in size as can be: counts per broker stay

    Worked example: orders has 4 replicas on broker 1, 2 on broker 2 and none on broker 3, and every
    broker is to lead one partition of it. Broker 1 gives broker 3 a replica of 5 GB, and gets one
    of another topic with 4.8 GB.
    """
    placement.touched[:] = False
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources & roles.destinations)
    for topic, broker in lacking:
        if roles.destinations[broker]:
            _bring_one(movable_replicas, topic, broker)


def _bring_one(movable_replicas: MovableReplicas, topic: int, broker: int) -> None:
    placement = movable_replicas.placement
    counts = placement.topic_counts[topic]
    min_count = placement.cluster.min_topic_leaders[topic]
    largest_first = np.lexsort((np.arange(len(counts)), -counts))

    def can_spare(partitions: Ints, holder: int) -> Flags:
        topics = placement.cluster.topic_numbers[partitions]
        min_counts = placement.cluster.min_topic_leaders[topics]
        return np.asarray((min_counts == 0) | (placement.topic_counts[topics, holder] > min_counts))

    for source in largest_first.tolist():
        if counts[source] <= min_count:
            return
        going = _of_topic(movable_replicas, topic, source, broker)
        for number in range(len(going.partitions)):
            if _exchange(movable_replicas, going.one(number), source, broker, can_spare):
                return


# -- topics that are too concentrated


def exchange_topics(
    placement: Placement, roles: Roles, shares: TopicShares, max_above: int
) -> None:
    """Bring brokers that are more than `max_above` over their share of a topic down to it.

    Only where the policy asks for it (`topics_max_above_share`): each exchange copies two replicas
    and changes no count per broker. What comes back is of another topic, which gets no less even,
    and about as large.

    Worked example: broker 1 holds 9 replicas of topic a, where its share is 5 at most; 4 above is
    more than 3, so it gives replicas of a until it holds 5, each for one of another topic.
    """
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources & roles.destinations)
    for topic, broker in _uneven_topics(placement, roles, shares, max_above):
        highest_share = shares.highest(broker)[topic]
        while placement.topic_counts[topic, broker] > highest_share:
            if not _exchange_topic(movable_replicas, roles, shares, topic, broker):
                break


def topics_above(placement: Placement, roles: Roles, shares: TopicShares, max_above: int) -> int:
    """Return the replicas above their topic's share, where that is by more than `max_above`."""
    return sum(
        int(placement.topic_counts[topic, broker] - shares.highest(broker)[topic])
        for topic, broker in _uneven_topics(placement, roles, shares, max_above)
    )


def _uneven_topics(
    placement: Placement, roles: Roles, shares: TopicShares, max_above: int
) -> list[tuple[int, int]]:
    """Return (topic, broker), the worst first."""
    found = []
    for broker in np.flatnonzero(roles.sources & roles.destinations).tolist():
        above = placement.topic_counts[:, broker] - shares.highest(broker)
        for topic in np.flatnonzero(above > max_above).tolist():
            found.append((-int(above[topic]), topic, broker))
    return [(topic, broker) for _, topic, broker in sorted(found)]


def _exchange_topic(
    movable_replicas: MovableReplicas, roles: Roles, shares: TopicShares, topic: int, broker: int
) -> bool:
    """Give one replica of the topic away and get one of another topic; False when none can be."""
    placement = movable_replicas.placement

    def is_harmless(partitions: Ints, partner: int) -> Flags:
        return np.asarray(shares.harm(placement, partitions, partner, broker) == 0)

    for partner in _partners(placement, roles, shares, topic):
        going = _of_topic(movable_replicas, topic, broker, partner)
        if not len(going.partitions):
            continue
        if _exchange(movable_replicas, going.one(0), broker, partner, is_harmless):
            return True
    return False


def _partners(placement: Placement, roles: Roles, shares: TopicShares, topic: int) -> list[int]:
    """Return brokers with room for the topic, those with fewest of it first."""
    able = np.flatnonzero(roles.sources & roles.destinations)
    counts = placement.topic_counts[topic, able]
    highest = -(-int(shares.totals[topic]) * shares.wanted[able] // shares.wanted_total)
    has_room = counts < highest
    able, counts = able[has_room], counts[has_room]
    fewest_first = np.lexsort((able, counts))
    return list(able[fewest_first][:_MAX_TOPIC_PARTNERS].tolist())


# -- one exchange


def _of_topic(
    movable_replicas: MovableReplicas, topic: int, source: int, destination: int
) -> Replicas:
    """Return the replicas of a topic that may go from source to destination, smallest first."""
    placement = movable_replicas.placement
    replicas = movable_replicas.of(source)
    replicas = replicas.only(placement.cluster.topic_numbers[replicas.partitions] == topic)
    is_usable = placement.may_receive(replicas, destination)
    return replicas.only(is_usable & placement.has_room(replicas, destination))


def _exchange(
    movable_replicas: MovableReplicas,
    going: tuple[int, int],
    source: int,
    destination: int,
    may_return: Callable[[Ints, int], Flags],
) -> bool:
    """Exchange a replica for the one nearest in size that may return; False when none may.

    `may_return` says of which partitions a broker may give its replica back.
    """
    placement, (partition, position) = movable_replicas.placement, going
    returning = movable_replicas.receivable(destination, source)
    is_other = returning.partitions != partition
    returning = returning.only(is_other & may_return(returning.partitions, destination))
    if not len(returning.partitions):
        return False
    sizes = placement.cluster.size_bytes
    distances = np.abs(sizes[returning.partitions] - sizes[partition])
    nearest = int(np.lexsort((returning.partitions, distances))[0])
    placement.give(partition, position, destination)
    placement.give(*returning.one(nearest), source)
    return True
