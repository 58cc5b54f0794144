"""Calls without an answer beside later ones: each may come, also after the move is done."""

from pathlib import Path

from counterpoise.model.plan import Move
from counterpoise.model.run import RunState
from tests.support.ledger_view import in_flight_as_ours
from tests.support.plans import move
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    times_submitted,
)

SIZE = 3_000_000
SIX_BROKERS = f"{FOUR_BROKERS} 5=a 6=b"
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
    moving = run.cluster.list_reassignments()
    late = in_flight_as_ours(run.ledger, run.run_id, run.plan, moving)
    assert late == {TWO_STEPS.topic_partition}, "no watch looks after it"


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
