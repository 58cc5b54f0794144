"""The cluster: what Kafka shows of it and lets us change, and the connections to it.

    with closing(connect(settings)) as admin:
        admin.describe_cluster()

Importing this is cheap: the Kafka clients are imported by the first `connect`.
"""

from typing import TYPE_CHECKING

from counterpoise.kafka_admin.connection import ConnectionSettings

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin

REQUEST_TIMEOUT_SECONDS = 15.0


def connect(
    settings: ConnectionSettings, *, request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> "ClusterAdmin":
    """Return an admin for the cluster at `settings`; close it when done.

    Nothing is opened before the first call. That call tries the addresses in order
    (`admin.attempts` has the results) and raises ClusterUnreachableError when all fail.
    `request_timeout_seconds` bounds each request: what a frozen broker costs at most.
    """
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin

    return ClusterAdmin(settings, request_timeout_seconds)
