"""How large a ledger in SQLite is: rows by table, and bytes of its file.

ledger_rows(Path("ledger.db"))["events"]
database_bytes(Path("ledger.db"))       # with what is still in its log
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from counterpoise.ledger.schema import metadata


def ledger_rows(database: Path) -> dict[str, int]:
    """Return the number of rows of each table that has any."""
    with closing(sqlite3.connect(database)) as connection:
        counts = {
            name: int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])
            for name in metadata.tables
        }
    return {name: count for name, count in counts.items() if count}


def progress_bytes(database: Path) -> int:
    """Return the bytes of the last progress of all runs, which `ledger prune` leaves."""
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT sum(length(body) + length(coalesce(readings, ''))) FROM pulses"
        return int(connection.execute(query).fetchone()[0] or 0)


def database_bytes(database: Path) -> int:
    """Return the size of the file, when all of its log is in it."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database.stat().st_size
