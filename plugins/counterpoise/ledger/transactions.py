"""The transactions of a ledger: one to read, one to write, one at a time for a cluster.

    with transactions.reading() as connection: ...
    with transactions.for_cluster("demo") as connection: ...     # decisions, events, requests
        now = transactions.now(connection)

Raises LedgerError when the database does not answer, or refuses what its role may not do. No
message holds a password, a user or a row.

The audit log: each event of the ledger is one JSON line of the logger `counterpoise.audit`, written
after its transaction has committed. `who` is null where no person caused the event, `run` and
`fingerprint` where it concerns a whole cluster.

    {"cluster": "demo", "details": "granted by alice: broker 4", "fingerprint": "sha256:5e...",
     "run": "demo-20260131T120000Z-3b9aa1", "time": "2026-01-31T12:00:00.000000Z",
     "what": "granted", "who": "alice (airflow:2)"}

Limits: the ledger is the record. A process that dies between the commit and the line, or that loses
its connection during the commit, leaves no line.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.errors import LedgerError
from counterpoise.ledger import database
from counterpoise.ledger.database import READS_ONLY, explain, is_refused, where_of
from counterpoise.ledger.schema import runs
from counterpoise.model.safe_text import for_json, without_secrets


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
            return datetime.fromtimestamp(database.database_time(connection), UTC)
        with self.reading() as reader:
            return datetime.fromtimestamp(database.database_time(reader), UTC)

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


# -- the audit log


_LOGGER: Final = logging.getLogger("counterpoise.audit")
_NOTED: Final = "counterpoise_audit"  # key of a connection's notes


@contextmanager
def logging_after_commit(
    transaction: AbstractContextManager[sa.Connection],
) -> Iterator[sa.Connection]:
    """Yield the transaction's connection, and log what was noted in it once it has committed."""
    noted: list[dict[str, Any]] = []
    with transaction as connection:
        connection.info[_NOTED] = noted
        yield connection
    for entry in noted:
        _LOGGER.info("%s", for_json(entry))


def note(
    connection: sa.Connection,
    *,
    who: str | None,
    what: str,
    cluster: str,
    run: str | None,
    fingerprint: str | None,
    time: datetime,
    details: str,
) -> None:
    """Note an event within its transaction."""
    entry = {
        "who": who,
        "what": what,
        "cluster": cluster,
        "run": run,
        "fingerprint": fingerprint,
        "time": f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
        "details": without_secrets(details),
    }
    connection.info.setdefault(_NOTED, []).append(entry)
