"""What an installation has to know of its ledger before it relies on it; changes nothing.

    health = ledger_health("postgresql+psycopg://counterpoise@host/counterpoise", now)
    health.refused, health.clock_ahead_seconds

Rights are tried with statements that concern no row: a database checks them all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from counterpoise.errors import LedgerError
from counterpoise.ledger.database import explain, is_refused, newest_revision, open_database
from counterpoise.ledger.database_clock import database_seconds
from counterpoise.ledger.schema import metadata, step_locks


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
