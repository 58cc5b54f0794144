"""Calls without an answer beside later ones: each may come, also after the move is done."""

from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import late_moves
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_RATE
from counterpoise.model.plan import Move
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    at_broker,
    of_topic,
    own_configs,
    times_submitted,
)

SIZE = 3_000_000
LARGE = 30_000_000_000  # five minutes without a throttle
SIX_BROKERS = f"{FOUR_BROKERS} 5=a 6=b"
PICTURE = f"orders-0: 1 2 3 size={LARGE}\nother-0: 1 2 3 size=300000000"
FIRST = move("orders-0", "1 2 3", "4 2 3", size=LARGE)
TWO_STEPS = move("orders-0", "1 2 3", "4 5 3", size=SIZE)
LATER = move("orders-1", "1 2 3", "4 2 3", size=100 * SIZE)


def first_call_held(folder: Path, *moves: Move) -> SimulatedRun:
    """A run of two reassignments of a partition: the first call is held by broker 6, which froze
    and lost its session; the run sent it again elsewhere, and the partition is as planned.
    """
    picture = f"orders-0: 1 2 3 size={SIZE}\norders-1: 1 2 3 size={100 * SIZE}"
    run = SimulatedRun.of_moves(folder, picture, *moves, racks=SIX_BROKERS)
    driver = run.driver()
    driver.open()
    driver.step()
    run.cluster.addressed_broker = 6
    run.cluster.freeze_broker(6)
    run.cluster.advance(driver.step() or 0)
    assert run.cluster.brokers[6].pending_changes, "it holds the call"
    run.cluster.addressed_broker = None
    return run


def test_the_first_of_two_calls_that_comes_after_the_end_is_known_as_ours(tmp_path: Path) -> None:
    run = first_call_held(tmp_path, TWO_STEPS)
    assert run.go(run.driver()) is RunState.DONE, run.run.reason
    assert run.cluster.partitions[TWO_STEPS.topic_partition].replicas == (4, 5, 3)
    run.cluster.advance(60)
    run.cluster.thaw_broker(6)
    assert run.cluster.list_reassignments()[TWO_STEPS.topic_partition].adding == (1,), (
        "our own call copies a replica back"
    )
    journal = run.ledger.journal(run.run_id)
    late = late_moves(run.plan, run.cluster.list_reassignments(), journal.submissions())
    assert late == (TWO_STEPS,), "it copies without a throttle, and no watch looks after it"


def test_the_first_of_two_calls_of_one_step_is_known_as_ours_when_the_partition_is_back(
    tmp_path: Path,
) -> None:
    """An hour later somebody takes the partition back; then broker 6 wakes."""
    one_step = move("orders-0", "1 2 3", "4 2 3", size=SIZE)
    run = first_call_held(tmp_path, one_step)
    assert run.go(run.driver()) is RunState.DONE, run.run.reason
    run.cluster.advance(3600)
    run.cluster.alter_reassignments({one_step.topic_partition: (1, 2, 3)})
    run.cluster.advance(60)
    assert not run.cluster.list_reassignments()
    run.cluster.thaw_broker(6)
    assert run.cluster.list_reassignments()[one_step.topic_partition].adding == (4,)
    submissions = run.ledger.journal(run.run_id).submissions()
    assert late_moves(run.plan, run.cluster.list_reassignments(), submissions) == (one_step,)


def test_the_first_of_two_calls_that_comes_late_is_not_said_to_be_somebody_elses(
    tmp_path: Path,
) -> None:
    run = first_call_held(tmp_path, TWO_STEPS, LATER)
    driver = run.driver()
    partition = run.cluster.partitions[TWO_STEPS.topic_partition]
    for _ in range(2000):
        if partition.replicas == (4, 5, 3) and not partition.is_moving:
            break
        run.cluster.advance(driver.step() or 0)
    assert partition.replicas == (4, 5, 3)
    driver.step()
    run.cluster.thaw_broker(6)
    submitted_before = times_submitted(run.cluster)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE, run.run.reason
    assert partition.replicas == (4, 5, 3)
    submitted = times_submitted(run.cluster) - submitted_before
    of_partition = {target for tp, target in submitted if tp == TWO_STEPS.topic_partition}
    assert of_partition == {(4, 5, 3)}, "nothing but its order is restored"


def executed_again_beside_a_held_order(folder: Path) -> SimulatedRun:
    """Broker 6 froze with the call that puts the replicas in order after a cancel."""
    run = SimulatedRun.of_moves(folder, PICTURE, FIRST, racks=SIX_BROKERS)
    run.until_moving(run.driver())
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.driver().step()
    while run.cluster.list_reassignments():
        run.cluster.advance(run.driver().settle_step() or 0)
    run.cluster.addressed_broker = 6
    run.cluster.freeze_broker(6)
    while not run.cluster.brokers[6].pending_changes:
        run.cluster.advance(run.driver().settle_step() or 0)
    run.cluster.addressed_broker = None
    assert run.end(run.driver()) is RunState.HALTED
    assert run.cluster.partitions[FIRST.topic_partition].replicas == (1, 2, 3)
    run.cluster.advance(60)
    run.until_moving(run.driver())
    run.cluster.advance(10)
    run.cluster.thaw_broker(6)
    assert run.cluster.list_reassignments()[FIRST.topic_partition].target == (1, 2, 3)
    return run


def test_an_order_that_is_restored_late_by_the_run_itself_is_not_somebody_elses(
    tmp_path: Path,
) -> None:
    run = executed_again_beside_a_held_order(tmp_path)
    halted = ""
    try:
        for _ in range(5):
            run.cluster.advance(run.driver().step() or 0)
    except HaltedError as error:
        halted = str(error)
        run.end(run.driver())
    stuck = run.cluster.list_reassignments().get(FIRST.topic_partition)
    assert stuck is None or stuck.target != (1, 2, 3), (stuck, halted, own_configs(run.cluster))
    assert "somebody else" not in halted


@pytest.mark.parametrize("target", [(1, 2, 5), (5, 2, 3)])
def test_a_call_that_may_still_come_keeps_its_throttle_where_somebody_moved_the_partition(
    tmp_path: Path, target: tuple[int, ...]
) -> None:
    """And no longer than it may come: then every key goes back."""
    run = SimulatedRun.of_moves(
        tmp_path,
        f"orders-0: 1 2 3 size={SIZE}",
        move("orders-0", "1 2 3", "4 2 3", size=SIZE),
        racks=SIX_BROKERS,
    )
    driver = run.driver()
    driver.open()
    while of_topic("orders") not in own_configs(run.cluster):
        run.cluster.advance(driver.step() or 0)
    run.cluster.addressed_broker = 6
    run.cluster.freeze_broker(6)
    driver.step()
    assert run.cluster.brokers[6].pending_changes, "it holds the call"
    run.cluster.addressed_broker = None
    run.cluster.alter_reassignments({FIRST.topic_partition: target})
    run.cluster.advance(5)
    assert run.cluster.partitions[FIRST.topic_partition].replicas == target
    with pytest.raises(HaltedError, match="somebody else moved"):
        driver.step()
    for _ in range(3):
        run.cluster.advance(driver.settle_step() or 0)
        assert own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE] == "1000000"
    assert run.end(driver) is RunState.HALTED
    assert own_configs(run.cluster) == {}
