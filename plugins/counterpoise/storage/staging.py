"""Provides the directory that a Spark job reads and writes: the store, or a local copy of it.

    with working_root(store, master, inputs) as root:      # the job's --store
        run_job(script, ["--store", root, ...])
    # what the job wrote is in the store now

    with working_copy(store, master) as copy:              # the same, step by step
        copy.fetch(inputs)
        run_job(script, ["--store", copy.root, ...])
        copy.files.list("results")                         # what the job wrote
        copy.send_back()                                   # is in the store now

A local Spark (`local[...]`) cannot read an object store without Hadoop's connector. So its inputs
are copied to a temporary directory, and what it wrote there is copied back. Any other Spark gets
the URI of the store.

An object store is paid for by the request: each file is fetched once, whoever reads it, and the
tables that a job wrote in a folder for each of many clusters go back as one file, with row groups
for each cluster.

Limits: the directory needs room for the inputs. What an earlier attempt wrote stays: each attempt
has folders of its own.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyarrow import parquet as pq

from counterpoise.model.grouping import grouped
from counterpoise.model.tables import CLUSTER_FOLDER
from counterpoise.storage.store import Store

_HADOOP_SCHEMES: Final = {"s3": "s3a"}
PACKED: Final = "all-clusters.parquet"  # the name of a file with the rows of all clusters


class WorkingCopy:
    """What a Spark job reads and writes; `root` is its URI, `files` reads it.

    Where the job works in the store itself there is no copy: then nothing is fetched or sent.
    """

    def __init__(self, store: Store, folder: Path | None) -> None:
        self._store = store
        self._folder = folder
        self._fetched: set[str] = set()
        self._too_large: set[str] = set()
        if folder is None:
            scheme, _, rest = store.root_uri.partition("://")
            self.root = f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"
            self.files = store
        else:
            self.root = folder.as_uri()
            self.files = Store(self.root, shown_as=store.root_uri)

    @property
    def is_local_copy(self) -> bool:
        return self._folder is not None

    def fetch(
        self, paths: Iterable[str], copies: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        """Copy files of the store that are not here yet; `copies` are files that need not be asked
        for. Raises StoreError.
        """
        if self._folder is None:
            return
        for path in sorted(set(paths) - self._fetched):
            if path in copies:
                self.files.write_bytes(path, copies[path])
            else:
                self._store.download(path, self._folder / path)
            self._fetched.add(path)

    def fetch_small(self, path: str, max_bytes: int) -> bool:
        """Copy a file of the store that is not here yet, unless it is larger; return whether it is
        here. Raises StoreError.
        """
        if self._folder is None or path in self._too_large:
            return False
        if path not in self._fetched:
            is_here = self._store.download(path, self._folder / path, max_bytes=max_bytes)
            (self._fetched if is_here else self._too_large).add(path)
        return path in self._fetched

    def small_files(self, paths: Iterable[str], max_bytes: int) -> dict[str, bytes]:
        """Return the contents of those files that were fetched and are small."""
        if self._folder is None:
            return {}
        here = {path: self._folder / path for path in self._fetched.intersection(paths)}
        return {
            path: file.read_bytes()
            for path, file in sorted(here.items())
            if file.stat().st_size <= max_bytes
        }

    def send_back(self) -> tuple[str, ...]:
        """Copy what the job wrote into the store; the tables as one file each, where any of them is
        of several clusters. Returns the paths of the copies.
        """
        if self._folder is None:
            return ()
        sent = []
        written = (file for file in sorted(self._folder.rglob("*")) if _is_data_file(file))
        new = [file for file in written if self._path(file) not in self._fetched]
        by_folder = grouped((_folder_of_all(file), file) for file in new)
        is_of_many = any(
            folder is not None and len({file.parent for file in files}) > 1
            for folder, files in by_folder.items()
        )
        for folder, files in by_folder.items():
            if folder is not None and is_of_many:
                files = [_packed(folder, files)]
            for file in files:
                self._store.upload(file, self._path(file))
                sent.append(self._path(file))
        return tuple(sent)

    def _path(self, file: Path) -> str:
        assert self._folder is not None, "only a copy has files of its own"
        return file.relative_to(self._folder).as_posix()


@contextmanager
def working_copy(store: Store, master: str) -> Iterator[WorkingCopy]:
    """Yield where a job of this master reads and writes."""
    if store.is_local or not master.startswith("local"):
        yield WorkingCopy(store, None)
        return
    with tempfile.TemporaryDirectory(prefix="counterpoise-store-") as folder:
        yield WorkingCopy(store, Path(folder))


@contextmanager
def working_root(store: Store, master: str, inputs: Iterable[str]) -> Iterator[str]:
    """Yield the URI to read from and write to; `inputs` are paths in the store.

    Nothing is copied back after an exception.
    """
    with working_copy(store, master) as copy:
        copy.fetch(inputs)
        yield copy.root
        copy.send_back()


def _folder_of_all(file: Path) -> Path | None:
    """Return the folder of a table that has a folder for each cluster; None for other files."""
    return file.parent.parent if file.parent.name.startswith(f"{CLUSTER_FOLDER}=") else None


def _packed(folder: Path, files: Iterable[Path]) -> Path:
    """Write the rows of files into one, each as row groups of its own; return that file."""
    target = folder / PACKED
    writer: pq.ParquetWriter | None = None
    try:
        for file in files:
            with pq.ParquetFile(file) as source:
                writer = writer or pq.ParquetWriter(
                    target, source.schema_arrow, compression="zstd", coerce_timestamps="us"
                )
                for batch in range(source.num_row_groups):
                    writer.write_table(source.read_row_group(batch))
    finally:
        if writer is not None:
            writer.close()
    return target


def _is_data_file(file: Path) -> bool:
    """Return whether a file is none of Hadoop's checksums and markers."""
    return file.is_file() and not file.name.startswith((".", "_"))
