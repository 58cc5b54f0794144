"""Every way in which a question can end leaves a row in the ledger, or grants nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from counterpoise import pipeline
from counterpoise.installation import Installation, open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from counterpoise.orchestration.approval import NOBODY, RecordedApproval
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

CLUSTERS = """\
clusters:
  demo:
    connection: kafka_demo
    policy:
      movement: {rate: 20MB/s}
      approval: {approvers: [alice, bob], wait_for: 2h}
"""
SKEWED = "\n".join(f"orders-{number}: 1 2 size=3000000" for number in range(6))


class Task:
    """What the operator uses of its task instance."""

    id = "a-task-instance"

    def __init__(self, run: Any) -> None:
        self._run = run
        self.pushed: dict[str, Any] = {}

    def xcom_pull(self, task_ids: str) -> Any:
        assert task_ids == "plan"
        return self._run

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    (tmp_path / "clusters.yaml").write_text(CLUSTERS)
    monkeypatch.setenv("COUNTERPOISE_CONFIG", str(tmp_path / "clusters.yaml"))
    monkeypatch.setenv("COUNTERPOISE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COUNTERPOISE_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    return open_installation()


@pytest.fixture
def run(installation: Installation) -> pipeline.PlannedRun:
    snapshot = cluster(SKEWED, racks="1=a 2=b 3=c", name="demo")
    made = pipeline.plan_from(
        snapshot,
        RebalanceRequest(Goal.ADD_BROKERS, (3,)),
        installation.cluster("demo").policy.balance,
    )
    return pipeline.submit_plan(installation, made, requested_by=Person("analysis"))


@pytest.fixture
def lowering(installation: Installation) -> pipeline.PlannedRun:
    """A run whose plan takes a replica away."""
    snapshot = cluster(SKEWED, racks="1=a 2=b 3=c", name="demo")
    made = plan_by_hand(
        snapshot, Goal.REPLICATION_FACTOR, move("orders-0", "1 2", "1"), replication_factor=1
    )
    return pipeline.submit_plan(installation, made, requested_by=Person("carol"))


def answer(
    run: pipeline.PlannedRun,
    option: str,
    user: str | None,
    *,
    is_second: bool = False,
    **params: str,
) -> Task:
    """Resumes the task as Airflow does when an answer, or the end of the time, has come."""
    task = Task(run)
    event = {
        "chosen_options": [option],
        "params_input": params,
        "responded_at": datetime.now(UTC),
        "responded_by_user": {"id": user, "name": user} if user else None,
        "timedout": user is None,
    }
    operator: Any = RecordedApproval(task_id="approve", is_second=is_second)
    operator.execute_complete({"ti": task, "task": operator}, event)
    return task


def ask(
    run: pipeline.PlannedRun, monkeypatch: pytest.MonkeyPatch, *, is_second: bool
) -> dict[str, Any]:
    """What Airflow is told to ask; {} when the task is done without a question."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **detail: asked.update(detail),
    )
    operator: Any = RecordedApproval(task_id="approve", is_second=is_second)
    try:
        assert operator.execute({"task_instance": Task(run), "ti": Task(run)}) is None
    except TaskAwaitingInput as parked:
        asked["timeout"] = parked.timeout
    return asked


def test_the_question_has_the_plan_the_rate_and_those_who_may_answer(
    run: pipeline.PlannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(run, monkeypatch, is_second=False)
    assert asked["timeout"] == timedelta(hours=2)
    assert "demo" in asked["subject"]
    assert run["fingerprint"] in asked["body"]
    assert f"/counterpoise/runs/{run['run_id']}/plan" in asked["body"]
    assert asked["params"]["rate"]["value"] == "20.0MB/s"
    assert [user["id"] for user in asked["assigned_users"]] == ["alice", "bob"]
    assert asked["defaults"] == ["Reject"]


def test_a_yes_grants_the_rate(installation: Installation, run: pipeline.PlannedRun) -> None:
    task = answer(run, "Approve", "alice", rate="5MB/s", reason="broker 3 joined")
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
    installation: Installation, run: pipeline.PlannedRun
) -> None:
    answer(run, "Reject", "bob", rate="5MB/s", reason="not this week")
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert (approval.decision, approval.by, approval.reason) == (
        Decision.REJECTED,
        "bob",
        "not this week",
    )
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED


def test_silence_is_a_no_by_nobody(installation: Installation, run: pipeline.PlannedRun) -> None:
    answer(run, "Reject", None, rate="20MB/s", reason="")
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert (approval.decision, approval.by) == (Decision.TIMED_OUT, NOBODY.name)
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED


def test_silence_never_grants_whatever_the_default_says(
    installation: Installation, run: pipeline.PlannedRun
) -> None:
    answer(run, "Approve", None, rate="20MB/s", reason="")
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED


@pytest.mark.parametrize("rate", ["10", "", "fast", "-5MB/s", "10MB"])
def test_a_yes_with_an_unusable_rate_grants_nothing_and_says_why(
    installation: Installation, run: pipeline.PlannedRun, rate: str
) -> None:
    with pytest.raises(AirflowFailException, match="rate"):
        answer(run, "Approve", "alice", rate=rate, reason="x")
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED
    (refused,) = (
        e for e in installation.ledger.journal(run["run_id"]).events() if e.kind == "answer refused"
    )
    assert refused.text.startswith("granted by alice: rate: ")


def test_a_yes_from_somebody_whom_the_policy_does_not_name_grants_nothing(
    installation: Installation, run: pipeline.PlannedRun
) -> None:
    with pytest.raises(AirflowFailException, match="mallory may not approve"):
        answer(run, "Approve", "mallory", rate="5MB/s", reason="x")
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED


def test_the_same_yes_recorded_twice_after_a_crash_is_still_one_yes(
    installation: Installation, run: pipeline.PlannedRun
) -> None:
    for _ in range(2):
        answer(run, "Approve", "alice", rate="5MB/s", reason="x")
    assert installation.ledger.run(run["run_id"]).state is RunState.APPROVED


def test_a_second_person_is_asked_only_where_replicas_are_given_up_and_not_who_said_yes_already(
    lowering: pipeline.PlannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(lowering, "Approve", "alice", rate="5MB/s", reason="x")
    asked = ask(lowering, monkeypatch, is_second=True)
    assert [user["id"] for user in asked["assigned_users"]] == ["bob"]
    assert asked["params"]["rate"]["value"] == "5.0MB/s"
    assert "Approved by alice" in asked["body"]
    answer(lowering, "Approve", "bob", is_second=True, rate="5MB/s", reason="x")
    assert ask(lowering, monkeypatch, is_second=True) == {}


def test_one_yes_is_enough_where_no_replica_is_given_up(
    run: pipeline.PlannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(run, monkeypatch, is_second=True) == {}


def test_the_second_yes_is_another_persons(
    installation: Installation, lowering: pipeline.PlannedRun
) -> None:
    answer(lowering, "Approve", "alice", rate="5MB/s", reason="x")
    with pytest.raises(AirflowFailException, match="another person"):
        answer(lowering, "Approve", "alice", is_second=True, rate="5MB/s", reason="x")
    assert [approval.by for approval in installation.ledger.approvals_of(lowering["run_id"])] == [
        "alice"
    ]


def test_a_second_no_ends_the_run(
    installation: Installation, lowering: pipeline.PlannedRun
) -> None:
    answer(lowering, "Approve", "alice", rate="5MB/s", reason="x")
    answer(lowering, "Reject", "bob", is_second=True, rate="5MB/s", reason="no")
    assert installation.ledger.run(lowering["run_id"]).state is RunState.REJECTED
