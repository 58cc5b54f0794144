"""A question of kafka_rebalance answered on the plan's page: with Airflow's own database and rules,
on a simulated cluster.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import init_auth_manager
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from counterpoise.installation import Installation
from counterpoise.model.acl import REASSIGN
from counterpoise.model.approval import Decision
from counterpoise.model.run import Run, RunState
from counterpoise.orchestration import handover
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.decisions import ALICE, BOB
from tests.support.ledger_view import LedgerView
from tests.support.questions import answered_by
from tests.support.web import browser, token_on

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rebalance(
    installation: Installation, kafka_rebalance: Callable[[dict[str, Any]], DagRun]
) -> Callable[[Callable[[Run], None], dict[str, Any]], str]:
    """Runs the Dag for the cluster `demo`, calls `answer` for as long as a task waits for one, and
    gives the state in which it ends.
    """

    def run(answer: Callable[[Run], None], conf: dict[str, Any]) -> str:
        init_auth_manager()
        with answered_by(lambda: answer(installation.ledger.runs()[0])):
            return str(kafka_rebalance(conf).state)

    return run


def send(client: TestClient, run: Run, **typed: str) -> Any:
    page = client.get(f"/runs/{run.run_id}").text
    fields = {"form_token": token_on(page), "plan": run.fingerprint} | typed
    return client.post(f"/runs/{run.run_id}/answer", data=fields)


def environment_of(installation: Installation) -> dict[str, str]:
    return {
        "COUNTERPOISE_CONFIG": str(installation.locations.config),
        "COUNTERPOISE_STORE": installation.locations.store,
        "COUNTERPOISE_LEDGER": installation.locations.ledger,
    }


def test_a_yes_on_the_page_lets_the_dag_run_go_on(
    installation: Installation, rebalance: Callable[..., str]
) -> None:
    statuses: list[tuple[str, int]] = []

    def answer(run: Run) -> None:
        with browser(environment_of(installation), "alice", role="user") as client:
            for rate in ("20", "20MB/s"):
                sent = send(client, run, answer="approve", rate=rate, reason="broker 3 joined")
                statuses.append(("alice", sent.status_code))
        with browser(environment_of(installation), "bob", role="user") as client:
            again = send(client, run, answer="approve", rate="20MB/s", reason="too late")
            statuses.append(("bob", again.status_code))

    assert rebalance(answer, {"goal": "add-brokers", "broker_ids": [3]}) == "success"
    assert statuses == [("alice", 422), ("alice", 303), ("bob", 409)]
    (run,) = installation.ledger.runs()
    assert run.state is RunState.DONE
    (yes,) = installation.ledger.approvals_of(run.run_id)
    assert (yes.decision, yes.by, yes.rate_bytes_per_second, yes.reason) == (
        Decision.GRANTED,
        "airflow:alice",
        20_000_000,
        "broker 3 joined",
    )
    assert yes.fingerprint == run.fingerprint


def test_a_no_on_the_page_ends_a_run_whose_dag_run_has_ended(
    installation: Installation,
    kafka: SimulatedCluster,
    rebalance: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that its last task could not end: the ledger did not answer, say."""
    monkeypatch.setattr(handover, "end_refused", lambda *_: None)
    kafka.denied[REASSIGN] = "CLUSTER_AUTHORIZATION_FAILED"
    assert rebalance(lambda _run: None, {"goal": "add-brokers", "broker_ids": [3]}) == "failed"
    (run,) = installation.ledger.runs()
    assert run.state is RunState.PROPOSED
    with browser(environment_of(installation), "bob", role="user") as client:
        page = client.get(f"/runs/{run.run_id}").text
        assert "This plan must not run: " in page and "may not" in page
        assert send(client, run, answer="reject", reason="no rights").status_code == 303
    (run,) = installation.ledger.runs()
    assert (run.state, run.reason) == (RunState.REJECTED, "no rights")


def test_the_second_yes_on_the_page_comes_from_another_person(
    installation: Installation, rebalance: Callable[..., str]
) -> None:
    statuses: list[tuple[str, int]] = []

    def answer(run: Run) -> None:
        is_first = not installation.ledger.approvals_of(run.run_id)
        for user in ("alice",) if is_first else ("alice", "bob"):
            with browser(environment_of(installation), user, role="user") as client:
                page = client.get(f"/runs/{run.run_id}").text
                if 'value="approve"' not in page:
                    statuses.append((user, 0))
                    continue
                sent = send(client, run, answer="approve", rate="20MB/s", reason="tests only")
                statuses.append((user, sent.status_code))

    one_replica = {"goal": "replication-factor", "replication_factor": 1, "topics": ["orders"]}
    assert rebalance(answer, {**one_replica, "broker_ids": []}) == "success"
    assert statuses == [("alice", 303), ("alice", 0), ("bob", 303)]
    (run,) = installation.ledger.runs()
    assert [made.person for made in installation.ledger.approvals_of(run.run_id)] == [ALICE, BOB]


def test_undo_on_the_page_starts_the_dag_run_that_takes_everything_back(
    installation: Installation, kafka: SimulatedCluster, rebalance: Callable[..., str]
) -> None:
    def approve(run: Run) -> None:
        with browser(environment_of(installation), "alice", role="user") as client:
            send(client, run, answer="approve", rate="20MB/s", reason="fine")

    before = placement(kafka)
    assert rebalance(approve, {"goal": "add-brokers", "broker_ids": [3]}) == "success"
    (moved,) = installation.ledger.runs()
    assert placement(kafka) != before
    page, path = f"/runs/{moved.run_id}", f"/runs/{moved.run_id}/undo"
    with browser(environment_of(installation), "victor", role="viewer") as client:
        token = token_on(client.get(page).text)
        refused = client.post(path, data={"form_token": token, "reason": "too early"})
        assert refused.status_code == 409
        assert "Airflow does not let victor start kafka_rebalance" in refused.text
    with browser(environment_of(installation), "bob", role="user") as client:
        assert f'action="{path}"' in client.get(page).text
        token = token_on(client.get(page).text)
        waiting = client.post(path, data={"form_token": token, "reason": "too early"})
        assert waiting.status_code == 409 and "The Dag kafka_rebalance is paused" in waiting.text
        with create_session(scoped=False) as session:
            session.get_one(DagModel, "kafka_rebalance").is_paused = False
        sent = client.post(path, data={"form_token": token, "reason": "too early"})
        assert sent.status_code == 303, sent.text
        started = client.get(sent.headers["location"])
        assert started.status_code == 200 and started.headers["refresh"][:2] == "5;"
    with create_session(scoped=False) as session:
        of_dag = select(DagRun).where(DagRun.dag_id == "kafka_rebalance")
        (queued,) = session.scalars(of_dag.where(DagRun.state == "queued"))
        assert queued.triggering_user_name == "bob" and queued.note == "too early"
        conf = dict(queued.conf)
        session.delete(queued)
        session.get_one(DagModel, "kafka_rebalance").is_paused = True
    assert conf == {"cluster": "demo", "undo_of": moved.run_id, "reason": "too early"}
    noted = LedgerView.of(installation.ledger).events(moved.run_id)[-1]
    assert noted.kind == "undo plan asked" and "by bob" in noted.text

    assert rebalance(approve, conf) == "success"
    undo = installation.ledger.runs()[0]
    assert undo.state is RunState.DONE
    assert installation.plan_of(undo).undoes == moved.fingerprint
    assert placement(kafka) == before


def placement(kafka: SimulatedCluster) -> dict[tuple[str, int], tuple[int, ...]]:
    return {
        (topic.topic, partition.partition): tuple(sorted(partition.replicas))
        for topic in kafka.describe_topics()
        for partition in topic.partitions
    }
