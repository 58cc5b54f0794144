"""Backup and restore as docs/operate.md has them: a ledger that is older than the cluster carries
a run on, and does nothing twice.
"""

import os
import re
import sys
from collections import Counter
from pathlib import Path

from counterpoise.ledger import Ledger
from counterpoise.model.run import RunState
from dev import local_processes
from tests.support.ledger_view import let_step_locks_run_out
from tests.support.postgres import Postgres
from tests.support.runs import SimulatedRun

DOCUMENT = Path(__file__).parents[2] / "docs" / "operate.md"


def begun(tmp_path: Path, ledger: Ledger | None) -> SimulatedRun:
    """A run that moves, in a ledger."""
    run = SimulatedRun.make(tmp_path, approve=False)
    if ledger is not None:
        run.ledger.close()
        run.ledger = ledger
        run.run_id = ledger.propose(run.plan, "plans/x.json", requested_by="airflow:alice").run_id
    run.ledger.record_decision(run.approval())
    run.until_moving(run.driver())
    return run


def ended_although_restored(run: SimulatedRun, restored: Ledger) -> None:
    """The cluster went on to the end; then an older ledger takes over."""
    assert run.go() is RunState.DONE
    moved = run.placement()
    run.ledger.close()
    run.ledger = restored
    assert run.run.state is RunState.RUNNING
    let_step_locks_run_out(run.ledger)
    assert run.go() is RunState.DONE
    assert run.placement() == moved == run.planned_placement()
    submitted = Counter(
        partition
        for call in run.cluster.calls
        if call.name == "alter_reassignments"
        for partition in call.argument  # type: ignore[attr-defined]
    )
    assert max(submitted.values()) == 1, "a move that was done meanwhile is not done again"
    run.ledger.close()


def test_a_file_that_was_copied_during_a_run(tmp_path: Path) -> None:
    run = begun(tmp_path, None)
    typed(tmp_path, command_of("python").replace("var/ledger.db", "ledger.db"), sys.executable)
    backup = tmp_path / "ledger-backup.db"
    ended_although_restored(run, Ledger.open(f"sqlite:///{backup}", run.clock))


def test_a_dump_of_postgres_that_was_made_during_a_run(tmp_path: Path, postgres: Postgres) -> None:
    probe = SimulatedRun.make(tmp_path, approve=False)
    probe.ledger.close()
    with postgres.new_database() as name, postgres.new_database() as restored_name:
        run = begun(tmp_path, Ledger.open(postgres.url(name), probe.clock))
        dump, dumped = command_of("pg_dump"), {"COUNTERPOISE_LEDGER": postgres.url(name)}
        typed(tmp_path, dump, postgres.programs / "pg_dump", **dumped)
        restore = command_of("pg_restore").replace("=counterpoise ", f"={restored_name} ")
        into = {"PGHOST": str(postgres.folder), "PGUSER": "postgres"}
        typed(tmp_path, restore, postgres.programs / "pg_restore", **into)
        ended_although_restored(run, Ledger.open(postgres.url(restored_name), run.clock))


def command_of(program: str) -> str:
    """The line of the document that starts with a program."""
    (line,) = (
        line.strip()
        for line in DOCUMENT.read_text().splitlines()
        if re.match(rf" {{4,}}{program} ", line)
    )
    return line


def typed(folder: Path, line: str, program: str | Path, **variables: str) -> None:
    """Run a line of the document with this program."""
    path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
    done = local_processes.run(
        ["bash", "-c", line],
        name=line,
        timeout_seconds=400,
        env={"PATH": path, **variables},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
