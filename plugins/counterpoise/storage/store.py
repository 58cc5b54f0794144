"""The store: a directory, or any file system that Arrow or fsspec opens by URI.

    store = Store("var/store")
    store.write_text("plans/abc.json", text)
    store.write_table("history/brokers/...parquet", table)

A file appears complete or not at all: it is written under another name and renamed, and object
stores (`s3://bucket/prefix`) show only complete objects. Writing a path again replaces the file, so
every stage can be repeated.

In a directory, files and folders are made for owner and group alone. A symbolic link below its root
is neither listed nor followed.
"""

import io
import os
import uuid
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyarrow import parquet as pq

from counterpoise.errors import CounterpoiseError, InputError, StoreError, UnknownNameError
from counterpoise.input_files import DOCUMENTS
from counterpoise.model.files import StoredFile
from counterpoise.storage.opening import entries_in, files_below, open_uri

_SNAPSHOT_ID = "snapshot_id"
_UNFINISHED = ".part"
_BLOCK_BYTES = 1 << 22
_FOLDER_MODE = 0o750
_NOT_FOR_OTHERS = ~0o007


def _is_no_folder(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False  # reading it says why


class Store:
    """Files under one root; paths are relative and use "/".

    `shown_as` stands in messages in place of the URI, where this is a copy of another store. Raises
    StoreError when the store cannot be used.
    """

    def __init__(self, uri: str, *, shown_as: str | None = None) -> None:
        opened = open_uri(uri)
        if opened.is_local and _is_no_folder(Path(opened.root)):
            raise InputError(f"store {opened.root}: it is a file or a device, and no folder")
        self._fs = opened.file_system
        self._root = opened.root
        self._needs_rename = not opened.has_atomic_writes
        self.root_uri = shown_as or opened.uri
        self.is_local = opened.is_local

    def uri(self, path: str) -> str:
        return f"{self.root_uri}/{path}"

    def write_bytes(self, path: str, data: bytes) -> None:
        with self._writing(path) as stream:
            stream.write(data)

    def write_text(self, path: str, text: str) -> None:
        self.write_bytes(path, text.encode())

    def write_table(self, path: str, table: pa.Table) -> None:
        """Write a Parquet file that Spark reads too (microsecond times, zstd)."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", coerce_timestamps="us")
        self.write_bytes(path, buffer.getvalue())

    def read_bytes(self, path: str, *, is_document: bool = True) -> bytes:
        """Return a file's bytes. Raises StoreError, also for a document that is too large."""
        with self._naming_failures("read", path), self._opened(path) as file:
            if is_document and DOCUMENTS.is_exceeded_by(file.size()):
                raise StoreError(f"{self.uri(path)}: {DOCUMENTS.complaint}, and was not read")
            return bytes(file.read())

    def read_text(self, path: str) -> str:
        try:
            return self.read_bytes(path).decode()
        except UnicodeDecodeError as error:
            raise StoreError(f"{self.uri(path)} is not text in UTF-8: {error}") from None

    def read_table(
        self, path: str, *, snapshot_id: str | None = None, snapshot_ids: Collection[str] = ()
    ) -> pa.Table:
        """Return a Parquet file's table.

        With `snapshot_id` or `snapshot_ids` only the rows of those snapshots, and of the file only
        the row groups that may have any; all rows of a file that does not say whose they are.
        """
        wanted = frozenset(snapshot_ids) | ({snapshot_id} if snapshot_id else set())
        if not wanted:
            try:
                return pq.read_table(pa.BufferReader(self.read_bytes(path, is_document=False)))
            except (OSError, pa.ArrowException) as error:
                raise StoreError(
                    f"{self.uri(path)} is not a complete Parquet file: {error}"
                ) from None
        with self._parquet(path) as opened:
            if _SNAPSHOT_ID not in opened.schema_arrow.names:
                return opened.read()
            row_groups = [
                index
                for index in range(opened.num_row_groups)
                if _may_contain(opened.metadata.row_group(index), wanted)
            ]
            table = opened.read_row_groups(row_groups)
        ids = pa.array(sorted(wanted), pa.string())
        return table.filter(pc.is_in(table[_SNAPSHOT_ID], value_set=ids))

    def value_counts(self, path: str, name: str) -> dict[Any, int]:
        """Return how many rows of a Parquet file have each value of a column, which alone is read,
        and never as a whole.
        """
        counts: Counter[Any] = Counter()
        with self._parquet(path) as opened:
            for batch in opened.iter_batches(columns=[name]):
                for row in batch.column(0).value_counts().to_pylist():
                    counts[row["values"]] += row["counts"]
        return dict(counts)

    def parquet_shape(self, path: str) -> tuple[int, pa.Schema]:
        """Return row count and schema of a Parquet file, from its footer alone.

        Raises StoreError when it has no footer.
        """
        with self._parquet(path) as opened:
            return opened.metadata.num_rows, opened.schema_arrow

    def list(self, prefix: str, *, suffix: str = "") -> tuple[str, ...]:
        """Return the sorted paths of all files below a folder; none where it does not exist."""
        paths = (file.path for file in self.files(prefix))
        finished = (path for path in paths if not path.endswith(_UNFINISHED))
        return tuple(path for path in finished if path.endswith(suffix))

    def files(self, prefix: str) -> tuple[StoredFile, ...]:
        """Return all files below a folder with sizes and times of change, unfinished ones too."""
        full = self._full(prefix)
        with self._naming_failures("list", prefix):
            if self.is_local:
                found = [self._stored_locally(entry) for entry in files_below(full)]
            else:
                selector = fs.FileSelector(full, recursive=True, allow_not_found=True)
                infos = self._fs.get_file_info(selector)
                found = [self._stored(info) for info in infos if info.type == fs.FileType.File]
        return tuple(sorted(found, key=lambda file: file.path))

    def children(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the sorted names of the folders and of the files in a folder, nothing below."""
        full = self._full(prefix)
        with self._naming_failures("list", prefix):
            if self.is_local:
                entries = list(entries_in(full))
                folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            else:
                infos = self._fs.get_file_info(fs.FileSelector(full, allow_not_found=True))
                folders = [info.base_name for info in infos if info.type == fs.FileType.Directory]
                files = [info.base_name for info in infos if info.type == fs.FileType.File]
        return tuple(sorted(folders)), tuple(sorted(files))

    def info(self, path: str) -> StoredFile | None:
        """Return a file's size and time of change; None where there is no such file."""
        with self._naming_failures("find", path):
            (info,) = self._fs.get_file_info([self._full(path)])
        return self._stored(info) if info.type == fs.FileType.File else None

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        try:
            with self._naming_failures("delete", path):
                self._fs.delete_file(self._full(path))
        except StoreError:
            if self.info(path) is not None:
                raise

    def delete_folder(self, prefix: str) -> None:
        """Delete all files below a folder, if it exists."""
        for file in self.files(prefix):
            self.delete(file.path)
        if self.is_local:
            with self._naming_failures("delete", prefix), suppress(FileNotFoundError):
                self._fs.delete_dir(self._full(prefix))

    def move(self, path: str, target: str) -> None:
        """Rename a file, and replace the one at `target`.

        Object stores copy it, and delete the old one afterwards.
        """
        full = self._full(target)
        with self._naming_failures("move", path):
            self._make_folder_of(full)
            self._fs.move(self._full(path), full)

    def download(self, path: str, target: Path, *, max_bytes: int | None = None) -> bool:
        """Copy a file of the store to a local file, unless it is larger; return whether it was."""
        with self._naming_failures("read", path), self._opened(path) as stream:
            if max_bytes is not None and stream.size() > max_bytes:
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while block := stream.read(_BLOCK_BYTES):
                    file.write(block)
        return True

    def upload(self, source: Path, path: str) -> None:
        """Copy a local file into the store."""
        with source.open("rb") as file, self._writing(path) as stream:
            while block := file.read(_BLOCK_BYTES):
                stream.write(block)

    @contextmanager
    def _writing(self, path: str) -> Iterator[pa.NativeFile]:
        target = self._full(path)
        written = f"{target}.{uuid.uuid4().hex}{_UNFINISHED}" if self._needs_rename else target
        with self._naming_failures("write", path):
            self._make_folder_of(target)
            with self._fs.open_output_stream(written) as stream:
                yield stream
            if self.is_local:
                file = Path(written)
                file.chmod(file.stat().st_mode & _NOT_FOR_OTHERS)
            if self._needs_rename:
                self._fs.move(written, target)

    def _make_folder_of(self, full: str) -> None:
        folder = Path(full).parent
        if self.is_local:
            missing = [path for path in (folder, *folder.parents) if not path.exists()]
            for path in reversed(missing):
                path.mkdir(_FOLDER_MODE, exist_ok=True)
        elif self._needs_rename:
            self._fs.create_dir(str(folder), recursive=True)

    def _opened(self, path: str) -> pa.NativeFile:
        """Return a file to read from; in a directory nothing but a file, and no pipe, is opened."""
        full = self._full(path)
        if self.is_local and Path(full).exists() and not Path(full).is_file():
            raise StoreError(f"{self.uri(path)} is no file")
        return self._fs.open_input_file(full)

    @contextmanager
    def _parquet(self, path: str) -> Iterator[pq.ParquetFile]:
        with self._naming_failures("read", path), self._opened(path) as file:
            try:
                # What is read of it is asked for at once, and not column by column.
                yield pq.ParquetFile(file, pre_buffer=True)
            except (OSError, pa.ArrowException) as error:
                message = f"{self.uri(path)} is not a complete Parquet file: {_reason(error)}"
                raise StoreError(message) from None

    @contextmanager
    def _naming_failures(self, what: str, path: str) -> Iterator[None]:
        """Raise StoreError for any failure, with the operation and the path.

        The packages behind fsspec raise exceptions of many types.
        """
        try:
            yield
        except CounterpoiseError:
            raise
        except FileNotFoundError:
            raise StoreError(f"the store has no {self.uri(path)}") from None
        except Exception as error:  # noqa: BLE001 - see above
            message = f"the store cannot {what} {self.uri(path)}: {_reason(error)}"
            raise StoreError(message) from None

    def _stored_locally(self, entry: os.DirEntry[str]) -> StoredFile:
        status = entry.stat(follow_symlinks=False)
        path = entry.path.removeprefix(self._root).lstrip("/")
        changed_at = datetime.fromtimestamp(status.st_mtime_ns / 1e9, UTC)
        return StoredFile(path, status.st_size, changed_at)

    def _stored(self, info: fs.FileInfo) -> StoredFile:
        path = info.path.removeprefix(self._root).lstrip("/")
        changed_at = None  # some file systems do not know it
        if info.mtime_ns is not None:
            changed_at = datetime.fromtimestamp(info.mtime_ns / 1e9, UTC)
        return StoredFile(path, info.size or 0, changed_at)

    def _full(self, path: str) -> str:
        if path.startswith("/") or "\0" in path or ".." in PurePosixPath(path).parts:
            raise UnknownNameError(f"{path!r} is not a path inside the store")
        full = f"{self._root}/{path}"
        if self.is_local and _has_link(self._root, path):
            raise UnknownNameError(f"{path!r} leads through a symbolic link, which is not followed")
        return full


def _has_link(root: str, path: str) -> bool:
    """Return whether there is a symbolic link below the root, on the way to a path or its end."""
    straight = os.path.normpath(f"{os.path.realpath(root)}/{path}")
    return os.path.realpath(straight) != straight


def _may_contain(row_group: pq.RowGroupMetaData, snapshot_ids: Collection[str]) -> bool:
    """Return whether a row group can have rows of these, by its lowest and highest id."""
    for index in range(row_group.num_columns):
        column = row_group.column(index)
        if column.path_in_schema == _SNAPSHOT_ID:
            statistics = column.statistics
            if statistics is None or not statistics.has_min_max:
                return True
            return any(statistics.min <= one <= statistics.max for one in snapshot_ids)
    return True


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).split("\n")[0]
