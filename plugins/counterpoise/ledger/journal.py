"""The journal of one run: what was intended, what was answered, what was observed.

    journal.touched(), journal.submissions()     # anybody may read
    with journal.step() as step: ...             # who works on the run writes: `step.py`

Without a step, only what stays true whoever works on the run is written: what people answered
(`event`), and `note_late_call`.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.database_clock import database_seconds
from counterpoise.ledger.run_states import add_event
from counterpoise.ledger.schema import elections, events, late_calls, moves
from counterpoise.ledger.statements import NOT_OVER_IN_RUN, OBSERVED_AT, PROGRESS
from counterpoise.ledger.step import Step, held_step
from counterpoise.ledger.submissions import read_submission, record_submissions
from counterpoise.ledger.touched import read_pending_restores, read_touched_keys
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.approval import Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import Targets
from counterpoise.model.run import (
    Event,
    Execution,
    LateCall,
    RunState,
    Submission,
    TouchedKey,
)
from counterpoise.model.run_progress import RunProgress

NOTIFIED: Final = "notified"
NOT_NOTIFIED: Final = "not notified"
MAX_TRIES: Final = 12  # of one notification: an hour of the watch Dag


class Journal:
    def __init__(self, run_id: str, transactions: Transactions) -> None:
        self.run_id = run_id
        self._transactions = transactions

    def step(self) -> AbstractContextManager[Step]:
        """Hold the step of this run. Raises StepLockHeldError when another copy holds it."""
        cluster = self._transactions.cluster_of(self.run_id)
        return held_step(self._transactions, cluster, self.run_id)

    def touched(self) -> tuple[TouchedKey, ...]:
        """Return the config keys that the run has touched, by resource and key."""
        with self._transactions.reading() as connection:
            return read_touched_keys(connection, self.run_id)

    def pending_restores(self) -> tuple[TouchedKey, ...]:
        """Return the keys of the cluster's runs that are not restored, or that a call may still
        change; newest run first.
        """
        cluster = self._transactions.cluster_of(self.run_id)
        with self._transactions.reading() as connection:
            return read_pending_restores(connection, cluster)

    def submissions(self) -> dict[TopicPartition, Submission]:
        """Return what was submitted last of each partition."""
        query = sa.select(moves).where(moves.c.run_id == self.run_id)
        with self._transactions.reading() as connection:
            return self._submissions(connection, connection.execute(query))

    def submission_counts(self) -> tuple[int, int]:
        """Return of how many partitions something was submitted, and how many of these are done."""
        counts = (sa.func.count(), sa.func.count(moves.c.done_at))
        query = sa.select(*counts).where(moves.c.run_id == self.run_id)
        with self._transactions.reading() as connection:
            submitted, done = connection.execute(query).one()
        return submitted, done

    def unfinished_submissions(self) -> dict[TopicPartition, Submission]:
        """Return what was submitted last of each partition that was not observed to be done, or of
        which a call may still come.
        """
        of_run = {"this_run": self.run_id}
        with self._transactions.reading() as connection:
            return self._submissions(connection, connection.execute(NOT_OVER_IN_RUN, of_run))

    def finished(self) -> set[TopicPartition]:
        """Return the partitions whose moves were observed to be done."""
        query = sa.select(moves.c.topic, moves.c.partition).where(
            moves.c.run_id == self.run_id, moves.c.done_at.is_not(None)
        )
        with self._transactions.reading() as connection:
            return set(map(TopicPartition._make, connection.execute(query)))

    def election_attempts(self, at_least: int = 1) -> dict[TopicPartition, int]:
        """Return how often each leader was elected that was elected so often."""
        query = sa.select(elections).where(
            elections.c.run_id == self.run_id, elections.c.attempts >= at_least
        )
        with self._transactions.reading() as connection:
            return {
                TopicPartition(r.topic, r.partition): r.attempts for r in connection.execute(query)
            }

    def run_progress(self) -> RunProgress | None:
        """Return the progress at the last observation; None before the first one."""
        with self._transactions.reading() as connection:
            body = connection.scalar(PROGRESS, {"this_run": self.run_id})
        return None if body is None else RunProgress.from_json(body)

    def unobserved_for(self) -> timedelta:
        """Return how long ago the run was observed last, or opened where it never was.

        By the database's clock: those of the worker that drives a run and of the watch may differ.
        """
        with self._transactions.reading() as connection:
            observed_at = connection.scalar(OBSERVED_AT, {"this_run": self.run_id})
            now = datetime.fromtimestamp(database_seconds(connection), UTC)
        return now - observed_at if observed_at else timedelta(0)

    def event(self, kind: str, text: str) -> None:
        """Add what happened around the run; a step records what the run itself does."""
        with self._transactions.for_run(self.run_id) as connection:
            now = self._transactions.now(connection)
            add_event(connection, self.run_id, kind, text, now)

    def begin_notifying(self, subject: str) -> bool:
        """Record that people are notified of a subject, and return True.

        False, and no event, where they were, or another process notifies them now, or nobody was
        reached `MAX_TRIES` times.
        """
        with self._transactions.reading() as connection:
            if not self._is_news(connection, subject):
                return False
        with self._transactions.for_run(self.run_id) as connection:
            if not self._is_news(connection, subject):
                return False
            add_event(
                connection, self.run_id, NOTIFIED, subject, self._transactions.now(connection)
            )
            return True

    def nobody_was_reached(self, subject: str, why: str) -> None:
        """Record that a notification failed: the next task tries again."""
        self.event(NOT_NOTIFIED, f"{subject}: {why}")

    def _is_news(self, connection: sa.Connection, subject: str) -> bool:
        def count(kind: str, is_about: sa.ColumnElement[bool]) -> int:
            query = sa.select(sa.func.count()).select_from(events)
            of_run = (events.c.run_id == self.run_id, events.c.kind == kind, is_about)
            return connection.scalar(query.where(*of_run)) or 0

        tries = count(NOTIFIED, events.c.text == subject)
        failures = count(NOT_NOTIFIED, events.c.text.startswith(f"{subject}: ", autoescape=True))
        return failures == tries < MAX_TRIES

    def events(self) -> tuple[Event, ...]:
        query = sa.select(events).where(events.c.run_id == self.run_id).order_by(events.c.id)
        with self._transactions.reading() as connection:
            return tuple(Event(r.at, r.kind, r.text) for r in connection.execute(query))

    def newest_event_id(self, kind: str) -> int:
        """Return the id of the newest event of a kind; 0 where there is none."""
        query = sa.select(sa.func.max(events.c.id)).where(
            events.c.run_id == self.run_id, events.c.kind == kind
        )
        with self._transactions.reading() as connection:
            return connection.scalar(query) or 0

    def execution(self) -> Execution:
        """Return which execution of the run is the newest: one that begins now, if it has ended."""
        granted, running = Decision.GRANTED, RunState.RUNNING
        query = (
            sa.select(events.c.kind, sa.func.max(events.c.id).label("newest"))
            .where(events.c.run_id == self.run_id, events.c.kind.in_((granted, running)))
            .group_by(events.c.kind)
        )
        with self._transactions.reading() as connection:
            newest = {row.kind: row.newest for row in connection.execute(query)}
        return Execution(approval_id=newest.get(granted, 0), start_id=newest.get(running, 0))

    def note_late_call(self, call: str, targets: Targets | None = None) -> None:
        """Note a call that was made after the step had gone to another copy of the run.

        The row says nothing about what was there before, and changes no state: the run is settled
        once more because of it. Reassignments to `targets` are on record as sent now, so that what
        moves there passes for nobody else's; that of a cancel moves nothing.
        """
        moved = {tp: target for tp, target in (targets or {}).items() if target is not None}
        with self._transactions.writing() as connection:
            now = self._transactions.now(connection)
            row = {"run_id": self.run_id, "at": now, "call": call}
            connection.execute(late_calls.insert().values(**row))
            record_submissions(connection, self.run_id, moved, now)

    def late_calls(self) -> tuple[LateCall, ...]:
        """Return the late calls that the run was not settled for yet, oldest first."""
        query = (
            sa.select(late_calls)
            .where(late_calls.c.run_id == self.run_id, late_calls.c.settled_at.is_(None))
            .order_by(late_calls.c.id)
        )
        with self._transactions.reading() as connection:
            return tuple(LateCall(r.id, r.at, r.call) for r in connection.execute(query))

    def _submissions(
        self, connection: sa.Connection, rows: Iterable[sa.Row[Any]]
    ) -> dict[TopicPartition, Submission]:
        now = self._transactions.now(connection)
        submissions = (read_submission(row, now) for row in rows)
        return {submission.topic_partition: submission for submission in submissions}
