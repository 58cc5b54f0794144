"""Every way in which a question can end leaves a row in the ledger, or grants nothing."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from counterpoise import pipeline
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest, Scope
from counterpoise.model.run import RunState
from counterpoise.orchestration.approval import NOBODY, RecordedApproval
from tests.simulation.test_roles import PEOPLE, POLICY, rows
from tests.support.decisions import reject
from tests.support.runs import change_state

CLUSTERS = """\
clusters:
  demo:
    connection: kafka_demo
    policy:
      movement: {rate: 20MB/s}
      access: {approve: [alice, bob]}
      approval: {wait_for: 2h}
"""


class Task:
    """What the operator uses of its task instance."""

    id = UUID("0199d1b0-0000-7000-8000-000000000001")
    dag_id = "kafka_rebalance"
    run_id = "manual__1"

    def __init__(self, *, is_second: bool) -> None:
        self.task_id = "approve_second" if is_second else "approve"
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert task_ids == "plan"
        return self.pushed.get(key)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow was told to ask, the newest last."""
    questions: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **detail: questions.append(detail),
    )
    return questions


@pytest.fixture
def run(installation: Installation) -> pipeline.PlannedRun:
    return planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)))


@pytest.fixture
def lowering(installation: Installation) -> pipeline.PlannedRun:
    """A run whose plan takes replicas away."""
    wanted = RebalanceRequest(
        Goal.REPLICATION_FACTOR, scope=Scope(topics=("*",)), replication_factor=1
    )
    return planned(installation, wanted)


def planned(
    installation: Installation,
    rebalance_request: RebalanceRequest,
    *,
    is_validated: bool = True,
    by: Person = Person("carol"),  # noqa: B008 - it is frozen
    why: str = "",
) -> pipeline.PlannedRun:
    """What `plan` and `validate` leave behind."""
    run = pipeline.plan(
        installation,
        "demo",
        rebalance_request,
        pipeline.Origin(by, Task.dag_id, Task.run_id, why=why),
    )
    assert run is not None
    if is_validated:
        installation.ledger.journal(run["run_id"]).event("validated", run["fingerprint"])
    return run


def ask(*, is_second: bool = False) -> timedelta | None:
    """Ask; return how long Airflow waits for an answer, None when nobody has to be asked."""
    task = Task(is_second=is_second)
    operator: Any = RecordedApproval(task_id=task.task_id, is_second=is_second)
    try:
        assert operator.execute({"task_instance": task, "ti": task}) is None
    except TaskDeferred as deferred:
        return waits_for(deferred)
    return None


def waits_for(deferred: TaskDeferred) -> timedelta:
    """How long an answer is waited for, to the second."""
    left = deferred.trigger.until - datetime.now(UTC)
    return timedelta(seconds=math.ceil(left.total_seconds()))


def answer(
    page: Mapping[str, Any],
    option: str,
    user: str | None,
    *,
    is_second: bool = False,
    resumed: Task | None = None,
    **typed: str,
) -> Task:
    """Resume the task as Airflow does when an answer, or the end of the time, has come.

    `page` is the question as it was shown. Raises TaskDeferred where the answer cannot count.
    """
    task = resumed or Task(is_second=is_second)
    shown = {name: param["value"] for name, param in page["params"].items()}
    event = {
        "chosen_options": [option],
        "params_input": shown | typed,
        "responded_at": datetime.now(UTC),
        "responded_by_user": {"id": user, "name": user} if user else None,
        "timedout": user is None,
    }
    operator: Any = RecordedApproval(task_id=task.task_id, is_second=is_second)
    operator.execute_complete({"ti": task, "task_instance": task, "task": operator}, event)
    return task


@pytest.fixture
def page(run: pipeline.PlannedRun, asked: list[dict[str, Any]]) -> dict[str, Any]:
    """The question about `run`, as a person sees it."""
    ask()
    return asked[-1]


def refusals(installation: Installation, run: pipeline.PlannedRun) -> list[str]:
    events = installation.ledger.journal(run["run_id"]).events()
    return [event.text for event in events if event.kind == "answer refused"]


def test_the_question_has_the_plan_the_rate_and_those_who_may_answer(
    run: pipeline.PlannedRun, asked: list[dict[str, Any]]
) -> None:
    assert ask() == timedelta(hours=2)
    (page,) = asked
    assert page["subject"] == f"Rebalance demo: add-brokers, plan {run['fingerprint'][7:15]}"
    assert run["fingerprint"] in page["body"]
    assert f"/counterpoise/runs/{run['run_id']}/plan" in page["body"]
    assert page["params"]["rate"]["value"] == "20.0MB/s"
    assert page["params"]["plan"]["value"] == run["fingerprint"]
    assert page["params"]["plan"]["schema"]["const"] == run["fingerprint"]
    assert [user["id"] for user in page["assigned_users"]] == ["alice", "bob"]
    assert page["defaults"] == ["Reject"]


def test_the_question_says_who_asks_why_and_how_to_undo(
    installation: Installation, asked: list[dict[str, Any]]
) -> None:
    why = "broker 3 is **new**.\n# and idle."
    run = planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)), why=why)
    ask()
    body = asked[-1]["body"]
    requested = r"Requested by carol: broker 3 is \*\*new\*\*. \# and idle."
    assert body.startswith(f"{requested}\n")
    assert body.count("broker 3 is") == 1
    assert f"`counterpoise undo {run['run_id']}`" in body
    assert f"/counterpoise/runs/{run['run_id']})" in body, "the page of the run"


def test_a_yes_grants_the_rate(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any]
) -> None:
    task = answer(page, "Approve", "alice", rate="5MB/s", reason="broker 3 joined")
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert (approval.decision, approval.by, approval.reason) == (
        Decision.GRANTED,
        "alice",
        "broker 3 joined",
    )
    assert approval.rate_bytes_per_second == 5_000_000
    assert approval.fingerprint == run["fingerprint"]
    assert installation.ledger.run(run["run_id"]).state is RunState.APPROVED
    assert task.pushed["decision"]["by"] == "alice"


def test_a_no_is_recorded_with_who_and_why(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any]
) -> None:
    answer(page, "Reject", "bob", rate="5MB/s", reason="not this week")
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert (approval.decision, approval.by, approval.reason) == (
        Decision.REJECTED,
        "bob",
        "not this week",
    )
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED


@pytest.mark.parametrize("option", ["Reject", "Approve"])
def test_silence_is_a_no_by_nobody_whatever_the_default_says(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any], option: str
) -> None:
    answer(page, option, None)
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert (approval.decision, approval.by) == (Decision.TIMED_OUT, NOBODY.name)
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED


@pytest.mark.parametrize("rate", ["10", "", "fast", "-5MB/s", "10MB"])
def test_a_yes_with_an_unusable_rate_grants_nothing_and_the_question_stays_open(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any], rate: str
) -> None:
    task = Task(is_second=False)
    with pytest.raises(TaskDeferred):
        answer(page, "Approve", "alice", resumed=task, rate=rate, reason="x")
    assert task.pushed["the last answer that did not count"].startswith("alice: rate: ")
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED
    (refused,) = refusals(installation, run)
    assert refused.startswith("granted by alice: rate: ")
    answer(page, "Approve", "alice", rate="5MB/s", reason="x")
    assert installation.ledger.run(run["run_id"]).state is RunState.APPROVED


@pytest.mark.parametrize("option", ["Approve", "Reject"])
@pytest.mark.parametrize("shown", ["sha256:another plan", ""])
def test_an_answer_from_a_page_of_another_plan_or_of_none_decides_nothing(
    installation: Installation,
    run: pipeline.PlannedRun,
    page: dict[str, Any],
    option: str,
    shown: str,
) -> None:
    with pytest.raises(TaskDeferred):
        answer(page, option, "alice", reason="x", plan=shown)
    assert installation.ledger.approvals_of(run["run_id"]) == ()
    (refused,) = refusals(installation, run)
    assert f"the question {run['fingerprint']}" in refused


def test_an_open_question_does_not_wait_longer_for_being_asked_again(
    installation: Installation, page: dict[str, Any]
) -> None:
    with pytest.raises(TaskDeferred) as parked:
        answer(page, "Approve", "alice", rate="fast", reason="x")
    assert timedelta(hours=1, minutes=59) < waits_for(parked.value) <= timedelta(hours=2)


def test_a_plan_that_was_not_validated_is_not_asked_about(
    installation: Installation, asked: list[dict[str, Any]]
) -> None:
    """Whoever may trigger the Dag may also mark `validate` as success."""
    planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)), is_validated=False)
    with pytest.raises(AirflowFailException, match="was not validated"):
        ask()
    assert asked == []


def test_a_dag_run_without_a_plan_asks_nobody(installation: Installation) -> None:
    """Nor does it believe an XCom: there is none that the task reads."""
    with pytest.raises(AirflowFailException, match="no run of the ledger belongs to this Dag run"):
        ask()


def test_a_dag_run_asks_about_one_plan(
    installation: Installation, page: dict[str, Any], asked: list[dict[str, Any]]
) -> None:
    """Airflow shows the first question of a task for as long as there is its Dag run."""
    with pytest.raises(RefusedError, match="start a new Dag run"):
        pipeline.check_plans_first(installation, Task.dag_id, Task.run_id)
    planned(installation, RebalanceRequest(Goal.LEADERS))
    with pytest.raises(AirflowFailException, match="has asked about plan"):
        ask()
    with pytest.raises(AirflowFailException, match="has asked about plan"):
        answer(page, "Approve", "alice", rate="5MB/s", reason="x")
    assert asked == [page]


def test_a_yes_from_somebody_whom_the_policy_does_not_name_grants_nothing(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any]
) -> None:
    with pytest.raises(TaskDeferred):
        answer(page, "Approve", "mallory", rate="5MB/s", reason="x")
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED
    (refused,) = refusals(installation, run)
    assert "mallory may not approve" in refused


@pytest.mark.parametrize("user", ["alice", None], ids=["answer", "time up"])
def test_a_superseded_question_is_closed_with_a_word(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any], user: str | None
) -> None:
    newer = pipeline.plan(
        installation, "demo", RebalanceRequest(Goal.LEADERS), pipeline.Origin(Person("carol"))
    )
    assert newer is not None
    task = answer(page, "Approve", user, rate="5MB/s", reason="x")
    assert task.pushed["decision"] == {
        "decision": "superseded",
        "reason": f"superseded by {newer['fingerprint']}",
    }
    assert installation.ledger.approvals_of(run["run_id"]) == ()
    assert installation.ledger.run(run["run_id"]).state is RunState.SUPERSEDED


@pytest.mark.parametrize(
    ("option", "user", "typed"),
    [
        ("Approve", "alice", {"rate": "5MB/s", "reason": "x"}),
        ("Approve", "alice", {"rate": "fast", "reason": "x"}),
        ("Reject", "alice", {"reason": "x"}),
        ("Reject", None, {}),
    ],
    ids=["yes", "yes that cannot count", "no", "time up"],
)
def test_a_question_about_a_run_that_was_rejected_elsewhere_is_closed_with_a_word(
    installation: Installation,
    run: pipeline.PlannedRun,
    page: dict[str, Any],
    option: str,
    user: str | None,
    typed: dict[str, str],
) -> None:
    """By the command line, by our page, or by the analysis that had asked for the plan."""
    reject(installation, run, by="bob")
    task = answer(page, option, user, **typed)
    assert task.pushed["decision"]["decision"] == "rejected"
    assert task.pushed["decision"]["reason"] == "not this week"
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert approval.by == "bob"
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED


def test_the_same_yes_recorded_twice_after_a_crash_is_still_one_yes(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any]
) -> None:
    for _ in range(2):
        answer(page, "Approve", "alice", rate="5MB/s", reason="x")
    assert installation.ledger.run(run["run_id"]).state is RunState.APPROVED


def test_a_run_under_way_is_not_asked_about_again(
    installation: Installation, run: pipeline.PlannedRun, page: dict[str, Any]
) -> None:
    answer(page, "Approve", "alice", rate="5MB/s", reason="x")
    change_state(installation.ledger, run["run_id"], RunState.RUNNING)
    assert ask() is None


def approve_first(asked: list[dict[str, Any]]) -> None:
    ask()
    answer(asked[-1], "Approve", "alice", rate="5MB/s", reason="x")


def test_a_second_person_is_asked_only_where_replicas_are_given_up_and_not_who_said_yes_already(
    lowering: pipeline.PlannedRun, asked: list[dict[str, Any]]
) -> None:
    approve_first(asked)
    ask(is_second=True)
    page = asked[-1]
    assert [user["id"] for user in page["assigned_users"]] == ["bob"]
    assert page["params"]["rate"]["value"] == "5.0MB/s"
    assert "Approved by alice" in page["body"]
    answer(page, "Approve", "bob", is_second=True, rate="5MB/s", reason="x")
    assert ask(is_second=True) is None


def test_one_yes_is_enough_where_no_replica_is_given_up(
    run: pipeline.PlannedRun, asked: list[dict[str, Any]]
) -> None:
    assert ask(is_second=True) is None
    assert asked == []


def test_the_second_yes_is_another_persons(
    installation: Installation, lowering: pipeline.PlannedRun, asked: list[dict[str, Any]]
) -> None:
    approve_first(asked)
    ask(is_second=True)
    with pytest.raises(TaskDeferred):
        answer(asked[-1], "Approve", "alice", is_second=True, rate="5MB/s", reason="x")
    assert "another person" in refusals(installation, lowering)[-1]
    assert [approval.by for approval in installation.ledger.approvals_of(lowering["run_id"])] == [
        "alice"
    ]


def test_a_second_no_ends_the_run(
    installation: Installation, lowering: pipeline.PlannedRun, asked: list[dict[str, Any]]
) -> None:
    approve_first(asked)
    ask(is_second=True)
    answer(asked[-1], "Reject", "bob", is_second=True, reason="no")
    assert installation.ledger.run(lowering["run_id"]).state is RunState.REJECTED


CELLS = {row.action: row.cells for row in rows()}


@pytest.mark.parametrize("permission", PEOPLE)
def test_tasks_do_what_the_table_of_roles_says(
    installation: Installation, asked: list[dict[str, Any]], permission: str
) -> None:
    header = "clusters:\n  demo:\n    connection: kafka_demo\n"
    installation.locations.config.write_text(f"{header}    policy: {{access: {{{POLICY}}}}}\n")
    user = PEOPLE[permission]
    cells = {action: CELLS[action][permission] for action in CELLS}
    wanted = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    person = installation.people.airflow_user(user)
    with nullcontext() if cells["propose a plan, also an undo plan"] == "yes" else refused():
        pipeline.plan(installation, "demo", wanted, pipeline.Origin(person))
    run = planned(installation, wanted, by=installation.people.airflow_user("pia"))
    ask()

    def answers(option: str, cell: str) -> None:
        with nullcontext() if cell != "no" else pytest.raises(TaskDeferred):
            answer(asked[-1], option, user, rate="5MB/s", reason="x")

    def state() -> RunState:
        return installation.ledger.run(run["run_id"]).state

    answers("Approve", cells["approve a plan of somebody else"])
    assert (state() is RunState.APPROVED) == (permission == "approve")
    if permission != "approve":
        answer(asked[-1], "Approve", "alice", rate="5MB/s", reason="x")
    answers("Reject", cells["reject an approved plan that has not started"])
    assert (state() is RunState.REJECTED) == (permission != "view")


def refused() -> AbstractContextManager[Any]:
    return pytest.raises(RefusedError, match="here; the policy names")
