"""Runs of goals that change the size of replica sets, or that work around dead brokers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError, RefusedError
from counterpoise.execution import Driver
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.plan import Move
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.crashes import MUTATING, ended_after_crashes
from tests.support.ledger_view import submit_was_not_answered
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    own_configs,
    times_submitted,
)

ORDERS = TopicPartition("orders", 0)
HEALTHY = "orders-0: 1 2 3 size=3000000\norders-1: 2 3 1 size=3000000\npayments-0: 3 size=2000000"
# Broker 4 is dead; it was the preferred leader of the one and a follower of the other.
WITHOUT_4 = "orders-0: 4 1 2 size=3000000\norders-1: 1 2 4 size=3000000"
FOUR_IS_DEAD = "1=a 2=b 3=c !4=c"

RAISES = (
    move("orders-0", "1 2 3", "1 2 3 4", size=3_000_000),
    move("payments-0", "3", "2 3 1 4", size=2_000_000),
)
LOWERS = (move("orders-0", "1 2 3", "2 1"), move("orders-1", "2 3 1", "3 1"))
BOTH_WAYS = (move("orders-0", "1 2 3", "2 1"), move("payments-0", "3", "3 4", size=2_000_000))
REPAIRS = (
    move("orders-0", "4 1 2", "1 2 3", leader=1, size=3_000_000),
    move("orders-1", "1 2 4", "3 1 2", size=3_000_000),
)
DEMOTES = (move("orders-0", "1 2 3", "3 2 1"), move("orders-1", "2 3 1", "3 2 1"))


def made(
    folder: Path,
    goal: Goal,
    *moves: Move,
    picture: str = HEALTHY,
    racks: str = FOUR_BROKERS,
    brokers: tuple[int, ...] = (),
    factor: int | None = None,
) -> SimulatedRun:
    folder.mkdir(exist_ok=True)
    plan = plan_by_hand(
        cluster(picture, racks=racks), goal, *moves, brokers=brokers, replication_factor=factor
    )
    return SimulatedRun.make(folder, picture, racks=racks, plan=plan)


def raising(folder: Path) -> SimulatedRun:
    return made(folder, Goal.REPLICATION_FACTOR, *RAISES, factor=4)


def lowering(folder: Path) -> SimulatedRun:
    return made(folder, Goal.REPLICATION_FACTOR, *LOWERS, factor=2)


def repairing(folder: Path) -> SimulatedRun:
    return made(folder, Goal.REPAIR, *REPAIRS, picture=WITHOUT_4, racks=FOUR_IS_DEAD)


RUNS: dict[str, Callable[[Path], SimulatedRun]] = {
    "raise": raising,
    "lower": lowering,
    "both ways": lambda folder: made(folder, Goal.REPLICATION_FACTOR, *BOTH_WAYS, factor=2),
    "repair": repairing,
    "drain of a dead broker": lambda folder: made(
        folder, Goal.REMOVE_BROKERS, *REPAIRS, picture=WITHOUT_4, racks=FOUR_IS_DEAD, brokers=(4,)
    ),
    "demote": lambda folder: made(folder, Goal.DEMOTE_BROKERS, *DEMOTES, brokers=(1,)),
}


def watch_in_sync_replicas(cluster: SimulatedCluster) -> None:
    """Fail the test at a request that leaves fewer in-sync replicas than it may (promise 6)."""
    submit = cluster.alter_reassignments

    def watched(targets: Any, **options: Any) -> Any:
        for key, target in targets.items():
            partition = cluster.partitions[key]
            if target is not None and set(target) != set(partition.target):
                staying = {b for b in target if b in partition.isr or b not in partition.replicas}
                assert len(staying) >= min(len(partition.isr), len(target)), f"{key} to {target}"
        return submit(targets, **options)

    cluster.alter_reassignments = watched  # type: ignore[method-assign]


def until_moving(run: SimulatedRun, driver: Driver) -> None:
    driver.open()
    while True:
        wait = driver.step()
        if run.cluster.list_reassignments():
            return
        assert wait is not None, "nothing ever moved"
        run.cluster.advance(wait)


def mutating_calls(run: SimulatedRun) -> list[str]:
    return [call.name for call in run.cluster.calls if call.name in MUTATING]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_at_the_plan_with_configs_as_before_and_in_sync_replicas_kept(
    tmp_path: Path, name: str
) -> None:
    run = RUNS[name](tmp_path)
    watch_in_sync_replicas(run.cluster)
    before = own_configs(run.cluster)
    assert run.go() is RunState.DONE
    assert run.run.reason == ""
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == before
    assert max(times_submitted(run.cluster).values()) == 1


@pytest.mark.parametrize("name", ["raise", "lower", "repair", "demote"])
def test_a_crash_before_or_after_any_write_loses_nothing_and_moves_nothing_twice(
    tmp_path: Path, name: str
) -> None:
    crashes = -1
    # Every write of a run is crashed at in test_execution.py.
    for crashes, run in enumerate(ended_after_crashes(RUNS[name](tmp_path), every=3)):
        assert run.placement() == run.planned_placement(), f"crash {crashes}"
        assert own_configs(run.cluster) == {}, f"crash {crashes}"
        assert max(times_submitted(run.cluster).values()) == 1, f"crash {crashes}"
    assert crashes > 4


def test_the_number_of_replicas_is_guarded_by_the_cluster_but_for_the_goal_to_change_it(
    tmp_path: Path,
) -> None:
    guarded, lifted = repairing(tmp_path / "guarded"), lowering(tmp_path / "lifted")
    for run, may_change in ((guarded, False), (lifted, True)):
        run.go()
        calls = [call for call in run.cluster.calls if call.name == "alter_reassignments"]
        assert {call.options["may_change_replication_factor"] for call in calls} == {may_change}


def test_a_plan_that_was_not_for_another_factor_cannot_change_it(tmp_path: Path) -> None:
    run = made(tmp_path, Goal.REBALANCE, *LOWERS)
    driver = run.driver()
    driver.open()
    with pytest.raises(HaltedError, match="INVALID_REPLICATION_FACTOR"):
        run.repeat(driver.step)
    assert run.cluster.partitions[ORDERS].replicas == (1, 2, 3)


def test_lowering_copies_nothing_and_touches_no_config(tmp_path: Path) -> None:
    run = lowering(tmp_path)
    run.go()
    assert mutating_calls(run) == ["alter_reassignments", "elect_preferred_leaders"]
    assert run.owned_keys() == ()


def test_replicas_are_given_up_only_when_all_copies_have_arrived(tmp_path: Path) -> None:
    run = RUNS["both ways"](tmp_path)
    until_moving(run, run.driver())
    assert set(run.cluster.list_reassignments()) == {TopicPartition("payments", 0)}
    assert run.cluster.partitions[ORDERS].replicas == (1, 2, 3)


def test_a_replica_that_lags_is_waited_for_before_another_one_is_given_up(tmp_path: Path) -> None:
    run = lowering(tmp_path)
    watch_in_sync_replicas(run.cluster)
    run.cluster.partitions[ORDERS].isr = {1, 3}  # 2 is to stay
    driver = run.driver()
    driver.open()
    driver.step()
    assert run.cluster.partitions[ORDERS].replicas == (1, 2, 3)
    assert run.cluster.partitions[TopicPartition("orders", 1)].replicas == (3, 1)
    run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.DONE
    assert run.placement() == run.planned_placement()


def test_a_min_isr_that_was_raised_meanwhile_halts_the_run_before_it_gives_up_a_replica(
    tmp_path: Path,
) -> None:
    run = lowering(tmp_path)
    before = run.placement()
    topic = ConfigResource(ConfigResourceType.TOPIC, "orders")
    run.cluster.alter_configs(
        [ConfigChange(topic, "min.insync.replicas", ConfigOperation.SET, "3")]
    )
    driver = run.driver()
    driver.open()
    with pytest.raises(HaltedError, match=r"fewer replicas than min\.insync\.replicas: orders-0"):
        driver.step()
    run.repeat(driver.settle_step)
    assert run.placement() == before


def test_a_raise_whose_destination_dies_is_cancelled_and_put_back_in_order(tmp_path: Path) -> None:
    run = raising(tmp_path)
    before = run.placement()
    driver = run.driver()
    until_moving(run, driver)
    run.cluster.kill_broker(4)
    with pytest.raises(HaltedError, match="broker 4 is dead"):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert run.placement() == before
    run.cluster.restart_broker(4)
    run.cluster.advance(60)
    assert run.go() is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}


def test_a_lowering_that_can_no_longer_end_is_cancelled_and_put_back_in_order(
    tmp_path: Path,
) -> None:
    run = lowering(tmp_path)
    driver = run.driver()
    driver.open()
    run.cluster.kill_broker(2)
    late = {m.topic_partition: m.replicas_after for m in LOWERS[:1]}
    submit_was_not_answered(run.ledger, run.run_id, late)  # the call came late
    run.cluster.alter_reassignments(late, may_change_replication_factor=True)
    with pytest.raises(HaltedError, match="broker 2 is dead"):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.cluster.partitions[ORDERS].replicas == (1, 2, 3)
    assert not run.cluster.list_reassignments()


def test_a_broker_that_is_being_emptied_may_die_on_the_way(tmp_path: Path) -> None:
    drains = (
        move("orders-0", "1 2 3", "4 2 3", size=3_000_000),
        move("orders-1", "2 3 1", "2 3 4", size=3_000_000),
    )
    run = made(tmp_path, Goal.REMOVE_BROKERS, *drains, brokers=(1,))
    run.limits = MovementPolicy(max_moves_in_flight=1)
    driver = run.driver()
    until_moving(run, driver)
    run.cluster.kill_broker(1)
    run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.DONE
    assert run.run.reason.startswith("1 config key of dead brokers to restore")
    assert run.placement() == run.planned_placement()
    assert set(own_configs(run.cluster)) == {ConfigResource(ConfigResourceType.BROKER, "1")}


def test_a_dead_broker_that_stays_may_be_last_in_a_new_order_but_not_first(tmp_path: Path) -> None:
    demotes = (move("orders-0", "4 1 2", "1 2 4", leader=1),)
    run = made(
        tmp_path / "last",
        Goal.DEMOTE_BROKERS,
        *demotes,
        picture=WITHOUT_4,
        racks=FOUR_IS_DEAD,
        brokers=(4,),
    )
    assert run.go() is RunState.DONE
    assert run.placement()["orders-0"] == ((1, 2, 4), 1)
    promotes = (move("orders-1", "1 2 4", "4 1 2"),)
    run = made(tmp_path / "first", Goal.LEADERS, *promotes, picture=WITHOUT_4, racks=FOUR_IS_DEAD)
    with pytest.raises(RefusedError, match="broker 4 is dead"):
        run.driver().open()


def test_a_wanted_leader_that_dies_before_its_election_halts_the_run(tmp_path: Path) -> None:
    run = RUNS["demote"](tmp_path)
    driver = run.driver()
    driver.open()
    driver.step()  # the new order
    run.cluster.kill_broker(3)
    with pytest.raises(HaltedError, match="broker 3 is dead"):
        run.repeat(driver.step)


def test_a_partition_that_nobody_leads_halts_the_run_and_its_move_is_cancelled(
    tmp_path: Path,
) -> None:
    run = made(
        tmp_path, Goal.REMOVE_BROKERS, move("payments-0", "3", "4", size=2_000_000), brokers=(3,)
    )
    run.cluster.kafka_version = (4, 0)  # from 4.1 on Kafka refuses the cancel
    driver = run.driver()
    until_moving(run, driver)
    run.cluster.kill_broker(3)  # had the only copy
    with pytest.raises(HaltedError, match="no leader to copy from: payments-0"):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert run.placement()["payments-0"] == ((3,), None)
    assert not run.cluster.list_reassignments()
