"""A run whose ledger fails at each transaction that writes, one after the other: every step is a
process of its own, which is tried again, as tasks are. The promises are checked at each change.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pytest
import sqlalchemy as sa

from counterpoise.errors import LedgerError, RefusedError
from counterpoise.installation import Installation
from counterpoise.services import requests
from tests.exploration.actors import OVER
from tests.exploration.ending import end_everything
from tests.exploration.points import ExploredTransactions
from tests.exploration.roles import Executor
from tests.exploration.scenarios import BOB, _begin, small_world
from tests.exploration.stage import Kept, Stage

AGAIN_SECONDS: Final = 2.0
HANGS_SECONDS: Final = 40.0  # longer than a step lock holds
CANCELLED_AFTER_SECONDS: Final = 1.3
NOTHING_COMMITTED: Final = "nothing is committed"
LATE_ERROR: Final = "it is committed, and an error comes much later"
NO_ANSWER: Final = "it is committed, and an error comes at once"


@dataclass
class Fault:
    """What happens at the n-th transaction that writes."""

    what: str
    at: int
    met: int = 0

    def is_now(self) -> bool:
        self.met += 1
        return self.met == self.at


class FaultyTransactions(ExploredTransactions):
    def __init__(self, stage: Stage, fault: Fault) -> None:
        super().__init__(stage, stage._engine, stage.clock)
        self._fault = fault

    @contextmanager
    def writing(self) -> Iterator[Any]:
        is_now, what = self._fault.is_now(), self._fault.what
        with self._translated():
            with super().writing() as connection:
                yield connection
                if is_now and what == NOTHING_COMMITTED:
                    lose_the_connection()
            if is_now:
                if what == LATE_ERROR:
                    self._stage.advance(HANGS_SECONDS)
                lose_the_connection()


def lose_the_connection() -> None:
    raise sa.exc.OperationalError("COMMIT", None, sqlite3.OperationalError("connection closed"))


def process_of(stage: Stage, fault: Fault) -> Installation:
    made = stage.installation()
    made.ledger._transactions = FaultyTransactions(stage, fault)
    return made


def complaints_of(
    stage: Stage, kept: Kept, executor: Executor, fault: Fault, *, is_cancelled: bool
) -> list[str]:
    """Carry a run out to its end, and return the promises that were broken."""
    stage.bring_back(kept)
    part: str = executor.first
    while part != OVER and not stage.history.complaints:
        if is_cancelled and stage.cluster.now > CANCELLED_AFTER_SECONDS:
            with suppress(RefusedError):  # it was not opened yet, or has ended
                requests.cancel(stage.installation(), executor.run_id, by=BOB, why="enough")
                is_cancelled = False
        try:
            part, wait_seconds = executor.act(part, process_of(stage, fault), stage)
        except LedgerError:
            wait_seconds = AGAIN_SECONDS
        stage.history.check(stage, None, set())
        stage.advance(wait_seconds)
    return stage.history.complaints or list(end_everything(stage))


@pytest.mark.parametrize(
    ("what", "is_cancelled"),
    [(NO_ANSWER, False), (NOTHING_COMMITTED, True), (LATE_ERROR, True)],
)
def test_a_fault_at_any_write_of_a_run_breaks_no_promise(what: str, is_cancelled: bool) -> None:
    with small_world() as stage:
        executor = _begin(stage)
        kept = stage.keep()
        broken, fault = {}, Fault(what, at=0)
        while fault.met >= fault.at:
            fault = Fault(what, fault.at + 1)
            if found := complaints_of(stage, kept, executor, fault, is_cancelled=is_cancelled):
                broken[fault.at] = found[0]
        assert not broken
        assert fault.at > 30
