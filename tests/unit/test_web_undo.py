"""Undo of an ended run on its page: who may ask for it, what it starts, and where it cannot be."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from counterpoise.errors import InputError
from counterpoise.installation import open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support import hostile
from tests.support.ledger_view import LedgerView
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import FOUR_BROKERS, SKEWED, SimulatedRun
from tests.support.web import (
    Started,
    browser,
    environment_in,
    record_starts,
    run_with_its_plan,
    token_on,
    words_on,
)

NAMED = "{access: {view: [oscar, victor], propose: [oscar]}}"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_in(tmp_path, f"clusters: {{picture: {{connection: x, policy: {NAMED}}}}}")


@pytest.fixture
def simulated(tmp_path: Path, environment: dict[str, str]) -> SimulatedRun:
    return run_with_its_plan(tmp_path, environment)


@contextmanager
def starting(
    environment: dict[str, str], user: str, problem: str = ""
) -> Iterator[tuple[TestClient, Started]]:
    """Yield a browser and the Dag runs that its user started, which Airflow may refuse."""
    with browser(environment, user) as client:
        yield client, record_starts(client, InputError(problem) if problem else None)


def send(client: TestClient, run_id: str, reason: str) -> tuple[int, str]:
    token = token_on(client.get(f"/runs/{run_id}").text)
    answer = client.post(f"/runs/{run_id}/undo", data={"form_token": token, "reason": reason})
    return answer.status_code, answer.headers.get("location", answer.text)


def events(made: SimulatedRun) -> list[str]:
    return LedgerView.of(made.ledger).event_kinds(made.run_id)


def test_an_ended_run_is_undone_by_a_dag_run(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    assert simulated.go() is RunState.DONE
    run_id = simulated.run_id
    with starting(environment, "oscar") as (client, started):
        assert f'action="/runs/{run_id}/undo"' in client.get(f"/runs/{run_id}").text
        answer = send(client, run_id, f"  {hostile.HOSTILE} ")
        location = "/clusters/picture/started/kafka_rebalance?dag_run_id=manual__1"
        assert answer == (303, location)
        page = client.get(location)
        assert "/dags/kafka_rebalance/runs/manual__1" in page.text
        hostile.check_html(client.get(f"/runs/{run_id}").text.replace("<form", "<div"))
    wanted = {"cluster": "picture", "undo_of": run_id}
    on_one_line = re.sub("[\r\n]+", " ", hostile.HOSTILE)
    assert started == [("kafka_rebalance", wanted, on_one_line)]
    assert events(simulated)[-1] == "undo plan asked"


def test_an_undone_run_leads_to_its_undo_and_asks_for_none_again(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    assert simulated.go() is RunState.DONE
    first, form = simulated.run_id, f'action="/runs/{simulated.run_id}/undo"'
    back = move("orders-0", "4 2 3", "1 2 3")
    undo = plan_by_hand(cluster(SKEWED, racks=FOUR_BROKERS), Goal.REBALANCE, back)
    with starting(environment, "oscar") as (oscar, _):
        send(oscar, first, f"Dag run manual__2 makes the plan; {undo.fingerprint}")
        run = simulated.ledger.propose(
            undo,
            "plans/y.json",
            requested_by="airflow:oscar",
            dag_id="kafka_rebalance",
            dag_run_id="manual__1",
        )
        asked = oscar.get(f"/runs/{first}").text
        link = f'<a href="/runs/{run.run_id}">Run {run.run_id[-6:]}</a> takes back'
        assert link in asked and "Waiting for approval" in asked and form not in asked
        no = replace(simulated.approval(Decision.REJECTED), run_id=run.run_id)
        simulated.ledger.record_decision(replace(no, fingerprint=undo.fingerprint))
        rejected = oscar.get(f"/runs/{first}").text
        assert link in rejected and form in rejected
    with starting(environment, "victor") as (victor, _):
        assert link in victor.get(f"/runs/{first}").text


def test_an_undo_is_not_undone_and_leads_to_a_new_plan(
    environment: dict[str, str], simulated: SimulatedRun, tmp_path: Path
) -> None:
    assert simulated.go() is RunState.DONE
    moved = next(m for m in simulated.plan.moves if m.adding)
    back = replace(
        moved, replicas_before=moved.replicas_after, replicas_after=moved.replicas_before
    )
    before = cluster(SKEWED, racks=FOUR_BROKERS)
    undo = plan_by_hand(before, Goal.REBALANCE, back, undoes=simulated.plan.fingerprint)
    simulated.go_on_with(undo)
    with open_installation(environment=environment) as installation:
        installation.archive.store.write_text("plans/y.json", undo.to_json())
    simulated.until_moving(simulated.driver())
    simulated.end(simulated.driver())
    with starting(environment, "oscar") as (oscar, _):
        page = oscar.get(f"/runs/{simulated.run_id}").text
    assert "This run is an undo itself." in words_on(page)
    assert '<a href="/clusters/picture/plan">make a plan</a>' in page
    assert "Makes a plan that moves back" not in page and "sha256:" not in words_on(page)


def test_what_cannot_be_used_comes_back_and_nothing_is_noted(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    assert simulated.go() is RunState.DONE
    before = events(simulated)
    with starting(environment, "oscar") as (client, started):
        status, text = send(client, simulated.run_id, "  ")
        assert status == 422 and "must not be empty" in text
        status, _ = send(client, simulated.run_id, "x" * 3000)
        assert status == 422 and not started
    with starting(environment, "oscar", problem="no such cluster") as (client, _):
        status, text = send(client, simulated.run_id, "kept words")
        assert status == 422 and "No such cluster" in text and "kept words" in text
    assert events(simulated) == before


def test_where_nothing_moved_or_a_run_is_under_way_nothing_is_undone(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    path = f"/runs/{simulated.run_id}"
    with starting(environment, "oscar") as (client, started):
        for words in ("moved nothing, so there is nothing to undo", "cancel it first"):
            page = client.get(path).text
            assert f'action="{path}/undo"' not in page
            fields = {"form_token": token_on(page), "reason": "why"}
            refused = client.post(f"{path}/undo", data=fields)
            assert refused.status_code == 409 and words in words_on(refused.text)
            simulated.until_moving(simulated.driver())
    assert not started


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("approve: [oscar]}", "nobody but oscar to approve, of whom nobody may"),
        (
            "approve: [oscar, alice]}, approval: {critical: yes}",
            "nobody but oscar, alice to approve, of whom alice may",
        ),
    ],
    ids=["nobody else", "one of two"],
)
def test_an_undo_that_nobody_could_approve_is_not_started(
    environment: dict[str, str], simulated: SimulatedRun, policy: str, words: str
) -> None:
    assert simulated.go() is RunState.DONE
    path = f"/runs/{simulated.run_id}/undo"
    with starting(environment, "oscar") as (client, started):
        token = token_on(client.get(f"/runs/{simulated.run_id}").text)
        Path(environment["COUNTERPOISE_CONFIG"]).write_text(
            "clusters: {picture: {connection: x, policy: "
            f"{{access: {{view: [oscar], propose: [oscar], {policy}}}}}}}"
        )
        page = client.get(f"/runs/{simulated.run_id}").text
        assert words in words_on(page) and f'action="{path}"' not in page
        sent = client.post(path, data={"form_token": token, "reason": "too early"})
        assert sent.status_code == 409 and words in words_on(sent.text)
    assert not started
    assert "undo plan asked" not in events(simulated)


def test_an_undo_that_is_sent_twice_is_noted_once(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    assert simulated.go() is RunState.DONE
    path = f"/runs/{simulated.run_id}/undo"
    with starting(environment, "oscar") as (client, _started):
        token = token_on(client.get(f"/runs/{simulated.run_id}").text)
        form = {"form_token": token, "reason": "too early"}
        locations = {client.post(path, data=form).headers["location"] for _ in range(2)}
    assert len(locations) == 1
    assert events(simulated).count("undo plan asked") == 1
