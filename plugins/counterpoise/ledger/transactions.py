"""The transactions of a ledger: one to read, one to write, one at a time for a cluster.

    with transactions.reading() as connection: ...
    with transactions.for_cluster("demo") as connection: ...     # decisions, events, requests
        now = transactions.now(connection)

Raises LedgerError when the database does not answer, or refuses what its role may not do. No
message holds a password, a user or a row.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa

from counterpoise.errors import LedgerError
from counterpoise.ledger import database_clock
from counterpoise.ledger.audit_log import logging_after_commit
from counterpoise.ledger.database import READS_ONLY, explain, is_refused, where_of
from counterpoise.ledger.schema import runs


def insert_if_missing(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]
) -> None:
    """Insert each row unless there is one with its key, also where another transaction is making
    it: in Postgres that one is waited for.
    """
    if not rows:
        return
    if connection.dialect.name != "postgresql":
        connection.execute(table.insert().prefix_with("OR IGNORE"), rows)
        return
    # Imported here: most ledgers are files, and their commands start faster without it.
    from sqlalchemy.dialects.postgresql import insert

    connection.execute(insert(table).on_conflict_do_nothing(), rows)


def lock_cluster(connection: sa.Connection, cluster: str) -> None:
    """Let nobody else decide about a cluster until this transaction ends.

    Rows that are read by their ids (events, requests) become visible in the order of these. The
    lock has to be the first that a writing transaction takes: two that take theirs in different
    orders would wait for each other. SQLite has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        digest = hashlib.sha256(f"counterpoise cluster {cluster}".encode()).digest()
        key = int.from_bytes(digest[:8], signed=True)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.literal(key, sa.BigInteger))))


class Transactions:
    def __init__(self, engine: sa.Engine, clock: Callable[[], datetime] | None = None) -> None:
        """Make the transactions of a database; a test gives a clock in place of the database's."""
        self._engine = engine
        self.clock = clock
        self._reader = engine.execution_options(**{READS_ONLY: True})
        if engine.dialect.name == "postgresql":
            self._reader = self._reader.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        self._cluster_by_run: dict[str, str] = {}

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection that cannot write, and sees one moment of the database."""
        with self._translated(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Yield a connection, and log the events that were written with it after the commit."""
        with self._translated(), logging_after_commit(self._engine.begin()) as connection:
            yield connection

    @contextmanager
    def for_cluster(self, cluster: str) -> Iterator[sa.Connection]:
        """Yield a connection that alone decides about a cluster (`lock_cluster`)."""
        with self.writing() as connection:
            lock_cluster(connection, cluster)
            yield connection

    @contextmanager
    def for_run(self, run_id: str) -> Iterator[sa.Connection]:
        """Yield a connection that alone decides about the cluster of a run."""
        with self.for_cluster(self.cluster_of(run_id)) as connection:
            yield connection

    def now(self, connection: sa.Connection | None = None) -> datetime:
        """Return the time by the database's clock: in the transaction of a connection, or alone."""
        if self.clock is not None:
            return self.clock()
        if connection is not None:
            return datetime.fromtimestamp(database_clock.database_time(connection), UTC)
        with self.reading() as reader:
            return datetime.fromtimestamp(database_clock.database_time(reader), UTC)

    def cluster_of(self, run_id: str) -> str:
        """Return the cluster of a run; "" for a run that is not in the ledger."""
        if run_id not in self._cluster_by_run:
            query = sa.select(runs.c.cluster).where(runs.c.run_id == run_id)
            with self.reading() as connection:
                self._cluster_by_run[run_id] = connection.scalar(query) or ""
        return self._cluster_by_run[run_id]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            where, reason = where_of(self._engine.url), explain(error, self._engine)
            if is_refused(error):
                raise LedgerError(
                    f"the ledger {where} refused it: {reason}. The role of this process may not do "
                    'that; docs/security.md ("The ledger") lists what each role needs'
                ) from None
            raise LedgerError(f"the ledger {where} did not answer: {reason}") from None
