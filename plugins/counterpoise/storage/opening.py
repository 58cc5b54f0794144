"""Opens the file system of a store's URI: a directory, or what Arrow or an fsspec package supports.

    opened = open_uri("s3://bucket/prefix?endpoint_override=minio:9000&scheme=http&region=eu-1")
    opened.file_system, opened.root, opened.uri       # the URI without its options, safe to show

Options after the `?` are Arrow's (S3, GCS, Azure). Credentials come from the usual environment
variables of each service and are refused in a URI, since URIs are written to logs, reports and the
ledger.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

import pyarrow as pa
from pyarrow import fs

from counterpoise.errors import InputError
from counterpoise.model.safe_text import is_broken_text

# Object stores show an object only when it is complete. Elsewhere a file is written under another
# name and renamed.
_ATOMIC_SCHEMES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}
)
_S3: Final = ("s3", "s3a")
# Arrow then writes a small file with one request, and not with three as for one in parts.
_ONE_REQUEST: Final = "allow_delayed_open"
_AZURE: Final = ("abfs", "abfss")
_BUCKET_SCHEMES: Final = _ATOMIC_SCHEMES - {"memory"}
# In front of the bucket these name an account with or without a secret. In Azure's URIs the
# container stands there (`abfs://container@account/...`).
_NO_USER_SCHEMES: Final = (*_S3, "gs", "gcs", "oss")
_PUBLIC_USER: Final = "anonymous"  # of gs://, for buckets that everybody may read
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*(::[a-z][a-z0-9+.-]*)*", re.IGNORECASE)
_PORT: Final = re.compile(r"(\[[0-9a-f:.]*\]|[^:]*)(:\d*)?", re.IGNORECASE)
_ONE_SLASH: Final = re.compile(r"[a-z][a-z0-9+.-]+:/")
_NO_SLASH: Final = re.compile(
    rf"({'|'.join(sorted(_ATOMIC_SCHEMES))}|https?|s?ftp|hdfs):", re.IGNORECASE
)
_OPTION_NAME: Final = re.compile(r"[a-z_]+")
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
    scheme = uri.partition("://")[0]
    if not _SCHEME.fullmatch(scheme):
        raise InputError("store: not a URI; give a directory or a URI like s3://bucket/x")
    if any(_has_login(part) for part in re.split("::|[?&]", uri)):
        raise InputError(
            f"store {scheme}://...: leave user and password out of the URI; set the usual "
            "environment variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    place = re.split("[?#]", uri, maxsplit=1)[0].rstrip("/")
    try:
        file_system, root = _open(uri, scheme)
        if not root.strip("/") and scheme in _BUCKET_SCHEMES:
            raise ValueError("it names no bucket")
    except (pa.ArrowException, OSError, ValueError, ImportError, TypeError) as error:
        shown = _without_user(place)
        raise InputError(
            f"store {shown!r} cannot be opened: {_reason(error, uri, shown)}; "
            "give a directory or a URI like s3://bucket/x"
        ) from None
    is_local = isinstance(file_system, fs.LocalFileSystem)
    return OpenedUri(
        file_system=file_system,
        root=root.rstrip("/"),
        uri=f"file://{root}" if is_local else place,
        is_local=is_local,
        has_atomic_writes=scheme in _ATOMIC_SCHEMES,
    )


def shown_uri(uri: str) -> str:
    """Return the address of a store for people, without options and login; opens nothing."""
    if "://" not in uri:
        return os.path.abspath(os.path.expanduser(uri))  # noqa: PTH100, PTH111
    place = re.split("[?#]", uri, maxsplit=1)[0].rstrip("/")
    return f"{uri.partition('://')[0]}://***" if _has_login(place) else _without_user(place)


def _folder(path: str) -> OpenedUri:
    if _ONE_SLASH.match(path) or _NO_SLASH.match(path):
        raise InputError(
            f"store {path.partition(':')[0]}:...: a URI has two slashes, like s3://bucket/x"
        )
    root = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    return OpenedUri(
        fs.LocalFileSystem(), root, f"file://{root}", is_local=True, has_atomic_writes=False
    )


def _has_login(uri: str) -> bool:
    """Return whether a URI holds user and password, as far as that can be told.

    A secret may have any character in it: of `KEY:a/b@bucket` the authority ends after the a.
    """
    scheme, is_uri, rest = uri.partition("://")
    authority = unquote(re.split("[/?#]", rest, maxsplit=1)[0])
    user, _, host = authority.rpartition("@")
    if not is_uri:
        return False
    if ":" in user or not _PORT.fullmatch(host):
        return True
    if scheme.lower() in _NO_USER_SCHEMES and (user not in ("", _PUBLIC_USER) or ":" in host):
        return True
    path = rest.partition("?")[0]
    return scheme.lower() in _BUCKET_SCHEMES and ":" in authority and "@" in path


def _without_user(place: str) -> str:
    """Return a URI for messages: where a person may have written a token, there is `***`.

    Azure's container stays.
    """
    scheme, _, rest = place.partition("://")
    if "@" not in rest or (scheme in _AZURE and rest.count("@") == 1):
        return place
    return f"{scheme}://***@{rest.rpartition('@')[2]}"


def _reason(error: Exception, uri: str, shown: str) -> str:
    """Return the first line of an error, without user and options of the URI: some are secret."""
    reason = str(error).replace(uri, shown).split("\n")[0]
    for word in sorted(_hidden_words(uri, shown), key=len, reverse=True):
        reason = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "***", reason)
    return reason


def _hidden_words(uri: str, shown: str) -> Iterator[str]:
    """Yield what stands in a URI where secrets may be: all but the place and names of options."""
    place, *options = re.split("[?&#]", uri)
    if shown.startswith(place.partition("://")[0]) and "***@" in shown:
        yield from filter(None, re.split("[:@/]", place.partition("://")[2].rpartition("@")[0]))
    for option in options:
        name, is_named, value = option.partition("=")
        words = (value,) if is_named and _OPTION_NAME.fullmatch(name) else (name, value)
        for word in filter(None, words):
            yield from {word, unquote(word), unquote_plus(word)}


def _open(uri: str, scheme: str) -> tuple[fs.FileSystem, str]:
    try:
        found = _from_uri(_with_small_writes(uri, scheme))
    except pa.ArrowInvalid as error:
        if f"'{_ONE_REQUEST}'" in str(error):  # Arrow 20 does not know it
            return _from_uri(uri)
        if "Unrecognized filesystem type" not in str(error):
            raise
        from fsspec.core import url_to_fs

        if "?" in uri:
            message = f"Arrow does not support {scheme}, and options after ? are only for Arrow"
            raise ValueError(message) from None
        opened, root = url_to_fs(uri)
        return fs.PyFileSystem(_Handler(opened)), root
    return found


def _from_uri(uri: str) -> tuple[fs.FileSystem, str]:
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    return found


def _with_small_writes(uri: str, scheme: str) -> str:
    """Return the URI that Arrow opens; an option that is given stays."""
    place, is_given, options = uri.partition("?")
    if scheme != "s3" or "#" in uri or f"{_ONE_REQUEST}=" in options:
        return uri
    return f"{place}?{options}{'&' if is_given and options else ''}{_ONE_REQUEST}=true"


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


# -- Lists the files below a folder of this machine, and nothing that only looks like one
#
#     for entry in files_below("var/store/reports"):
#         entry.path, entry.stat(follow_symlinks=False).st_size
#
# Symbolic links are left out: they may lead anywhere, and in a circle. So are pipes and devices,
# and names that are no text in UTF-8, which no other part of Counterpoise could write or show.


def files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a folder; none where it does not exist. Raises OSError.

    A folder that is deleted meanwhile has no files.
    """
    folders = [folder]
    while folders:
        for entry in entries_in(folders.pop()):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry


def entries_in(folder: str) -> list[os.DirEntry[str]]:
    """Return what lies in a folder under names that are text; none where it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not is_broken_text(entry.name)]
    except FileNotFoundError:
        return []
