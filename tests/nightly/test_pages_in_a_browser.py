"""Whole lives of runs in a real browser, on a real Airflow below a prefix, and on real brokers:
from a plan made on a page to its undo, by mouse, by keyboard alone, and as somebody who only
watches; and the other ends of a run: rejected, cancelled, halted.

Names that an attacker chose are everywhere: of a rack, a topic, in each reason. Every state is
looked at with axe, wide and on a phone, in light and dark, by whoever it is for.

COUNTERPOISE_PICTURES names a folder for the pictures of each state.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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

pytestmark = pytest.mark.timeout(3600)
USERS: Final = {"admin": "admin", "alice": "user", "bob": "user", "oscar": "op", "victor": "viewer"}
PREFIX: Final = "/airflow"
SCRIPT: Final = "<img src=x onerror=alert(1)><script>alert(1)</script>"
RIGHT_TO_LEFT: Final = "\u202eexe."
REASON: Final = f"{SCRIPT} {RIGHT_TO_LEFT}"
LONG_TOPIC: Final = ("longer-than-a-line." * 14)[:249]
REPLICAS: Final = [(1, 2), (2, 3), (3, 1)] * 3
SLOW: Final = "300kB/s"  # there is time to steer a run, also on a busy machine
FAST: Final = "20MB/s"
SIZES_MB: Final = (1, 1, 1, 30, 30, 30, 30, 30, 30)  # some have moved while others are copied
IMPATIENT: Final = "dead_broker_patience: 10s"  # and the run halts


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
    with LocalKafka(folder / "kafka", brokers_in_racks("a", "b", "c", SCRIPT)) as kafka:
        topics = [TopicSpec("payments", REPLICAS), TopicSpec(LONG_TOPIC, REPLICAS[:3])]
        create_topics(kafka.bootstrap_string, topics)
        sizes = {partition: size * MB for partition, size in enumerate(SIZES_MB)}
        fill(kafka.bootstrap_string, "payments", sizes)
        fill(kafka.bootstrap_string, LONG_TOPIC, dict.fromkeys(range(3), MB))
        with running_place(folder, USERS, kafka, prefix=PREFIX, paused=[ANALYSIS]) as place:
            snapshots.make(place.installation, "demo", place.installation.clock())
            yield place


@dataclass
class People:
    """Everybody, logged in; and each again in a browser that would run scripts, to look around."""

    visitors: dict[str, Visitor]
    lookers: dict[str, Visitor] = field(default_factory=dict)

    @classmethod
    def log_in(cls, place: Place, browser: Browser) -> "People":
        names = [user for user in USERS if user != "admin"]
        visitors = {user: Visitor.log_in(browser, place.airflow, user) for user in names}
        lookers = {user: who.in_a_lenient_browser(browser) for user, who in visitors.items()}
        return cls(visitors, lookers)

    def __getitem__(self, user: str) -> Visitor:
        return self.visitors[user]

    def look(self, user: str, run: Run, state: str, tab: str = "") -> None:
        """Check the page of a run as somebody sees it, and take its pictures."""
        looker, name = self.lookers[user], f"run-{state}"
        looker.open(f"/runs/{run.run_id}{f'?tab={tab}' if tab else ''}")
        looker.take_pictures(name)
        looker.check_page(name)
        filled = looker.page.locator("button.main, a.btn.main").count()
        assert filled <= 1, f"{filled} filled buttons on {name}"

    def check_no_problem(self) -> None:
        for visitor in (*self.visitors.values(), *self.lookers.values()):
            visitor.check_no_problem()


@pytest.fixture
def people(place: Place, browser: Browser) -> Iterator[People]:
    found = People.log_in(place, browser)
    yield found
    for visitor in (*found.visitors.values(), *found.lookers.values()):
        visitor.page.context.close()


def test_a_run_by_mouse_is_steered_and_undone(place: Place, people: People) -> None:
    before = place.replicas()
    bob, alice, oscar = people["bob"], people["alice"], people["oscar"]
    run = make_a_plan(place, bob, "add-brokers", "4")
    people.look("bob", run, "waiting-requester")
    people.look("alice", run, "waiting-approver")
    people.look("victor", run, "waiting-viewer")
    people.look("alice", run, "waiting-checks", "checks")
    check_who_may_answer(run, people)

    approve_by_clicks(run, alice)
    people.look("alice", run, "approved")
    place.until_state(run, RunState.RUNNING)
    oscar.open(f"/runs/{run.run_id}")
    oscar.shows("in flight")
    people.look("oscar", run, "moving")
    people.look("alice", run, "moving-moves", "moves")
    steer(place, run, people)

    follow_to_the_end(place, run, oscar)
    assert any(4 in replicas for replicas in place.replicas().values())
    people.look("bob", run, "done")
    people.look("victor", run, "done-settings", "settings")
    check_report(run, alice)

    undo = undo_by_clicks(place, run, bob)
    people.look("alice", undo, "undo-waiting")
    approve_by_clicks(undo, alice, rate=FAST)
    follow_to_the_end(place, undo, people["victor"])
    people.look("bob", undo, "undo-done")
    people.look("bob", run, "undone")
    assert place.replicas() == before
    release(oscar)
    people.check_no_problem()


def test_a_run_by_keyboard_alone(place: Place, people: People) -> None:
    before = place.replicas()
    bob, alice, oscar = people["bob"], people["alice"], people["oscar"]
    run = make_a_plan_by_keyboard(place, bob, "add-brokers", "4")
    approve_by_keyboard(alice, SLOW)
    place.until_state(run, RunState.RUNNING)

    enter_run_by_keyboard(oscar, run)
    oscar.shows("in flight")
    oscar.type_by_keyboard("Reason", "until tonight")
    oscar.enter(oscar.button("Pause"))
    expect(oscar.button("Resume")).to_be_visible()
    oscar.type_by_keyboard("Reason", "faster")
    oscar.type_by_keyboard("Rate", SLOW)
    oscar.page.keyboard.press("Enter")  # in a field: it changes the rate, and does nothing else
    oscar.shows("Approved:")
    expect(oscar.button("Resume")).to_be_visible()
    oscar.type_by_keyboard("Reason", "looks good")
    oscar.enter(oscar.button("Resume"))
    expect(oscar.button("Pause")).to_be_visible()
    wait_for_band(alice, "Moving")  # on the page that her yes has led to
    alice.type_by_keyboard("Reason", "night")
    alice.type_by_keyboard("Rate", FAST)
    alice.enter(alice.button("Change"))
    wait_for_band(oscar, "Done")
    assert place.end_of(str(run.dag_run_id)) == "success"

    enter_run_by_keyboard(bob, run)
    bob.type_by_keyboard("Reason", "not today")
    bob.enter(bob.button("Undo"))
    undo = plan_on_screen(place, bob)
    approve_by_keyboard(alice, FAST)
    wait_for_band(bob, "Done")
    assert place.end_of(str(undo.dag_run_id)) == "success"
    assert place.replicas() == before
    release(oscar)
    requests = place.installation.ledger.requests(run.cluster, run.run_id)
    of_run = [str(one.control) for one in requests if one.run_id == run.run_id]
    assert of_run == ["pause", "rate", "resume", "rate"]
    people.check_no_problem()


def test_who_watches_sees_a_run_cancelled_and_undone_on_one_page(
    place: Place, people: People
) -> None:
    """Victor opens the page of the run once, and that of its undo."""
    before = place.replicas()
    victor = people["victor"]
    run = make_a_plan(place, people["bob"], "add-brokers", "4")
    victor.open(f"/runs/{run.run_id}")
    wait_for_band(victor, "Waiting for approval")
    approve_by_clicks(run, people["alice"])
    wait_for_band(victor, "Moving")
    until(lambda: moves_done(place, run) > 0, "a partition to have moved")
    cancel(people["oscar"])
    wait_for_band(victor, "Cancelled")
    victor.shows("The run was cancelled by oscar")
    assert victor.page.locator("form[method=post]").count() == 0
    assert place.end_of(str(run.dag_run_id)) == "success"
    people.look("oscar", run, "cancelled")
    assert place.replicas() != before

    undo = undo_by_clicks(place, run, people["bob"])
    victor.open(f"/runs/{undo.run_id}")
    approve_by_clicks(undo, people["alice"], rate=FAST)
    wait_for_band(victor, "Done")
    assert place.replicas() == before
    release(people["oscar"])
    people.check_no_problem()


def test_a_rejected_plan_says_who_said_no(place: Place, people: People) -> None:
    alice = people["alice"]
    run = make_a_plan(place, people["bob"], "add-brokers", "4")
    alice.enter_from_airflow("demo: a plan waits for you")
    alice.type("Reason", REASON)
    alice.press("Reject")
    wait_for_band(alice, "Rejected")
    alice.shows("alice rejected it:")
    people.look("bob", run, "rejected")
    assert place.end_of(str(run.dag_run_id)) == "success"
    people.check_no_problem()


def test_a_halted_run_says_what_to_do(place: Place, people: People) -> None:
    """The last one: it takes a broker away."""
    settings = place.folder / "clusters.yaml"
    text = settings.read_text()
    settings.write_text(text.replace("movement: {", f"movement: {{{IMPATIENT}, "))
    run = make_a_plan(place, people["bob"], "add-brokers", "4")
    approve_by_clicks(run, people["alice"])
    place.until_state(run, RunState.RUNNING)
    people["oscar"].open(f"/runs/{run.run_id}")
    people["oscar"].shows("in flight")
    place.kafka.kill_broker(4)
    wait_for_band(people["oscar"], "Halted")
    people["oscar"].shows("broker 4 is dead")
    people.look("alice", run, "halted")
    assert place.end_of(str(run.dag_run_id)) == "failed"
    assert people.lookers["alice"].page.get_by_text("counterpoise execute").count()
    people.check_no_problem()


# -- proposing


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
    bob.type("Reason", REASON)
    bob.press("Ask for approval")
    return plan_on_screen(place, bob)


def make_a_plan_by_keyboard(place: Place, bob: Visitor, goal: str, broker_ids: str) -> Run:
    bob.start_anew()
    bob.enter(bob.page.get_by_role("link", name="demo", exact=True).first)
    bob.enter(bob.page.get_by_role("link", name="Make a plan", exact=True))
    wanted = bob.page.locator(f"input[name=goal][value={goal}]")
    bob.tab_to(bob.page.locator("input[name=goal]:checked"))
    while not wanted.is_checked():
        bob.page.keyboard.press("ArrowDown")
    bob.type_by_keyboard("Brokers", broker_ids)
    bob.enter(bob.button("Show the plan"))
    bob.shows("Made of the snapshot")
    bob.type_by_keyboard("Reason", "by keyboard")
    bob.enter(bob.button("Ask for approval"))
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


def undo_by_clicks(place: Place, run: Run, bob: Visitor) -> Run:
    bob.open(f"/runs/{run.run_id}")
    bob.type("Reason", REASON)
    bob.press("Undo")
    undo = plan_on_screen(place, bob)
    bob.shows(f"Undo of run {run.run_id[-6:]}")
    return undo


# -- answering


def check_who_may_answer(run: Run, people: People) -> None:
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


def approve_by_clicks(run: Run, alice: Visitor, rate: str = SLOW) -> None:
    """From Airflow's home: the plan, and the yes."""
    alice.enter_from_airflow("demo: a plan waits for you")
    alice.page.wait_for_url(f"**/runs/{run.run_id}")
    alice.type("Rate", rate)
    alice.type("Reason", "as agreed")
    alice.press("Approve")
    assert alice.clicks == 2
    alice.shows("Approved")


def approve_by_keyboard(alice: Visitor, rate: str) -> None:
    alice.start_anew()
    alice.enter(alice.page.get_by_role("link", name="Review").first)
    alice.shows("Waiting for you")
    alice.type_by_keyboard("Rate", "10")
    alice.type_by_keyboard("Reason", "as agreed")
    alice.enter(alice.button("Approve"))
    expect(alice.page.get_by_label("Rate", exact=True)).to_be_focused()  # where it is wrong
    alice.shows("no unit")
    assert "422" in alice.problems.pop()  # as Chromium tells of it
    alice.page.keyboard.press("Control+A")
    alice.page.keyboard.type(rate)
    alice.enter(alice.button("Approve"))
    alice.shows("Approved")


# -- steering


def steer(place: Place, run: Run, people: People) -> None:
    """Pause, another rate, resume; whoever may not has no button, and gets 403."""
    page = f"/runs/{run.run_id}"
    oscar, alice, victor = people["oscar"], people["alice"], people["victor"]
    oscar.enter_from_airflow("demo: running")
    oscar.type("Reason", REASON)
    oscar.press("Pause")
    assert oscar.clicks == 2
    expect(oscar.button("Resume")).to_be_visible()
    oscar.shows("paused by oscar")
    people.look("oscar", run, "paused")

    alice.open(page)
    alice.type("Rate", "20")
    alice.type("Reason", "night")
    alice.press("Change")
    alice.shows("no unit")
    assert "422" in alice.problems.pop()  # as Chromium tells of it
    alice.type("Rate", FAST)
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


def enter_run_by_keyboard(visitor: Visitor, run: Run) -> None:
    """From the fleet, the cluster and its runs to the page of a run."""
    visitor.start_anew()
    visitor.enter(visitor.page.get_by_role("link", name="demo", exact=True).first)
    visitor.enter(visitor.page.get_by_role("link", name="Runs"))
    visitor.enter(visitor.page.locator(f"a[href$='/runs/{run.run_id}']").first)
    visitor.page.wait_for_url(f"**/runs/{run.run_id}")


def release(oscar: Visitor) -> None:
    """Let broker 4 get replicas again: an undo has emptied it, so it is kept empty."""
    oscar.start_anew()
    oscar.enter(oscar.page.get_by_role("link", name="demo", exact=True).first)
    oscar.enter(oscar.page.get_by_role("link", name="Release it"))
    oscar.type_by_keyboard("Reason", "for the next run")
    oscar.enter(oscar.button("Release brokers"))
    oscar.page.wait_for_url("**/clusters/demo")
    assert oscar.page.get_by_text("Kept empty").count() == 0


def cancel(oscar: Visitor) -> None:
    oscar.enter_from_airflow("demo: running")
    oscar.type("Reason", REASON)
    oscar.press("Cancel the run")  # it is asked once more
    oscar.press("Yes, cancel the run")
    assert oscar.clicks == 3
    wait_for_band(oscar, "Cancelled")


# -- following


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


def moves_done(place: Place, run: Run) -> int:
    oscar = viewers.Viewer("oscar", ("op",), True)
    found = runs.run_details(place.installation, run.run_id, oscar).run_progress
    return found.progress.moves_done if found else 0


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.5)
