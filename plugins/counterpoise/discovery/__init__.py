"""Finds a cluster through its bootstrap addresses: tries them in order until one responds.

    discovery = discover(connect(settings))
    discovery.attempts, discovery.answered_by, discovery.cluster.live_broker_ids

Any broker is a bootstrap server: the first that responds names all others.

Limits: addresses after that one are not tried, and the endpoints that brokers advertise are not
checked; `kafka_admin.connectivity` does both.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoise.model.kafka import ClusterDescription

if TYPE_CHECKING:  # the Kafka clients are slow to import, and planning needs none
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.kafka_admin.handshake import BootstrapAttempt


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a bootstrap list led to."""

    attempts: tuple["BootstrapAttempt", ...]  # in order; the last one succeeded
    cluster: ClusterDescription

    @property
    def answered_by(self) -> str:
        """Return the address that responded."""
        return self.attempts[-1].address

    @property
    def unreachable(self) -> tuple["BootstrapAttempt", ...]:
        """Return the failed attempts before it, each with its reason."""
        return tuple(attempt for attempt in self.attempts if not attempt.is_reachable)


def discover(admin: "ClusterAdmin") -> Discovery:
    """Try the addresses of `admin` in order.

    A dead address costs 3 s at most, one that accepts connections and does not respond some 8 s.
    Raises ClusterUnreachableError with every address and its reason when all fail.
    """
    cluster = admin.describe_cluster()
    return Discovery(admin.attempts, cluster)
