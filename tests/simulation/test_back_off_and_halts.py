"""What slows a run down or stops it: ISR loss, stalls, foreign changes, full disks, upgrades.

Each halt says why.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError, RefusedError
from counterpoise.execution import Driver, back_off, decide
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    BrokerVersion,
    ConfigChange,
    ConfigOperation,
    LogDirDescription,
)
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import SKEWED, SimulatedRun, at_broker, of_topic, own_configs

OTHER = TopicPartition("other", 0)
WITH_OTHER = SKEWED + "\nother-0: 1 2 3 size=1000"


@pytest.fixture
def quick_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (back_off, decide):
        monkeypatch.setattr(module, "LOWEST_RATE", 250_000)
    monkeypatch.setattr(decide, "HALT_AFTER", timedelta(seconds=10))
    monkeypatch.setattr(back_off, "STEP_AFTER", timedelta(seconds=4))
    monkeypatch.setattr(back_off, "CALM_AFTER", timedelta(seconds=4))


def beside_another_topic(folder: Path, limits: MovementPolicy | None = None) -> SimulatedRun:
    request = PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("other",)))
    return SimulatedRun.make(folder, WITH_OTHER, request=request, limits=limits)


def lose_isr(run: SimulatedRun) -> None:
    """A follower of a partition outside the plan falls behind, and stays behind."""
    partition = run.cluster.partitions[OTHER]
    partition.isr.discard(3)
    partition.copied[3] = 0.0
    run.cluster.alter_configs(
        [
            ConfigChange(at_broker(3), FOLLOWER_RATE, ConfigOperation.SET, "0"),
            ConfigChange(of_topic("other"), FOLLOWER_REPLICAS, ConfigOperation.SET, "0:3"),
        ]
    )


def restore_isr(run: SimulatedRun) -> None:
    run.cluster.partitions[OTHER].isr.add(3)


def rate_set(run: SimulatedRun) -> int:
    return int(own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE])


@pytest.mark.usefixtures("quick_back_off")
def test_isr_loss_slows_the_run_level_by_level_and_without_it_the_run_goes_faster_again(
    tmp_path: Path,
) -> None:
    run = beside_another_topic(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    lose_isr(run)
    rates = [rate_set(run)]
    while rates[-1] > 500_000:
        run.cluster.advance(driver.step() or 0)
        rates.append(rate_set(run))
    restore_isr(run)
    while rates[-1] < 1_000_000:
        run.cluster.advance(driver.step() or 0)
        rates.append(rate_set(run))
    assert list(dict.fromkeys(rates)) == [1_000_000, 500_000]
    throttle_back_off = [event.text for event in run.events() if event.kind == "brake"]
    assert [text.split(",")[0] for text in throttle_back_off] == ["slower", "faster"]
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE


def test_a_rate_below_the_inflow_is_an_alarm_first_then_a_halt_that_cancels(
    tmp_path: Path,
) -> None:
    limits = MovementPolicy(dead_broker_patience=timedelta(seconds=40))
    picture = "orders-0: 1 2 size=3000000 rate=2000000\npayments-0: 3 2 size=6000000"
    moves = [
        move("orders-0", "1 2", "4 2", size=3_000_000),
        move("payments-0", "3 2", "3 1", size=6_000_000),
    ]
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, limits=limits)
    driver = run.driver()
    run.until_moving(driver)
    with pytest.raises(
        HaltedError,
        match=r"1 partition has come no nearer to the end of its copy: .*for 40 s.*higher rate",
    ):
        run.repeat(driver.step)
    assert run.event_kinds().count("stall") == 1
    assert run.end(driver) is RunState.HALTED
    assert run.cluster.partitions[TopicPartition("orders", 0)].replicas == (1, 2)
    assert run.cluster.partitions[TopicPartition("payments", 0)].replicas == (3, 1), (
        "what does not stall finishes"
    )
    assert own_configs(run.cluster) == {}


def test_partitions_outside_the_plan_that_stop_halt_the_run_when_they_do_not_come_back(
    tmp_path: Path,
) -> None:
    limits = MovementPolicy(dead_broker_patience=timedelta(seconds=10), max_moves_in_flight=1)
    run = beside_another_topic(tmp_path, limits)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.partitions[OTHER].leader = None
    driver.step()
    run.cluster.partitions[OTHER].leader = 1
    driver.step()
    run.cluster.partitions[OTHER].leader = None
    with pytest.raises(HaltedError, match="1 partition outside the plan takes no writes: other-0"):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert own_configs(run.cluster) == {}


def repairing_beside_an_offline_partition(folder: Path) -> tuple[SimulatedRun, Driver]:
    """A repair that began while a partition outside its plan was offline."""
    limits = MovementPolicy(dead_broker_patience=timedelta(seconds=10))
    run = SimulatedRun.of_moves(
        folder,
        "orders-0: 1 2 size=300000000\nother-0: 2 3 size=1000",
        move("orders-0", "1 2", "4 2", size=300_000_000),
        goal=Goal.REPAIR,
        limits=limits,
    )
    run.cluster.partitions[OTHER].leader = None
    driver = run.driver()
    run.until_moving(driver)
    for _ in range(10):  # 20 s
        run.cluster.advance(driver.step() or 0)
    return run, driver


def test_a_partition_that_took_no_writes_at_the_start_halts_a_run_when_it_stops_again(
    tmp_path: Path,
) -> None:
    """It came back, and then the run's copies go on for hours while it is offline once more."""
    run, driver = repairing_beside_an_offline_partition(tmp_path)
    run.cluster.partitions[OTHER].leader = 2
    for _ in range(2):
        run.cluster.advance(driver.step() or 0)
    run.cluster.partitions[OTHER].leader = None
    with pytest.raises(HaltedError, match="1 partition outside the plan takes no writes: other-0"):
        run.repeat(driver.step)


def test_one_answer_that_shows_an_offline_partition_as_before_halts_no_run(tmp_path: Path) -> None:
    """The broker that was asked had been paused, and did not know yet that it is offline."""
    run, driver = repairing_beside_an_offline_partition(tmp_path)
    run.cluster.partitions[OTHER].leader = 2
    driver.step()
    run.cluster.partitions[OTHER].leader = None
    run.repeat_for(driver.step, 60)
    assert run.run.state is RunState.RUNNING
    assert run.cluster.list_reassignments()


def test_partitions_that_take_no_writes_before_the_start_refuse_to_open(tmp_path: Path) -> None:
    run = beside_another_topic(tmp_path)
    run.cluster.partitions[OTHER].leader = None
    with pytest.raises(RefusedError, match=r"takes no writes \(other-0\)"):
        run.driver().open()
    assert run.run.state is RunState.APPROVED


def test_a_log_dir_past_its_limit_cancels_what_would_fill_it_further(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    before = run.placement()
    driver = run.driver()
    run.until_moving(driver)
    driver.step()
    run.cluster.advance(2)
    run.cluster.brokers[4].disk_total_bytes = 1_000_000
    with pytest.raises(HaltedError, match="a log dir is past its limit: broker 4"):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert run.placement() == before
    assert own_configs(run.cluster) == {}


def test_a_log_dir_past_its_limit_while_a_run_settles_cancels_only_what_would_fill_it_further(
    tmp_path: Path,
) -> None:
    """A run has halted, and what is in flight finishes under its throttle for hours."""
    picture = "orders-0: 1 2 size=30000000\norders-1: 1 2 size=30000000"
    moves = [move(f"orders-{p}", "1 2", f"{to} 2", size=30_000_000) for p, to in ((0, 4), (1, 3))]
    run = SimulatedRun.of_moves(tmp_path, picture, *moves)
    driver = run.driver()
    run.until_moving(driver)
    run.change_state(RunState.SETTLING, "interrupted")
    driver.settle_step()
    run.cluster.brokers[4].disk_total_bytes = 1_000_000
    run.repeat(driver.settle_step)
    assert [p.replicas for _, p in sorted(run.cluster.partitions.items())] == [(1, 2), (3, 2)]
    assert own_configs(run.cluster) == {}


def test_a_copy_that_is_in_sync_on_a_full_log_dir_is_left_to_complete(tmp_path: Path) -> None:
    """Nothing of it is left to copy: the move waits for broker 2, which catches up."""
    picture = "orders-0: 1 2 size=30000000"
    run = SimulatedRun.of_moves(tmp_path, picture, move("orders-0", "1 2", "4 2", size=30_000_000))
    driver = run.driver()
    run.until_moving(driver)
    run.change_state(RunState.SETTLING, "interrupted")
    driver.settle_step()
    partition = run.cluster.partitions[TopicPartition("orders", 0)]
    partition.isr.discard(2)
    partition.copied[2] = 0.0
    partition.copied[4] = partition.size_bytes
    partition.isr.add(4)
    run.cluster.brokers[4].disk_total_bytes = 1_000_000
    run.end(driver)
    assert partition.replicas == (4, 2)


def in_two_log_dirs(run: SimulatedRun, *, second: set[int], known: set[int]) -> None:
    """Broker 4 has two log dirs from now on. The first one is full; in the second one are some of
    the partitions of orders, and what is not `known` is in none that is described.
    """
    described = run.cluster.describe_log_dirs

    def split(broker_ids: Sequence[int]) -> tuple[LogDirDescription, ...]:
        return tuple(part for log_dir in described(broker_ids) for part in parts(log_dir))

    def parts(log_dir: LogDirDescription) -> tuple[LogDirDescription, ...]:
        if log_dir.broker_id != 4:
            return (log_dir,)
        sizes = {tp: size for tp, size in log_dir.sizes.items() if tp.partition in known}
        first = {tp: size for tp, size in sizes.items() if tp.partition not in second}
        rest = {tp: size for tp, size in sizes.items() if tp.partition in second}
        return (
            LogDirDescription(4, "/data/first", None, 1_000_000, 0, first),
            LogDirDescription(4, "/data/second", None, 10**9, 10**9, rest),
        )

    run.cluster.describe_log_dirs = split  # type: ignore[method-assign,assignment]


def copying_three_to_broker_4(folder: Path) -> tuple[SimulatedRun, Driver]:
    picture = "\n".join(f"orders-{p}: 1 2 size=30000000" for p in range(3))
    moves = [move(f"orders-{p}", "1 2", "4 2", size=30_000_000) for p in range(3)]
    run = SimulatedRun.of_moves(folder, picture, *moves)
    driver = run.driver()
    run.until_moving(driver)
    run.repeat_for(driver.step, 3)
    return run, driver


def test_where_one_of_several_log_dirs_is_full_only_what_lies_there_is_cancelled(
    tmp_path: Path,
) -> None:
    """orders-0 lies in the full one, orders-1 in the other; of orders-2 it is not known."""
    run, driver = copying_three_to_broker_4(tmp_path)
    in_two_log_dirs(run, second={1}, known={0, 1})
    with pytest.raises(HaltedError, match=r"past its limit: broker 4 /data/first"):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    replicas = [p.replicas for _, p in sorted(run.cluster.partitions.items())]
    assert replicas == [(1, 2), (4, 2), (1, 2)]
    assert own_configs(run.cluster) == {}


def test_a_full_log_dir_into_which_nothing_is_copied_halts_no_run(tmp_path: Path) -> None:
    run, driver = copying_three_to_broker_4(tmp_path)
    in_two_log_dirs(run, second={0, 1, 2}, known={0, 1, 2})
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE


def test_throttle_keys_removed_twice_are_a_reason_to_cancel_and_halt(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    before = run.placement()
    driver = run.driver()
    run.until_moving(driver)
    gone = ConfigChange(of_topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.DELETE)
    run.cluster.alter_configs([gone])
    driver.step()
    assert FOLLOWER_REPLICAS in own_configs(run.cluster)[of_topic("orders")], "set again, once"
    driver.step()
    run.cluster.alter_configs([gone])
    with pytest.raises(HaltedError, match="somebody else changed our throttle keys again"):
        driver.step()
    assert run.end(driver) is RunState.HALTED
    assert run.placement() == before
    assert own_configs(run.cluster) == {}


def test_rates_raised_twice_halt_a_run_that_does_not_call_them_removed(tmp_path: Path) -> None:
    """First at one broker, then at another one: neither key was removed, nor set again before."""
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    sources = [b for b in (1, 2, 3) if LEADER_RATE in own_configs(run.cluster)[at_broker(b)]]
    for broker_id in sources[:2]:
        driver.step()
        raised = ConfigChange(at_broker(broker_id), LEADER_RATE, ConfigOperation.SET, "77000000")
        run.cluster.alter_configs([raised])
        if broker_id == sources[0]:
            driver.step()
    with pytest.raises(HaltedError) as halted:
        driver.step()
    assert "somebody else changed our throttle keys again" in str(halted.value)
    assert "removed" not in str(halted.value)


def test_a_rolling_upgrade_refuses_to_open_and_holds_a_run_until_all_brokers_are_alike(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path, limits=MovementPolicy(max_moves_in_flight=1))
    usual, newer = run.cluster.versions[3], BrokerVersion("newer", 30)
    run.cluster.versions[3] = newer
    with pytest.raises(RefusedError, match="rolling upgrade"):
        run.driver().open()
    run.cluster.versions[3] = usual
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.versions[3] = newer
    for _ in range(10):
        run.cluster.advance(driver.step() or 0)
    assert not run.cluster.list_reassignments()
    assert "broker 3 speak different versions" in run.does()
    run.cluster.versions.update(dict.fromkeys(run.cluster.versions, newer))
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
