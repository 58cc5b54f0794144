"""A run that halted, was approved anew and is executed again: whoever was at work on it before (a
laptop that slept, a task that was late) copies at the rate of the last yes.
"""

from pathlib import Path

import pytest

from counterpoise.execution import Driver
from counterpoise.model.kafka import FOLLOWER_RATE
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, own_configs

SIZE = 300_000_000
PICTURE = f"orders-0: 1 2 3 size={SIZE}\norders-1: 1 2 3 size={SIZE}"
MOVES = [move(f"orders-{p}", "1 2 3", "4 2 3", size=SIZE) for p in (0, 1)]


@pytest.fixture
def run(tmp_path: Path) -> SimulatedRun:
    limits = MovementPolicy(max_moves_in_flight=1)
    return SimulatedRun.of_moves(tmp_path, PICTURE, *MOVES, limits=limits)


def executed_again(run: SimulatedRun) -> Driver:
    """Somebody ends the run, approves the plan at a tenth of the rate, and executes it."""
    assert run.end(run.driver()) is RunState.HALTED
    run.rate //= 10
    run.ledger.record_decision(run.approval())
    again = run.driver()
    run.until_moving(again)
    assert run.run.state is RunState.RUNNING
    return again


def rate_at_destination(run: SimulatedRun) -> str:
    return own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE]


def test_a_late_copy_does_not_copy_at_the_rate_of_an_earlier_approval(run: SimulatedRun) -> None:
    late = run.driver()
    run.until_moving(late)
    executed_again(run)
    late.step()
    assert rate_at_destination(run) == "100000"


def test_who_waited_to_start_a_run_does_not_start_it_at_the_rate_of_an_earlier_approval(
    run: SimulatedRun,
) -> None:
    run.until_moving(run.driver())
    assert run.end(run.driver()) is RunState.HALTED
    late, seen = run.driver(), run.run
    run.rate //= 10
    run.ledger.record_decision(run.approval())
    late.open(seen)
    run.until_moving(late)
    assert rate_at_destination(run) == "100000"
