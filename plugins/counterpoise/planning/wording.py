"""Names in sentences: brokers, partitions, the cluster.

named([7, 8]) == "brokers 7, 8"
"""

from collections.abc import Sequence

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Ints
from counterpoise.model.words import MAX_NAMES, join_names
from counterpoise.planning.arrays import ClusterArrays


def named(broker_ids: Sequence[int]) -> str:
    """`broker 7` or `brokers 7, 8`."""
    return f"broker{'s' if len(broker_ids) != 1 else ''} {', '.join(str(b) for b in broker_ids)}"


def cluster_name(snapshot: ClusterSnapshot) -> str:
    """`cluster demo`, or `this cluster` when the snapshot has no name for it."""
    return f"cluster {snapshot.cluster}" if snapshot.cluster else "this cluster"


def not_registered(snapshot: ClusterSnapshot) -> str:
    """`not registered in cluster demo; registered: 1, 2, 3`."""
    registered = ", ".join(str(b) for b in snapshot.registered_broker_ids)
    return f"not registered in {cluster_name(snapshot)}; registered: {registered or 'none'}"


def partition_names(cluster: ClusterArrays, partitions: Ints) -> str:
    """The first few names, and how many more there are."""
    return join_names(
        [cluster.name(int(partition)) for partition in partitions[:MAX_NAMES]], len(partitions)
    )
