"""Exchanges for the sake of topics: a broker that holds far more of a topic than its share gives
some for others.

    exchange_topics(placement, roles, shares, most_above=3)

Only where the policy asks for it (`topics_max_above_share`), and only in `rebalance`: each exchange
copies two replicas and changes no count per broker. What comes back is of another topic, which gets
no less even, and about as large.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.movable_replicas import MovableReplicas
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.roles import Roles

_MOST_PARTNERS = 8


def exchange_topics(
    placement: Placement, roles: Roles, shares: TopicShares, most_above: int
) -> None:
    """Brings brokers that are more than `most_above` over their share of a topic down to it, where
    partners are.
    """
    movable_replicas = MovableReplicas.of_sources(placement, roles.sources & roles.destinations)
    for topic, broker in _leaning(placement, roles, shares, most_above):
        while placement.topic_counts[topic, broker] > shares.highest(broker)[topic]:
            if not _exchange_one(placement, roles, movable_replicas, shares, topic, broker):
                break


def topics_above(placement: Placement, roles: Roles, shares: TopicShares, most_above: int) -> int:
    """Replicas above their brokers' shares of their topics, where that is by more than
    `most_above`.
    """
    return sum(
        int(placement.topic_counts[topic, broker] - shares.highest(broker)[topic])
        for topic, broker in _leaning(placement, roles, shares, most_above)
    )


def _leaning(
    placement: Placement, roles: Roles, shares: TopicShares, most_above: int
) -> list[tuple[int, int]]:
    """(topic, broker), the worst first."""
    found = []
    for broker in np.flatnonzero(roles.sources & roles.destinations).tolist():
        above = placement.topic_counts[:, broker] - shares.highest(broker)
        found += [
            (-int(above[topic]), int(topic), broker) for topic in np.flatnonzero(above > most_above)
        ]
    return [(topic, broker) for _, topic, broker in sorted(found)]


def _exchange_one(
    placement: Placement,
    roles: Roles,
    movable_replicas: MovableReplicas,
    shares: TopicShares,
    topic: int,
    broker: int,
) -> bool:
    """One replica of the topic away from the broker, and one of another topic there."""
    cluster = placement.cluster
    partitions, positions = movable_replicas.of(broker, placement)
    mine = cluster.topic_numbers[partitions] == topic
    partitions, positions = partitions[mine], positions[mine]
    for partner in _partners(placement, roles, shares, topic):
        usable = placement.suits(partitions, positions, int(cluster.racks[partner]))
        usable &= ~placement.holds(partner, partitions) & (
            cluster.size_bytes[partitions] <= placement.room[partner]
        )
        for at in np.flatnonzero(usable)[:1].tolist():
            back = _coming_back(
                placement, movable_replicas, shares, partner, broker, int(partitions[at])
            )
            if back is not None:
                placement.give(int(partitions[at]), int(positions[at]), partner)
                placement.give(*back, broker)
                return True
    return False


def _partners(placement: Placement, roles: Roles, shares: TopicShares, topic: int) -> list[int]:
    """Brokers with room for the topic, those with fewest of it first."""
    able = np.flatnonzero(roles.sources & roles.destinations)
    counts = placement.topic_counts[topic, able]
    highest = -(-int(shares.totals[topic]) * shares.wanted[able] // shares.whole)
    able, counts = able[counts < highest], counts[counts < highest]
    return list(able[np.lexsort((able, counts))][:_MOST_PARTNERS].tolist())


def _coming_back(
    placement: Placement,
    movable_replicas: MovableReplicas,
    shares: TopicShares,
    source: int,
    destination: int,
    partition: int,
) -> tuple[int, int] | None:
    """The replica nearest in size whose topic gets no less even by coming back; None where there is
    none.
    """
    cluster = placement.cluster
    partitions, positions = movable_replicas.suiting(
        source, int(cluster.racks[destination]), placement
    )
    usable: Ints = np.flatnonzero(
        ~placement.holds(destination, partitions)
        & (shares.harm(placement, partitions, source, destination) == 0)
        & (partitions != partition)
        & (cluster.size_bytes[partitions] <= placement.room[destination])
    )
    if not len(usable):
        return None
    off = np.abs(cluster.size_bytes[partitions[usable]] - cluster.size_bytes[partition])
    at = int(usable[np.lexsort((partitions[usable], off))[0]])
    return int(partitions[at]), int(positions[at])
