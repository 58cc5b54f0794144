"""A checkpoint of the ledger deletes what long ended runs noted of each partition and key."""

import json
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
import sqlalchemy as sa

from counterpoise import installation
from counterpoise.kafka_admin.simulated import SimulatedCluster
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import simulated
from tests.support.runs import FOUR_BROKERS, SKEWED

BULK = ("moves", "elections", "touched_keys")
LATER = "2100-01-01T00:00:00Z"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks=FOUR_BROKERS)
    let_commands_reach(made, monkeypatch)
    return made


class TwoHoursLater(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "TwoHoursLater":
        return super().now(tz) + timedelta(hours=2)


@pytest.fixture
def shell(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """A run has ended, and its approval is over."""
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("simulated:9092", extra="    policy: {approval: {expires_after: 1h}}\n")
    plan = tmp_path / "plan.json"
    words = ("--cluster", "demo", "--goal", "add-brokers", "--brokers", "4", "--out", plan)
    assert shell.type("plan", *words).code == 0
    assert shell.type("approve", plan, "--rate", "50MB/s", "--reason", "broker 4").code == 0
    assert shell.type("execute", plan).code == 0
    monkeypatch.setattr(installation, "datetime", TwoHoursLater)
    return shell


def row_counts(shell: CommandLine) -> dict[str, int]:
    engine = sa.create_engine(shell.environment["COUNTERPOISE_LEDGER"])
    with engine.connect() as connection:
        counts = {
            table: connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0
            for table in BULK
        }
    engine.dispose()
    return counts


def status(shell: CommandLine) -> dict[str, object]:
    (run,) = json.loads(shell.type("status", "--json").out)
    return {name: run[name] for name in ("state", "moves_done", "moves_submitted")}


def test_rows_of_a_run_go_with_its_last_event_and_its_status_stays(shell: CommandLine) -> None:
    before = status(shell)
    assert all(row_counts(shell).values())
    assert shell.type("ledger", "checkpoint", "--cluster", "demo", "--before", LATER).code == 0
    assert row_counts(shell) == dict.fromkeys(BULK, 0)
    assert status(shell) == before
    assert shell.type("ledger", "verify").code == 0


def test_rows_of_a_young_run_stay(shell: CommandLine) -> None:
    counts = row_counts(shell)
    words = ("ledger", "checkpoint", "--cluster", "demo", "--before", "2020-01-01T00:00:00Z")
    assert shell.type(*words).code == 1
    assert row_counts(shell) == counts


def test_what_a_late_call_may_still_change_stays(shell: CommandLine) -> None:
    engine = sa.create_engine(shell.environment["COUNTERPOISE_LEDGER"])
    with engine.begin() as connection:
        undone = "UPDATE moves SET done_at = NULL WHERE partition = 0"
        unrestored = "UPDATE touched_keys SET restored_at = NULL WHERE resource_name = '4'"
        counts = [connection.execute(sa.text(text)).rowcount for text in (undone, unrestored)]
    engine.dispose()
    assert shell.type("ledger", "checkpoint", "--cluster", "demo", "--before", LATER).code == 0
    assert all(counts)
    left = row_counts(shell)
    assert [left["moves"], left["touched_keys"]] == counts
