"""Opens the ledger's database and brings its schema up to date.

    engine = open_database("sqlite:///var/ledger.db")

SQLite transactions start with BEGIN IMMEDIATE, so that two writers wait for one another instead of
failing midway. A file that is gone is not made anew: `sqlite_file.py`.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from counterpoise.errors import InputError, LedgerError
from counterpoise.ledger import sqlite_file

_LOCK_WAIT_SECONDS = 30
_ADVISORY_LOCK = 0x436F756E  # any number that only our migrations use
_MIGRATIONS = Path(__file__).with_name("migrations")


def open_database(url: str) -> sa.Engine:
    """Return an engine over a database with the newest schema.

    Raises InputError for a bad URL, LedgerError otherwise.
    """
    try:
        parsed = sa.make_url(url)
        is_sqlite = parsed.get_backend_name() == "sqlite"
        engine = sa.create_engine(
            parsed, connect_args={"timeout": _LOCK_WAIT_SECONDS} if is_sqlite else {}
        )
    except ValueError:  # its port, say; the message itself could show a part of the password
        raise InputError(
            "ledger: not a database URL; write it like postgresql+psycopg://user@host:5432/name"
        ) from None
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise InputError(
            f"ledger: not a database URL ({error}); write it like sqlite:///var/ledger.db"
        ) from None
    where = parsed.render_as_string(hide_password=True)
    file = _file_of(parsed) if is_sqlite else None
    try:
        if is_sqlite:
            _prepare_sqlite(engine, file)
        if not _is_newest(engine):
            _migrate(engine, where, file)
        if file:
            sqlite_file.mark(file)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).split("\n")[0]
        raise LedgerError(f"the ledger {where} cannot be opened: {reason}") from None
    return engine


def _file_of(url: sa.URL) -> Path | None:
    is_file = url.database and url.database != ":memory:" and not url.query.get("uri")
    return Path(url.database or "").absolute() if is_file else None


def _prepare_sqlite(engine: sa.Engine, file: Path | None) -> None:
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        sqlite_file.guard(engine, file)

    @sa.event.listens_for(engine, "connect")
    def _no_implicit_transactions(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def _begin_immediate(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def newest_revision() -> str:
    """Return the revision of the newest migration, from the name of its file."""
    return max(path.name for path in (_MIGRATIONS / "versions").glob("[0-9]*.py")).partition("_")[0]


def _is_newest(engine: sa.Engine) -> bool:
    """Return whether the schema is the newest, as for every command but the first.

    This saves the import of Alembic, which takes as long as all that a command asks the database.
    """
    versions = sa.table("alembic_version", sa.column("version_num"))
    with engine.begin() as connection:
        if not sa.inspect(connection).has_table(versions.name):
            return False
        return list(connection.scalars(sa.select(versions.c.version_num))) == [newest_revision()]


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
        if current is not None and current not in {
            script.revision for script in scripts.walk_revisions()
        }:
            raise LedgerError(
                f"the ledger {where} was made by a newer Counterpoise (schema {current}); "
                "update this one"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
