"""The database's clock, which all workers of a run share: their own may differ.

database_seconds(connection)         # 1795901400, since 1970
database_time(connection)            # 1795901400.125

In Postgres it is `clock_timestamp()`: `now()` is the time at which the transaction began, before it
waited for a lock.
"""

from typing import Final

import sqlalchemy as sa

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
