"""Runs that have ended and are settled once more, since a call or a move of theirs came late."""

from pathlib import Path

from counterpoise.model.run import RunState
from tests.support.ledger_view import note_late_call
from tests.support.plans import move
from tests.support.runs import SimulatedRun

SMALL = 3_000_000  # bytes


def settle_again(run: SimulatedRun, reason: str = "a call was made late") -> None:
    note_late_call(run.ledger, run.run_id)
    run.change_state(RunState.SETTLING, reason)


def test_a_run_that_is_done_stays_done_whatever_somebody_moved_since(tmp_path: Path) -> None:
    moved = move("orders-0", "1 2 3", "4 2 3", size=SMALL)
    run = SimulatedRun.of_moves(tmp_path, f"orders-0: 1 2 3 size={SMALL}", moved)
    assert run.go() is RunState.DONE
    run.cluster.advance(3600)
    run.cluster.alter_reassignments({moved.topic_partition: moved.replicas_before})
    run.cluster.advance(3600)
    settle_again(run)
    assert run.end(run.driver()) is RunState.DONE
    assert run.run.reason == ""
