"""An index of a cluster's manifests, so that nobody reads each of thousands of small files.

    index = read_index(store, "demo")        # {} where there is none
    read_manifests(store, "demo", index, store.read_table)    # all; those in the index from there
    indexed_manifests(store, "demo")         # the same, and the index is brought up to date

The index is a copy: it says of which files it was made, with their sizes and times of change, as a
list of the folder tells them. A manifest that is not in it, or was written again, is read. So an
index that is missing, damaged or old costs time and nothing else.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import pyarrow as pa

from counterpoise.errors import StoreError
from counterpoise.history import manifests_folder
from counterpoise.model.files import StoredFile
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import INT64, SNAPSHOTS, TEXT, UTC_TIME, required
from counterpoise.storage import Store

Manifest = TypeVar("Manifest")  # as its reader has it

_MAX_TRIES: Final = 3
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
    path = index_path(cluster)
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


def indexed_manifests(
    store: Store, cluster: str, listed: Iterable[StoredFile] | None = None
) -> dict[StoredFile, pa.Table]:
    """Return all manifests of a cluster by their files; bring the index up to date.

    `listed` are the cluster's manifest files, where they are known.
    """
    index = read_index(store, cluster)
    manifests = read_manifests(store, cluster, index, store.read_table, listed)
    if {file for file in manifests if file.modified_at} != index.keys():
        _write_index(store, cluster, manifests)
    return manifests


def read_manifests(
    store: Store,
    cluster: str,
    known: Mapping[StoredFile, Manifest],
    read: Callable[[str], Manifest],
    listed: Iterable[StoredFile] | None = None,
) -> dict[StoredFile, Manifest]:
    """Return all manifests of a cluster by their files; `read` is asked for those that are not
    known, by path.

    A manifest that is deleted between the list and the read was replaced by another one: then both
    are done again.
    """
    folder = manifests_folder(cluster)
    files = manifest_list(store, folder) if listed is None else list(listed)
    for _ in range(_MAX_TRIES):
        try:
            return {file: known[file] if file in known else read(file.path) for file in files}
        except StoreError:
            files_before, files = files, manifest_list(store, folder)
            if files == files_before:
                raise
    raise StoreError(
        f"the manifests in {store.uri(folder)} changed {_MAX_TRIES} times while they were read; "
        "try again"
    )


def manifest_list(store: Store, folder: str) -> list[StoredFile]:
    """Return the manifest files below a folder."""
    return [file for file in store.files(folder) if file.path.endswith(".parquet")]


def _write_index(store: Store, cluster: str, manifests: Mapping[StoredFile, pa.Table]) -> None:
    """Replace the index by these manifests; those whose time of change is unknown are left out."""
    known = {file: table for file, table in manifests.items() if file.modified_at is not None}
    columns = {
        "path": [file.path for file in known],
        "size_bytes": [file.size_bytes for file in known],
        "modified_at": [file.modified_at for file in known],
        "rows": [table.to_pylist() for table in known.values()],
    }
    store.write_table(index_path(cluster), pa.table(columns, schema=INDEX))


def index_path(cluster: str) -> str:
    """Return where the index of a cluster's manifests lies."""
    return f"views/{cluster}/manifests.parquet"
