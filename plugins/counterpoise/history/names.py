"""Names: ids of snapshots, and the paths of their files relative to the store.

    snapshot_id_for("demo", scheduled_at)                  # demo-20261121T150000Z
    table_path("brokers", "demo", "demo-20261121T150000Z")

Names come from cluster and scheduled time, never from the clock: a retry, also over midnight,
rewrites the same files.

Limits: ids are unique as long as a cluster has one snapshot per microsecond.
"""

import re
from datetime import UTC, date, datetime
from typing import Final

from counterpoise.errors import InputError

ROOT: Final = "history"
MANIFESTS: Final = "snapshots"
COMPACTED: Final = "compacted-"  # how the names of files begin that hold many snapshots
_CLUSTER: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SNAPSHOT_ID: Final = re.compile(
    r"(?P<cluster>[a-z0-9][a-z0-9._-]*)-(?P<at>\d{8}T\d{6}(\.\d{6})?)Z"
)
_AT: Final = "%Y%m%dT%H%M%S"


def snapshot_id_for(cluster: str, scheduled_at: datetime) -> str:
    """Return an id like `demo-20261121T150000Z`, safe as a file name.

    `scheduled_at` must have a time zone; microseconds show only where they are not 0.

    Raises InputError when the cluster's name or the time cannot be part of a file name.
    """
    _check_cluster(cluster)
    if scheduled_at.tzinfo is None:
        raise InputError(
            f"scheduled time {scheduled_at.isoformat()} has no time zone; give it in UTC"
        )
    moment = scheduled_at.astimezone(UTC)
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    return f"{cluster}-{moment.strftime(_AT)}{fraction}Z"


def _check_cluster(name: str) -> None:
    if not _CLUSTER.fullmatch(name):
        raise InputError(
            f"cluster {name!r}: a name is lower-case letters, digits, '.', '_' and '-'"
        )


def scheduled_at_of(snapshot_id: str) -> datetime:
    """Return the scheduled time in a snapshot id.

    Raises InputError for an id that `snapshot_id_for` did not make.
    """
    match = _SNAPSHOT_ID.fullmatch(snapshot_id)
    try:
        if match is None:
            raise ValueError
        return datetime.fromisoformat(match["at"]).replace(tzinfo=UTC)
    except ValueError:
        raise InputError(
            f"snapshot id {snapshot_id!r} is not one of the history; those look like "
            "demo-20261121T150000Z"
        ) from None


def day_of(snapshot_id: str) -> date:
    """Return the scheduled day (UTC), which names the folder of the snapshot's files."""
    return scheduled_at_of(snapshot_id).date()


def manifests_folder(cluster: str, day: date | None = None) -> str:
    """Return the folder of a cluster's manifests (of a day, if given)."""
    return table_folder(MANIFESTS, cluster, day)


def manifest_path(cluster: str, snapshot_id: str) -> str:
    return table_path(MANIFESTS, cluster, snapshot_id)


def table_path(table: str, cluster: str, snapshot_id: str) -> str:
    """Return `history/<table>/cluster=<name>/date=<scheduled day>/<snapshot_id>.parquet`, relative
    to the store.
    """
    return f"{table_folder(table, cluster, day_of(snapshot_id))}/{snapshot_id}.parquet"


def compacted_path(table: str, cluster: str, day: date, digest: str) -> str:
    """Return the path of a day's one file of a table; with MANIFESTS, of the day's one manifest."""
    return f"{table_folder(table, cluster, day)}/{COMPACTED}{digest}.parquet"


def is_compacted(path: str) -> bool:
    return path.rpartition("/")[2].startswith(COMPACTED)


def table_folder(table: str, cluster: str, day: date | None = None) -> str:
    _check_cluster(cluster)
    return f"{ROOT}/{table}/cluster={cluster}{f'/date={day.isoformat()}' if day else ''}"


def place_of(path: str) -> tuple[str, date] | None:
    """Return cluster and day of a file of the history, by its folder; None for any other path."""
    parts = dict(part.partition("=")[::2] for part in path.split("/") if "=" in part)
    try:
        return parts["cluster"], date.fromisoformat(parts["date"])
    except (KeyError, ValueError):
        return None
