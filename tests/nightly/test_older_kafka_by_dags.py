"""The main job by the Dags on Kafka 3.9, with controllers (KRaft) and with ZooKeeper at a time: a
snapshot, its analysis, a plan for the broker that holds nothing, a person's yes, the moves, the
verification.

What came of it is read with Kafka's own tools.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from counterpoise.installation import Installation, open_installation
from counterpoise.model.run import RunState
from demo.place import ROOT
from demo.smoke import DAGS, TIMEOUT_SECONDS, approve, expect_success
from dev import local_kafka
from dev.local_airflow import LocalAirflow
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    configs_by_tool,
    leaders_per_broker,
    ongoing_reassignments,
    placement,
    replicas_per_broker,
)

pytestmark = pytest.mark.timeout(2400)
OLDER = "3.9.2"
CLUSTERS = {"kraft": False, "zookeeper": True}
PARTITIONS = 12
MB = 1_000_000
REBALANCE = "kafka_rebalance"


@pytest.fixture
def kafkas(tmp_path: Path) -> Iterator[Mapping[str, LocalKafka]]:
    """Of three brokers the first leads everything, and the third holds nothing."""
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(
                local_kafka.running(
                    tmp_path / name,
                    brokers_in_racks("a", "b", "c"),
                    version=OLDER,
                    with_zookeeper=with_zookeeper,
                )
            )
            for name, with_zookeeper in CLUSTERS.items()
        }
        for kafka in running.values():
            topic = TopicSpec("orders", [(1, 2)] * PARTITIONS, configs={"retention.ms": "-1"})
            create_topics(kafka.bootstrap_string, [topic])
            fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(PARTITIONS), MB))
        yield running


@pytest.fixture
def variables(kafkas: Mapping[str, LocalKafka], tmp_path: Path) -> Mapping[str, str]:
    """Settings, connections, store and ledger of Airflow's tasks."""
    policy = f"{{{ON_A_SHARED_DISK}, movement: {{rate: 4MB/s}}, access: {{approve: [alice]}}}}"
    lines = [f"  {name}: {{connection: kafka_{name}, policy: {policy}}}\n" for name in kafkas]
    settings = tmp_path / "clusters.yaml"
    settings.write_text(f"clusters:\n{''.join(lines)}")
    connections = {
        f"AIRFLOW_CONN_KAFKA_{name.upper()}": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
        )
        for name, kafka in kafkas.items()
    }
    return connections | {
        "COUNTERPOISE_CONFIG": str(settings),
        "COUNTERPOISE_STORE": str(tmp_path / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path / 'ledger.db'}",
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


def test_from_a_snapshot_to_even_clusters_by_the_dags(
    kafkas: Mapping[str, LocalKafka], variables: Mapping[str, str], tmp_path: Path
) -> None:
    configs_before = {name: configs_by_tool(kafka) for name, kafka in kafkas.items()}
    with (
        LocalAirflow(
            tmp_path / "airflow",
            dags=ROOT / "dags",
            plugins=ROOT / "plugins",
            environment=variables,
        ) as airflow,
        open_installation(environment=variables) as installation,
    ):
        api, alice = airflow.api(), airflow.api("alice")
        api.wait_for_dags(DAGS, TIMEOUT_SECONDS)
        expect_success(api, "kafka_snapshot", api.trigger("kafka_snapshot"))
        dag_run_ids = {
            name: api.wait_for_new_run(REBALANCE, (), TIMEOUT_SECONDS, partition_key=name).run_id
            for name in kafkas
        }
        for name, dag_run_id in dag_run_ids.items():
            api.wait_for_approval(REBALANCE, dag_run_id, TIMEOUT_SECONDS)
            assert replicas_per_broker(kafkas[name])[3] == 0
            approve(api, alice, dag_run_id)
        for name, dag_run_id in dag_run_ids.items():
            expect_success(api, REBALANCE, dag_run_id)
            check_tasks(api.task_states(REBALANCE, dag_run_id))
            check_cluster(kafkas[name], installation, name)
    for name, kafka in kafkas.items():
        assert configs_by_tool(kafka) == configs_before[name]


def check_tasks(states: Mapping[str, str | None]) -> None:
    stages = ("plan", "validate", "approve", "execute", "verify", "settle", "report")
    assert {stage: states[stage] for stage in stages} == dict.fromkeys(stages, "success")


def check_cluster(kafka: LocalKafka, installation: Installation, name: str) -> None:
    (run,) = installation.ledger.runs(cluster=name)
    assert run.state is RunState.DONE
    now = placement(kafka)
    for move in installation.run_and_plan(run.run_id)[1].moves:
        assert now[str(move.topic_partition)] == (move.replicas_after, move.replicas_after[0])
    assert dict(replicas_per_broker(kafka)) == {1: 8, 2: 8, 3: 8}
    assert dict(leaders_per_broker(kafka)) == {1: 4, 2: 4, 3: 4}
    assert ongoing_reassignments(kafka) == ""
