"""The lists of throttled replicas name what moves and what moves next, and nothing else."""

from pathlib import Path

import pytest

from counterpoise.execution import Driver, batching
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LIST_KEYS,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.simulated_kafka import configs
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.plans import move
from tests.support.runs import SimulatedRun, of_topic, own_configs

FIVE = "1 2 3 4 5"
ORDERS = of_topic("orders")
EIGHT = "\n".join(f"orders-{p}: 1 2 3 size=5000000" for p in range(8))
ONE_BY_ONE = MovementPolicy(max_moves_in_flight=1)


def moving_to_four(folder: Path, limits: MovementPolicy = ONE_BY_ONE) -> SimulatedRun:
    moves = (move(f"orders-{p}", "1 2 3", "4 2 3", size=5_000_000) for p in range(8))
    return SimulatedRun.of_moves(folder, EIGHT, *moves, racks=FIVE, limits=limits)


def listed(simulated: SimulatedCluster, key: str = LEADER_REPLICAS) -> set[int]:
    """Return the partitions of orders with an entry in the list."""
    value = simulated.configs.dynamic.get(ORDERS, {}).get(key, "")
    return {int(entry.partition(":")[0]) for entry in value.split(",") if entry}


def in_flight(simulated: SimulatedCluster) -> set[int]:
    return {tp.partition for tp in simulated.list_reassignments()}


def steps(run: SimulatedRun, driver: Driver) -> int:
    """Take steps to the end, and compare lists and moves after each; return how many there were."""
    driver.open()
    count = 0
    while (wait := driver.step()) is not None:
        count += 1
        moving = in_flight(run.cluster)
        for key in LIST_KEYS:
            others = listed(run.cluster, key) - moving
            assert len(others) <= 1, f"{key} names {others} beside {moving} that move"
        run.cluster.advance(wait)
    return count


def test_lists_name_what_moves_and_what_moves_next(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    driver = run.driver()
    steps(run, driver)
    assert run.end(driver) is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}


def test_a_batch_costs_one_config_call(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    assert run.go() is RunState.DONE
    calls = [call for call in run.cluster.calls if call.name == "alter_configs"]
    submitted = [call for call in run.cluster.calls if call.name == "alter_reassignments"]
    assert len(submitted) == 8
    assert len(calls) == 8 + 1, "one for each batch, and one that restores"


def test_a_replica_that_falls_behind_after_its_move_is_not_throttled(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    (first,) = in_flight(run.cluster)
    while in_flight(run.cluster) in ({first}, set()):
        run.cluster.advance(driver.step() or 0)
    for broker_id in (1, 2, 3, 4):
        for key in LIST_KEYS:
            assert not run.cluster.configs.throttles("orders", first, broker_id, key)
    waiting = set(range(8)) - in_flight(run.cluster) - {first}
    assert not waiting & listed(run.cluster)


def test_the_ledger_knows_each_entry_that_is_ours(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    driver = run.driver()
    driver.open()
    while (wait := driver.step()) is not None:
        for owned in run.owned_keys():
            if owned.key in LIST_KEYS and in_flight(run.cluster):
                value = run.cluster.configs.dynamic[ORDERS].get(owned.key, "")
                assert set(value.split(",")) - {""} <= set(owned.written)
        run.cluster.advance(wait)


def test_entries_of_others_stay_where_ours_come_and_go(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    run.cluster.alter_configs(
        [ConfigChange(ORDERS, LEADER_REPLICAS, ConfigOperation.SET, "7:1,7:2")]
    )
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.alter_configs(
        [ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.APPEND, "6:3")]
    )
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {
        ORDERS: {LEADER_REPLICAS: "7:1,7:2", FOLLOWER_REPLICAS: "6:3"}
    }


def test_an_entry_that_nothing_in_flight_needs_may_be_removed_by_anybody(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path, MovementPolicy(max_moves_in_flight=2))
    driver = run.driver()
    run.until_moving(driver)
    waiting = sorted(set(range(8)) - in_flight(run.cluster))[0]
    for key, broker_ids in ((LEADER_REPLICAS, (1, 2, 3)), (FOLLOWER_REPLICAS, (4,))):
        entries = ",".join(f"{waiting}:{broker_id}" for broker_id in broker_ids)
        run.cluster.alter_configs([ConfigChange(ORDERS, key, ConfigOperation.SUBTRACT, entries)])
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert "throttle gap" not in run.event_kinds()


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_removed_entry_that_a_move_in_flight_needs_is_told_and_set_again(
    tmp_path: Path, at_once: int
) -> None:
    run = moving_to_four(tmp_path, MovementPolicy(max_moves_in_flight=at_once))
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.advance(driver.step() or 0)
    first, *others = sorted(in_flight(run.cluster))
    assert len(others) == at_once - 1
    gone = ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SUBTRACT, f"{first}:4")
    run.cluster.alter_configs([gone])
    run.cluster.advance(driver.step() or 0)
    assert run.cluster.configs.throttles("orders", first, 4, FOLLOWER_REPLICAS)
    assert "throttle gap" in run.event_kinds()


def test_what_finishes_while_a_run_settles_keeps_its_throttle(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    (first,) = in_flight(run.cluster)
    observations = 0
    while (wait := driver.settle_step()) is not None:
        if first in in_flight(run.cluster):
            observations += 1
            assert run.cluster.configs.throttles("orders", first, 4, FOLLOWER_REPLICAS)
        run.cluster.advance(wait)
    assert observations > 1
    assert own_configs(run.cluster) == {}


def test_a_pause_takes_back_what_the_next_batch_was_listed_for(tmp_path: Path) -> None:
    run = moving_to_four(tmp_path)
    driver = run.driver()
    driver.open()
    while not listed(run.cluster):
        run.cluster.advance(driver.step() or 0)
    run.ask(Control.PAUSE)
    for _ in range(4):
        run.cluster.advance(driver.step() or 0)
    assert own_configs(run.cluster) == {}
    assert TopicPartition("orders", 0) not in run.cluster.list_reassignments()


def test_entries_of_a_partition_with_two_steps_stay_between_them(tmp_path: Path) -> None:
    picture = "orders-0: 1 2 3 size=3000000\norders-1: 1 2 3 size=3000000"
    moves = [move(f"orders-{p}", "1 2 3", "4 5 3", size=3_000_000) for p in range(2)]
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, racks=FIVE, limits=ONE_BY_ONE)
    assert run.go() is RunState.DONE
    appended = [
        change
        for call in run.cluster.calls
        if call.name == "alter_configs"
        for change in call.argument  # type: ignore[attr-defined]
        if change.operation is ConfigOperation.APPEND and change.key == FOLLOWER_REPLICAS
    ]
    assert [change.value.count(":") for change in appended] == [2, 2]


def test_a_topic_whose_lists_can_name_a_part_of_its_moves_goes_in_more_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`0:1,0:2,0:3,` of 8 moves are 96 characters; 60 of them, and 8 of others, are let in here."""
    for module in (batching, configs):
        monkeypatch.setattr(module, "MAX_VALUE_CHARACTERS", 60)
    sizes = {p: 1_000_000 * (1 + 5 * (p % 2)) for p in range(8)}  # half of a batch ends earlier
    picture = "\n".join(f"orders-{p}: 1 2 3 size={size}" for p, size in sizes.items())
    moves = (move(f"orders-{p}", "1 2 3", "4 2 3", size=size) for p, size in sizes.items())
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, racks=FIVE)
    theirs = {LEADER_REPLICAS: "98:7,99:7"}
    run.cluster.configs.dynamic[ORDERS] = dict(theirs)
    assert run.go() is RunState.DONE
    assert "config change refused" not in run.event_kinds()
    calls = [call for call in run.cluster.calls if call.name == "alter_reassignments"]
    assert len(calls) > 1
    assert own_configs(run.cluster) == {ORDERS: theirs}
