"""What a person meets in Airflow's own pages: the form, what is refused and when, the links of
tasks, the log, and what follows a run. On a real Airflow below a prefix, and on real brokers.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpoise.installation import Installation, open_installation
from counterpoise.model.run import Run, RunState
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import WAITING_STATES, AirflowApiError, PendingApproval
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_kafka.load import MB
from tests.support.kafka_facts import ON_A_SHARED_DISK

pytestmark = pytest.mark.timeout(2400)
ROOT = Path(__file__).parents[2]
DAG = "kafka_rebalance"
WAIT_SECONDS = 400.0  # a busy machine takes its time
CLUSTERS = f"""
clusters:
  demo:
    connection: kafka_demo
    policy:
      {ON_A_SHARED_DISK}
      movement: {{rate: 4MB/s}}
"""
DEMOTE = {"goal": "demote-brokers", "broker_ids": "1"}


@dataclass
class Place:
    airflow: LocalAirflow
    api: AirflowApi
    client: httpx.Client
    installation: Installation

    def start(self, partition_key: str | None = None, **conf: object) -> httpx.Response:
        body: dict[str, Any] = {"logical_date": None, "conf": conf}
        if partition_key:
            body["partition_key"] = partition_key
        return self.client.post(f"/api/v2/dags/{DAG}/dagRuns", json=body)

    def started(self, partition_key: str | None = None, **conf: object) -> str:
        answer = self.start(partition_key, **conf)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["dag_run_id"])

    def params(self, dag_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"dags/{dag_id}/details")["params"]
        return found

    def get(self, path: str, **params: object) -> Any:
        return self.client.get(f"/api/v2/{path}", params=params).raise_for_status().json()

    def links(self, dag_run_id: str, task_id: str, dag_id: str = DAG, index: int = -1) -> Any:
        of_task = f"dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}"
        found = self.get(f"{of_task}/links", map_index=index)["extra_links"]
        return {name: url for name, url in found.items() if url}

    def newest_run(self) -> Run:
        return self.installation.ledger.runs()[0]

    def answer(self, question: PendingApproval, option: str, **params: str) -> None:
        self.airflow.wait_until_parked(DAG, question.run_id, question.task_id)
        form = {**question.params, **params}
        self.api.answer_approval(DAG, question.run_id, question.task_id, option, form)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("forms")
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(folder / "kafka", brokers_in_racks(*"abc")))
        create_topics(kafka.bootstrap_string, [TopicSpec("payments", [(1, 2), (2, 3), (3, 1)] * 2)])
        fill(kafka.bootstrap_string, "payments", dict.fromkeys(range(6), 8 * MB))
        (folder / "clusters.yaml").write_text(CLUSTERS)
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_string}}
        variables = {
            "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
            "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
            "COUNTERPOISE_STORE": str(folder / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
            "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
            "COUNTERPOISE_WATCH_SCHEDULE": "manual",
            "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
        }
        airflow = stack.enter_context(
            LocalAirflow(
                folder / "airflow",
                dags=ROOT / "dags",
                plugins=ROOT / "plugins",
                environment=variables,
                prefix="/airflow",
            )
        )
        installation = stack.enter_context(open_installation(environment=variables))
        client = httpx.Client(
            base_url=airflow.base_url,
            headers={"Authorization": f"Bearer {airflow.token('admin')}"},
            timeout=300,  # a busy machine takes its time
            trust_env=False,
        )
        stack.enter_context(client)
        api = airflow.api("admin")
        api.pause("kafka_leader_balance")  # each snapshot would start an analysis, with Spark
        yield Place(airflow, api, client, installation)


def test_an_untouched_form_can_be_sent(place: Place) -> None:
    for dag_id in ("kafka_rebalance", "kafka_snapshot", "kafka_audit"):
        for name, param in place.params(dag_id).items():
            type_ = param["schema"].get("type")
            is_required = type_ and not (isinstance(type_, list) and "null" in type_)
            assert not is_required or param["value"] not in (None, ""), (dag_id, name)
    params = place.params(DAG)
    assert params["cluster"]["value"] == "demo"
    untouched = {name: param["value"] for name, param in params.items()}
    dag_run_id = place.started(**untouched)
    ended = place.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS)
    assert ended.state == "success"


@pytest.mark.parametrize(
    "conf",
    [
        {"cluster": "nope"},
        {"cluster": "demo", "goal": "no-goal"},
        {"cluster": "demo", "max_bytes": "500"},
        {"cluster": "demo", "bytes_tolerance_percent": 101},
        {"cluster": "demo", "broker_ids": "7;8"},
    ],
)
def test_what_is_out_of_range_makes_no_run(place: Place, conf: dict[str, Any]) -> None:
    answer = place.start(**conf)
    assert answer.status_code == 400
    assert f"Invalid input for param {list(conf)[-1]}" in answer.text


@pytest.mark.parametrize(
    ("partition_key", "conf", "sentence"),
    [
        ("other", {"cluster": "demo"}, "the form names the cluster demo and the partition key"),
        ("other", {}, "cluster 'other' is not in"),
        (None, {"goal": "add-brokers"}, 'write their ids in the field "Brokers", like 7, 8'),
        (None, {"topics": ["no-such-*"]}, "\"Only these topics\" 'no-such-*': no topic"),
    ],
)
def test_what_depends_on_two_fields_is_said_by_the_first_task_at_once(
    place: Place, partition_key: str | None, conf: dict[str, Any], sentence: str
) -> None:
    dag_run_id = place.started(partition_key, **conf)
    assert place.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "failed"
    log = place.api.task_log(DAG, dag_run_id, "plan", try_number=1)
    assert sentence in log
    with pytest.raises(AirflowApiError):  # it was tried once
        place.api.task_log(DAG, dag_run_id, "plan", try_number=2)


def test_a_run_is_linked_told_and_followed_by_a_snapshot(place: Place) -> None:
    dag_run_id = place.started(cluster="demo", **DEMOTE)
    question = place.api.wait_for_approval(DAG, dag_run_id, WAIT_SECONDS)
    run = place.newest_run()
    run_page = f"{place.airflow.base_url}/counterpoise/runs/{run.run_id}"
    assert place.airflow.base_url.endswith("/airflow")
    assert f"({run_page}/plan)" in question.body
    for task_id in ("plan", "approve"):
        links = place.links(dag_run_id, task_id)
        assert (links["Run"], links["Plan"]) == (run_page, f"{run_page}/plan")
    assert place.client.get(f"{run_page}/plan", follow_redirects=True).status_code == 200

    for unusable in ({"rate": "20", "reason": "x"}, {"rate": "20MB/s", "reason": " "}):
        place.answer(question, "Approve", **unusable)
        question = place.api.wait_for_approval(DAG, dag_run_id, WAIT_SECONDS)
        assert place.api.task_states(DAG, dag_run_id)["approve"] in WAITING_STATES
    assert place.installation.ledger.run(run.run_id).state is RunState.PROPOSED
    refusals = [
        event.text
        for event in place.installation.ledger.journal(run.run_id).events()
        if event.kind == "answer refused"
    ]
    assert "has no unit" in refusals[0]
    assert "reason" in refusals[1]

    place.answer(question, "Approve", reason="as agreed")
    assert place.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "success"
    for task_id in ("execute", "report"):
        assert place.links(dag_run_id, task_id)["Run"] == run_page
    check_logs(place, dag_run_id)
    check_snapshot(place, run)


def check_logs(place: Place, dag_run_id: str) -> None:
    for task_id in ("execute", "settle"):
        log = place.api.task_log(DAG, dag_run_id, task_id)
        assert "leeping" not in log
        assert "next step" not in log


def check_snapshot(place: Place, run: Run) -> None:
    (snapshot,) = place.get("dags/kafka_snapshot/dagRuns")["dag_runs"]
    assert snapshot["note"] == f"after run {run.run_id} of demo"
    assert snapshot["conf"] == {"clusters": ["demo"]}
    dag_run_id = snapshot["dag_run_id"]
    assert place.api.wait_for_run("kafka_snapshot", dag_run_id, WAIT_SECONDS).state == "success"
    audit = place.api.wait_for_new_run("kafka_audit", (), WAIT_SECONDS)
    assert place.api.wait_for_run("kafka_audit", audit.run_id, WAIT_SECONDS).state == "success"
    links = place.links(audit.run_id, "audit", "kafka_audit", 0)
    pages = f"{place.airflow.base_url}/counterpoise"
    assert links["Report"] == f"{pages}/reports/demo/audit.html"
    assert links["Cluster"] == f"{pages}/clusters/demo"
    assert place.client.get(links["Report"]).status_code == 200


def test_where_nothing_moves_the_task_says_why_and_links_to_the_figures(place: Place) -> None:
    dag_run_id = place.started(cluster="demo", **DEMOTE)
    assert place.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "success"
    states = place.api.task_states(DAG, dag_run_id)
    assert (states["plan"], states["approve"], states["verdict"]) == (
        "success",
        "skipped",
        "skipped",
    )
    of_plan = f"dags/{DAG}/dagRuns/{dag_run_id}/taskInstances/plan/xcomEntries/return_value"
    told = place.get(of_plan)["value"]
    assert "nothing to move" in str(told)
    report = place.client.get(place.links(dag_run_id, "plan")["Report"])
    assert report.status_code == 200
    assert "Nothing needs to move." in report.text
