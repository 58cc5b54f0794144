"""The ledger's hash chains: what was changed, removed or inserted is found and named; writers of
every kind, one after the other and at once, leave one chain.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterpoise.errors import RefusedError
from counterpoise.ledger import Ledger, links
from counterpoise.ledger.schema import events
from counterpoise.model.approval import Approval, Decision, Question
from counterpoise.model.chain import ChainReport
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.examples import examples
from tests.support.postgres import Postgres
from tests.support.runs import change_state

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLAN = RebalancePlan("demo", "id", "s1", Goal.LEADERS, (), "digest", (), (), LowerBound(0, 0, 0))
TABLES = ("approvals", "events", "questions", "requests")
LONG_AGO = "2020-01-01 00:00:00.000000"


@dataclass
class Written:
    """A ledger whose clock goes on by a minute with each thing that is written to it."""

    ledger: Ledger
    now: datetime = NOW

    @classmethod
    def opened(cls, url: str) -> "Written":
        written = cls(None)  # type: ignore[arg-type]
        written.ledger = Ledger.open(url, lambda: written.now)
        return written

    def write(self, kinds: str, cluster: str = "demo") -> str:
        """Write rows: event, approval, request, question, freeze; return the run's id."""
        plan = replace(PLAN, cluster=cluster)
        run = self.ledger.propose(plan, "p", requested_by="alice")
        for kind in kinds:
            self.now += timedelta(minutes=1)
            self.write_one(kind, run.run_id, cluster)
        return run.run_id

    def write_one(self, kind: str, run_id: str, cluster: str) -> None:
        request = ControlRequest(cluster, run_id, Control.PAUSE, "bob", "month end", self.now)
        match kind:
            case "e":
                self.ledger.journal(run_id).event("note", f"what happened at {self.now}")
            case "a":
                self.ledger.record_decision(self.approval(run_id))
            case "r":
                self.ledger.record_request(request)
            case "q":
                asked = Question("dag", "dag run", "approve", run_id, PLAN.fingerprint, self.now)
                self.ledger.record_question(asked)
            case "f":
                until = self.now + timedelta(hours=1)
                freeze = replace(request, run_id=None, control=Control.FREEZE, until=until)
                self.ledger.record_request(freeze)

    def approval(self, run_id: str, decision: Decision = Decision.GRANTED) -> Approval:
        ends = self.now + timedelta(hours=1)
        account = "airflow:2"
        return Approval(
            run_id, PLAN.fingerprint, decision, "alice", "why", self.now, 10**6, ends, account
        )

    def end_run(self, run_id: str) -> None:
        change_state(self.ledger, run_id, RunState.REJECTED, "test")

    def verify(self, *heads: str) -> ChainReport:
        return self.ledger.chain().verify(self.now, heads=heads)

    def tamper(self, *statements: str) -> None:
        """Do what somebody does who has the database, but not this code."""
        with self.ledger._engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def scalar(self, query: str) -> int:
        with self.ledger._engine.begin() as connection:
            return int(connection.scalar(sa.text(query)) or 0)

    def head(self, cluster: str = "demo") -> str:
        (head,) = [s.head for s in self.verify().states if s.cluster == cluster]
        return head


@pytest.fixture
def written(ledger_url: str) -> Iterator[Written]:
    opened = Written.opened(ledger_url)
    yield opened
    opened.ledger.close()


def named(report: ChainReport) -> set[tuple[str, int]]:
    return {(found.table, found.row_id) for found in report.breaks}


# -- what is written


def test_every_kind_of_row_is_chained_when_it_is_written(written: Written) -> None:
    written.write("eaqrf")
    written.write("e", cluster="other")
    report = written.verify()
    assert report.is_intact
    rows = {"demo": 1 + 1 + 3 + 1 + 2 + 1, "other": 2}  # some write an event beside it
    assert {s.cluster: s.last_sequence for s in report.states} == rows
    assert all(state.rows_waiting == 0 for state in report.states)


def test_a_request_that_is_done_does_not_break_the_chain(written: Written) -> None:
    run_id = written.write("r")
    (request,) = written.ledger.requests("demo", run_id)
    with written.ledger.journal(run_id).step() as step:
        step.change_state(RunState.REJECTED, "test", done=request)
    assert written.ledger.requests("demo", run_id)[0].done_at is not None
    assert written.verify().is_intact


# -- what somebody else did to it


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE events SET text = 'x' WHERE id = 2", "events 2 (2026-01-31T12:01"),
        ("UPDATE approvals SET account = NULL WHERE id = 1", "approvals 1 "),
        ("UPDATE approvals SET \"by\" = 'carol' WHERE id = 1", "approvals 1 "),
        ("UPDATE requests SET until = '2030-01-01' WHERE id = 1", "requests 1 "),
        ("DELETE FROM questions WHERE id = 1", "questions 1 "),
        ("UPDATE runs SET cluster = 'other'", "events 1 "),
        ("DELETE FROM chain WHERE sequence = 3", "comes after a gap: 1 entries"),
        ("DELETE FROM chain WHERE sequence <= 2", "2 before it were removed without checkpoint"),
        ("UPDATE chain SET row_hash = 'x' WHERE sequence = 3", "another entry in the chain"),
    ],
)
def test_what_was_done_by_hand_is_named(written: Written, statement: str, says: str) -> None:
    written.write("eaqr")
    written.tamper(statement)
    report = written.verify()
    assert not report.is_intact
    assert any(says in found.in_words for found in report.breaks), report.breaks
    assert all(found.cluster == "demo" for found in report.breaks)


@pytest.mark.parametrize("table", TABLES)
def test_the_id_of_a_row_that_was_deleted_is_never_given_again(
    written: Written, table: str
) -> None:
    """Else the next row would stand in its place: "changed", and never in the chain itself."""
    kind = {"approvals": "a", "events": "e", "questions": "q", "requests": "r"}[table]
    run_id = written.write(kind)
    newest = f"SELECT max(id) FROM {table}"
    deleted_id = written.scalar(newest)
    written.tamper(f"DELETE FROM {table} WHERE id = {deleted_id}")
    written.now += timedelta(minutes=1)
    written.write_one(kind, run_id, "demo")
    assert written.scalar(newest) == deleted_id + 1
    breaks = written.verify().breaks
    assert [(found.table, found.row_id, found.what) for found in breaks] == [
        (table, deleted_id, "was removed")
    ]
    is_new = f"table_name = '{table}' AND row_id = {deleted_id + 1}"
    assert written.scalar(f"SELECT count(*) FROM chain WHERE {is_new}") == 1


def test_text_where_a_time_should_be_is_named_too(tmp_path: Path) -> None:
    written = Written.opened(f"sqlite:///{tmp_path}/ledger.db")  # a column of SQLite holds anything
    written.write("e")
    written.tamper("UPDATE events SET at = 'never' WHERE id = 2")
    assert named(written.verify()) == {("events", 2)}
    written.ledger.close()


def test_rows_cut_off_at_the_end_are_found_by_a_head_that_was_noted(written: Written) -> None:
    written.write("ee")
    head = written.head()
    written.write("ee")
    assert written.verify(head).is_intact
    written.tamper("DELETE FROM chain WHERE sequence > 2", "DELETE FROM events WHERE id > 2")
    assert written.verify().is_intact  # a chain alone cannot show it
    report = written.verify(head)
    assert report.missing_heads == (head,)
    assert not report.is_intact


def test_a_chain_that_was_computed_anew_is_found_by_a_head_that_was_noted(
    written: Written,
) -> None:
    written.write("ee")
    head = written.head()
    written.tamper("DELETE FROM chain", "UPDATE events SET text = 'forged' WHERE id = 2")
    written.ledger.chain().append_pending(written.now)
    assert written.verify().is_intact
    assert written.verify(head).missing_heads == (head,)


def test_a_row_that_waits_for_the_next_writer_is_counted_and_an_old_one_is_named(
    written: Written,
) -> None:
    """As written by an older worker, or by a role that may only insert."""
    run_id = written.write("e")
    insert = "INSERT INTO events (run_id, at, kind, text) VALUES "
    at = f"{written.now:%Y-%m-%d %H:%M:%S}"
    written.tamper(f"{insert} ('{run_id}', '{at}', 'note', 'x')")
    assert [state.rows_waiting for state in written.verify().states] == [1]
    assert written.verify().is_intact
    written.now += timedelta(days=2)
    assert named(written.verify()) == {("events", 3)}
    change_state(written.ledger, run_id, RunState.REJECTED)
    assert written.verify().is_intact
    assert written.verify().states[0].last_sequence == 4
    written.tamper("DELETE FROM events WHERE id = 3")
    assert named(written.verify()) == {("events", 3)}


def insert_event(written: Written, row_id: int, run_id: str, at: str) -> None:
    written.tamper(
        "INSERT INTO events (id, run_id, at, kind, text) "
        f"VALUES ({row_id}, '{run_id}', '{at}', 'granted', 'x')"
    )


def test_a_row_that_was_inserted_is_not_hidden_in_the_chain_of_another_cluster(
    written: Written,
) -> None:
    """With an entry that is right in itself, as this code would compute it."""
    run_id = written.write("e")
    written.write("e", cluster="other")
    written.now += timedelta(hours=1)
    insert_event(written, -1, run_id, f"{NOW:%Y-%m-%d %H:%M:%S}")
    with written.ledger._engine.begin() as connection:
        (row,) = links.read_rows(connection, events, events.c.id == -1)
        links.append(connection, "other", [("events", -1, row.row_hash)], written.now)
    says = [found.in_words for found in written.verify().breaks]
    assert [text for text in says if text.startswith("cluster demo: events -1 ")]
    assert [text for text in says if text.endswith("is a row of another cluster, demo")]


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(days=3650)])
def test_a_row_with_a_low_id_does_not_wait_for_a_writer_that_never_chains_it(
    written: Written, ahead: timedelta
) -> None:
    """Whatever time it has: the next writer looks at the newest ids alone."""
    run_id = written.write("e")
    insert_event(written, -200, run_id, f"{written.now + ahead:%Y-%m-%d %H:%M:%S}")
    assert named(written.verify()) == {("events", -200)}
    written.write_one("e", run_id, "demo")
    assert named(written.verify()) == {("events", -200)}


def test_a_row_of_the_future_does_not_wait_for_ever(written: Written) -> None:
    run_id = written.write("e")
    insert_event(written, 50, run_id, "2036-01-31 12:00:00")
    assert named(written.verify()) == {("events", 50)}


def test_a_time_without_end_is_named_and_stops_no_writer(postgres: Postgres) -> None:
    """Postgres knows `infinity`, Python does not: a role that may insert requests could write it,
    and nobody could write or verify after that.
    """
    written = Written.opened(postgres.empty_ledger())
    run_id = written.write("r")
    written.tamper("UPDATE requests SET until = 'infinity'")
    assert named(written.verify()) == {("requests", 1)}
    written.tamper(
        'INSERT INTO requests (cluster, control, "by", why, at, until) VALUES '
        "('demo', 'freeze', 'bob', 'x', '-infinity', 'infinity')"
    )
    written.write_one("e", run_id, "demo")
    assert written.verify().states[0].rows_waiting == 0
    frozen = written.ledger.requests("demo")[-1]
    assert (frozen.at.year, frozen.until and frozen.until.year) == (1, 9999)
    written.ledger.close()


def test_text_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    written = Written.opened(f"sqlite:///{tmp_path}/ledger.db")
    run_id = written.write("e")
    written.tamper("UPDATE events SET text = CAST(x'fffe' AS TEXT) WHERE id = 2")
    assert named(written.verify()) == {("events", 2)}
    assert written.ledger.journal(run_id).events()[1].text == r"\xff\xfe"
    written.ledger.close()


# -- any ledger, any single change


@cache
def _empty_ledger() -> bytes:
    """Made once: migrating takes longer than all that is written to it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        Ledger.open(f"sqlite:///{path}", lambda: NOW).close()
        return path.read_bytes()


@given(
    kinds=st.text("earqf", min_size=2, max_size=8),
    table=st.sampled_from(TABLES),
    how=st.sampled_from(["change", "remove", "insert", "swap"]),
    data=st.data(),
)
@settings(examples(25), suppress_health_check=list(HealthCheck))
def test_any_one_change_is_found_and_named(
    kinds: str, table: str, how: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ledger.db").write_bytes(_empty_ledger())
        written = Written.opened(f"sqlite:///{folder}/ledger.db")
        written.write(kinds)
        written.write("e", cluster="other")
        written.now += timedelta(hours=1)
        assert written.verify().is_intact
        with written.ledger._engine.connect() as connection:
            ids = list(connection.scalars(sa.text(f"SELECT id FROM {table}")))
        concerned = _tamper(written, table, ids, how, data)
        assert named(written.verify()) == {(table, row_id) for row_id in concerned}
        written.write("e", cluster="third")  # nor does the next writer heal it
        assert named(written.verify()) == {(table, row_id) for row_id in concerned}
        written.ledger.close()


def _tamper(
    written: Written, table: str, ids: list[int], how: str, data: st.DataObject
) -> list[int]:
    """Do one thing to a table, and return the ids that are to be named; [] where it has no rows."""
    if not ids:
        return []
    columns = {
        "approvals": ["fingerprint", "decision", '"by"', "reason", "rate_bytes_per_second"],
        "events": ["kind", "text", "at"],
        "questions": ["fingerprint", "dag_run_id", "task_id"],
        "requests": ["control", '"by"', "why", "rate_bytes_per_second"],
    }[table]
    one = data.draw(st.sampled_from(ids))
    match how:
        case "change":
            column = data.draw(st.sampled_from(columns))
            written.tamper(f"UPDATE {table} SET {column} = 'forged' WHERE id = {one}")
            return [one]
        case "remove":
            written.tamper(f"DELETE FROM {table} WHERE id = {one}")
            return [one]
        case "insert":
            _insert_before_all(written, table, one)
            return [-1]
    other = data.draw(st.sampled_from(ids))
    if one == other:
        return []
    written.tamper(
        f"UPDATE {table} SET id = -1 WHERE id = {one}",
        f"UPDATE {table} SET id = {one} WHERE id = {other}",
        f"UPDATE {table} SET id = {other} WHERE id = -1",
    )
    return [one, other]


def _insert_before_all(written: Written, table: str, copied_id: int) -> None:
    with written.ledger._engine.begin() as connection:
        row = connection.execute(sa.text(f"SELECT * FROM {table} WHERE id = {copied_id}"))
        values = dict(row.mappings().one())
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join(f":{name}" for name in values)
        connection.execute(
            sa.text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), {**values, "id": -1}
        )


# -- retention


def test_a_checkpoint_lets_old_rows_go_and_the_rest_is_verified_from_there(
    written: Written,
) -> None:
    written.end_run(written.write("eaqr"))
    middle = written.now + timedelta(minutes=30)
    written.now += timedelta(hours=1)
    run_id = written.write("ee")
    head = written.head()
    chain = written.ledger.chain()
    assert chain.let_go("demo", before=middle, now=written.now) == 9
    report = written.verify(head)
    assert report.is_intact, report.breaks
    assert report.states[0].first_sequence == 10
    assert written.ledger.journal(run_id).events()[0].kind == "proposed"
    written.end_run(run_id)
    written.now += timedelta(hours=1)
    assert chain.let_go("demo", before=written.now, now=written.now)
    assert written.verify().is_intact
    written.write("e")
    assert written.verify().is_intact
    written.tamper("DELETE FROM chain WHERE table_name = 'checkpoint'")
    assert not written.verify().is_intact


def test_a_checkpoint_of_one_cluster_reads_the_rows_of_no_other(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 200 clusters each checkpoint would take 200 times as long, and others wait for it."""
    written.end_run(written.write("eaq"))
    for number in range(20):
        written.write("eaq", cluster=f"other-{number}")
    written.now += timedelta(days=30)
    hashed: list[str] = []
    sha256_of = links.sha256_of

    def noting(document: Mapping[str, object]) -> str:
        hashed.append(str(document["cluster"]))
        return sha256_of(document)

    monkeypatch.setattr(links, "sha256_of", noting)
    before = written.now - timedelta(days=1)
    assert written.ledger.chain().let_go("demo", before=before, now=written.now) > 0
    assert written.ledger.chain().verify(written.now, cluster="demo").is_intact
    assert set(hashed) == {"demo"}


def test_what_still_counts_is_never_let_go(written: Written) -> None:
    later = NOW + timedelta(days=400)
    chain = written.ledger.chain()
    run_id = written.write("ee")
    assert chain.let_go("demo", before=later, now=written.now) == 0  # the run is open
    written.end_run(run_id)
    written.write_one("f", run_id, "demo")
    assert chain.let_go("demo", before=later, now=written.now) == 4  # up to the freeze
    written.now += timedelta(hours=2)
    assert chain.let_go("demo", before=later, now=written.now) == 2  # the freeze, the checkpoint
    assert written.verify().is_intact


def test_a_freeze_that_was_ended_does_not_count(written: Written) -> None:
    """The row that ended it stays as long as it is young: a cluster is never frozen by it alone."""
    run_id = written.write("")
    written.end_run(run_id)
    written.write_one("f", run_id, "demo")
    written.now += timedelta(minutes=5)
    ended = ControlRequest("demo", None, Control.UNFREEZE, "bob", "done", written.now)
    written.ledger.record_request(ended)
    chain = written.ledger.chain()
    assert chain.let_go("demo", before=written.now, now=written.now) == 3
    assert [left.control for left in written.ledger.requests("demo")] == [Control.UNFREEZE]
    assert written.verify().is_intact


def test_a_broken_chain_lets_nothing_go(written: Written) -> None:
    written.end_run(written.write("ee"))
    written.tamper("UPDATE events SET text = 'x' WHERE id = 2")
    with pytest.raises(RefusedError, match=r"events 2 .* was changed"):
        written.ledger.chain().let_go("demo", before=NOW + timedelta(days=9), now=written.now)
    assert len(named(written.verify())) == 1


# -- many at once


def in_parallel(*tasks: Callable[[], None]) -> None:
    failures: list[Exception] = []

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - told below, in the thread of the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_writers_at_the_same_time_leave_one_chain(written: Written, ledger_url: str) -> None:
    """Two clusters, several connections, one of them an older worker that chains nothing."""
    run_ids = [written.write("", cluster) for cluster in ("demo", "other")]
    count = 15

    def new_worker() -> None:
        ledger = Ledger.open(ledger_url, lambda: NOW)
        for number in range(count):
            for run_id in run_ids:
                ledger.journal(run_id).event("note", f"{number}")
        ledger.close()

    def old_worker() -> None:
        engine = sa.create_engine(ledger_url, connect_args=_waiting(ledger_url))
        insert = sa.text("INSERT INTO events (run_id, at, kind, text) VALUES (:run, :at, 'o', '')")
        for number in range(count):
            with engine.begin() as connection:
                run_id = run_ids[number % 2]
                connection.execute(insert, {"run": run_id, "at": f"{NOW:%Y-%m-%d %H:%M:%S}"})
        engine.dispose()

    in_parallel(new_worker, new_worker, old_worker, new_worker)
    written.ledger.chain().append_pending(NOW)
    report = written.verify()
    assert report.is_intact, report.breaks
    total = sum(state.last_sequence for state in report.states)
    assert total == 2 + 3 * 2 * count + count
    assert [state.rows_waiting for state in report.states] == [0, 0]


def _waiting(url: str) -> dict[str, object]:
    return {"timeout": 30} if url.startswith("sqlite") else {}


def test_a_row_that_an_older_worker_commits_late_is_chained_all_the_same(
    postgres: Postgres,
) -> None:
    """In Postgres a row may appear behind rows with higher ids."""
    url = postgres.empty_ledger()
    written = Written.opened(url)
    run_id = written.write("")
    late = sa.create_engine(url).connect()
    at = f"{written.now:%Y-%m-%d %H:%M:%S}"
    late.execute(
        sa.text(f"INSERT INTO events (run_id, at, kind, text) VALUES ('{run_id}', '{at}', 'o', '')")
    )
    written.write_one("e", run_id, "demo")
    late.commit()
    assert written.verify().states[0].rows_waiting == 1
    written.write_one("e", run_id, "demo")
    assert written.verify().states[0].rows_waiting == 0
    assert written.verify().is_intact
    late.close()
    written.ledger.close()
