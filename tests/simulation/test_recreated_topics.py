"""A topic that is deleted and made again under the same name is another topic: nothing in it is
ours.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.control import Control
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import simulated
from tests.support.plans import move
from tests.support.runs import (
    FOUR_BROKERS,
    SKEWED,
    SimulatedRun,
    own_configs,
)

# -- calls that a frozen broker holds until the topic is made again


class FreezingAt:
    """The cluster of a run, whose broker 3 freezes as it gets one kind of call, and holds it."""

    def __init__(self, simulated: SimulatedCluster, call: str) -> None:
        self._simulated, self._call = simulated, call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._simulated, name)
        if name != self._call:
            return method

        def frozen(*arguments: Any, **options: Any) -> Any:
            self._simulated.addressed_broker = 3
            self._simulated.freeze_broker(3)
            try:
                return method(*arguments, **options)
            finally:
                self._simulated.addressed_broker = None

        return frozen


def comes_late_to_a_topic_made_again(folder: Path, call: str) -> SimulatedRun:
    """Return a cancelled run; its call reaches another topic than the one it was made for."""
    moved = move("orders-0", "1 2 3", "4 2 3", size=3_000_000)
    picture = "orders-0: 1 2 3 size=3000000"
    run = SimulatedRun.of_moves(folder, picture, moved)
    run.driver().open()
    held = run.cluster.brokers[3].pending_changes
    while not held:
        run.cluster.advance(run.driver(FreezingAt(run.cluster, call)).step() or 0)
    run.cluster.delete_topic("orders")
    run.cluster.create_topic("orders", [(1, 2, 3)])
    run.cluster.partitions[moved.topic_partition].size_bytes = 600_000_000
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.repeat(run.driver().step)
    run.repeat(run.driver().settle_step, 3000)
    run.cluster.advance(600)
    run.cluster.thaw_broker(3)
    return run


def test_a_list_that_comes_late_to_a_topic_made_again_is_taken_back(tmp_path: Path) -> None:
    run = comes_late_to_a_topic_made_again(tmp_path, "alter_configs")
    assert own_configs(run.cluster)
    for _ in range(4):
        run.cluster.advance(60)
        run.restore_pending()
    assert own_configs(run.cluster) == {}
    assert run.restore_pending() == ((), ())


def test_a_move_that_comes_late_to_a_topic_made_again_is_cancelled(tmp_path: Path) -> None:
    run = comes_late_to_a_topic_made_again(tmp_path, "alter_reassignments")
    assert run.cluster.list_reassignments()
    run.repeat(run.driver().sweep_step)
    run.restore_pending()
    assert not run.cluster.list_reassignments()
    assert set(run.placement()["orders-0"][0]) == {1, 2, 3}
    assert own_configs(run.cluster) == {}


# -- brokers that give no ids (inter-broker protocol before 2.8)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks=FOUR_BROKERS)
    made.topic_ids = dict.fromkeys(made.topic_ids, "")
    let_commands_reach(made, monkeypatch)
    return made


def test_without_ids_plans_run_and_say_that_a_topic_made_again_is_not_recognised(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    shell.configure("simulated:9092")
    plan = shell.folder / "plan.json"
    goal = ("--goal", "add-brokers", "--brokers", "4")
    assert shell.type("plan", "--cluster", "demo", *goal, "--out", plan).code == 0
    document = json.loads(plan.read_text())
    assert {topic["topic_id"] for topic in document["moves"]} == {""}
    (said,) = (warning for warning in document["warnings"] if "ids" in warning)
    assert said.startswith("the brokers give no ids of 2 topics (inter-broker protocol before 2.8)")
    assert "not recognised as another" in said
    yes = ("--rate", "100MB/s", "--reason", "broker 4 is new")
    assert shell.type("approve", plan, *yes).code == 0
    executed = shell.type("execute", plan)
    assert executed.code == 0, executed.err
    assert own_configs(kafka) == {}


def test_a_topic_whose_id_brokers_do_not_tell_is_the_planned_one(tmp_path: Path) -> None:
    """Brokers with an inter-broker protocol before 2.8 have no ids; so has a plan that told one."""
    run = SimulatedRun.make(tmp_path)
    run.cluster.topic_ids.update(dict.fromkeys(run.cluster.topic_ids, ""))
    driver = run.driver()
    driver.open()
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    planned = {move.topic_partition: move.replicas_after for move in run.plan.moves}
    assert {key: run.cluster.partitions[key].replicas for key in planned} == planned
    assert own_configs(run.cluster) == {}


def test_lists_of_a_topic_that_gets_its_id_meanwhile_are_as_before_afterwards(
    tmp_path: Path,
) -> None:
    """Brokers give ids to topics when the inter-broker protocol becomes 2.8 (KIP-516)."""
    sizes = {"orders-0": 60_000_000, "orders-1": 3_000_000, "orders-2": 3_000_000}
    picture = "\n".join(f"{name}: 1 2 3 size={size}" for name, size in sizes.items())
    moves = [
        replace(move(name, "1 2 3", "4 2 3", size=size), topic_id="")
        for name, size in sizes.items()
    ]
    limits = MovementPolicy(max_moves_in_flight=2)
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, limits=limits)
    run.cluster.topic_ids["orders"] = ""
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.topic_ids["orders"] = "its-id"
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {}
