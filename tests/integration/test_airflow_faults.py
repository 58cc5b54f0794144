"""Faults that come through Airflow, on a real one and on real brokers: one run, interrupted in
every way.

The run is slow enough never to end by itself. Each test finds it moving, does its harm, and looks
at the cluster; what has halted is gone on with as a person would: by clearing `execute`.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from counterpoise.installation import Installation, open_installation
from counterpoise.kafka_admin.cluster_admin import ClusterReader
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.run import Run, RunState
from counterpoise.model.run_progress import RunProgress
from counterpoise.services import requests, runs
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import FINAL_RUN_STATES
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_kafka.load import MB
from tests.support.decisions import ALICE, BOB
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    configs,
    ongoing_reassignments,
    placement,
    throttle_lines,
    throttles,
)
from tests.support.runs import does

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2400)]
ROOT = Path(__file__).parents[2]
DAG = "kafka_rebalance"
WATCH = "kafka_throttle_watch"
CLUSTER = "demo"
NEW_BROKER = ConfigResource(ConfigResourceType.BROKER, "4")
FOREIGN_RATE = "77000000"  # somebody has set it before
SLOW, SLOWER, FAST = "200kB/s", "100kB/s", "50MB/s"
OBSERVATION_TIMEOUT_SECONDS = 300.0
END_TIMEOUT_SECONDS = 400.0
CLUSTERS = f"""\
clusters:
  {CLUSTER}:
    connection: kafka_demo
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: {SLOW}, max_moves_in_flight: 3}}
      access: {{approve: [alice]}}
"""
# A crash is noticed after a moment and not after minutes. With less patience a busy scheduler takes
# itself for dead.
IMPATIENT = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
}


@dataclass
class Rebalance:
    """The one run: in Airflow, in the ledger and on the cluster."""

    kafka: LocalKafka
    airflow: LocalAirflow
    api: AirflowApi
    installation: Installation
    reader: ClusterReader
    dag_run_id: str
    throttles_before: list[str]

    @property
    def run(self) -> Run:
        (run,) = self.installation.ledger.runs(cluster=CLUSTER)
        return run

    @property
    def run_progress(self) -> RunProgress:
        run_progress = runs.run_now(self.installation, self.run.run_id).run_progress
        assert run_progress is not None
        return run_progress

    def state_of(self, task_id: str) -> str | None:
        return self.api.task_states(DAG, self.dag_run_id)[task_id]

    def moving_now(self) -> int:
        return len(self.reader.list_reassignments())

    def rate_in_force(self) -> str | None:
        value = self.reader.describe_configs([NEW_BROKER], RATE_KEYS)[NEW_BROKER].get(FOLLOWER_RATE)
        return value.value if value else None

    def until(
        self,
        what: str,
        condition: Callable[[], bool],
        timeout_seconds: float = OBSERVATION_TIMEOUT_SECONDS,
    ) -> None:
        self.api.wait_for(lambda: condition() or None, what, timeout_seconds)

    def until_next_observation(self) -> RunProgress:
        """Return the run progress of the first observation after this call."""
        before = self.installation.clock()
        self.until("the next observation", lambda: self.run_progress.observed_at > before)
        return self.run_progress

    def until_it_moves(self) -> None:
        """Wait until moves are under way; execute a halted run again, as a person would."""

        def moves() -> bool:
            if (
                self.run.state is RunState.RUNNING
                and self.moving_now()
                and self.state_of("execute") == "deferred"
            ):
                return True
            if self.api.dag_run(DAG, self.dag_run_id).state in FINAL_RUN_STATES:
                assert self.run.state is RunState.HALTED
                self.api.clear_task(DAG, self.dag_run_id, "execute")
            return False

        self.until("the run to move", moves, END_TIMEOUT_SECONDS)

    def until_halted(self) -> None:
        """A clean halt: nothing in flight, and no setting of ours."""
        halted = RunState.HALTED
        self.until("the run to halt", lambda: self.run.state is halted, END_TIMEOUT_SECONDS)
        assert ongoing_reassignments(self.kafka) == ""
        assert throttle_lines(self.kafka) == self.throttles_before

    def until_the_dag_run_ended(self) -> str:
        return self.api.wait_for_run(DAG, self.dag_run_id, END_TIMEOUT_SECONDS).state


@pytest.fixture(scope="module")
def rebalance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebalance]:
    folder = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        kafka = stack.enter_context(
            LocalKafka(folder / "kafka", brokers_in_racks("a", "b", "c", "d"))
        )
        make_topics(kafka)
        variables = configure(folder, kafka)
        airflow = LocalAirflow(
            folder / "airflow", dags=ROOT / "dags", plugins=ROOT / "plugins", environment=variables
        )
        stack.enter_context(airflow)
        # Airflow 3.3.2 on SQLite: a task cleared while it is being scheduled ends the scheduler
        # (StaleDataError).
        api = AirflowApi(
            airflow.base_url, "admin", airflow.password("admin"), check=airflow.supervise
        )
        stack.callback(api.close)
        api.pause("kafka_snapshot")  # nothing here needs one, nor what follows it
        installation = stack.enter_context(open_installation(environment=variables))
        with installation.operator(CLUSTER) as admin:
            admin.alter_configs(
                [ConfigChange(NEW_BROKER, FOLLOWER_RATE, ConfigOperation.SET, FOREIGN_RATE)]
            )
        reader = stack.enter_context(installation.reader(CLUSTER))
        before = throttles(configs(kafka))
        assert len(before) == 1
        yield Rebalance(kafka, airflow, api, installation, reader, started(api, airflow), before)


def make_topics(kafka: LocalKafka) -> None:
    """Twelve partitions, two copies each, none on the last broker."""
    pairs = [(1, 2), (2, 3), (3, 1)]
    create_topics(kafka.bootstrap_string, [TopicSpec("orders", [pairs[n % 3] for n in range(12)])])
    fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(12), 24 * MB))


def configure(folder: Path, kafka: LocalKafka) -> dict[str, str]:
    (folder / "clusters.yaml").write_text(CLUSTERS)
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
    return IMPATIENT | {
        "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


def started(api: AirflowApi, airflow: LocalAirflow) -> str:
    """A run of the Dag that has been approved."""
    dag_run_id = api.trigger(
        DAG, conf={"goal": "add-brokers", "broker_ids": [4]}, partition_key=CLUSTER
    )
    question = api.wait_for_approval(DAG, dag_run_id, END_TIMEOUT_SECONDS)
    alice = airflow.api("alice")
    alice.approve(question, "broker 4 joined", SLOW)
    alice.close()
    return dag_run_id


@pytest.fixture
def moving(rebalance: Rebalance) -> Rebalance:
    rebalance.until_it_moves()
    return rebalance


def test_requests_are_done_at_the_next_observation(moving: Rebalance) -> None:
    watch = moving.api.trigger(WATCH)
    requests.change_rate(moving.installation, moving.run.run_id, SLOWER, by=ALICE, why="month end")
    requests.pause(moving.installation, moving.run.run_id, by=BOB, why="month end")
    run_progress = moving.until_next_observation()
    assert run_progress.rate_bytes_per_second == 100_000
    moving.until(
        "the pause to be reported",
        lambda: does(moving.run_progress) == "paused by bob: month end",
    )
    moving.until("the rate at the broker", lambda: moving.rate_in_force() == "100000")
    requests.resume(moving.installation, moving.run.run_id, by=BOB, why="it is over")
    assert moving.api.wait_for_run(WATCH, watch, END_TIMEOUT_SECONDS).state == "success"
    assert moving.run.state is RunState.RUNNING, "a watch leaves a run alone that somebody drives"


def test_without_triggerer_and_scheduler_the_run_waits_and_goes_on(moving: Rebalance) -> None:
    moving.airflow.kill("triggerer")
    moving.airflow.supervise()
    moving.until(
        "an observation after the triggerer's death",
        lambda: moving.state_of("execute") == "running",
    )
    moving.airflow.kill("scheduler")  # and with it the worker that observes
    assert moving.run.state is RunState.RUNNING
    moving.airflow.supervise()
    moving.until_next_observation()
    assert moving.run.state is RunState.RUNNING


def test_a_look_called_failed_and_cleared_does_no_harm(moving: Rebalance) -> None:
    moving.api.mark_task(DAG, moving.dag_run_id, "execute", "failed")
    cleared = moving.api.clear_task(DAG, moving.dag_run_id, "execute")
    assert {"open_run", "execute", "verify", "settle", "report", "verdict"} <= set(cleared)
    moving.until_it_moves()


def test_a_run_marked_as_failed_restores_nothing_before_its_moves_end_and_completes_when_cleared(
    moving: Rebalance,
) -> None:
    moving.api.mark_run(DAG, moving.dag_run_id, "failed")
    moving.until("the run to settle", lambda: moving.run.state is RunState.SETTLING)
    moving.until_next_observation()
    # Read in this order: the rate was in force at a time when something was still moving.
    rate, in_flight = moving.rate_in_force(), moving.moving_now()
    assert in_flight
    assert rate == "100000"
    assert moving.state_of("verdict") is None, "nobody judges a run before its end"
    requests.change_rate(
        moving.installation,
        moving.run.run_id,
        FAST,
        by=ALICE,
        why="to see the end of it",
    )
    moving.until_halted()
    assert moving.until_the_dag_run_ended() == "failed"
    moving.api.clear_task(DAG, moving.dag_run_id, "execute")
    assert moving.until_the_dag_run_ended() == "success"
    check_the_end(moving)
    check_what_a_watch_tells(moving)


def check_the_end(ended: Rebalance) -> None:
    assert ended.run.state is RunState.DONE
    now = placement(ended.kafka)
    for move in ended.installation.run_and_plan(ended.run.run_id)[1].moves:
        assert now[str(move.topic_partition)] == (move.replicas_after, move.replicas_after[0])
    assert ongoing_reassignments(ended.kafka) == ""
    assert throttles(configs(ended.kafka)) == ended.throttles_before


def check_what_a_watch_tells(ended: Rebalance) -> None:
    """The rate that somebody had set before is there again, and nobody's run owns it."""
    watch = ended.api.trigger(WATCH)
    assert ended.api.wait_for_run(WATCH, watch, END_TIMEOUT_SECONDS).state == "success"
    told = ended.api.task_log(WATCH, watch, "watch", map_index=0)
    assert f"broker 4: {FOLLOWER_RATE} = '{FOREIGN_RATE}'" in told
    assert throttles(configs(ended.kafka)) == ended.throttles_before
