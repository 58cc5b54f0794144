"""The database's clock, which all workers of a run share: their own may differ.

database_seconds(connection)         # 1795901400, since 1970
SharedClock(transactions, clock)     # ours, put forward or back to where the database's is
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from counterpoise.ledger.transactions import Transactions

_SECONDS_OF_SQLITE: Final = sa.text(
    "SELECT strftime('%s', 'now') + strftime('%f', 'now') - strftime('%S', 'now')"
)
_SECONDS_OF_POSTGRES: Final = sa.text("SELECT extract(epoch FROM clock_timestamp())")
_SAME_SECONDS: Final = 0.5  # less is the way of the answer
_SHORT_SECONDS: Final = 0.5
_MAX_QUESTIONS: Final = 5


def database_seconds(connection: sa.Connection) -> int:
    """Return the whole seconds since 1970 by the database's clock."""
    return int(database_time(connection))


def database_time(connection: sa.Connection) -> float:
    """Return the seconds since 1970, to the millisecond: several times of a run are 5 s apart."""
    is_sqlite = connection.dialect.name == "sqlite"
    query = _SECONDS_OF_SQLITE if is_sqlite else _SECONDS_OF_POSTGRES
    return float(connection.execute(query).scalar_one())


class SharedClock:
    """Our clock (UTC) as far ahead as the database's was when both were compared, within a second.

    One worker's is right, another one's 40 s ahead: both go by the database's, and when a call was
    made is the same time for both. Ours may be set while this process lives: each step of a run
    compares them again.
    """

    def __init__(self, transactions: Transactions, clock: Callable[[], datetime]) -> None:
        """Compare the clocks for the first time. Raises LedgerError."""
        self._transactions = transactions
        self._clock = clock
        self.compare()

    def __call__(self) -> datetime:
        return self._clock() + self._ahead

    def compare(self) -> None:
        """Ask the database for its time. Raises LedgerError."""
        with self._transactions.reading() as connection:
            ahead = _seconds_ahead(connection, self._clock)
        self._ahead = timedelta(seconds=0 if abs(ahead) < _SAME_SECONDS else ahead)


def compare_again(clock: Callable[[], datetime]) -> None:
    """Compare a shared clock with the database's; any other one goes on as it is."""
    if isinstance(clock, SharedClock):
        clock.compare()


def _seconds_ahead(connection: sa.Connection, clock: Callable[[], datetime]) -> float:
    """Return how far the database's clock is ahead of ours.

    An answer that comes 40 s late, or that a process reads which was stopped for as long, would put
    our clock back by that: the database is asked again, and the fastest answer counts.
    """
    answers: list[tuple[float, float]] = []
    for _ in range(_MAX_QUESTIONS):
        asked_at = clock()
        seconds, now = database_time(connection), clock()
        took_seconds = abs((now - asked_at).total_seconds())
        answers.append((took_seconds, seconds - now.timestamp()))
        if took_seconds < _SHORT_SECONDS:
            break
    return min(answers)[1]
