"""Replicas of a topic for every broker that has to lead some of it (`min_topic_leaders`).

    bring_topics(placement, roles)

    for each topic and broker with too few replicas of it:
        the broker with most of the topic gives one, and gets one of another topic for it, as near
        in size as can be: counts per broker stay

Worked example: orders has 4 replicas on broker 1, 2 on broker 2 and none on broker 3, and every
broker is to lead one partition of it. Broker 1 gives broker 3 a replica of 5 GB, and gets one of
another topic with 4.8 GB.

Limits: in small clusters the flow brings them (`flow`), at least cost; this is for larger ones.
"""

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.placement import MovableReplicas, Placement, Roles


def lacking_topics(placement: Placement, roles: Roles) -> list[tuple[int, int]]:
    """Return (topic, broker) for each replica that a broker lacks, so that it could lead it."""
    minimum = placement.cluster.min_topic_leaders
    found = []
    for topic in np.flatnonzero(minimum).tolist():
        counts = placement.topic_counts[topic]
        missing = np.where(roles.sharing & (counts.sum() > 0), minimum[topic] - counts, 0)
        for broker in np.flatnonzero(missing > 0).tolist():
            found += [(topic, broker)] * int(missing[broker])
    return found


def bring_topics(placement: Placement, roles: Roles) -> None:
    """Exchange replicas until no broker lacks one, or no exchange is left."""
    lacking = lacking_topics(placement, roles)
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
    minimum = cluster.min_topic_leaders[topics]
    can_spare = (minimum == 0) | (placement.topic_counts[topics, source] > minimum)
    replicas = replicas.only(can_spare & (replicas.partitions != partition))
    return placement.nearest_in_size(replicas, partition)
