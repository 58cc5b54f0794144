"""The task `approve`: it asks, waits for the ledger, and ends with what the ledger says."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
    TaskDeferred,
)
from airflow.triggers.base import TriggerEvent

from counterpoise.errors import LedgerError, RefusedError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest, Scope
from counterpoise.model.run import RunState
from counterpoise.orchestration import approval
from counterpoise.orchestration.approval import (
    NOBODY,
    OPTION,
    POLL_SECONDS,
    LedgerApproval,
    LedgerTrigger,
)
from counterpoise.services import approvals, execution, plans, requests
from tests.simulation.test_roles import PEOPLE, POLICY, rows
from tests.support import hostile
from tests.support.decisions import ALICE, CAROL, grant, reject
from tests.support.ledger_view import add_event, change_state
from tests.support.planned_runs import planned_run

CLUSTERS = """\
clusters:
  demo:
    connection: kafka_demo
    policy:
      movement: {rate: 20MB/s}
      access: {approve: [alice, bob]}
      approval: {wait_for: 2h}
"""
ADD_3 = RebalanceRequest(Goal.ADD_BROKERS, (3,))
LOWERING = RebalanceRequest(
    Goal.REPLICATION_FACTOR, scope=Scope(topics=("*",)), replication_factor=1
)
RULE = "automatic: [{goal: add-brokers, max_bytes_per_day: 1GB}]"
NEWS = "the ledger has news"


class Task:
    """What the operator uses of its task instance."""

    id = UUID("0199d1b0-0000-7000-8000-000000000001")
    dag_id = "kafka_rebalance"
    run_id = "manual__1"
    task_id = "approve"

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert (task_ids, key) == ("plan", "why nothing needs to move")


class Airflow:
    """The question as Airflow keeps it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.is_answered = False
        self.closed_with: list[str] = []
        self.problem: Exception | None = None

    def ask(self, **detail: Any) -> None:
        self.asked.append(detail)
        self.is_answered = False

    def read(self, ti_id: UUID) -> Any:
        assert ti_id == Task.id
        if self.problem:
            raise self.problem
        return SimpleNamespace(response_received=self.is_answered)

    def respond(self, ti_id: UUID, chosen_options: list[str], params_input: object) -> None:
        assert (ti_id, params_input) == (Task.id, {})
        self.closed_with, self.is_answered = chosen_options, True


@pytest.fixture(autouse=True)
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    airflow = Airflow()
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", airflow.ask)
    monkeypatch.setattr(approval, "get_hitl_detail_content_detail", airflow.read)
    monkeypatch.setattr(approval, "update_hitl_detail_response", airflow.respond)
    monkeypatch.setattr(approval, "LEDGER", approval._SharedLedger())
    return airflow


@pytest.fixture
def run(installation: Installation) -> plans.PlannedRun:
    return planned(installation, ADD_3)


def planned(
    installation: Installation,
    rebalance_request: RebalanceRequest,
    *,
    is_validated: bool = True,
    by: Person = CAROL,
    why: str = "",
) -> plans.PlannedRun:
    """What `plan` and `validate` leave behind."""
    run = planned_run(
        installation,
        "demo",
        rebalance_request,
        plans.Origin(by, Task.dag_id, Task.run_id, why=why),
    )
    assert run is not None
    if is_validated:
        add_event(installation.ledger, run["run_id"], "validated", run["fingerprint"])
    return run


def approve(**arguments: Any) -> LedgerTrigger | None:
    """Run the task; return the trigger on which it waits, None where it has ended well."""
    operator: Any = LedgerApproval(task_id=Task.task_id, **arguments)
    task = Task()
    try:
        operator.execute({"task_instance": task, "ti": task})
    except TaskDeferred as deferred:
        assert isinstance(deferred.trigger, LedgerTrigger)
        assert deferred.method_name == "go_on"
        return deferred.trigger
    return None


def wait(
    monkeypatch: pytest.MonkeyPatch, trigger: LedgerTrigger | None, *sleeps: Callable[[], object]
) -> object:
    """Run a trigger, made again as the triggerer does; while it sleeps, one of `sleeps` happens.

    Returns the event's payload; None where it waits on after the last.
    """
    assert trigger is not None
    path, arguments = trigger.serialize()
    assert path == "counterpoise.orchestration.approval.LedgerTrigger"
    left = list(sleeps)

    async def sleep(seconds: float) -> None:
        assert seconds == POLL_SECONDS
        if not left:
            raise asyncio.CancelledError
        left.pop(0)()

    monkeypatch.setattr(approval.asyncio, "sleep", sleep)

    async def first_event() -> TriggerEvent | None:
        try:
            async for event in LedgerTrigger(**arguments).run():
                return event
        except asyncio.CancelledError:
            pass
        return None

    event = asyncio.run(first_event())
    return event.payload if event else None


def nothing() -> None:
    """What happens while a trigger sleeps."""


def state_of(installation: Installation, run: plans.PlannedRun) -> RunState:
    return installation.ledger.run(run["run_id"]).state


# -- the question


def test_airflow_shows_the_plan_in_short_and_where_to_answer(
    run: plans.PlannedRun, airflow: Airflow
) -> None:
    assert approve() is not None
    (asked,) = airflow.asked
    assert asked["subject"] == "Moves 120 MB to broker 3 in about 6 s"
    lines = asked["body"].split("\n\n")
    assert lines[:3] == [
        "Cluster demo, goal add-brokers 3.",
        "Requested by carol.",
        "May answer: alice, bob.",
    ]
    assert lines[3].startswith("[Answer on the plan's page](")
    assert lines[3].endswith(f"/counterpoise/runs/{run['run_id']})")
    assert asked["options"] == [OPTION]
    assert not asked["params"] and not asked["assigned_users"] and not asked["defaults"]


def test_names_make_no_markdown(installation: Installation, airflow: Airflow) -> None:
    why = f"[all is well](https://evil.example) <b> {hostile.HOSTILE}"
    odd = Person.system("[x](https://evil.example)")
    planned(installation, ADD_3, by=odd, why=why)
    assert approve() is not None
    body = airflow.asked[-1]["body"]
    assert r"\[x\](https://evil.example)" in body and r"\[all is well\]" in body
    assert "<b>" not in body.replace(r"\<b\>", "")


def test_a_plan_that_was_not_validated_is_not_asked_about(
    installation: Installation, airflow: Airflow
) -> None:
    """Whoever may trigger the Dag may also mark `validate` as success."""
    planned(installation, ADD_3, is_validated=False)
    with pytest.raises(AirflowFailException, match="have not been checked yet"):
        approve()
    assert airflow.asked == []


def test_a_dag_run_without_a_plan_asks_nobody(installation: Installation) -> None:
    """Nor does it believe an XCom: there is none that the task reads."""
    with pytest.raises(AirflowFailException, match="no run of the ledger belongs to this Dag run"):
        approve()


def test_a_dag_run_asks_about_one_plan(installation: Installation, run: plans.PlannedRun) -> None:
    """Airflow shows the first question of a task for as long as there is its Dag run."""
    plans.check_plans_first(installation, Task.dag_id, Task.run_id)
    approve()
    with pytest.raises(RefusedError, match="start a new Dag run"):
        plans.check_plans_first(installation, Task.dag_id, Task.run_id)


# -- how the wait ends


def test_a_yes_in_the_ledger_ends_the_wait(
    installation: Installation,
    run: plans.PlannedRun,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger = approve()
    assert wait(monkeypatch, trigger, nothing, nothing) is None
    assert wait(monkeypatch, trigger, nothing, lambda: grant(installation, run)) == NEWS
    assert airflow.closed_with == [OPTION], "it is gone from the required actions"
    assert approve() is None
    assert len(airflow.asked) == 1


@pytest.mark.parametrize("end", ["rejected", "superseded"])
def test_a_no_or_a_newer_plan_skips_what_follows(
    installation: Installation,
    run: plans.PlannedRun,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    def ended() -> None:
        if end == "rejected":
            reject(installation, run, by="bob")
        else:
            leaders = RebalanceRequest(Goal.LEADERS)
            planned_run(installation, "demo", leaders, plans.Origin(CAROL))

    assert wait(monkeypatch, approve(), ended) == NEWS
    assert airflow.closed_with == [OPTION]
    with pytest.raises(AirflowSkipException, match=f"is {end}: "):
        approve()
    assert not any(
        one.decision is Decision.TIMED_OUT
        for one in installation.ledger.approvals_of(run["run_id"])
    )


def test_silence_is_recorded_as_timed_out_by_nobody(
    installation: Installation,
    run: plans.PlannedRun,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger = approve()
    assert trigger is not None
    trigger.until -= timedelta(hours=2)
    assert wait(monkeypatch, trigger, nothing) == NEWS
    assert airflow.closed_with == [OPTION]
    set_wait_for(installation, "1s")
    with pytest.raises(AirflowSkipException, match="rejected: nobody answered in time"):
        while approve() is not None:
            pass
    (ended,) = installation.ledger.approvals_of(run["run_id"])
    assert (ended.decision, ended.person) == (Decision.TIMED_OUT, NOBODY)
    assert state_of(installation, run) is RunState.REJECTED


def set_wait_for(installation: Installation, wait_for: str) -> None:
    config = installation.locations.config
    config.write_text(config.read_text().replace("wait_for: 2h", f"wait_for: {wait_for}"))


@pytest.mark.parametrize(
    "is_early", [False, True], ids=["while it waits", "before it has deferred"]
)
def test_the_option_decides_nothing_and_the_question_is_open_again(
    installation: Installation,
    run: plans.PlannedRun,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_early: bool,
) -> None:
    told: list[str] = []
    notifier: Any = lambda _context: told.append("waits")  # noqa: E731
    first = approve(notifiers=[notifier])
    airflow.is_answered = True
    if is_early:  # Airflow lets nothing go on then
        assert wait(monkeypatch, first, nothing) == NEWS
    again = approve(notifiers=[notifier])
    assert first is not None and again is not None
    assert again.until == first.until, "it does not wait longer"
    assert told == ["waits"]
    assert not airflow.is_answered and len(airflow.asked) == 2
    assert state_of(installation, run) is RunState.PROPOSED
    assert installation.ledger.approvals_of(run["run_id"]) == ()


def test_a_plan_that_needs_two_people_waits_on_after_the_first_yes(
    installation: Installation, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(installation, LOWERING)
    first = approve()
    assert "2 people have to approve it; 2 missing." in airflow.asked[-1]["body"]
    assert wait(monkeypatch, first, lambda: grant(installation, run, by="alice")) == NEWS
    assert not airflow.is_answered, "it stays among the required actions"
    second = approve()
    assert first is not None and second is not None and second.until > first.until
    body = airflow.asked[-1]["body"]
    assert "May answer: bob." in body and "approved by alice; 1 missing." in body
    with pytest.raises(RefusedError, match="alice approved this plan, so another"):
        grant(installation, run, by="alice", rate="2MB/s")
    grant(installation, run, by="alice")  # the same again changes nothing
    assert approve() is not None, "one person is no two"
    assert state_of(installation, run) is RunState.PROPOSED
    grant(installation, run, by="bob")
    assert approve() is None


def test_a_run_under_way_is_not_asked_about_again(
    installation: Installation, run: plans.PlannedRun, airflow: Airflow
) -> None:
    grant(installation, run)
    change_state(installation.ledger, run["run_id"], RunState.RUNNING)
    assert approve() is None and airflow.asked == []


def test_a_halted_run_is_asked_about_once_more(
    installation: Installation, run: plans.PlannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant(installation, run)
    for state in (RunState.RUNNING, RunState.SETTLING, RunState.HALTED):
        change_state(installation.ledger, run["run_id"], state, "broker 3 died")
    trigger = approve()
    assert wait(monkeypatch, trigger, nothing, lambda: grant(installation, run)) == NEWS
    assert approve() is None


# -- what is away


def test_a_ledger_that_is_away_is_asked_again(
    installation: Installation,
    run: plans.PlannedRun,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    trigger = approve()
    ledger = str(installation.locations.ledger)

    def goes() -> None:
        monkeypatch.setenv("COUNTERPOISE_LEDGER", "sqlite:////dev/null/ledger.db")
        approval.LEDGER._forget()

    def returns() -> None:
        monkeypatch.setenv("COUNTERPOISE_LEDGER", ledger)
        grant(installation, run)

    assert wait(monkeypatch, trigger, goes, nothing, returns) == NEWS
    warned = [record for record in caplog.records if "is asked again" in record.message]
    assert len(warned) == 1
    goes()
    with pytest.raises(LedgerError) as away:
        approve()
    assert away.value.retryable, "the try is repeated"


def test_what_airflow_does_not_answer_is_asked_again(
    installation: Installation,
    run: plans.PlannedRun,
    airflow: Airflow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger = approve()

    def goes() -> None:
        airflow.problem = RuntimeError("the api-server is away")
        grant(installation, run)

    def returns() -> None:
        airflow.problem = None

    assert wait(monkeypatch, trigger, goes, nothing) is None
    assert wait(monkeypatch, trigger, nothing, returns) == NEWS


@pytest.mark.parametrize("reason", ["Trigger timeout", "module not found"])
def test_without_a_triggerer_that_can_the_task_looks_itself(reason: str) -> None:
    operator: Any = LedgerApproval(task_id="approve")
    with pytest.raises(TaskAwaitingInput) as parked:
        operator.resume_execution("__fail__", {"error": reason}, {})
    assert (parked.value.method_name, parked.value.timeout) == ("go_on", timedelta(seconds=60))


# -- rules of the policy


@pytest.fixture
def ruled(installation: Installation, tmp_path: Path) -> None:
    text = CLUSTERS.replace("wait_for: 2h", f"wait_for: 2h, {RULE}")
    (tmp_path / "clusters.yaml").write_text(text)


@pytest.mark.usefixtures("ruled")
def test_where_a_rule_approves_nobody_is_asked(
    installation: Installation, airflow: Airflow
) -> None:
    run = planned(installation, ADD_3)
    assert approve() is None and airflow.asked == []
    (yes,) = installation.ledger.approvals_of(run["run_id"])
    assert (yes.by, yes.rate_bytes_per_second) == ("policy-rule:add-brokers", 20_000_000)
    with open_installation() as worker:
        execution.open_run(worker, run["run_id"], run["fingerprint"])


@pytest.mark.usefixtures("ruled")
def test_people_are_asked_where_the_cluster_was_frozen_meanwhile(
    installation: Installation, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(installation, ADD_3)
    is_for_a_rule = approvals.is_for_a_rule

    def find_and_freeze(*arguments: Any) -> Any:
        found = is_for_a_rule(*arguments)
        requests.freeze(installation, "demo", until="8h", by=ALICE, why="month end")
        return found

    monkeypatch.setattr(approvals, "is_for_a_rule", find_and_freeze)
    assert approve() is not None
    assert len(airflow.asked) == 1


# -- who may propose


CELLS = {row.action: row.cells for row in rows()}


@pytest.mark.parametrize("permission", PEOPLE)
def test_tasks_do_what_the_table_of_roles_says(installation: Installation, permission: str) -> None:
    header = "clusters:\n  demo:\n    connection: kafka_demo\n"
    installation.locations.config.write_text(f"{header}    policy: {{access: {{{POLICY}}}}}\n")
    person = Person.airflow(PEOPLE[permission])
    may = CELLS["propose a plan, also an undo plan"][permission] == "yes"
    with nullcontext() if may else refused():
        planned_run(installation, "demo", ADD_3, plans.Origin(person))


def refused() -> AbstractContextManager[Any]:
    return pytest.raises(RefusedError, match="here; the policy names")
