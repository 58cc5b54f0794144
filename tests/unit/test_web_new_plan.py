"""A plan, a snapshot and an audit from the page of a cluster: what is shown, what is started, by
whom.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from counterpoise import installation as wiring
from counterpoise.archive import no_moves_report_name
from counterpoise.errors import RefusedError
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.model.request import FORM_TITLES, PLANNED_GOALS
from counterpoise.orchestration.form import rebalance_form
from counterpoise.orchestration.fresh_snapshot import snapshot_form
from counterpoise.services import plans, snapshots
from tests.support import hostile
from tests.support.pages import NOW, Pages
from tests.support.pictures import simulated
from tests.support.runs import FOUR_BROKERS, SKEWED
from tests.support.web import Started, record_starts, set_dag_run_state, token_on

PLAN = "/clusters/demo/plan"
CLUSTERS = """
clusters:
  demo: {connection: kafka_demo, policy: {access: {propose: [alice]}}}
  empty: {connection: kafka_demo}
  sole: {connection: kafka_demo, policy: {access: {propose: [alice], approve: [alice]}}}
  grave:
    connection: kafka_demo
    policy: {access: {propose: [alice], approve: [alice, bob]}, approval: {critical: yes}}
  cloud: {connection: kafka_demo, policy: {provider: confluent}}
"""


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pages:
    (tmp_path / "connections.yaml").write_text('kafka_demo: {"bootstrap.servers": "a:9092"}')
    kafka = simulated(SKEWED, racks=FOUR_BROKERS)
    monkeypatch.setattr(wiring, "connect_by_discovery", lambda _settings: kafka)
    made = Pages.in_folder(tmp_path, CLUSTERS)
    with made.installation() as installation:
        snapshots.make(installation, "demo", NOW)
    return made


@contextmanager
def starting(
    pages: Pages, user: str = "alice", refusal: str = "", *, may_change: bool = True
) -> Iterator[tuple[TestClient, Started]]:
    """Yield a browser and the Dag runs that its user started, which Airflow may refuse."""
    with pages.browser(user, may_change=may_change) as client:
        yield client, record_starts(client, RefusedError(refusal) if refusal else None)


def send(client: TestClient, path: str = PLAN, **typed: str) -> Any:
    token = token_on(client.get(path).text)
    data = {"form_token": token, **typed}
    return client.post(path, data=data, follow_redirects=False)


def count_runs(pages: Pages) -> int:
    with pages.installation() as installation:
        return len(installation.ledger.runs())


def test_a_plan_is_shown_before_anybody_is_asked(pages: Pages) -> None:
    with starting(pages) as (client, started):
        shown = send(client, do="show", goal="add-brokers", broker_ids="4", topics="ord*")
        assert shown.status_code == 200, shown.text
        for words in ("The plan</h3>", "2026-11-22 12:00", "How even", "What it costs", "ord*"):
            assert words in shown.text, words
        assert "not chosen yet" not in shown.text  # the rate that approvers will be offered
        assert re.search(r'value="add-brokers"[^>]* checked>', shown.text)
        assert shown.text.count('class="main"') == 1, "ask for approval"
        cut = send(client, do="show", goal="add-brokers", broker_ids="4", max_bytes="150B")
        assert "budget leaves for a later plan" in cut.text
    assert not started and count_runs(pages) == 0


def test_start_starts_the_dag_with_what_was_filled_in(pages: Pages) -> None:
    with starting(pages) as (client, started):
        typed = {"broker_ids": "4", "topics": "orders-*, a", "max_bytes": "5GB"}
        sent = send(client, do="start", goal="add-brokers", reason=" new broker ", **typed)
    assert sent.status_code == 303
    assert sent.headers["location"].startswith("/clusters/demo/started/kafka_rebalance?")
    ((dag_id, configuration, note),) = started
    assert (dag_id, note) == ("kafka_rebalance", "new broker")
    form = rebalance_form()
    assert configuration == {
        "cluster": "demo",
        "goal": "add-brokers",
        "broker_ids": "4",
        "topics": ["orders-*", "a"],
        "max_bytes": "5GB",
    }
    for name, value in configuration.items():
        form[name].resolve(value)  # Airflow takes it


START = {"do": "start", "reason": "x"}


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({"do": "start", "goal": "add-brokers", "reason": "x"}, "broker_ids", "needs brokers"),
        (START | {"goal": "add-brokers", "broker_ids": "4, 4"}, "broker_ids", "listed twice"),
        (START | {"goal": "replace-brokers", "broker_ids": "3"}, "broker_ids", "its new one"),
        (START | {"goal": "replace-brokers", "broker_ids": "3=3"}, "broker_ids", "old and new"),
        (START | {"goal": "relief"}, "below_percent", "how full"),
        (START | {"goal": "replication-factor"}, "replication_factor", "number of replicas"),
        (
            START | {"goal": "replication-factor", "replication_factor": "3"},
            "topics",
            "needs the topics",
        ),
        ({"do": "show", "goal": "add-brokers", "broker_ids": "15"}, "broker_ids", "15 is not"),
        ({"do": "start", "goal": "leaders"}, "reason", "must not be empty"),
        ({"do": "show", "goal": "rebalance", "max_bytes": "5"}, "max_bytes", "no unit"),
        ({"do": "show", "goal": "relief", "below_percent": "x"}, "below_percent", "whole number"),
        ({"do": "show", "goal": "leaders", "topics": hostile.HOSTILE}, "topics", "is no topic"),
    ],
)
def test_what_cannot_be_used_is_told_at_its_field(
    pages: Pages, typed: dict[str, str], field: str, words: str
) -> None:
    with starting(pages) as (client, started):
        answer = send(client, **typed)
    assert answer.status_code == 422
    told = answer.text.partition(f'id="{field}-problem">')[2].partition("</p>")[0]
    assert words in told, answer.text[-3000:]
    assert f'aria-describedby="{field}-problem' in answer.text
    hostile.check_html(answer.text.replace("<form", "<div", 1))
    assert not started


def test_an_unknown_goal_is_told_at_the_goals(pages: Pages) -> None:
    with starting(pages) as (client, _):
        answer = send(client, do="show", goal="fly")
    assert answer.status_code == 422 and "is unknown" in answer.text


def test_a_field_that_the_goal_does_not_have_counts_as_empty(pages: Pages) -> None:
    with starting(pages) as (client, started):
        typed = {"broker_ids": "4", "max_bytes": "x", "below_percent": "x"}
        sent = send(client, do="start", goal="leaders", reason="why", **typed)
    assert sent.status_code == 303
    assert started[0][1] == {"cluster": "demo", "goal": "leaders"}


def test_each_goal_of_the_table_names_its_fields_and_the_style_hides_the_others(
    pages: Pages,
) -> None:
    with starting(pages) as (client, _):
        page = client.get(PLAN).text
        style = client.get("/static/style.css").text
    named = dict(re.findall(r'name="goal" value="([^"]+)" data-fields="([^"]*)"', page))
    assert list(named) == [str(goal) for goal in PLANNED_GOALS]
    assert named["relief"] == "below_percent max_bytes" and named["leaders"] == ""
    for field in {field for fields in named.values() for field in fields.split()}:
        if field in FORM_TITLES:
            assert f'class="of-{field}"' in page
            assert f':not([data-fields~="{field}"])) .of-{field}' in style


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("sole", "it takes a yes of 1 other Airflow user, but"),
        ("grave", "it takes a yes of 2 other Airflow users, but"),
    ],
)
def test_what_nobody_could_approve_is_told_before_it_starts(
    pages: Pages, cluster: str, words: str
) -> None:
    with starting(pages) as (client, started):
        sent = send(
            client, f"/clusters/{cluster}/plan", do="start", goal="leaders", reason="kept words"
        )
    assert sent.status_code == 409 and words in sent.text and "add an approver" in sent.text
    assert "kept words" in sent.text and not started


def test_a_store_that_cannot_be_read_is_told_on_the_form(pages: Pages) -> None:
    with starting(pages) as (client, _):
        token = token_on(client.get(PLAN).text)
        folder = Path(pages.environment["COUNTERPOISE_STORE"]) / "history"
        for path in folder.rglob("*.parquet"):
            path.write_bytes(b"damaged")
        answer = client.post(PLAN, data={"form_token": token, "do": "show", "goal": "leaders"})
    assert answer.status_code == 409, answer.text
    assert "cannot be read" in answer.text and "It is not known" not in answer.text


STARTED = "/clusters/demo/started/kafka_rebalance?dag_run_id=manual__1"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("failed", "No plan was made."),
        ("success", "Nothing needs to move."),
        (None, "Airflow does not have this Dag run"),
    ],
)
def test_the_page_after_start_waits_for_no_plan_that_cannot_come(
    pages: Pages, state: str | None, words: str
) -> None:
    with pages.installation() as installation:
        for day in (1, 2):
            name = no_moves_report_name("demo", f"demo-2026110{day}T120000Z")
            installation.archive.write_report(name, "x")
    with pages.browser("alice") as client:
        for waiting in ("queued", "running"):
            set_dag_run_state(client, waiting)
            page = client.get(STARTED)
            assert page.headers["refresh"].startswith("5;")
            asks_whether_it_starts = "whether Airflow’s scheduler runs" in page.text
            assert asks_whether_it_starts == (waiting == "queued")
        set_dag_run_state(client, state)
        page = client.get(STARTED)
    assert "refresh" not in page.headers and "loads again" not in page.text
    assert words in page.text
    is_there = state is not None
    assert ('/dags/kafka_rebalance/runs/manual__1/tasks/plan"' in page.text) == is_there
    assert (f"/reports/{name}" in page.text) == (state == "success")


def test_large_clusters_and_two_at_once_are_refused_in_words(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    with starting(pages) as (client, _):
        assert "no snapshot yet" in send(client, "/clusters/empty/plan", goal="leaders").text
        with plans._PLANNING:
            busy = send(client, goal="leaders")
        assert busy.status_code == 409 and "in some seconds" in busy.text
        monkeypatch.setattr(plans, "MAX_REPLICAS", 5)
        large = send(client, goal="leaders")
    assert large.status_code == 409 and "has 27 replicas, and pages show" in large.text
    assert "counterpoise plan" in large.text


def test_a_cluster_whose_provider_opens_no_runs_is_planned_but_nothing_starts(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = simulated(SKEWED, racks=FOUR_BROKERS, cluster_id="cloud-id")
    monkeypatch.setattr(wiring, "connect_by_discovery", lambda _settings: cloud)
    with pages.installation() as installation:
        snapshots.make(installation, "cloud", NOW)
    path = "/clusters/cloud/plan"
    with starting(pages) as (client, started):
        form = client.get(path).text
        assert "No run can follow: Confluent Cloud" in form and 'value="start"' not in form
        shown = send(client, path, do="show", goal="add-brokers", broker_ids="4").text
        assert "The plan" in shown and "No run can follow" in shown
        assert "<li>Confluent Cloud: reassignments are not open" in shown.replace("\u00a0", " ")
        sent = send(client, path, do="start", goal="leaders", reason="x")
    assert sent.status_code == 409 and "luster cloud is on Confluent Cloud" in sent.text
    assert not started


@pytest.mark.parametrize("what", ["snapshot", "audit"])
def test_a_snapshot_and_an_audit_are_started_for_the_cluster_alone(pages: Pages, what: str) -> None:
    path = f"/clusters/demo/start/{what}"
    with starting(pages) as (client, started):
        token = {"form_token": token_on(client.get("/clusters/demo").text)}
        typed = token | {"reason": "after the release"}
        sent = client.post(path, data=typed, follow_redirects=False)
        page = client.get(sent.headers["location"])
        assert client.post("/clusters/demo/start/fire", data=token).status_code == 404
    configuration = {"clusters": ["demo"]}
    assert started == [(f"kafka_{what}", configuration, "after the release")]
    assert configuration.keys() == snapshot_form().keys()
    assert sent.status_code == 303 and f"/dags/kafka_{what}/runs/manual__1" in page.text
    with starting(pages, refusal=f"kafka_{what} is paused in Airflow") as (client, _):
        refused = client.post(path, data=token)
    assert refused.status_code == 409 and "is paused in Airflow" in refused.text


@pytest.mark.parametrize(
    ("state", "failure", "words"),
    [
        ("running", "", "This page loads again every"),
        ("success", "", "The snapshot is there"),
        ("failed", "no space left", "The snapshot failed.</strong> No space left"),
        ("failed", "", "The Dag run has ended (failed)"),
        (None, "", "Airflow does not have this Dag run"),
    ],
)
def test_what_became_of_a_snapshot_is_shown(
    pages: Pages, state: str | None, failure: str, words: str
) -> None:
    if failure:
        with pages.installation() as installation:
            installation.ledger.record_failure("demo", FailureKind.SNAPSHOT, failure)
    with starting(pages) as (client, _):
        set_dag_run_state(client, state)
        page = client.get("/clusters/demo/started/kafka_snapshot?dag_run_id=manual__1")
    assert words in page.text
    assert ("Refresh" in page.headers) == (state == "running")
