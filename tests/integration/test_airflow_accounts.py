"""What an account of Airflow's role `user` may write, tried against questions, answers and runs.

On a real Airflow, over its REST API, and on real brokers: whatever is written, nobody's yes counts
for another plan than the one on their screen, and the cluster changes only as was approved.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpoise import controls
from counterpoise.installation import Installation, open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import Run, RunState
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import WAITING_STATES, AirflowApiError, PendingApproval
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_kafka.load import MB
from tests.support.decisions import reject
from tests.support.kafka_facts import ON_A_SHARED_DISK, placement

pytestmark = pytest.mark.timeout(2400)
ROOT = Path(__file__).parents[2]
DAG = "kafka_rebalance"
# Each run ends with a Dag run of kafka_snapshot, which audit and analysis follow: nothing here
# needs them, so it waits in the queue.
SNAPSHOTS, ANALYSIS = "kafka_snapshot", "kafka_leader_balance"
WAIT_SECONDS = 400.0  # a busy machine takes its time
MIN_PARKED_SECONDS = 11.0  # before that our pages refuse an answer
POLICY = f"""
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: 20MB/s}}
      access: {{approve: [alice], operate: [oscar]}}
"""
USERS = {"admin": "admin", "alice": "user", "bob": "user", "mallory": "user", "oscar": "op"}
DEMOTE = {"goal": "demote-brokers", "broker_ids": [1]}
DEMOTE_ANOTHER = {"goal": "demote-brokers", "broker_ids": [2]}
REMOVE = {"goal": "remove-brokers", "broker_ids": [4]}
REMOVE_FROM_OTHER = {"goal": "remove-brokers", "broker_ids": [2]}
TASKS = (
    *("plan", "validate", "approve", "approve_second", "open_run", "execute", "verify"),
    *("settle", "report", "repeat", "fresh_snapshot", "verdict"),
)


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

    @property
    def alice(self) -> Account:
        return self.accounts["alice"]

    @property
    def bob(self) -> Account:
        return self.accounts["bob"]

    @property
    def mallory(self) -> Account:
        return self.accounts["mallory"]

    def question(self, dag_run_id: str) -> PendingApproval:
        return self.alice.api.wait_for_approval(DAG, dag_run_id, WAIT_SECONDS)

    def run_on_screen(self, question: PendingApproval) -> Run:
        """Return the run whose plan a person reads in the question."""
        (run,) = (r for r in self.installation.ledger.runs() if r.fingerprint in question.body)
        return run

    def answer(self, question: PendingApproval, option: str, **params: str) -> None:
        """Answer as a page does: every value of the form goes with it, as it was when shown."""
        self.respond(question, option, {**question.params, "reason": "as agreed", **params})

    def respond(self, question: PendingApproval, option: str, form: Mapping[str, str]) -> None:
        self.let_it_park(question.run_id, question.task_id)
        self.alice.api.answer_approval(DAG, question.run_id, question.task_id, option, form)

    def let_it_park(self, dag_run_id: str, task_id: str = "approve") -> None:
        """Wait until Airflow knows that a task has parked itself, and our pages take an answer."""
        time.sleep(MIN_PARKED_SECONDS)
        self.airflow.wait_until_parked(DAG, dag_run_id, task_id)

    def decisions(self, run: Run) -> list[tuple[Decision, str, str]]:
        return [
            (approval.decision, approval.by, approval.fingerprint)
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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("accounts")
    with (
        LocalKafka(folder / "kafka", brokers_in_racks(*"abcd")) as kafka,
        LocalKafka(folder / "other", brokers_in_racks(*"ab")) as other,
    ):
        pairs = [(1, 2), (2, 3), (3, 4), (4, 1)]
        create_topics(kafka.bootstrap_string, [TopicSpec("payments", pairs * 2)])
        fill(kafka.bootstrap_string, "payments", dict.fromkeys(range(8), 8 * MB))
        create_topics(other.bootstrap_string, [TopicSpec("returns", [(1,), (2,)] * 2)])
        with running_place(folder, USERS, kafka, other) as place:
            yield place


@contextmanager
def running_place(
    folder: Path,
    users: Mapping[str, str],
    kafka: LocalKafka,
    other: LocalKafka | None = None,
    *,
    prefix: str = "",
    paused: str = SNAPSHOTS,
) -> Iterator[Place]:
    """Start an Airflow beside clusters that run, with accounts of these names and roles.

    Nothing runs of the Dag that is paused.
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
        accounts["admin"].api.pause(paused)
        yield Place(kafka, airflow, installation, accounts, replicas_of(kafka, other), other)


def configure(folder: Path, **clusters: LocalKafka) -> dict[str, str]:
    sections = [f"\n  {name}:\n    connection: kafka_{name}{POLICY}" for name in clusters]
    (folder / "clusters.yaml").write_text(f"clusters:{''.join(sections)}")
    connections = {
        f"AIRFLOW_CONN_KAFKA_{name.upper()}": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
        )
        for name, kafka in clusters.items()
    }
    return connections | {
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
        base_url=airflow.base_url, headers=headers, timeout=120, trust_env=False
    ) as client:
        yield Account(api, client)
    api.close()


def test_an_event_over_rest_asks_nobody_where_an_approver_could_have_sent_it(place: Place) -> None:
    wanted = forged_event(place, "bob")
    assert place.mallory.send("POST", "assets/events", wanted) == 403
    known = {run.run_id for run in place.alice.api.dag_runs(DAG)}
    assert place.accounts["oscar"].send("POST", "assets/events", wanted) == 200
    started = place.alice.api.wait_for_new_run(DAG, known, WAIT_SECONDS, partition_key="other")
    assert place.end_of(started.run_id) == "failed"
    log = place.alice.api.task_log(DAG, started.run_id, "plan")
    assert "nobody knows who requests this plan" in log
    assert "bob (claimed by somebody unknown)" in log
    assert place.installation.ledger.runs() == ()


def forged_event(place: Place, requested_by: str) -> dict[str, Any]:
    (asset,) = place.alice.get("assets", name_pattern="rebalance_wanted")["assets"]
    extra = {**REMOVE_FROM_OTHER, "cluster": "other", "requested_by": requested_by}
    return {"asset_id": asset["id"], "extra": extra, "partition_key": "other"}


def test_a_yes_counts_for_the_plan_on_the_screen_whatever_is_written_beside_it(
    place: Place,
) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE, partition_key="demo")
    asked_for_other = place.mallory.api.trigger(DAG, conf=REMOVE_FROM_OTHER, partition_key="other")
    question, wanted = place.question(asked), place.run_on_screen(place.question(asked_for_other))
    run = place.run_on_screen(question)
    for task_id in TASKS:
        place.mallory.rewrite_xcoms(asked, task_id, wanted)
        of_task = f"dags/{DAG}/dagRuns/{asked}/taskInstances/{task_id}"
        assert place.mallory.send("PATCH", of_task, {"note": "approved by alice"}) == 200
    of_run = f"dags/{DAG}/dagRuns/{asked}"
    assert place.mallory.send("PATCH", of_run, {"note": "approved by alice"}) == 200
    without_partition = {"run_id": asked, "dry_run": False}
    assert place.mallory.send("POST", f"dags/{DAG}/clearPartitions", without_partition) == 200
    yes = {"chosen_options": ["Approve"], "params_input": question.params}
    of_question = f"{of_run}/taskInstances/approve/-1/hitlDetails"
    assert place.mallory.send("PATCH", of_question, yes) == 403

    place.answer(question, "Approve")
    assert place.end_of(asked) == "success"
    assert place.decisions(run) == [(Decision.GRANTED, "alice", run.fingerprint)]
    assert place.state_of(run) is RunState.DONE
    check_untouched(place, wanted)


def check_untouched(place: Place, run: Run) -> None:
    """Check that nobody decided about a run, and that no replica has moved."""
    assert place.decisions(run) == []
    assert place.state_of(run) in (RunState.PROPOSED, RunState.SUPERSEDED)
    assert place.replicas() == place.replicas_before


def test_tasks_marked_as_success_grant_nothing(place: Place) -> None:
    own = place.mallory.api.trigger(DAG, conf=REMOVE_FROM_OTHER, partition_key="other")
    run = place.run_on_screen(place.question(own))
    for task_id in ("approve", "approve_second"):
        place.mallory.api.mark_task(DAG, own, task_id, "success")
    assert place.end_of(own) == "failed"
    for task_id in ("open_run", "execute"):
        place.mallory.api.mark_task(DAG, own, task_id, "success")
    place.mallory.api.clear_task(DAG, own, "verify")
    assert place.end_of(own) == "failed"
    check_untouched(place, run)


def test_a_cleared_plan_is_not_made_anew_behind_an_open_question(place: Place) -> None:
    """Airflow would go on showing the first question of the task."""
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    page = place.question(asked)
    run = place.run_on_screen(page)
    place.let_it_park(asked)
    place.mallory.api.clear_task(DAG, asked, "plan")
    assert place.end_of(asked) == "failed"
    assert "start a new Dag run" in place.alice.api.task_log(DAG, asked, "plan", try_number=2)
    place.mallory.api.mark_task(DAG, asked, "plan", "success")
    # Airflow clears what failed behind a task that is marked as success, and goes on with it.
    assert place.question(asked).body == page.body
    assert place.installation.ledger.runs(cluster="demo")[0] == run
    check_untouched(place, run)


def test_an_old_page_does_not_answer_for_a_new_plan(place: Place) -> None:
    """The Dag run is deleted and started again under its id, with another goal.

    Its id has asked about a plan before, so it asks about no other one.
    """
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    old_page = place.question(asked)
    place.mallory.start_anew(asked, REMOVE)
    assert place.end_of(asked) == "failed"
    with pytest.raises(AirflowApiError):
        place.answer(old_page, "Approve")
    check_untouched(place, place.run_on_screen(old_page))


def test_an_answer_without_the_plan_leaves_the_question_open(place: Place) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    page = place.question(asked)
    run = place.run_on_screen(page)
    blind = {"rate": "20MB/s", "reason": "by REST, without having read it"}
    place.respond(page, "Approve", blind)
    assert place.question(asked).body == page.body
    check_untouched(place, run)
    assert "the answer names no plan" in place.alice.api.task_log(DAG, asked, "approve")
    place.answer(page, "Reject")
    assert place.end_of(asked) == "success"
    assert place.decisions(run) == [(Decision.REJECTED, "alice", run.fingerprint)]


def test_a_newer_plan_closes_the_question_of_the_one_before(place: Place) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    run = place.run_on_screen(place.question(asked))
    newer = place.bob.api.trigger(DAG, conf=REMOVE, partition_key="demo")
    question = place.question(newer)
    assert place.end_of(asked) == "success"
    assert place.state_of(run) is RunState.SUPERSEDED
    assert place.decisions(run) == [], "nobody let time run out"
    waiting = place.alice.api.pending_approvals(DAG)
    assert [one.run_id for one in waiting if one.task_state in WAITING_STATES] == [newer]
    of_question = f"dags/{DAG}/dagRuns/{asked}/taskInstances/approve"
    told = place.alice.get(f"{of_question}/-1/hitlDetails")
    assert (told["chosen_options"], told["responded_by_user"]) == (["Reject"], None)
    decision = place.alice.get(f"{of_question}/xcomEntries/decision")["value"]
    assert "superseded" in str(decision)
    states = place.alice.api.task_states(DAG, asked)
    assert (states["approve"], states["execute"]) == ("success", "skipped")

    # Of the command line, say.
    reject(place.installation, place.run_on_screen(question), by=Person("alice", "system:alice"))
    assert place.end_of(newer) == "success"
    assert place.alice.api.pending_approvals(DAG, newer) == []
    assert place.replicas() == place.replicas_before


def test_a_cancelled_run_does_not_go_on_because_somebody_clears_a_task(place: Place) -> None:
    """Only those who may operate let a run go on, and whoever may approve says yes once more."""
    asked = place.bob.api.trigger(DAG, conf=REMOVE, partition_key="demo")
    page = place.question(asked)
    run = place.run_on_screen(page)
    place.answer(page, "Approve", rate="50kB/s")  # minutes, in which it can be cancelled
    place.until_state(run, RunState.RUNNING)
    oscar = Person("oscar", "system:oscar")
    controls.cancel(place.installation, run.run_id, by=oscar, why="month end")
    assert place.end_of(asked) == "failed"
    assert place.state_of(run) is RunState.HALTED
    replicas = place.replicas()

    place.mallory.api.clear_task(DAG, asked, "execute")
    assert place.end_of(asked) == "failed"
    assert place.state_of(run) is RunState.HALTED
    assert place.replicas() == replicas
    assert "it is approved again" in place.alice.api.task_log(DAG, asked, "open_run", try_number=2)

    place.mallory.api.clear_task(DAG, asked, "approve")
    again = place.question(asked)
    assert again.body == page.body
    place.answer(again, "Approve", rate="50MB/s")
    assert place.end_of(asked) == "success"
    assert place.state_of(run) is RunState.DONE
