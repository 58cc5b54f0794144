"""Quick ledgers in files: the first one of a process is migrated, later ones get the same tables;
and no commit waits for the disk.

    with quick_new_ledgers():
        open_database(f"sqlite:///{folder}/ledger.db")

Migrating an empty file takes a tenth of a second of the processor, which is more than most tests
need for all that they do. A ledger that has tables is migrated as ever, and so is Postgres. What
is committed outlives a process that is killed, as ever; only a machine that loses power could lose
it, which no test here can do.
"""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterpoise.ledger import database

_migrate = database._migrate


@contextmanager
def quick_new_ledgers() -> Iterator[None]:
    """Let the opening of a new ledger do what its migrations did before, and no commit wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_migrate", _make_or_migrate)
        sa.event.listen(sa.Engine, "connect", _do_not_wait_for_the_disk)
        yield
        sa.event.remove(sa.Engine, "connect", _do_not_wait_for_the_disk)


def _do_not_wait_for_the_disk(connection: Any, _record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.OperationalError):  # locked by another process, as the test wants it
            connection.execute("PRAGMA synchronous=OFF")


@contextmanager
def real_migrations() -> Iterator[None]:
    """Migrate new ledgers, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_migrate", _migrate)
        yield


def _make_or_migrate(engine: sa.Engine, where: str, file: Path | None) -> None:
    is_file = file is not None and engine.dialect.name == "sqlite"
    if is_file and not database.is_marked(file) and _is_made(engine):
        return
    _migrate(engine, where, file)


def _is_made(engine: sa.Engine) -> bool:
    """Make all tables where there is none, in one transaction as a migration does."""
    with engine.begin() as connection:
        if sa.inspect(connection).get_table_names():
            return False
        for statement in _statements():
            connection.exec_driver_sql(statement)
    return True


@cache
def _statements() -> Sequence[str]:
    with tempfile.TemporaryDirectory() as folder, real_migrations():
        path = Path(folder) / "ledger.db"
        database.open_database(f"sqlite:///{path}").dispose()
        with closing(sqlite3.connect(path)) as made:
            statements = list(made.iterdump())
    return tuple(s for s in statements if s not in ("BEGIN TRANSACTION;", "COMMIT;"))
