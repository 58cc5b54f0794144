"""Runs that have ended and are settled once more, since a call or a move of theirs came late."""

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.control import Control
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import SimulatedRun, own_configs

SMALL, LARGE = 3_000_000, 30_000_000_000  # bytes


def settle_again(run: SimulatedRun, reason: str = "a call was made late") -> None:
    with run.ledger.journal(run.run_id).step() as step:
        step.note_late_call("config change")
        step.change_state(RunState.SETTLING, reason)


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


def test_keys_are_restored_once_for_a_late_call_while_a_late_move_is_copied(
    tmp_path: Path,
) -> None:
    late = move("orders-0", "1 2 3", "4 2 3", size=LARGE)
    other = move("other-0", "1 2 3", "1 5 3", size=LARGE)
    picture = f"orders-0: 1 2 3 size={LARGE}\nother-0: 1 2 3 size={LARGE}"
    run = SimulatedRun.of_moves(tmp_path, picture, late, other, racks="1=a 2=b 3=c 4=d 5=a")
    run.until_moving(run.driver())
    run.cluster.advance(run.driver().step() or 0)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.driver().step()
    assert run.end(run.driver()) is RunState.HALTED
    run.cluster.advance(60)
    with run.ledger.journal(run.run_id).step() as step:
        step.submitting({late.topic_partition: late.replicas_after})
        step.update_progress(replace(run.run_progress(), is_cancelling=False))
    settle_again(run, "a move came late")
    run.cluster.alter_reassignments({late.topic_partition: late.replicas_after})
    before = run.event_kinds().count("restoring")
    for _ in range(60):
        run.cluster.advance(run.driver().settle_step() or 0)
    assert late.topic_partition in run.cluster.list_reassignments()
    assert run.event_kinds().count("restoring") == before, "with the throttle of the late move"
    run.ledger.journal(run.run_id).note_late_call("config change")
    for _ in range(10):
        run.cluster.advance(run.driver().settle_step() or 0)
    assert run.event_kinds().count("restoring") == before + 1, "for the other late call"
    run.ask(Control.CANCEL)
    assert run.end(run.driver()) is RunState.HALTED
    assert own_configs(run.cluster) == {}
