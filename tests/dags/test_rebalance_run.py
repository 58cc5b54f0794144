"""kafka_rebalance from its first task to its last, with the real pipeline, on a simulated cluster."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow._shared.timezones import timezone
from airflow.dag_processing.dagbag import DagBag
from airflow.models import dagrun
from airflow.models.hitl import HITLUser
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import handle_event_submit
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.orm import joinedload

from counterpoise import installation
from counterpoise.errors import ClusterError
from counterpoise.installation import Site, open_site
from counterpoise.kafka_admin.simulated import SimulatedCluster
from counterpoise.model.approval import Decision
from counterpoise.model.run import RunState
from tests.dags.test_recorded_approval import CLUSTERS
from tests.pictures import simulated

ROOT = Path(__file__).parents[2]
SKEWED = "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6))
ASKING = ["approve", "approve_second"]
STAGES = ["plan", "validate", *ASKING, "open_run", "execute", "verify", "settle", "report", "verdict"]
YES = ("Approve", {"rate": "20MB/s", "reason": "broker 3 joined"})
NO = ("Reject", {"rate": "20MB/s", "reason": "not now"})
UNUSABLE = ("Approve", {"rate": "20", "reason": "x"})
ONE_REPLICA = {"goal": "replication-factor", "replication_factor": 1, "topics": ["orders"]}
Answer = tuple[str, dict[str, str]]


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Broker 3 has just joined. Whoever connects finds that some seconds have passed."""
    kafka = simulated(SKEWED, racks="1=a 2=b 3=c")

    def connect(_settings: object) -> SimulatedCluster:
        kafka.advance(5.0)
        return kafka

    monkeypatch.setattr(installation, "connect_by_discovery", connect)
    return kafka


@pytest.fixture
def site(tmp_path: Path, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    (tmp_path / "clusters.yaml").write_text(CLUSTERS)
    monkeypatch.setenv("COUNTERPOISE_CONFIG", str(tmp_path / "clusters.yaml"))
    monkeypatch.setenv("COUNTERPOISE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COUNTERPOISE_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    with open_site() as site:
        yield site


def answer_open_questions(option: str, params: dict[str, str], users: dict[str, str | None]) -> None:
    """The steps of Airflow's REST handler; without a user, those of the scheduler when time is up.

    `users` has who answers which task.
    """
    query = (
        select(TaskInstance)
        .options(joinedload(TaskInstance.hitl_detail))
        .where(TaskInstance.dag_id == "kafka_rebalance", TaskInstance.state == "awaiting_input")
    )
    with create_session(scoped=False) as session:
        for task_instance in session.scalars(query):
            detail = task_instance.hitl_detail
            if detail is None or detail.response_received:
                continue
            user = users[task_instance.task_id]
            detail.responded_by = HITLUser(id=user, name=user) if user else None
            detail.responded_at = timezone.utcnow()
            detail.chosen_options, detail.params_input = [option], params
            payload = detail.as_resume_event_payload(timedout=user is None)
            handle_event_submit(TriggerEvent(payload), task_instance=task_instance, session=session)


@pytest.fixture
def rebalance(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, dict[str, str]]]:
    """Runs the Dag for the cluster `demo`; gives the state of the run and of every task."""

    def run(
        answer: Answer,
        user: str | None = "alice",
        goal: str = "add-brokers",
        second: str | None = "bob",
        **wish: object,
    ) -> tuple[str, dict[str, str]]:
        dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"]
        for task_id in ("execute", "settle"):
            dag.get_task(task_id).least_wait_seconds = 0.0
        create, sleep = dagrun.get_or_create_dagrun, time.sleep

        def create_with_key(**arguments: Any) -> Any:
            run = create(**arguments)
            run.partition_key = "demo"
            arguments["session"].commit()
            return run

        def answer_meanwhile(_seconds: float) -> None:
            answer_open_questions(*answer, {"approve": user, "approve_second": second})
            sleep(0.01)

        monkeypatch.setattr(dagrun, "get_or_create_dagrun", create_with_key)
        # `dag.test` waits for an answer in a loop; a thread of its own to give one deadlocks with it.
        monkeypatch.setattr(time, "sleep", answer_meanwhile)
        ended = dag.test(run_conf={"goal": goal, "broker_ids": [3] if goal == "add-brokers" else [], **wish})
        return ended.state, {task.task_id: task.state for task in ended.get_task_instances()}

    return run


def placement(kafka: SimulatedCluster) -> dict[str, tuple[int, ...]]:
    return {f"{topic.topic}-{p.partition}": p.replicas for topic in kafka.describe_topics() for p in topic.partitions}


def test_an_approved_plan_is_carried_out_and_leaves_no_setting(
    site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    configs = dict(kafka.configs.dynamic)
    state, tasks = rebalance(YES)
    assert (state, tasks) == ("success", dict.fromkeys(STAGES, "success"))
    assert [run.state for run in site.ledger.runs()] == [RunState.DONE]
    held = [replicas for replicas in placement(kafka).values() if 3 in replicas]
    assert len(held) == 4
    assert {key: value for key, value in kafka.configs.dynamic.items() if value} == configs
    assert any(name.endswith("-run.html") for name in site.archive.report_names())


@pytest.mark.parametrize(
    ("user", "decision"), [("bob", Decision.REJECTED), (None, Decision.TIMED_OUT)], ids=["reject", "timeout"]
)
def test_a_no_or_silence_leaves_the_cluster_untouched(
    site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any], user: str | None, decision: Decision
) -> None:
    earlier = placement(kafka)
    state, tasks = rebalance(NO, user)
    assert state == "success"
    skipped = [task for task in STAGES if tasks[task] == "skipped"]
    assert skipped == ["approve_second", "open_run", "execute", "verify", "settle"]
    (run,) = site.ledger.runs()
    assert run.state is RunState.REJECTED
    assert [approval.decision for approval in site.ledger.approvals_of(run.run_id)] == [decision]
    assert placement(kafka) == earlier
    assert not {"alter_configs", "alter_reassignments", "elect_preferred_leaders"} & {call.name for call in kafka.calls}


def test_a_lower_replication_factor_takes_a_yes_from_two_people(
    site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    state, tasks = rebalance(YES, **ONE_REPLICA)
    assert (state, tasks) == ("success", dict.fromkeys(STAGES, "success"))
    (run,) = site.ledger.runs()
    assert [approval.by for approval in site.ledger.approvals_of(run.run_id)] == ["alice", "bob"]
    assert {len(replicas) for replicas in placement(kafka).values()} == {1}


@pytest.mark.parametrize(("second", "outcome"), [("alice", "failed"), (None, "success")], ids=["the same", "nobody"])
def test_without_another_person_no_replica_is_given_up(
    site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any], second: str | None, outcome: str
) -> None:
    earlier = placement(kafka)
    state, tasks = rebalance(YES, second=second, **ONE_REPLICA)
    assert (state, tasks["approve"]) == (outcome, "success")
    assert tasks["open_run"] in ("skipped", "upstream_failed")
    assert placement(kafka) == earlier
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}


def test_an_unusable_answer_fails_the_run_and_touches_nothing(
    site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    state, tasks = rebalance(UNUSABLE)
    assert (state, tasks["approve"], tasks["verdict"]) == ("failed", "failed", "failed")
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}


def test_a_move_that_cannot_go_on_is_settled_reported_and_fails_the_run(
    site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any]
) -> None:
    earlier, configs = placement(kafka), dict(kafka.configs.dynamic)
    kafka.fail_next("alter_reassignments", ClusterError("the controller said no"))
    state, tasks = rebalance(YES)
    assert (state, tasks["execute"], tasks["verdict"]) == ("failed", "failed", "failed")
    assert (tasks["settle"], tasks["report"]) == ("success", "success")
    assert [run.state for run in site.ledger.runs()] == [RunState.HALTED]
    assert placement(kafka) == earlier
    assert {key: value for key, value in kafka.configs.dynamic.items() if value} == configs


def test_nothing_to_move_is_well(site: Site, kafka: SimulatedCluster, rebalance: Callable[..., Any]) -> None:
    for number, partition in enumerate(kafka.partitions.values()):
        partition.leader = partition.replicas[0]
        if number % 2:
            partition.replicas, partition.leader = (2, 1), 2
    del kafka.brokers[3]
    state, tasks = rebalance(YES, goal="leaders")
    assert (state, tasks) == ("success", dict.fromkeys(STAGES, "skipped"))
    assert site.ledger.runs() == ()
