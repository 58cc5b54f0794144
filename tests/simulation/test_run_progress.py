"""The progress of a run: what one observation keeps for the next, and what people see meanwhile."""

from pathlib import Path

import pytest

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
