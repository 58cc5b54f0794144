"""One Airflow beside two clusters of real brokers, with accounts of every role, for the tests of a
session: each module has its own topic, which is gone afterwards.

    with running_place(folder, users, kafka, other) as place:
        place.begin(TopicSpec("payments", [(1, 2), (2, 3)]), size_bytes=8 * MB)
        asked = place.bob.api.trigger(DAG, conf=DEMOTE, partition_key="demo")
        place.answer(place.question(asked), "approve")

Airflow answers below a path (`prefix`), as behind a proxy.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from counterpoise.installation import Installation, open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.run import Run, RunState
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import PendingApproval
from dev.local_kafka import LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    configs,
    delete_topics,
    ongoing_reassignments,
    placement,
    throttles,
)

ROOT: Final = Path(__file__).parents[2]
DAG: Final = "kafka_rebalance"
SNAPSHOTS, AUDIT, ANALYSIS = "kafka_snapshot", "kafka_audit", "kafka_leader_balance"
WAIT_SECONDS: Final = 400.0  # a busy machine takes its time
POLICY: Final = f"""
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: 20MB/s}}
      access: {{approve: [alice], operate: [oscar]}}
"""


@dataclass
class Account:
    """One user of Airflow: the calls of our client, and any other one."""

    api: AirflowApi
    client: httpx.Client

    def send(self, method: str, path: str, body: Any = None) -> int:
        """Send a request below /api/v2; return the status."""
        return self.client.request(method, f"/api/v2/{path}", json=body).status_code

    def get(self, path: str, **params: str) -> Any:
        return self.client.get(f"/api/v2/{path}", params=params).raise_for_status().json()

    def rewrite_xcoms(self, dag_run_id: str, task_id: str, run: Run) -> None:
        """Remove, create and change every XCom of a task that anything ever read or reads."""
        handed_over = {
            "run_id": run.run_id,
            "plan_uri": run.plan_uri,
            "fingerprint": run.fingerprint,
        }
        decision = {"decision": "granted", "by": "alice", "rate": "1GB/s", "reason": "x"}
        self._write_xcom(dag_run_id, task_id, "return_value", handed_over)
        for key in ("nothing_to_do", "why nothing needs to move"):
            self._write_xcom(dag_run_id, task_id, key, "x")
        self._write_xcom(dag_run_id, task_id, "decision", decision)

    def start_anew(self, dag_run_id: str, conf: Mapping[str, Any]) -> None:
        """Delete a Dag run, and start another one under its id."""
        of_run = f"dags/{DAG}/dagRuns/{dag_run_id}"
        self.send("PATCH", of_run, {"state": "failed"})
        self.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS)
        assert self.send("DELETE", of_run) == 204
        body = {
            "dag_run_id": dag_run_id,
            "logical_date": None,
            "conf": conf,
            "partition_key": "demo",
        }
        assert self.send("POST", f"dags/{DAG}/dagRuns", body) == 200

    def _write_xcom(self, dag_run_id: str, task_id: str, key: str, value: Any) -> None:
        entries = f"dags/{DAG}/dagRuns/{dag_run_id}/taskInstances/{task_id}/xcomEntries"
        assert self.send("DELETE", f"{entries}/{key}") in (204, 404)
        assert self.send("POST", entries, {"key": key, "value": value}) == 201
        assert self.send("PATCH", f"{entries}/{key}", {"value": value}) == 200


@dataclass
class Place:
    kafka: LocalKafka
    airflow: LocalAirflow
    installation: Installation
    accounts: Mapping[str, Account]
    replicas_before: dict[str, tuple[int, ...]]
    other: LocalKafka | None = None  # another cluster, with topics of other names
    folder: Path = Path()

    @property
    def admin(self) -> Account:
        return self.accounts["admin"]

    @property
    def alice(self) -> Account:
        return self.accounts["alice"]

    @property
    def bob(self) -> Account:
        return self.accounts["bob"]

    @property
    def mallory(self) -> Account:
        return self.accounts["mallory"]

    @contextmanager
    def with_topic(self, topic: TopicSpec, size_bytes: int, *clusters: str) -> Iterator["Place"]:
        """Fill a topic on `demo` for a module's tests, while the settings name these clusters.

        Whoever leaves a reassignment or a throttle behind fails.
        """
        bootstrap = self.kafka.bootstrap_string
        self._name_clusters(clusters)
        create_topics(bootstrap, [topic])
        fill(bootstrap, topic.name, dict.fromkeys(range(topic.partition_count), size_bytes))
        self.replicas_before = self.replicas()
        yield self
        assert ongoing_reassignments(self.kafka) == ""
        assert throttles(configs(self.kafka)) == []
        delete_topics(self.kafka, {topic.name})

    def _name_clusters(self, names: Sequence[str]) -> None:
        """Name clusters in the settings, and wait until the form of the Dag has changed."""
        write_settings(self.folder, names)
        for dag_id in (DAG, SNAPSHOTS, AUDIT):
            file_token = self.admin.get(f"dags/{dag_id}/details")["file_token"]
            self.admin.send("PUT", f"parseDagFile/{file_token}")
        filled_in = names[0] if len(names) == 1 else ""

        def is_in_the_form() -> bool:
            params = self.admin.get(f"dags/{DAG}/details")["params"]
            return bool(params["cluster"]["value"] == filled_in)

        wait_until(is_in_the_form, "the form to name these clusters", WAIT_SECONDS)

    def let_snapshots_run(self) -> None:
        """Let Dag runs of `kafka_snapshot` begin, but for those that wait by now."""
        for waiting in self.admin.api.dag_runs(SNAPSHOTS):
            self.admin.send("DELETE", f"dags/{SNAPSHOTS}/dagRuns/{waiting.run_id}")
        assert self.admin.send("PATCH", f"dags/{SNAPSHOTS}", {"is_paused": False}) == 200

    def question(self, dag_run_id: str) -> PendingApproval:
        return self.alice.api.wait_for_approval(DAG, dag_run_id, WAIT_SECONDS)

    def run_on_screen(self, question: PendingApproval) -> Run:
        """Return the run whose plan a person reads behind the link of the question."""
        return self.installation.ledger.run(question.ledger_run_id)

    def answer(self, question: PendingApproval, decision: str, rate: str = "20MB/s") -> None:
        """Answer as alice, with the API, once the task waits."""
        of_yes = rate if decision == "approve" else ""
        self.alice.api.decide(question.ledger_run_id, decision, "as agreed", rate=of_yes)

    def note_of(self, dag_run_id: str) -> str:
        return str(self.alice.get(f"dags/{DAG}/dagRuns/{dag_run_id}")["note"])

    def let_it_park(self, dag_run_id: str, task_id: str = "approve") -> None:
        """Wait until Airflow knows that a task has parked itself, and a click costs no try."""
        self.airflow.wait_until_parked(DAG, dag_run_id, task_id)

    def decisions(self, run: Run) -> list[tuple[Decision, str, str]]:
        return [
            (approval.decision, approval.person.shown, approval.fingerprint)
            for approval in self.installation.ledger.approvals_of(run.run_id)
        ]

    def state_of(self, run: Run) -> RunState:
        return self.installation.ledger.run(run.run_id).state

    def until_state(self, run: Run, wanted: RunState) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while self.state_of(run) is not wanted:
            assert time.monotonic() < end, f"run {run.run_id} is {self.state_of(run)}"
            time.sleep(0.2)

    def end_of(self, dag_run_id: str) -> str:
        return self.alice.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state

    def replicas(self) -> dict[str, tuple[int, ...]]:
        return replicas_of(self.kafka, self.other)


def replicas_of(*clusters: LocalKafka | None) -> dict[str, tuple[int, ...]]:
    placements = [placement(kafka) for kafka in clusters if kafka is not None]
    return {name: tuple(sorted(found)) for each in placements for name, (found, _) in each.items()}


@contextmanager
def running_place(
    folder: Path,
    users: Mapping[str, str],
    kafka: LocalKafka,
    other: LocalKafka | None = None,
    *,
    prefix: str = "",
    paused: Sequence[str] = (SNAPSHOTS, ANALYSIS),
) -> Iterator[Place]:
    """Start an Airflow beside clusters that run, with accounts of these names and roles.

    Nothing runs of the Dags that are paused.
    """
    clusters = {"demo": kafka} | ({"other": other} if other else {})
    variables = configure(folder, **clusters)
    with ExitStack() as stack:
        airflow = LocalAirflow(
            folder / "airflow",
            dags=ROOT / "dags",
            plugins=ROOT / "plugins",
            environment=variables,
            users=users,
            prefix=prefix,
        )
        stack.enter_context(airflow)
        installation = stack.enter_context(open_installation(environment=variables))
        accounts = {user: stack.enter_context(account(airflow, user)) for user in users}
        for dag_id in paused:
            accounts["admin"].api.pause(dag_id)
        before = replicas_of(kafka, other)
        yield Place(kafka, airflow, installation, accounts, before, other, folder)


def write_settings(folder: Path, names: Sequence[str]) -> None:
    sections = [f"\n  {name}:\n    connection: kafka_{name}{POLICY}" for name in names]
    (folder / "clusters.yaml").write_text(f"clusters:{''.join(sections)}")


def configure(folder: Path, **clusters: LocalKafka) -> dict[str, str]:
    write_settings(folder, list(clusters))
    connections = {
        f"AIRFLOW_CONN_KAFKA_{name.upper()}": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
        )
        for name, kafka in clusters.items()
    }
    return connections | {
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
        "COUNTERPOISE_WATCH_SCHEDULE": "manual",
        "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
    }


@contextmanager
def account(airflow: LocalAirflow, user: str) -> Iterator[Account]:
    headers = {"Authorization": f"Bearer {airflow.token(user)}"}
    # Airflow 3.3.2 on SQLite: a task cleared while it is being scheduled ends the scheduler
    # (StaleDataError).
    api = AirflowApi(airflow.base_url, user, airflow.password(user), check=airflow.supervise)
    with httpx.Client(
        base_url=airflow.base_url, headers=headers, timeout=300, trust_env=False
    ) as client:
        yield Account(api, client)
    api.close()
