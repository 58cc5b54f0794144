"""Which file system a store's URI means: a directory, what Arrow knows by itself, or what fsspec
has a package for.

    opened = open_uri("s3://bucket/prefix?endpoint_override=minio:9000&scheme=http&region=eu-1")
    opened.file_system, opened.root, opened.uri       # the URI without its options, safe to show

Options after the `?` are Arrow's (S3, GCS, Azure). Credentials come from the usual variables of
each service and are refused in a URI: URIs stand in logs, reports and the ledger.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from counterpoise.errors import InputError

# An object is there when it is whole; elsewhere a file is written beside its place and renamed.
_SHOWN_WHOLE: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}
)
_BUCKETS: Final = _SHOWN_WHOLE - {"memory"}
_TIMES: Final = ("mtime", "last_modified", "LastModified", "updated", "created")


@dataclass(frozen=True, slots=True)
class Opened:
    file_system: fs.FileSystem
    root: str
    uri: str  # of the root, without options and slash at the end
    is_local: bool
    shows_whole_files: bool


def open_uri(uri: str) -> Opened:
    """Raises InputError for a URI that cannot be used, without showing what may be secret in it."""
    if "://" not in uri:
        root = os.path.abspath(os.path.expanduser(uri))  # noqa: PTH100, PTH111
        return Opened(
            fs.LocalFileSystem(), root, f"file://{root}", is_local=True, shows_whole_files=False
        )
    shown = uri.partition("?")[0].rstrip("/")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InputError(
            f"store: not a URI that can be read ({error}); write it like s3://bucket/x"
        ) from None
    if parts.password is not None or (parts.username is not None and parts.scheme in ("s3", "s3a")):
        raise InputError(
            f"store {parts.scheme}://...: leave user and password out of the URI; credentials come from the usual "
            "variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    try:
        file_system, root = _open(uri, parts.scheme)
        if not root.strip("/") and parts.scheme in _BUCKETS:
            raise ValueError("it names no bucket")
    except (pa.ArrowException, OSError, ValueError, ImportError, TypeError) as error:
        reason = str(error).split("\n")[0].replace(uri, shown)
        raise InputError(
            f"store {shown!r} cannot be opened: {reason}; give a directory or a URI like s3://bucket/x"
        ) from None
    is_local = isinstance(file_system, fs.LocalFileSystem)
    return Opened(
        file_system=file_system,
        root=root.rstrip("/"),
        uri=f"file://{root}" if is_local else shown,
        is_local=is_local,
        shows_whole_files=parts.scheme in _SHOWN_WHOLE,
    )


def _open(uri: str, scheme: str) -> tuple[fs.FileSystem, str]:
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise
        from fsspec.core import url_to_fs

        if "?" in uri:
            raise ValueError(
                f"Arrow knows no {scheme}, and options after ? are for what it knows"
            ) from None
        opened, root = url_to_fs(uri)
        return fs.PyFileSystem(_Handler(opened)), root
    return found


class _Handler(fs.FSSpecHandler):  # type: ignore[misc] # Arrow ships no type information
    """Arrow's own handler looks for the time of change under one name alone."""

    @staticmethod
    def _create_file_info(path: str, info: dict[str, Any]) -> fs.FileInfo:
        told = next((info[name] for name in _TIMES if info.get(name)), None)
        if isinstance(told, str):
            told = datetime.fromisoformat(told)
        if isinstance(told, datetime):
            told = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
        return fs.FSSpecHandler._create_file_info(path, {**info, "mtime": told})
