"""Airflow with its FAB auth manager, where a user's id is a number: approvers by name answer there.

The whole way on real brokers, over REST: bob asks, alice says yes; the ledger shows both names.
Airflow runs in an environment of its own (`make test-nightly` makes it), since the FAB provider
needs another python-dateutil than requirements.txt has.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from counterpoise.installation import Installation, open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.run import RunState
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import AirflowApiError
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_kafka.load import MB
from dev.local_processes import run
from tests.support.kafka_facts import ON_A_SHARED_DISK
from tests.support.ledger_view import LedgerView

pytestmark = pytest.mark.timeout(1800)
ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".venv" / "fab" / "bin"
MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
DAG = "kafka_rebalance"
WAIT_SECONDS = 300.0
# In this order, so that admin is 1, alice 2, bob 3 and carol 4.
ROLES = {"admin": "Admin", "alice": "Op", "bob": "User", "carol": "Op"}
SETTINGS = f"""
clusters:
  demo:
    connection: kafka_demo
    policy:
      {ON_A_SHARED_DISK}
      access: {{approve: [alice, bob]}}
"""
DEMOTE = {"goal": "demote-brokers", "broker_ids": [1]}


class FabAirflow(LocalAirflow):
    """A local Airflow whose users are in FAB's tables."""

    def api(self, user: str = "admin") -> AirflowApi:
        """Return a patient client: the first call of a task holds up this api-server."""
        api = super().api(user)
        api._client.timeout = httpx.Timeout(WAIT_SECONDS)
        return api

    def _migrate(self, variables: Mapping[str, str]) -> None:
        super()._migrate(variables)
        for user, role in ROLES.items():
            names = ("--username", user, "--firstname", user, "--lastname", "x")
            rest = ("--email", f"{user}@example.org", "--role", role)
            password = ("--password", self.password(user))
            made = run(
                ("airflow", "users", "create", *names, *rest, *password),
                env=variables,
                name="airflow users create",
                timeout_seconds=180,
            )
            assert made.returncode == 0, made.stderr[-2000:]


@dataclass
class Place:
    airflow: LocalAirflow
    installation: Installation


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if not (PROGRAMS / "airflow").exists():
        pytest.fail(f"{PROGRAMS} has no airflow; `make test-nightly` makes this environment")
    folder = tmp_path_factory.mktemp("fab")
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(folder / "kafka", brokers_in_racks(*"abc")))
        create_topics(kafka.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 3), (3, 1)] * 2)])
        fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(6), MB))
        variables = configure(folder, kafka)
        airflow = FabAirflow(
            folder / "airflow",
            dags=ROOT / "dags",
            plugins=ROOT / "plugins",
            environment=variables,
            users=ROLES,
        )
        stack.enter_context(airflow)
        yield Place(airflow, stack.enter_context(open_installation(environment=variables)))


def configure(folder: Path, kafka: LocalKafka) -> dict[str, str]:
    (folder / "clusters.yaml").write_text(SETTINGS)
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
    return {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW__CORE__AUTH_MANAGER": MANAGER,
        "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


def test_ids_are_numbers_and_people_are_their_names(place: Place) -> None:
    apis = {user: place.airflow.api(user) for user in ROLES}
    dag_run_id = apis["bob"].trigger(DAG, conf=DEMOTE, partition_key="demo")
    question = apis["admin"].wait_for_approval(DAG, dag_run_id, WAIT_SECONDS)
    why, rate = "broker 1 is restarted tonight", "20MB/s"
    for user in ("bob", "carol"):
        with pytest.raises(AirflowApiError) as refused:
            apis[user].approve(question, why, rate)
        assert refused.value.status == httpx.codes.FORBIDDEN
    apis["alice"].approve(question, why, rate)
    assert apis["admin"].wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "success"

    (run_of_plan,) = place.installation.ledger.runs()
    (approval,) = place.installation.ledger.approvals_of(run_of_plan.run_id)
    assert run_of_plan.state is RunState.DONE
    assert run_of_plan.requester.shown == "bob"
    assert (approval.decision, approval.by) == (Decision.GRANTED, "airflow:alice")
    events = LedgerView.of(place.installation.ledger).events(run_of_plan.run_id)
    assert any("granted by alice: broker 1" in event.text for event in events)
