"""Opens the ledger's database and brings its schema up to date.

    engine = open_database("sqlite:///var/ledger.db")
    engine = open_database(url, migrate=False)       # makes and changes nothing

SQLite transactions that write start with BEGIN IMMEDIATE, so that two writers wait for one another
instead of failing midway. A file that is gone is not made anew: `sqlite_file.py`.

The engine's own URL has neither user nor password, so that no log and no message can show them.
"""

import re
import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import sqlalchemy as sa

from counterpoise.errors import InputError, LedgerError, LedgerNotMigratedError
from counterpoise.ledger import sqlite_file
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
                sqlite_file.make(unguarded)
            _prepare_sqlite(engine, file, may_make=migrate)
        elif engine.dialect.driver == "psycopg":
            # Imported here: most ledgers are files, and their commands start faster without it.
            from counterpoise.ledger.postgres_times import let_every_time_be_read

            let_every_time_be_read(engine)
        revision = _revision(engine)
        if revision != newest_revision():
            if not migrate:
                raise _wrong_schema(where, revision)
            _migrate(engine, where, file)
        if file and migrate:
            sqlite_file.mark(file)
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
            f"ledger: not a database URL ({error}); write it like sqlite:///var/ledger.db"
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
            sqlite_file.make_folder(file.parent)
        sqlite_file.guard(engine, file, may_make=may_make)

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
        if current is None and file and sqlite_file.is_marked(file):
            raise sqlite_file.gone(file, "is empty")
        if current is not None and current not in _known_revisions():
            raise _unknown_schema(where, current)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
