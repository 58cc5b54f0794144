"""History: which files a snapshot becomes, and how it is read back. Pure: it names and makes, others do I/O.

    snapshot_id = snapshot_id_for("demo", scheduled_at)      # demo-20261121T150000Z
    for path, table in history_files(snapshot).items(): ...  # write these first
    path, row = manifest_of(snapshot)                        # and this last

Names come from cluster and scheduled time, never from the clock: a retry, also over midnight, rewrites the same
files. The manifest names its files with their row counts; readers open nothing else, so a snapshot that is being
written is not there yet.

Limits: one file per table and snapshot; ids are unique as long as a cluster has one snapshot per microsecond.
"""

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOT_TABLES, SNAPSHOTS, TABLES_SINCE

ROOT: Final = "history"
_CLUSTER: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SNAPSHOT_ID: Final = re.compile(r"(?P<cluster>[a-z0-9][a-z0-9._-]*)-(?P<at>\d{8}T\d{6}(\.\d{6})?)Z")
_AT: Final = "%Y%m%dT%H%M%S"


class HistoryError(CounterpoiseError):
    """A snapshot in the history cannot be read: another schema version, a missing file or column."""


def snapshot_id_for(cluster: str, scheduled_at: datetime) -> str:
    """`demo-20261121T150000Z`: safe as a file name. `scheduled_at` must be aware; microseconds show only if not 0.

    Raises InputError when the cluster's name or the time cannot be part of a file name.
    """
    if not _CLUSTER.fullmatch(cluster):
        raise InputError(f"cluster {cluster!r}: a name is lower-case letters, digits, '.', '_' and '-'")
    if scheduled_at.tzinfo is None:
        raise InputError(f"scheduled time {scheduled_at.isoformat()} has no time zone; give it in UTC")
    at = scheduled_at.astimezone(UTC)
    return f"{cluster}-{at.strftime(_AT)}{f'.{at.microsecond:06d}' if at.microsecond else ''}Z"


def scheduled_at_of(snapshot_id: str) -> datetime:
    """The scheduled time in a snapshot id. Raises InputError for an id that `snapshot_id_for` did not make."""
    match = _SNAPSHOT_ID.fullmatch(snapshot_id)
    try:
        if match is None:
            raise ValueError
        whole, _, fraction = match["at"].partition(".")
        return datetime.strptime(whole, _AT).replace(tzinfo=UTC, microsecond=int(fraction or 0))
    except ValueError:
        raise InputError(
            f"snapshot id {snapshot_id!r} is not of the history; those look like demo-20261121T150000Z"
        ) from None


def manifests_folder(cluster: str) -> str:
    """Where a cluster's manifests lie, by date below it."""
    return _folder("snapshots", cluster)


def manifest_path(cluster: str, snapshot_id: str) -> str:
    return _path("snapshots", cluster, snapshot_id)


def table_path(table: str, cluster: str, snapshot_id: str) -> str:
    """`history/<table>/cluster=<name>/date=<scheduled day>/<snapshot_id>.parquet`, relative to the store."""
    return _path(table, cluster, snapshot_id)


def history_files(snapshot: ClusterSnapshot) -> Mapping[str, pa.Table]:
    """Every table by its path relative to the store. Write all of them before the manifest."""
    return {table_path(name, snapshot.cluster, snapshot.snapshot_id): snapshot.tables[name] for name in SNAPSHOT_TABLES}


def manifest_of(snapshot: ClusterSnapshot) -> tuple[str, pa.Table]:
    """The manifest's path and its one row of SNAPSHOTS. Raises InputError for a snapshot that tells no time."""
    if snapshot.observed_at is None:
        raise InputError(f"snapshot {snapshot.snapshot_id} does not tell when it was taken; it cannot join the history")
    row = {
        "snapshot_id": snapshot.snapshot_id,
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "observed_at": snapshot.observed_at.astimezone(UTC),
        "schema_version": SCHEMA_VERSION,
        "files": [
            {
                "table": name,
                "path": table_path(name, snapshot.cluster, snapshot.snapshot_id),
                "row_count": snapshot.tables[name].num_rows,
            }
            for name in SNAPSHOT_TABLES
        ],
    }
    path = manifest_path(snapshot.cluster, snapshot.snapshot_id)
    return path, pa.Table.from_pylist([row], schema=SNAPSHOTS)


def files_of(manifest_row: Mapping[str, Any]) -> dict[str, str]:
    """Path by table that a manifest row names; the paths to hand to the store, then to `from_tables`."""
    check_version(manifest_row)
    return {file["table"]: file["path"] for file in manifest_row["files"]}


def check_version(manifest_row: Mapping[str, Any]) -> None:
    """Raises HistoryError for a snapshot that a newer Counterpoise wrote."""
    version = manifest_row["schema_version"]
    if not 1 <= version <= SCHEMA_VERSION:
        raise HistoryError(
            f"snapshot {manifest_row['snapshot_id']} has schema version {version}; this Counterpoise reads 1 to "
            f"{SCHEMA_VERSION}. A newer one wrote it: update this one, or leave the snapshot out."
        )


def from_tables(manifest_row: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> ClusterSnapshot:
    """The snapshot of a manifest row (as `to_pylist` gives it) and the tables that it names.

    Columns that a later schema version added come back as nulls, tables that it added as empty ones. Raises
    HistoryError, naming file and column, when a table or a column is missing or the row count is not the manifest's.
    """
    check_version(manifest_row)
    files = {file["table"]: file for file in manifest_row["files"]}
    return ClusterSnapshot(
        snapshot_id=manifest_row["snapshot_id"],
        cluster=manifest_row["cluster"],
        cluster_id=manifest_row["cluster_id"],
        observed_at=manifest_row["observed_at"],
        tables={
            name: schema.empty_table()
            if manifest_row["schema_version"] < TABLES_SINCE.get(name, 1)
            else _conformed(name, schema, files, tables)
            for name, schema in SNAPSHOT_TABLES.items()
        },
    )


def pending(manifests: pa.Table, analysed_ids: Collection[str]) -> pa.Table:
    """The manifests of snapshots that have no result yet, oldest first; the rows of SNAPSHOTS to analyse next."""
    waiting = pa.array([i not in analysed_ids for i in manifests["snapshot_id"].to_pylist()], type=pa.bool_())
    return manifests.filter(waiting).sort_by([("observed_at", "ascending"), ("snapshot_id", "ascending")])


def manifests_json(manifests: pa.Table) -> str:
    """The `--snapshots` file of the Spark jobs: a JSON list of manifest rows, times in ISO 8601."""
    rows = [row | {"observed_at": row["observed_at"].isoformat()} for row in manifests.to_pylist()]
    return json.dumps(rows, indent=1, sort_keys=True) + "\n"


def _conformed(
    name: str, schema: pa.Schema, files: Mapping[str, Mapping[str, Any]], tables: Mapping[str, pa.Table]
) -> pa.Table:
    if name not in files or name not in tables:
        raise HistoryError(f"the manifest of this snapshot names no file for the table {name!r}, or it was not read")
    path, table = files[name]["path"], tables[name]
    if table.num_rows != files[name]["row_count"]:
        raise HistoryError(f"{path} has {table.num_rows} rows, its manifest says {files[name]['row_count']}")
    missing = [f.name for f in schema if f.name not in table.column_names and not f.nullable]
    if missing:
        raise HistoryError(f"{path} lacks the column(s) {', '.join(missing)}")
    columns = [table[f.name] if f.name in table.column_names else pa.nulls(table.num_rows, f.type) for f in schema]
    try:
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise HistoryError(f"{path}: a column has another type or holds nulls: {error}") from error


def _folder(table: str, cluster: str) -> str:
    if not _CLUSTER.fullmatch(cluster):
        raise InputError(f"cluster {cluster!r}: a name is lower-case letters, digits, '.', '_' and '-'")
    return f"{ROOT}/{table}/cluster={cluster}"


def _path(table: str, cluster: str, snapshot_id: str) -> str:
    day: date = scheduled_at_of(snapshot_id).date()
    return f"{_folder(table, cluster)}/date={day.isoformat()}/{snapshot_id}.parquet"
