"""An index of a cluster's manifests, so that nobody reads each of thousands of small files.

    index = read_index(store, "demo")        # {} where there is none
    index.get(file)                          # the manifest's table, if the file has not changed
    write_index(store, "demo", files)

The index is a copy: it says of which files it was made, with their sizes and times of change, as a
list of the folder tells them. A manifest that is not in it, or was written again, is read. So an
index that is missing, damaged or old costs time and nothing else.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from counterpoise.errors import StoreError
from counterpoise.model.files import StoredFile
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import INT64, SNAPSHOTS, TEXT, UTC_TIME, required
from counterpoise.storage import Store

_LOGGER = safe_logger(__name__)
_ROWS: Final = pa.list_(pa.struct(list(SNAPSHOTS)))
INDEX: Final = pa.schema(
    [
        required("path", TEXT),
        required("size_bytes", INT64),
        required("modified_at", UTC_TIME),
        required("rows", _ROWS),
    ]
)


def read_index(store: Store, cluster: str) -> dict[StoredFile, pa.Table]:
    """Return the manifests in the index, by the file that each was read from."""
    path = _path(cluster)
    try:
        index = store.read_table(path).select(INDEX.names).cast(INDEX)
    except (StoreError, pa.ArrowException, KeyError) as error:
        if store.info(path) is None:
            return {}
        _LOGGER.warning("the index of manifests of %s is made anew: %s", cluster, error)
        return {}
    names = ("path", "size_bytes", "modified_at")
    files = zip(*(index[name].to_pylist() for name in names), strict=True)
    rows = index["rows"].combine_chunks()
    return {
        StoredFile(*file): pa.Table.from_struct_array(rows[number].values).cast(SNAPSHOTS)
        for number, file in enumerate(files)
    }


def write_index(store: Store, cluster: str, manifests: Mapping[StoredFile, pa.Table]) -> None:
    """Replace the index by these manifests; those whose time of change is unknown are left out."""
    known = {file: table for file, table in manifests.items() if file.modified_at is not None}
    columns = {
        "path": [file.path for file in known],
        "size_bytes": [file.size_bytes for file in known],
        "modified_at": [file.modified_at for file in known],
        "rows": [table.to_pylist() for table in known.values()],
    }
    store.write_table(_path(cluster), pa.table(columns, schema=INDEX))


def _path(cluster: str) -> str:
    return f"views/{cluster}/manifests.parquet"
