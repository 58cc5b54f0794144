"""No wait is without an end: who lags, is dead, silent or unreadable is waited for as long as the
policy says; then a run halts and says why, and settling ends with its pending restores listed.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError, UnknownOutcomeError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    BrokerVersion,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.policy import MaintenanceWindow, MovementPolicy
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, of_topic, own_configs

FIVE = "1 2 3 4 5"
made_by_hand = partial(SimulatedRun.of_moves, racks=FIVE)
ORDERS_0 = TopicPartition("orders", 0)
SHORT = MovementPolicy(dead_broker_patience=timedelta(seconds=30))


def lag_for_good(run: SimulatedRun, tp: TopicPartition, broker_id: int) -> None:
    """A follower is behind, and somebody's throttle of one byte a second keeps it there."""
    slow = ConfigChange(at_broker(broker_id), FOLLOWER_RATE, ConfigOperation.SET, "1")
    entry = f"{tp.partition}:{broker_id}"
    listed = ConfigChange(of_topic(tp.topic), FOLLOWER_REPLICAS, ConfigOperation.SET, entry)
    run.cluster.alter_configs([slow, listed])
    run.cluster.partitions[tp].isr.discard(broker_id)
    run.cluster.partitions[tp].copied[broker_id] = 0.0


def settle_for(run: SimulatedRun, seconds: float) -> None:
    run.repeat_for(run.driver().settle_step, seconds, every=1.0)


# -- a partition that lags


def test_what_is_ready_goes_on_before_a_partition_that_lags_and_then_the_run_halts_naming_it(
    tmp_path: Path,
) -> None:
    names = ("orders-0", "__consumer_offsets-0", "payments-0")
    picture = "\n".join(f"{name}: 1 2 3 size=1000000" for name in names)
    run = made_by_hand(
        tmp_path,
        picture,
        move("__consumer_offsets-0", "1 2 3", "5 2 3", size=1_000_000),
        move("orders-0", "1 2 3", "4 2 3", size=1_000_000),
        move("payments-0", "1 2 3", "3 2 1", size=1_000_000),
        limits=SHORT,
    )
    lag_for_good(run, ORDERS_0, 3)
    before = own_configs(run.cluster)
    driver = run.driver()
    driver.open()
    with pytest.raises(HaltedError, match="1 replica that the plan keeps is not in sync"):
        run.repeat(driver.step)
    assert run.cluster.partitions[TopicPartition("__consumer_offsets", 0)].replicas == (5, 2, 3)
    assert run.cluster.partitions[TopicPartition("payments", 0)].replicas == (3, 2, 1)
    assert run.end(driver) is RunState.HALTED
    assert own_configs(run.cluster) == before


# -- a live broker that does not respond to this client


def test_a_live_broker_that_does_not_respond_halts_the_run_after_the_policys_patience(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path, limits=SHORT)
    driver = run.driver()
    driver.open()
    run.cluster.unreachable.add(4)
    with pytest.raises(HaltedError, match=r"broker 4 does not respond.*30 s"):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert own_configs(run.cluster) == {}


def test_a_copy_whose_destination_does_not_report_sizes_is_not_taken_for_a_stall(
    tmp_path: Path,
) -> None:
    limits = MovementPolicy(dead_broker_patience=timedelta(seconds=30))
    copy = move("orders-0", "1 2", "4 2", size=400_000_000)
    run = made_by_hand(tmp_path, "orders-0: 1 2 size=400000000", copy, limits=limits)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.without_log_dirs.add(4)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert "stall" not in run.event_kinds()
    assert "cancelling" not in run.event_kinds()


# -- a broker that stops between observation and call


class StopsBeforeACall:
    """The cluster for a run of which a broker stops right before its next config change."""

    def __init__(
        self, simulated: SimulatedCluster, broker_id: int, *, only_freezes: bool = False
    ) -> None:
        self._cluster, self._broker_id = simulated, broker_id
        self._stop = simulated.freeze_broker if only_freezes else simulated.kill_broker
        self.has_stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def alter_configs(self, changes: Any, **options: Any) -> Any:
        concerned = {change.resource for change in changes}
        if not self.has_stopped and at_broker(self._broker_id) in concerned:
            self._stop(self._broker_id)
            self.has_stopped = True
        return self._cluster.alter_configs(changes, **options)


def test_a_broker_that_stops_right_before_a_config_change_does_not_halt_the_run(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    gone = ConfigChange(at_broker(4), FOLLOWER_RATE, ConfigOperation.DELETE)
    run.cluster.alter_configs([gone])
    stops: Any = StopsBeforeACall(run.cluster, 4)
    assert run.driver(stops).step() is not None, "the next observation shows what became of it"
    assert stops.has_stopped
    run.cluster.restart_broker(4)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {}


# -- a broker that is dead and not registered any more


def test_keys_of_an_unregistered_broker_stay_pending_until_it_registers_again(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path, limits=SHORT)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(4)
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    unregistered = run.cluster.brokers.pop(4)
    run.cluster.advance(30 * 86_400)
    restored, pending = run.restore_pending()
    assert ([*restored], [owned.resource for owned in pending]) == ([], [at_broker(4)])
    run.cluster.brokers[4] = unregistered
    run.cluster.restart_broker(4)
    run.restore_pending()
    assert own_configs(run.cluster) == {}, "it registered again, with the config that it had"


# -- stops for a good reason only


def test_a_rate_that_the_back_off_lowered_below_the_inflow_is_not_a_stall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoise.execution.back_off.STEP_AFTER", timedelta(seconds=10))
    picture = "orders-0: 1 2 size=400000000 rate=3000000\nother-0: 1 3 size=1000"
    run = made_by_hand(
        tmp_path,
        picture,
        move("orders-0", "1 2", "4 2", size=400_000_000),
    )
    run.rate = 20_000_000
    driver = run.driver()
    run.until_moving(driver)
    other = run.cluster.partitions[TopicPartition("other", 0)]
    other.isr.discard(3)
    lag_for_good(run, TopicPartition("other", 0), 3)
    until = run.cluster.now + 420
    while run.cluster.now < until and (wait := driver.step()) is not None:
        run.cluster.advance(wait)
    assert run.run_progress().rate_bytes_per_second < 3_000_000
    other.isr.add(3)
    run.repeat(driver.step, 2_000)
    assert run.end(driver) is RunState.DONE
    assert "cancelling" not in run.event_kinds()


def test_a_copy_that_has_arrived_and_waits_for_a_kept_replica_is_not_a_stall(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 3 size=5000000 rate=1000"
    run = made_by_hand(tmp_path, picture, move("orders-0", "1 2 3", "4 2 3", size=5_000_000))
    run.cluster.kafka_version = (3, 9)  # which waits for kept replicas
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(3)
    until = run.cluster.now + 300
    while run.cluster.now < until and (wait := driver.step()) is not None:
        run.cluster.advance(wait)
    assert run.cluster.list_reassignments()
    run.cluster.restart_broker(3)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert "stall" not in run.event_kinds()


def test_settling_gives_a_kept_replica_whose_broker_is_down_the_policys_patience(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 3 size=100000000"
    run = made_by_hand(tmp_path, picture, move("orders-0", "1 2 3", "4 2 3", size=100_000_000))
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.advance(60)
    run.cluster.kill_broker(3)
    settle_for(run, 60)
    assert "cancelling" not in run.event_kinds()
    run.cluster.restart_broker(3)
    assert run.end(driver) is RunState.DONE
    assert run.placement() == run.planned_placement()


def test_settling_cancels_what_needs_a_broker_that_stays_dead_for_longer_than_the_patience(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 3 size=100000000"
    moves = move("orders-0", "1 2 3", "4 2 3", size=100_000_000)
    run = made_by_hand(tmp_path, picture, moves, limits=SHORT)
    before = run.placement()
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(3)
    assert run.end(driver) is RunState.HALTED
    assert run.placement() == before


def test_a_rolling_restart_with_minutes_of_log_recovery_passes_with_default_settings(
    tmp_path: Path,
) -> None:
    picture = "\n".join(f"orders-{n}: 1 2 3 size=300000000" for n in range(4))
    moves = [move(f"orders-{n}", "1 2 3", "4 2 3", size=300_000_000) for n in range(4)]
    run = made_by_hand(tmp_path, picture, *moves)
    driver = run.driver()
    run.until_moving(driver)
    arrived = 0
    for broker_id in (1, 2, 3, 4, 5):
        run.cluster.kill_broker(broker_id)
        for seconds in (300, 120):
            run.repeat_for(driver.step, seconds)
            if broker_id not in run.cluster.live_broker_ids:
                run.cluster.restart_broker(broker_id)
        now_arrived = run.run_progress().progress.copied_bytes
        assert now_arrived >= arrived
        arrived = now_arrived
    run.repeat(driver.step, 2_000)
    assert run.end(driver) is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert {"cancelling", "stall"}.isdisjoint(run.event_kinds())
    assert own_configs(run.cluster) == {}


def observe_for(run: SimulatedRun, seconds: float, *, every: float = 20.0) -> None:
    run.repeat_for(run.driver().step, seconds, every=every)


def test_partitions_outside_the_plan_that_are_offline_one_after_another_have_a_patience_each(
    tmp_path: Path,
) -> None:
    others = [TopicPartition("other", number) for number in range(4)]
    picture = "\n".join(("orders-0: 1 2 3 size=9000000", *(f"{tp}: 5 size=1" for tp in others)))
    copy = move("orders-0", "1 2 3", "4 2 3", size=9_000_000)
    run = made_by_hand(tmp_path, picture, copy)
    run.driver().open()
    for offline in others:
        for other in others:
            run.cluster.partitions[other].leader = None if other == offline else 5
        observe_for(run, 360)
        assert not run.cluster.list_reassignments()


def test_thousands_of_partitions_in_trouble_do_not_fill_the_row_of_a_run(tmp_path: Path) -> None:
    others = [f"other-{number}" for number in range(1000)]
    picture = "\n".join(("orders-0: 1 2 3 size=9000000", *(f"{tp}: 5 size=1" for tp in others)))
    copy = move("orders-0", "1 2 3", "4 2 3", size=9_000_000)
    run = made_by_hand(tmp_path, picture, copy, limits=SHORT)
    run.driver().open()
    run.cluster.kill_broker(5)
    with pytest.raises(HaltedError, match="20 partitions outside the plan take no writes"):
        run.repeat(run.driver().step)
    assert sum(map(len, run.run_progress().conditions.values())) < 30


# -- what is no progress, however often it comes and goes


def test_a_leader_that_is_lost_and_elected_again_and_again_is_no_progress(tmp_path: Path) -> None:
    """The move that is left waits for the end of a rolling upgrade."""
    picture = "orders-0: 1 2 3 size=1000\norders-1: 1 2 3 size=1000"
    moves = (
        move("orders-0", "1 2 3", "2 1 3", size=1000),
        move("orders-1", "1 2 3", "4 2 3", size=1000),
    )
    limits = MovementPolicy(hold_patience=timedelta(minutes=2))
    run = made_by_hand(tmp_path, picture, *moves, limits=limits)
    driver = run.driver()
    driver.open()
    run.cluster.versions[3] = BrokerVersion("newer", 30)
    orders_0 = run.cluster.partitions[ORDERS_0]
    orders_0.replicas = (2, 1, 3)  # it is done
    with pytest.raises(HaltedError, match="speak different versions, for 2 min"):
        while run.cluster.now < 600:
            orders_0.leader = 2 if orders_0.leader == 1 else 1
            run.cluster.advance(max(driver.step() or 0, 10.0))


@pytest.mark.parametrize("part", ["step", "settle_step"])
def test_a_rate_that_was_lowered_below_an_inflow_with_pauses_is_not_waited_for_without_an_end(
    part: str, tmp_path: Path
) -> None:
    limits = MovementPolicy(
        dead_broker_patience=timedelta(seconds=18),
        hold_patience=timedelta(minutes=1),
        pause_patience=timedelta(minutes=3),
    )
    copy = move("orders-0", "1 2 3", "4 2 3", size=9_000_000)
    run = made_by_hand(tmp_path, "orders-0: 1 2 3 size=9000000", copy, limits=limits)
    driver = run.driver()
    run.until_moving(driver)
    run.ask(Control.RATE, rate_bytes_per_second=500_000)
    step, number = getattr(driver, part), 0
    try:
        while (wait := step()) is not None:
            assert run.cluster.now < 360, f"it waits for ever: {run.log[-1]}"
            has_pause = number % 6 == 0
            run.cluster.partitions[ORDERS_0].bytes_in_per_second = 0.0 if has_pause else 1e6
            number += 1
            run.cluster.advance(max(wait, 10.0))
    except HaltedError as error:
        assert "whether producers write faster than the rate lets through" in str(error)
    assert run.cluster.now > 180, "it was given its patience"
    assert run.end(driver) is RunState.HALTED


def test_windows_that_are_shorter_than_the_patience_do_not_keep_a_lagging_replica_for_ever(
    tmp_path: Path,
) -> None:
    every_ten_minutes = MaintenanceWindow("*/10 * * * *", timedelta(minutes=2))
    limits = MovementPolicy(windows=(every_ten_minutes,))
    copy = move("orders-0", "1 2 3", "4 2 3", size=9_000_000)
    run = made_by_hand(tmp_path, "orders-0: 1 2 3 size=9000000 rate=1", copy, limits=limits)
    run.cluster.kafka_version = (3, 9)
    run.until_moving(run.driver())
    lag_for_good(run, ORDERS_0, 3)
    with pytest.raises(HaltedError, match="nothing has arrived, for 15 min"):
        observe_for(run, 3600)
    assert run.end(run.driver()) is RunState.HALTED


# -- work on a broker, for which the run waits with nothing in flight


ONE_AT_A_TIME = MovementPolicy(max_moves_in_flight=1)


def pause(run: SimulatedRun) -> None:
    run.ask(Control.PAUSE, why="broker 4 gets a new disk")


def freeze(run: SimulatedRun) -> None:
    run.ask(Control.FREEZE, why="broker 4 gets a new disk")


def close_window(run: SimulatedRun) -> None:
    tonight = MaintenanceWindow("0 22 * * *", timedelta(hours=8))
    run.limits = MovementPolicy(windows=(tonight,), max_moves_in_flight=1)


def held_beside_a_dead_broker(
    folder: Path, hold: Callable[[SimulatedRun], None] = pause
) -> SimulatedRun:
    """A run that was held, with nothing in flight, for longer than a dead broker is waited for."""
    run = SimulatedRun.make(folder, limits=ONE_AT_A_TIME)
    run.until_moving(run.driver())
    hold(run)
    while run.cluster.list_reassignments():
        run.cluster.advance(run.driver().step() or 0)
    run.cluster.kill_broker(4)
    observe_for(run, 1800)
    assert run.run.state is RunState.RUNNING
    return run


@pytest.mark.parametrize("hold", [pause, freeze, close_window])
def test_a_run_that_is_held_for_work_on_a_broker_does_not_halt_because_of_that(
    tmp_path: Path, hold: Callable[[SimulatedRun], None]
) -> None:
    run = held_beside_a_dead_broker(tmp_path, hold)
    run.cluster.restart_broker(4)
    run.ask(Control.RESUME)
    run.ask(Control.UNFREEZE)
    run.limits = ONE_AT_A_TIME
    run.cluster.advance(60)
    assert run.go() is RunState.DONE


def test_a_broker_that_is_still_dead_afterwards_has_its_whole_patience(tmp_path: Path) -> None:
    run = held_beside_a_dead_broker(tmp_path)
    run.ask(Control.RESUME)
    observe_for(run, 14 * 60)
    with pytest.raises(HaltedError, match="broker 4 is dead, for"):
        observe_for(run, 5 * 60)


# -- changes without an effect


def test_what_the_run_waited_for_does_not_count_against_its_settling(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path, limits=SHORT)
    driver = run.driver()
    driver.open()
    driver.step()  # throttle keys are set
    assert own_configs(run.cluster)

    run.cluster.advance(60)  # its process died
    assert run.end(run.driver()) is RunState.HALTED

    assert not own_configs(run.cluster), run.run.reason


# -- cancels that nobody answers


LARGE = 3_000_000_000_000
LARGE_MOVE = move("orders-0", "1 2 3", "4 2 3", size=LARGE)


def cancelled_in_vain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    run = made_by_hand(folder, f"orders-0: 1 2 3 size={LARGE}", LARGE_MOVE)
    run.until_moving(run.driver())
    nobody_answers_cancels(run, monkeypatch)
    return run


def nobody_answers_cancels(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.cluster, "alter_reassignments", no_answer)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.driver().step()


def no_answer(*_: object, **__: object) -> None:
    raise UnknownOutcomeError("no answer", broker_id=1)


def delete_by_somebody(run: SimulatedRun, key: str) -> None:
    run.cluster.alter_configs([ConfigChange(at_broker(4), key, ConfigOperation.DELETE)])


def test_a_gap_is_closed_also_while_cancels_have_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cancelled_in_vain(tmp_path, monkeypatch)
    delete_by_somebody(run, FOLLOWER_RATE)
    settle_for(run, 20)
    assert own_configs(run.cluster)[at_broker(4)] == {FOLLOWER_RATE: "1000000"}


@pytest.mark.parametrize("is_gap_closed", [True, False])
def test_cancels_without_effect_have_an_end_although_the_copies_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gap_closed: bool
) -> None:
    """Also where the controller answers nothing at all, and somebody has deleted a key."""
    run = cancelled_in_vain(tmp_path, monkeypatch)
    if not is_gap_closed:
        delete_by_somebody(run, FOLLOWER_RATE)
        monkeypatch.setattr(run.cluster, "alter_configs", no_answer)
    driver, began_at = run.driver(), run.cluster.now
    while (wait := driver.settle_step()) is not None:
        run.cluster.advance(max(wait, 20.0))
        assert run.cluster.now - began_at < 1800
    assert "1 partition is still in flight: orders-0" in run.run.reason
