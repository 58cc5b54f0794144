"""kafka_rebalance from first task to last, with the real pipeline, on a simulated cluster."""

import logging
from collections.abc import Callable
from contextlib import suppress
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from counterpoise.errors import (
    ClusterError,
    InputError,
    LedgerError,
    NotApprovedError,
    RefusedError,
)
from counterpoise.installation import Installation, open_installation
from counterpoise.model.acl import REASSIGN
from counterpoise.model.approval import Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.orchestration.handover import Wanted, wanted_rebalance
from counterpoise.services import approvals, execution, plans, requests, verification
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.partition import SimulatedPartition
from tests.support.decisions import grant
from tests.support.ledger_view import LedgerView
from tests.support.questions import answered_by

ROOT = Path(__file__).parents[2]
STAGES = [
    "plan",
    "validate",
    "approve",
    "open_run",
    "execute",
    "verify",
    "settle",
    "report",
    "fresh_snapshot",
    "verdict",
]
ALL_WELL = {**dict.fromkeys(STAGES, "success"), "repeat": "skipped"}
YES = ("Approve", {"rate": "20MB/s", "reason": "broker 3 joined"})
NO = ("Reject", {"rate": "20MB/s", "reason": "not now"})
UNUSABLE = ("Approve", {"rate": "20", "reason": "x"})
NAMING_BROKERS = ("add-brokers", "remove-brokers")
ONE_REPLICA = {"goal": "replication-factor", "replication_factor": 1, "topics": ["orders"]}
Answer = tuple[str, dict[str, str]]
DECISIONS = {"Approve": Decision.GRANTED, "Reject": Decision.REJECTED}


def answer_in_ledger(answer: Answer, user: str | None, second: str | None) -> None:
    """Answer the newest plan, as page and command do; without a user, only time passes."""
    option, typed = answer
    with open_installation() as installation:
        run = installation.ledger.runs()[0]
        by = second if installation.ledger.approvals_of(run.run_id) else user
        if by is None:
            return
        with suppress(InputError, RefusedError):
            approvals.answer(
                installation,
                run.run_id,
                run.fingerprint,
                decision=DECISIONS[option],
                by=Person.airflow(by),
                reason=typed["reason"],
                rate=typed["rate"],
            )


@pytest.fixture
def rebalance(
    installation: Installation, kafka_rebalance: Callable[[dict[str, Any]], DagRun]
) -> Callable[..., tuple[str, dict[str, str]]]:
    """Runs the Dag for the cluster `demo`; gives the state of the run and of every task."""

    def run(
        answer: Answer,
        user: str | None = "alice",
        goal: str = "add-brokers",
        second: str | None = "bob",
        broker_ids: tuple[int, ...] = (3,),
        then: tuple[Answer, ...] = (),
        **rebalance_request: object,
    ) -> tuple[str, dict[str, str]]:
        answers = [answer, *then]  # the last one is given again and again

        def answer_next() -> None:
            answer_in_ledger(answers[0], user, second)
            if len(answers) > 1:
                answers.pop(0)

        take_snapshots_asked_for()
        conf = {
            "goal": goal,
            "broker_ids": list(broker_ids) if goal in NAMING_BROKERS else [],
            **rebalance_request,
        }
        with answered_by(answer_next):
            ended = kafka_rebalance(conf)
        return ended.state, {task.task_id: task.state for task in ended.get_task_instances()}

    return run


def xcoms(task_id: str) -> dict[str, Any]:
    """What a task of the newest Dag run has left for people, by key."""
    query = select(XComModel).where(XComModel.task_id == task_id).order_by(XComModel.timestamp)
    with create_session(scoped=False) as session:
        rows = list(session.scalars(query))
        newest = rows[-1].run_id
        return {row.key: XComModel.deserialize_value(row) for row in rows if row.run_id == newest}


def take_snapshots_asked_for() -> list[DagRun]:
    """Delete and return the runs of kafka_snapshot that tasks have triggered."""
    query = select(DagRun).where(
        DagRun.dag_id == "kafka_snapshot", DagRun.run_type == "operator_triggered"
    )
    with create_session(scoped=False) as session:
        found = list(session.scalars(query.options(joinedload(DagRun.dag_run_note))))
        for run in found:
            session.delete(run)
        session.flush()
        session.expunge_all()
    return found


def placement(kafka: SimulatedCluster) -> dict[str, tuple[int, ...]]:
    return {
        f"{topic.topic}-{p.partition}": p.replicas
        for topic in kafka.describe_topics()
        for p in topic.partitions
    }


def test_an_approved_plan_is_carried_out_and_leaves_no_setting(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    configs = dict(kafka.configs.dynamic)
    state, tasks = rebalance(YES)
    assert (state, tasks) == ("success", ALL_WELL)
    assert [run.state for run in installation.ledger.runs()] == [RunState.DONE]
    held = [replicas for replicas in placement(kafka).values() if 3 in replicas]
    assert len(held) == 4
    assert {key: value for key, value in kafka.configs.dynamic.items() if value} == configs
    reports = installation.archive.report_files()
    assert any(file.path.endswith("-run.html") for file in reports)
    (run,) = installation.ledger.runs()
    page = f"/counterpoise/runs/{run.run_id}"
    for task_id in ("plan", "approve", "execute", "settle", "report"):
        shown = xcoms(task_id)
        assert shown["_link_counterpoise_run"].endswith(page), task_id
    triggered = take_snapshots_asked_for()
    assert [(asked.conf, asked.note) for asked in triggered] == [
        ({"clusters": ["demo"]}, f"after run {run.run_id} of demo")
    ]
    assert xcoms("plan")["_link_counterpoise_cluster"].endswith("/counterpoise/clusters/demo")


@pytest.mark.parametrize(
    ("user", "decision"),
    [("bob", Decision.REJECTED), (None, Decision.TIMED_OUT)],
    ids=["reject", "timeout"],
)
def test_a_no_or_silence_leaves_the_cluster_untouched(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    user: str | None,
    decision: Decision,
) -> None:
    earlier = placement(kafka)
    if user is None:
        wait_for_seconds(installation, 3)
    state, tasks = rebalance(NO, user)
    assert state == "success"
    assert take_snapshots_asked_for() == []
    skipped = [task for task in STAGES if tasks[task] == "skipped"]
    moving = ["approve", "open_run", "execute", "verify", "settle"]
    assert skipped == [*moving, "fresh_snapshot"]
    (run,) = installation.ledger.runs()
    assert run.state is RunState.REJECTED
    assert [approval.decision for approval in installation.ledger.approvals_of(run.run_id)] == [
        decision
    ]
    assert placement(kafka) == earlier
    assert not {"alter_configs", "alter_reassignments", "elect_preferred_leaders"} & {
        call.name for call in kafka.calls
    }


def wait_for_seconds(installation: Installation, seconds: int) -> None:
    config = installation.locations.config
    config.write_text(config.read_text().replace("wait_for: 2h", f"wait_for: {seconds}s"))


def test_a_lower_replication_factor_takes_a_yes_from_two_people(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    state, tasks = rebalance(YES, **ONE_REPLICA)
    assert (state, tasks) == ("success", ALL_WELL)
    (run,) = installation.ledger.runs()
    assert [approval.person.shown for approval in installation.ledger.approvals_of(run.run_id)] == [
        "alice",
        "bob",
    ]
    assert {len(replicas) for replicas in placement(kafka).values()} == {1}


@pytest.mark.parametrize("second", ["alice", None], ids=["the same", "nobody"])
def test_without_another_person_no_replica_is_given_up(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    second: str | None,
) -> None:
    earlier = placement(kafka)
    if second is None:
        wait_for_seconds(installation, 10)
    state, tasks = rebalance(YES, second=second, then=(YES, NO), **ONE_REPLICA)
    assert (state, tasks["approve"], tasks["open_run"]) == ("success", "skipped", "skipped")
    (run,) = installation.ledger.runs()
    assert run.state is RunState.REJECTED
    assert placement(kafka) == earlier
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}


def test_after_an_unusable_answer_the_question_is_asked_again(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    state, tasks = rebalance(UNUSABLE, then=(NO,))
    assert (state, tasks["approve"]) == ("success", "skipped")
    (run,) = installation.ledger.runs()
    assert run.state is RunState.REJECTED
    kinds = LedgerView.of(installation.ledger).event_kinds(run.run_id)
    # The run's new state and the decision are an event each.
    assert kinds == ["proposed", "validated", "asked", "answer refused", "rejected", "rejected"]
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}


def test_a_move_that_cannot_go_on_is_settled_reported_and_fails_the_run(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    earlier, configs = placement(kafka), dict(kafka.configs.dynamic)
    kafka.fail_next("alter_reassignments", ClusterError("the controller said no"))
    state, tasks = rebalance(YES)
    assert (state, tasks["execute"], tasks["verdict"]) == ("failed", "failed", "failed")
    assert (tasks["settle"], tasks["report"]) == ("success", "success")
    assert [run.state for run in installation.ledger.runs()] == [RunState.HALTED]
    assert placement(kafka) == earlier
    assert {key: value for key, value in kafka.configs.dynamic.items() if value} == configs


def test_a_run_that_a_person_cancels_is_skipped_settled_and_no_failure(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configs = dict(kafka.configs.dynamic)
    step, bob = execution.execute_step, Person.airflow("bob")

    def cancel_once_it_moves(now: Installation, run_id: str, *more: Any) -> float | None:
        if kafka.list_reassignments() and not now.ledger.requests("demo", run_id):
            requests.cancel(now, run_id, by=bob, why="month end")
        return step(now, run_id, *more)

    monkeypatch.setattr(execution, "execute_step", cancel_once_it_moves)
    state, tasks = rebalance(YES)
    assert (state, tasks["execute"], tasks["verify"], tasks["settle"], tasks["verdict"]) == (
        "success",
        "skipped",
        "skipped",
        "success",
        "success",
    )
    (run,) = installation.ledger.runs()
    assert run.state is RunState.CANCELLED and "cancel by bob" in run.reason
    assert {key: value for key, value in kafka.configs.dynamic.items() if value} == configs
    assert "Traceback" not in caplog.text + capsys.readouterr().out


def test_a_halted_run_goes_on_by_clearing_tasks_only_after_another_yes(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
) -> None:
    """Airflow does not say who cleared a task, and the policy names who may operate."""
    kafka.fail_next("alter_reassignments", ClusterError("the controller said no"))
    assert rebalance(YES)[0] == "failed"
    (run,) = installation.ledger.runs()
    config = installation.locations.config
    approvers = "approve: [alice, bob]"
    config.write_text(config.read_text().replace(approvers, f"{approvers}, operate: [oscar]"))
    with open_installation() as later:
        with pytest.raises(NotApprovedError, match="or it is approved again"):
            execution.open_run(later, run.run_id, run.fingerprint)
        assert later.ledger.run(run.run_id).state is RunState.HALTED
        alice = Person.airflow("alice")
        grant(later, run, by=alice, reason="the controller is back", rate="20MB/s")
        execution.open_run(later, run.run_id, run.fingerprint)
        assert later.ledger.run(run.run_id).state is RunState.RUNNING


def test_nothing_to_move_is_well(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    for number, partition in enumerate(kafka.partitions.values()):
        partition.leader = partition.replicas[0]
        if number % 2:
            partition.replicas, partition.leader = (2, 1), 2
    del kafka.brokers[3]
    state, tasks = rebalance(YES, goal="leaders")
    assert (state, tasks) == ("success", dict.fromkeys(ALL_WELL, "skipped") | {"plan": "success"})
    assert installation.ledger.runs() == ()
    shown = xcoms("plan")
    seen = shown["return_value"]
    assert seen["cluster"] == "demo"
    assert seen["nothing to move"].startswith("already balanced")
    assert seen["report"] == shown["_link_counterpoise_report"]
    names = [file.path for file in installation.archive.report_files()]
    (page,) = (name for name in names if "nothing-to-move" in name)
    assert seen["report"].endswith(f"/counterpoise/reports/{page}")
    report = installation.archive.read_report(page)
    assert "Nothing needs to move" in report
    assert seen["nothing to move"] in unescape(report)


def test_a_plan_that_the_operator_may_not_carry_out_is_refused_before_anybody_is_asked(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    kafka.denied[REASSIGN] = "CLUSTER_AUTHORIZATION_FAILED"
    state, tasks = rebalance(YES)
    assert (state, tasks["validate"], tasks["approve"]) == ("failed", "failed", "upstream_failed")
    (run,) = installation.ledger.runs()
    assert run.state is RunState.REJECTED, "nobody can answer any more"
    assert run.reason == "nobody could answer: its plan must not run"
    recorded = LedgerView.of(installation.ledger).events(run.run_id)
    events = {event.kind: event.text for event in recorded}
    assert "the operator connection may not" in events["must not run"]
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why the task `plan` refused, as it happens."""
    plan_or_reason = plans.make
    said: list[str] = []

    def note_refusal(*arguments: Any, **named: Any) -> Any:
        try:
            return plan_or_reason(*arguments, **named)
        except RefusedError as error:
            said.append(str(error))
            raise

    monkeypatch.setattr(plans, "make", note_refusal)
    return said


def test_a_plan_that_nobody_could_approve_is_refused_by_the_task_that_makes_it(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    refusals: list[str],
) -> None:
    config = installation.locations.config
    config.write_text(config.read_text().replace("[alice, bob]", "[alice]"))
    state, tasks = rebalance(YES, **ONE_REPLICA)
    assert (state, tasks["plan"], tasks["approve"]) == ("failed", "failed", "upstream_failed")
    assert installation.ledger.runs() == ()
    (refusal,) = refusals
    assert "it takes a yes of 2 other Airflow users" in refusal


def test_a_cluster_for_reports_only_is_refused_by_the_task_that_makes_the_plan(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    refusals: list[str],
) -> None:
    config = installation.locations.config
    provider = "policy:\n      provider: confluent\n"
    config.write_text(config.read_text().replace("policy:\n", provider))
    state, tasks = rebalance(YES)
    assert (state, tasks["plan"], tasks["approve"]) == ("failed", "failed", "upstream_failed")
    assert installation.ledger.runs() == ()
    (refusal,) = refusals
    assert "cluster demo is on Confluent Cloud: reassignments are not open" in refusal
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}


def test_a_look_that_fails_for_a_reason_that_may_pass_is_made_again_and_costs_no_try(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look, failures = (
        execution.execute_step,
        [LedgerError("did not answer"), LedgerError("did not answer")],
    )

    def look_or_fail(*arguments: Any) -> float | None:
        if failures and kafka.list_reassignments():
            raise failures.pop()
        return look(*arguments)

    monkeypatch.setattr(execution, "execute_step", look_or_fail)
    assert rebalance(YES) == ("success", ALL_WELL)
    assert failures == []


def test_topics_that_come_to_a_broker_while_it_is_emptied_ask_for_the_next_removal(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka.add_broker(4, "a")
    kafka.partitions[TopicPartition("orders", 0)].replicas = (1, 4)
    kafka.partitions[TopicPartition("orders", 0)].isr = {1, 4}
    verify = verification.verify

    def create_topic_then_verify(*arguments: Any) -> None:
        kafka.topic_ids["new"] = "id-of-new"
        kafka.partitions[TopicPartition("new", 0)] = SimulatedPartition((4, 1), {4, 1}, 4, 0.0)
        verify(*arguments)

    monkeypatch.setattr(verification, "verify", create_topic_then_verify)
    state, tasks = rebalance(YES, goal="remove-brokers", broker_ids=(4,))
    assert (state, tasks["verify"], tasks["repeat"]) == ("failed", "failed", "success")
    (run,) = installation.ledger.runs()
    assert run.state is RunState.DONE
    with create_session(scoped=False) as session:
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_task_id == "repeat"))
    assert event.partition_key == "demo"
    dag_run = SimpleNamespace(partition_key="demo")
    wanted = wanted_rebalance(dag_run, {}, [event])
    by = Person.dag("kafka_rebalance")
    request = RebalanceRequest(Goal.REMOVE_BROKERS, (4,))
    why = "1 partition came while they were emptied, first new-0"
    assert wanted == Wanted("demo", request, requested_by=by, why=why)
    kafka.delete_topic("new")
    with caplog.at_level(logging.INFO):
        verify(installation, run.run_id, run.fingerprint)
    assert "broker 4: safe to stop (0 replicas, 0 voters" in caplog.text
    assert "unregister --bootstrap-server $BOOTSTRAP --id 4" in caplog.text
    assert verification.next_removal(installation, run.run_id) is None
