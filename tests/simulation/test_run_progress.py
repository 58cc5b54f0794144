"""The progress of a run: what one observation keeps for the next, and what people see meanwhile."""

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.execution.progress_update import ends_soon
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import RunProgress
from tests.support.runs import SimulatedRun


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
