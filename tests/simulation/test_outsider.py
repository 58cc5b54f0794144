"""What breaks the promises on an ordinary night, each as a test that fails today."""

from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_RATE
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from tests.simulation.test_back_off_and_halts import (
    BACK_OFF,
    beside_another_topic,
    lose_isr,
    rate_set,
)
from tests.support.plans import move
from tests.support.promises import Watch
from tests.support.runs import SimulatedRun, at_broker

FIRST = TopicPartition("orders", 0)
MB, GIB = 1_000_000, 1 << 30


# -- retention


@pytest.mark.parametrize(
    ("rate", "planned", "arrived", "deleted", "left_at_destination"),
    [
        pytest.param(5_000_000, 8 * GIB, 3 * GIB, GIB, 2 * GIB, id="one segment, as every hour"),
        pytest.param(1_000_000, 600 * MB, 250 * MB, 300 * MB, 0, id="somebody lowers retention"),
    ],
)
def test_segments_that_retention_deletes_during_a_copy_are_no_stall(
    tmp_path: Path, rate: int, planned: int, arrived: int, deleted: int, left_at_destination: int
) -> None:
    """The leader and the copy lose the same oldest bytes: no more is left to copy than before, and
    bytes go on arriving at the full rate.
    """
    run = SimulatedRun.of_moves(
        tmp_path, f"orders-0: 1 2 size={planned}", move("orders-0", "1 2", "4 2", size=planned)
    )
    run.rate = rate
    run.ledger.record_decision(run.approval())
    driver = run.driver()
    run.until_moving(driver)
    partition = run.cluster.partitions[FIRST]
    while partition.bytes_on(4) < arrived:
        run.cluster.advance(driver.step() or 0)
    partition.size_bytes, partition.copied[4] = planned - deleted, float(left_at_destination)
    run.repeat(driver.step, max_steps=3_000)
    assert run.end(driver) is RunState.DONE


# -- rolling restarts


def test_a_broker_that_restarts_has_its_patience_to_catch_up(tmp_path: Path) -> None:
    """ "Each broker has that time to come back, and again to catch up" (15 min)."""
    request = PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("other",)))
    picture = "\n".join(f"orders-{p}: 1 2 3 size=3000000000" for p in range(8))
    run = SimulatedRun.make(tmp_path, picture + "\nother-0: 1 2 3 size=1000", request=request)
    driver = run.driver()
    run.until_moving(driver)

    def go_on(seconds: float) -> None:
        end = run.cluster.now + seconds
        while run.cluster.now < end:
            run.cluster.advance(driver.step() or 0)

    run.cluster.kill_broker(3)
    go_on(5 * 60)
    run.cluster.restart_broker(3)
    other = run.cluster.partitions[TopicPartition("other", 0)]
    other.size_bytes, other.copied[3] = 1e12, 0.0  # it missed a lot
    go_on(13 * 60)
    other.isr.add(3)
    go_on(60)


# -- throttles of others


def test_a_stall_under_a_rate_that_somebody_had_set_before_names_that_rate(
    tmp_path: Path,
) -> None:
    """A throttle that an earlier tool left on one broker is below what producers write."""
    picture = "orders-0: 1 2 size=3000000 rate=200000"
    limits = MovementPolicy(stall_patience=timedelta(seconds=30))
    run = SimulatedRun.of_moves(
        tmp_path, picture, move("orders-0", "1 2", "4 2", size=3_000_000), limits=limits
    )
    run.cluster.configs.dynamic[at_broker(4)] = {FOLLOWER_RATE: "100000"}
    with pytest.raises(HaltedError) as halted:
        run.go()
    assert "than 1.0 MB/s lets through" not in str(halted.value), str(halted.value)


# -- the throttle back-off


def test_the_back_off_slows_a_run_whose_rate_was_raised_by_a_request(tmp_path: Path) -> None:
    """Approved carefully at 1 MB/s, raised to 20 MB/s at night: clients lose in-sync replicas."""
    picture = "\n".join(f"orders-{p}: 1 2 3 size=3000000000" for p in range(8))
    request = PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("other",)))
    run = SimulatedRun.make(tmp_path, picture + "\nother-0: 1 2 3 size=1000", request=request)
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.RATE, rate_bytes_per_second=20_000_000)
    run.cluster.advance(driver.step() or 0)
    lose_isr(run)
    for _ in range(60):  # 2 min; a level takes 30 s
        run.cluster.advance(driver.step() or 0)
    assert run.run_progress().has_isr_loss
    assert rate_set(run) < 20_000_000


def test_a_partition_that_was_out_of_sync_at_the_start_slows_a_run_when_it_is_lost_again(
    tmp_path: Path,
) -> None:
    """A run of days began just after a restart, while replicas were still catching up."""
    run = beside_another_topic(tmp_path, MovementPolicy(throttle_back_off=BACK_OFF))
    other = run.cluster.partitions[TopicPartition("other", 0)]
    other.isr.discard(3)
    other.copied[3] = 0.0
    driver = run.driver()
    driver.open()
    other.isr.add(3)
    run.until_moving(driver)
    run.cluster.advance(driver.step() or 0)
    assert other.isr == {1, 2, 3}
    lose_isr(run)
    for _ in range(6):
        run.cluster.advance(driver.step() or 0)
    assert rate_set(run) < 1_000_000


def test_a_rate_that_a_request_lowered_again_below_producers_is_no_stall(tmp_path: Path) -> None:
    """Approved at 300 kB/s, raised to 2 MB/s for the night, lowered to 500 kB/s in the morning."""
    picture = "orders-0: 1 2 size=300000000 rate=600000"
    limits = MovementPolicy(stall_patience=timedelta(seconds=30))
    run = SimulatedRun.of_moves(
        tmp_path, picture, move("orders-0", "1 2", "4 2", size=300_000_000), limits=limits
    )
    run.rate = 300_000
    run.ledger.record_decision(run.approval())
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.RATE, rate_bytes_per_second=2_000_000)
    for _ in range(15):
        run.cluster.advance(driver.step() or 0)
    run.ask(Control.RATE, rate_bytes_per_second=500_000)
    for _ in range(60):
        run.cluster.advance(driver.step() or 0)


# -- throttles on the way


def test_both_ends_are_throttled_when_a_replica_that_has_arrived_leads_before_the_other(
    tmp_path: Path,
) -> None:
    """Two of three brokers are lost; both are replaced at once, one copy is done first, and Kafka's
    own auto.leader.rebalance has it lead: it is the first of the target.
    """
    picture = "orders-0: 3 1 2 @3 size=30000000"
    run = SimulatedRun.of_moves(
        tmp_path,
        picture,
        move("orders-0", "3 1 2", "4 5 3", leader=3, size=30_000_000),
        goal=Goal.REPAIR,
        racks="!1=a !2=b 3=c 4=d 5=e",
    )
    watch = Watch(run.cluster)
    watch.plans.append(run.plan)
    watch.highest_rate = run.rate
    partition = run.cluster.partitions[FIRST]
    partition.isr = {3}
    driver = run.driver()
    run.until_moving(driver)
    assert set(partition.adding) == {4, 5}
    partition.copied[4] = partition.size_bytes
    run.cluster.advance(1)
    run.cluster.elect_preferred_leaders([FIRST])
    assert partition.leader == 4
    assert partition.is_moving
    for _ in range(3):
        run.cluster.advance(driver.step() or 0)
    assert partition.is_moving
    watch.check()


def test_a_partition_that_took_no_writes_at_the_start_halts_a_run_when_it_stops_again(
    tmp_path: Path,
) -> None:
    """A repair began while it was offline; it came back, and then the run's copies go on for hours
    while it is offline once more.
    """
    limits = MovementPolicy(dead_broker_patience=timedelta(seconds=10))
    run = SimulatedRun.of_moves(
        tmp_path,
        "orders-0: 1 2 size=300000000\nother-0: 2 3 size=1000",
        move("orders-0", "1 2", "4 2", size=300_000_000),
        goal=Goal.REPAIR,
        limits=limits,
    )
    other = run.cluster.partitions[TopicPartition("other", 0)]
    other.leader = None
    driver = run.driver()
    driver.open()
    other.leader = 2
    run.until_moving(driver)
    for _ in range(5):
        run.cluster.advance(driver.step() or 0)
    other.leader = None
    with pytest.raises(HaltedError, match="other-0"):
        for _ in range(30):
            run.cluster.advance(driver.step() or 0)


# -- ISR flapping


def test_a_replica_outside_the_plan_that_flaps_slows_the_run(tmp_path: Path) -> None:
    """20 s out of sync, 10 s in sync, for ten minutes: the usual sign of brokers at their limit."""
    picture = "\n".join(f"orders-{p}: 1 2 3 size=3000000000" for p in range(8))
    request = PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("other",)))
    run = SimulatedRun.make(tmp_path, picture + "\nother-0: 1 2 3 size=1000", request=request)
    run.rate = 20_000_000
    run.ledger.record_decision(run.approval())
    driver = run.driver()
    run.until_moving(driver)
    other = run.cluster.partitions[TopicPartition("other", 0)]
    lose_isr(run)
    for _ in range(20):
        for is_in_sync in (False, True):
            other.isr = {1, 2, 3} if is_in_sync else {1, 2}
            until = run.cluster.now + (10 if is_in_sync else 20)
            while run.cluster.now < until:
                run.cluster.advance(driver.step() or 0)
                other.isr = {1, 2, 3} if is_in_sync else {1, 2}
    assert rate_set(run) < 20_000_000


def test_a_lowered_run_is_as_fast_as_asked_one_calm_time_after_one_step_of_the_back_off(
    tmp_path: Path,
) -> None:
    """Approved at 20 MB/s, lowered to 2 MB/s by a request: one step is the lowest rate already."""
    picture = "\n".join(f"orders-{p}: 1 2 3 size=3000000000" for p in range(8))
    request = PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("other",)))
    run = SimulatedRun.make(tmp_path, picture + "\nother-0: 1 2 3 size=1000", request=request)
    run.rate = 20_000_000
    run.ledger.record_decision(run.approval())
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.RATE, rate_bytes_per_second=2_000_000)
    run.cluster.advance(driver.step() or 0)

    def go_on(seconds: float) -> None:
        end = run.cluster.now + seconds
        while run.cluster.now < end:
            run.cluster.advance(driver.step() or 0)

    lose_isr(run)
    go_on(200)
    assert rate_set(run) == 1_000_000
    run.cluster.partitions[TopicPartition("other", 0)].isr.add(3)
    go_on(180)  # calm_after is 2 min
    assert rate_set(run) == 2_000_000
