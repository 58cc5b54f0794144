"""What suites want to know of a ledger, and the few things that they write into one.

    view = LedgerView.of(ledger)              # or LedgerView.of_database(an sqlite3 connection)
    view.pending_keys(run_id)                 # OwnedKey(resource, key, before, written, ...)
    view.submitted(run_id)                    # Submitted(partition, target, is_unanswered, ...)

    change_was_not_answered(ledger, run_id, keys)      # its process died in the call

This file alone knows the tables and classes of the ledger, except for the tests of these. Reads are
SQL, so that they also tell what the product's own reading leaves out. Writes go through a step.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from counterpoise.execution import restore_pending
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.ledger import Journal, Ledger, Step, database
from counterpoise.ledger.rows import set_state
from counterpoise.ledger.schema import metadata
from counterpoise.model import run as model
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.kafka import (
    ConfigResource,
    ConfigResourceType,
    ResourceKey,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import Event, Run, RunState, left_values
from counterpoise.model.run_progress import RunProgress
from counterpoise.undoing import WayBack, check_undoable, find_way_back

Query = Callable[[str, Mapping[str, object]], Iterable[Any]]

# Rows that are only added, and that no decision of a run reads.
_READ_BY_NO_DECISION: Final = {"events", "alembic_version", "questions"}
TABLES: Final = tuple(table.name for table in metadata.sorted_tables)
TABLES_OF_DECISIONS: Final = tuple(name for name in TABLES if name not in _READ_BY_NO_DECISION)
# What grows with the moves of a run; deleted when the run counts no more.
BULK_TABLES: Final = ("submitted", "owned_keys")

# Before and after each of these, a process may be killed at a point that has a name.
NAMED_WRITES: Final = (
    "change_state",
    "touching",
    "keys_answered",
    "keys_done",
    "submitting",
    "answered",
    "update_progress",
    "event",
)
# Every write of a step, each in a transaction of its own outside of `together`.
STEP_WRITES: Final = (
    "answered",
    "change_state",
    "event",
    "keys_answered",
    "keys_done",
    "over",
    "owning",
    "rates_shown",
    "submitting",
    "taking_over",
    "touching",
    "update_progress",
)


@dataclass(frozen=True, slots=True)
class OwnedKey:
    """A config key that a run has written, or is about to write."""

    run_id: str
    resource: ConfigResource
    key: str
    before: str | None  # None: was not set at this resource
    written: tuple[str, ...]  # entries of a list; or rates, the last one set last
    is_unanswered: bool  # a call about it has no answer, and may still be applied
    is_restored: bool

    @property
    def resource_key(self) -> ResourceKey:
        return self.resource, self.key


@dataclass(frozen=True, slots=True)
class Submitted:
    """A target that a run has submitted for a partition."""

    run_id: str
    partition: TopicPartition
    target: tuple[int, ...]
    is_unanswered: bool
    is_over: bool  # nothing of it can be in flight any more


class LedgerView:
    """What is in a ledger now, outside of any process of the product."""

    def __init__(self, query: Query) -> None:
        self._query = query

    @classmethod
    def of(cls, ledger: Ledger) -> "LedgerView":
        engine = ledger._engine

        def query(text: str, values: Mapping[str, object]) -> Iterable[Any]:
            with engine.connect() as connection:
                return connection.execute(sa.text(text), values).all()

        return cls(query)

    @classmethod
    def of_database(cls, database: sqlite3.Connection) -> "LedgerView":
        return cls(lambda text, values: database.execute(text, values).fetchall())

    # -- runs

    def states(self) -> dict[str, str]:
        """Return the state of each run, by its id."""
        return dict(tuple(row) for row in self._query("SELECT run_id, state FROM runs", {}))

    def state(self, run_id: str) -> str:
        """Return the state of a run; "" for a run that is not in the ledger."""
        query = "SELECT state FROM runs WHERE run_id = :run_id"
        return next((state for (state,) in self._query(query, {"run_id": run_id})), "")

    def events(self, run_id: str) -> tuple[Event, ...]:
        query = "SELECT at, kind, text FROM events WHERE run_id = :run_id ORDER BY id"
        rows = self._query(query, {"run_id": run_id})
        return tuple(Event(_moment(at), kind, text) for at, kind, text in rows)

    def event_kinds(self, run_id: str) -> list[str]:
        return [event.kind for event in self.events(run_id)]

    def progress(self, run_id: str) -> RunProgress | None:
        """Return the progress at the last observation; None before the first one."""
        query = "SELECT body FROM pulses WHERE run_id = :run_id"
        rows = self._query(query, {"run_id": run_id})
        return next((RunProgress.from_json(body) for (body,) in rows), None)

    def observed_at(self, run_id: str) -> datetime | None:
        query = "SELECT at FROM pulses WHERE run_id = :run_id"
        return next((_moment(at) for (at,) in self._query(query, {"run_id": run_id})), None)

    # -- config keys

    def owned_keys(self, run_id: str | None = None) -> tuple[OwnedKey, ...]:
        """Return the keys that a run, or any run, has written: by run, resource and key."""
        query = (
            "SELECT run_id, resource_type, resource_name, key, before_value, written, "
            "unanswered_at IS NOT NULL, done_at IS NOT NULL FROM owned_keys "
            "WHERE :run_id IN ('', run_id) ORDER BY run_id, resource_type, resource_name, key"
        )
        return tuple(
            OwnedKey(
                run_id=of_run,
                resource=_resource(kind, name),
                key=key,
                before=before,
                written=tuple(filter(None, written.split(","))),
                is_unanswered=bool(is_unanswered),
                is_restored=bool(is_restored),
            )
            for (
                of_run,
                kind,
                name,
                key,
                before,
                written,
                is_unanswered,
                is_restored,
            ) in self._query(query, {"run_id": run_id or ""})
        )

    def left_as_others_set_them(self, run_id: str) -> set[str]:
        """Return the names of a run's keys that somebody else had changed, and that stay so."""
        return set(left_values(self.events(run_id)))

    def pending_keys(self, run_id: str | None = None) -> tuple[OwnedKey, ...]:
        """Return the keys that are not restored yet."""
        return tuple(key for key in self.owned_keys(run_id) if not key.is_restored)

    def open_keys(self) -> tuple[OwnedKey, ...]:
        """Return the keys of all runs that somebody still has to look after: not restored, or a
        call may still change them.
        """
        return tuple(key for key in self.owned_keys() if not key.is_restored or key.is_unanswered)

    # -- moves

    def submitted(self, run_id: str | None = None) -> tuple[Submitted, ...]:
        """Return what a run, or any run, has submitted: each target of each partition."""
        query = (
            "SELECT run_id, topic, partition, target, unanswered_at IS NOT NULL, "
            "done_at IS NOT NULL FROM submitted WHERE :run_id IN ('', run_id) "
            "ORDER BY run_id, topic, partition, target"
        )
        return tuple(
            Submitted(of_run, TopicPartition(topic, number), _replicas(to), bool(lost), bool(over))
            for of_run, topic, number, to, lost, over in self._query(
                query, {"run_id": run_id or ""}
            )
        )

    def submitted_partitions(self, run_id: str) -> set[TopicPartition]:
        return {submitted.partition for submitted in self.submitted(run_id)}

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has that grows with the moves of a run."""
        return {name: self.count(name) for name in BULK_TABLES}

    def count(self, table: str) -> int:
        ((count,),) = self._query(f"SELECT count(*) FROM {table}", {})
        return int(count)


@lru_cache(maxsize=1_000)
def _resource(kind: str, name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType(kind), name)


def _moment(stored: datetime | str) -> datetime:
    """Times are stored as UTC, without a zone; a file has them as text."""
    moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return moment.replace(tzinfo=UTC)


def _replicas(text: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, text.split(","))))


# -- what the product makes of it


def way_back_of(
    ledger: Ledger, run: Run, plan: RebalancePlan, snapshot: ClusterSnapshot
) -> WayBack:
    """Return how a run can be undone. Raises RefusedError where it cannot."""
    journal = ledger.journal(run.run_id)
    submitted = journal.submitted()
    check_undoable(run, plan, journal.events(), has_moved=bool(submitted))
    return find_way_back(plan, submitted, snapshot)


def restore_pending_keys(
    ledger: Ledger, admin: ClusterAdmin, run: Run
) -> tuple[tuple[OwnedKey, ...], tuple[OwnedKey, ...]]:
    """Restore what ended runs left, as the watch does; return what is restored of a run, and what
    stays pending.
    """
    with ledger.step(run.cluster) as step:
        found = restore_pending(admin, ledger, run.cluster, step)
    restored, pending = (_owned(ledger, run.run_id, keys) for keys in found)
    return restored, pending


def _owned(ledger: Ledger, run_id: str, keys: Iterable[model.OwnedKey]) -> tuple[OwnedKey, ...]:
    known = {owned.resource_key: owned for owned in LedgerView.of(ledger).owned_keys(run_id)}
    return tuple(known[key.resource_key] for key in keys if key.run_id == run_id)


# -- writes


def change_state(ledger: Ledger, run_id: str, to: RunState, reason: str = "") -> None:
    """Change a run's state in a step of its own."""
    with ledger.journal(run_id).step() as step:
        step.change_state(to, reason)


def change_state_without_the_lock(ledger: Ledger, run_id: str, to: RunState, at: datetime) -> None:
    """Do what no process may do: change a run's state while another one holds the step."""
    with ledger._transactions.for_run(run_id) as connection:
        set_state(connection, run_id, to, "", at)


@contextmanager
def without_the_lock(step: Step) -> Iterator[None]:
    """Do what no process may do: write what a step records, whoever holds it now."""
    lock = step.lock
    with lock.transactions.for_cluster(lock.cluster) as lock.connection:
        yield
    lock.connection = None


def blame_trouble(ledger: Ledger, run_id: str) -> None:
    """Have a run that settles after a person's cancel settle for trouble: it may go on later."""
    _write(ledger, "UPDATE runs SET reason = 'a broker died' WHERE run_id = :run_id", run_id=run_id)


def add_event(ledger: Ledger, run_id: str, kind: str, text: str) -> None:
    ledger.journal(run_id).event(kind, text)


def update_progress(ledger: Ledger, run_id: str, progress: RunProgress) -> None:
    with ledger.journal(run_id).step() as step:
        step.update_progress(progress)


def was_observed_last_at(ledger: Ledger, run_id: str, at: datetime) -> None:
    """Let the last observation of a run be so old."""
    observed = metadata.tables["pulses"]
    of_run = observed.update().where(observed.c.run_id == run_id).values(at=at)
    with ledger._engine.begin() as connection:
        assert connection.execute(of_run).rowcount == 1


def own_key(
    ledger: Ledger,
    run_id: str,
    resource_key: ResourceKey,
    written: str,
    *,
    before: str | None = None,
) -> None:
    """Let a run set a key in a call that was answered."""
    resource, key = resource_key
    owned = model.OwnedKey(run_id, resource, key, before, tuple(written.split(",")))
    with ledger.journal(run_id).step() as step:
        step.keys_answered(step.touching([owned]))


def change_was_not_answered(ledger: Ledger, run_id: str, keys: Collection[OwnedKey]) -> None:
    """Let a process of a run die in a call that sets keys: it may have been applied, or be.

    Keys that were restored stay so.
    """
    wanted = {key.resource_key for key in keys}
    known = [key for key in ledger.journal(run_id).owned_keys() if key.resource_key in wanted]
    with ledger.journal(run_id).step() as step:
        step.touching(known)
        step.keys_done(key for key in known if key.done_at is not None)


def submit_was_not_answered(
    ledger: Ledger, run_id: str, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> None:
    """Let a run reassign partitions in a call that nobody answered: it may have been applied, or
    be.
    """
    with ledger.journal(run_id).step() as step:
        step.submitting(targets.items())


def record_as_arrived(ledger: Ledger, run_id: str, moves: Iterable[Move], at: datetime) -> None:
    """Let a run have submitted all of these, and have seen each arrive."""
    rows = [
        {
            "run_id": run_id,
            "topic": move.topic,
            "partition": move.partition,
            "target": ",".join(map(str, move.replicas_after)),
            "sent_at": at,
            "answered_at": at,
        }
        for move in moves
    ]
    with ledger._engine.begin() as connection:
        connection.execute(metadata.tables["submitted"].insert(), rows)


def count_as_open(ledger: Ledger) -> dict[str, int]:
    """Let what was submitted of two partitions count as open, and the keys of broker 4 as not
    restored; return how many rows of each table are open now.
    """
    open_rows = _write(ledger, "UPDATE submitted SET done_at = NULL WHERE partition IN (0, 1)")
    not_restored = _write(ledger, "UPDATE owned_keys SET done_at = NULL WHERE resource_name = '4'")
    assert open_rows and not_restored
    return {"submitted": open_rows, "owned_keys": not_restored}


def forge_rate(path: Path, rate_bytes_per_second: int) -> None:
    """Let somebody with write access to the file of a ledger ask for a rate."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            'INSERT INTO requests (cluster, run_id, control, "by", why, at, rate_bytes_per_second) '
            "SELECT cluster, run_id, 'rate', 'alice', 'x', (SELECT max(at) FROM approvals), ? "
            "FROM runs",
            (rate_bytes_per_second,),
        )


def rename_table(path: Path, old: str, new: str) -> None:
    """Take a table of a ledger's file away, or bring it back."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"ALTER TABLE {old} RENAME TO {new}")


def take_the_ledger_away(path: Path) -> None:
    rename_table(path, "runs", "away")


def bring_the_ledger_back(path: Path) -> None:
    rename_table(path, "away", "runs")


def _write(ledger: Ledger, text: str, **values: object) -> int:
    with ledger._engine.begin() as connection:
        return connection.execute(sa.text(text), values).rowcount


# -- the step lock, and the database's clock


def let_step_locks_run_out(ledger: Ledger) -> None:
    """Free every step lock, as if its 30 s had passed: they go by the database's own clock."""
    with ledger._transactions.writing() as connection:
        connection.execute(sa.text(_FREE_STEP_LOCKS))


def let_step_locks_of_a_file_run_out(path: Path) -> None:
    """The same, where another process has the ledger open."""
    with closing(sqlite3.connect(path, timeout=30)) as database, database:
        database.execute(_FREE_STEP_LOCKS)


_FREE_STEP_LOCKS: Final = "UPDATE step_locks SET until = 0"


def content_of(ledger: Ledger) -> bytes:
    """Return all that a ledger in a file has committed, as a file."""
    with (
        closing(sqlite3.connect(str(ledger._engine.url.database))) as written,
        closing(sqlite3.connect(":memory:")) as copied,
    ):
        written.backup(copied)
        return copied.serialize()


def do_not_wait_for_the_disk(ledger: Ledger) -> None:
    @sa.event.listens_for(ledger._engine, "connect")
    def _hurry(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    ledger._engine.dispose()


@contextmanager
def held_step(ledger: Ledger, run_id: str) -> Iterator[None]:
    """Let another process work on a run meanwhile."""
    with ledger.journal(run_id).step():
        yield


def set_database_clock(engine: sa.Engine, seconds: Callable[[], float]) -> None:
    """Let a ledger in SQLite tell the time, in seconds since 1970, as the test does."""
    engine.dispose()  # connections that have the clock of the machine

    @sa.event.listens_for(engine, "connect")
    def _replace_the_clock(connection: Any, _record: Any) -> None:
        connection.create_function("strftime", 2, lambda *_: str(int(seconds())))


def tell_time(ledger: Ledger, clock: Callable[[], datetime]) -> None:
    """Let a ledger that is open go by another clock."""
    ledger._transactions.clock = clock


def let_two_hours_pass(monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the databases of ledgers that commands open be two hours ahead; return a time between."""
    let_time_pass(monkeypatch, timedelta(hours=2))
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def let_time_pass(monkeypatch: pytest.MonkeyPatch, passed: timedelta) -> None:
    """Let the databases of ledgers that commands open be ahead."""
    told = database.database_time
    later = passed.total_seconds()
    monkeypatch.setattr(database, "database_time", lambda by: told(by) + later)


# -- where a process can be stopped


def is_in_a_transaction(step: Any) -> bool:
    """Return whether what a step writes now belongs to a transaction that began before."""
    return step.lock.connection is not None


def before_taking_the_step(patch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Let something happen right before a process of a run takes the step."""
    _before(patch, Journal, "step", action)


def _before(patch: pytest.MonkeyPatch, kind: type, name: str, action: Callable[[], None]) -> None:
    method = getattr(kind, name)

    def stopped(*args: Any, **more: Any) -> Any:
        action()
        return method(*args, **more)

    patch.setattr(kind, name, stopped)
