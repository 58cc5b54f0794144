"""Reading back: tables of files into a snapshot.

    tables = {name: store.read_table(path, snapshot_id=id_) for name, path in files_of(row).items()}
    from_tables(row, tables)

A file of one snapshot has the columns of the table's schema. One of many snapshots has
`snapshot_id` too; then only the rows of the snapshot count, whether or not the caller has left out
the others.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.history.manifests import HistoryError, check_version
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import SNAPSHOT_TABLES


def from_tables(manifest_row: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> ClusterSnapshot:
    """Return the snapshot of a manifest row (as `to_pylist` gives it) and the tables it names.

    Raises HistoryError, naming file and column, when a table or a column is missing or the row
    count is not the manifest's.
    """
    check_version(manifest_row)
    files = {file["table"]: file for file in manifest_row["files"]}
    return ClusterSnapshot(
        snapshot_id=manifest_row["snapshot_id"],
        cluster=manifest_row["cluster"],
        cluster_id=manifest_row["cluster_id"],
        observed_at=manifest_row["observed_at"],
        tables={
            name: _conformed(name, schema, files, tables, manifest_row["snapshot_id"])
            for name, schema in SNAPSHOT_TABLES.items()
        },
    )


def check_shape(file: Mapping[str, Any], row_count: int, columns: pa.Schema) -> None:
    """Raise HistoryError when the footer of a file does not match the manifest's entry `file`.

    A file that holds several snapshots (it has a column snapshot_id) may have more rows than the
    one of the manifest.
    """
    path, schema = file["path"], SNAPSHOT_TABLES.get(file["table"], pa.schema([]))
    is_shared = "snapshot_id" in columns.names
    if row_count != file["row_count"] and not (is_shared and row_count > file["row_count"]):
        raise HistoryError(f"{path} has {row_count} rows, its manifest says {file['row_count']}")
    if missing := [name for name in schema.names if name not in columns.names]:
        raise HistoryError(f"{path} lacks columns: {', '.join(missing)}")
    if wrong := [field for field in schema if columns.field(field.name).type.id != field.type.id]:
        found = columns.field(wrong[0].name).type
        raise HistoryError(
            f"{path}: the column {wrong[0].name} holds {found}, and not {wrong[0].type}"
        )


def _conformed(
    name: str,
    schema: pa.Schema,
    files: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, pa.Table],
    snapshot_id: str,
) -> pa.Table:
    if name not in files or name not in tables:
        raise HistoryError(
            f"the manifest of this snapshot names no file for the table {name!r}, or the file was "
            "not read"
        )
    path, table = files[name]["path"], _rows_of(tables[name], snapshot_id)
    if table.num_rows != files[name]["row_count"]:
        raise HistoryError(
            f"{path} has {table.num_rows} rows, its manifest says {files[name]['row_count']}"
        )
    if missing := [name for name in schema.names if name not in table.column_names]:
        raise HistoryError(f"{path} lacks columns: {', '.join(missing)}")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise HistoryError(f"{path}: a column has another type or holds nulls: {error}") from error


def _rows_of(table: pa.Table, snapshot_id: str) -> pa.Table:
    if "snapshot_id" not in table.column_names:
        return table
    return table.filter(pc.equal(table["snapshot_id"], snapshot_id))
