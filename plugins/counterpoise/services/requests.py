"""What people have asked for about clusters, and is in force now."""

from collections.abc import Iterable

from counterpoise.installation import Installation
from counterpoise.model.control import ActiveRequests, find_active_requests
from counterpoise.model.grouping import grouped


def in_force(installation: Installation, clusters: Iterable[str]) -> dict[str, ActiveRequests]:
    """Return by cluster, in order, what holds there now, and of the run under way there."""
    now, requests = installation.ledger.now(), installation.ledger.current_requests()
    by_cluster = grouped((request.cluster, request) for request in requests)
    names = sorted(set(clusters))
    return {name: find_active_requests(by_cluster.get(name, ()), now) for name in names}
