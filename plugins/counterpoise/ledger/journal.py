"""The journal of one run: what was intended, what was answered, what was observed.

    journal.owned_keys(), journal.submitted()       # anybody may read
    with journal.step() as step: ...             # who works on the run writes: `step.py`

Without a step, only what stays true whoever works on the run is written: what people answered
(`event`).
"""

from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from counterpoise.ledger.database_clock import database_seconds
from counterpoise.ledger.owned import read_owned_keys
from counterpoise.ledger.run_states import add_event
from counterpoise.ledger.schema import elections, events, submitted
from counterpoise.ledger.statements import OBSERVED_AT, PROGRESS
from counterpoise.ledger.step import Step, held_step
from counterpoise.ledger.submitted import read_submitted
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.approval import Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.run import (
    Event,
    Execution,
    OwnedKey,
    RunState,
    Submitted,
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

    def owned_keys(self) -> list[OwnedKey]:
        """Return the config keys that the run has set, by resource and key."""
        with self._transactions.reading() as connection:
            now = self._transactions.now(connection)
            return read_owned_keys(connection, self.run_id, now)

    def submitted(self, *, only_open: bool = False) -> list[Submitted]:
        """Return what the run has submitted; only where something of it may be under way."""
        with self._transactions.reading() as connection:
            now = self._transactions.now(connection)
            return read_submitted(connection, self.run_id, now, only_open=only_open)

    def count_submitted(self) -> int:
        """Return of how many partitions the run has submitted something."""
        partitions = sa.select(submitted.c.topic, submitted.c.partition).distinct()
        of_run = partitions.where(submitted.c.run_id == self.run_id).subquery()
        with self._transactions.reading() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(of_run)) or 0

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
