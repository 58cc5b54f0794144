"""The page of a run and what people request on it: the same rows as those of the command line."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from counterpoise.cli.common import who
from counterpoise.cli.main import main
from counterpoise.installation import Installation, open_installation
from counterpoise.ledger import database
from counterpoise.model.control import Control
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from counterpoise.model.safe_text import MAX_CHARACTERS
from counterpoise.planning import make_plan
from tests.support import hostile
from tests.support.ledger_view import LedgerView
from tests.support.pictures import cluster
from tests.support.runs import FOUR_BROKERS, SimulatedRun
from tests.support.web import browser, environment_in, token_on, words_on

NAMED = "{access: {view: [oscar, victor, alice], operate: [oscar], approve: [alice]}}"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_in(tmp_path, f"clusters: {{picture: {{connection: x, policy: {NAMED}}}}}\n")


@pytest.fixture
def simulated(tmp_path: Path, environment: dict[str, str]) -> SimulatedRun:
    made = SimulatedRun.make(tmp_path)
    keep_plan(environment, made)
    return made


@pytest.fixture
def moving(simulated: SimulatedRun) -> SimulatedRun:
    """Return a run whose replicas are being copied."""
    driver = simulated.driver()
    simulated.until_moving(driver)
    for _ in range(3):
        simulated.cluster.advance(driver.step() or 0)
    return simulated


@pytest.fixture
def oscar(environment: dict[str, str]) -> Iterator[TestClient]:
    with browser(environment, "oscar") as client:
        yield client


def keep_plan(environment: dict[str, str], made: SimulatedRun) -> None:
    with open_installation(environment=environment) as installation:
        installation.archive.store.write_text("plans/x.json", made.plan.to_json())


def post(client: TestClient, made: SimulatedRun, control: str, **typed: str) -> Any:
    form = client.get(f"/runs/{made.run_id}")
    assert form.status_code == 200, form.text[-600:]
    fields = {"form_token": token_on(form.text), "sure": "yes", **typed}
    return client.post(f"/runs/{made.run_id}/requests/{control}", data=fields)


def requests_of(made: SimulatedRun) -> list[Any]:
    return list(made.ledger.requests(made.plan.cluster, made.run_id))


def rows(made: SimulatedRun) -> tuple[int, int, int]:
    """Return how many rows of each kind a page could have written."""
    events = LedgerView.of(made.ledger).events(made.run_id)
    return len(requests_of(made)), len(made.ledger.approvals_of(made.run_id)), len(events)


def test_a_run_under_way_shows_what_it_does_and_asks_what_has_changed(
    oscar: TestClient, moving: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed_at = moving.run_progress().observed_at.timestamp()
    monkeypatch.setattr(database, "database_time", lambda _: observed_at)
    page = oscar.get(f"/runs/{moving.run_id}")
    assert page.status_code == 200
    words = words_on(page.text)
    for expected in (
        "Add broker 4 Moving",
        "; the rest takes about",
        "in flight",
        "at most 1.0 MB/s per broker",
        "Bytes copied",
        "Pause Cancel the run",
        "May decide You",
    ):
        assert expected in words, (expected, words)
    assert page.text.count('class="main"') == 1 and "Resume" not in words
    keys = oscar.get(f"/runs/{moving.run_id}", params={"tab": "settings"}).text
    assert "follower.replication.throttled.rate" in keys and "in force" in keys
    decided = words_on(oscar.get(f"/runs/{moving.run_id}", params={"tab": "timeline"}).text)
    assert "granted alice 1.0 MB/s" in decided and "The run started" in decided
    hostile.check_html(page.text.replace("<form", "<div"))


def test_without_scripts_a_page_loads_itself_again_where_nobody_can_be_typing(
    oscar: TestClient, moving: SimulatedRun, environment: dict[str, str]
) -> None:
    reload = f'<noscript><meta http-equiv="refresh" content="30; url=/runs/{moving.run_id}">'
    by_hand = f'<noscript><p class="note"><a href="/runs/{moving.run_id}">Load the page again</a>'
    with browser(environment, "victor", role="viewer", may_change=False) as victor:
        watched = victor.get(f"/runs/{moving.run_id}").text
    assert reload in watched and by_hand not in watched
    steered = oscar.get(f"/runs/{moving.run_id}").text
    assert reload not in steered and by_hand in steered


def test_brokers_are_sorted_by_a_click(oscar: TestClient, moving: SimulatedRun) -> None:
    path = f"/runs/{moving.run_id}"

    def shown(**query: str) -> list[str]:
        page = oscar.get(path, params={"tab": "brokers", **query}).text
        assert f'<a href="{path}?tab=brokers&amp;sort=bytes#tabs">' in page
        return re.findall(r'<tr><th scope="row">(\d+)</th>', page)

    assert shown() == shown(sort="no column") == ["1", "2", "3", "4"]
    assert 'aria-sort="ascending"' in oscar.get(path, params={"tab": "brokers"}).text
    assert shown(sort="bytes")[-1] == "4" == shown(sort="replicas")[-1], "it was empty"
    assert {*shown(sort="left")[:2]} == {"1", "4"}, "the one sends what the other receives"
    page = oscar.get(path, params={"tab": "brokers", "sort": "speed"}).text
    assert f'aria-sort="descending"><a href="{path}?tab=brokers&amp;sort=speed#tabs">' in page


def test_the_figures_of_each_broker_change_in_place(
    oscar: TestClient, moving: SimulatedRun
) -> None:
    path = f"/runs/{moving.run_id}"
    page = oscar.get(path, params={"tab": "brokers"}).text
    shown = oscar.get(f"/api{path}/progress").json()["shown"]
    for field in ("moves", "left", "speed", "leaders", "replicas", "bytes"):
        text = shown[f"{field}-3"].replace(" ", "\u00a0")
        assert f'<span data-shown="{field}-3">{text}</span>' in page, field


def test_the_progress_of_a_run_is_small_and_has_what_the_page_shows(
    oscar: TestClient, moving: SimulatedRun
) -> None:
    answer = oscar.get(f"/api/runs/{moving.run_id}/progress")
    assert answer.status_code == 200 and len(answer.content) < 20_000
    told, page = answer.json(), oscar.get(f"/runs/{moving.run_id}").text
    assert f'data-version="{told["version"]}"' in page
    assert told["shown"]["sentence"] in words_on(page)
    places = set(re.findall(r'data-shown="([\w-]+)"', page))
    assert places <= set(told["shown"]), "no place of the page is left as it was"
    assert told["now"]["bytes"] == [load.bytes for load in moving.run_progress().brokers]
    assert "bytes_in" not in told["now"], "nobody measures it while a run moves"
    assert told["trail"][-1][1] == told["copied_bytes"] <= told["total_bytes"]
    driver = moving.driver()
    moving.ask(Control.PAUSE, why="month end")
    moving.cluster.advance(driver.step() or 0)
    assert oscar.get(f"/api/runs/{moving.run_id}/progress").json()["version"] != told["version"]


def test_moves_are_found_by_programs_a_page_at_a_time(
    oscar: TestClient, moving: SimulatedRun
) -> None:
    path = f"/api/runs/{moving.run_id}/moves"
    told = oscar.get(path, params={"sort": "topic"}).json()
    assert told["count"] == len(moving.plan.moves) and told["pages"] == 1
    assert told["fingerprint"] == moving.plan.fingerprint
    first = moving.plan.moves[0]
    assert told["moves"][0]["partition"] == str(first.topic_partition)
    assert told["moves"][0]["replicas_after"] == list(first.replicas_after)
    assert oscar.get(path, params={"text": "no such topic"}).json()["count"] == 0


def test_a_run_that_nobody_drives_says_so_and_how_it_goes_on(
    oscar: TestClient, moving: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was killed: for the first minute a slow call may be the reason."""
    observed_at = moving.run_progress().observed_at
    for seconds, is_driven in ((59, True), (60, False)):
        told = observed_at.timestamp() + seconds
        monkeypatch.setattr(database, "database_time", lambda _, told=told: told)
        page = oscar.get(f"/runs/{moving.run_id}").text
        words = words_on(page)
        assert ("; the rest takes about" in words) == is_driven
        assert ("Nobody drives it" in words) == (not is_driven)
        since = "Nobody drives this run since 2026-01-31 12:00 UTC: `counterpoise execute "
        assert (since in words) == (not is_driven)
        assert "copies 6 partitions" in words.lower()


def test_an_ended_run_is_not_loaded_again_and_links_to_its_report(
    oscar: TestClient, simulated: SimulatedRun, environment: dict[str, str]
) -> None:
    assert simulated.go() is RunState.DONE
    with open_installation(environment=environment) as installation:
        name = f"picture/runs/{simulated.run_id}-run.html"
        installation.archive.write_report(name, "report")
    page = oscar.get(f"/runs/{simulated.run_id}", params={"tab": "settings"})
    assert page.status_code == 200
    assert "refresh" not in page.text and "data-progress" not in page.text
    assert f'href="/reports/{name}"' in page.text
    assert "Pause" not in page.text and "as before" in page.text


def test_what_a_run_waits_for_and_until_when(oscar: TestClient, moving: SimulatedRun) -> None:
    driver = moving.driver()
    moving.cluster.kill_broker(4)
    for _ in range(4):
        moving.cluster.advance(driver.step() or 0)
    page = words_on(oscar.get(f"/runs/{moving.run_id}", params={"tab": "checks"}).text)
    assert "UTC: broker 4 is dead; halts 2026-01-31" in page and "if that lasts" in page
    assert "when it was observed last: waits for" in page and ": broker 4 is dead; halts " in page


def test_a_pause_is_told_once_and_in_words(oscar: TestClient, moving: SimulatedRun) -> None:
    moving.ask(Control.PAUSE, why="month end")
    page = words_on(oscar.get(f"/runs/{moving.run_id}").text)
    assert "bob asked for a pause: month end" in page
    driver = moving.driver()
    for _ in range(4):
        moving.cluster.advance(driver.step() or 0)
    page = words_on(oscar.get(f"/runs/{moving.run_id}", params={"tab": "checks"}).text)
    assert "bob paused it: month end" in page and "asked for a pause" not in page
    assert ": the end of the pause" in page
    assert "1 warning" in page and "2 warnings" not in page, "a person has asked for the pause"


def test_a_freeze_halts_no_run_and_its_end_is_told(oscar: TestClient, moving: SimulatedRun) -> None:
    until = datetime(2036, 1, 31, 22, tzinfo=UTC)
    moving.ask(Control.FREEZE, until=until)
    driver = moving.driver()
    for _ in range(4):
        moving.cluster.advance(driver.step() or 0)
    page = words_on(oscar.get(f"/runs/{moving.run_id}", params={"tab": "checks"}).text)
    assert ": the end of the freeze; goes on 2036-01-31 22:00 UTC" in page
    assert "; halts" not in page and "The cluster is frozen until" in page
    (wait,) = oscar.get(f"/api/runs/{moving.run_id}").json()["waits"]
    assert (wait["halts_at"], wait["goes_on_at"]) == (None, until.isoformat())
    moving.ask(Control.UNFREEZE)
    page = words_on(oscar.get(f"/runs/{moving.run_id}", params={"tab": "checks"}).text)
    assert ": the end of the freeze; goes on" not in page


def test_a_run_is_shown_to_whom_its_cluster_is(
    environment: dict[str, str], moving: SimulatedRun
) -> None:
    with browser(environment, "mallory") as client:
        for path in ("/runs/RUN", "/api/runs/RUN", "/api/runs/RUN/progress", "/api/runs/RUN/moves"):
            assert client.get(path.replace("RUN", moving.run_id)).status_code == 403
        answer = client.post(
            f"/runs/{moving.run_id}/requests/pause", data={"form_token": "x", "reason": "y"}
        )
    assert answer.status_code == 403 and not requests_of(moving)


@pytest.mark.parametrize("control", ["pause", "cancel", "undo"])
def test_page_and_command_line_write_the_same_row(
    oscar: TestClient,
    moving: SimulatedRun,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    control: str,
    tmp_path: Path,
) -> None:
    answer = post(oscar, moving, control, reason="  month end ")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{moving.run_id}")
    if control == "undo":
        (of_page,) = requests_of(moving)
        assert (of_page.control, of_page.why, of_page.by) == (
            Control.UNDO,
            "month end",
            "airflow:oscar",
        )
        return
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Path(environment["COUNTERPOISE_CONFIG"]).write_text("clusters: {picture: {connection: x}}\n")
    arguments = [control, moving.run_id, "--why", "month end"]
    assert main(arguments) == 0
    of_page, of_command = requests_of(moving)
    for field in ("cluster", "run_id", "control", "why", "rate_bytes_per_second", "until"):
        assert getattr(of_page, field) == getattr(of_command, field), field
    assert of_page.person == Person.airflow("oscar")
    assert of_command.person == who()


@pytest.mark.parametrize(
    ("control", "typed", "status", "words"),
    [
        ("pause", {"reason": "   "}, 422, "must not be empty"),
        ("pause", {}, 422, "must not be empty"),
        ("pause", {"reason": "x" * 3000}, 422, "more than 2,000"),
        ("rate", {"rate": "20", "reason": "why"}, 422, "no unit"),
        ("rate", {"rate": "", "reason": "why"}, 422, "is not a rate"),
        ("rate", {"rate": "500MB/s", "reason": "why"}, 403, "may not approve"),
        ("resume", {"reason": "why"}, 409, "is not paused"),
    ],
)
def test_what_cannot_be_used_comes_back_on_the_form_and_nothing_is_written(
    oscar: TestClient,
    moving: SimulatedRun,
    control: str,
    typed: dict[str, str],
    status: int,
    words: str,
) -> None:
    before = rows(moving)
    answer = post(oscar, moving, control, **typed)
    assert answer.status_code == status
    assert words in words_on(answer.text) and "Nothing was changed." in answer.text
    for text in typed.values():
        assert text.strip() in answer.text
    assert rows(moving) == before


def test_a_reason_of_several_lines_is_kept_on_one(oscar: TestClient, moving: SimulatedRun) -> None:
    """As long as the field takes: a browser counts an end of a line once, and sends two."""
    lines = ["month end, as agreed", *["x" * 98] * 20]
    typed = "\n".join(lines)[:MAX_CHARACTERS].replace("\n", "\r\n")
    assert post(oscar, moving, "pause", reason=typed).status_code == 303
    (request,) = requests_of(moving)
    assert request.why.startswith("month end, as agreed xxx")
    shown = oscar.get(f"/runs/{moving.run_id}?tab=timeline").text
    assert "month end, as agreed xxx" in shown and "\ufffd" not in shown


def test_a_reason_of_blanks_is_told_at_its_field(oscar: TestClient, moving: SimulatedRun) -> None:
    page = post(oscar, moving, "pause", reason="   ").text
    assert 'id="reason-problem"' in page and "Reason: must not be empty" in words_on(page)


def test_a_run_that_ended_meanwhile_is_told_on_the_form(
    oscar: TestClient, moving: SimulatedRun
) -> None:
    path = f"/runs/{moving.run_id}/requests/pause"
    token = token_on(oscar.get(f"/runs/{moving.run_id}").text)
    moving.repeat(moving.driver().step)
    moving.end(moving.driver())
    before = rows(moving)
    answer = oscar.post(path, data={"form_token": token, "reason": "kept words"})
    assert answer.status_code == 409
    assert "it has ended" in answer.text and "kept words" in answer.text
    assert rows(moving) == before


def test_a_token_of_another_account_or_none_requests_nothing(
    environment: dict[str, str], moving: SimulatedRun
) -> None:
    Path(environment["COUNTERPOISE_CONFIG"]).write_text("clusters: {picture: {connection: x}}\n")
    path = f"/runs/{moving.run_id}/requests/pause"
    with browser(environment, "oscar") as oscar, browser(environment, "alice") as alice:
        of_oscar = token_on(oscar.get(f"/runs/{moving.run_id}").text)
        for token in (of_oscar, of_oscar[:-2], "", "x.y.z"):
            answer = alice.post(path, data={"form_token": token, "reason": "x"})
            assert answer.status_code == 403 and "too old" in answer.text
        assert oscar.post(path, json={"form_token": of_oscar, "reason": "x"}).status_code == 403
        assert oscar.post(f"{path}?form_token={of_oscar}&reason=x").status_code == 403
    assert not requests_of(moving)


def test_nothing_but_a_form_that_is_sent_writes(oscar: TestClient, moving: SimulatedRun) -> None:
    before = rows(moving)
    for control in Control:
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"):
            path = f"/runs/{moving.run_id}/requests/{control}?reason=x&rate=1MB/s&until=8h"
            oscar.request(method, path)
    oscar.get(f"/runs/{moving.run_id}")
    assert rows(moving) == before


def test_a_page_asks_once_more_before_it_cancels(oscar: TestClient, moving: SimulatedRun) -> None:
    asked = post(oscar, moving, "cancel", reason="kept words", sure="")
    assert asked.status_code == 200 and not requests_of(moving)
    assert "Cancel the run?" in asked.text and "kept words" in asked.text
    assert asked.text.count('class="main"') == 0 and 'name="sure" value="yes"' in asked.text
    assert post(oscar, moving, "cancel", reason="kept words").status_code == 303
    assert [request.control for request in requests_of(moving)] == ["cancel"]


def test_a_healthy_run_warns_of_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    """Its cluster has a compacted topic of coordinators, as all do."""
    lines = [
        *(f"orders-{number}: 1 2 3 size=3000000 rate=9000" for number in range(24)),
        *(f"__consumer_offsets-{number}: 2 1 3 size=10000 rate=90" for number in range(9)),
    ]
    disks = "1=30000000/900000000 2=30000000/900000000 3=30000000/900000000 4=0/900000000"
    before = cluster("\n".join(lines), racks=FOUR_BROKERS, disks=disks)
    plan = make_plan(before, PlanRequest(Goal.ADD_BROKERS, (4,)))
    made = SimulatedRun.make(tmp_path, "\n".join(lines), plan=plan, approve=False)
    keep_plan(environment, made)
    path = f"/runs/{made.run_id}?tab=checks"

    def open_at_that_time() -> Installation:
        found = open_installation(environment=environment, may_migrate_ledger=False)
        found.clock = made.clock
        return found

    with browser(environment, "alice", open_for_pages=open_at_that_time) as alice:
        waiting = words_on(alice.get(path).text)
        made.ledger.record_decision(made.approval())
        driver = made.driver()
        made.until_moving(driver)
        moving = words_on(alice.get(path).text)
        made.repeat(driver.step)
        made.end(driver)
        done = words_on(alice.get(path).text)
    assert all("find a new coordinator" in page for page in (waiting, moving, done))
    for page in (waiting, moving, done):
        assert not re.search(r"\d+ warning|Warning ", page), page[-1500:]
