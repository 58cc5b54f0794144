"""The throttle back-off over minutes: from which rate it goes down, for whose replicas, and when it
ends.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import Driver
from counterpoise.model.control import Control
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from tests.simulation.test_back_off_and_halts import OTHER, lose_isr, rate_set, restore_isr
from tests.support.runs import SimulatedRun

PICTURE = "\n".join(f"orders-{p}: 1 2 3 size=3000000000" for p in range(8))
REQUEST = PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("other",)))
MB = 1_000_000


def copying_for_long(
    folder: Path, rate: int, *, begins_with: Callable[[SimulatedRun], None] | None = None
) -> tuple[SimulatedRun, Driver]:
    """A run with the policy's own back-off, approved at this rate, beside another topic, of which
    replicas may be out of sync when it begins.
    """
    run = SimulatedRun.make(folder, PICTURE + "\nother-0: 1 2 3 size=1000", request=REQUEST)
    run.rate = rate
    run.ledger.record_decision(run.approval())
    if begins_with is not None:
        begins_with(run)
    driver = run.driver()
    run.until_moving(driver)
    return run, driver


def go_on(run: SimulatedRun, driver: Driver, seconds: float) -> None:
    """Observe every five seconds."""
    until = run.cluster.now + seconds
    while run.cluster.now < until and (wait := driver.step()) is not None:
        run.cluster.advance(min(max(wait, 5.0), until - run.cluster.now))


def flap(run: SimulatedRun, driver: Driver, *, out: float, back: float, until: float) -> None:
    """A replica outside the plan is out of sync and in sync again, in turn."""
    while run.cluster.now < until:
        run.cluster.partitions[OTHER].isr.discard(3)
        go_on(run, driver, out)
        restore_isr(run)
        go_on(run, driver, back)


# -- a rate that was asked for


def test_the_back_off_slows_a_run_whose_rate_was_raised_by_a_request(tmp_path: Path) -> None:
    """Approved carefully at 1 MB/s, raised to 20 MB/s at night: clients lose in-sync replicas."""
    run, driver = copying_for_long(tmp_path, MB)
    run.ask(Control.RATE, rate_bytes_per_second=20 * MB)
    go_on(run, driver, 2)
    lose_isr(run)
    go_on(run, driver, 40)
    assert run.run_progress().has_isr_loss
    assert rate_set(run) == 10 * MB
    with pytest.raises(HaltedError, match=r"even at 1.0 MB/s.*other-0"):
        go_on(run, driver, 15 * 60)


def test_a_lowered_run_is_as_fast_as_asked_one_calm_time_after_one_step_of_the_back_off(
    tmp_path: Path,
) -> None:
    """Approved at 20 MB/s, lowered to 2 MB/s by a request: one step is the lowest rate already."""
    run, driver = copying_for_long(tmp_path, 20 * MB)
    run.ask(Control.RATE, rate_bytes_per_second=2 * MB)
    go_on(run, driver, 2)
    lose_isr(run)
    go_on(run, driver, 200)
    assert rate_set(run) == MB
    restore_isr(run)
    go_on(run, driver, 180)  # calm_after is 2 min
    assert rate_set(run) == 2 * MB


# -- replicas that come and go


def test_a_replica_outside_the_plan_that_flaps_slows_the_run_and_halts_it_in_the_end(
    tmp_path: Path,
) -> None:
    """The usual sign of brokers at their limit. A follower that has caught up leaves the ISR again
    after 30 s at the earliest (replica.lag.time.max.ms).
    """
    run, driver = copying_for_long(tmp_path, 20 * MB)
    flap(run, driver, out=20, back=40, until=run.cluster.now + 180)
    assert rate_set(run) < 20 * MB
    with pytest.raises(HaltedError, match=r"even at 1.0 MB/s.*other-0"):
        flap(run, driver, out=20, back=40, until=run.cluster.now + 30 * 60)


def test_a_replica_that_is_out_of_sync_for_a_moment_now_and_then_slows_nothing(
    tmp_path: Path,
) -> None:
    """More than the policy's calm time lies between: none of these is the loss of before."""
    run, driver = copying_for_long(tmp_path, 20 * MB)
    flap(run, driver, out=10, back=130, until=run.cluster.now + 10 * 60)
    assert rate_set(run) == 20 * MB


def test_a_partition_that_was_out_of_sync_at_the_start_slows_a_run_when_it_is_lost_again(
    tmp_path: Path,
) -> None:
    """A run of days began just after a restart, while replicas were still catching up."""
    run, driver = copying_for_long(tmp_path, 20 * MB, begins_with=lose_isr)
    go_on(run, driver, 120)
    assert rate_set(run) == 20 * MB
    restore_isr(run)
    go_on(run, driver, 10)
    lose_isr(run)
    go_on(run, driver, 40)
    assert rate_set(run) == 10 * MB


# -- brokers that restart


def restarted_and_behind(folder: Path) -> tuple[SimulatedRun, Driver]:
    """Broker 3 was down for 5 min, and missed a lot of a partition outside the plan."""
    run, driver = copying_for_long(folder, MB)
    run.cluster.kill_broker(3)
    go_on(run, driver, 5 * 60)
    run.cluster.restart_broker(3)
    other = run.cluster.partitions[OTHER]
    other.size_bytes, other.copied[3] = 1e12, 0.0
    return run, driver


def test_a_broker_that_restarts_has_its_patience_to_catch_up(tmp_path: Path) -> None:
    """What it missed is no loss caused by our copies."""
    run, driver = restarted_and_behind(tmp_path)
    go_on(run, driver, 13 * 60)
    restore_isr(run)
    go_on(run, driver, 60)
    assert "brake" not in run.event_kinds()


def test_a_broker_that_does_not_catch_up_within_its_patience_counts_as_isr_loss(
    tmp_path: Path,
) -> None:
    run, driver = restarted_and_behind(tmp_path)
    go_on(run, driver, 14 * 60)
    assert not run.run_progress().has_isr_loss
    with pytest.raises(HaltedError, match=r"even at 1.0 MB/s.*other-0"):
        go_on(run, driver, 12 * 60)


def test_what_a_restarted_broker_loses_once_it_had_caught_up_counts(tmp_path: Path) -> None:
    run, driver = restarted_and_behind(tmp_path)
    restore_isr(run)
    go_on(run, driver, 10)
    lose_isr(run)
    go_on(run, driver, 10)
    assert run.run_progress().has_isr_loss
