"""The URIs of the assets that the Dags produce, and the check of them that Airflow calls.

    checked_uri(urlsplit("counterpoise://snapshot/fleet"))

A Dag of your own that waits for a URI which nothing produces would never start: where the package
is installed, Airflow refuses such a URI when the Dag is read. Imports no Airflow: it is read while
Airflow looks for its providers.
"""

from typing import Final
from urllib.parse import SplitResult

SCHEME: Final = "counterpoise"
CLUSTER_SNAPSHOT_URI: Final = f"{SCHEME}://snapshot/cluster"
FLEET_SNAPSHOT_URI: Final = f"{SCHEME}://snapshot/fleet"
REBALANCE_WANTED_URI: Final = f"{SCHEME}://rebalance/wanted"
_URIS: Final = (CLUSTER_SNAPSHOT_URI, FLEET_SNAPSHOT_URI, REBALANCE_WANTED_URI)


def checked_uri(parts: SplitResult) -> SplitResult:
    """Return the parts of a URI. Raises ValueError where no Dag of ours has that asset."""
    uri = parts.geturl().rstrip("/")
    if uri not in _URIS:
        raise ValueError(f"{uri}: Counterpoise has no such asset; it has {', '.join(_URIS)}")
    return parts
