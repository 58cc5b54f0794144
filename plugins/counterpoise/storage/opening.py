"""Opens the file system of a store's URI: a directory, or what Arrow or an fsspec package supports.

    opened = open_uri("s3://bucket/prefix?endpoint_override=minio:9000&scheme=http&region=eu-1")
    opened.file_system, opened.root, opened.uri       # the URI without its options, safe to show

Options after the `?` are Arrow's (S3, GCS, Azure). Credentials come from the usual environment
variables of each service and are refused in a URI, since URIs are written to logs, reports and the
ledger.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import pyarrow as pa
from pyarrow import fs

from counterpoise.errors import InputError

# Object stores show an object only when it is complete. Elsewhere a file is written under another
# name and renamed.
_ATOMIC_SCHEMES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}
)
_S3: Final = ("s3", "s3a")
_BUCKET_SCHEMES: Final = _ATOMIC_SCHEMES - {"memory"}
# `//KEY:SECRET@bucket`, where the secret may have a slash in it; but not `//host:9000/a@b`.
_CREDENTIALS: Final = re.compile(r"//[^/?#]*:(?!\d+/)[^?#]*@")
_ONE_SLASH: Final = re.compile(r"[a-z][a-z0-9+.-]+:/")
_TIME_NAMES: Final = ("mtime", "last_modified", "LastModified", "updated", "created")


@dataclass(frozen=True, slots=True)
class OpenedUri:
    file_system: fs.FileSystem
    root: str
    uri: str  # of the root, without options and slash at the end
    is_local: bool
    has_atomic_writes: bool


def open_uri(uri: str) -> OpenedUri:
    """Return the file system and the root of a URI.

    Raises InputError for a URI that cannot be used; its message has no secrets.
    """
    if "://" not in uri:
        return _folder(uri)
    scheme, _, rest = uri.partition("://")
    authority = rest.partition("/")[0]
    if _CREDENTIALS.search(uri) or (scheme in _S3 and any(sign in authority for sign in ":@")):
        raise InputError(
            f"store {scheme}://...: leave user and password out of the URI; set the usual "
            "environment variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    shown = uri.partition("?")[0].rstrip("/")
    try:
        file_system, root = _open(uri, scheme)
        if not root.strip("/") and scheme in _BUCKET_SCHEMES:
            raise ValueError("it names no bucket")
    except (pa.ArrowException, OSError, ValueError, ImportError, TypeError) as error:
        raise InputError(
            f"store {shown!r} cannot be opened: {_reason(error, uri, shown)}; "
            "give a directory or a URI like s3://bucket/x"
        ) from None
    is_local = isinstance(file_system, fs.LocalFileSystem)
    return OpenedUri(
        file_system=file_system,
        root=root.rstrip("/"),
        uri=f"file://{root}" if is_local else shown,
        is_local=is_local,
        has_atomic_writes=scheme in _ATOMIC_SCHEMES,
    )


def _folder(path: str) -> OpenedUri:
    if _ONE_SLASH.match(path):
        raise InputError(
            f"store {path.partition('/')[0]}...: a URI has two slashes, like s3://bucket/x"
        )
    root = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    return OpenedUri(
        fs.LocalFileSystem(), root, f"file://{root}", is_local=True, has_atomic_writes=False
    )


def _reason(error: Exception, uri: str, shown: str) -> str:
    """Return the first line of an error, without the options of the URI: some are secret."""
    reason = str(error).split("\n")[0].replace(uri, shown)
    for _, value in parse_qsl(uri.partition("?")[2]):
        for written in {value, unquote(value)}:
            reason = reason.replace(written, "***")
    return reason


def _open(uri: str, scheme: str) -> tuple[fs.FileSystem, str]:
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem type" not in str(error):
            raise
        from fsspec.core import url_to_fs

        if "?" in uri:
            message = f"Arrow does not support {scheme}, and options after ? are only for Arrow"
            raise ValueError(message) from None
        opened, root = url_to_fs(uri)
        return fs.PyFileSystem(_Handler(opened)), root
    return found


class _Handler(fs.FSSpecHandler):  # type: ignore[misc] # Arrow ships no type information
    """Finds a file's time of change, for which Arrow's own handler knows only one name."""

    @staticmethod
    def _create_file_info(path: str, info: dict[str, Any]) -> fs.FileInfo:
        changed_at = next((info[name] for name in _TIME_NAMES if info.get(name)), None)
        if isinstance(changed_at, str):
            changed_at = datetime.fromisoformat(changed_at)
        if isinstance(changed_at, datetime):
            if changed_at.tzinfo is None:
                changed_at = changed_at.replace(tzinfo=UTC)
            changed_at = changed_at.timestamp()
        return fs.FSSpecHandler._create_file_info(path, {**info, "mtime": changed_at})
