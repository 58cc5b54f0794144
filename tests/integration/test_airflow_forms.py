"""What a person meets in Airflow's own pages: the form, what is refused and when, the links of
tasks, the log, and what follows a run. On a real Airflow below a prefix, and on real brokers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from counterpoise.installation import Installation
from counterpoise.model.run import Run
from dev.local_airflow import AirflowApi, LocalAirflow
from dev.local_airflow.api import AirflowApiError
from dev.local_kafka import TopicSpec, create_topics
from dev.local_kafka.load import MB
from tests.support.kafka_facts import delete_topics
from tests.support.shared_airflow import DAG, SNAPSHOTS, WAIT_SECONDS, Place

pytestmark = pytest.mark.timeout(2400)
DEMOTE = {"goal": "demote-brokers", "broker_ids": "1"}


@dataclass
class Forms:
    """The shared Airflow as its administrator sees it."""

    place: Place

    @property
    def airflow(self) -> LocalAirflow:
        return self.place.airflow

    @property
    def api(self) -> AirflowApi:
        return self.place.admin.api

    @property
    def client(self) -> httpx.Client:
        return self.place.admin.client

    @property
    def installation(self) -> Installation:
        return self.place.installation

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


@pytest.fixture(scope="module")
def forms(airflow_place: Place) -> Iterator[Forms]:
    topic = TopicSpec("payments", [(1, 2), (2, 3), (3, 4), (4, 1)] * 2)
    with airflow_place.with_topic(topic, 8 * MB, "demo"):
        airflow_place.let_snapshots_run()
        yield Forms(airflow_place)
        airflow_place.admin.api.pause(SNAPSHOTS)


def test_an_untouched_form_can_be_sent(forms: Forms) -> None:
    for dag_id in ("kafka_rebalance", "kafka_snapshot", "kafka_audit"):
        for name, param in forms.params(dag_id).items():
            type_ = param["schema"].get("type")
            is_required = type_ and not (isinstance(type_, list) and "null" in type_)
            assert not is_required or param["value"] not in (None, ""), (dag_id, name)
    params = forms.params(DAG)
    assert params["cluster"]["value"] == "demo"
    untouched = {name: param["value"] for name, param in params.items()}
    dag_run_id = forms.started(**untouched)
    ended = forms.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS)
    assert ended.state == "success"


@pytest.mark.parametrize(
    "conf",
    [
        {"cluster": "nope"},
        {"cluster": "demo", "goal": "no-goal"},
        {"cluster": "demo", "max_bytes": "500"},
        {"cluster": "demo", "broker_ids": "7;8"},
    ],
)
def test_what_is_out_of_range_makes_no_run(forms: Forms, conf: dict[str, Any]) -> None:
    answer = forms.start(**conf)
    assert answer.status_code == 400
    assert f"Invalid input for param {list(conf)[-1]}" in answer.text


@pytest.mark.parametrize(
    ("partition_key", "conf", "sentence"),
    [
        ("other", {"cluster": "demo"}, "the form names the cluster demo and the partition key"),
        ("other", {}, "cluster 'other' is not in"),
        (None, {"goal": "add-brokers"}, 'write their ids in the field "Brokers", like 7, 8'),
        (None, {"topics": ["no-such-*"]}, "\"Only these topics\" 'no-such-*': no topic"),
        # No field of the form; Airflow takes it all the same.
        (None, {"bytes_tolerance_percent": 101}, "bytes_tolerance_percent: 101 must be a whole"),
    ],
)
def test_what_depends_on_two_fields_is_said_by_the_first_task_at_once(
    forms: Forms, partition_key: str | None, conf: dict[str, Any], sentence: str
) -> None:
    dag_run_id = forms.started(partition_key, **conf)
    assert forms.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "failed"
    log = forms.api.task_log(DAG, dag_run_id, "plan", try_number=1)
    assert sentence in log
    with pytest.raises(AirflowApiError):  # it was tried once
        forms.api.task_log(DAG, dag_run_id, "plan", try_number=2)


def test_the_form_of_a_connection_has_addresses_and_security_and_its_button_works(
    forms: Forms,
) -> None:
    hooks = forms.client.get("/ui/connections/hook_meta").raise_for_status().json()
    (hook,) = (hook for hook in hooks if hook["connection_type"] == "kafka")
    fields = list(hook["extra_fields"])
    assert fields[:3] == ["bootstrap.servers", "security.protocol", "sasl.mechanism"]
    assert all(hook["standard_fields"][name]["hidden"] for name in ("host", "login", "password"))
    # What the page sends when all other fields are left as they are.
    extra = dict.fromkeys(fields) | {"bootstrap.servers": forms.place.kafka.bootstrap_string}
    body = {"connection_id": "kafka_typed", "conn_type": "kafka", "extra": json.dumps(extra)}
    tested = forms.client.post("/api/v2/connections/test", json=body).raise_for_status().json()
    assert tested["status"] is True, tested


def test_a_run_is_linked_told_and_followed_by_a_snapshot(forms: Forms) -> None:
    dag_run_id = forms.started(cluster="demo", **DEMOTE)
    question = forms.api.wait_for_approval(DAG, dag_run_id, WAIT_SECONDS)
    run = forms.newest_run()
    run_page = f"{forms.airflow.base_url}/counterpoise/runs/{run.run_id}"
    assert forms.airflow.base_url.endswith("/airflow")
    assert f"({run_page})" in question.body
    for task_id in ("plan", "approve"):
        links = forms.links(dag_run_id, task_id)
        assert links["Run"] == run_page
    assert forms.client.get(run_page, follow_redirects=True).status_code == 200

    forms.place.answer(question, "approve")
    assert forms.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "success"
    for task_id in ("execute", "report"):
        assert forms.links(dag_run_id, task_id)["Run"] == run_page
    check_logs(forms, dag_run_id)
    check_snapshot(forms, run)


def check_logs(forms: Forms, dag_run_id: str) -> None:
    for task_id in ("execute", "settle"):
        log = forms.api.task_log(DAG, dag_run_id, task_id)
        assert "leeping" not in log
        assert "next step" not in log


def check_snapshot(forms: Forms, run: Run) -> None:
    (snapshot,) = forms.get("dags/kafka_snapshot/dagRuns")["dag_runs"]
    assert snapshot["note"] == f"after run {run.run_id} of demo"
    assert snapshot["conf"] == {"clusters": ["demo"]}
    dag_run_id = snapshot["dag_run_id"]
    assert forms.api.wait_for_run("kafka_snapshot", dag_run_id, WAIT_SECONDS).state == "success"
    audit = forms.api.wait_for_new_run("kafka_audit", (), WAIT_SECONDS)
    assert forms.api.wait_for_run("kafka_audit", audit.run_id, WAIT_SECONDS).state == "success"
    links = forms.links(audit.run_id, "audit", "kafka_audit", 0)
    pages = f"{forms.airflow.base_url}/counterpoise"
    assert links["Report"] == f"{pages}/reports/demo/audit.html"
    assert links["Cluster"] == f"{pages}/clusters/demo"
    assert forms.client.get(links["Report"]).status_code == 200


@pytest.fixture
def idle_topic(forms: Forms) -> Iterator[str]:
    """A topic of which broker 1 leads nothing."""
    topic = TopicSpec("idle", [(2, 3), (3, 4)])
    create_topics(forms.place.kafka.bootstrap_string, [topic])
    yield topic.name
    delete_topics(forms.place.kafka, {topic.name})


def test_where_nothing_moves_the_task_says_why_and_links_to_the_figures(
    forms: Forms, idle_topic: str
) -> None:
    dag_run_id = forms.started(cluster="demo", topics=[idle_topic], **DEMOTE)
    assert forms.api.wait_for_run(DAG, dag_run_id, WAIT_SECONDS).state == "success"
    states = forms.api.task_states(DAG, dag_run_id)
    assert (states["plan"], states["approve"], states["verdict"]) == (
        "success",
        "skipped",
        "skipped",
    )
    of_plan = f"dags/{DAG}/dagRuns/{dag_run_id}/taskInstances/plan/xcomEntries/return_value"
    told = forms.get(of_plan)["value"]
    assert "nothing to move" in str(told)
    report = forms.client.get(forms.links(dag_run_id, "plan")["Report"])
    assert report.status_code == 200
    assert "Nothing needs to move" in report.text
