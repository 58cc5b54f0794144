"""The whole life of three runs in a real browser, on a real Airflow below a prefix, and on real
brokers: a plan made on a page, refused to those who may not approve it, approved, followed live to
its end, paused, slowed down, resumed, cancelled, undone.

COUNTERPOISE_PICTURES names a folder for the pictures.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from counterpoise.archive import report_title
from counterpoise.model.run import Run, RunState
from counterpoise.services import runs, snapshots, viewers
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_kafka.load import MB
from tests.support.browser import Visitor, chromium
from tests.support.shared_airflow import ANALYSIS, WAIT_SECONDS, Place, running_place

pytestmark = pytest.mark.timeout(1800)
USERS: Final = {"admin": "admin", "alice": "user", "bob": "user", "oscar": "op", "victor": "viewer"}
PREFIX: Final = "/airflow"
SCRIPT: Final = "<img src=x onerror=alert(1)><script>alert(1)</script>"
REPLICAS: Final = [(1, 2), (2, 3), (3, 1)] * 3
SLOW: Final = "300kB/s"  # there is time to steer a run, also on a busy machine
SIZES_MB: Final = (1, 1, 1, 30, 30, 30, 30, 30, 30)  # some have moved while others are copied


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Place]:
    """Return four brokers, of which 4 is empty, and a snapshot of them; no machine without a
    browser gets that far.
    """
    folder = tmp_path_factory.mktemp("browser")
    with LocalKafka(folder / "kafka", brokers_in_racks(*"abcd")) as kafka:
        create_topics(kafka.bootstrap_string, [TopicSpec("payments", REPLICAS)])
        sizes = {partition: size * MB for partition, size in enumerate(SIZES_MB)}
        fill(kafka.bootstrap_string, "payments", sizes)
        with running_place(folder, USERS, kafka, prefix=PREFIX, paused=[ANALYSIS]) as place:
            snapshots.make(place.installation, "demo", place.installation.clock())
            yield place


@pytest.fixture
def people(place: Place, browser: Browser) -> Iterator[Mapping[str, Visitor]]:
    """Return everybody, logged in; `looker` is oscar in a browser that would run scripts."""
    visitors = log_everybody_in(place, browser)
    yield visitors
    for visitor in visitors.values():
        visitor.page.context.close()


def log_everybody_in(place: Place, browser: Browser) -> dict[str, Visitor]:
    names = [user for user in USERS if user != "admin"]
    visitors = {user: Visitor.log_in(browser, place.airflow, user) for user in names}
    return visitors | {"looker": Visitor.log_in(browser, place.airflow, "oscar", is_lenient=True)}


def test_a_run_is_planned_approved_followed_steered_and_undone(
    place: Place, people: Mapping[str, Visitor]
) -> None:
    run = make_a_plan(place, people["bob"], "add-brokers", "4")
    check_who_may_answer(run, people)
    approve_by_clicks(place, run, people["alice"])
    steer(place, run, people)
    follow_to_the_end(place, run, people["oscar"])
    assert any(4 in replicas for replicas in place.replicas().values())
    check_report(run, people["alice"])
    moved = place.replicas()

    removal = make_a_plan(place, people["bob"], "remove-brokers", "4")
    approve_by_keyboard(place, removal, people["alice"])
    cancel(place, removal, people["oscar"])
    assert place.replicas() != moved

    undo = make_an_undo_plan(place, removal, people["bob"])
    approve_by_clicks(place, undo, people["alice"], rate="20MB/s")
    follow_to_the_end(place, undo, people["victor"])
    assert place.replicas() == moved
    for visitor in people.values():
        visitor.check_no_problem()


def make_a_plan(place: Place, bob: Visitor, goal: str, broker_ids: str) -> Run:
    """Make a plan on the page of the cluster, shown first; return its run once it is asked about.

    The reason is what an attacker would write.
    """
    bob.start_anew()
    bob.follow("demo")
    bob.follow("Make a plan")
    bob.page.locator(f"input[name=goal][value={goal}]").check()
    bob.type("Brokers", broker_ids)
    bob.press("Show the plan")
    bob.shows("Made of the snapshot")
    bob.type("Reason", SCRIPT)
    bob.press("Ask for approval")
    return plan_on_screen(place, bob)


def plan_on_screen(place: Place, visitor: Visitor) -> Run:
    """Wait until the page of what was started has become that of the plan; return its run."""
    visitor.shows("Airflow runs kafka_rebalance for demo")
    visitor.page.wait_for_url("**/runs/*", timeout=WAIT_SECONDS * 1000)
    visitor.shows("Waiting for")
    run_id = visitor.page.url.split("/")[-1]
    run = place.installation.ledger.run(run_id)
    assert run.dag_run_id is not None
    place.question(run.dag_run_id)
    place.let_it_park(run.dag_run_id)
    return run


def check_who_may_answer(run: Run, people: Mapping[str, Visitor]) -> None:
    """Neither the requester, nor whoever operates, nor a viewer: not by a button, nor without."""
    plan = f"/runs/{run.run_id}"
    alice = people["alice"]
    alice.open(plan)
    token = alice.page.locator("input[name=form_token]").get_attribute("value") or ""
    for user, words in (
        ("bob", "You requested this plan, so somebody else has to answer"),
        ("oscar", "You cannot approve it"),
        ("victor", "Airflow lets you read runs, and not answer questions about them"),
    ):
        visitor = people[user]
        visitor.open(plan)
        visitor.shows(words)
        assert visitor.button("Approve").count() == 0
        own = visitor.page.locator("input[name=form_token]")
        for form_token in (token, own.get_attribute("value") if own.count() else ""):
            assert answer_by_hand(visitor, run, form_token or "") == 403, user
    assert people["bob"].button("Withdraw the plan").count() == 1
    assert people["victor"].page.locator("form[method=post]").count() == 0


def answer_by_hand(visitor: Visitor, run: Run, form_token: str) -> int:
    """Send a yes that no button of theirs sends; return the status."""
    yes = {"answer": "approve", "rate": SLOW, "reason": "x", "plan": run.fingerprint}
    sent = visitor.page.request.post(
        f"{visitor.pages}/runs/{run.run_id}/answer", form=yes | {"form_token": form_token}
    )
    return sent.status


def approve_by_clicks(place: Place, run: Run, alice: Visitor, rate: str = SLOW) -> None:
    """From Airflow's home: the plan, and the yes."""
    alice.enter_from_airflow("demo: a plan waits for you")
    alice.page.wait_for_url(f"**/runs/{run.run_id}")
    alice.type("Rate", rate)
    alice.type("Reason", "as agreed")
    alice.press("Approve")
    assert alice.clicks == 2
    alice.shows("Approved")
    place.until_state(run, RunState.RUNNING)


def approve_by_keyboard(place: Place, run: Run, alice: Visitor) -> None:
    alice.start_anew()
    keyboard = alice.page.keyboard
    alice.tab_to(alice.page.get_by_role("link", name="Review").first)
    keyboard.press("Enter")
    alice.shows("Waiting for you")
    for label, text in (("Rate", SLOW), ("Reason", "as agreed")):
        alice.tab_to(alice.page.get_by_label(label, exact=True))
        keyboard.press("Control+A")
        keyboard.type(text)
    alice.tab_to(alice.button("Approve"))
    keyboard.press("Enter")
    alice.shows("Approved")
    place.until_state(run, RunState.RUNNING)


def steer(place: Place, run: Run, people: Mapping[str, Visitor]) -> None:
    """Pause, another rate, resume; whoever may not has no button, and gets 403."""
    page = f"/runs/{run.run_id}"
    oscar, alice, victor = people["oscar"], people["alice"], people["victor"]
    oscar.open(page)
    oscar.shows("in flight")
    look_at(people["looker"], run, "live")
    oscar.enter_from_airflow("demo: running")
    oscar.type("Reason", SCRIPT)
    oscar.press("Pause")
    assert oscar.clicks == 2
    expect(oscar.button("Resume")).to_be_visible()
    oscar.shows("paused by oscar")
    look_at(people["looker"], run, "paused")

    alice.open(page)
    alice.type("Rate", "20")
    alice.type("Reason", "night")
    alice.press("Change")
    alice.shows("no unit")
    assert "422" in alice.problems.pop()  # as Chromium tells of it
    alice.type("Rate", "20MB/s")
    alice.press("Change")
    expect(alice.page.get_by_label("Rate", exact=True)).to_have_value("20.0 MB/s")

    victor.open(page)
    assert victor.page.locator("form[method=post]").count() == 0
    for control in ("pause", "rate", "cancel", "undo"):
        assert request_by_hand(victor, run, control) == 403
    oscar.type("Reason", "over")
    oscar.press("Resume")
    expect(oscar.button("Pause")).to_be_visible()
    requests = place.installation.ledger.requests(run.cluster, run.run_id)
    assert [(str(one.control), one.person.shown) for one in requests] == [
        ("pause", "oscar"),
        ("rate", "alice"),
        ("resume", "oscar"),
    ]


def request_by_hand(visitor: Visitor, run: Run, control: str) -> int:
    """Send a request that no button of theirs sends; return the status."""
    sent = visitor.page.request.post(
        f"{visitor.pages}/runs/{run.run_id}/requests/{control}",
        form={"rate": SLOW, "reason": "x", "sure": "yes", "form_token": ""},
    )
    return sent.status


def look_at(visitor: Visitor, run: Run, name: str) -> None:
    """Check the page of a run under way as anybody sees it, wide and narrow, light and dark."""
    visitor.open(f"/runs/{run.run_id}")
    visitor.take_picture(f"run-{name}")
    visitor.check_page(f"run-{name}")


def follow_to_the_end(place: Place, run: Run, visitor: Visitor) -> None:
    """Read one page that changes by itself, and nothing else, until the run has ended."""
    visitor.open(f"/runs/{run.run_id}")
    wait_for_band(visitor, "Done")
    assert place.end_of(str(run.dag_run_id)) == "success"
    assert place.state_of(run) is RunState.DONE


def wait_for_band(visitor: Visitor, word: str) -> None:
    """Wait until the panel of the run says its state in this word."""
    band = visitor.page.locator(".panel .band strong")
    expect(band).to_have_text(word, timeout=WAIT_SECONDS * 1000)


def check_report(run: Run, alice: Visitor) -> None:
    """Two clicks lead to the stored copy, and one from there to the page of the run."""
    copy = f"demo/runs/{run.run_id}-run.html"
    alice.enter_from_airflow("Balance reports")
    alice.follow(report_title(copy))
    alice.page.wait_for_url(f"**/reports/{copy}")
    assert alice.clicks == 2
    alice.follow("The page of this run")
    alice.page.wait_for_url(f"**/runs/{run.run_id}")


def cancel(place: Place, run: Run, oscar: Visitor) -> None:
    """Cancel a run that has moved something, and copies more."""
    until(lambda: moves_done(place, run) > 0, "a partition to have moved")
    oscar.enter_from_airflow("demo: running")
    oscar.type("Reason", SCRIPT)
    oscar.press("Cancel the run")  # it is asked once more
    oscar.press("Yes, cancel the run")
    assert oscar.clicks == 3
    wait_for_band(oscar, "Cancelled")
    assert place.end_of(str(run.dag_run_id)) == "success"


def moves_done(place: Place, run: Run) -> int:
    oscar = viewers.Viewer("oscar", ("op",), True)
    found = runs.run_details(place.installation, run.run_id, oscar).run_progress
    return found.progress.moves_done if found else 0


def make_an_undo_plan(place: Place, run: Run, bob: Visitor) -> Run:
    bob.open(f"/runs/{run.run_id}")
    bob.type("Reason", "not today")
    bob.press("Undo")
    undo = plan_on_screen(place, bob)
    bob.shows(f"Undo of run {run.run_id[-6:]}")
    return undo


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.5)
