"""What is in flight: one new replica of a partition at a time, within every cap, coordinators last,
settings freed.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from counterpoise.execution import Driver, batching, decide
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    Reassignment,
)
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, of_topic, own_configs, times_submitted

FIVE = "1 2 3 4 5"
made_by_hand = partial(SimulatedRun.of_moves, racks=FIVE)
ORDERS_0 = TopicPartition("orders", 0)


def watched(
    run: SimulatedRun, look: Callable[[dict[TopicPartition, Reassignment]], None]
) -> Driver:
    """Runs to the end, and shows what is in flight after each step."""
    driver = run.driver()
    driver.open()
    while (wait := driver.step()) is not None:
        look(dict(run.cluster.list_reassignments()))
        run.cluster.advance(wait)
    assert run.end(driver) is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}
    return driver


def test_two_new_replicas_of_a_partition_arrive_one_after_the_other_under_the_old_leader(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 3 size=3000000"
    run = made_by_hand(tmp_path, picture, move("orders-0", "1 2 3", "4 5 3", size=3_000_000))
    adding: list[tuple[int, ...]] = []

    def look(moving: dict[TopicPartition, Reassignment]) -> None:
        if moving:
            adding.append(moving[ORDERS_0].adding)
            partition = run.cluster.partitions[ORDERS_0]
            assert partition.leader == 1
            assert len(partition.isr) >= 3

    watched(run, look)
    assert list(dict.fromkeys(adding)) == [(5,), (4,)]


def test_the_next_reassignment_waits_while_a_replica_of_the_one_before_is_out_of_sync(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 3 size=3000000"
    run = made_by_hand(tmp_path, picture, move("orders-0", "1 2 3", "4 5 3", size=3_000_000))
    driver = run.driver()
    run.until_moving(driver)
    partition = run.cluster.partitions[ORDERS_0]
    while partition.replicas != (1, 5, 3):
        run.cluster.advance(0.5)
    partition.isr.discard(5)
    driver.step()
    assert not partition.is_moving, "replica 5 is to be kept, and is behind"
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE


def test_offsets_come_last_and_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "MAX_COORDINATOR_MOVES_IN_FLIGHT", 1)
    names = [*(f"orders-{n}" for n in range(3)), *(f"__consumer_offsets-{n}" for n in range(3))]
    picture = "\n".join(f"{name}: 1 2 3 size=2000000" for name in names)
    moves = [move(name, "1 2 3", "4 2 3", size=2_000_000) for name in sorted(names)]
    run = made_by_hand(tmp_path, picture, *moves)
    topics: list[tuple[str, int]] = []

    def look(moving: dict[TopicPartition, Reassignment]) -> None:
        assert len({tp.topic for tp in moving}) <= 1
        topics.extend((tp.topic, len(moving)) for tp in moving)

    watched(run, look)
    assert list(dict.fromkeys(topic for topic, _ in topics)) == ["orders", "__consumer_offsets"]
    assert max(count for topic, count in topics if topic == "__consumer_offsets") == 1


def test_leaders_are_elected_in_batches_and_only_where_the_wanted_one_is_in_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MAX_ELECTIONS_PER_CALL", 3)
    picture = "\n".join(f"orders-{n}: 1 2 3 @2 size=1000" for n in range(7))
    moves = [move(f"orders-{n}", "1 2 3", "1 2 3", leader=2) for n in range(7)]
    run = made_by_hand(tmp_path, picture, *moves)
    behind = run.cluster.partitions[ORDERS_0]
    behind.isr.discard(1)
    watched(run, lambda _: None)
    batches = [
        call.argument for call in run.cluster.calls if call.name == "elect_preferred_leaders"
    ]
    assert max(map(len, batches)) == 3  # type: ignore[arg-type]
    assert sum(map(len, batches)) == 7, "none was asked for twice"  # type: ignore[arg-type]


def test_settings_are_freed_on_each_broker_and_topic_as_soon_as_nothing_there_needs_them(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 size=1000000\npayments-0: 3 2 size=20000000"
    moves = [
        move("orders-0", "1 2", "4 2", size=1_000_000),
        move("payments-0", "3 2", "5 2", size=20_000_000),
    ]
    run = made_by_hand(tmp_path, picture, *moves)
    driver = run.driver()
    run.until_moving(driver)
    assert {of_topic("orders"), of_topic("payments"), at_broker(1), at_broker(4)} <= own_configs(
        run.cluster
    ).keys()
    while ORDERS_0 in run.cluster.list_reassignments():
        run.cluster.advance(driver.step() or 0)
    for _ in range(4):
        run.cluster.advance(driver.step() or 0)
    left = own_configs(run.cluster)
    assert run.cluster.list_reassignments()
    assert left.keys() & {of_topic("orders"), at_broker(1), at_broker(4)} == set()
    assert left[at_broker(5)] == {FOLLOWER_RATE: "1000000"}
    assert left[at_broker(3)] == {LEADER_RATE: "1000000"}
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert max(times_submitted(run.cluster).values()) == 1


def test_a_repair_of_two_dead_replicas_keeps_neither_for_a_reassignment_that_would_never_end(
    tmp_path: Path,
) -> None:
    picture, racks = "orders-0: 1 2 3 size=3000000", "!1 !2 3 4 5"
    repair = move("orders-0", "1 2 3", "4 5 3", leader=3, size=3_000_000)
    run = SimulatedRun.of_moves(tmp_path, picture, repair, goal=Goal.REPAIR, racks=racks)
    assert run.go() is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}
