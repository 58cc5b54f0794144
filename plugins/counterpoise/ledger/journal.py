"""The journal of one run: what was intended (written before the call), what was answered, what was
seen.

    with journal.step() as step:                 # nobody else looks at this run meanwhile
        step.check()                             # right before each call that changes the cluster
        journal.submitted(moves)

A step is a short lock by the database's own clock, since no process can vouch for another one's: a
copy that was frozen and wakes late finds its step taken over, and its next `check` raises
RunConflictError.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

import sqlalchemy as sa

from counterpoise.errors import RunConflictError, StepTakenError
from counterpoise.ledger.schema import elections, events, moves, pulses, runs, touched_keys
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.run import STEP_SECONDS, Event, Submission, TouchedKey
from counterpoise.model.run_progress import RunProgress


class Step:
    """A held step lock."""

    def __init__(
        self,
        run_id: str,
        holder: str,
        transaction: Callable[[], AbstractContextManager[sa.Connection]],
    ) -> None:
        self._run_id, self._holder, self._transaction = run_id, holder, transaction

    def check(self) -> None:
        """Extends the lock. Raises RunConflictError when another copy has taken over."""
        with self._transaction() as connection:
            now = database_seconds(connection)
            held = connection.execute(
                runs.update()
                .where(runs.c.run_id == self._run_id, runs.c.step_holder == self._holder)
                .values(step_until=now + STEP_SECONDS)
            ).rowcount
        if not held:
            raise RunConflictError(
                f"run {self._run_id}: another copy of this task has taken over; this one stops"
            )

    def release(self) -> None:
        with self._transaction() as connection:
            connection.execute(
                runs.update()
                .where(runs.c.run_id == self._run_id, runs.c.step_holder == self._holder)
                .values(step_until=0, step_holder=None)
            )


def database_seconds(connection: sa.Connection) -> int:
    """Seconds since 1970 by the database's clock."""
    if connection.dialect.name == "sqlite":
        return int(connection.execute(sa.text("SELECT strftime('%s', 'now')")).scalar_one())
    return int(
        connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
    )


class Journal:
    def __init__(
        self,
        run_id: str,
        transaction: Callable[[], AbstractContextManager[sa.Connection]],
        clock: Callable[[], datetime],
    ) -> None:
        self.run_id = run_id
        self._transaction = transaction
        self._clock = clock

    @contextmanager
    def step(self) -> Iterator[Step]:
        """Takes the step lock. Raises StepTakenError when another copy holds it."""
        holder = uuid.uuid4().hex
        with self._transaction() as connection:
            now = database_seconds(connection)
            taken = connection.execute(
                runs.update()
                .where(runs.c.run_id == self.run_id, runs.c.step_until <= now)
                .values(step_holder=holder, step_until=now + STEP_SECONDS)
            ).rowcount
        if not taken:
            raise StepTakenError(
                f"run {self.run_id}: another process is at work on it; if that one died, try again in {STEP_SECONDS} s"
            )
        step = Step(self.run_id, holder, self._transaction)
        try:
            yield step
        finally:
            step.release()

    def touching(self, keys: Iterable[TouchedKey]) -> None:
        """The intent to change keys, with their earlier values.

        While a key is ours its first earlier value stays, and new entries, or another rate, join
        what is known as ours; a key that was restored since (the run halted and was started again)
        begins anew.
        """
        with self._transaction() as connection:
            known = {(t.resource, t.key): t for t in self._touched(connection)}
            for touched in keys:
                earlier = known.get((touched.resource, touched.key))
                if earlier is None:
                    connection.execute(
                        touched_keys.insert().values(**self._key(touched), **self._intent(touched))
                    )
                elif earlier.restored_at is not None:
                    anew = {"during_value": None, "after_value": None, "restored_at": None}
                    self._update_key(connection, touched, **anew, **self._intent(touched))
                else:
                    self._update_key(
                        connection,
                        touched,
                        ours=_joined(earlier.ours, touched.ours),
                        during_value=None,
                    )

    def touched(self) -> tuple[TouchedKey, ...]:
        with self._transaction() as connection:
            return self._touched(connection)

    def sending(self, keys: Iterable[TouchedKey]) -> str:
        """A change of these keys is about to be sent; until `heard`, it may be applied at any time.
        The call's name.

        An earlier call that nobody answered stays on record: an answer to a later one says nothing
        about it.
        """
        call = uuid.uuid4().hex
        with self._transaction() as connection:
            for touched in keys:
                values = {"unanswered_call": sa.func.coalesce(touched_keys.c.unanswered_call, call)}
                self._update_key(connection, touched, **values)
        return call

    def heard(self, call: str, unless: Iterable[ConfigResource] = ()) -> None:
        """An answer came, but for some resources."""
        key = touched_keys.c
        silent = [
            sa.and_(key.resource_type == str(r.type), key.resource_name == r.name) for r in unless
        ]
        where = [key.run_id == self.run_id, key.unanswered_call == call]
        with self._transaction() as connection:
            connection.execute(
                touched_keys.update()
                .where(*where, sa.not_(sa.or_(sa.false(), *silent)))
                .values(unanswered_call=None)
            )

    def nothing_is_late(self, keys: Iterable[TouchedKey]) -> None:
        """Whoever was asked to change these keys has done so, or never will."""
        with self._transaction() as connection:
            for touched in keys:
                self._update_key(connection, touched, unanswered_call=None)

    def seen_during(self, keys: Sequence[tuple[TouchedKey, str | None]]) -> None:
        """What was read back from the cluster after the change."""
        with self._transaction() as connection:
            for touched, value in keys:
                self._update_key(connection, touched, during_value=value)

    def restored(self, touched: TouchedKey, after_value: str | None, outcome: str) -> None:
        with self._transaction() as connection:
            self._update_key(
                connection,
                touched,
                after_value=after_value,
                restored_at=self._clock(),
                outcome=outcome,
            )

    def owed(self, touched: TouchedKey, outcome: str) -> None:
        """A key that cannot be restored now; it stays a debt."""
        with self._transaction() as connection:
            self._update_key(connection, touched, outcome=outcome)

    def submitting(self, partitions: Iterable[TopicPartition]) -> None:
        """The intent to move; until `answered`, the outcome of the call is not known."""
        now = self._clock()
        with self._transaction() as connection:
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
        """Whom the call went to that may still be applied."""
        self._mark_moves(partitions, {"asked_broker_id": asked_broker_id})

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        now = self._clock()
        self._mark_moves(
            partitions, {"done_at": now, "answered_at": sa.func.coalesce(moves.c.answered_at, now)}
        )

    def submissions(self) -> dict[TopicPartition, Submission]:
        query = sa.select(moves).where(moves.c.run_id == self.run_id)
        with self._transaction() as connection:
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
        """Counts an attempt to elect the preferred leader of each."""
        with self._transaction() as connection:
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
        with self._transaction() as connection:
            return {
                TopicPartition(r.topic, r.partition): r.attempts for r in connection.execute(query)
            }

    def run_progress(self) -> RunProgress | None:
        """What the last look found; None before the first one."""
        query = sa.select(pulses.c.body).where(pulses.c.run_id == self.run_id)
        with self._transaction() as connection:
            body = connection.scalar(query)
        return RunProgress.from_json(body) if body else None

    def update_progress(self, run_progress: RunProgress) -> None:
        values = {
            "at": run_progress.at,
            "moves_in_flight": run_progress.progress.moves_in_flight,
            "body": run_progress.to_json(),
        }
        with self._transaction() as connection:
            update = pulses.update().where(pulses.c.run_id == self.run_id).values(**values)
            if not connection.execute(update).rowcount:
                connection.execute(pulses.insert().values(run_id=self.run_id, **values))

    def event(self, kind: str, text: str) -> None:
        with self._transaction() as connection:
            connection.execute(
                events.insert().values(run_id=self.run_id, at=self._clock(), kind=kind, text=text)
            )

    def events(self) -> tuple[Event, ...]:
        query = sa.select(events).where(events.c.run_id == self.run_id).order_by(events.c.id)
        with self._transaction() as connection:
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
                ours=row.ours,
                during_value=row.during_value,
                after_value=row.after_value,
                restored_at=row.restored_at,
                outcome=row.outcome,
                may_come_late=row.unanswered_call is not None,
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
            "ours": touched.ours,
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
        with self._transaction() as connection:
            for tp in partitions:
                connection.execute(moves.update().where(*self._move(tp)).values(**values))


def _joined(earlier: str, added: str) -> str:
    return ",".join(
        dict.fromkeys(entry for entry in (*earlier.split(","), *added.split(",")) if entry)
    )
