"""Lists of reassignments, and topics, that do not show yet what was submitted, cancelled or done.

Any controller answers for a list from its own state, without a check that it is the active one:
after a failover, a broker that does not know the new controller yet has it answered by the old one.
"""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterpoise.errors import HaltedError, StalePlanError
from counterpoise.execution import observe
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_REPLICAS
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from counterpoise.services import emergency_stop
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.plans import move
from tests.support.runs import (
    SimulatedRun,
    of_topic,
    own_configs,
    times_submitted,
)

SIZE = 3_000_000_000
PICTURE = f"orders-0: 1 2 3 size={SIZE}\norders-1: 1 2 3 size={SIZE}"
FIRST = move("orders-0", "1 2 3", "4 2 3", size=SIZE)
SECOND = move("orders-1", "1 2 3", "4 2 3", size=SIZE)
BOTH_TOGETHER = (1, 2, 3, 4)  # as the partition is while it moves


class Behind:
    """A cluster whose topics and lists of reassignments stay as they were at a moment."""

    def __init__(self, cluster: SimulatedCluster, *, topics: bool = True, lists: bool = True):
        self._cluster = cluster
        self._topics = cluster.describe_topics() if topics else None
        self._list = cluster.list_reassignments() if lists else None

    def show(self) -> None:
        self._topics = self._list = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def describe_topics(self, topics: Any = None) -> Any:
        if self._topics is None:
            return self._cluster.describe_topics(topics)
        return tuple(t for t in self._topics if not topics or t.topic in topics)

    def list_reassignments(self) -> Mapping[Any, Any]:
        return self._cluster.list_reassignments() if self._list is None else self._list


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind here stays so, however often an observation reads it again."""
    monkeypatch.setattr(observe, "STALE_READ_PAUSES", (0,))


def just_submitted(folder: Path, *, topics: bool = True) -> tuple[SimulatedRun, Any]:
    """Return a run, and its cluster as it was right before the first move was submitted."""
    limits = MovementPolicy(max_moves_in_flight=1)
    run = SimulatedRun.of_moves(folder, PICTURE, FIRST, SECOND, limits=limits)
    driver = run.driver()
    driver.open()
    while True:
        behind = Behind(run.cluster, topics=topics)
        driver.step()
        if run.cluster.list_reassignments():
            return run, behind
        run.cluster.advance(0.05)


def is_throttled(run: SimulatedRun) -> bool:
    listed = own_configs(run.cluster).get(of_topic("orders"), {}).get(FOLLOWER_REPLICAS, "")
    moving = run.cluster.list_reassignments()
    return all(f"{tp.partition}:4" in listed.split(",") for tp in moving)


def settle_for_a_second(run: SimulatedRun, behind: Any) -> None:
    driver = run.driver(behind)
    for _ in range(6):
        run.cluster.advance(0.15)
        if driver.settle_step() is None:
            return


def test_a_pause_right_after_a_submit_leaves_the_throttle(tmp_path: Path) -> None:
    run, behind = just_submitted(tmp_path)
    run.ask(Control.PAUSE)
    run.cluster.advance(0.5)
    run.driver(behind).step()
    assert run.cluster.list_reassignments()
    assert is_throttled(run), run.log[-3:]


@pytest.mark.parametrize("control", [None, Control.CANCEL])
def test_settling_right_after_a_submit_does_not_end_with_the_move_in_flight(
    tmp_path: Path, control: Control | None
) -> None:
    run, behind = just_submitted(tmp_path)
    if control:
        run.ask(control)
    settle_for_a_second(run, behind)
    assert run.cluster.list_reassignments()
    assert is_throttled(run), run.log[-3:]
    assert run.run.state is RunState.SETTLING, run.run.reason


# -- replicas as if a partition moved, and no list that names it


def test_a_list_that_is_behind_the_topics_neither_halts_a_run_nor_takes_its_throttle(
    tmp_path: Path,
) -> None:
    run, behind = just_submitted(tmp_path, topics=False)
    driver = run.driver(behind)
    for _ in range(5):
        run.cluster.advance(0.3)
        driver.step()
        assert is_throttled(run), run.log[-3:]
    assert set(times_submitted(run.cluster).values()) == {1}
    while run.driver().step() is not None:
        run.cluster.advance(300)
    assert run.end(run.driver()) is RunState.DONE


def replicas_of_both(run: SimulatedRun) -> None:
    """Somebody gives the partition that the run moves four replicas, for good."""
    partition = run.cluster.partitions[FIRST.topic_partition]
    run.cluster.alter_reassignments({FIRST.topic_partition: None})
    partition.replicas, partition.isr = BOTH_TOGETHER, set(BOTH_TOGETHER)


def test_replicas_that_somebody_leaves_as_if_it_moved_halt_the_run(
    tmp_path: Path,
) -> None:
    run, _ = just_submitted(tmp_path)
    run.cluster.advance(run.driver().step() or 0)
    replicas_of_both(run)
    with pytest.raises(HaltedError, match="somebody else moved 1 partition"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert own_configs(run.cluster) == {}
    assert run.cluster.partitions[FIRST.topic_partition].replicas == BOTH_TOGETHER
    with pytest.raises(StalePlanError, match="orders-0"):
        run.driver().open()


# -- a cancel that does not show yet


def test_the_order_that_a_cancel_leaves_is_restored_also_where_it_shows_a_moment_later(
    tmp_path: Path,
) -> None:
    run, _ = just_submitted(tmp_path)
    run.cluster.advance(2)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.driver().step()
    behind: Any = Behind(run.cluster)
    run.driver().settle_step()
    assert not run.cluster.list_reassignments(), "it is cancelled"
    settle_for_a_second(run, behind)
    assert run.end(run.driver()) is RunState.CANCELLED
    assert run.cluster.partitions[FIRST.topic_partition].replicas == FIRST.replicas_before


def test_a_stop_without_the_ledger_leaves_the_throttle_until_the_list_shows_what_it_cancels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, behind = just_submitted(tmp_path, topics=False)
    began = run.cluster.now

    def sleep(seconds: float) -> None:
        assert is_throttled(run)
        run.cluster.advance(seconds)
        if run.cluster.now - began > 4:
            behind.show()

    monkeypatch.setattr(observe, "STALE_READ_PAUSES", (1, 1, 1, 1, 1))
    for module in (emergency_stop, observe):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(emergency_stop, "now_utc", run.clock)
    emergency_stop.stop_from_plan(behind, run.plan, run.log.append)
    assert not run.cluster.list_reassignments()
