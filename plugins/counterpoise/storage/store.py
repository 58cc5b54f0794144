"""The store: a directory by default, or any file system that Arrow or fsspec can open by URI
(`s3://bucket/prefix`).

    store = Store("var/store")
    store.write_text("plans/abc.json", text)
    store.write_table("history/brokers/...parquet", table)

A file appears whole or not at all: it is written beside its place and renamed, and object stores
only show complete objects. Writing the same name again replaces the file, so that every stage can
be repeated.
"""

import io
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyarrow import parquet as pq

from counterpoise.errors import CounterpoiseError, InputError, StoreError
from counterpoise.model.files import StoredFile
from counterpoise.storage.opening import open_uri

_SNAPSHOT_ID = "snapshot_id"
_UNFINISHED = ".part"
_BLOCK_BYTES = 1 << 22


class Store:
    """Files under one root.

    Paths are relative and use "/". Raises StoreError when the store cannot be used.
    """

    def __init__(self, uri: str) -> None:
        opened = open_uri(uri)
        self._fs, self._root, self._renames = (
            opened.file_system,
            opened.root,
            not opened.shows_whole_files,
        )
        self.root_uri, self.is_local = opened.uri, opened.is_local

    def uri(self, path: str) -> str:
        return f"{self.root_uri}/{path}"

    def write_bytes(self, path: str, data: bytes) -> None:
        with self._writing(path) as stream:
            stream.write(data)

    def write_text(self, path: str, text: str) -> None:
        self.write_bytes(path, text.encode())

    def write_table(self, path: str, table: pa.Table) -> None:
        """A Parquet file that Spark reads too (microsecond times, zstd)."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", coerce_timestamps="us")
        self.write_bytes(path, buffer.getvalue())

    def read_bytes(self, path: str) -> bytes:
        with self._telling("read", path), self._fs.open_input_stream(self._full(path)) as stream:
            return bytes(stream.read())

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode()

    def read_table(self, path: str, *, snapshot_id: str | None = None) -> pa.Table:
        """A Parquet file.

        With `snapshot_id`, of one that holds many snapshots only the rows of this one are read.
        """
        if snapshot_id is None:
            try:
                return pq.read_table(io.BytesIO(self.read_bytes(path)))
            except pa.ArrowException as error:
                raise StoreError(f"{self.uri(path)} is no whole Parquet file: {error}") from None
        with self._parquet(path) as opened:
            if _SNAPSHOT_ID not in opened.schema_arrow.names:
                return opened.read()
            groups = [
                n
                for n in range(opened.num_row_groups)
                if _may_hold(opened.metadata.row_group(n), snapshot_id)
            ]
            table = opened.read_row_groups(groups)
        return table.filter(pc.equal(table[_SNAPSHOT_ID], snapshot_id))

    def read_column(self, path: str, name: str) -> pa.ChunkedArray:
        """One column of a Parquet file; nothing else of the file is read."""
        with self._parquet(path) as opened:
            return opened.read([name])[name]

    def parquet_shape(self, path: str) -> tuple[int, pa.Schema]:
        """Rows and columns of a Parquet file, from its footer alone.

        Raises StoreError when it has none.
        """
        with self._parquet(path) as opened:
            return opened.metadata.num_rows, opened.schema_arrow

    def list(self, prefix: str, *, suffix: str = "") -> tuple[str, ...]:
        """All files below a folder, sorted, as paths relative to the store; none where the folder
        does not exist.
        """
        paths = (file.path for file in self.files(prefix))
        return tuple(
            path for path in paths if path.endswith(suffix) and not path.endswith(_UNFINISHED)
        )

    def files(self, prefix: str) -> tuple[StoredFile, ...]:
        """As `list`, with sizes and times of change, and with what somebody began to write and did
        not finish.
        """
        selector = fs.FileSelector(self._full(prefix), recursive=True, allow_not_found=True)
        with self._telling("list", prefix):
            infos = self._fs.get_file_info(selector)
        found = (self._stored(info) for info in infos if info.type == fs.FileType.File)
        return tuple(sorted(found, key=lambda file: file.path))

    def info(self, path: str) -> StoredFile | None:
        """None where there is no such file."""
        with self._telling("look at", path):
            (info,) = self._fs.get_file_info([self._full(path)])
        return self._stored(info) if info.type == fs.FileType.File else None

    def delete(self, path: str) -> None:
        """Deletes a file. One that is not there is no error: somebody has deleted it before."""
        try:
            with self._telling("delete", path):
                self._fs.delete_file(self._full(path))
        except StoreError:
            if self.info(path) is not None:
                raise

    def delete_folder(self, prefix: str) -> None:
        """Deletes all files below a folder, which may be gone already."""
        for file in self.files(prefix):
            self.delete(file.path)
        if self.is_local:
            with self._telling("delete", prefix), suppress(FileNotFoundError):
                self._fs.delete_dir(self._full(prefix))

    def move(self, path: str, target: str) -> None:
        """Gives a file another name, and replaces what had it.

        Object stores copy, and delete afterwards.
        """
        full = self._full(target)
        with self._telling("move", path):
            if self._renames:
                self._fs.create_dir(str(PurePosixPath(full).parent), recursive=True)
            self._fs.move(self._full(path), full)

    def download(self, path: str, target: Path) -> None:
        """Copies a file of the store to this machine."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            self._telling("read", path),
            self._fs.open_input_stream(self._full(path)) as stream,
            target.open("wb") as to,
        ):
            while block := stream.read(_BLOCK_BYTES):
                to.write(block)

    def upload(self, source: Path, path: str) -> None:
        """Copies a file of this machine into the store."""
        with source.open("rb") as file, self._writing(path) as stream:
            while block := file.read(_BLOCK_BYTES):
                stream.write(block)

    @contextmanager
    def _writing(self, path: str) -> Iterator[pa.NativeFile]:
        target = self._full(path)
        written = f"{target}.{uuid.uuid4().hex}{_UNFINISHED}" if self._renames else target
        with self._telling("write", path):
            if self._renames:
                self._fs.create_dir(str(PurePosixPath(target).parent), recursive=True)
            with self._fs.open_output_stream(written) as stream:
                yield stream
            if self._renames:
                self._fs.move(written, target)

    @contextmanager
    def _parquet(self, path: str) -> Iterator[pq.ParquetFile]:
        with self._telling("read", path), self._fs.open_input_file(self._full(path)) as file:
            try:
                yield pq.ParquetFile(file)
            except (OSError, pa.ArrowException) as error:
                raise StoreError(
                    f"{self.uri(path)} is no whole Parquet file: {_reason(error)}"
                ) from None

    @contextmanager
    def _telling(self, what: str, path: str) -> Iterator[None]:
        """Says of any failure what was wanted of which file.

        Packages behind fsspec raise whatever they like.
        """
        try:
            yield
        except CounterpoiseError:
            raise
        except FileNotFoundError:
            raise StoreError(f"the store has no {self.uri(path)}") from None
        except Exception as error:  # noqa: BLE001 - see above
            raise StoreError(
                f"the store cannot {what} {self.uri(path)}: {_reason(error)}"
            ) from None

    def _stored(self, info: fs.FileInfo) -> StoredFile:
        path = info.path.removeprefix(self._root).lstrip("/")
        told = info.mtime_ns  # None where the file system does not know
        return StoredFile(
            path, info.size or 0, None if told is None else datetime.fromtimestamp(told / 1e9, UTC)
        )

    def _full(self, path: str) -> str:
        if path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise InputError(f"{path!r} is no path inside the store")
        return f"{self._root}/{path}"


def _may_hold(group: pq.RowGroupMetaData, snapshot_id: str) -> bool:
    """Whether a row group can have rows of a snapshot, by the least and the greatest id in it."""
    for n in range(group.num_columns):
        column = group.column(n)
        if column.path_in_schema == _SNAPSHOT_ID:
            told = column.statistics
            return told is None or not told.has_min_max or bool(told.min <= snapshot_id <= told.max)
    return True


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).split("\n")[0]
