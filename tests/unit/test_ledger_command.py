"""`counterpoise ledger`: what an operator types to check, export, thin out and migrate a ledger, in
SQLite and in Postgres.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterpoise.ledger import Ledger
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.command_line import CommandLine
from tests.support.runs import change_state

EARLY = datetime(2026, 1, 31, 12, tzinfo=UTC)


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

    def write_some(cluster: str = "demo", *notes: str, at: datetime = EARLY) -> None:
        ledger = Ledger.open(shell.environment["COUNTERPOISE_LEDGER"], lambda: at)
        plan = RebalancePlan(
            cluster, "id", f"{at}", Goal.LEADERS, (), "digest", (), (), LowerBound(0, 0, 0)
        )
        run = ledger.propose(plan, "p", requested_by="alice", account="airflow:2")
        for note in notes:
            ledger.journal(run.run_id).event("note", note)
        change_state(ledger, run.run_id, RunState.REJECTED, "no")
        ledger.close()

    return write_some


def by_hand(shell: CommandLine, statement: str) -> None:
    engine = sa.create_engine(shell.environment["COUNTERPOISE_LEDGER"])
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_intact_ledger_is_said_to_be_intact(shell: CommandLine, write: Write) -> None:
    write("demo", "one")
    write("other")
    typed = shell.type("ledger", "verify")
    assert typed.code == 0, typed.err
    assert "demo: 3 entries, 1 to 3, head " in typed.out
    assert "other: 2 entries" in typed.out
    assert "the ledger is intact" in typed.out
    found = json.loads(shell.type("ledger", "verify", "--json", "--cluster", "demo").out)
    assert [state["cluster"] for state in found["states"]] == ["demo"]
    assert found["is_intact"] is True


def test_a_row_that_was_changed_by_hand_is_named_with_exit_code_1(
    shell: CommandLine, write: Write
) -> None:
    write("demo", "one")
    write("other", "two")
    by_hand(shell, "UPDATE events SET text = 'nothing happened' WHERE text = 'one'")
    typed = shell.type("ledger", "verify")
    assert typed.code == 1
    assert "cluster demo: events 2 (2026-01-31T12:00:00.000000Z) was changed" in typed.out
    assert "the ledger is NOT intact" in typed.out
    assert shell.type("ledger", "verify", "--cluster", "other").code == 0


def test_rows_cut_off_at_the_end_are_missed_by_the_head_that_was_printed(
    shell: CommandLine, write: Write
) -> None:
    write("demo", "one")
    head = json.loads(shell.type("ledger", "verify", "--json").out)["states"][0]["head"]
    assert shell.type("ledger", "verify", "--head", head).code == 0
    by_hand(shell, "DELETE FROM chain WHERE sequence = 3")
    by_hand(shell, "DELETE FROM events WHERE id = 3")
    assert shell.type("ledger", "verify").code == 0
    typed = shell.type("ledger", "verify", "--head", head)
    assert typed.code == 1
    assert f"head {head}: in no chain any more" in typed.out


@pytest.mark.parametrize("head", ["", "1ca27f7fc0f9", "x" * 64])
def test_what_is_no_head_is_not_taken_for_one(shell: CommandLine, write: Write, head: str) -> None:
    """An empty variable of a script, or a head that was cut short, checks nothing."""
    write("demo")
    typed = shell.type("ledger", "verify", "--head", head)
    assert typed.code == 2
    assert "--head: a head has 64 hexadecimal digits" in typed.err


@pytest.mark.parametrize(
    "words",
    [("verify",), ("export",), ("checkpoint", "--before", "2026-02-01")],
    ids=lambda words: words[0],
)
def test_a_cluster_that_nobody_knows_is_not_said_to_be_intact(
    shell: CommandLine, write: Write, words: tuple[str, ...]
) -> None:
    write("demo")
    typed = shell.type("ledger", *words, "--cluster", "dmeo")
    assert typed.code == 2
    assert "cluster dmeo: neither the ledger nor clusters.yaml has it; there are: demo" in typed.err
    shell.configure("127.0.0.1:9092", cluster="dmeo")  # one without a run yet
    assert shell.type("ledger", *words, "--cluster", "dmeo").code in (0, 1)


def sha256(document: dict[str, Any]) -> str:
    """As docs/security.md describes it, for somebody who writes a check of their own."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_is_exported_can_be_checked_without_this_code(
    shell: CommandLine, write: Write
) -> None:
    write("demo", "ü \N{SNOWMAN} \x1b[31m", "two")
    write("other")
    exported = lines(shell.type("ledger", "export").out)
    assert [(line["cluster"], line["sequence"]) for line in exported] == [
        *(("demo", number) for number in range(1, 5)),
        *(("other", number) for number in range(1, 3)),
    ]
    hashed = ("cluster", "sequence", "table", "id", "row_hash", "chained_at", "previous_hash")
    previous = {"demo": "", "other": ""}
    for line in exported:
        assert line["row_hash"] == sha256(line["row"])
        assert line["hash"] == sha256({key: line[key] for key in hashed})
        assert line["previous_hash"] == previous[line["cluster"]]
        assert line["is_intact"]
        previous[line["cluster"]] = line["hash"]
    assert set(exported[0]) == {*hashed, "hash", "at", "row", "is_intact"}
    assert exported[0]["row"]["kind"] == "proposed"
    by_hand(shell, "UPDATE events SET text = 'x' WHERE id = 2")
    assert [line["is_intact"] for line in lines(shell.type("ledger", "export").out)][:3] == [
        True,
        False,
        True,
    ]


def test_an_export_goes_on_where_the_last_one_ended(shell: CommandLine, write: Write) -> None:
    cursor = shell.folder / "cursor.json"

    def export(*words: str) -> list[tuple[str, int]]:
        typed = shell.type("ledger", "export", "--cursor", cursor, *words)
        assert typed.code == 0, typed.err
        return [(line["cluster"], line["sequence"]) for line in lines(typed.out)]

    write("demo")
    assert export() == [("demo", 1), ("demo", 2)]
    assert export() == []
    write("demo", "x", at=datetime(2026, 2, 1, tzinfo=UTC))
    write("other")
    assert export("--cluster", "other") == [("other", 1), ("other", 2)]
    assert export() == [("demo", 3), ("demo", 4), ("demo", 5)]
    since = lines(shell.type("ledger", "export", "--since", "2026-02-01").out)
    assert [line["sequence"] for line in since] == [3, 4, 5]
    by_hand(shell, "DELETE FROM chain WHERE cluster = 'demo' AND sequence > 4")
    typed = shell.type("ledger", "export", "--cursor", cursor)
    assert typed.code == 1
    assert "entry 5 of cluster demo was exported, and is no longer in the chain" in typed.err
    cursor.write_text("[]")
    typed = shell.type("ledger", "export", "--cursor", cursor)
    assert typed.code == 2
    assert "remove it to export all rows again" in typed.err


def test_a_cursor_never_moves_past_what_a_time_has_left_out(
    shell: CommandLine, write: Write
) -> None:
    """What was chained before that time would never be exported."""
    cursor = shell.folder / "cursor.json"
    write("demo")
    write("demo", "x", at=datetime(2026, 2, 1, tzinfo=UTC))
    typed = shell.type("ledger", "export", "--cursor", cursor, "--since", "2026-02-01")
    assert (typed.code, typed.out) == (2, "")
    assert "--since and --cursor: use one of them" in typed.err
    assert not cursor.exists()
    exported = lines(shell.type("ledger", "export", "--cursor", cursor).out)
    assert [line["sequence"] for line in exported] == [1, 2, 3, 4, 5]


def test_a_checkpoint_deletes_what_is_old_and_says_what_is_left(
    shell: CommandLine, write: Write
) -> None:
    cursor = shell.folder / "cursor.json"
    write("demo", "one")
    shell.type("ledger", "export", "--cursor", cursor)
    write("demo", "two", at=datetime(2026, 3, 1, tzinfo=UTC))
    typed = shell.type("ledger", "checkpoint", "--cluster", "demo", "--before", "2026-02-01")
    assert typed.code == 0, typed.err
    assert "deleted 3 of the oldest entries with their rows" in typed.out
    assert "demo: 4 entries, 4 to 7" in typed.out
    exported = lines(shell.type("ledger", "export", "--cursor", cursor).out)
    assert [line["table"] for line in exported] == ["events", "events", "events", "checkpoint"]
    typed = shell.type("ledger", "checkpoint", "--cluster", "demo", "--before", "2026-02-01")
    assert typed.code == 1
    assert "deleted 0" in typed.out


def test_commands_that_read_make_no_ledger_and_migrate_makes_one(
    shell_without_ledger: CommandLine,
) -> None:
    shell = shell_without_ledger
    for action in ("verify", "export"):
        typed = shell.type("ledger", action)
        assert typed.code == 3
        assert "was not made yet" in typed.err
        assert "`counterpoise ledger migrate`" in typed.err
    assert list(shell.folder.iterdir()) == []
    typed = shell.type("ledger", "migrate")
    assert typed.code == 0, typed.err
    assert "the ledger is up to date" in typed.out
    assert "nothing is in the ledger yet" in shell.type("ledger", "verify").out
