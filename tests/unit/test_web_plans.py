"""The page of a run that waits: its plan, moves and files, and the answer that somebody gives."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient

from counterpoise.installation import open_installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from counterpoise.planning import make_plan
from counterpoise.services import runs
from counterpoise.views.plan import PlanView
from tests.support import hostile
from tests.support.ledger_view import add_event
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.web import browser, token_on, words_on

POLICY = "{access: {approve: [alice, bob, rita]}, approval: {max_rate: 50MB/s}}"
PICTURE = "\n".join(f"orders-{p}: 1 2 3 size=3000000" for p in range(9))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "clusters.yaml").write_text(
        f"clusters: {{picture: {{connection: x, policy: {POLICY}}}}}\n"
    )
    return {
        "COUNTERPOISE_CONFIG": str(tmp_path / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(tmp_path / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path}/ledger.db",
    }


def new_plan() -> RebalancePlan:
    return make_plan(cluster(PICTURE, racks="1=a 2=b 3=c 4=d"), PlanRequest(Goal.ADD_BROKERS, (4,)))


def propose(
    environment: dict[str, str],
    plan: RebalancePlan,
    *,
    dag_run_id: str | None = "manual__1",
    is_validated: bool = True,
) -> str:
    with open_installation(environment=environment) as installation:
        path = installation.archive.write_plan(plan)
        run_id = installation.ledger.propose(
            plan,
            path,
            requested_by="airflow:rita",
            dag_id="kafka_rebalance" if dag_run_id else None,
            dag_run_id=dag_run_id,
        ).run_id
        if is_validated:
            add_event(installation.ledger, run_id, "validated", plan.fingerprint)
    return run_id


@pytest.fixture
def run_id(environment: dict[str, str]) -> str:
    return propose(environment, new_plan())


def send(client: TestClient, run_id: str, **typed: str) -> Any:
    """Send the form as the page has it, with what somebody typed."""
    shown = client.get(f"/runs/{run_id}").text
    fields = {"form_token": token_on(shown), "plan": fingerprint_on(shown)} | typed
    return client.post(f"/runs/{run_id}/answer", data=fields)


def fingerprint_on(page: str) -> str:
    return page.partition('name="plan" value="')[2].partition('"')[0]


def approvals_of(environment: dict[str, str], run_id: str) -> tuple[Approval, ...]:
    with open_installation(environment=environment) as installation:
        return installation.ledger.approvals_of(run_id)


def test_a_plan_shows_what_it_does_and_what_a_yes_means(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "alice") as alice:
        page = alice.get(f"/runs/{run_id}")
    assert page.status_code == 200 and "http-equiv" not in page.text, "typed words would be lost"
    words = words_on(page.text)
    for expected in (
        "Add broker 4 Waiting for you",
        "to broker 4 in about",
        "; leaders 9 to 3 on broker 1.",
        "most 9 → 3, best",
        "best possible",
        "The most that one broker sends or receives.",
        "If approved This plan may run once, at this rate",
        "You or bob (rita requested it, so rita can’t)",
        "rita requested it",
        "Checks Passed",
    ):
        assert expected in words, (expected, words)
    assert 'name="rate" value="20.0 MB/s"' in page.text
    assert page.text.count('class="main"') == 1
    settings = page.text.partition('href="')[0] + alice_tab(environment, run_id, "settings")
    assert "/dags/kafka_rebalance/runs/manual__1" in settings
    assert "What it costs" in alice_tab(environment, run_id, "brokers")
    hostile.check_html(page.text.replace("<form", "<div"))


def alice_tab(environment: dict[str, str], run_id: str, tab: str) -> str:
    with browser(environment, "alice") as alice:
        return str(alice.get(f"/runs/{run_id}", params={"tab": tab}).text)


def test_addresses_of_before_lead_to_the_page_of_the_run(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "alice") as alice:
        for former in ("plan", "undo", "requests/pause"):
            answer = alice.get(f"/runs/{run_id}/{former}")
            assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run_id}")


def test_a_plan_says_why_it_was_requested(environment: dict[str, str]) -> None:
    with open_installation(environment=environment) as installation:
        plan = new_plan()
        path = installation.archive.write_plan(plan)
        why = f"broker 4 is idle {hostile.HOSTILE}"
        run = installation.ledger.propose(plan, path, requested_by="airflow:rita", why=why)
    with browser(environment, "alice") as alice:
        page = alice.get(f"/runs/{run.run_id}").text
    assert "rita requested it" in words_on(page) and "“<bdi>broker 4 is idle" in page
    hostile.check_html(page.replace("<form", "<div"))


def test_moves_are_found_sorted_and_shown_a_page_at_a_time(environment: dict[str, str]) -> None:
    before = cluster("orders-0: 1 2", racks="1=a 2=b 3=c")
    moves = [move(f"orders-{p}", "1 2", "3 2", size=p) for p in range(250)]
    moves += [move("pay-0", "2 1", "1 2")]
    run_id = propose(environment, plan_by_hand(before, Goal.REBALANCE, *moves))
    path = f"/runs/{run_id}"
    with browser(environment, "alice") as alice:
        first = alice.get(path).text
        assert "1–50 of 251" in first and ">orders-249<" in first
        assert ">orders-0<" not in first
        last = alice.get(path, params={"number": "6"}).text
        assert ("251–251 of 251" in last and ">orders-0<" in last) or ">pay-0<" in last
        assert "251–251 of 251" in alice.get(path, params={"number": "99999999"[:6]}).text
        found = alice.get(path, params={"text": "PAY"}).text
        assert "1–1 of 1" in found and ">pay-0<" in found and ">orders-249<" not in found
        assert "1–50 of 250" in alice.get(path, params={"broker": "3"}).text
        sorted_by_topic = alice.get(path, params={"sort": "topic"}).text
        assert ">orders-0<" in sorted_by_topic
        for odd in (
            {"number": "-1"},
            {"number": "x" * 5000},
            {"broker": "9" * 9000},
            {"sort": "no", "why": "no"},
            {"text": hostile.HOSTILE, "why": hostile.HOSTILE, "broker": hostile.HOSTILE},
        ):
            page = alice.get(path, params=odd)
            assert page.status_code == 200
            hostile.check_html(page.text.replace("<form", "<div"))


def test_pages_of_moves_are_found_from_an_answer_that_came_back(
    environment: dict[str, str],
) -> None:
    before = cluster("orders-0: 1 2", racks="1=a 2=b 3=c")
    moves = [move(f"orders-{p}", "1 2", "3 2", size=p + 10**6) for p in range(80)]
    run_id = propose(environment, plan_by_hand(before, Goal.REBALANCE, *moves))
    with browser(environment, "alice") as alice:
        checked = send(alice, run_id, answer="check", rate="10MB/s")
        link = re.search(r'href="([^"]*number=2[^"]*)"', checked.text)
        assert checked.status_code == 200 and link is not None
        second = alice.get(urljoin(str(checked.url), unescape(link[1])))
    assert second.status_code == 200 and "51–80 of 80" in second.text


def test_the_files_of_a_plan(environment: dict[str, str], run_id: str) -> None:
    with browser(environment, "alice") as alice:
        files = {
            name: alice.get(f"/runs/{run_id}/{name}")
            for name in ("plan.json", "reassignment.json", "undo-reassignment.json")
        }
        assert alice.get(f"/runs/{run_id}/ledger.db").status_code == 404
    plan = RebalancePlan.from_json(files["plan.json"].text)
    assert plan == new_plan()
    target, back = (
        json.loads(files[name].text)["partitions"][0]["replicas"]
        for name in ("reassignment.json", "undo-reassignment.json")
    )
    first = plan.moves[0]
    assert (tuple(target), tuple(back)) == (first.replicas_after, first.replicas_before)
    for name, file in files.items():
        assert file.headers["content-disposition"] == f'attachment; filename="{run_id}-{name}"'


def test_plans_and_files_are_shown_to_whom_the_cluster_is(
    environment: dict[str, str], run_id: str
) -> None:
    Path(environment["COUNTERPOISE_CONFIG"]).write_text(
        "clusters: {picture: {connection: x, policy: {access: {view: [alice]}}}}\n"
    )
    with browser(environment, "mallory") as mallory:
        for name in ("", "/plan.json", "/reassignment.json"):
            assert mallory.get(f"/runs/{run_id}{name}").status_code == 403
        answer = mallory.post(f"/runs/{run_id}/answer", data={"answer": "approve"})
    assert answer.status_code == 403


def test_a_store_without_the_plan_is_told_with_what_the_ledger_knows(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "alice") as alice:
        form = alice.get(f"/runs/{run_id}").text
        with open_installation(environment=environment) as installation:
            path = installation.ledger.run(run_id).plan_uri
        runs._read_plan.cache_clear()
        (Path(environment["COUNTERPOISE_STORE"]) / path).unlink()
        page = alice.get(f"/runs/{run_id}")
        assert page.status_code == 200
        for words in (path, "The plan of this run is not there", "requested by rita"):
            assert words in words_on(page.text), words
        fields = {"form_token": token_on(form), "plan": fingerprint_on(form), "rate": "20MB/s"}
        answer = alice.post(
            f"/runs/{run_id}/answer", data={**fields, "answer": "approve", "reason": "x"}
        )
    assert answer.status_code == 409 and "nobody can approve it" in answer.text
    assert approvals_of(environment, run_id) == ()


@pytest.mark.parametrize(
    ("rewritten", "is_shown"),
    [
        (lambda text: json.dumps(json.loads(text)), True),  # the same plan, in other bytes
        (lambda text: text.replace('"size_bytes":3000000', '"size_bytes":1', 1), False),
        (lambda text: text.replace(new_plan().fingerprint, "sha256:0"), False),
        (lambda _: replace(new_plan(), snapshot_id="other").to_json(), False),
    ],
)
def test_only_the_plan_of_the_ledger_is_shown(
    environment: dict[str, str], run_id: str, rewritten: Callable[[str], str], is_shown: bool
) -> None:
    with open_installation(environment=environment) as installation:
        path = Path(environment["COUNTERPOISE_STORE"]) / installation.ledger.run(run_id).plan_uri
    path.write_text(rewritten(path.read_text()))
    runs._read_plan.cache_clear()
    with browser(environment, "alice") as alice:
        page = alice.get(f"/runs/{run_id}")
        files = [alice.get(f"/runs/{run_id}/{name}") for name in ("plan.json", "reassignment.json")]
    assert ("orders-0" in page.text) is is_shown
    assert ("The plan of this run is not there" in page.text) is not is_shown
    assert {file.is_success for file in files} == {is_shown}


def test_an_approved_plan_is_shown_at_the_rate_of_its_yes(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "alice") as alice:
        typed = {"answer": "approve", "rate": "7MB/s", "reason": "broker 4 joined"}
        assert send(alice, run_id, **typed).status_code == 303
        page = alice.get(f"/runs/{run_id}").text
    assert "alice approved it after" in words_on(page) and "at 7.0 MB/s." in words_on(page)
    fast = new_plan()
    assert PlanView.of(fast, 7_000_000).expected_time in words_on(page)


def test_the_rate_is_checked_with_the_time_that_it_makes(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "alice") as alice:
        slow = send(alice, run_id, answer="check", rate="100kB/s", reason="kept words")
        fast = send(alice, run_id, answer="check", rate="10MB/s")
    assert slow.status_code == fast.status_code == 200
    assert "kept words" in slow.text and 'value="100kB/s"' in slow.text
    for page, rate in ((slow, 100_000), (fast, 10_000_000)):
        time = PlanView.of(new_plan(), rate).expected_time
        assert f"takes about {time}" in words_on(page.text)
    assert approvals_of(environment, run_id) == ()


@pytest.mark.parametrize(
    ("typed", "status", "words"),
    [
        ({"answer": "approve", "rate": "20", "reason": "why"}, 422, "no unit"),
        ({"answer": "approve", "rate": "", "reason": "why"}, 422, "is not a rate"),
        ({"answer": "approve", "rate": "20MB/s", "reason": " "}, 422, "must not be empty"),
        ({"answer": "reject", "reason": " "}, 422, "must not be empty"),
        ({"answer": "approve", "rate": "1GB/s", "reason": "why"}, 409, "max_rate is 50.0 MB/s"),
        ({"answer": "check", "rate": "1GB/s"}, 409, "max_rate is 50.0 MB/s"),
        ({"answer": "approve", "rate": "20MB/s", "reason": "x" * 2001}, 422, "more than 2,000"),
        (
            {"answer": "approve", "rate": "20MB/s", "reason": "why", "plan": "sha256:0"},
            409,
            "for another plan",
        ),
        ({"answer": "approve", "rate": "20MB/s", "reason": "why", "plan": ""}, 409, "another plan"),
    ],
)
def test_an_unusable_answer_is_told_on_the_page_and_nothing_is_written(
    environment: dict[str, str], run_id: str, typed: dict[str, str], status: int, words: str
) -> None:
    with browser(environment, "alice") as alice:
        answer = send(alice, run_id, **typed)
    assert answer.status_code == status
    assert words in words_on(answer.text) and "Nothing was changed." in answer.text
    assert typed.get("reason", "").strip() in answer.text
    assert approvals_of(environment, run_id) == ()


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ({"rate": "20", "reason": "why"}, "rate-problem"),
        ({"rate": "1GB/s", "reason": "why"}, "rate-problem"),
        ({"rate": "20MB/s", "reason": " "}, "reason-problem"),
        ({"rate": "20MB/s", "reason": "why", "plan": "sha256:0"}, "problem"),
    ],
)
def test_what_is_wrong_stands_at_its_field(
    environment: dict[str, str], run_id: str, typed: dict[str, str], place: str
) -> None:
    with browser(environment, "alice") as alice:
        page = send(alice, run_id, answer="approve", **typed).text
    assert re.findall(r'<p class="error"[^>]* id="([^"]+)"', page) == [place]
    field = place.partition("-")[0]
    is_named = f'aria-describedby="{place} {field}-hint"' in page
    assert is_named is (place != "problem")
    assert page.count("autofocus") == is_named


def test_the_requester_may_withdraw_and_not_approve(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "rita") as rita:
        page = rita.get(f"/runs/{run_id}").text
        assert "somebody else has to answer: alice or bob." in words_on(page)
        assert 'value="approve"' not in page and ">Withdraw the plan<" in page
        sent = send(rita, run_id, answer="approve", rate="20MB/s", reason="mine")
        assert sent.status_code == 403
        assert send(rita, run_id, answer="reject", reason="mine").status_code == 303
    with open_installation(environment=environment) as installation:
        assert installation.ledger.run(run_id).state is RunState.REJECTED


def test_somebody_else_is_told_who_may(environment: dict[str, str], run_id: str) -> None:
    with browser(environment, "oscar") as oscar, browser(environment, "alice") as alice:
        page = oscar.get(f"/runs/{run_id}").text
        assert "oscar may not approve here" in page and "alice or bob (rita" in words_on(page)
        assert 'name="answer"' not in page
        token = token_on(alice.get(f"/runs/{run_id}").text)
        for form_token in ("", token):
            fields = {
                "form_token": form_token,
                "plan": new_plan().fingerprint,
                "answer": "approve",
                "rate": "20MB/s",
                "reason": "x",
            }
            assert oscar.post(f"/runs/{run_id}/answer", data=fields).status_code == 403
    assert approvals_of(environment, run_id) == ()


def approve(environment: dict[str, str], run_id: str, plan: RebalancePlan) -> None:
    with open_installation(environment=environment) as installation:
        now = installation.clock()
        yes = Approval(
            run_id,
            plan.fingerprint,
            Decision.GRANTED,
            "airflow:alice",
            "ok",
            now,
            10**7,
            now + timedelta(hours=1),
        )
        installation.ledger.record_decision(yes, is_enough=lambda _: False)


def test_nothing_but_a_form_that_is_sent_answers(environment: dict[str, str], run_id: str) -> None:
    query = "answer=approve&rate=20MB/s&reason=x"
    with browser(environment, "alice") as alice:
        token = token_on(alice.get(f"/runs/{run_id}").text)
        for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"):
            alice.request(method, f"/runs/{run_id}/answer?{query}&form_token={token}")
            alice.request(method, f"/runs/{run_id}?{query}&form_token={token}")
        assert alice.post(f"/runs/{run_id}/answer?{query}&form_token={token}").status_code == 403
    assert approvals_of(environment, run_id) == ()
