"""The database roles of docs/security.md, on a real Postgres: each can do its part, and no more."""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from counterpoise.errors import LedgerError
from counterpoise.ledger import Ledger
from counterpoise.ledger.database import open_database
from counterpoise.ledger.schema import metadata
from counterpoise.model.approval import Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.run import RunState
from tests.support.ledger_view import change_state
from tests.support.postgres import Postgres
from tests.support.runs import SimulatedRun
from tests.unit.test_backup import command_of, typed

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
DATABASE = "counterpoise"
MIGRATE, WRITE, READ = (f"counterpoise_{name}" for name in ("migrate", "write", "read"))


def documented_sql() -> tuple[str, str, str]:
    """Return what the document has a superuser do, the owner, and the owner for pages."""
    blocks = re.findall(r"```sql\n(.*?)```", SECURITY.read_text(), re.DOTALL)
    superuser, owner, pages = [block for block in blocks if "counterpoise_" in block]
    return superuser, owner, pages


@pytest.fixture(scope="module")
def with_roles(postgres: Postgres) -> Iterator[Postgres]:
    superuser, owner, pages = documented_sql()
    postgres.execute(superuser)
    with pytest.raises(LedgerError, match=r"may not make it .*`counterpoise ledger migrate`"):
        Ledger.open(postgres.url(DATABASE, WRITE), lambda: NOW)
    with pytest.raises(LedgerError, match="was not made yet; run `counterpoise ledger migrate`"):
        Ledger.open(postgres.url(DATABASE, READ), lambda: NOW, migrate=False)
    open_database(postgres.url(DATABASE, MIGRATE)).dispose()
    postgres.execute(owner + pages, DATABASE, MIGRATE)
    yield postgres
    postgres.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
    postgres.execute(f"DROP ROLE {MIGRATE}; DROP ROLE {WRITE}; DROP ROLE {READ}")


def test_the_document_names_every_table() -> None:
    _, owner, _ = documented_sql()
    (inserted,) = re.findall(r"GRANT INSERT ON (.*?) TO", owner, re.DOTALL)
    assert set(re.split(r",\s+", inserted)) == set(metadata.tables)


def test_the_writing_role_can_do_a_whole_run(with_roles: Postgres, tmp_path: Path) -> None:
    made = SimulatedRun.make(tmp_path, approve=False)
    made.ledger.close()
    made.ledger = Ledger.open(with_roles.url(DATABASE, WRITE), made.clock)
    made.ledger.pin_cluster(made.plan.cluster, "id")
    made.ledger.record_snapshot(made.plan.cluster, "s1", made.clock())
    made.run_id = made.ledger.propose(made.plan, "p", requested_by="alice").run_id
    made.ledger.record_decision(made.approval())
    rate = ControlRequest(
        made.plan.cluster, made.run_id, Control.RATE, "bob", "faster", NOW, 2 * made.rate
    )
    made.ledger.record_request(rate)
    assert made.go() is RunState.DONE
    made.run_id = made.ledger.propose(made.plan, "p", requested_by="alice").run_id
    made.ledger.record_decision(made.approval())
    made.ledger.record_request(replace(rate, run_id=made.run_id))
    (request,) = made.ledger.requests(made.plan.cluster, made.run_id)
    with made.ledger.journal(made.run_id).step() as step:
        step.change_state(RunState.RUNNING)
        step.change_state(RunState.SETTLING)
        step.change_state(RunState.DONE, done=request)
    with pytest.raises(LedgerError, match=r"refused it: permission denied .*security\.md"):
        made.ledger.prune(made.plan.cluster, before=made.clock())
    made.ledger.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET text = ''",
        "UPDATE approvals SET reason = ''",
        "UPDATE requests SET why = ''",
        "UPDATE runs SET fingerprint = ''",
        "UPDATE runs SET cluster = ''",
        "UPDATE clusters SET cluster_id = ''",
        "UPDATE runs SET plan_uri = ''",
        *(f"DELETE FROM {table}" for table in sorted({*metadata.tables} - {"failures"})),
        "TRUNCATE events",
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "DROP TABLE events",
        "CREATE TABLE other (id integer)",
        "UPDATE alembic_version SET version_num = ''",
    ],
)
def test_neither_role_can_change_what_was_decided(with_roles: Postgres, statement: str) -> None:
    for user in (WRITE, READ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            with_roles.execute(statement, DATABASE, user)


def test_the_reading_role_records_answers_and_requests_and_nothing_else(
    with_roles: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "counterpoise.audit")
    made = SimulatedRun.make(tmp_path)
    made.ledger.close()
    writer = Ledger.open(with_roles.url(DATABASE, WRITE), lambda: NOW)
    run = writer.propose(made.plan, "p", requested_by="alice")
    made.run_id = run.run_id
    reader = Ledger.open(with_roles.url(DATABASE, READ), lambda: NOW, migrate=False)
    assert reader.run(run.run_id) == run
    reader.pin_cluster(run.cluster, "id")
    pause = ControlRequest(run.cluster, run.run_id, Control.PAUSE, "bob", "why", NOW)
    reader.record_request(pause)
    line = json.loads(caplog.messages[-1])
    assert (line["what"], line["fingerprint"]) == ("pause asked", run.fingerprint)
    assert [asked.control for asked in writer.requests(run.cluster, run.run_id)] == [Control.PAUSE]
    reader.record_decision(made.approval())
    assert writer.run(run.run_id).state is RunState.APPROVED
    reader.record_decision(replace(made.approval(), decision=Decision.REJECTED))
    assert writer.run(run.run_id).state is RunState.REJECTED
    for forbidden in (
        lambda: reader.propose(made.plan, "p", requested_by="alice"),
        lambda: reader.journal(run.run_id).step().__enter__(),
        lambda: reader.prune(run.cluster, before=NOW),
    ):
        with pytest.raises(LedgerError, match="refused it: permission denied"):
            forbidden()
    writer.close()
    reader.close()


def test_a_backup_brings_rows_and_rights_back(with_roles: Postgres, tmp_path: Path) -> None:
    plan = SimulatedRun.make(tmp_path).plan
    writer = Ledger.open(with_roles.url(DATABASE, WRITE), lambda: NOW)
    run = writer.propose(plan, "p", requested_by="alice")
    change_state(writer, run.run_id, RunState.REJECTED)
    writer.close()
    dump = command_of("pg_dump"), with_roles.programs / "pg_dump"
    for other in (WRITE, READ):
        with pytest.raises(AssertionError, match="permission denied"):
            typed(tmp_path, *dump, COUNTERPOISE_LEDGER=with_roles.url(DATABASE, other))
    typed(tmp_path, *dump, COUNTERPOISE_LEDGER=with_roles.url(DATABASE, MIGRATE))
    with with_roles.new_database(MIGRATE) as restored:
        with_roles.execute(f"REVOKE ALL ON DATABASE {restored} FROM PUBLIC")
        with_roles.execute(f"GRANT CONNECT ON DATABASE {restored} TO {WRITE}, {READ}")
        restore = command_of("pg_restore").replace("=counterpoise ", f"={restored} ")
        superuser = {"PGHOST": str(with_roles.folder), "PGUSER": "postgres"}
        typed(tmp_path, restore, with_roles.programs / "pg_restore", **superuser)
        reader = Ledger.open(with_roles.url(restored, READ), lambda: NOW, migrate=False)
        writer = Ledger.open(with_roles.url(restored, WRITE), lambda: NOW)
        assert reader.run(run.run_id).state is RunState.REJECTED
        writer.journal(run.run_id).event("note", "after the restore")
        assert reader.journal(run.run_id).events()[-1].text == "after the restore"
        writer.close()
        reader.close()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            with_roles.execute("DELETE FROM events", restored, WRITE)


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ("requests", {"cluster": "demo", "control": "pause", "by": "bob", "why": "x"}),
        ("approvals", {"run_id": "r", "fingerprint": "f", "decision": "granted", "reason": "x"}),
        ("events", {"run_id": "r", "kind": "validated", "text": "x"}),
    ],
)
def test_the_reading_role_cannot_choose_the_number_of_a_row(
    with_roles: Postgres, table: str, values: dict[str, str]
) -> None:
    """Rows are read in the order of their numbers."""
    columns = ", ".join(f'"{name}"' for name in values)
    shown = ", ".join(f"'{value}'" for value in values.values())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        with_roles.execute(
            f"INSERT INTO {table} (id, at, {columns}) VALUES (2147483647, now(), {shown})",
            DATABASE,
            READ,
        )
