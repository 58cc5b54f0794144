"""Clocks that are wrong: those of two workers differ, or one is set back. Every wait still ends."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.model.run import RunState
from tests.support.runs import SimulatedRun

PATIENCE = timedelta(minutes=20)  # `dead_broker_patience` is 15 min


def driver_with_clock(run: SimulatedRun, clock: Callable[[], datetime]) -> Driver:
    options = ExecutionOptions(run.run_id, run.plan, run.rate, run.limits)
    return Driver(run.cluster, run.ledger, options, clock, run.log.append)


def with_a_dead_broker(folder: Path) -> SimulatedRun:
    run = SimulatedRun.make(folder)
    run.until_moving(run.driver())
    run.cluster.kill_broker(4)
    return run


def halts_in_time(run: SimulatedRun, drivers: list[Driver]) -> None:
    """Take a step every 10 s, each by the next of the drivers."""
    began_at = run.cluster.now
    with pytest.raises(HaltedError, match="brokers of the plan are dead: 4"):
        for driver in cycle(drivers):
            driver.step()
            run.cluster.advance(10)
            assert run.cluster.now - began_at < PATIENCE.total_seconds(), "it waits for too long"
    assert run.end(run.driver()) is RunState.HALTED


@pytest.mark.parametrize("apart", [timedelta(minutes=5), timedelta(hours=1)])
def test_a_wait_ends_although_two_workers_tell_different_times(
    tmp_path: Path, apart: timedelta
) -> None:
    run = with_a_dead_broker(tmp_path)
    fast = driver_with_clock(run, lambda: run.clock() + apart)
    halts_in_time(run, [run.driver(), fast])


def test_a_wait_ends_although_the_clock_is_set_back_meanwhile(tmp_path: Path) -> None:
    run = with_a_dead_broker(tmp_path)
    driver = driver_with_clock(run, lambda: run.clock() + timedelta(hours=1))
    for _ in range(6):
        driver.step()
        run.cluster.advance(10)
    halts_in_time(run, [run.driver()])
