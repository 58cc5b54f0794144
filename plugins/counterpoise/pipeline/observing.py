"""Photographs of clusters, into the history; bad ones are set aside (`checking`).

snapshot(site, "orders-eu", scheduled_at)
"""

from datetime import datetime

from counterpoise import history
from counterpoise.installation import Installation
from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.pipeline.checking import check_photograph
from counterpoise.snapshot import take_snapshot


def due_clusters(installation: Installation) -> list[str]:
    """The clusters to photograph in this round."""
    return sorted(installation.settings.clusters)


def snapshot(installation: Installation, cluster: str, scheduled_at: datetime) -> dict[str, str]:
    """Photographs a cluster into the history. The scheduled time names it, so that a retry writes
    the same files.

    Raises BadSnapshotError for a photograph that was set aside, and what a photograph raises.
    """
    taken = photograph(installation, cluster, scheduled_at)
    keep(installation, taken)
    return {"cluster": cluster, "snapshot_id": taken.snapshot_id}


def keep(installation: Installation, taken: ClusterSnapshot) -> None:
    """Adds a photograph to the history.

    Raises BadSnapshotError before anything of it is written there.
    """
    check_photograph(installation, taken)
    installation.archive.write_snapshot(taken)
    installation.ledger.record_snapshot(taken.cluster, taken.snapshot_id, installation.clock())


def photograph(installation: Installation, cluster: str, at: datetime) -> ClusterSnapshot:
    """A fresh look at a cluster; nothing is kept."""
    with installation.reader(cluster) as reader:
        return photograph_by(reader, installation, cluster, at)


def photograph_by(
    reader: ClusterReader, installation: Installation, cluster: str, at: datetime
) -> ClusterSnapshot:
    """As `photograph`, for those who are connected already."""
    return take_snapshot(
        reader,
        cluster=cluster,
        snapshot_id=history.snapshot_id_for(cluster, at),
        observed_at=installation.clock(),
        security_protocol=installation.security_protocol(cluster),
    )


def sound_photograph(installation: Installation, cluster: str, at: datetime) -> ClusterSnapshot:
    """A fresh look that may be planned on, and is not kept.

    Raises BadSnapshotError for one that was set aside.
    """
    taken = photograph(installation, cluster, at)
    check_photograph(installation, taken)
    return taken
