"""What people have asked for about clusters, and is in force now."""

from collections.abc import Iterable

from counterpoise.installation import Installation
from counterpoise.model.control import ActiveRequests, ControlRequest, find_active_requests
from counterpoise.model.grouping import grouped


def freezes(installation: Installation, clusters: Iterable[str]) -> tuple[ControlRequest, ...]:
    """Return the freezes in force now, by cluster."""
    in_force = _active_requests(installation, clusters)
    return tuple(active.frozen for active in in_force if active.frozen)


def kept_empty(installation: Installation, clusters: Iterable[str]) -> tuple[ControlRequest, ...]:
    """Return the requests that keep brokers empty, by cluster and broker."""
    in_force = _active_requests(installation, clusters)
    return tuple(request for active in in_force for request in active.kept_empty.values())


def _active_requests(
    installation: Installation, clusters: Iterable[str]
) -> tuple[ActiveRequests, ...]:
    now, requests = installation.ledger.now(), installation.ledger.current_requests()
    by_cluster = grouped((request.cluster, request) for request in requests)
    names = sorted(set(clusters))
    return tuple(find_active_requests(by_cluster.get(name, ()), now) for name in names)
