"""`counterpoise ledger`: what an operator types to migrate a ledger and to delete its old rows, in
SQLite and in Postgres.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from counterpoise.ledger import Ledger
from counterpoise.ledger.schema import approvals, events, requests
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.command_line import CommandLine
from tests.support.ledger_view import change_state
from tests.support.postgres import Postgres

EARLY = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PLAN = RebalancePlan("demo", "id", "s1", Goal.LEADERS, (), "digest", (), (), LowerBound(0, 0, 0))
TABLES = {table.name: table for table in (approvals, events, requests)}


# -- the commands


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], ledger_url: str) -> CommandLine:
    line = CommandLine.in_folder(tmp_path, capsys)
    line.environment["COUNTERPOISE_LEDGER"] = ledger_url
    return line


@pytest.fixture
def shell_without_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_database_url: str
) -> CommandLine:
    line = CommandLine.in_folder(tmp_path, capsys)
    line.environment["COUNTERPOISE_LEDGER"] = empty_database_url
    return line


Write = Callable[..., None]


@pytest.fixture
def write(shell: CommandLine) -> Write:
    """Write a run that is rejected at once, and some notes: 2 rows and the notes."""

    def write_some(*notes: str, at: datetime = EARLY, ended: datetime | None = None) -> None:
        plan, url = replace(PLAN, snapshot_id=f"{at}"), shell.environment["COUNTERPOISE_LEDGER"]
        with closing(Ledger.open(url, lambda: at)) as ledger:
            run = ledger.propose(plan, "p", requested_by="airflow:alice")
            for note in notes:
                ledger.journal(run.run_id).event("note", note)
        with closing(Ledger.open(url, lambda: ended or at)) as ledger:
            change_state(ledger, run.run_id, RunState.REJECTED, "no")

    return write_some


def test_old_rows_are_deleted_and_counted(shell: CommandLine, write: Write) -> None:
    write("one")
    write("two", at=datetime(2026, 3, 1, tzinfo=UTC))
    typed = shell.type("ledger", "prune", "--cluster", "demo", "--before", "2026-02-01")
    assert typed.code == 0, typed.err
    assert "deleted 3 rows of cluster demo from before 2026-02-01" in typed.out
    with closing(Ledger.open(shell.environment["COUNTERPOISE_LEDGER"], lambda: EARLY)) as ledger:
        newest, oldest = (ledger.journal(run.run_id).events() for run in ledger.runs())
    assert (len(newest), len(oldest)) == (3, 0)
    words = ("ledger", "prune", "--cluster", "demo", "--before", "2026-02-01", "--json")
    typed = shell.type(*words)
    assert (typed.code, json.loads(typed.out)) == (1, {"deleted": 0})


def left_after_pruning(shell: CommandLine, before: str) -> list[int]:
    """How many events each run has left, the oldest first."""
    assert shell.type("ledger", "prune", "--cluster", "demo", "--before", before).code == 0
    with closing(Ledger.open(shell.environment["COUNTERPOISE_LEDGER"])) as ledger:
        return [len(ledger.journal(run.run_id).events()) for run in ledger.runs()][::-1]


def test_a_run_that_ended_later_stays_and_so_do_those_after_it(
    shell: CommandLine, write: Write
) -> None:
    """A run can be undone as long as its events are there, and those of the runs after it."""
    write("one")
    write("two", at=datetime(2026, 2, 1, tzinfo=UTC), ended=datetime(2026, 6, 2, tzinfo=UTC))
    write("three", at=datetime(2026, 3, 1, tzinfo=UTC))
    assert left_after_pruning(shell, "2026-06-01") == [0, 3, 3]
    assert left_after_pruning(shell, "2100-01-01") == [0, 0, 0]


def test_what_is_noted_at_a_run_long_after_its_end_holds_no_other_row(
    shell: CommandLine, write: Write
) -> None:
    """Somebody has answered once more, and was refused."""
    write("one")
    write("two", at=datetime(2026, 2, 1, tzinfo=UTC))
    write("three", at=datetime(2026, 3, 1, tzinfo=UTC))
    with closing(Ledger.open(shell.environment["COUNTERPOISE_LEDGER"])) as ledger:
        oldest = ledger.runs()[-1].run_id
        ledger.journal(oldest).event("answer refused", "today")
    assert left_after_pruning(shell, "2026-06-01") == [1, 0, 0]
    assert left_after_pruning(shell, "2100-01-01") == [0, 0, 0]


def test_a_cluster_that_nobody_knows_is_named(shell: CommandLine, write: Write) -> None:
    write()
    words = ("ledger", "prune", "--before", "2026-02-01", "--cluster", "dmeo")
    typed = shell.type(*words)
    assert typed.code == 2
    assert "cluster dmeo: neither the ledger nor clusters.yaml has it; there are: demo" in typed.err
    shell.configure("127.0.0.1:9092", cluster="dmeo")  # one without a run yet
    assert shell.type(*words).code == 1
    typed = shell.type(*words[:-1], "deom")
    assert "has it; there are: demo, dmeo" in typed.err


def test_migrate_makes_a_ledger(shell_without_ledger: CommandLine) -> None:
    shell = shell_without_ledger
    typed = shell.type("ledger", "prune", "--cluster", "demo", "--before", "2026-02-01")
    assert typed.code == 3
    assert "was not made yet" in typed.err
    assert "`counterpoise ledger migrate`" in typed.err
    assert list(shell.folder.iterdir()) == []
    typed = shell.type("ledger", "migrate")
    assert typed.code == 0, typed.err
    assert "the ledger is up to date (schema 0001)" in typed.out


# -- which rows go


class Written:
    """A ledger with one run, whose clock goes on by a minute with each row that is written."""

    def __init__(self, url: str) -> None:
        self.now = EARLY
        self.ledger = Ledger.open(url, lambda: self.now)
        self.run_id = self.ledger.propose(PLAN, "p", requested_by="alice").run_id

    def write(self, *kinds: str) -> None:
        for kind in kinds:
            self.now += timedelta(minutes=1)
            self._write_one(kind)

    def _write_one(self, table: str) -> None:
        match table:
            case "events":
                self.ledger.journal(self.run_id).event("note", f"what happened at {self.now}")
            case "approvals":
                self.ledger.record_decision(self._approval())
            case "requests":
                self.request(Control.PAUSE, self.run_id)

    def _approval(self) -> Approval:
        return Approval(
            self.run_id,
            PLAN.fingerprint,
            Decision.GRANTED,
            "airflow:alice",
            "why",
            self.now,
            10**6,
            self.now + HOUR,
        )

    def request(
        self, control: Control, run_id: str | None = None, broker_id: int | None = None
    ) -> None:
        until = self.now + HOUR if control is Control.FREEZE else None
        request = ControlRequest("demo", run_id, control, "bob", "month end", self.now, until=until)
        self.ledger.record_request(replace(request, broker_id=broker_id))

    def end_run(self) -> None:
        change_state(self.ledger, self.run_id, RunState.REJECTED, "test")

    def prune(self, before: datetime) -> int:
        return self.ledger.prune("demo", before=before)

    def execute(self, *statements: str) -> None:
        with self.ledger._engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def ids(self, table: str) -> list[int]:
        with self.ledger._engine.connect() as connection:
            return list(connection.scalars(sa.select(TABLES[table].c.id)))


@pytest.fixture
def written(ledger_url: str) -> Iterator[Written]:
    opened = Written(ledger_url)
    yield opened
    opened.ledger.close()


def test_rows_of_all_tables_go_when_they_are_old_and_their_run_has_ended(written: Written) -> None:
    written.write(*TABLES)
    later = EARLY + timedelta(days=400)
    assert written.prune(later) == 0, "the run is open"
    written.end_run()
    assert written.prune(EARLY) == 0, "nothing is so old"
    assert written.prune(later) == 7, "all but the approval, which has not expired"
    assert [len(written.ids(table)) for table in TABLES] == [1, 0, 0]
    written.now += 2 * HOUR
    assert written.prune(later) == 1


def test_a_freeze_stays_until_it_ends(written: Written) -> None:
    written.end_run()
    written.request(Control.FREEZE)
    later = EARLY + timedelta(days=400)
    assert written.prune(later) == 2
    assert [left.control for left in written.ledger.requests("demo")] == [Control.FREEZE]
    written.now += 2 * HOUR
    assert written.prune(later) == 1


def test_a_freeze_that_was_ended_goes_and_the_young_row_that_ended_it_stays(
    written: Written,
) -> None:
    written.end_run()
    written.request(Control.FREEZE)
    written.now += timedelta(minutes=5)
    written.request(Control.UNFREEZE)
    assert written.prune(written.now) == 3
    assert [left.control for left in written.ledger.requests("demo")] == [Control.UNFREEZE]


def test_what_keeps_a_broker_empty_stays_until_it_is_released(written: Written) -> None:
    written.end_run()
    for broker_id in (7, 8):
        written.request(Control.KEEP_EMPTY, broker_id=broker_id)
    written.request(Control.RELEASE, broker_id=7)
    written.now += timedelta(days=800)
    written.prune(written.now)
    (left,) = written.ledger.requests("demo")
    assert (left.control, left.broker_id) == (Control.KEEP_EMPTY, 8)
    written.request(Control.RELEASE, broker_id=8)
    written.now += timedelta(minutes=5)
    written.prune(written.now)
    assert written.ledger.requests("demo") == ()


def test_rows_of_another_cluster_stay(written: Written) -> None:
    written.end_run()
    other = written.ledger.propose(replace(PLAN, cluster="other"), "p", requested_by="alice")
    change_state(written.ledger, other.run_id, RunState.REJECTED)
    assert written.prune(EARLY + HOUR) == 2
    assert len(written.ledger.journal(other.run_id).events()) == 2


@pytest.mark.parametrize("table", TABLES)
def test_the_id_of_a_row_that_was_deleted_is_never_given_again(
    written: Written, table: str
) -> None:
    """Which of two rows is the later one goes by their ids."""
    written.write(table)
    deleted_id = max(written.ids(table))
    written.execute(f"DELETE FROM {table} WHERE id = {deleted_id}")
    written.write(table)
    assert max(written.ids(table)) == deleted_id + 1


# -- odd values that somebody wrote there


def test_a_time_without_end_stops_no_reader(postgres: Postgres) -> None:
    """Postgres knows `infinity`, Python does not: a role that may insert requests could write it,
    and no run of the cluster could go on.
    """
    written = Written(postgres.empty_ledger())
    written.execute(
        'INSERT INTO requests (cluster, control, "by", why, at, until) VALUES '
        "('demo', 'freeze', 'bob', 'x', '-infinity', 'infinity')"
    )
    written.write("events")
    frozen = written.ledger.requests("demo")[-1]
    assert (frozen.at.year, frozen.until and frozen.until.year) == (1, 9999)
    written.ledger.close()


def test_text_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    written = Written(f"sqlite:///{tmp_path}/ledger.db")
    written.write("events")
    written.execute("UPDATE events SET text = CAST(x'fffe' AS TEXT) WHERE id = 2")
    assert written.ledger.journal(written.run_id).events()[1].text == r"\xff\xfe"
    written.ledger.close()
