"""The audit log: each event of the ledger is one JSON line, once its transaction has committed."""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from counterpoise.model.approval import Decision
from counterpoise.model.control import Control
from counterpoise.model.run import RunState
from tests.support import hostile
from tests.support.runs import SimulatedRun

KEYS = {"who", "what", "cluster", "run", "fingerprint", "time", "details"}


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "counterpoise.audit")
    return caplog


def entries(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = [record for record in log.records if record.name == "counterpoise.audit"]
    lines = [record.getMessage() for record in records]
    assert all(len(line.splitlines()) == 1 for line in lines)
    return [json.loads(line) for line in lines]


def test_a_whole_run_can_be_read_there(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    run = SimulatedRun.make(tmp_path)
    assert run.go() is RunState.DONE
    found = entries(log)
    assert [entry["what"] for entry in found] == run.event_kinds(), "each event, in its order"
    assert all(entry.keys() == KEYS for entry in found)
    assert {entry["cluster"] for entry in found} == {run.plan.cluster}
    assert {entry["run"] for entry in found} == {run.run_id}
    assert {entry["fingerprint"] for entry in found} == {run.plan.fingerprint}
    by_kind = {entry["what"]: entry for entry in found}
    assert {"proposed", "granted", "running", "settling", "done"} <= by_kind.keys()
    assert by_kind["proposed"]["who"] == by_kind["granted"]["who"] == "alice"
    assert by_kind["running"]["who"] is None, "nobody but the run itself"
    assert by_kind["granted"]["time"] == "2026-01-31T12:00:00.000000Z"
    assert by_kind["granted"]["details"].endswith(": test")


def test_what_somebody_requests_is_there_too(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    run = SimulatedRun.make(tmp_path)
    run.ask(Control.PAUSE, why="disk is replaced")
    run.ask(Control.FREEZE, why="month end")
    pause, freeze = entries(log)[-2:]
    assert (pause["what"], pause["who"], pause["run"]) == (
        "pause asked",
        "bob",
        run.run_id,
    )
    assert (freeze["what"], freeze["cluster"]) == ("freeze asked", run.plan.cluster)
    assert (freeze["run"], freeze["fingerprint"]) == (None, None)
    assert "month end" in freeze["details"]


def test_hostile_text_is_one_safe_line_without_the_password_in_it(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    run = SimulatedRun.make(tmp_path)
    typed = f"{hostile.HOSTILE}\nsasl.password=hunter2, see https://bob:hunter3@host/x\u2028end"
    run.ask(Control.PAUSE, why=typed)
    (line,) = [
        record.getMessage()
        for record in log.records
        if record.name == "counterpoise.audit" and "pause asked" in record.getMessage()
    ]
    assert len(line.splitlines()) == 1 and line.isprintable()
    assert hostile.MARK in json.loads(line)["details"]
    assert "hunter" not in line


def test_an_event_that_was_undone_is_not_logged(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    run = SimulatedRun.make(tmp_path)
    before = len(entries(log))
    with (
        suppress(ZeroDivisionError),
        run.ledger.journal(run.run_id).step() as step,
        step.together(),
    ):
        step.event("note", "never happened")
        raise ZeroDivisionError
    assert len(entries(log)) == before
    run.ledger.record_decision(run.approval(Decision.REJECTED))
    assert [entry["what"] for entry in entries(log)[before:]] == ["rejected", "rejected"]
