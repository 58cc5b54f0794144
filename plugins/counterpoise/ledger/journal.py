"""The journal of one run: what was intended, what was answered, what was observed.

    with journal.step_lock() as lock:            # nobody else works on this run meanwhile
        journal.submitting(partitions)           # the intent, written before the call
        lock.check()                             # right before each call that changes the cluster
        ...
        journal.answered(partitions)

The step lock is short and goes by the database's own clock, since no process can vouch for the
clock of another one: a copy that was frozen and wakes late has lost its lock, and its next `check`
raises RunConflictError.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

import sqlalchemy as sa

from counterpoise.errors import RunConflictError, StepLockHeldError
from counterpoise.ledger.schema import elections, events, moves, pulses, runs, touched_keys
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.run import STEP_LOCK_SECONDS, Event, Submission, TouchedKey
from counterpoise.model.run_progress import RunProgress


class StepLock:
    """A held step lock."""

    def __init__(
        self,
        run_id: str,
        holder: str,
        writing: Callable[[], AbstractContextManager[sa.Connection]],
    ) -> None:
        self._run_id, self._holder, self._writing = run_id, holder, writing

    def check(self) -> None:
        """Extend the lock. Raises RunConflictError when another copy has taken over."""
        with self._writing() as connection:
            now = database_seconds(connection)
            held = connection.execute(
                runs.update()
                .where(runs.c.run_id == self._run_id, runs.c.step_holder == self._holder)
                .values(step_until=now + STEP_LOCK_SECONDS)
            ).rowcount
        if not held:
            raise RunConflictError(
                f"run {self._run_id}: another copy of this task has taken over; this one stops"
            )

    def release(self) -> None:
        with self._writing() as connection:
            connection.execute(
                runs.update()
                .where(runs.c.run_id == self._run_id, runs.c.step_holder == self._holder)
                .values(step_until=0, step_holder=None)
            )


def database_seconds(connection: sa.Connection) -> int:
    """Return the seconds since 1970 by the database's clock."""
    if connection.dialect.name == "sqlite":
        return int(connection.execute(sa.text("SELECT strftime('%s', 'now')")).scalar_one())
    return int(
        connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
    )


class Journal:
    def __init__(
        self,
        run_id: str,
        transactions: Transactions,
        clock: Callable[[], datetime],
    ) -> None:
        self.run_id = run_id
        self._transactions = transactions
        self._clock = clock

    @contextmanager
    def step_lock(self) -> Iterator[StepLock]:
        """Hold the step lock. Raises StepLockHeldError when another copy holds it."""
        holder = uuid.uuid4().hex
        with self._transactions.writing() as connection:
            now = database_seconds(connection)
            taken = connection.execute(
                runs.update()
                .where(runs.c.run_id == self.run_id, runs.c.step_until <= now)
                .values(step_holder=holder, step_until=now + STEP_LOCK_SECONDS)
            ).rowcount
        if not taken:
            raise StepLockHeldError(
                f"run {self.run_id}: another process is at work on it; if that one died, try again "
                f"in {STEP_LOCK_SECONDS} s"
            )
        lock = StepLock(self.run_id, holder, self._transactions.writing)
        try:
            yield lock
        finally:
            lock.release()

    def touching(self, keys: Iterable[TouchedKey]) -> None:
        """Record the intent to change keys, with their earlier values.

        While a key is ours its first earlier value stays, and new entries, or another rate, are
        added to what is ours. A key that was restored since (the run halted and was started again)
        begins anew, and so does that of a topic made again under the same name.
        """
        with self._transactions.writing() as connection:
            known = {(t.resource, t.key): t for t in self._touched(connection)}
            for touched in keys:
                earlier = known.get((touched.resource, touched.key))
                if earlier is None:
                    connection.execute(
                        touched_keys.insert().values(**self._key(touched), **self._intent(touched))
                    )
                elif earlier.restored_at is not None or earlier.topic_id != touched.topic_id:
                    anew = {"during_value": None, "after_value": None, "restored_at": None}
                    self._update_key(connection, touched, **anew, **self._intent(touched))
                else:
                    self._update_key(
                        connection,
                        touched,
                        ours=_joined(earlier.written_value, touched.written_value),
                        during_value=None,
                    )

    def touched(self) -> tuple[TouchedKey, ...]:
        with self._transactions.reading() as connection:
            return self._touched(connection)

    def sending(self, keys: Iterable[TouchedKey]) -> str:
        """Record that a change of these keys is sent now; return the name of the call.

        Until `answer_received`, the change may be applied at any time. An earlier call that nobody
        answered stays on record: an answer to a later one says nothing about it.
        """
        call = uuid.uuid4().hex
        with self._transactions.writing() as connection:
            for touched in keys:
                values = {"unanswered_call": sa.func.coalesce(touched_keys.c.unanswered_call, call)}
                self._update_key(connection, touched, **values)
        return call

    def answer_received(self, call: str, *, except_for: Iterable[ConfigResource] = ()) -> None:
        """Record that a call was answered, except for some resources."""
        key = touched_keys.c
        unanswered = [
            sa.and_(key.resource_type == str(r.type), key.resource_name == r.name)
            for r in except_for
        ]
        was_answered = sa.not_(sa.or_(sa.false(), *unanswered))
        is_of_call = (key.run_id == self.run_id, key.unanswered_call == call)
        with self._transactions.writing() as connection:
            connection.execute(
                touched_keys.update().where(*is_of_call, was_answered).values(unanswered_call=None)
            )

    def taken_back(self, keys: Iterable[tuple[TouchedKey, str]]) -> None:
        """Record which entries of a list are no longer ours: a change that removes them was
        answered.
        """
        with self._transactions.writing() as connection:
            for touched, removed in keys:
                where = [touched_keys.c[name] == v for name, v in self._key(touched).items()]
                earlier = connection.scalar(sa.select(touched_keys.c.ours).where(*where))
                ours = _without(earlier or "", removed)
                self._update_key(connection, touched, ours=ours)

    def clear_unanswered_calls(self, keys: Iterable[TouchedKey]) -> None:
        """Record that every change that was sent of these keys was applied, or never will be."""
        with self._transactions.writing() as connection:
            for touched in keys:
                self._update_key(connection, touched, unanswered_call=None)

    def read_back(self, keys: Sequence[tuple[TouchedKey, str | None]]) -> None:
        """Record what the cluster reports after the change."""
        with self._transactions.writing() as connection:
            for touched, value in keys:
                self._update_key(connection, touched, during_value=value)

    def restored(self, touched: TouchedKey, after_value: str | None, outcome: str) -> None:
        with self._transactions.writing() as connection:
            self._update_key(
                connection,
                touched,
                after_value=after_value,
                restored_at=self._clock(),
                outcome=outcome,
            )

    def restore_later(self, touched: TouchedKey, outcome: str) -> None:
        """Record why a key cannot be restored now; its restore stays pending."""
        with self._transactions.writing() as connection:
            self._update_key(connection, touched, outcome=outcome)

    def submitting(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the intent to move; until `answered`, the outcome of the call is not known."""
        now = self._clock()
        with self._transactions.writing() as connection:
            for tp in partitions:
                where = self._move(tp)
                changed = connection.execute(
                    moves.update()
                    .where(*where)
                    .values(submitted_at=now, answered_at=None, asked_broker_id=None)
                ).rowcount
                if not changed:
                    connection.execute(
                        moves.insert().values(
                            run_id=self.run_id,
                            topic=tp.topic,
                            partition=tp.partition,
                            submitted_at=now,
                        )
                    )

    def answered(self, partitions: Iterable[TopicPartition]) -> None:
        self._mark_moves(partitions, {"answered_at": self._clock()})

    def unanswered(self, partitions: Iterable[TopicPartition], asked_broker_id: int | None) -> None:
        """Record which broker was sent the call, and may still apply it."""
        self._mark_moves(partitions, {"asked_broker_id": asked_broker_id})

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        now = self._clock()
        self._mark_moves(
            partitions, {"done_at": now, "answered_at": sa.func.coalesce(moves.c.answered_at, now)}
        )

    def submissions(self) -> dict[TopicPartition, Submission]:
        query = sa.select(moves).where(moves.c.run_id == self.run_id)
        with self._transactions.reading() as connection:
            rows = [
                Submission(
                    TopicPartition(r.topic, r.partition),
                    r.submitted_at,
                    r.answered_at,
                    r.done_at,
                    r.asked_broker_id,
                )
                for r in connection.execute(query)
            ]
        return {row.topic_partition: row for row in rows}

    def electing(self, partitions: Iterable[TopicPartition]) -> None:
        """Count an attempt to elect the preferred leader of each."""
        with self._transactions.writing() as connection:
            for tp in partitions:
                where = (
                    elections.c.run_id == self.run_id,
                    elections.c.topic == tp.topic,
                    elections.c.partition == tp.partition,
                )
                update = elections.update().where(*where).values(attempts=elections.c.attempts + 1)
                if not connection.execute(update).rowcount:
                    connection.execute(
                        elections.insert().values(
                            run_id=self.run_id, topic=tp.topic, partition=tp.partition, attempts=1
                        )
                    )

    def election_attempts(self) -> dict[TopicPartition, int]:
        query = sa.select(elections).where(elections.c.run_id == self.run_id)
        with self._transactions.reading() as connection:
            return {
                TopicPartition(r.topic, r.partition): r.attempts for r in connection.execute(query)
            }

    def run_progress(self) -> RunProgress | None:
        """Return the progress at the last observation; None before the first one."""
        query = sa.select(pulses.c.body).where(pulses.c.run_id == self.run_id)
        with self._transactions.reading() as connection:
            body = connection.scalar(query)
        return RunProgress.from_json(body) if body else None

    def update_progress(self, run_progress: RunProgress) -> None:
        values = {
            "at": run_progress.observed_at,
            "moves_in_flight": run_progress.progress.moves_in_flight,
            "body": run_progress.to_json(),
        }
        with self._transactions.writing() as connection:
            update = pulses.update().where(pulses.c.run_id == self.run_id).values(**values)
            if not connection.execute(update).rowcount:
                connection.execute(pulses.insert().values(run_id=self.run_id, **values))

    def event(self, kind: str, text: str) -> None:
        with self._transactions.chaining_run(self.run_id) as connection:
            connection.execute(
                events.insert().values(run_id=self.run_id, at=self._clock(), kind=kind, text=text)
            )

    def events(self) -> tuple[Event, ...]:
        query = sa.select(events).where(events.c.run_id == self.run_id).order_by(events.c.id)
        with self._transactions.reading() as connection:
            return tuple(Event(r.at, r.kind, r.text) for r in connection.execute(query))

    def _touched(self, connection: sa.Connection) -> tuple[TouchedKey, ...]:
        query = (
            sa.select(touched_keys)
            .where(touched_keys.c.run_id == self.run_id)
            .order_by(
                touched_keys.c.resource_type, touched_keys.c.resource_name, touched_keys.c.key
            )
        )
        return tuple(
            TouchedKey(
                resource=ConfigResource(ConfigResourceType(row.resource_type), row.resource_name),
                key=row.key,
                topic_id=row.topic_id,
                before_value=row.before_value,
                written_value=row.ours,
                during_value=row.during_value,
                after_value=row.after_value,
                restored_at=row.restored_at,
                outcome=row.outcome,
                has_unanswered_call=row.unanswered_call is not None,
            )
            for row in connection.execute(query)
        )

    def _key(self, touched: TouchedKey) -> dict[str, str]:
        return {
            "run_id": self.run_id,
            "resource_type": str(touched.resource.type),
            "resource_name": touched.resource.name,
            "key": touched.key,
        }

    def _intent(self, touched: TouchedKey) -> dict[str, object]:
        return {
            "topic_id": touched.topic_id,
            "before_value": touched.before_value,
            "ours": touched.written_value,
            "touched_at": self._clock(),
            "outcome": "",
        }

    def _update_key(self, connection: sa.Connection, touched: TouchedKey, **values: object) -> None:
        where = [touched_keys.c[name] == value for name, value in self._key(touched).items()]
        connection.execute(touched_keys.update().where(*where).values(**values))

    def _move(self, tp: TopicPartition) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            moves.c.run_id == self.run_id,
            moves.c.topic == tp.topic,
            moves.c.partition == tp.partition,
        )

    def _mark_moves(self, partitions: Iterable[TopicPartition], values: dict[str, object]) -> None:
        with self._transactions.writing() as connection:
            for tp in partitions:
                connection.execute(moves.update().where(*self._move(tp)).values(**values))


def _joined(earlier: str, added: str) -> str:
    return ",".join(
        dict.fromkeys(entry for entry in (*earlier.split(","), *added.split(",")) if entry)
    )


def _without(earlier: str, removed: str) -> str:
    return ",".join(entry for entry in earlier.split(",") if entry not in removed.split(","))
