"""Topics read from a broker whose metadata is behind: nothing is taken for somebody's doing."""

from pathlib import Path

from counterpoise.model.run import RunState
from tests.support.runs import SimulatedRun


def test_leaders_of_before_do_not_halt_a_run_that_has_elected_them(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    described = [run.cluster.describe_topics()]
    while (wait := driver.step()) is not None:
        described.append(run.cluster.describe_topics())
        run.cluster.advance(wait)
    before_elections = [topics for topics in described if topics != described[-1]][-1]
    run.cluster.stale_topic_reads = [before_elections] * 3
    assert run.end(driver) is RunState.DONE, run.run.reason
    assert not run.cluster.stale_topic_reads


def test_replicas_of_before_do_not_halt_a_run_that_has_moved_them(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    before = run.cluster.describe_topics()
    driver.open()
    while not run.run_progress().progress.moves_done:
        run.cluster.advance(driver.step() or 0)
    run.cluster.stale_topic_reads = [before]
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE, run.run.reason


def test_what_somebody_moved_back_is_still_seen(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    run.repeat(driver.step)
    moved = next(move for move in run.plan.moves if move.adding)
    run.cluster.alter_reassignments({moved.topic_partition: moved.replicas_before})
    run.cluster.advance(3600)
    assert run.end(driver) is RunState.HALTED
