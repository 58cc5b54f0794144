"""Names in sentences: brokers, partitions, the cluster.

named([7, 8]) == "brokers 7, 8"
"""

from collections.abc import Sequence

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Ints
from counterpoise.model.words import MAX_NAMES, join_names
from counterpoise.planning.arrays import ClusterArrays


def named(broker_ids: Sequence[int]) -> str:
    """Return `broker 7` or `brokers 7, 8`."""
    noun = "broker" if len(broker_ids) == 1 else "brokers"
    return f"{noun} {', '.join(str(broker_id) for broker_id in broker_ids)}"


def is_or_are(subjects: Sequence[object]) -> str:
    return "is" if len(subjects) == 1 else "are"


def cluster_name(snapshot: ClusterSnapshot) -> str:
    """Return `cluster demo`, or `this cluster` when the snapshot has no name for it."""
    return f"cluster {snapshot.cluster}" if snapshot.cluster else "this cluster"


def not_registered(snapshot: ClusterSnapshot) -> str:
    """Return `not registered in cluster demo; registered: 1, 2, 3`."""
    registered = ", ".join(str(broker_id) for broker_id in snapshot.registered_broker_ids)
    return f"not registered in {cluster_name(snapshot)}; registered: {registered or 'none'}"


def partition_names(cluster: ClusterArrays, partitions: Ints) -> str:
    """Return the first few names, and how many more there are."""
    names = [cluster.name(partition) for partition in partitions[:MAX_NAMES].tolist()]
    return join_names(names, len(partitions))
