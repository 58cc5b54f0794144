"""Finds a cluster through its bootstrap addresses: the list in order, until one answers, each
failure with its reason.

    found = discover(connect(settings))
    found.attempts, found.answered_by, found.cluster.live_broker_ids

Any broker is a bootstrap server: the first that answers names all others. Limits: addresses after
that one are not tried; a second look tells whether brokers can also be reached at the endpoints
that they advertise.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoise.model.kafka import ClusterDescription

if TYPE_CHECKING:  # the clients are slow to import, and planning needs none
    from counterpoise.kafka_admin.cluster_admin import BothClients
    from counterpoise.kafka_admin.probe import Attempt


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a bootstrap list led to."""

    attempts: tuple["Attempt", ...]  # in order; the last one answered
    cluster: ClusterDescription

    @property
    def answered_by(self) -> str:
        """The address that answered."""
        return self.attempts[-1].address

    @property
    def silent(self) -> tuple["Attempt", ...]:
        """The addresses that did not answer, each with its reason.

        A half-dead list works, until it is dead.
        """
        return tuple(attempt for attempt in self.attempts if not attempt.answered)


def discover(admin: "BothClients") -> Discovery:
    """Try the addresses of `admin` in order. A dead one costs 3 s at most, one that keeps silent
    some 8 s.

    Raises ClusterUnreachableError with every address and its reason when none answers.
    """
    cluster = admin.describe_cluster()
    return Discovery(admin.attempts, cluster)
