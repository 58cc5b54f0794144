"""Topic exchange: a broker with far more of a topic than its share exchanges some for others.

    exchange_topics(placement, roles, shares, max_above=3)

Only where the policy asks for it (`topics_max_above_share`), and only for goal rebalance: each
exchange copies two replicas and changes no count per broker. What comes back is of another topic,
which gets no less even, and about as large.

Worked example: broker 1 holds 9 replicas of topic a, where its share is 5 at most; 4 above is more
than 3, so it gives replicas of a until it holds 5, each for one of another topic.
"""

import numpy as np

from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.roles import Roles

_MAX_PARTNERS = 8


def exchange_topics(
    placement: Placement, roles: Roles, shares: TopicShares, max_above: int
) -> None:
    """Bring brokers that are more than `max_above` over their share of a topic down to it."""
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources & roles.destinations)
    for topic, broker in _uneven_topics(placement, roles, shares, max_above):
        highest_share = shares.highest(broker)[topic]
        while placement.topic_counts[topic, broker] > highest_share:
            if not _exchange_one(placement, roles, movable_replicas, shares, topic, broker):
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


def _exchange_one(
    placement: Placement,
    roles: Roles,
    movable_replicas: MovableReplicas,
    shares: TopicShares,
    topic: int,
    broker: int,
) -> bool:
    """Give one replica of the topic away and get one of another topic; False when none can be."""
    cluster = placement.cluster
    partitions, positions = movable_replicas.of(broker, placement)
    is_of_topic = cluster.topic_numbers[partitions] == topic
    partitions, positions = partitions[is_of_topic], positions[is_of_topic]
    sizes = cluster.size_bytes[partitions]
    for partner in _partners(placement, roles, shares, topic):
        is_usable = placement.suits(partitions, positions, int(cluster.racks[partner]))
        is_usable &= ~placement.holds(partner, partitions)
        is_usable &= sizes <= placement.room[partner]
        for first in np.flatnonzero(is_usable)[:1].tolist():
            partition, position = int(partitions[first]), int(positions[first])
            returned = _returned(placement, movable_replicas, shares, partner, broker, partition)
            if returned is not None:
                placement.give(partition, position, partner)
                placement.give(*returned, broker)
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
    return list(able[fewest_first][:_MAX_PARTNERS].tolist())


def _returned(
    placement: Placement,
    movable_replicas: MovableReplicas,
    shares: TopicShares,
    source: int,
    destination: int,
    partition: int,
) -> tuple[int, int] | None:
    """Return the replica nearest in size to `partition` whose topic gets no less even; or None."""
    partitions, positions = movable_replicas.receivable(source, destination, placement)
    is_harmless = shares.harm(placement, partitions, source, destination) == 0
    usable = np.flatnonzero(is_harmless & (partitions != partition))
    if not len(usable):
        return None
    sizes = placement.cluster.size_bytes
    distances = np.abs(sizes[partitions[usable]] - sizes[partition])
    nearest = int(usable[np.lexsort((partitions[usable], distances))[0]])
    return int(partitions[nearest]), int(positions[nearest])
