"""kafka_throttle_watch: what is ours is put in order, what is not is told, and a dead cluster hides
no other.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise.installation import Installation
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_REPLICAS,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import ENDED_STATES
from counterpoise.orchestration.installation import log_entries
from counterpoise.services import execution, plans
from counterpoise.services.watch import watch_throttles
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.decisions import CAROL, grant
from tests.support.ledger_view import LedgerView, own_key, was_observed_last_at
from tests.support.planned_runs import planned_run

ROOT = Path(__file__).parents[2]
BROKER = ConfigResource(ConfigResourceType.BROKER, "3")
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "orders")


def watch() -> tuple[str, dict[str, str]]:
    """Runs the Dag; the state of the run, and of each task."""
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_throttle_watch"]
    dag.get_task("watch").partial_kwargs["retries"] = 0
    ended = dag.test()
    tasks = ended.get_task_instances()
    return ended.state, {
        f"{t.task_id}{t.map_index if t.map_index >= 0 else ''}": t.state for t in tasks
    }


def silent(_text: str) -> None:
    """Nobody listens."""


def opened(installation: Installation, rebalance_request: RebalanceRequest) -> plans.PlannedRun:
    """A run that has been approved and opened."""
    run = planned_run(installation, "demo", rebalance_request, plans.Origin(CAROL))
    assert run is not None
    grant(installation, run, reason="x", rate="20MB/s")
    execution.open_run(installation, run["run_id"], run["fingerprint"])
    return run


def to_the_end(step: Callable[[], float | None], kafka: SimulatedCluster) -> None:
    while (wait := step()) is not None:
        kafka.advance(wait)


@pytest.fixture
def ended(installation: Installation, kafka: SimulatedCluster) -> plans.PlannedRun:
    run = opened(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)))
    to_the_end(
        lambda: execution.execute_step(installation, run["run_id"], run["fingerprint"], silent),
        kafka,
    )
    to_the_end(lambda: execution.settle_step(installation, run["run_id"], silent), kafka)
    return run


def leave_a_pending_restore(
    installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun
) -> None:
    own_key(installation.ledger, run["run_id"], (BROKER, FOLLOWER_RATE), "20000000")
    kafka.configs.dynamic[BROKER] = {FOLLOWER_RATE: "20000000"}


def orphan(installation: Installation, kafka: SimulatedCluster) -> plans.PlannedRun:
    """A run that was observed until it moved, and then for an hour by nobody."""
    kafka.add_broker(4, "d")
    run = opened(installation, RebalanceRequest(Goal.ADD_BROKERS, (4,)))
    while not kafka.list_reassignments():
        execution.execute_step(installation, run["run_id"], run["fingerprint"], silent)
    hour_ago = installation.clock() - timedelta(hours=1)
    was_observed_last_at(installation.ledger, run["run_id"], hour_ago)
    return run


def test_an_orphaned_run_is_settled_and_a_pending_key_is_restored(
    installation: Installation, kafka: SimulatedCluster, ended: plans.PlannedRun
) -> None:
    orphaned = orphan(installation, kafka)
    leave_a_pending_restore(installation, kafka, ended)
    assert watch() == (
        "success",
        {"due_clusters": "success", "watch0": "success", "report": "success"},
    )
    assert installation.ledger.run(orphaned["run_id"]).state in ENDED_STATES
    assert not kafka.list_reassignments()
    assert not any(kafka.configs.dynamic.values())
    assert not LedgerView.of(installation.ledger).pending_keys(ended["run_id"])


def test_a_foreign_throttle_is_reported_and_never_touched(
    installation: Installation,
    kafka: SimulatedCluster,
    ended: plans.PlannedRun,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka.configs.dynamic[TOPIC] = {LEADER_REPLICAS: "0:1"}
    changes = [call.name for call in kafka.calls].count("alter_configs")
    with caplog.at_level(logging.WARNING):
        report = watch_throttles(installation, "demo", print)
        log_entries(logging.getLogger("watch"), logging.WARNING, report.needs_attention)
    assert report.summary == "1 foreign throttle"
    assert "topic orders: leader.replication.throttled.replicas = '0:1'" in caplog.text
    assert watch()[0] == "success"
    assert kafka.configs.dynamic[TOPIC] == {LEADER_REPLICAS: "0:1"}
    assert [call.name for call in kafka.calls].count("alter_configs") == changes


@pytest.mark.usefixtures("dead_cluster")
def test_a_dead_cluster_fails_the_watch_and_keeps_no_other_from_its_turn(
    installation: Installation, kafka: SimulatedCluster, ended: plans.PlannedRun
) -> None:
    leave_a_pending_restore(installation, kafka, ended)
    state, tasks = watch()
    assert (state, tasks) == (
        "failed",
        {"due_clusters": "success", "watch0": "failed", "watch1": "success", "report": "failed"},
    )
    assert not any(kafka.configs.dynamic.values())
