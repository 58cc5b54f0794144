"""Topics and configs read from a broker whose metadata is behind: nothing is taken for somebody's
doing, or for restored.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.control import Control
from counterpoise.model.kafka import CallResults, ConfigChange, ConfigResource
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.ledger_view import restore_pending_keys
from tests.support.pictures import simulated
from tests.support.runs import (
    FOUR_BROKERS,
    SKEWED,
    SimulatedRun,
    at_broker,
    own_configs,
    times_submitted,
)


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
    assert {owned.before for owned in run.owned_keys()} == {None}
    assert not run.view.left_as_others_set_them(run.run_id)


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
    assert not run.view.pending_keys(run.run_id)


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


class OneBrokerBehind:
    """Broker 4 shows each change of its own configs a second after it was accepted."""

    def __init__(self, kafka: SimulatedCluster, seconds: float = 1.0) -> None:
        self._kafka, self._seconds = kafka, seconds
        self._shown: list[tuple[float, dict[str, str]]] = [(0.0, {})]
        self._lock = threading.Lock()  # brokers are read side by side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kafka, name)

    def describe_configs(self, resources: Any, keys: Any, **more: Any) -> Any:
        with self._lock:
            return self._described(resources, keys, **more)

    def _described(self, resources: Any, keys: Any, **more: Any) -> Any:
        own = self._kafka.configs.dynamic
        now = dict(own.get(at_broker(4), {}))
        if now != self._shown[-1][1]:
            self._shown.append((self._kafka.now, now))
        old = [values for since, values in self._shown if since + self._seconds <= self._kafka.now]
        present = own.get(at_broker(4))
        own[at_broker(4)] = old[-1] if old else {}
        try:
            return self._kafka.describe_configs(resources, keys, **more)
        finally:
            if present is None:
                del own[at_broker(4)]
            else:
                own[at_broker(4)] = present


@pytest.mark.parametrize("seconds", [0.2, 0.4, 1.0])
def test_a_change_of_rate_that_a_broker_shows_a_moment_later_does_not_halt_the_run(
    tmp_path: Path, seconds: float
) -> None:
    run = SimulatedRun.make(tmp_path)
    behind: Any = OneBrokerBehind(run.cluster, seconds)
    driver = run.driver(behind)
    run.until_moving(driver)
    run.cluster.advance(2)
    run.ask(Control.RATE, rate_bytes_per_second=500_000)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE, run.run.reason


class Refusing:
    """The cluster for an operator who may not change configs any more."""

    def __init__(self, kafka: SimulatedCluster) -> None:
        self._kafka = kafka

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kafka, name)

    def alter_configs(self, changes: Any, **_: Any) -> CallResults[ConfigResource]:
        refused = dict.fromkeys((c.resource for c in changes), "CLUSTER_AUTHORIZATION_FAILED")
        return CallResults((), refused)


class JustWoken(Refusing):
    """Broker 4, which is asked, was frozen before the run began, and has not caught up yet."""

    def describe_configs(self, resources: Any, keys: Any, **more: Any) -> Any:
        present = self._kafka.configs.dynamic
        self._kafka.configs.dynamic = {
            resource: values
            for resource, values in present.items()
            if resource.is_broker and resource != at_broker(4)
        }
        try:
            return self._kafka.describe_configs(resources, keys, **more)
        finally:
            self._kafka.configs.dynamic = present

    def alter_configs(self, changes: Any, **more: Any) -> CallResults[ConfigResource]:
        return self._kafka.alter_configs(changes, **more)


def test_a_pending_restore_is_not_taken_for_done_before_a_change_was_answered(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    run.ask(Control.CANCEL)
    refusing: Any = Refusing(run.cluster)
    with pytest.raises(HaltedError):
        run.driver(refusing).step()
    assert run.end(run.driver(refusing)) is RunState.CANCELLED, "it gave up"
    assert own_configs(run.cluster)
    woken: Any = JustWoken(run.cluster)
    restore_pending_keys(run.ledger, woken, run.run)
    run.cluster.advance(900)
    run.restore_pending()
    assert own_configs(run.cluster) == {}
