"""Topics read from a broker whose metadata is behind: nothing is taken for somebody's doing."""

from pathlib import Path

import pytest

from counterpoise.model.run import RunState
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import simulated
from tests.support.runs import FOUR_BROKERS, SKEWED, SimulatedRun


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


def test_topics_of_before_are_no_difference_from_the_plan(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = simulated(SKEWED, racks=FOUR_BROKERS)
    let_commands_reach(kafka, monkeypatch)
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("simulated:9092")
    plan, before = tmp_path / "plan.json", kafka.describe_topics()
    words = ("--cluster", "demo", "--goal", "add-brokers", "--brokers", "4", "--out", plan)
    assert shell.type("plan", *words).code == 0
    assert shell.type("approve", plan, "--rate", "50MB/s", "--reason", "broker 4").code == 0
    assert shell.type("execute", plan).code == 0
    kafka.stale_topic_reads = [before]
    assert shell.type("verify", plan).code == 0


def test_what_somebody_moved_back_is_still_seen(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    run.repeat(driver.step)
    moved = next(move for move in run.plan.moves if move.adding)
    run.cluster.alter_reassignments({moved.topic_partition: moved.replicas_before})
    run.cluster.advance(3600)
    assert run.end(driver) is RunState.HALTED
