"""Names in sentences: brokers, partitions, the cluster.

named([7, 8]) == "brokers 7, 8"
"""

from collections.abc import Sequence

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.planning.arrays import ClusterArrays, Ints

_MOST_NAMES = 5


def named(broker_ids: Sequence[int]) -> str:
    """`broker 7` or `brokers 7, 8`."""
    return f"broker{'s' if len(broker_ids) != 1 else ''} {', '.join(str(b) for b in broker_ids)}"


def cluster_name(snapshot: ClusterSnapshot) -> str:
    """`cluster demo`, or `this cluster` when the snapshot has no name for it."""
    return f"cluster {snapshot.cluster}" if snapshot.cluster else "this cluster"


def partition_names(cluster: ClusterArrays, partitions: Ints) -> str:
    """The first few names, and how many more there are."""
    names = ", ".join(cluster.name(int(partition)) for partition in partitions[:_MOST_NAMES])
    return f"{names} and {len(partitions) - _MOST_NAMES} more" if len(partitions) > _MOST_NAMES else names
