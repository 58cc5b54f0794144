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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from counterpoise.ledger.run_states import add_event, add_request, set_state
from counterpoise.ledger.schema import (
    elections,
    pulses,
    requests,
    touched_keys,
)
from counterpoise.ledger.statements import RUN, UPDATE_OF_PROGRESS, named, update_of_a_key
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
from counterpoise.ledger.touched import (
    joined_entries,
    read_touched_keys,
    remaining_entries,
    value_to_go_back_to,
    values_touched_again,
)
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control, ControlRequest, emptied_by
from counterpoise.model.kafka import RATE_KEYS, ConfigResource
from counterpoise.model.run import (
    ENDED_STATES,
    TAKEN_BACK,
    RunState,
    Submitted,
    TouchedKey,
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

    def touching(self, keys: Iterable[TouchedKey]) -> None:
        """Record the intent to change keys, with their earlier values.

        The earlier value is what the key would have now without what is ours: what somebody else
        changed since it was ours is theirs. New entries, or another rate, are added to what is
        ours; an earlier rate stays ours until `read_back`. A key that was restored since (the run
        halted and was started again) begins anew, and so does that of a topic made again under the
        same name; what a call without an answer may still write stays ours.
        """
        with self._writing() as connection:
            known = {t.resource_key: t for t in read_touched_keys(connection, self.run_id)}
            now = self.now()
            new_rows = []
            for touched in keys:
                earlier = known.get(touched.resource_key)
                if earlier is None:
                    new_rows.append(self._key(touched) | self._intent(touched, now))
                    continue
                values = values_touched_again(earlier, self._intent(touched, now))
                self._update_keys(connection, [touched], **values)
            if new_rows:
                connection.execute(touched_keys.insert(), new_rows)

    def sending(self, keys: Iterable[TouchedKey]) -> str:
        """Record that a change of these keys is sent now; return the name of the call.

        Until `answer_received`, the change may be applied at any time. An earlier call that nobody
        answered stays on record: an answer to a later one says nothing about it.
        """
        call = uuid.uuid4().hex
        with self._writing() as connection:
            values = {"unanswered_call": sa.func.coalesce(touched_keys.c.unanswered_call, call)}
            self._update_keys(connection, keys, **values)
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
        with self._writing() as connection:
            connection.execute(
                touched_keys.update().where(*is_of_call, was_answered).values(unanswered_call=None)
            )

    def taken_back(self, keys: Iterable[tuple[TouchedKey, str]]) -> None:
        """Record which entries of a list are no longer ours: a change that removes them was
        answered.
        """
        with self._writing() as connection:
            known = {t.resource_key: t for t in read_touched_keys(connection, self.run_id)}
            for touched, removed in keys:
                ours = remaining_entries(known[touched.resource_key].written_value, removed)
                self._update_keys(connection, [touched], ours=ours)

    def clear_unanswered_calls(self, keys: Iterable[TouchedKey]) -> None:
        """Record that every change that was sent of these keys was applied, or never will be."""
        with self._writing() as connection:
            self._update_keys(connection, keys, unanswered_call=None)

    def read_back(self, keys: Sequence[tuple[TouchedKey, str | None]]) -> None:
        """Record what the cluster reports after the change.

        Where it is the rate that was set last, earlier ones are no longer ours (`earlier_rates`),
        unless a call that nobody answered may bring one back.
        """
        alone: list[dict[str, object]] = []
        with_ours: list[dict[str, object]] = []
        for touched, value in keys:
            row = named(self._key(touched)) | {"value": value}
            if touched.key in RATE_KEYS and not touched.has_unanswered_call:
                rates = joined_entries(touched.earlier_rates, touched.written_value)
                with_ours.append(row | {"earlier": rates})
            else:
                alone.append(row)
        read, earlier = (sa.bindparam(name, type_=sa.Text) for name in ("value", "earlier"))
        with self._writing() as connection:
            if alone:
                connection.execute(update_of_a_key(during_value=read), alone)
            if with_ours:
                update = update_of_a_key(during_value=read, ours=read, earlier_rates=earlier)
                connection.execute(update, with_ours)

    def restoring_answered(self, keys: Iterable[TouchedKey]) -> None:
        """Record that a change which takes back all that is ours in these keys was answered."""
        with self._writing() as connection:
            self._update_keys(connection, keys, outcome=TAKEN_BACK)

    def restored(self, touched: TouchedKey, after_value: str | None, outcome: str) -> None:
        with self._writing() as connection:
            restored_at = sa.func.coalesce(touched_keys.c.restored_at, self.now())
            values = {"after_value": after_value, "restored_at": restored_at, "outcome": outcome}
            self._update_keys(connection, [touched], **values)

    def restore_later(self, touched: TouchedKey, outcome: str) -> None:
        """Record why a key cannot be restored now; its restore stays pending."""
        with self._writing() as connection:
            self._update_keys(connection, [touched], outcome=outcome)

    def reopen_keys(self, keys: Iterable[TouchedKey]) -> None:
        """Record that keys which were restored have to be restored again, since a call came late.

        What somebody else had set since is their value of before.
        """
        values: dict[str, object] = {"before_value": value_to_go_back_to(), "outcome": ""}
        values |= dict.fromkeys(("restored_at", "after_value", "during_value"))
        with self._writing() as connection:
            self._update_keys(connection, keys, **values)

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

    # -- rows

    def _key(self, touched: TouchedKey) -> dict[str, object]:
        return {
            "run_id": self.run_id,
            "resource_type": str(touched.resource.type),
            "resource_name": touched.resource.name,
            "key": touched.key,
        }

    def _intent(self, touched: TouchedKey, now: datetime) -> dict[str, object]:
        return {
            "topic_id": touched.topic_id,
            "before_value": touched.before_value,
            "ours": touched.written_value,
            "touched_at": now,
            "outcome": "",
            "earlier_rates": None,
        }

    def _update_keys(
        self, connection: sa.Connection, keys: Iterable[TouchedKey], **values: object
    ) -> None:
        """Make the same change of many keys in one statement."""
        rows = [named(self._key(touched)) for touched in keys]
        if not rows:
            return
        connection.execute(update_of_a_key(**values), rows)
