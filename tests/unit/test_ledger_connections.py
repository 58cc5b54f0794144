"""A run whose connection to Postgres is lost after each kind of its statements, and after each kind
of commit, whose answer then never comes. And many readers beside some writers, in SQLite and in
Postgres.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterpoise.errors import LedgerError
from counterpoise.ledger import Ledger
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.ledger_view import let_step_locks_run_out
from tests.support.postgres import Postgres
from tests.support.runs import SimulatedRun, own_configs, times_submitted

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLAN = RebalancePlan("demo", "id", "s1", Goal.LEADERS, (), "digest", (), (), LowerBound(0, 0, 0))
PICTURE = "\n".join(f"orders-{p}: 1 2 3 size=1000000" for p in range(2))
READERS, READ, WRITERS, WRITTEN = 50, 4, 4, 8


@dataclass
class Cut:
    """Ends the connection of a ledger after the first such statement, or commit of one; without
    a name it lists them.
    """

    postgres: Postgres
    engine: sa.Engine
    after: str = ""
    met: list[str] = field(default_factory=list)
    last_statement: str = ""
    is_done: bool = False

    def __post_init__(self) -> None:
        sa.event.listen(self.engine, "after_cursor_execute", self._after_statement)
        self._commit = self.engine.dialect.do_commit
        self.engine.dialect.do_commit = self._do_commit  # type: ignore[method-assign]

    def _after_statement(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self.last_statement = statement
        self._lost(statement, connection.connection.driver_connection)

    def _do_commit(self, pooled: Any) -> None:
        self._commit(pooled)
        connection = pooled.driver_connection
        if self._lost(f"commit of {self.last_statement}", connection):
            connection.execute("SELECT 1")  # as the answer to the commit: it never comes

    def _lost(self, what: str, connection: Any) -> bool:
        self.met.append(what)
        if self.is_done or what != self.after:
            return False
        self.is_done = True
        self.postgres.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")
        return True


def approved_run(folder: Path, postgres: Postgres) -> SimulatedRun:
    """A run that is approved, in Postgres."""
    run = SimulatedRun.make(folder, PICTURE, approve=False)
    run.ledger.close()
    run.ledger = Ledger.open(postgres.empty_ledger(), run.clock)
    run.run_id = run.ledger.propose(run.plan, "plans/x.json", requested_by="alice").run_id
    run.ledger.record_decision(run.approval())
    return run


def points_of_a_run(folder: Path, postgres: Postgres) -> list[str]:
    run = approved_run(folder, postgres)
    cut = Cut(postgres, run.ledger._engine)
    assert run.go() is RunState.DONE
    run.ledger.close()
    return list(dict.fromkeys(cut.met))


def test_a_run_outlives_the_loss_of_its_connection_at_each_statement(
    tmp_path: Path, postgres: Postgres
) -> None:
    """Each process that loses it ends with a sentence; the next one goes on to the same end."""
    points = points_of_a_run(tmp_path, postgres)
    assert len(points) > 40
    for point in points:
        run = approved_run(tmp_path, postgres)
        cut = Cut(postgres, run.ledger._engine, point)
        with pytest.raises(LedgerError, match="did not answer"):
            run.go()
        assert cut.is_done, point
        let_step_locks_run_out(run.ledger)
        assert run.run.state is RunState.DONE or run.go() is RunState.DONE, point
        assert run.placement() == run.planned_placement(), point
        assert own_configs(run.cluster) == {}, point
        assert set(times_submitted(run.cluster).values()) == {1}, point
        run.ledger.close()


def test_many_readers_beside_some_writers_see_whole_moments(ledger_url: str) -> None:
    with closing(Ledger.open(ledger_url, lambda: NOW)) as ledger:
        plans = [replace(PLAN, cluster=f"cluster-{number}") for number in range(WRITERS)]
        run_ids = [ledger.propose(plan, "p", requested_by="alice").run_id for plan in plans]
    failures: list[BaseException] = []

    def write(run_id: str) -> None:
        with closing(Ledger.open(ledger_url, lambda: NOW)) as ledger:
            for number in range(WRITTEN):
                ledger.journal(run_id).event("note", f"{number}")

    def read(run_id: str) -> None:
        with closing(Ledger.open(ledger_url, lambda: NOW)) as ledger:
            seen = 0
            for _ in range(READ):
                notes = [e.text for e in ledger.journal(run_id).events() if e.kind == "note"]
                assert notes == [str(number) for number in range(len(notes))]
                assert len(notes) >= seen
                assert ledger.run(run_id).state is RunState.PROPOSED
                seen = len(notes)

    def noting(act: Callable[[str], None], run_id: str) -> None:
        try:
            act(run_id)
        except BaseException as error:  # noqa: BLE001 - told by the test itself
            failures.append(error)

    threads = [
        threading.Thread(target=noting, args=(read, run_ids[number % WRITERS]), daemon=True)
        for number in range(READERS)
    ] + [threading.Thread(target=noting, args=(write, run_id)) for run_id in run_ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    with closing(Ledger.open(ledger_url, lambda: NOW)) as ledger:
        written = [len(ledger.journal(run_id).events()) for run_id in run_ids]
    assert min(written) > WRITTEN  # the plan, too, is an event
