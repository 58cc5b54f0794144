"""A connection that may read the configs of the plan's topics alone carries the plan out."""

from pathlib import Path

from counterpoise.model.run import RunState
from counterpoise.model.run_progress import Condition
from tests.support.plans import move
from tests.support.runs import SimulatedRun, own_configs

FIVE = "1 2 3 4 5"
PICTURE = "orders-0: 1 2 3 size=9000000\nother-0: 1 2 5 size=1000\nlonely-0: 5 size=1000"


def without_other(folder: Path) -> SimulatedRun:
    """Return a run over orders whose connection may not read the configs of the other topics."""
    moves = [move("orders-0", "1 2 3", "4 2 3", size=9_000_000)]
    run = SimulatedRun.of_moves(folder, PICTURE, *moves, racks=FIVE)
    run.cluster.unreadable_topics = {"other", "lonely"}
    return run


def test_a_partition_outside_the_plan_that_falls_behind_does_not_stop_a_run(tmp_path: Path) -> None:
    run = without_other(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.partitions.pop(next(tp for tp in run.cluster.partitions if tp.topic == "lonely"))
    run.cluster.kill_broker(5)
    run.cluster.advance(20)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert run.placement()["orders-0"] == ((4, 2, 3), 4)
    assert own_configs(run.cluster) == {}
    events = [e for e in run.events() if e.kind == "not readable"]
    assert len(events) == 1 and "of other, outside the plan" in events[0].text


def test_a_partition_without_a_leader_is_seen_all_the_same(tmp_path: Path) -> None:
    run = without_other(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(5)
    run.cluster.advance(20)
    run.cluster.advance(driver.step() or 0)
    lonely = {
        condition
        for condition, names in run.run_progress().conditions.items()
        if any(name.startswith("lonely-") for name in names)
    }
    assert lonely == {Condition.UNAVAILABLE}
