"""A move of a run under way that somebody else cancels: the run halts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.policy import InFlight
from counterpoise.model.run import SHOWS_WITHIN, RunState
from tests.simulation.test_whose_moves import FIRST, SECOND, a_run
from tests.support.runs import SimulatedRun, own_configs, times_submitted

FIRST_PARTITION, SECOND_PARTITION = FIRST.topic_partition, SECOND.topic_partition
BOTH = {FIRST_PARTITION, SECOND_PARTITION}


@pytest.fixture
def run(tmp_path: Path) -> SimulatedRun:
    run = a_run(tmp_path, FIRST, SECOND)
    run.rate = 1_000  # it takes most of an hour
    run.until_moving(run.driver())
    until_in_flight(run)
    return run


def until_in_flight(run: SimulatedRun) -> None:
    """Take steps until all moves are in flight, and have been observed to be."""
    for _ in range(200):
        run.cluster.advance(run.driver().step() or 0)
        if run.cluster.list_reassignments().keys() == BOTH == seen_in_flight(run):
            return
    raise AssertionError(f"not in flight; it said: {run.log[-3:]}")


def seen_in_flight(run: SimulatedRun) -> set[Any]:
    names = run.run_progress().arrived_bytes
    return {tp for tp in BOTH if str(tp) in names}


def test_a_run_halts_where_somebody_cancels_a_move_and_goes_on_when_it_is_executed_again(
    run: SimulatedRun,
) -> None:
    run.limits = replace(run.limits, on_halt=InFlight.CANCEL)
    run.cluster.advance(SHOWS_WITHIN.total_seconds())
    run.cluster.alter_reassignments({FIRST_PARTITION: None})
    with pytest.raises(HaltedError, match=r"cancelled or took back orders-0 .* find out who"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert times_submitted(run.cluster)[FIRST_PARTITION, FIRST.replicas_after] == 1
    assert run.cluster.partitions[FIRST_PARTITION].replicas == FIRST.replicas_before
    assert own_configs(run.cluster) == {}
    run.rate = 1_000_000
    assert run.go() is RunState.DONE


def test_a_cancel_of_the_run_itself_is_nobody_elses(run: SimulatedRun) -> None:
    for _ in range(3):
        run.halt()
        assert run.end(run.driver()) is RunState.HALTED
        run.driver().open()
        until_in_flight(run)
    assert run.run.state is RunState.RUNNING
