"""What is a stall of copies, and what is none: segments that are deleted meanwhile, rates that
somebody lowered or had set before, a leader that was compacted.

For a stall there is a halt that cancels after the policy's patience, and an alarm after half of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import Driver
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_RATE, LogDirDescription
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.simulated_kafka.partition import SimulatedPartition
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker

FIRST = TopicPartition("orders", 0)
MB, GIB = 1_000_000, 1 << 30
SOON = timedelta(seconds=3)
SHORT = MovementPolicy(dead_broker_patience=timedelta(minutes=3))


def copying(
    folder: Path,
    *,
    rate: int,
    planned: int,
    arrived: int,
    written: int = 0,
    limits: MovementPolicy | None = None,
) -> tuple[SimulatedRun, Driver, SimulatedPartition]:
    """A copy of one partition to broker 4, as far as that."""
    run = SimulatedRun.of_moves(
        folder,
        f"orders-0: 1 2 size={planned} rate={written}",
        move("orders-0", "1 2", "4 2", size=planned),
        limits=limits,
    )
    run.rate = rate
    run.ledger.record_decision(run.approval())
    driver = run.driver()
    run.until_moving(driver)
    partition = run.cluster.partitions[FIRST]
    while partition.bytes_on(4) < arrived:
        go_on(run, driver, 1)
    return run, driver, partition


def go_on(run: SimulatedRun, driver: Driver, seconds: float) -> None:
    """Observe every five seconds."""
    run.repeat_for(driver.step, seconds, every=5.0)


@pytest.mark.parametrize(
    ("rate", "planned", "arrived", "deleted", "left_at_destination"),
    [
        pytest.param(5 * MB, 8 * GIB, 3 * GIB, GIB, 2 * GIB, id="one segment, as every hour"),
        pytest.param(MB, 600 * MB, 250 * MB, 300 * MB, 0, id="somebody lowers retention"),
    ],
)
def test_segments_that_retention_deletes_during_a_copy_are_no_stall(
    tmp_path: Path, rate: int, planned: int, arrived: int, deleted: int, left_at_destination: int
) -> None:
    """The leader and the copy lose the same oldest bytes: no more is left to copy than before, and
    bytes go on arriving at the full rate.
    """
    run, driver, partition = copying(tmp_path, rate=rate, planned=planned, arrived=arrived)
    partition.size_bytes, partition.copied[4] = planned - deleted, float(left_at_destination)
    go_on(run, driver, 3_600)
    assert run.end(driver) is RunState.DONE


@pytest.mark.parametrize("leader_first", [True, False])
def test_segments_that_leader_and_copy_delete_five_minutes_apart_are_no_stall(
    tmp_path: Path, leader_first: bool
) -> None:
    """Each broker looks for what to delete every 5 min (log.retention.check.interval.ms)."""
    run, driver, partition = copying(tmp_path, rate=2 * MB, planned=4 * GIB, arrived=2 * GIB)
    for is_leaders in (leader_first, not leader_first):
        if is_leaders:
            partition.size_bytes -= GIB
        else:
            partition.copied[4] -= GIB
        go_on(run, driver, 290)
    go_on(run, driver, 3_600)
    assert run.end(driver) is RunState.DONE


def test_a_leader_that_has_not_deleted_yet_what_the_one_before_had_is_no_stall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 1 restarts during a copy: broker 2 leads, whose replica has 300 MB more."""
    run, driver, partition = copying(tmp_path, rate=MB, planned=900 * MB, arrived=300 * MB)
    let_broker_1_report(run, monkeypatch, lambda size: size - 300 * MB)
    go_on(run, driver, 60)
    run.cluster.kill_broker(1)
    go_on(run, driver, 30)
    run.cluster.restart_broker(1)
    assert partition.leader == 2
    go_on(run, driver, 3_600)
    assert "stall" not in run.event_kinds()
    assert run.end(driver) is RunState.DONE


def let_broker_1_report(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch, reported: Callable[[int], int]
) -> None:
    """Its log dirs have other sizes than those of the other replicas."""
    describe_log_dirs = run.cluster.describe_log_dirs

    def described(broker_ids: Sequence[int]) -> list[LogDirDescription]:
        return [
            replace(found, sizes={tp: reported(size) for tp, size in found.sizes.items()})
            if found.broker_id == 1
            else found
            for found in describe_log_dirs(broker_ids)
        ]

    monkeypatch.setattr(run.cluster, "describe_log_dirs", described)


@pytest.mark.parametrize("stands_still", [True, False])
def test_a_stall_is_found_while_retention_deletes_what_producers_write(
    tmp_path: Path, stands_still: bool
) -> None:
    """Leader and copy lose a minute's bytes every minute; fewer arrive than are written."""
    run, driver, partition = copying(
        tmp_path, rate=3 * MB, planned=900 * MB, arrived=500 * MB, written=2 * MB, limits=SHORT
    )
    partition.bytes_in_per_second = 4 * MB
    if stands_still:
        run.cluster.full_speed_bytes_per_second = 0.001
    began_at = run.cluster.now
    with pytest.raises(HaltedError, match="1 partition has come no nearer"):
        while run.cluster.now < began_at + 600:
            go_on(run, driver, 60)
            partition.size_bytes -= 240 * MB
            partition.copied[4] = max(0.0, partition.copied[4] - 240 * MB)
    assert run.cluster.now - began_at < 300


# -- rates


def copying_beside_producers(folder: Path, *rates: int) -> tuple[SimulatedRun, Driver]:
    """Producers write 600 kB/s; approved at 300 kB/s, then these rates are asked for."""
    run, driver, _ = copying(
        folder, rate=300_000, planned=300 * MB, arrived=0, written=600_000, limits=SHORT
    )
    for rate in rates:
        run.ask(Control.RATE, rate_bytes_per_second=rate)
        go_on(run, driver, 30)
    return run, driver


def test_a_rate_that_a_request_lowered_again_below_producers_is_no_stall(tmp_path: Path) -> None:
    """Raised for the night, and lowered in the morning, to more than was approved."""
    run, driver = copying_beside_producers(tmp_path, 2 * MB, 500_000)
    go_on(run, driver, 600)
    assert "stall" not in run.event_kinds()


def test_a_rate_that_a_request_raised_to_less_than_producers_write_is_a_stall(
    tmp_path: Path,
) -> None:
    run, driver = copying_beside_producers(tmp_path, 500_000)
    with pytest.raises(HaltedError, match="producers write faster than 500 kB/s lets through"):
        go_on(run, driver, 600)


def test_an_approval_forgets_what_was_asked_for_before(tmp_path: Path) -> None:
    """Approved again at what is below producers, as when a run is executed again after a halt."""
    run, driver = copying_beside_producers(tmp_path, 2 * MB)
    run.halt(driver)
    run.end(driver)
    run.ledger.record_decision(run.approval())
    driver = run.driver()
    run.until_moving(driver)
    with pytest.raises(HaltedError, match="producers write faster than 300 kB/s lets through"):
        go_on(run, driver, 600)


@pytest.mark.parametrize(
    ("broker_id", "key"), [(4, FOLLOWER_RATE), (1, LEADER_RATE)], ids=["receives", "sends"]
)
def test_a_stall_under_a_rate_that_somebody_had_set_before_names_that_rate(
    tmp_path: Path, broker_id: int, key: str
) -> None:
    """A throttle that an earlier tool left on one broker is below what producers write: no rate
    that is approved is above it.
    """
    run = SimulatedRun.of_moves(
        tmp_path,
        "orders-0: 1 2 size=3000000 rate=200000",
        move("orders-0", "1 2", "4 2", size=3 * MB),
        limits=SHORT,
    )
    run.cluster.configs.dynamic[at_broker(broker_id)] = {key: "100000"}
    driver = run.driver()
    run.until_moving(driver)
    named = f"{key} of broker {broker_id} was set to 100 kB/s by somebody else"
    with pytest.raises(HaltedError, match=f"{named}.*--entity-name {broker_id}`") as halted:
        go_on(run, driver, 600)
    assert "higher rate" not in str(halted.value)
    events = run.events()
    (alarm,) = [e.text for e in events if e.kind == "stall"]
    (lowered,) = [e.text for e in events if e.kind == "lower rate"]
    assert named in alarm and named in lowered
    limited = f"1.0 MB/s per broker and 100 kB/s at broker {broker_id}, where somebody set {key}"
    assert limited in run.run_progress().speed_in_words


def test_a_stall_beside_a_rate_of_somebody_else_at_a_broker_that_copies_nothing_names_ours(
    tmp_path: Path,
) -> None:
    run, driver = copying_beside_producers(tmp_path, 500_000)
    run.cluster.configs.dynamic[at_broker(3)] = {FOLLOWER_RATE: "100000"}
    with pytest.raises(HaltedError, match="producers write faster than 500 kB/s lets through"):
        go_on(run, driver, 600)


def test_a_stall_just_after_the_rate_was_raised_blames_nobody_else_for_the_rate_of_before(
    tmp_path: Path,
) -> None:
    """Somebody has read the alarm, and raises the rate in the last second before the halt."""
    run, driver = copying_beside_producers(tmp_path)
    go_on(run, driver, 5)
    halts_after = SHORT.dead_broker_patience
    while run.clock() - run.run_progress().links[0].last_progress_at < halts_after - SOON:
        run.cluster.advance(1)
        driver.step()
    run.cluster.advance(SOON.total_seconds())
    run.ask(Control.RATE, rate_bytes_per_second=500_000)
    with pytest.raises(HaltedError, match="producers write faster than 500 kB/s lets through"):
        driver.step()


# -- compaction


@pytest.mark.parametrize("stands_still", [True, False])
def test_a_copy_that_is_larger_than_its_compacted_leader_stalls_only_when_nothing_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands_still: bool
) -> None:
    """The leader's log cleaner was faster: sizes do not tell what is left, for three quarters of an
    hour.
    """
    run, driver, _ = copying(tmp_path, rate=MB, planned=3_000 * MB, arrived=300 * MB)
    let_broker_1_report(run, monkeypatch, lambda _: 200 * MB)
    if stands_still:
        run.cluster.full_speed_bytes_per_second = 0.001
        with pytest.raises(HaltedError, match="1 partition has come no nearer"):
            go_on(run, driver, 1000)
    else:
        go_on(run, driver, 3_600)
        assert run.end(driver) is RunState.DONE


def test_a_copy_that_is_larger_than_its_compacted_leader_finishes_while_its_run_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, driver, partition = copying(tmp_path, rate=MB, planned=3_000 * MB, arrived=300 * MB)
    let_broker_1_report(run, monkeypatch, lambda _: 200 * MB)
    run.change_state(RunState.SETTLING, "interrupted")
    while (wait := driver.settle_step()) is not None:
        run.cluster.advance(max(wait, 5.0))
    assert partition.replicas == (4, 2)
