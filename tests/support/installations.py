"""An installation over simulated clusters, in a folder of its own; each connection leads to an
address of its name.

    with installation_over(tmp_path, lambda settings: kafka) as installation:
        snapshots.make(installation, "demo", installation.clock())
        set_clock(installation, lambda: later)
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from counterpoise.installation import Installation, now_utc
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.settings import Locations, parse_settings
from tests.support.ledger_view import tell_time

DEMO = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
"""


def installation_over(
    folder: Path,
    connect_to: Callable[[ConnectionSettings], ClusterAdmin],
    *,
    clusters: str = DEMO,
    clock: Callable[[], datetime] = now_utc,
    connectivity_checker: Callable[[ConnectionSettings], ConnectivityCheck] | None = None,
) -> Installation:
    """Return an installation with store and ledger in `folder`; `clusters` is a clusters.yaml."""
    places = {
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }
    return Installation(
        Locations.from_environment(places),
        _Connections(),
        clock=clock,
        connect_to=connect_to,
        known_clusters=parse_settings(clusters, where="clusters.yaml"),
        connectivity_checker=connectivity_checker,
    )


def set_clock(installation: Installation, clock: Callable[[], datetime]) -> None:
    """Let another time hold for an installation, and for its ledger, which may be open."""
    installation.clock = clock
    tell_time(installation.ledger, clock)


class _Connections:
    def settings_for(self, connection_id: str) -> dict[str, object]:
        return {"bootstrap.servers": f"{connection_id}:9092"}
