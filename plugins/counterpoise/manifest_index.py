"""An index of a cluster's manifests, so that nobody reads each of thousands of small files.

    index = read_index(store, "demo")        # {} where there is none
    read_manifests(store, "demo", index, store.read_table)    # all; those in the index from there
    indexed_manifests(store, "demo")         # the same, and the index is brought up to date

The index is a copy: it says of which files it was made, with their sizes and times of change, as a
list of the folder tells them. A manifest that is not in it, or was written again, is read. So an
index that is missing, damaged or old costs time and nothing else.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import StoreError
from counterpoise.history import manifest_rows, manifests_folder, rows_once
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


# -- One file with what a round of all clusters would otherwise ask the store for
#
#     fleet = Fleet.read(store)                          # empty where there is none
#     fleet.manifests("demo", listed)                    # of every snapshot, oldest first
#     fleet.copies("demo")                               # small files of its newest snapshot
#     fleet.keep_copies("demo", copies)
#     fleet.write()
#
# Of each manifest it says of which snapshots it is; which files those have, for the newest of each
# cluster alone. Beside those it holds what the next snapshot is compared with, where that is small.
#
# The file is a copy: it names the manifests that it was made of, with sizes and times of change, as
# a list of the folder tells them. What has changed since is read from the store. So a fleet file
# that is missing, damaged or old costs requests and nothing else.


Row = dict[str, Any]  # of SNAPSHOTS

PATH: Final = "views/_fleet.parquet"  # no cluster has a name that begins so
MAX_COPY_BYTES: Final = 128 << 10  # 200 clusters with two copies each stay below 50 MiB
_NEWEST: Final = 3  # snapshots of a cluster: those that the next ones are compared with
_MAX_READ: Final = 8  # manifests of a cluster that are read without looking into its index
_FILE: Final = ("path", "size_bytes", "modified_at")
_COPY: Final = pa.struct([required("path", TEXT), required("data", pa.binary())])
FLEET: Final = pa.schema(
    [
        required("cluster", TEXT),
        required("path", TEXT),
        required("size_bytes", INT64),
        required("modified_at", UTC_TIME),
        required("rows", pa.list_(pa.struct(list(SNAPSHOTS)))),
        required("copies", pa.list_(_COPY)),
    ]
)


@dataclass(slots=True)
class Fleet:
    """By cluster a table of FLEET, a row for each manifest."""

    _store: Store
    _tables: dict[str, pa.Table] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store) -> "Fleet":
        """Return what the store has; nothing, with a warning, where that cannot be read."""
        try:
            table = store.read_table(PATH).select(FLEET.names).cast(FLEET)
        except (StoreError, pa.ArrowException, KeyError) as error:
            if store.info(PATH) is not None:
                _LOGGER.warning("%s is made anew: %s", store.uri(PATH), error)
            return cls(store)
        clusters = table["cluster"].unique().to_pylist()
        return cls(
            store, {name: table.filter(pc.equal(table["cluster"], name)) for name in clusters}
        )

    def manifests(
        self, cluster: str, listed: Collection[StoredFile], *, is_whole: bool = False
    ) -> pa.Table:
        """Return the rows of SNAPSHOTS of a cluster, oldest first, each snapshot once.

        `listed` are its manifest files. `files` is empty but for the newest snapshots, unless
        `is_whole`: then all comes from the index of the cluster's manifests, which is brought up to
        date; so it is where many manifests are new.
        """
        known = self._known(cluster)
        if is_whole or len(known.keys() & listed) + _MAX_READ < len(listed):
            tables = indexed_manifests(self._store, cluster, listed)
            found = {file: manifest_rows(file.path, table) for file, table in tables.items()}
        else:
            found = read_manifests(self._store, cluster, known, self._read_rows, listed)
        self._remember(cluster, found, self._copies(cluster, found))
        return rows_once({file.path: rows for file, rows in found.items()})

    def copies(self, cluster: str) -> dict[str, bytes]:
        """Return the copies of files of the cluster's newest snapshots, by path.

        Ask for the manifests first: copies whose manifest was written again are forgotten then.
        """
        return self._copies(cluster, self._files(cluster))

    def keep_copies(self, cluster: str, copies: Mapping[str, bytes]) -> None:
        """Replace the copies of a cluster's files."""
        self._remember(cluster, self._known(cluster), copies)

    def write(self) -> None:
        """Replace the store's file by what is known."""
        self._store.write_table(
            PATH, pa.concat_tables([FLEET.empty_table(), *self._tables.values()])
        )

    def _read_rows(self, path: str) -> list[Row]:
        return manifest_rows(path, self._store.read_table(path))

    def _known(self, cluster: str) -> dict[StoredFile, list[Row]]:
        return dict(zip(self._files(cluster), self._column(cluster, "rows"), strict=True))

    def _files(self, cluster: str) -> list[StoredFile]:
        columns = (self._column(cluster, name) for name in _FILE)
        return [StoredFile(*file) for file in zip(*columns, strict=True)]

    def _copies(self, cluster: str, files: Collection[StoredFile]) -> dict[str, bytes]:
        """Return the copies that came with one of these manifests."""
        held = zip(self._files(cluster), self._column(cluster, "copies"), strict=True)
        return {
            copy["path"]: copy["data"] for file, copies in held if file in files for copy in copies
        }

    def _remember(
        self,
        cluster: str,
        manifests: Mapping[StoredFile, Sequence[Row]],
        copies: Mapping[str, bytes],
    ) -> None:
        """Those whose time of change is unknown are left out: nobody can tell when they change."""
        all_rows = [row for rows in manifests.values() for row in rows]
        all_rows.sort(key=itemgetter("observed_at", "snapshot_id"))
        newest = {row["snapshot_id"] for row in all_rows[-_NEWEST:]}
        entries = [
            {
                "cluster": cluster,
                **{name: getattr(file, name) for name in _FILE},
                "rows": [r if r["snapshot_id"] in newest else {**r, "files": []} for r in rows],
                "copies": [
                    {"path": f["path"], "data": copies[f["path"]]}
                    for row in rows
                    if row["snapshot_id"] in newest
                    for f in row["files"]
                    if f["path"] in copies
                ],
            }
            for file, rows in manifests.items()
            if file.modified_at is not None
        ]
        self._tables[cluster] = pa.Table.from_pylist(entries, schema=FLEET)

    def _column(self, cluster: str, name: str) -> list[Any]:
        table = self._tables.get(cluster)
        return [] if table is None else list(table[name].to_pylist())
