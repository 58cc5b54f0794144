"""The store: a directory by default, or any file system that Arrow can open by URI (`s3://bucket/prefix`, ...).

    store = Store("var/store")
    store.write_text("plans/abc.json", text)
    store.write_table("history/brokers/...parquet", table)

A file appears whole or not at all: locally it is written beside its place and renamed, and object stores only show
complete objects. Writing the same name again replaces the file, so that every stage can be repeated.
"""

import io
import os
import uuid
from pathlib import PurePosixPath

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from counterpoise.errors import InputError, StoreError


class Store:
    """Files under one root. Paths are relative and use "/". Raises StoreError when the store cannot be used."""

    def __init__(self, uri: str) -> None:
        try:
            if "://" in uri:
                self._fs, self._root = fs.FileSystem.from_uri(uri)
            else:
                self._fs, self._root = fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(uri))  # noqa: PTH100, PTH111
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"store {uri!r} cannot be opened: {error}; give a directory or a URI like s3://bucket/x"
            ) from None
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)
        self.root_uri = f"file://{self._root}" if self._is_local else uri.rstrip("/")

    def uri(self, path: str) -> str:
        return f"{self.root_uri}/{path}"

    def write_bytes(self, path: str, data: bytes) -> None:
        target = self._full(path)
        written = f"{target}.{uuid.uuid4().hex}.part" if self._is_local else target
        try:
            if self._is_local:
                self._fs.create_dir(str(PurePosixPath(target).parent), recursive=True)
            with self._fs.open_output_stream(written) as stream:
                stream.write(data)
            if self._is_local:
                self._fs.move(written, target)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"the store cannot write {self.uri(path)}: {_reason(error)}") from None

    def write_text(self, path: str, text: str) -> None:
        self.write_bytes(path, text.encode())

    def write_table(self, path: str, table: pa.Table) -> None:
        """A Parquet file that Spark reads too (microsecond times, zstd)."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", coerce_timestamps="us")
        self.write_bytes(path, buffer.getvalue())

    def read_bytes(self, path: str) -> bytes:
        try:
            with self._fs.open_input_stream(self._full(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            raise StoreError(f"the store has no {self.uri(path)}") from None
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"the store cannot read {self.uri(path)}: {_reason(error)}") from None

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode()

    def read_table(self, path: str) -> pa.Table:
        try:
            return pq.read_table(io.BytesIO(self.read_bytes(path)))
        except pa.ArrowException as error:
            raise StoreError(f"{self.uri(path)} is no whole Parquet file: {error}") from None

    def list(self, prefix: str, *, suffix: str = "") -> tuple[str, ...]:
        """All files below a folder, sorted, as paths relative to the store; none where the folder does not exist."""
        selector = fs.FileSelector(self._full(prefix), recursive=True, allow_not_found=True)
        try:
            infos = self._fs.get_file_info(selector)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"the store cannot list {self.uri(prefix)}: {_reason(error)}") from None
        files = (info.path for info in infos if info.type == fs.FileType.File)
        relative = (path.removeprefix(self._root).lstrip("/") for path in files)
        return tuple(sorted(p for p in relative if p.endswith(suffix) and not p.endswith(".part")))

    def _full(self, path: str) -> str:
        if path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise InputError(f"{path!r} is no path inside the store")
        return f"{self._root}/{path}"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).split("\n")[0]
