"""The cluster: one protocol, both Kafka clients behind it, and a simulated cluster for tests and
scale.

    with closing(connect(settings)) as admin:
        admin.describe_cluster()

Importing this is cheap: the clients are loaded by the first `connect`.
"""

from typing import TYPE_CHECKING

from counterpoise.kafka_admin.connection import ConnectionSettings

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import BothClients

REQUEST_TIMEOUT_SECONDS = 15.0


def connect(
    settings: ConnectionSettings, *, request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
) -> "BothClients":
    """An admin for the cluster at `settings`; nothing is opened before the first call. Close it
    when done.

    The first call tries the addresses in order (`admin.attempts` tells how that went) and raises
    ClusterUnreachableError when none answers. `request_timeout_seconds` bounds each request: a
    frozen broker costs that much before it is given up.
    """
    from counterpoise.kafka_admin.cluster_admin import BothClients

    return BothClients(settings, request_timeout_seconds)
