"""Topics and configs read from a broker whose metadata is behind: nothing is taken for somebody's
doing, or for restored.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.control import Control
from counterpoise.model.kafka import CallResults, ConfigChange, ConfigResource
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import simulated
from tests.support.plans import move
from tests.support.runs import (
    FOUR_BROKERS,
    SKEWED,
    SimulatedRun,
    own_configs,
    times_submitted,
)


def test_metadata_that_is_a_second_behind_does_not_use_up_all_attempts_to_elect(
    tmp_path: Path,
) -> None:
    picture = "orders-0: 1 2 3 @2 size=1000"
    moved = move("orders-0", "1 2 3", "1 2 3", leader=2)
    run = SimulatedRun.of_moves(tmp_path, picture, moved, goal=Goal.LEADERS)
    before = run.cluster.describe_topics()
    run.driver().open()
    began = run.cluster.now
    while (wait := run.driver().step()) is not None:
        run.cluster.advance(wait + 0.05)  # an observation takes 50 ms
        run.cluster.stale_topic_reads = [before] if run.cluster.now - began < 1.0 else []
    assert run.end(run.driver()) is RunState.DONE, run.run.reason


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


@pytest.mark.parametrize("stale_reads", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("control", [Control.PAUSE, Control.CANCEL])
def test_throttles_that_no_broker_shows_yet_are_taken_back(
    tmp_path: Path, control: Control, stale_reads: int
) -> None:
    """As after the controller has changed, say; somebody has just asked for the end of it."""
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    driver.step()
    assert own_configs(run.cluster)
    run.ask(control)
    run.cluster.stale_config_reads = stale_reads
    with suppress(HaltedError):
        driver.step()
        run.cluster.advance(driver.step() or 0)
        run.ask(Control.RESUME)
        run.repeat(driver.step)
    run.end(driver)
    assert not run.cluster.stale_config_reads
    assert own_configs(run.cluster) == {}
    touched_keys = run.ledger.journal(run.run_id).touched()
    assert {(t.before_value, t.outcome) for t in touched_keys} == {(None, "as before")}


def test_throttles_that_the_cluster_refuses_are_not_taken_back_and_the_run_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    sent = []

    def refused(changes: Sequence[ConfigChange], **_: object) -> CallResults[ConfigResource]:
        sent.append(changes)
        refusals = {change.resource: "CLUSTER_AUTHORIZATION_FAILED" for change in changes}
        return CallResults((), refusals)

    monkeypatch.setattr(run.cluster, "alter_configs", refused)
    with pytest.raises(HaltedError, match="CLUSTER_AUTHORIZATION_FAILED"):
        driver.step()
    assert run.end(driver) is RunState.HALTED
    assert len(sent) == 1
    assert not [t for t in run.ledger.journal(run.run_id).touched() if t.restored_at is None]


@pytest.mark.parametrize("stale_reads", [1, 2, 3, 4, 8])
def test_an_order_that_no_broker_shows_yet_is_not_sent_twice(
    tmp_path: Path, stale_reads: int
) -> None:
    run = SimulatedRun.make(tmp_path, request=PlanRequest(Goal.LEADERS))
    before = run.cluster.describe_topics()
    driver = run.driver()
    driver.open()
    while not times_submitted(run.cluster):
        run.cluster.advance(driver.step() or 0)
    run.cluster.stale_topic_reads = [before] * stale_reads
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert set(times_submitted(run.cluster).values()) == {1}
