"""Manifests: the files of a snapshot with their row counts. Readers open nothing else.

    for path, table in history_files(snapshot).items(): ...  # write these first
    path, row = manifest_of(snapshot)                        # and this last
    recent_rows(manifests, snapshot, count=3, min_age=timedelta(minutes=30))
    rows_by_age(manifests, snapshot)            # about one for each hour, day, week back

A snapshot that is being written has no manifest, and so is not there yet. Compaction puts the
manifests of a day into one file, and the day's rows of a table into one file, which all of them
then name.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.history.names import is_compacted, manifest_path, table_path
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOT_TABLES, SNAPSHOTS

_AGES: Final = tuple(timedelta(hours=hours) for hours in (0, 1, 3, 6, 12, 24, 48, 96, 168))

Row = Mapping[str, Any]


class HistoryError(CounterpoiseError):
    """A snapshot of the history cannot be read: schema version, missing file or missing column."""


def history_files(snapshot: ClusterSnapshot) -> Mapping[str, pa.Table]:
    """Return every table by its path relative to the store. Write all before the manifest."""
    return {
        table_path(name, snapshot.cluster, snapshot.snapshot_id): snapshot.tables[name]
        for name in SNAPSHOT_TABLES
    }


def manifest_of(snapshot: ClusterSnapshot) -> tuple[str, pa.Table]:
    """Return the manifest's path and its one row of SNAPSHOTS.

    Raises InputError for a snapshot that tells no time.
    """
    if snapshot.observed_at is None:
        raise InputError(
            f"snapshot {snapshot.snapshot_id} has no observed_at, so it cannot be written into the "
            "history"
        )
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
    """Return the path by table that a manifest row names; the paths to hand to the store, then to
    `from_tables`.
    """
    check_version(manifest_row)
    return {file["table"]: file["path"] for file in manifest_row["files"]}


def check_version(manifest_row: Mapping[str, Any]) -> None:
    """Raise HistoryError for a snapshot of another schema version."""
    version = manifest_row["schema_version"]
    if version != SCHEMA_VERSION:
        raise HistoryError(
            f"snapshot {manifest_row['snapshot_id']} has schema version {version}; this "
            f"Counterpoise reads version {SCHEMA_VERSION}. Another release wrote it: read it with "
            "that one, or leave the snapshot out."
        )


def manifest_rows(path: str, table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a manifest file.

    Raises HistoryError, naming it, for a table that is no manifest.
    """
    if missing := [field.name for field in SNAPSHOTS if field.name not in table.column_names]:
        raise HistoryError(
            f"{path} is no manifest: it lacks required columns: {', '.join(missing)}"
        )
    if empty := [
        field.name for field in SNAPSHOTS if not field.nullable and table[field.name].null_count
    ]:
        raise HistoryError(f"{path} is no manifest: these columns hold nulls: {', '.join(empty)}")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def each_once(files: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of manifest files (by path), oldest first, each snapshot once.

    In the middle of a compaction a snapshot is in two files; both are the same, so it does not
    matter which one counts. Of a snapshot that was written again after its day was compacted, the
    last observation counts.
    """
    return rows_once({path: manifest_rows(path, table) for path, table in files.items()})


def rows_once(rows_by_path: Mapping[str, Iterable[Mapping[str, Any]]]) -> pa.Table:
    """Return what `each_once` does, of the rows of each manifest file."""
    rows: dict[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = {}
    for path in sorted(rows_by_path):
        for row in rows_by_path[path]:
            rank = (row["observed_at"], is_compacted(path), path)
            if row["snapshot_id"] not in rows or rank > rows[row["snapshot_id"]][0]:
                rows[row["snapshot_id"]] = (rank, row)
    ordered = sorted(
        (row for _, row in rows.values()), key=lambda row: (row["observed_at"], row["snapshot_id"])
    )
    return pa.Table.from_pylist(ordered, schema=SNAPSHOTS)


# -- which earlier snapshots are read to look back from a present one


def recent_rows(
    manifests: pa.Table, snapshot: ClusterSnapshot, *, count: int, min_age: timedelta
) -> list[Row]:
    """Return the newest `count` snapshots before this one, oldest first.

    Where none of them is `min_age` old, the newest that is so old stands before them: of snapshots
    10, 20, 30, 60 and 90 minutes ago those of 60, 20 and 10, with a count of 2 and 45 minutes.
    """
    rows = _rows_before(manifests, snapshot)
    recent = rows[max(0, len(rows) - count) :]
    old_enough = [row for row in rows if _age(row, snapshot) >= min_age]
    if old_enough and old_enough[-1] not in recent:
        return [old_enough[-1], *recent]
    return recent


def rows_by_age(manifests: pa.Table, snapshot: ClusterSnapshot) -> list[Row]:
    """Return for each of nine ages up to a week the newest snapshot of that age, newest first."""
    rows = _rows_before(manifests, snapshot)
    chosen: dict[str, Row] = {}
    for min_age in _AGES:
        old_enough = [row for row in rows if _age(row, snapshot) >= min_age]
        if old_enough:
            chosen.setdefault(old_enough[-1]["snapshot_id"], old_enough[-1])
    return list(chosen.values())


def _rows_before(manifests: pa.Table, snapshot: ClusterSnapshot) -> list[Row]:
    """Return the rows of snapshots made before this one, oldest first."""
    return [
        row
        for row in manifests.to_pylist()
        if row["snapshot_id"] != snapshot.snapshot_id and _age(row, snapshot) >= timedelta()
    ]


def _age(row: Row, snapshot: ClusterSnapshot) -> timedelta:
    observed_at: datetime = row["observed_at"]
    if snapshot.observed_at is None:
        return timedelta()
    return snapshot.observed_at - observed_at
