"""Opens the ledger's database, brings its schema up to date, and tells the time by its clock.

    engine = open_database("sqlite:///var/ledger.db")
    engine = open_database(url, migrate=False)       # makes and changes nothing
    database_seconds(connection)                     # 1795901400, since 1970
    health = ledger_health(url, now)                 # what a run needs, and is refused

SQLite transactions that write start with BEGIN IMMEDIATE, so that two writers wait for one another
instead of failing midway.

A ledger in a file of SQLite is made once, and never silently made again. SQLite makes a new, empty
database where a file is gone, and an open connection goes on writing to a file that has been moved
away: runs, approvals and earlier values would be lost without a message. So a connection is handed
out only while its file is the one at the path; otherwise the path is opened anew, and where nothing
is there, that is an error. A small file beside it marks that a ledger was made once. Files that are
made here are for their owner alone, since they say who may do what; a mode that somebody gave them
later stays.

The engine's own URL has neither user nor password, so that no log and no message can show them.

Limits: a file on one machine, on a local disk; a path written as an SQLite URI
(`file:...?uri=true`) is not guarded.
"""

import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import sqlalchemy as sa

from counterpoise.errors import InputError, LedgerError, LedgerNotMigratedError
from counterpoise.ledger.schema import metadata, step_locks
from counterpoise.model.safe_text import safe_logger

READS_ONLY: Final = "counterpoise_reads_only"  # execution option of a transaction
_INSUFFICIENT_PRIVILEGE: Final = "42501"  # SQLSTATE
_HIDDEN: Final = "counterpoise_hidden"  # execution option of the engine: words that stay secret
# What a URL may say behind its `?`, and messages with it. All else might be a secret.
_SHOWN_PARAMETERS: Final = {
    *("host", "port", "mode", "uri", "timeout", "connect_timeout", "application_name"),
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"),
}
_PARAMETER: Final = re.compile(r"\?\w+=")
_LOCK_WAIT_SECONDS = 30
_UNNOTICED_SECONDS = 2  # of them, before a message says what is waited for
_LOGGER = safe_logger(__name__)
_ADVISORY_LOCK = 0x436F756E  # any number that only our migrations use
_MIGRATIONS = Path(__file__).with_name("migrations")
_HOW_TO_MIGRATE: Final = "run `counterpoise ledger migrate` with a role that may change its tables"


def open_database(url: str, *, migrate: bool = True) -> sa.Engine:
    """Return an engine over a database with the newest schema.

    Without `migrate`, no file and no table is made or changed. Raises InputError for a bad URL,
    LedgerError otherwise, also where the schema is not the newest and may not be changed.
    """
    parsed, engine = _engine(url)
    where = where_of(parsed)
    file = _file_of(parsed)
    try:
        if parsed.get_backend_name() == "sqlite":
            if migrate and (unguarded := _file_of_uri(parsed)):
                _make_file(unguarded)
            _prepare_sqlite(engine, file, may_make=migrate)
        elif engine.dialect.driver == "psycopg":
            _let_every_time_be_read(engine)
        revision = _revision(engine)
        if revision != newest_revision():
            if not migrate:
                raise _wrong_schema(where, revision)
            _migrate(engine, where, file)
        if file and migrate:
            _mark(file)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        if is_refused(error):
            raise LedgerError(
                f"the ledger {where} needs schema {newest_revision()}, and this role may not make "
                f"it ({explain(error, engine)}); {_HOW_TO_MIGRATE}"
            ) from None
        raise LedgerError(
            f"the ledger {where} cannot be opened: {explain(error, engine)}"
        ) from None
    return engine


def is_made(url: str) -> bool:
    """Return whether a ledger in a file is there; True for any other. Opens nothing; raises
    InputError.
    """
    file = _file_of(_engine(url)[0])
    return file is None or file.exists()


def shown_address(url: str) -> str:
    """Return a ledger's URL for people, as `where_of` does; opens nothing. Raises InputError."""
    return where_of(_engine(url)[0])


def where_of(url: sa.URL) -> str:
    """Return a URL for messages: without user, password and parameters."""
    return _without_login(url).difference_update_query(url.query).render_as_string()


def _without_login(url: sa.URL) -> sa.URL:
    return url._replace(username=None, password=None)


def is_refused(error: Exception) -> bool:
    """Return whether the database said that its role may not do this."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) == _INSUFFICIENT_PRIVILEGE


def explain(error: Exception, engine: sa.Engine) -> str:
    """Return the first line of what the driver said, without what has to stay secret."""
    reason = str(getattr(error, "orig", None) or error).split("\n")[0]
    for word in engine.get_execution_options()[_HIDDEN]:
        reason = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "***", reason)
    return reason


def _engine(url: str) -> tuple[sa.URL, sa.Engine]:
    try:
        parsed = sa.make_url(url)
        if _is_ambiguous(parsed):
            raise InputError(
                "ledger: it cannot be told where user and password of the URL end; in them, and in "
                "its parameters, write @ as %40, / as %2F and ? as %3F"
            )
        hidden = {key: value for key, value in parsed.query.items() if key not in _SHOWN_PARAMETERS}
        login = {
            key: value
            for key, value in {"user": parsed.username, "password": parsed.password}.items()
            if value is not None
        }
        shown = _without_login(parsed).difference_update_query(hidden)
        is_sqlite = parsed.get_backend_name() == "sqlite"
        words = [word for value in (hidden | login).values() for word in _words_of(value)]
        engine = sa.create_engine(
            shown,
            connect_args={"timeout": _LOCK_WAIT_SECONDS} if is_sqlite else {**login, **hidden},
            execution_options={_HIDDEN: sorted(words, key=len, reverse=True)},
            hide_parameters=True,
        )
    except ValueError:  # its port, say; the message itself could show a part of the password
        raise InputError(
            "ledger: not a database URL; write it like postgresql+psycopg://user@host:5432/name"
        ) from None
    except sa.exc.NoSuchModuleError as error:
        raise InputError(
            f"ledger: not a database URL ({error}); write it like sqlite:///var/ledger.db, or "
            "postgresql+psycopg://user@host:5432/name"
        ) from None
    except ImportError as error:
        raise InputError(
            f"ledger: the driver for {parsed.drivername} is not installed ({error}); for Postgres "
            "pip install 'counterpoise[postgres]', and write the URL like "
            "postgresql+psycopg://user@host:5432/name"
        ) from None
    except sa.exc.ArgumentError:  # its own words show the URL
        raise InputError(
            "ledger: not a database URL; write it like sqlite:///var/ledger.db, or "
            "postgresql+psycopg://user@host:5432/name"
        ) from None
    return shown, engine


def _is_ambiguous(url: sa.URL) -> bool:
    """Return whether a part of user or password may stand where host or database are read.

    As in `//user:a@b@host/x`, whose host would be `b@host`, and in `//host/x?password=a@b`, whose
    user would be `host`.
    """
    is_file = url.get_backend_name() == "sqlite" and not url.host
    place = f"{url.host or ''}/{'' if is_file else url.database or ''}"
    return "@" in place or bool(_PARAMETER.search(f"{url.username or ''}:{url.password or ''}"))


def _words_of(value: str | tuple[str, ...]) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else value
    return tuple(word for word in words if word)


def _file_of(url: sa.URL) -> Path | None:
    is_file = (
        url.get_backend_name() == "sqlite"
        and url.database
        and url.database != ":memory:"
        and not url.query.get("uri")
    )
    return Path(url.database or "").absolute() if is_file else None


def _file_of_uri(url: sa.URL) -> Path | None:
    """Return the file that `sqlite:///file:PATH?uri=true` makes where it is not there."""
    path = (url.database or "").removeprefix("file:")
    may_make = url.query.get("mode", "rwc") == "rwc"
    is_file = url.query.get("uri") and path.strip("/") and path != ":memory:"
    return Path(unquote(path)) if may_make and is_file else None


def _prepare_sqlite(engine: sa.Engine, file: Path | None, *, may_make: bool) -> None:
    if file:
        if may_make:
            _make_folder(file.parent)
        _guard(engine, file, may_make=may_make)

    where = where_of(engine.url)

    @sa.event.listens_for(engine, "connect")
    def _no_implicit_transactions(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        connection.text_factory = _text_of  # text that is no UTF-8 is read too, and told as changed
        _wait_for_lock(connection, "SELECT 1 FROM sqlite_schema", where)
        if may_make:
            _wait_for_lock(connection, "PRAGMA journal_mode=WAL", where)
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        reads_only = connection.get_execution_options().get(READS_ONLY, False)
        statement = "BEGIN" if reads_only else "BEGIN IMMEDIATE"
        try:
            _wait_for_lock(connection.connection.driver_connection, statement, where)
        except sqlite3.Error as error:
            raise sa.exc.OperationalError(statement, None, error) from None


def _let_every_time_be_read(engine: sa.Engine) -> None:
    """Read times beyond those of Python as the nearest that it has; 'infinity' as datetime.max.

    The driver refuses a row that has one: whoever may insert a request could stop every reader of a
    cluster's requests.
    """
    # Imported here: most ledgers are files, and their commands start faster without it.
    from psycopg import DataError
    from psycopg.types.datetime import TimestampLoader

    class NearestTime(TimestampLoader):
        def load(self, data: Any) -> datetime:
            try:
                return super().load(data)
            except DataError:
                text = bytes(data)
                is_early = text.startswith(b"-") or text.endswith(b"BC")
                return datetime.min if is_early else datetime.max

    @sa.event.listens_for(engine, "connect")
    def _register(connection: Any, _record: Any) -> None:
        connection.adapters.register_loader("timestamp", NearestTime)


def _wait_for_lock(connection: Any, statement: str, where: str) -> None:
    """Execute a statement that may have to wait for another process, and say so when it waits."""
    connection.execute(f"PRAGMA busy_timeout={_UNNOTICED_SECONDS * 1000}")
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        seconds = _LOCK_WAIT_SECONDS - _UNNOTICED_SECONDS
        _LOGGER.warning(
            "the ledger %s is locked by another process: waiting for up to %d s", where, seconds
        )
        connection.execute(f"PRAGMA busy_timeout={seconds * 1000}")
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as still:
            raise _still_locked(still) from None
    connection.execute(f"PRAGMA busy_timeout={_LOCK_WAIT_SECONDS * 1000}")


def _still_locked(error: sqlite3.OperationalError) -> sqlite3.OperationalError:
    told = sqlite3.OperationalError(
        f"{error}: another process kept it for {_LOCK_WAIT_SECONDS} s; end that process, or try "
        "again when it has ended"
    )
    told.sqlite_errorcode, told.sqlite_errorname = error.sqlite_errorcode, error.sqlite_errorname
    return told


def _text_of(stored: bytes) -> str:
    return stored.decode(errors="backslashreplace")


def newest_revision() -> str:
    """Return the revision of the newest migration."""
    return max(_known_revisions())


def _known_revisions() -> frozenset[str]:
    """Return the revisions of all migrations, from the names of their files."""
    files = (_MIGRATIONS / "versions").glob("[0-9]*.py")
    return frozenset(file.name.partition("_")[0] for file in files)


def _revision(engine: sa.Engine) -> str | None:
    """Return the schema's revision; None where there are no tables of ours.

    It is the newest for every command but the first: this saves the import of Alembic, which takes
    as long as all that a command asks the database.
    """
    versions = sa.table("alembic_version", sa.column("version_num"))
    reader = engine.execution_options(**{READS_ONLY: True})
    with reader.begin() as connection:
        if not sa.inspect(connection).has_table(versions.name):
            return None
        revision: str | None = connection.scalar(sa.select(versions.c.version_num))
    return revision


def _wrong_schema(where: str, revision: str | None) -> LedgerError:
    if revision is None:
        return LedgerNotMigratedError(f"the ledger {where} was not made yet; {_HOW_TO_MIGRATE}")
    if revision not in _known_revisions():
        return _unknown_schema(where, revision)
    return LedgerNotMigratedError(
        f"the ledger {where} has schema {revision}, and this release needs {newest_revision()}; "
        f"{_HOW_TO_MIGRATE}"
    )


def _unknown_schema(where: str, revision: str) -> LedgerError:
    return LedgerError(
        f"the ledger {where} has schema {revision}, which this release does not know (it knows "
        f"schemas up to {newest_revision()}): another version of Counterpoise made it. Use that "
        "version, or begin with another ledger"
    )


def _migrate(engine: sa.Engine, where: str, file: Path | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    head = scripts.get_current_head()
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        current = MigrationContext.configure(connection).get_current_revision()
        if current == head:
            return
        if current is None and file and is_marked(file):
            raise _gone(file, "is empty")
        if current is not None and current not in _known_revisions():
            raise _unknown_schema(where, current)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


# -- a ledger in a file


_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_MADE: Final = "-made"
_LEFT: Final = "-wal"
_MADE_TEXT: Final = """\
A ledger of Counterpoise was made here. As long as this file is here, none is made anew in its
place: where the ledger is gone, every command says so and changes nothing. Remove this file only
to begin with an empty ledger.
"""


def _make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for their owner alone; one that is there stays."""
    for missing in (folder, *folder.parents)[::-1]:
        if not missing.exists():
            missing.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def _make_file(path: Path) -> None:
    """Make an empty file for its owner alone; one that is there stays.

    SQLite gives its log and its index the mode of the database.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, _FILE_MODE))


def _guard(engine: sa.Engine, path: Path, *, may_make: bool) -> None:
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
            raise _gone(path, "is gone" if _identity(path) is None else "is an empty file")
        if not was_made and not may_make and not _size(path):
            raise LedgerNotMigratedError(
                f"the ledger {path} was not made yet; `counterpoise ledger migrate` makes it, and "
                "so does every command that writes to it"
            )
        if not was_made and may_make:
            _make_file(path)
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


def _mark(path: Path) -> None:
    if not is_marked(path):
        handle = os.open(_beside(path, _MADE), os.O_CREAT | os.O_WRONLY, _FILE_MODE)
        with os.fdopen(handle, "w") as file:
            file.write(_MADE_TEXT)


def _gone(path: Path, how: str) -> LedgerError:
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


# -- the database's clock, which all workers of a run share: their own may differ


_SECONDS_OF_SQLITE: Final = sa.text(
    "SELECT strftime('%s', 'now') + strftime('%f', 'now') - strftime('%S', 'now')"
)
_SECONDS_OF_POSTGRES: Final = sa.text("SELECT extract(epoch FROM clock_timestamp())")


def database_seconds(connection: sa.Connection) -> int:
    """Return the whole seconds since 1970 by the database's clock."""
    return int(database_time(connection))


def database_time(connection: sa.Connection) -> float:
    """Return the seconds since 1970, to the millisecond: several times of a run are 5 s apart."""
    is_sqlite = connection.dialect.name == "sqlite"
    query = _SECONDS_OF_SQLITE if is_sqlite else _SECONDS_OF_POSTGRES
    return float(connection.execute(query).scalar_one())


# -- what a run needs of its ledger, tried before it relies on it; changes nothing


@dataclass(frozen=True, slots=True)
class LedgerHealth:
    schema: str
    refused: tuple[str, ...]  # what its role may not do that a run needs
    clock_ahead_seconds: int  # of the database, before ours; negative: behind


def ledger_health(url: str, clock: Callable[[], datetime]) -> LedgerHealth:
    """Open a ledger that is made and up to date, and return how it is, beside our clock (UTC).

    Raises InputError, LedgerError.
    """
    engine = open_database(url, migrate=False)
    try:
        with engine.connect() as connection:
            clock_ahead = database_seconds(connection) - int(clock().timestamp())
            connection.rollback()
            refused = tuple(_refused(engine, connection))
        return LedgerHealth(newest_revision(), refused, clock_ahead)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        raise LedgerError(f"the ledger cannot be used: {explain(error, engine)}") from None
    finally:
        engine.dispose()


def _refused(engine: sa.Engine, connection: sa.Connection) -> list[str]:
    """Return each refused statement with the database's reason; every transaction is undone."""
    nothing = sa.false()
    tables = metadata.tables.values()
    statements: dict[str, sa.Executable] = {
        f"insert into {table.name}": table.insert().from_select(
            list(table.columns), sa.select(table).where(nothing)
        )
        for table in tables
    }
    statements["update step_locks"] = step_locks.update().where(nothing).values(until=0)
    refused = []
    for what, statement in statements.items():
        try:
            connection.execute(statement)
        except sa.exc.DBAPIError as error:
            if not (is_refused(error) or engine.dialect.name == "sqlite"):
                raise
            refused.append(f"{what} ({explain(error, engine)})")
        finally:
            connection.rollback()
    return refused
