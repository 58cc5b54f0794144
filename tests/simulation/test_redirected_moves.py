"""A move that somebody sent elsewhere, and makes a month later: it is theirs by then."""

from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import late_moves
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import FOUR_BROKERS, SimulatedRun

SIX_BROKERS = f"{FOUR_BROKERS} 5=a 6=b"
LARGE = 30_000_000_000
PICTURE = f"orders-0: 1 2 3 size={LARGE}\nother-0: 1 2 3 size=300000000"
FIRST = move("orders-0", "1 2 3", "4 2 3", size=LARGE)
OTHER = move("other-0", "1 2 3", "1 5 3", size=300_000_000)


def redirected_by_somebody(folder: Path) -> SimulatedRun:
    """A run halted since somebody sent its move elsewhere; every call was answered, a month ago."""
    run = SimulatedRun.of_moves(folder, PICTURE, FIRST, racks=SIX_BROKERS)
    run.until_moving(run.driver())
    run.cluster.alter_reassignments({FIRST.topic_partition: (5, 2, 3)})
    with pytest.raises(HaltedError, match="somebody else is reassigning"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    run.cluster.advance(30 * 86_400)
    assert run.cluster.partitions[FIRST.topic_partition].replicas == (5, 2, 3)
    return run


def test_what_somebody_moves_a_month_after_they_redirected_a_move_is_not_cancelled(
    tmp_path: Path,
) -> None:
    run = redirected_by_somebody(tmp_path)
    run.go_on_with(plan_by_hand(cluster(PICTURE, racks=SIX_BROKERS), Goal.REBALANCE, OTHER))
    run.until_moving(run.driver())
    run.cluster.alter_reassignments({FIRST.topic_partition: FIRST.replicas_after})
    theirs = run.cluster.list_reassignments()[FIRST.topic_partition]
    try:
        for _ in range(3):
            run.driver().step()
    except HaltedError as error:
        assert "somebody else is reassigning" in str(error)
    assert run.cluster.list_reassignments().get(FIRST.topic_partition) == theirs


def test_nor_does_the_watch_take_it_for_a_late_move(tmp_path: Path) -> None:
    run = redirected_by_somebody(tmp_path)
    run.cluster.alter_reassignments({FIRST.topic_partition: FIRST.replicas_after})
    submissions = run.ledger.journal(run.run_id).submissions()
    assert late_moves(run.plan, run.cluster.list_reassignments(), submissions) == ()
