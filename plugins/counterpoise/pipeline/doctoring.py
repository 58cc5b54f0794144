"""The walk that every client takes, and what is wrong on the way.

    examined = examine(site, "orders-eu", topics=("orders",))
    examined.findings

Reads only; nothing is kept, and no ledger is needed.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoise.discovery.diagnosis import diagnose
from counterpoise.installation import Installation
from counterpoise.model.finding import Finding
from counterpoise.model.walk import ClusterSight, Walk

if TYPE_CHECKING:  # the clients are slow to import
    from counterpoise.kafka_admin.leader_watch import LeaderWatch


@dataclass(frozen=True, slots=True)
class Examination:
    """A walk, what the address that answered tells of the cluster (None: nothing), and what is
    wrong.
    """

    walk: Walk
    sight: ClusterSight | None
    findings: tuple[Finding, ...]  # the worst first
    topics: tuple[str, ...] = ()  # that were asked about


def examine(installation: Installation, cluster: str, *, topics: Sequence[str] = ()) -> Examination:
    """Walks to every bootstrap address and every endpoint.

    Raises InputError for what a person wrote wrong.
    """
    from counterpoise.kafka_admin.walking import look_around

    walk = installation.walk(cluster, topics=topics)
    sight = (
        look_around(installation.walk_settings(cluster), walk)
        if installation.walk_to is None
        else None
    )
    findings = diagnose(
        walk,
        sight,
        topics=topics,
        now=installation.clock(),
        pinned_cluster_id=installation.cluster(cluster).pinned_cluster_id,
    )
    return Examination(walk, sight, findings, tuple(topics))


@contextmanager
def leader_watch(
    installation: Installation, cluster: str, walk: Walk, *, topics: Sequence[str] = ()
) -> Iterator["LeaderWatch"]:
    """Follows the leaders of `topics`, or of all, through the addresses that answered."""
    from counterpoise.kafka_admin.leader_watch import LeaderWatch

    with closing(LeaderWatch(installation.walk_settings(cluster), walk, topics=topics)) as watch:
        yield watch
