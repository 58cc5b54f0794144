"""A step of a run: the only way to write what a run intends, was answered and has observed.

    with ledger.step(cluster, run_id) as step:        # nobody else works on this cluster meanwhile
        before = step.submitting(targets.items())     # the intent, written before the call
        admin.alter_reassignments(targets, deadline=step.deadline)
        step.answered(before)

Each method, or all of them inside `step.together()`, is one transaction, and in it the step is
still ours, or nothing is written: a copy of the run that was frozen and wakes late gets
RunConflictError. The lock is short and goes by the database's clock, since no process can vouch for
the clock of another one.

Limits: a process that freezes in the moment between its last check of `deadline` and the call may
still make that call when it wakes. Its intent has no answer then: for a day it counts as ours.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from counterpoise.ledger.owned import (
    UnansweredKeys,
    record_answers,
    record_done,
    record_last_rates,
    record_touch,
)
from counterpoise.ledger.run_states import add_event, add_request, set_state
from counterpoise.ledger.schema import (
    elections,
    pulses,
    requests,
)
from counterpoise.ledger.statements import RUN, UPDATE_OF_PROGRESS
from counterpoise.ledger.step_lock import StepLock
from counterpoise.ledger.submitted import (
    Replicas,
    Unanswered,
    open_rows,
    record_answer,
    record_intent,
    record_over,
    take_over,
)
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control, ControlRequest, emptied_by
from counterpoise.model.kafka import ConfigResource
from counterpoise.model.run import (
    ENDED_STATES,
    OwnedKey,
    RunState,
    Submitted,
)
from counterpoise.model.run_progress import RunProgress

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

        With the end of a run every cancel of it is done, and no other execution begins with one,
        or with attempts to elect. Raises RunConflictError when its present state does not lead
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
            if to is RunState.RUNNING:
                is_of_run = elections.c.run_id == self.run_id
                connection.execute(elections.update().where(is_of_run).values(attempts=0))

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

    def electing(self, partitions: Iterable[TopicPartition]) -> None:
        """Count an attempt to elect the preferred leader of each."""
        with self._writing() as connection:
            for tp in partitions:
                key = {"run_id": self.run_id, "topic": tp.topic, "partition": tp.partition}
                where = [elections.c[name] == value for name, value in key.items()]
                update = elections.update().where(*where).values(attempts=elections.c.attempts + 1)
                if not connection.execute(update).rowcount:
                    connection.execute(elections.insert().values(**key, attempts=1))
