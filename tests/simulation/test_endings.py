"""How a run ends, for everybody: ledger, page, API, command and Dag run say the same.

The tasks of the Dag run are called here one by one, on a simulated cluster; people and trouble come
at a random step of it.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from counterpoise.errors import ClusterError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.acl import REASSIGN
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.orchestration.installation import failing_for_good
from counterpoise.services import (
    approvals,
    execution,
    plans,
    requests,
    runs,
    snapshots,
    validations,
    verification,
)
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine
from tests.support.decisions import decide, grant, reject
from tests.support.installations import installation_over, set_clock
from tests.support.pictures import simulated
from tests.support.planned_runs import planned_run
from tests.support.runs import clock_of
from tests.support.web import browser

CLUSTERS = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
    policy: {movement: {max_moves_in_flight: 2}}
"""
PICTURE = "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6))
ALICE, BOB = Person.airflow("alice"), Person.airflow("bob")
WORK = ("plan", "validate", "approve", "open_run", "execute", "verify")
TASKS = (*WORK, "settle", "report")
MAX_STEPS = 400


@dataclass
class DagRun:
    """A Dag run of kafka_rebalance, and the states of its tasks."""

    installation: Installation
    kafka: SimulatedCluster
    run_id: str
    fingerprint: str
    at_step: Callable[[str, int], None]  # what happens before a step of a task
    states: dict[str, str | None] = field(default_factory=lambda: dict.fromkeys(TASKS))

    def go(self) -> None:
        self.states["plan"] = "success"
        self._task("validate", lambda: validations.validate(self.installation, *self._run))
        self.at_step("approve", 0)
        self._task("approve", self._approve)
        self._task("open_run", self._open_run)
        self._task("execute", lambda: self._steps("execute", self._execute_step))
        self._task("verify", lambda: verification.verify(self.installation, *self._run))
        if self.states["open_run"] == "success":
            self.states["settle"] = None
            self._steps("settle", self._settle_step)
            self.states["settle"] = "success"
        else:
            self.states["settle"] = "skipped"
        self.states["report"] = "success"

    def verdict(self) -> str:
        """Return the word of the Dag run's end; "" where it fails."""
        try:
            return verification.verdict(self.installation, self.run_id, self.states)
        except RefusedError:
            return ""

    @property
    def _run(self) -> tuple[str, str]:
        return self.run_id, self.fingerprint

    def _task(self, task_id: str, call: Callable[[], object]) -> None:
        before = self.states[TASKS[TASKS.index(task_id) - 1]]
        if before != "success":
            self.states[task_id] = "skipped" if before == "skipped" else "upstream_failed"
            return
        try:
            with failing_for_good():
                call()
        except AirflowSkipException:
            self.states[task_id] = "skipped"
        except AirflowFailException:
            self.states[task_id] = "failed"
        else:
            self.states[task_id] = "success"

    def _approve(self) -> None:
        question = approvals.open_question(self.installation, self.run_id)
        if question is not None:
            assert not question.time_left, "a scenario answers, or lets time pass"
            nobody = Person.unknown("nobody")
            decide(self.installation, self.run_id, Decision.TIMED_OUT, nobody)
        self._skip_where_ended()

    def _open_run(self) -> None:
        self.at_step("open_run", 0)
        self._skip_where_ended()
        execution.open_run(self.installation, *self._run)

    def _skip_where_ended(self) -> None:
        if ended := runs.ended_by_people(self.installation, self.run_id):
            raise AirflowSkipException(ended)

    def _execute_step(self) -> float | None:
        return execution.execute_step(self.installation, *self._run, print)

    def _settle_step(self) -> float | None:
        return execution.settle_step(self.installation, self.run_id, print)

    def _steps(self, task_id: str, step: Callable[[], float | None]) -> None:
        for number in range(MAX_STEPS):
            self.at_step(task_id, number)
            if (wait := step()) is None:
                return
            self.kafka.advance(max(wait, 1.0))
        raise AssertionError(f"{task_id} is not over after {MAX_STEPS} steps")


# -- what happens: at which task and step, and what it does


Act = Callable[[DagRun], None]


def yes(dag_run: DagRun) -> None:
    grant(dag_run.installation, dag_run.installation.ledger.run(dag_run.run_id), rate="2MB/s")


def no(dag_run: DagRun) -> None:
    reject(dag_run.installation, dag_run.installation.ledger.run(dag_run.run_id))


def silence(dag_run: DagRun) -> None:
    approvals.open_question(dag_run.installation, dag_run.run_id)
    clock = dag_run.installation.clock
    set_clock(dag_run.installation, lambda: clock() + timedelta(hours=25))


def newer_plan(dag_run: DagRun) -> None:
    leaders = RebalanceRequest(Goal.LEADERS)
    planned_run(dag_run.installation, "demo", leaders, plans.Origin(ALICE))


def is_under_way(dag_run: DagRun) -> bool:
    state = dag_run.installation.ledger.run(dag_run.run_id).state
    return state in (RunState.RUNNING, RunState.SETTLING)


def cancel(dag_run: DagRun) -> None:
    if is_under_way(dag_run):
        requests.cancel(dag_run.installation, dag_run.run_id, by=BOB, why="month end")


def undo(dag_run: DagRun) -> None:
    if is_under_way(dag_run):
        requests.undo(dag_run.installation, dag_run.run_id, by=BOB, why="wrong broker")


def pause(dag_run: DagRun) -> None:
    if dag_run.installation.ledger.run(dag_run.run_id).state is RunState.RUNNING:
        requests.pause(dag_run.installation, dag_run.run_id, by=BOB, why="look first")


def trouble(dag_run: DagRun) -> None:
    dag_run.kafka.fail_next("alter_reassignments", ClusterError("the controller said no"))


def marked_as_failed(dag_run: DagRun) -> None:
    raise AirflowSkipException("as Airflow leaves a task between two looks")


def forbidden(dag_run: DagRun) -> None:
    dag_run.kafka.denied[REASSIGN] = "CLUSTER_AUTHORIZATION_FAILED"


OPENED = (("approve", yes),)
# Each with the states in which it may end, and whether the Dag run may succeed.
SCENARIOS: dict[str, tuple[tuple[tuple[str, Act], ...], set[RunState]]] = {
    "done": (OPENED, {RunState.DONE}),
    "cancelled": ((*OPENED, ("execute", cancel)), {RunState.CANCELLED, RunState.DONE}),
    "undone": ((*OPENED, ("execute", undo)), {RunState.CANCELLED, RunState.DONE}),
    "paused, then cancelled": (
        (*OPENED, ("execute", pause), ("later", cancel)),
        {RunState.CANCELLED, RunState.DONE},
    ),
    "trouble": ((*OPENED, ("open_run", trouble)), {RunState.HALTED}),
    "trouble, then cancelled": (
        (*OPENED, ("open_run", trouble), ("settle", cancel)),
        {RunState.HALTED},
    ),
    "cancelled, then trouble": (
        (*OPENED, ("execute", cancel), ("settle", trouble)),
        {RunState.CANCELLED, RunState.HALTED, RunState.DONE},
    ),
    "marked as failed": (
        (*OPENED, ("execute", marked_as_failed)),
        {RunState.HALTED, RunState.DONE},
    ),
    "rejected": ((("approve", no),), {RunState.REJECTED}),
    "rejected before it started": ((*OPENED, ("open_run", no)), {RunState.REJECTED}),
    "timed out": ((("approve", silence),), {RunState.REJECTED}),
    "superseded": ((("approve", newer_plan),), {RunState.SUPERSEDED}),
    "superseded before it started": ((*OPENED, ("open_run", newer_plan)), {RunState.SUPERSEDED}),
    "refused by validation": ((("validate", forbidden),), {RunState.PROPOSED}),
}
FAILS = {"trouble", "trouble, then cancelled", "marked as failed", "refused by validation"}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ledger_page_api_command_and_dag_run_agree_on_the_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scenario: str,
    seed: int,
) -> None:
    acts, may_end_in = SCENARIOS[scenario]
    chance = random.Random(f"{scenario} {seed}")
    kafka = simulated(PICTURE, racks="1=a 2=b 3=c")
    monkeypatch.setattr(time, "sleep", kafka.advance)
    installation = installation_over(
        tmp_path, lambda _: kafka, clusters=CLUSTERS, clock=clock_of(kafka)
    )
    snapshots.make(installation, "demo", installation.clock())
    request = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    origin = plans.Origin(ALICE, "kafka_rebalance", "manual__1")
    run = planned_run(installation, "demo", request, origin)
    assert run is not None
    left = [(task, chance.randint(1, 25) if task == "execute" else 0, act) for task, act in acts]

    def at_step(task_id: str, number: int) -> None:
        while left:
            task, step, act = left[0]
            is_later = task == "later" and number >= 60
            if not is_later and (task != task_id or step > number):
                return
            left.pop(0)
            act(dag_run)

    dag_run = DagRun(installation, kafka, run["run_id"], run["fingerprint"], at_step)
    at_step("validate", 0)
    dag_run.go()
    ended = installation.ledger.run(run["run_id"])
    assert ended.state in may_end_in, (ended, dag_run.states)
    word = dag_run.verdict()
    assert word == ("" if scenario in FAILS else ended.in_words), dag_run.states
    if ended.state is RunState.CANCELLED and not kafka.list_reassignments():
        assert dag_run.states["execute"] == dag_run.states["verify"] == "skipped"
    check_others_agree(tmp_path, capsys, ended.run_id, ended.state)
    assert not kafka.list_reassignments()
    assert not {key for key, value in kafka.configs.dynamic.items() if value}


def check_others_agree(
    folder: Path, capsys: pytest.CaptureFixture[str], run_id: str, state: RunState
) -> None:
    shell = CommandLine.in_folder(folder, capsys)
    (folder / "clusters.yaml").write_text(CLUSTERS)
    with browser(shell.environment, "alice") as pages:
        assert pages.get(f"/api/runs/{run_id}").json()["state"] == str(state)
        # One that is still proposed then was refused by validation.
        word = "Must not run" if state is RunState.PROPOSED else str(state).capitalize()
        assert f">{word}</span></h1>" in pages.get(f"/runs/{run_id}").text
    assert f'"state": "{state}"' in shell.type("status", run_id, "--json").out
    followed: Any = shell.type("status", run_id, "--follow")
    assert followed.code == (0 if state is RunState.DONE else 1)
    assert f"run {run_id} is {state}" in followed.out
