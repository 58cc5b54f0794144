"""A step of a run: the only way to write what a run intends, was answered and has observed.

    with ledger.step(cluster, run_id) as step:        # nobody else works on this cluster meanwhile
        before = step.submitting(targets.items())     # the intent, written before the call
        admin.alter_reassignments(targets, deadline=step.deadline)
        step.answered(before)

Each method, or all of them inside `step.together()`, is one transaction, and in it the step is
still ours, or nothing is written: a copy of the run that was frozen and wakes late gets
RunConflictError. The lock is a row for each cluster that holds for 30 s by the database's clock,
since no process can vouch for the clock of another one.

Limits: a process that freezes in the moment between its last check of `deadline` and the call may
still make that call when it wakes. Its intent has no answer then: for a day it counts as ours.
"""

import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from counterpoise.errors import RunConflictError, StepExpiredError, StepLockHeldError
from counterpoise.ledger.database import database_seconds
from counterpoise.ledger.rows import (
    RUN,
    UPDATE_OF_PROGRESS,
    Replicas,
    Unanswered,
    UnansweredKeys,
    add_event,
    add_request,
    open_rows,
    record_answer,
    record_answers,
    record_done,
    record_intent,
    record_last_rates,
    record_over,
    record_touch,
    set_state,
    take_over,
)
from counterpoise.ledger.schema import (
    pulses,
    requests,
    step_locks,
)
from counterpoise.ledger.transactions import Transactions, insert_if_missing
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control, ControlRequest, emptied_by
from counterpoise.model.kafka import ConfigResource
from counterpoise.model.run import (
    ENDED_STATES,
    STEP_LOCK_SECONDS,
    OwnedKey,
    RunState,
    Submitted,
)
from counterpoise.model.run_progress import RunProgress

# A call of ours has ended this long before the lock can go to somebody else.
_SPARE_SECONDS: Final = 1.0

# Each step executes these several times. To build a statement takes longer than to execute it.
_CLUSTER: Final = sa.bindparam("this_cluster", type_=sa.Text)
_HOLDER: Final = sa.bindparam("this_holder", type_=sa.Text)
_NOW: Final = sa.bindparam("now", type_=sa.BigInteger)
_UNTIL: Final = sa.bindparam("new_until", type_=sa.BigInteger)
_OURS: Final = (step_locks.c.cluster == _CLUSTER, step_locks.c.holder == _HOLDER)
_KNOWN: Final = sa.select(step_locks.c.cluster).where(step_locks.c.cluster == _CLUSTER)


_TAKE: Final = (
    step_locks.update()
    .where(step_locks.c.cluster == _CLUSTER, step_locks.c.until <= _NOW)
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
        if until <= database_seconds(connection):
            raise StepExpiredError(
                f"{self._subject}: this process was stopped for more than {STEP_LOCK_SECONDS} s"
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


# -- what is written while it is held


_WITHOUT_CANCELS = ENDED_STATES | {RunState.RUNNING}


@contextmanager
def held_step(transactions: Transactions, cluster: str, run_id: str | None) -> Iterator["Step"]:
    """Yield a step. Raises StepLockHeldError when another process is at work on the cluster."""
    lock = StepLock(transactions, cluster, run_id, uuid.uuid4().hex)
    lock.take()
    try:
        yield Step(lock, run_id or "")
    finally:
        lock.release()


@dataclass(frozen=True)
class Step:
    """What may be written of a run while its step is ours."""

    lock: StepLock
    run_id: str

    @property
    def deadline(self) -> float:
        """Return until when (`time.monotonic()`) calls that change the cluster must have ended."""
        return self.lock.deadline

    def now(self) -> datetime:
        """Return the time by the database's clock, in the transaction that is open."""
        return self.lock.transactions.now(self.lock.connection)

    def of_run(self, run_id: str) -> "Step":
        """Return the same step for another run of the cluster."""
        return replace(self, run_id=run_id)

    def check(self) -> None:
        """Raise RunConflictError when another copy has taken over."""
        with self._writing():
            pass

    @contextmanager
    def together(self, *, is_current: bool = False) -> Iterator[None]:
        """Make one transaction of all that is written inside.

        With `is_current`, raise StepExpiredError where the lock has run out since the last write,
        although nobody else took it: what was read before may be old.
        """
        with self._writing(is_current=is_current):
            yield

    @contextmanager
    def _writing(self, *, is_current: bool = False) -> Iterator[sa.Connection]:
        lock = self.lock
        if lock.connection is not None:
            yield lock.connection
            return
        with lock.transactions.for_cluster(lock.cluster) as lock.connection:
            try:
                if is_current:
                    lock.check_current(lock.connection)
                lock.extend(lock.connection)
                yield lock.connection
            finally:
                lock.connection = None

    # -- the run

    def change_state(
        self, to: RunState, reason: str = "", *, done: ControlRequest | None = None
    ) -> None:
        """Change the run's state, and mark the request that wanted it as done.

        With the end of a run every cancel of it is done, and no other execution begins with one.
        Raises RunConflictError when its present state does not lead
        there, or another run is open.
        """
        with self._writing() as connection:
            now = self.now()
            set_state(connection, self.run_id, to, reason, now)
            is_done = sa.false() if done is None else requests.c.id == done.request_id
            if to in _WITHOUT_CANCELS:
                is_open = (requests.c.run_id == self.run_id) & requests.c.obeyed_at.is_(None)
                is_done |= is_open & requests.c.control.in_((Control.CANCEL, Control.UNDO))
            connection.execute(requests.update().where(is_done).values(obeyed_at=now))

    def keep_empty(self, emptied: Iterable[int], refilled: Iterable[int]) -> None:
        """Record which brokers the run has emptied, for whoever requested it, and release those
        that it has filled again.
        """
        with self._writing() as connection:
            row = connection.execute(RUN, {"this_run": self.run_id}).one()
            controls = [
                *(
                    (broker_id, Control.KEEP_EMPTY, emptied_by(self.run_id))
                    for broker_id in emptied
                ),
                *(
                    (broker_id, Control.RELEASE, f"run {self.run_id} filled it")
                    for broker_id in refilled
                ),
            ]
            for broker_id, control, why in controls:
                request = ControlRequest(
                    cluster=row.cluster,
                    run_id=None,
                    control=control,
                    by=row.requested_by,
                    why=why,
                    at=self.now(),
                    broker_id=broker_id,
                )
                add_request(connection, request)

    def event(self, kind: str, text: str) -> None:
        with self._writing() as connection:
            add_event(connection, self.run_id, kind, text, self.now())

    def update_progress(self, run_progress: RunProgress) -> None:
        values: dict[str, object] = {"body": run_progress.to_json()}
        with self._writing() as connection:
            values["at"] = self.lock.extended_at
            of_run = {f"new_{name}": value for name, value in values.items()}
            of_run["this_run"] = self.run_id
            if not connection.execute(UPDATE_OF_PROGRESS, of_run).rowcount:
                connection.execute(pulses.insert().values(run_id=self.run_id, **values))

    # -- config keys

    def touching(self, keys: Iterable[OwnedKey]) -> UnansweredKeys:
        """Record the intent to set keys, as they are owned then; return what `keys_answered` needs.

        Until then, the change may be applied at any time. An earlier call that nobody answered
        stays on record: an answer to a later one says nothing about it.
        """
        with self._writing() as connection:
            return record_touch(connection, self.run_id, keys, self.now())

    def keys_answered(
        self, before: UnansweredKeys, *, except_for: Collection[ConfigResource] = ()
    ) -> None:
        """Record the answer to a call that sets keys, except for some resources."""
        with self._writing() as connection:
            record_answers(connection, before, except_for)

    def rates_shown(self, keys: Iterable[OwnedKey]) -> None:
        """Record that brokers show the rates that were set last: earlier ones are not the run's."""
        with self._writing() as connection:
            record_last_rates(connection, keys)

    def keys_done(self, keys: Iterable[OwnedKey]) -> None:
        """Record that nothing of their runs is in these keys any more."""
        with self._writing() as connection:
            record_done(connection, keys, self.now())

    # -- moves

    def submitting(self, targets: Iterable[tuple[TopicPartition, Replicas]]) -> Unanswered:
        """Record the intent to reassign to these targets; return what `answered` needs."""
        with self._writing() as connection:
            cluster, now = self.lock.cluster, self.now()
            return record_intent(connection, cluster, self.run_id, targets, now)

    def answered(self, before: Unanswered, refused: Iterable[TopicPartition] = ()) -> None:
        """Record the answer to a call; `before` is what its intent returned."""
        with self._writing() as connection:
            record_answer(connection, self.run_id, before, refused, self.now())

    def owning(self, targets: Iterable[tuple[TopicPartition, Replicas]]) -> None:
        """Record that what goes to these targets is the run's."""
        with self._writing() as connection:
            open_rows(connection, self.run_id, targets, self.now())

    def over(self, rows: Iterable[Submitted]) -> None:
        """Record that nothing of these rows is, or may come, under way."""
        with self._writing() as connection:
            record_over(connection, rows, self.now())

    def taking_over(self, rows: Iterable[Submitted]) -> None:
        """Record that what ended runs submitted is this run's now."""
        with self._writing() as connection:
            take_over(connection, self.run_id, rows, self.now())
