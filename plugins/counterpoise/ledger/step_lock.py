"""The lock of a cluster's steps: a row that holds for 30 s by the database's clock.

    lock = StepLock(transactions, "demo", run_id, holder)
    lock.take()                         # StepLockHeldError: another process is at work
    with transactions.writing() as connection:
        lock.extend(connection)         # RunConflictError: another copy has taken over
        lock.check_current(connection)  # StepExpiredError: nobody did, but its time has run out
    lock.release()

Where that clock is set back, the lock of a dead process would hold for as long. As none lasts for
more than 30 s, one that seems to have a minute left, or more, is free. If its holder lives, two
processes work at once until the holder's next write. Set back by less, the lock only lasts longer,
and nobody waits more than a minute for it.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from counterpoise.errors import RunConflictError, StepExpiredError, StepLockHeldError
from counterpoise.ledger.database_clock import database_seconds
from counterpoise.ledger.schema import step_locks
from counterpoise.ledger.transactions import Transactions, insert_if_missing
from counterpoise.model.run import STEP_LOCK_SECONDS

# A call of ours has ended this long before the lock can go to somebody else.
_SPARE_SECONDS: Final = 1.0

# No lock that is held has so much time left, unless the database's clock was set back.
_MAX_SECONDS_LEFT: Final = 2 * STEP_LOCK_SECONDS

# Each step executes these several times. To build a statement takes longer than to execute it.
_CLUSTER: Final = sa.bindparam("this_cluster", type_=sa.Text)
_HOLDER: Final = sa.bindparam("this_holder", type_=sa.Text)
_NOW: Final = sa.bindparam("now", type_=sa.BigInteger)
_UNTIL: Final = sa.bindparam("new_until", type_=sa.BigInteger)
_OURS: Final = (step_locks.c.cluster == _CLUSTER, step_locks.c.holder == _HOLDER)
_KNOWN: Final = sa.select(step_locks.c.cluster).where(step_locks.c.cluster == _CLUSTER)


def _is_free(until: sa.Column[int]) -> sa.ColumnElement[bool]:
    return (until <= _NOW) | (until >= _NOW + _MAX_SECONDS_LEFT)


_TAKE: Final = (
    step_locks.update()
    .where(step_locks.c.cluster == _CLUSTER, _is_free(step_locks.c.until))
    .values(holder=_HOLDER, until=_UNTIL)
)
_EXTEND: Final = step_locks.update().where(*_OURS).values(until=_UNTIL)
_HELD: Final = sa.select(step_locks.c.until).where(*_OURS)
_RELEASE: Final = step_locks.update().where(*_OURS).values(holder=None, until=0)


@dataclass
class StepLock:
    """The lock of a cluster's steps, while we hold it."""

    transactions: Transactions
    cluster: str
    run_id: str | None  # for messages; None: no run is meant
    holder: str
    deadline: float = 0.0  # `time.monotonic()`
    extended_at: datetime | None = None  # by the database's clock
    connection: sa.Connection | None = None  # of the transaction that is open

    def take(self) -> None:
        """Take the lock. Raises StepLockHeldError when somebody else holds it."""
        taken_at = time.monotonic()
        with self.transactions.writing() as connection:
            now = database_seconds(connection)
            _make_sure_of_row(connection, self.cluster)
            times = {"now": now, "new_until": now + STEP_LOCK_SECONDS}
            is_taken = connection.execute(_TAKE, self._ours | times).rowcount
            if not is_taken:
                raise StepLockHeldError(
                    f"{self._subject}: another process is at work on it; if that one died, try "
                    f"again in {STEP_LOCK_SECONDS} s"
                )
        self._extend_deadline(taken_at)

    def extend(self, connection: sa.Connection) -> None:
        """Hold the lock for longer, within a transaction; also one that nobody took when it ended.

        Raises RunConflictError when it has gone to somebody else.
        """
        extended_at = time.monotonic()
        now = database_seconds(connection)
        until = {"new_until": now + STEP_LOCK_SECONDS}
        is_held = connection.execute(_EXTEND, self._ours | until).rowcount
        if not is_held:
            raise RunConflictError(
                f"{self._subject}: another copy of this task has taken over; this one stops"
            )
        self._extend_deadline(extended_at)
        self.extended_at = datetime.fromtimestamp(now, UTC)

    def check_current(self, connection: sa.Connection) -> None:
        """Raise StepExpiredError when the lock's time has run out, whoever took it since."""
        until = connection.scalar(_HELD, self._ours)
        if until is None:
            return
        if not 0 < until - database_seconds(connection) < _MAX_SECONDS_LEFT:
            raise StepExpiredError(
                f"{self._subject}: this process was stopped for more than {STEP_LOCK_SECONDS} s, "
                "or the database's clock was set back"
            )

    def release(self) -> None:
        with self.transactions.writing() as connection:
            connection.execute(_RELEASE, self._ours)

    def _extend_deadline(self, held_from: float) -> None:
        self.deadline = held_from + STEP_LOCK_SECONDS - _SPARE_SECONDS

    @property
    def _subject(self) -> str:
        return f"cluster {self.cluster}" if self.run_id is None else f"run {self.run_id}"

    @property
    def _ours(self) -> dict[str, object]:
        return {"this_cluster": self.cluster, "this_holder": self.holder}


def _make_sure_of_row(connection: sa.Connection, cluster: str) -> None:
    if connection.scalar(_KNOWN, {"this_cluster": cluster}) is None:
        insert_if_missing(connection, step_locks, [{"cluster": cluster, "until": 0}])
