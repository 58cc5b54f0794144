"""The pages of a plan and of its run in a real Airflow, on real brokers: who answers and who
steers, with the login that a browser has; and what Airflow's own home shows of them.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from counterpoise.model.approval import Decision
from counterpoise.model.request import Goal
from counterpoise.model.run import Run, RunState
from dev.local_kafka import TopicSpec
from dev.local_kafka.load import MB
from tests.support.browser import Visitor, chromium
from tests.support.decisions import reject
from tests.support.pictures import cluster
from tests.support.plans import plan_by_hand
from tests.support.shared_airflow import DAG, WAIT_SECONDS, Place
from tests.support.web import token_on

pytestmark = pytest.mark.timeout(2400)
REMOVE = {"goal": "remove-brokers", "broker_ids": [4]}
PAGES = "/counterpoise/runs"
OPEN_RUNS = "**/api/open-runs"
SLOW = "100kB/s"  # minutes, in which a run can be steered


@pytest.fixture(scope="module")
def place(airflow_place: Place) -> Iterator[Place]:
    topic = TopicSpec("payments", [(1, 2), (2, 3), (3, 4), (4, 1)])
    with airflow_place.with_topic(topic, 24 * MB, "demo"):
        yield airflow_place


def in_a_browser(place: Place, user: str) -> httpx.Client:
    """Return a client with the login's cookie, as a browser sends it, and no other credential."""
    token = place.accounts[user].client.headers["Authorization"].removeprefix("Bearer ")
    return httpx.Client(
        base_url=place.airflow.base_url, cookies={"_token": token}, timeout=120, trust_env=False
    )


def send(
    client: httpx.Client, shown_at: str, sent_to: str, typed: Mapping[str, str]
) -> httpx.Response:
    page = client.get(f"{PAGES}/{shown_at}").text
    fields = {"form_token": token_on(page), "plan": plan_on(page)} | typed
    return client.post(f"{PAGES}/{sent_to}", data=fields)


def page_of(client: httpx.Client, run: Run) -> str:
    return client.get(f"{PAGES}/{run.run_id}").text


def plan_on(page: str) -> str:
    return page.partition('name="plan" value="')[2].partition('"')[0]


def answer(client: httpx.Client, run: Run, **typed: str) -> httpx.Response:
    return send(client, run.run_id, f"{run.run_id}/answer", typed)


def request(client: httpx.Client, run: Run, control: str, **typed: str) -> httpx.Response:
    return send(client, run.run_id, f"{run.run_id}/requests/{control}", typed)


def until(find: Any, what: str) -> Any:
    end = time.monotonic() + WAIT_SECONDS
    while not (found := find()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.5)
    return found


def test_a_plan_is_approved_and_its_run_steered_on_pages(place: Place) -> None:
    asked = place.bob.api.trigger(DAG, conf=REMOVE, partition_key="demo")
    run = place.run_on_screen(place.question(asked))
    with (
        in_a_browser(place, "alice") as alice,
        in_a_browser(place, "bob") as bob,
        in_a_browser(place, "oscar") as oscar,
        in_a_browser(place, "victor") as victor,
    ):
        check_who_may_answer(run, alice, bob, victor)
        assert place.decisions(run) == []
        sent = answer(alice, run, answer="approve", rate=SLOW, reason="as agreed")
        assert sent.status_code == 303, sent.text
        until(lambda: place.state_of(run) is RunState.RUNNING, "the run to start")
        assert place.decisions(run) == [(Decision.GRANTED, "alice", run.fingerprint)]
        check_steering(place, run, oscar, alice, victor)
    assert place.end_of(asked) == "success"
    assert place.state_of(run) is RunState.DONE


def check_who_may_answer(
    run: Run, alice: httpx.Client, bob: httpx.Client, victor: httpx.Client
) -> None:
    unusable = answer(alice, run, answer="approve", rate="20", reason="as agreed")
    assert unusable.status_code == 422 and "no unit" in unusable.text
    of_requester = answer(bob, run, answer="approve", rate=SLOW, reason="mine")
    assert of_requester.status_code == 403
    assert "not answer questions about them" in page_of(victor, run)
    token = token_on(page_of(alice, run))
    fields = {
        "form_token": token,
        "plan": run.fingerprint,
        "answer": "approve",
        "rate": SLOW,
        "reason": "x",
    }
    for client, form_token in ((victor, token), (bob, token), (alice, "")):
        sent = client.post(
            f"{PAGES}/{run.run_id}/answer", data={**fields, "form_token": form_token}
        )
        assert sent.status_code == 403


def check_steering(
    place: Place, run: Run, oscar: httpx.Client, alice: httpx.Client, victor: httpx.Client
) -> None:
    moving = "<strong>Moving</strong>"
    page = until(
        lambda: found if moving in (found := page_of(oscar, run)) else None, "the run to move"
    )
    assert "Pause" in page
    assert "/requests/" not in page_of(victor, run)
    assert request(oscar, run, "pause", reason="load test").status_code == 303
    until(
        lambda: "paused by oscar" in page_of(oscar, run).lower(),
        "the run to be paused",
    )
    assert request(oscar, run, "resume", reason="over").status_code == 303
    too_fast = request(oscar, run, "rate", rate="20MB/s", reason="night")
    assert too_fast.status_code == 403 and "may not approve" in too_fast.text
    assert request(alice, run, "rate", rate="20MB/s", reason="night").status_code == 303
    asked = place.installation.ledger.requests(run.cluster, run.run_id)
    assert [(made.control, made.person.shown) for made in asked] == [
        ("pause", "oscar"),
        ("resume", "oscar"),
        ("rate", "alice"),
    ]


def test_a_no_on_the_page_ends_the_dag_run(place: Place) -> None:
    asked = place.bob.api.trigger(
        DAG, conf={"goal": "demote-brokers", "broker_ids": [1]}, partition_key="demo"
    )
    run = place.run_on_screen(place.question(asked))
    with in_a_browser(place, "alice") as alice:
        no = answer(alice, run, answer="reject", reason="not before the release")
        assert no.status_code == 303, no.text
        assert place.end_of(asked) == "success"
        late = page_of(alice, run)
    assert "Rejected" in late and "not before the release" in late
    assert place.decisions(run) == [(Decision.REJECTED, "alice", run.fingerprint)]


def test_airflows_home_leads_to_the_plan_that_waits(place: Place) -> None:
    """In a browser, which runs the script that Airflow loads for it."""
    plan = plan_by_hand(cluster("payments-0: 1 2", racks="1=a 2=b", name="demo"), Goal.REBALANCE)
    path = place.installation.archive.write_plan(plan)
    run = place.installation.ledger.propose(plan, path, requested_by="airflow:bob")
    with chromium() as browser:
        alice = Visitor.log_in(browser, place.airflow, "alice")
        alice.enter_from_airflow("demo: a plan waits for you")
        assert alice.page.url.endswith(f"/runs/{run.run_id}")
        bob = Visitor.log_in(browser, place.airflow, "bob")
        bob.enter_from_airflow("demo: a plan waits")
        reject(place.installation, run)
        alice.enter_from_airflow("Balance reports")
        assert alice.clicks == 1
        alice.check_no_problem()
        for wrong in ({"json": {}}, {"body": "<html>a proxy"}, {"status": 503, "json": {}}):
            answer_open_runs(alice, **wrong)
            alice.page.goto(f"{place.airflow.base_url}/")
            alice.shows("What waits and what runs cannot be shown now.")
            alice.shows("Setup says what is missing")
            alice.follow("Fleet")
            alice.page.wait_for_url("**/counterpoise/fleet")
        answer_open_runs(alice, status=403, json={})
        with alice.page.expect_response(OPEN_RUNS):
            alice.page.goto(f"{place.airflow.base_url}/")
        expect(alice.page.get_by_role("heading", name="Welcome")).to_be_visible()
        assert alice.page.get_by_role("region", name="Kafka clusters").count() == 0


def answer_open_runs(visitor: Visitor, **answer: Any) -> None:
    """Answer what the script on Airflow's home asks for, in place of our pages."""
    visitor.page.route(OPEN_RUNS, lambda route: route.fulfill(**answer))
