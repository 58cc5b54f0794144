"""Guards a ledger in a file of SQLite: it is made once, and never silently made again.

    make_folder(Path("var"))
    guard(engine, Path("var/ledger.db"))

SQLite makes a new, empty database where a file is gone, and an open connection goes on writing to a
file that has been moved away: runs, approvals and earlier values would be lost without a message.
So a connection is handed out only while its file is the one at the path; otherwise the path is
opened anew, and where nothing is there, that is an error. A small file beside it marks that a
ledger was made once. Files that are made here are for their owner alone, since they say who may do
what; a mode that somebody gave them later stays.

Limits: one machine, a local disk; a path written as an SQLite URI (`file:...?uri=true`) is not
guarded.
"""

import os
import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa

from counterpoise.errors import LedgerError, LedgerNotMigratedError

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_MADE: Final = "-made"
_LEFT: Final = "-wal"
_MADE_TEXT: Final = """\
A ledger of Counterpoise was made here. As long as this file is here, none is made anew in its
place: where the ledger is gone, every command says so and changes nothing. Remove this file only
to begin with an empty ledger.
"""


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for their owner alone; one that is there stays."""
    for missing in (folder, *folder.parents)[::-1]:
        if not missing.exists():
            missing.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def make(path: Path) -> None:
    """Make an empty file for its owner alone; one that is there stays.

    SQLite gives its log and its index the mode of the database.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, _FILE_MODE))


def guard(engine: sa.Engine, path: Path, *, may_make: bool) -> None:
    """Open and hand out connections of `engine` only while the ledger's file is in its place.

    Where none was made yet, it is made by the first connection if `may_make`; otherwise that raises
    LedgerError.
    """

    @sa.event.listens_for(engine, "do_connect")
    def _open_what_is_there(
        _dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]
    ) -> sqlite3.Connection:
        was_made = _was_made(path)
        if was_made and not _size(path):
            raise gone(path, "is gone" if _identity(path) is None else "is an empty file")
        if not was_made and not may_make and not _size(path):
            raise LedgerNotMigratedError(
                f"the ledger {path} was not made yet; `counterpoise ledger migrate` makes it, and "
                "so does every command that writes to it"
            )
        if not was_made and may_make:
            make(path)
        uri = f"file:{quote(str(path))}?mode=rw"
        connection: sqlite3.Connection = sqlite3.connect(uri, uri=True, **options)
        return connection

    @sa.event.listens_for(engine, "connect")
    def _remember_which(_connection: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    @sa.event.listens_for(engine, "checkout")
    def _is_still_the_one(_connection: Any, record: Any, _proxy: Any) -> None:
        if record.info["file"] != _identity(path):
            raise sa.exc.DisconnectionError(f"{path} is no longer the file that was opened")


def is_marked(path: Path) -> bool:
    """Return whether there was a ledger here once."""
    return _identity(_beside(path, _MADE)) is not None


def mark(path: Path) -> None:
    if not is_marked(path):
        handle = os.open(_beside(path, _MADE), os.O_CREAT | os.O_WRONLY, _FILE_MODE)
        with os.fdopen(handle, "w") as file:
            file.write(_MADE_TEXT)


def gone(path: Path, how: str) -> LedgerError:
    """Return the error that says what to do where the ledger is not in its place."""
    made, left = _beside(path, _MADE).name, _beside(path, _LEFT).name
    return LedgerError(
        f"the ledger {path} {how}, and nothing goes on without it. Put it back, with {left} if "
        "there is one; then what was under way goes on. Only if it is lost for good: remove "
        f"{made} and {left} to begin with an empty ledger"
    )


def _was_made(path: Path) -> bool:
    """Return whether it is marked, or was made before there were marks and its process was killed.

    SQLite's write-ahead log beside a database may hold the last transactions. It would be lost with
    a new, empty database.
    """
    return is_marked(path) or _identity(_beside(path, _LEFT)) is not None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at the path; None where none can be seen."""
    found = _stat(path)
    return (found.st_dev, found.st_ino) if found else None


def _size(path: Path) -> int:
    found = _stat(path)
    return found.st_size if found else 0


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
