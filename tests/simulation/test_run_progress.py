"""The progress of a run: what one observation keeps for the next, and what people see meanwhile."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from counterpoise.execution.copies import with_point
from counterpoise.execution.progress_update import ends_soon
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import TRAIL_POINTS, BrokerLoad, RunProgress, TrailPoint
from tests.support.runs import START, SimulatedRun


def test_progress_only_grows_and_the_time_left_comes_true(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    driver.step()
    foretold = run.cluster.now + (run.run_progress().seconds_left or 0)
    shares, rates = [], []
    while run.cluster.list_reassignments():
        run.cluster.advance(driver.step() or 0)
        shares.append(run.run_progress().progress.share)
        rates += [link.bytes_per_second for link in run.run_progress().links]
    assert run.cluster.now == pytest.approx(foretold, abs=4)
    assert shares == sorted(shares)
    assert max(rates) == pytest.approx(run.rate, rel=0.05), (
        "each link is as fast as its throttle, and no faster"
    )
    run.repeat(driver.step)
    assert run.run_progress().progress.share == 1.0
    assert run.end(driver) is RunState.DONE


def test_brokers_come_to_what_the_plan_says_and_the_line_grows_with_them(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    first = run.run_progress()
    assert [load.bytes for load in first.brokers] >= [f.bytes_before for f in run.plan.figures]
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    last = run.run_progress()
    assert last.brokers == tuple(
        BrokerLoad(f.broker_id, f.leaders_after, f.replicas_after, f.bytes_after)
        for f in run.plan.figures
    )
    copied = [point.copied_bytes for point in last.trail]
    assert copied == sorted(copied)
    assert (copied[0], copied[-1]) == (0, run.plan.copied_bytes)
    assert last.trail[-1].at == last.observed_at
    assert RunProgress.from_json(last.to_json()) == last


def test_the_line_covers_the_whole_run_with_few_points_however_long_it_takes() -> None:
    trail: tuple[TrailPoint, ...] = ()
    for second in range(0, 20_000, 10):
        trail = with_point(trail, TrailPoint(START + timedelta(seconds=second), second, 1, 1))
        assert trail[-1].copied_bytes == second
        assert trail[0].copied_bytes == 0
        assert len(trail) <= TRAIL_POINTS
    gaps = {after.copied_bytes - before.copied_bytes for before, after in pairwise(trail[:-1])}
    assert len(trail) > TRAIL_POINTS / 3
    assert max(gaps) <= 2 * min(gaps)


def test_the_end_is_observed_often_between_two_bursts_of_bytes_too(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    while (run.run_progress().seconds_left or 99) > 15:
        run.cluster.advance(driver.step() or 0)
    run.cluster.full_speed_bytes_per_second = 0.001  # as between two fetches of a follower
    waits = []
    for _ in range(40):
        waits.append(driver.step() or 0)
        run.cluster.advance(waits[-1])
    often = waits.index(2.0)
    assert set(waits[:often]) == {0.25}
    assert 4 <= sum(waits[:often]) <= 7, "what stands still is observed as seldom as any other run"
    assert set(waits[often:]) == {2.0}


def test_copies_that_have_arrived_are_observed_often_until_kafka_completes_them(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    run.driver().step()
    assert ends_soon(replace(run.run_progress(), seconds_left=None))


def test_every_observation_may_be_made_by_another_process(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    while run.cluster.list_reassignments():
        run.cluster.advance(run.driver().step() or 0)
        run_progress = run.run_progress()
        assert RunProgress.from_json(run_progress.to_json()) == run_progress
    run.repeat(lambda: run.driver().step())
    run.repeat(lambda: run.driver().settle_step())
    assert run.run.state is RunState.DONE
    assert run.placement() == run.planned_placement()
