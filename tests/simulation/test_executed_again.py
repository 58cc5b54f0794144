"""A run that halted, was approved anew and is executed again: whoever was at work on it before (a
laptop that slept, a task that was late) copies at the rate of the last yes.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.execution import Driver
from counterpoise.model.kafka import FOLLOWER_RATE
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import FOUR_BROKERS, SimulatedRun, at_broker, own_configs

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


def test_two_copies_of_one_execution_go_on_together(run: SimulatedRun) -> None:
    first, second = run.driver(), run.driver()
    run.until_moving(first)
    second.open()
    run.cluster.advance(second.step() or 0)
    run.cluster.advance(first.step() or 0)
    assert run.go(second, max_steps=2_000) is RunState.DONE


def test_a_halted_run_that_was_undone_is_simply_executed_again(tmp_path: Path) -> None:
    picture = "orders-0: 1 2 3 size=3000000\norders-1: 1 2 3 size=3000000"
    moves = [move(f"orders-{n}", "1 2 3", "4 2 3", size=3_000_000) for n in range(2)]
    one_at_a_time = MovementPolicy(max_moves_in_flight=1)
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, limits=one_at_a_time)
    driver = run.driver()
    driver.open()
    while run.placement()["orders-0"][0] != (4, 2, 3):
        run.cluster.advance(driver.step() or 0)
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED
    moved = cluster(picture.replace("orders-0: 1 2 3", "orders-0: 4 2 3"), racks=FOUR_BROKERS)
    way_back = move("orders-0", "4 2 3", "1 2 3", size=3_000_000)
    undo = replace(run)
    undo.go_on_with(plan_by_hand(moved, Goal.IMPORTED, way_back))
    assert undo.go() is RunState.DONE
    run.ledger.record_decision(run.approval())
    assert run.go() is RunState.DONE
    assert {replicas for replicas, _ in run.placement().values()} == {(4, 2, 3)}
    assert own_configs(run.cluster) == {}
