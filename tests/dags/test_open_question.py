"""A question is closed in Airflow where the ledger has nothing to answer any more; only there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk._shared.module_loading import import_string
from airflow.sdk.exceptions import TaskAwaitingInput, TaskDeferred
from airflow.sdk.serde import deserialize, serialize

from counterpoise import pipeline
from counterpoise.errors import LedgerError
from counterpoise.installation import Installation
from counterpoise.ledger import Ledger
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.orchestration import open_question
from counterpoise.orchestration.approval import RecordedApproval
from tests.dags.test_recorded_approval import Task, approve_first, asked, lowering, page, run
from tests.support.decisions import reject

__all__ = ["asked", "lowering", "page", "run"]  # fixtures
REJECT = "Reject"


@dataclass(frozen=True)
class Detail:
    """What Airflow keeps of an answer to a question."""

    chosen_options: tuple[str, ...] = ()
    responded_by_user: Any = None
    responded_at: datetime | None = None
    params_input: Any = None

    @property
    def response_received(self) -> bool:
        return self.responded_at is not None


class Question:
    """An open question in Airflow, as the triggerer reads and answers it."""

    def __init__(self) -> None:
        self.detail = Detail()
        self.failures: list[Exception] = []
        self.reads = 0

    def read(self, *, ti_id: UUID) -> Detail:
        assert ti_id == Task.id
        self.reads += 1
        if self.failures:
            raise self.failures.pop()
        return self.detail

    def respond(self, *, ti_id: UUID, chosen_options: list[str], params_input: Any) -> Detail:
        assert not self.detail.response_received, "Airflow: 409"
        return self.answer(chosen_options, None, params_input, ti_id)

    def answer(
        self, options: list[str], user: Any, params: Any = None, ti_id: UUID = Task.id
    ) -> Detail:
        assert ti_id == Task.id
        self.detail = Detail(tuple(options), user, datetime.now(UTC), params)
        return self.detail


@pytest.fixture
def question(monkeypatch: pytest.MonkeyPatch) -> Question:
    question = Question()
    monkeypatch.setattr(open_question, "get_hitl_detail_content_detail", question.read)
    monkeypatch.setattr(open_question, "update_hitl_detail_response", question.respond)
    monkeypatch.setattr(open_question, "LEDGER", open_question._SharedLedger())
    return question


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens while the trigger sleeps, in this order; the test fails where it sleeps on."""
    planned: list[Callable[[], object]] = []

    async def sleep(seconds: float) -> None:
        assert seconds == open_question.POLL_SECONDS
        assert planned, "the question stays open"
        planned.pop(0)()

    monkeypatch.setattr(open_question.asyncio, "sleep", sleep)
    return planned


def nothing() -> None:
    """Nobody does anything."""


def defer(*, is_second: bool = False) -> TaskDeferred:
    """Ask, and return how the task waits."""
    task = Task(is_second=is_second)
    operator: Any = RecordedApproval(task_id=task.task_id, is_second=is_second)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({"task_instance": task, "ti": task})
    return deferred.value


def started_anew(deferred: TaskDeferred) -> Any:
    """Return the trigger as a triggerer makes it of what the database has."""
    classpath, arguments = deferred.trigger.serialize()
    return import_string(classpath)(**deserialize(serialize(arguments)))


def event_of(trigger: Any) -> dict[str, Any]:
    async def first() -> Any:
        return await anext(trigger.run())

    payload: dict[str, Any] = asyncio.run(first()).payload
    return deserialize(serialize(payload))  # type: ignore[no-any-return,arg-type]


def resume(event: dict[str, Any], *, is_second: bool = False) -> Task:
    task = Task(is_second=is_second)
    operator: Any = RecordedApproval(task_id=task.task_id, is_second=is_second)
    context = {"ti": task, "task_instance": task, "task": operator}
    operator.resume_execution("execute_complete", {"event": event}, context)
    return task


def supersede(installation: Installation) -> str:
    newer = pipeline.plan(
        installation, "demo", RebalanceRequest(Goal.LEADERS), pipeline.Origin(Person("carol"))
    )
    assert newer is not None
    return newer["fingerprint"]


def test_a_newer_plan_closes_the_question_and_the_task_ends_as_superseded(
    installation: Installation,
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    deferred, newer = defer(), []
    sleeps[:] = [nothing, nothing, lambda: newer.append(supersede(installation))]
    event = event_of(started_anew(deferred))
    assert sleeps == []
    assert (question.detail.chosen_options, question.detail.responded_by_user) == ((REJECT,), None)
    assert event["responded_by_user"] is None
    task = resume(event)
    assert task.pushed["decision"] == {
        "decision": "superseded",
        "reason": f"superseded by {newer[0]}",
    }
    assert installation.ledger.approvals_of(run["run_id"]) == (), "nobody let time run out"
    assert installation.ledger.run(run["run_id"]).state is RunState.SUPERSEDED


def test_a_no_elsewhere_closes_the_question_of_the_second_person(
    installation: Installation,
    lowering: pipeline.PlannedRun,
    asked: list[dict[str, Any]],
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    approve_first(asked)
    deferred = defer(is_second=True)
    sleeps[:] = [nothing, lambda: reject(installation, lowering, by="bob")]
    task = resume(event_of(started_anew(deferred)), is_second=True)
    assert task.pushed["decision"] == {"decision": "rejected", "reason": "not this week"}
    decisions = [one.decision for one in installation.ledger.approvals_of(lowering["run_id"])]
    assert decisions == [Decision.GRANTED, Decision.REJECTED]


def test_an_answer_that_came_before_the_task_had_parked_counts(
    installation: Installation,
    run: pipeline.PlannedRun,
    page: dict[str, Any],
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    deferred = defer()
    shown = {name: param["value"] for name, param in page["params"].items()}
    question.answer(["Approve"], HitlUser("alice", "alice"), {**shown, "reason": "as agreed"})
    sleeps[:] = [nothing]
    resume(event_of(deferred.trigger))
    assert installation.ledger.run(run["run_id"]).state is RunState.APPROVED


@dataclass(frozen=True)
class HitlUser:
    id: str
    name: str


def test_when_time_is_up_nobody_has_answered(
    installation: Installation,
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    trigger = defer().trigger
    trigger.until = datetime.now(UTC)
    sleeps[:] = [nothing]
    resume(event_of(trigger))
    (answer,) = installation.ledger.approvals_of(run["run_id"])
    assert answer.decision is Decision.TIMED_OUT
    assert question.detail.chosen_options == (REJECT,)


def test_a_question_is_open_for_as_long_as_the_policy_says(
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    trigger = started_anew(defer())
    sleeps[:] = [nothing] * 3
    with pytest.raises(AssertionError, match="stays open"):
        event_of(trigger)
    trigger.until -= timedelta(hours=2)
    sleeps[:] = [nothing]
    assert event_of(trigger)["timedout"]


def test_a_question_that_was_closed_before_the_triggerer_was_killed_ends_the_same(
    installation: Installation,
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    deferred = defer()
    supersede(installation)
    question.answer([REJECT], None, {})
    sleeps[:] = [nothing]
    task = resume(event_of(started_anew(deferred)))
    assert task.pushed["decision"]["decision"] == "superseded"


@pytest.mark.parametrize("variable", ["", "COUNTERPOISE_LEDGER"], ids=["away", "not set"])
def test_without_the_ledger_the_question_stays_open_and_the_log_says_so_once(
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
) -> None:
    trigger = defer().trigger
    if variable:
        monkeypatch.delenv(variable)
    else:

        def away(*_: Any, **__: Any) -> Ledger:
            raise LedgerError("the ledger did not answer")

        monkeypatch.setattr(Ledger, "open", away)

    def time_is_up() -> None:
        trigger.until = datetime.now(UTC)

    sleeps[:] = [nothing, nothing, nothing, time_is_up]
    assert event_of(trigger)["timedout"]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    (told,) = [record.getMessage() for record in warnings if "answers still" in record.getMessage()]
    assert (variable or "did not answer") in told


def test_a_ledger_that_is_back_is_asked_again(
    installation: Installation,
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger, variable = defer().trigger, "COUNTERPOISE_LEDGER"
    supersede(installation)
    monkeypatch.delenv(variable)
    sleeps[:] = [nothing, lambda: monkeypatch.setenv(variable, installation.locations.ledger)]
    assert resume(event_of(trigger)).pushed["decision"]["decision"] == "superseded"


def test_an_airflow_that_does_not_answer_is_asked_again(
    installation: Installation,
    run: pipeline.PlannedRun,
    question: Question,
    sleeps: list[Callable[[], object]],
) -> None:
    trigger = defer().trigger
    supersede(installation)
    question.failures = [RuntimeError("503"), RuntimeError("503")]
    sleeps[:] = [nothing] * 3
    assert event_of(trigger)["chosen_options"] == [REJECT]


def test_an_open_question_asks_airflow_for_nothing_after_the_first_time(
    run: pipeline.PlannedRun, question: Question, sleeps: list[Callable[[], object]]
) -> None:
    trigger = defer().trigger
    sleeps[:] = [nothing] * 20
    with pytest.raises(AssertionError, match="stays open"):
        event_of(trigger)
    assert question.reads == 1


@pytest.mark.parametrize("is_over", [False, True], ids=["open", "superseded"])
def test_without_a_trigger_the_task_waits_as_airflows_own_do(
    installation: Installation, run: pipeline.PlannedRun, question: Question, is_over: bool
) -> None:
    """No triggerer lived until the end of the time."""
    defer()
    if is_over:
        supersede(installation)
    task = Task(is_second=False)
    operator: Any = RecordedApproval(task_id=task.task_id)
    with pytest.raises(TaskAwaitingInput) as parked:
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, {"ti": task})
    assert parked.value.method_name == "execute_complete"
    left = timedelta(seconds=1) if is_over else timedelta(hours=2)
    assert left - timedelta(minutes=1) < parked.value.timeout <= left


def test_a_dead_triggerer_does_not_keep_a_question_open_for_good(run: pipeline.PlannedRun) -> None:
    deferred = defer()
    assert deferred.timeout is not None
    assert timedelta(hours=2) < deferred.timeout < timedelta(hours=3)
