"""Cancels that Kafka refuses, since a partition has no leader: they keep no others from it."""

from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.model.control import Control
from tests.support.plans import move
from tests.support.runs import SimulatedRun

SIZE = 3_000_000


def test_moves_that_cannot_be_cancelled_do_not_keep_others_from_it(tmp_path: Path) -> None:
    alone = move("alone-0", "2", "3", size=100 * SIZE)
    large = move("orders-0", "1 4", "3 4", size=100 * SIZE)
    picture = f"alone-0: 2 size={100 * SIZE}\norders-0: 1 4 size={100 * SIZE}"
    run = SimulatedRun.of_moves(tmp_path, picture, alone, large)

    def driver() -> Driver:
        options = ExecutionOptions(
            run.run_id, run.plan, run.rate, run.limits, max_partitions_per_call=1
        )
        return Driver(run.cluster, run.ledger, options, run.clock, run.log.append)

    made = driver()
    run.until_moving(made)
    while len(run.cluster.list_reassignments()) < 2:
        run.cluster.advance(made.step() or 0)
    run.cluster.kill_broker(2)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        made.step()
    for _ in range(20):
        wait = made.settle_step()
        if wait is None:
            break
        run.cluster.advance(wait)
    assert large.topic_partition not in run.cluster.list_reassignments(), run.log[-3:]
