"""How a plan ends on its pages: refused by its checks, or rejected, and what then says whether
anything was changed.
"""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from counterpoise.installation import Installation, open_installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control
from counterpoise.model.request import Goal
from counterpoise.model.run import ASKED, MUST_NOT_RUN, NOT_VALIDATED, VALIDATED, RunState
from counterpoise.services import runs
from tests.support import hostile
from tests.support.ledger_view import add_event
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import SimulatedRun
from tests.support.web import browser, environment_in, run_with_its_plan, token_on, words_on
from tests.unit.test_web_plans import (
    approvals_of,
    new_plan,
    propose,
    send,
)

POLICY = "{access: {approve: [alice, bob, rita], operate: [oscar]}}"
RATE = 10**7


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_in(tmp_path, f"clusters: {{picture: {{connection: x, policy: {POLICY}}}}}\n")


@pytest.fixture
def run_id(environment: dict[str, str]) -> str:
    return propose(environment, new_plan())


def note(environment: dict[str, str], run_id: str, kind: str, text: str) -> None:
    with open_installation(environment=environment) as installation:
        add_event(installation.ledger, run_id, kind, text)


def approve(
    environment: dict[str, str], run_id: str, by: str = "alice", *, is_enough: bool = True
) -> None:
    with open_installation(environment=environment) as installation:
        now, fingerprint = installation.clock(), installation.ledger.run(run_id).fingerprint
        given = (run_id, fingerprint, Decision.GRANTED, f"airflow:{by}", "ok")
        yes = Approval(*given, now, RATE, now + timedelta(hours=1))
        installation.ledger.record_decision(yes, is_enough=lambda _: is_enough)


def state_of(environment: dict[str, str], run_id: str) -> tuple[RunState, str]:
    with open_installation(environment=environment) as installation:
        run = installation.ledger.run(run_id)
    return run.state, run.reason


def has_approve_button(page: str) -> bool:
    return 'value="approve"' in page


def test_a_plan_that_its_checks_refused_says_so_and_offers_no_yes(
    environment: dict[str, str], run_id: str
) -> None:
    fingerprint = new_plan().fingerprint
    note(environment, run_id, VALIDATED, fingerprint)
    note(environment, run_id, NOT_VALIDATED, fingerprint)
    docs = f"picture/runs/{run_id}-data-docs/index.html"
    with open_installation(environment=environment) as installation:
        installation.archive.write_report(docs, "x")
    with browser(environment, "alice") as alice:
        page = alice.get(f"/runs/{run_id}").text
        words = words_on(page)
        assert "Must not run" in words and "This plan must not run." in words
        assert "the log of the task validate says why" in words
        assert f"/reports/{docs}" in page
        assert "not checked yet" not in page and not has_approve_button(page)
        note(environment, run_id, MUST_NOT_RUN, f"topic-0: {hostile.HOSTILE}")
        page = alice.get(f"/runs/{run_id}").text
        assert "topic-0: " in page
        hostile.check_html(page.replace("<form", "<div"))
        yes = send(alice, run_id, answer="approve", rate="20MB/s", reason="x")
        assert yes.status_code == 409 and "must not run: topic-0" in yes.text
        assert approvals_of(environment, run_id) == ()
        note(environment, run_id, VALIDATED, fingerprint)
        page = alice.get(f"/runs/{run_id}").text
        assert "Waiting for you" in page and has_approve_button(page)


@pytest.mark.parametrize("user", ["alice", "oscar", "rita"])
def test_a_run_that_is_approved_and_has_not_started_is_rejected_on_the_page(
    environment: dict[str, str], run_id: str, user: str
) -> None:
    approve(environment, run_id)
    with browser(environment, user) as client:
        page = client.get(f"/runs/{run_id}").text
        assert "Approved, and not started yet. Until it starts, it may be rejected." in page
        assert 'value="reject"' in page and not has_approve_button(page)
        assert send(client, run_id, answer="reject", reason="not tonight").status_code == 303
    assert state_of(environment, run_id) == (RunState.REJECTED, "not tonight")


def test_a_run_that_waits_for_its_second_yes_says_for_whose(
    environment: dict[str, str],
) -> None:
    before = cluster("orders-0: 1 2 3", racks="1=a 2=b 3=c")
    lowered = move("orders-0", "1 2 3", "1 2")
    plan = plan_by_hand(before, Goal.REPLICATION_FACTOR, lowered, replication_factor=2)
    run_id = propose(environment, plan)
    approve(environment, run_id, is_enough=False)
    with browser(environment, "oscar") as oscar:
        page = oscar.get(f"/runs/{run_id}").text
    words = words_on(page)
    assert "1 more has to approve it." in words and "May answer bob (rita requested it" in words


def test_a_plan_that_nobody_may_approve_says_so(environment: dict[str, str], run_id: str) -> None:
    Path(environment["COUNTERPOISE_CONFIG"]).write_text(
        "clusters: {picture: {connection: x, policy: {access: {approve: [rita]}}}}\n"
    )
    with browser(environment, "rita") as rita:
        page = rita.get(f"/runs/{run_id}").text
    words = words_on(page)
    assert "Nobody can approve it:" in words
    assert "requested by the Airflow user rita: it takes a yes of 1 other Airflow user" in words
    assert not has_approve_button(page) and ">Withdraw the plan</button>" in page


def test_a_plan_that_the_store_has_lost_is_rejected_by_a_button(
    environment: dict[str, str], run_id: str
) -> None:
    with open_installation(environment=environment) as installation:
        path = installation.ledger.run(run_id).plan_uri
    runs._read_plan.cache_clear()
    (Path(environment["COUNTERPOISE_STORE"]) / path).unlink()
    with browser(environment, "mallory") as mallory:
        assert 'name="answer"' not in mallory.get(f"/runs/{run_id}").text
    with browser(environment, "alice") as alice:
        empty = send(alice, run_id, answer="reject", reason=" ")
        assert empty.status_code == 422 and "must not be empty" in empty.text
        assert send(alice, run_id, answer="reject", reason="its file is lost").status_code == 303
        assert 'name="answer"' not in alice.get(f"/runs/{run_id}").text
    assert state_of(environment, run_id) == (RunState.REJECTED, "its file is lost")


@pytest.fixture
def simulated(tmp_path: Path, environment: dict[str, str]) -> SimulatedRun:
    return run_with_its_plan(tmp_path, environment)


def halt_midway(made: SimulatedRun) -> None:
    driver = made.driver()
    made.until_moving(driver)
    assert made.end(driver) is RunState.HALTED


def say_no(made: SimulatedRun) -> None:
    made.ledger.record_decision(made.approval(Decision.REJECTED))


def shown(client: TestClient, made: SimulatedRun) -> str:
    return client.get(f"/runs/{made.run_id}").text


def test_a_rejected_run_that_had_halted_does_not_say_that_nothing_was_changed(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    halt_midway(simulated)
    undo = f'action="/runs/{simulated.run_id}/undo"'

    def open_at_that_time() -> Installation:
        found = open_installation(environment=environment)
        found.clock = simulated.clock
        return found

    # So that the yes of the simulated run, which its requester gave, holds.
    policy = POLICY.replace("]}}", "]}, approval: {requester_may_approve: yes}}")
    settings = f"clusters: {{picture: {{connection: x, policy: {policy}}}}}\n"
    Path(environment["COUNTERPOISE_CONFIG"]).write_text(settings)
    with browser(environment, "oscar", open_for_pages=open_at_that_time) as oscar:
        assert undo in shown(oscar, simulated)
        go_on = f"To go on with the rest: counterpoise execute {simulated.run_id}"
        assert go_on in words_on(shown(oscar, simulated))
        say_no(simulated)
        page = words_on(shown(oscar, simulated))
        assert "nothing was changed" not in page.lower()
        assert "alice rejected it after it had halted: test." in page and "It stays there." in page
        assert undo in shown(oscar, simulated)


def test_a_halted_run_whose_yes_has_run_out_does_not_say_that_it_holds(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    halt_midway(simulated)
    with browser(environment, "oscar") as oscar:  # long after, by the real clock
        page = words_on(shown(oscar, simulated))
    assert "The approval still holds" not in page
    assert "The approval does not hold any more" in page and "counterpoise approve" in page


def test_a_run_under_way_whose_plan_the_store_has_lost_is_paused_and_cancelled_on_its_page(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    simulated.until_moving(simulated.driver())
    runs._read_plan.cache_clear()
    (Path(environment["COUNTERPOISE_STORE"]) / "plans/x.json").unlink()
    path = f"/runs/{simulated.run_id}/requests"
    with browser(environment, "oscar") as oscar:
        page = shown(oscar, simulated)
        assert "Nothing can be done here" not in page
        sent = {"form_token": token_on(page), "reason": "its plan is lost"}
        assert oscar.post(f"{path}/pause", data=sent).status_code == 303
        assert f'formaction="{path}/resume"' in shown(oscar, simulated)
        asked = oscar.post(f"{path}/cancel", data=sent).text
        assert "Yes, cancel the run" in asked and "its plan is lost" in asked
        assert oscar.post(f"{path}/cancel", data=sent | {"sure": "yes"}).status_code == 303
    requested = simulated.ledger.requests("picture", simulated.run_id)
    assert [one.control for one in requested] == [Control.PAUSE, Control.CANCEL]
    with browser(environment, "mallory") as mallory:
        page = shown(mallory, simulated)
        assert 'name="reason"' not in page and "the policy names oscar" in words_on(page)


def test_a_halted_run_that_is_asked_about_has_two_forms_with_a_label_each(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    halt_midway(simulated)
    note(environment, simulated.run_id, ASKED, simulated.plan.fingerprint)
    with browser(environment, "rita") as rita:
        page = shown(rita, simulated)
    fields = re.findall(r'<textarea id="([^"]+)" name="reason"', page)
    assert len(fields) == 2 and fields == re.findall(r'<label for="([\w-]*reason)"', page)
    assert len(set(fields)) == 2


def test_a_run_that_moved_nothing_offers_no_undo(
    environment: dict[str, str], simulated: SimulatedRun
) -> None:
    driver = simulated.driver()
    driver.open()
    assert simulated.end(driver) is RunState.HALTED
    with browser(environment, "oscar") as oscar:
        assert "/undo" not in shown(oscar, simulated)
        say_no(simulated)
        assert "/undo" not in shown(oscar, simulated)


def test_a_rejected_plan_that_never_ran_changed_nothing(
    environment: dict[str, str], run_id: str
) -> None:
    with browser(environment, "alice") as alice:
        send(alice, run_id, answer="reject", reason="no")
        page = words_on(alice.get(f"/runs/{run_id}").text)
        assert "alice rejected it: no. Nothing was changed." in page
