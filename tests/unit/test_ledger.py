"""The ledger: one open run per cluster, legal state changes only, decisions that last, a schema
that is migrated.
"""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from counterpoise.access import check_granted
from counterpoise.errors import (
    InputError,
    LedgerError,
    NotApprovedError,
    RunConflictError,
    WrongClusterError,
)
from counterpoise.installation import now_utc
from counterpoise.ledger import Ledger, database
from counterpoise.ledger.database import newest_revision, open_database
from counterpoise.ledger.schema import metadata
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import Person
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import TRANSITIONS, Run, RunState
from tests.support.ledger_view import change_state

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLAN = RebalancePlan("demo", "id", "s1", Goal.LEADERS, (), "digest", (), (), LowerBound(0, 0, 0))
OTHER_PLAN = replace(PLAN, snapshot_id="s2")


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = Ledger.open(ledger_url, lambda: NOW)
    yield opened
    opened.close()


def approval(run_id: str, decision: Decision = Decision.GRANTED, **changes: object) -> Approval:
    yes = Approval(
        run_id,
        PLAN.fingerprint,
        decision,
        "airflow:alice",
        "because",
        NOW,
        1_000_000,
        NOW + timedelta(hours=1),
    )
    return replace(yes, **changes)  # type: ignore[arg-type]


def test_migrations_make_exactly_the_tables_that_the_code_uses(ledger_url: str) -> None:
    engine = open_database(ledger_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == newest_revision()
    engine.dispose()


def test_a_newer_plan_supersedes_one_that_nobody_started(ledger: Ledger) -> None:
    first = ledger.propose(PLAN, "p1", requested_by="analysis")
    second = ledger.propose(OTHER_PLAN, "p2", requested_by="alice")
    assert ledger.run(first.run_id).state is RunState.SUPERSEDED
    assert second.state is RunState.PROPOSED


def test_the_same_plan_proposed_again_is_the_same_run(ledger: Ledger) -> None:
    assert ledger.propose(PLAN, "p", requested_by="a") == ledger.propose(
        PLAN, "p", requested_by="b"
    )


def test_a_dag_run_finds_the_run_that_it_opened_last(ledger: Ledger) -> None:
    def propose(plan: RebalancePlan, dag_run_id: str) -> Run:
        return ledger.propose(
            plan,
            "p",
            requested_by="airflow:alice",
            dag_id="kafka_rebalance",
            dag_run_id=dag_run_id,
        )

    first = propose(PLAN, "manual-1")
    assert propose(PLAN, "manual-1") == first
    second = propose(PLAN, "manual-2")
    third = propose(replace(PLAN, cluster="other"), "manual-2")
    assert ledger.run(first.run_id).state is RunState.SUPERSEDED
    assert third.requester == Person.airflow("alice")
    assert ledger.run_of("kafka_rebalance", "manual-1") == ledger.run(first.run_id)
    assert ledger.run_of("kafka_rebalance", "manual-2") == max(
        second, third, key=lambda run: (run.opened_at, run.run_id)
    )
    assert ledger.run_of("kafka_rebalance", "manual-3") is None
    assert ledger.run_of("other", "manual-1") is None


def test_a_plan_that_needs_two_waits_until_both_have_said_yes(ledger: Ledger) -> None:
    def is_enough(approvals: Sequence[Approval]) -> bool:
        return len(approvals) > 1

    run = ledger.propose(PLAN, "p", requested_by="alice")
    seen = [ledger.answer_seen(run.run_id)]
    for state in (RunState.PROPOSED, RunState.APPROVED):
        ledger.record_decision(approval(run.run_id, Decision.GRANTED), is_enough=is_enough)
        assert ledger.run(run.run_id).state is state
        seen.append(ledger.answer_seen(run.run_id))
    assert len(set(seen)) == 3
    with pytest.raises(RunConflictError):
        ledger.record_decision(approval(run.run_id, Decision.TIMED_OUT), seen=seen[0])
    assert ledger.answer_seen(run.run_id) == seen[-1]


def test_a_dag_withdraws_no_plan_that_somebody_has_approved(ledger: Ledger) -> None:
    run = ledger.propose(PLAN, "p", requested_by="alice")
    ledger.record_decision(approval(run.run_id, Decision.GRANTED), is_enough=lambda _: False)
    no = approval(run.run_id, Decision.REJECTED, by=Person.of_analysis().recorded)
    with pytest.raises(RunConflictError, match="somebody has approved"):
        ledger.record_decision(no)
    assert ledger.run(run.run_id).state is RunState.PROPOSED


def test_while_a_run_is_under_way_no_other_opens_on_its_cluster(ledger: Ledger) -> None:
    run = ledger.propose(PLAN, "p1", requested_by="a")
    ledger.record_decision(approval(run.run_id))
    change_state(ledger, run.run_id, RunState.RUNNING)
    with pytest.raises(RunConflictError, match="is running"):
        ledger.propose(OTHER_PLAN, "p2", requested_by="b")
    assert (
        ledger.propose(replace(PLAN, cluster="other"), "p3", requested_by="b").state
        is RunState.PROPOSED
    )


def test_the_database_itself_allows_one_waiting_run_per_cluster(
    ledger: Ledger, ledger_url: str
) -> None:
    run = ledger.propose(PLAN, "p1", requested_by="a")
    engine = sa.create_engine(ledger_url)
    with engine.begin() as connection, pytest.raises(sa.exc.IntegrityError):
        connection.execute(
            sa.text(
                "INSERT INTO runs (run_id, cluster, fingerprint, state, reason, requested_by, "
                "opened_at) SELECT 'copy', cluster, fingerprint, state, reason, "
                "requested_by, opened_at FROM runs WHERE run_id = :run_id"
            ),
            {"run_id": run.run_id},
        )


def test_state_changes_that_the_table_does_not_list_are_refused(ledger: Ledger) -> None:
    run = ledger.propose(PLAN, "p", requested_by="a")
    for target in set(RunState) - TRANSITIONS[RunState.PROPOSED]:
        with pytest.raises(RunConflictError, match=r"cannot become .* approve"):
            change_state(ledger, run.run_id, target)


def test_a_rejection_closes_the_run_and_silence_on_a_superseded_one_is_only_noted(
    ledger: Ledger,
) -> None:
    run = ledger.propose(PLAN, "p", requested_by="a")
    ledger.propose(OTHER_PLAN, "p2", requested_by="a")
    ledger.record_decision(approval(run.run_id, Decision.TIMED_OUT))
    assert ledger.run(run.run_id).state is RunState.SUPERSEDED
    with pytest.raises(RunConflictError):
        ledger.record_decision(approval(run.run_id))
    assert [a.decision for a in ledger.approvals_of(run.run_id)] == [Decision.TIMED_OUT]


def test_only_the_last_granted_unexpired_word_on_this_very_plan_counts() -> None:
    yes = approval("r")
    assert check(yes) == yes
    for given, says in [
        ([], "was not approved"),
        ([yes, approval("r", Decision.REJECTED)], "was rejected by alice"),
        ([approval("r", Decision.TIMED_OUT)], "timed out"),
        ([approval("r", fingerprint="sha256:other")], "is for plan sha256:other"),
        ([approval("r", expires_at=NOW)], "expired"),
    ]:
        with pytest.raises(NotApprovedError, match=says):
            check(*given)


def check(*given: Approval) -> Approval:
    run = Run("r", "demo", PLAN.fingerprint, "p", RunState.APPROVED, "", NOW, None)
    return check_granted(ClusterPolicy(), run, PLAN, given, NOW)


def test_another_cluster_under_the_same_name_is_refused(ledger: Ledger) -> None:
    ledger.pin_cluster("demo", "id-1")
    ledger.pin_cluster("demo", "id-1")
    with pytest.raises(WrongClusterError, match="id-2"):
        ledger.pin_cluster("demo", "id-2")


def test_what_cannot_be_opened_says_where_and_why_without_a_password(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger.open(f"sqlite:///{tmp_path / 'file' / 'ledger.db'}", lambda: NOW)
    with pytest.raises(InputError, match="not a database URL"):
        Ledger.open("ledger.db", lambda: NOW)
    with pytest.raises(LedgerError) as caught:
        Ledger.open("postgresql+psycopg://me:hunter2@127.0.0.1:1/x", lambda: NOW)
    assert "hunter2" not in str(caught.value)


def test_a_right_url_without_its_driver_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as in an environment without the extra
    with pytest.raises(InputError) as refused:
        Ledger.open("postgresql+psycopg://me@127.0.0.1:1/x", lambda: NOW)
    assert "not a database URL" not in str(refused.value)
    assert "pip install 'counterpoise[postgres]'" in str(refused.value)


def test_a_ledger_that_is_moved_away_is_not_made_anew_nor_written_to_and_goes_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    path, away = tmp_path / "ledger.db", tmp_path / "away.db"
    url = f"sqlite:///{path}"
    ledger, other = Ledger.open(url, lambda: NOW), Ledger.open(url, lambda: NOW)
    run = ledger.propose(PLAN, "p", requested_by="a")
    path.rename(away)
    with pytest.raises(
        LedgerError, match=r"ledger.db is gone, and nothing goes on without it. Put it back"
    ):
        ledger.record_decision(approval(run.run_id))
    with pytest.raises(LedgerError, match="is gone"):
        Ledger.open(url, lambda: NOW)
    assert not path.exists()
    away.rename(path)
    assert other.run(run.run_id).state is RunState.PROPOSED
    ledger.record_decision(approval(run.run_id))
    assert other.run(run.run_id).state is RunState.APPROVED
    ledger.close()
    other.close()


def test_an_empty_database_in_the_ledgers_place_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(f"sqlite:///{path}", lambda: NOW).close()
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    database.close()
    with pytest.raises(LedgerError, match="is empty"):
        Ledger.open(f"sqlite:///{path}", lambda: NOW)


def test_an_empty_ledger_is_made_where_the_mark_of_the_lost_one_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    first = Ledger.open(f"sqlite:///{path}", lambda: NOW)
    first.propose(PLAN, "p", requested_by="a")
    first.close()
    path.unlink()
    (tmp_path / "ledger.db-made").unlink()
    second = Ledger.open(f"sqlite:///{path}", lambda: NOW)
    assert second.runs() == ()
    second.close()


@pytest.mark.parametrize("migrate", [True, False])
def test_a_wait_for_a_locked_ledger_is_told(
    migrate: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.open(url, now_utc).close()
    monkeypatch.setattr(database, "_UNNOTICED_SECONDS", 0)
    monkeypatch.setattr(database, "_LOCK_WAIT_SECONDS", 0)
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("CREATE TABLE other(x)")
        with pytest.raises(
            LedgerError, match="database is locked: another process kept it for 0 s"
        ):
            Ledger.open(url, now_utc, migrate=migrate)
    assert f"the ledger {url} is locked by another process" in caplog.text
    Ledger.open(url, now_utc, migrate=migrate).close()
