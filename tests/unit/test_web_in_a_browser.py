"""Every page in a real browser: hostile text where scripts could run, accessibility, 400 px, dark,
and an answer by keyboard alone.

COUNTERPOISE_PICTURES names a folder for the pictures.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, expect
from starlette.routing import Route

from benchmarks.pages import write_audits
from counterpoise import installation as wiring
from counterpoise.errors import HaltedError
from counterpoise.installation import Installation
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.model.control import Control
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import VALIDATED
from counterpoise.planning import make_plan
from counterpoise.services import snapshots
from counterpoise.views.balance import leader_balance_json
from counterpoise.web.app import build_app
from counterpoise.web.responses import ASSETS
from tests.support import hostile
from tests.support.analysed_fleet import ANALYSED, SETTINGS, write_fleet
from tests.support.browser import Visitor, chromium, folder_of_pictures
from tests.support.ledger_view import add_event
from tests.support.pages import Pages
from tests.support.pictures import cluster, simulated
from tests.support.runs import FOUR_BROKERS, SimulatedRun
from tests.support.series import Broker, story
from tests.support.web import app_of, served, set_dag_run_state
from tests.support.written_history import write_history
from tests.unit.test_fleet import balance, load
from tests.unit.test_web_plans import new_plan

ACCESS = "{approve: [alice, bob], operate: [alice], propose: [alice]}"
POLICY = f"{{access: {ACCESS}, movement: {{rate: 20MB/s}}}}"
CLUSTERS = f"""\
clusters:
  demo: {{connection: kafka_demo, policy: {POLICY}}}
  other: {{connection: kafka_demo, policy: {POLICY}}}
  payments: {{connection: kafka_demo, policy: {POLICY}}}
{SETTINGS}"""
SCRIPT = "<img src=x onerror=alert(1)><script>alert(1)</script>"
# As long as Kafka takes: markup, and letters from right to left.
LONG_NAME = f"{SCRIPT}\u202e{'exe.' * 62}"[:249]
LARGE = ANALYSED[0]  # has a report of its balance
# The smallest is moved while the others are copied.
PICTURE = "\n".join(f"orders-{p}: 1 2 3 size={5_000_000 * (p + 1)}" for p in range(8))
# By the name of the picture. WAITING is a run whose plan has an attacker's words, as have the
# requests about the run MOVING.
PAGES = {
    "run-waiting": "/runs/WAITING",
    "run-waiting-checks": "/runs/WAITING?tab=checks",
    "run-waiting-brokers": "/runs/WAITING?tab=brokers",
    "run-moving": "/runs/MOVING",
    "run-moves": "/runs/MOVING?tab=moves",
    "run-settings": "/runs/MOVING?tab=settings",
    "run-timeline": "/runs/MOVING?tab=timeline",
    "cluster-frozen": "/clusters/payments",
    "cluster-hostile": "/clusters/other",
    "unfreeze": "/clusters/payments/requests/unfreeze",
    "freeze": "/clusters/other/requests/freeze",
    "new-plan": "/clusters/payments/plan",
    "started": "/clusters/other/started/kafka_rebalance?dag_run_id=manual__2026-01-31T12:00:00",
    "snapshot-now": "/clusters/other/started/kafka_snapshot?dag_run_id=manual__1",
    "ledger": "/ledger",
    "reports": "/reports",
    "reports-of-one": f"/reports?cluster={LARGE}",
    "report": f"/reports/{LARGE}/leader-balance.html",
    "waiver": "/clusters/other/findings/waive",
    "findings": "/clusters/other/findings",
    "cluster-analysed": f"/clusters/{LARGE}",
    "balance": f"/clusters/{LARGE}/balance",
    "load": f"/clusters/{LARGE}/load",
    "runs": "/clusters/payments/runs",
    "settings": "/clusters/payments/settings",
    "fleet-of-all": "/fleet",
    "setup": "/setup",
    "run-ended": "/runs/MOVING?tab=checks",  # after its end
}
# Links to what only some may ask for.
FORMS = ":is([href*='/requests/'], [href*='/start/'], [href$='/undo'])"
NOT_PAGES = (  # as the API's
    *("/", "/waiting", "/metrics", "/runs/{run_id}/{name}", "/runs/{run_id}/requests/{control}"),
)
ASSET_PATHS = [f"/static/{name}" for name in ASSETS]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def moving(folder: Path) -> SimulatedRun:
    """Return a run that has moved a part of what it shall, and copies more."""
    before = cluster(PICTURE, racks=FOUR_BROKERS, name="payments")
    plan = make_plan(before, PlanRequest(Goal.ADD_BROKERS, (4,)))
    made = SimulatedRun.make(folder, PICTURE, plan=plan)
    driver = made.driver()
    made.until_moving(driver)
    while not made.run_progress().progress.moves_done:
        made.cluster.advance(driver.step() or 0)
    return made


@pytest.fixture(scope="module")
def pages(folder: Path, moving: SimulatedRun) -> Pages:
    """Return a fleet, the run that moves, and a plan of bob's that waits for alice."""
    (folder / "connections.yaml").write_text('kafka_demo: {"bootstrap.servers": "a:9092"}')
    made = replace(Pages.in_folder(folder, CLUSTERS), now=moving.clock())
    kafka = simulated(PICTURE, racks=FOUR_BROKERS)
    plan = replace(new_plan(), cluster="demo")
    with made.installation() as installation, pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "connect_by_discovery", lambda _settings: kafka)
        snapshots.make(installation, "payments", made.now)
        installation.archive.store.write_text("plans/x.json", moving.plan.to_json())
        write_fleet(installation)
        write_history(installation, story(brokers=9, snapshots=200, cluster=LARGE))
        run = installation.ledger.propose(
            plan,
            installation.archive.write_plan(plan),
            requested_by="airflow:bob",
            dag_id="kafka_rebalance",
            dag_run_id="manual__1",
        )
        add_event(installation.ledger, run.run_id, VALIDATED, plan.fingerprint)
    return made


@pytest.fixture(scope="module")
def open_for_pages(pages: Pages, moving: SimulatedRun) -> Callable[[], Installation]:
    """Return what opens the installation at the time of the simulated cluster."""

    def open_at_that_time() -> Installation:
        found = pages.installation(for_pages=True)
        found.clock = moving.clock
        return found

    return open_at_that_time


@pytest.fixture(scope="module")
def address(open_for_pages: Callable[[], Installation]) -> Iterator[str]:
    """Yield where the pages are served to alice."""
    app = app_of("alice", open_for_pages)
    set_dag_run_state(app, "running")
    with served(app) as found:
        yield found


def test_two_clicks_lead_to_a_yes(browser: Browser, address: str) -> None:
    alice = Visitor.at(browser, address, folder_of_pictures())
    alice.start_anew()
    alice.follow(_review(alice))
    alice.shows("Waiting for you")
    assert alice.button("Approve").is_enabled()
    assert alice.clicks == 1
    alice.check_no_problem()


def _review(alice: Visitor) -> str:
    """Return the name of the link to the plan that waits for whoever looks."""
    name = alice.page.get_by_role("link", name="Review").first.inner_text()
    return " ".join(name.split())


def test_an_answer_needs_no_mouse(browser: Browser, address: str) -> None:
    alice = Visitor.at(browser, address, None)
    alice.start_anew()
    keyboard = alice.page.keyboard
    alice.tab_to(alice.page.get_by_role("link", name="Review").first)
    keyboard.press("Enter")
    alice.shows("Waiting for you")
    time = alice.page.locator(".hint .at-rate").first
    offered = time.inner_text()
    alice.tab_to(alice.page.get_by_label("Rate", exact=True))
    keyboard.press("Control+A")
    keyboard.type("10kB/s")
    expect(time).not_to_have_text(offered)
    keyboard.press("Control+A")
    keyboard.type("10")
    expect(time).to_have_text("–")
    alice.tab_to(alice.page.get_by_label("Reason", exact=True))
    keyboard.type("as agreed")
    alice.tab_to(alice.button("Approve"))
    keyboard.press("Enter")
    alice.shows("has no unit")
    assert all("422" in problem for problem in alice.problems), "the answer alone was refused"


def test_enter_in_the_rate_shows_the_time_and_approves_nothing(
    browser: Browser, address: str, pages: Pages
) -> None:
    alice = Visitor.at(browser, address, None)
    alice.start_anew()
    alice.follow(_review(alice))
    alice.type("Reason", "as agreed")
    alice.type("Rate", "10MB/s")
    with alice.page.expect_navigation():
        alice.page.get_by_label("Rate", exact=True).press("Enter")
    alice.shows("Waiting for you")
    assert alice.page.get_by_label("Rate", exact=True).input_value() == "10MB/s"
    assert alice.page.get_by_label("Reason", exact=True).input_value() == "as agreed"
    with pages.installation() as installation:
        (waiting,) = installation.ledger.runs(cluster="demo")
        assert not installation.ledger.approvals_of(waiting.run_id)
    alice.check_no_problem()


def test_without_scripts_the_time_is_shown_before_a_reason_is_typed(
    browser: Browser, address: str, pages: Pages
) -> None:
    with pages.installation() as installation:
        (waiting,) = installation.ledger.runs(cluster="demo")
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{address}/runs/{waiting.run_id}")
    page.get_by_label("Rate", exact=True).fill("10MB/s")
    page.get_by_role("button", name="Show the time").click()
    expect(page).to_have_url(f"{address}/runs/{waiting.run_id}/answer")
    expect(page.get_by_label("Rate", exact=True)).to_have_value("10MB/s")


def test_a_page_that_hears_nothing_new_says_so(
    browser: Browser, address: str, moving: SimulatedRun
) -> None:
    alice = Visitor.at(browser, address, None)
    alice.open(f"/runs/{moving.run_id}")
    alice.type("Reason", "half a word")
    old = alice.page.get_by_text("What this page shows is old")
    expect(old).to_be_hidden()
    alice.page.route("**/progress", lambda route: route.abort())
    expect(old).to_be_visible(timeout=60_000)
    alice.page.unroute("**/progress")
    expect(old).to_be_hidden(timeout=60_000)
    assert alice.page.get_by_label("Reason", exact=True).input_value() == "half a word"


def test_progress_is_drawn_into_the_page(
    browser: Browser, address: str, moving: SimulatedRun
) -> None:
    alice = Visitor.at(browser, address, None)
    alice.open(f"/runs/{moving.run_id}")
    bars = alice.page.locator("#chart-bytes rect.b-is")
    height, done = bars.last.get_attribute("height"), alice.page.locator("[data-shown=percent]")
    before = done.inner_text()
    alice.type("Reason", "half a word")
    driver = moving.driver()
    for _ in range(4):
        moving.cluster.advance(driver.step() or 0)
    expect(done).not_to_have_text(before, timeout=60_000)
    expect(bars.last).not_to_have_attribute("height", height or "")
    assert alice.page.get_by_label("Reason", exact=True).input_value() == "half a word"
    alice.check_no_problem()


def test_a_chart_tells_a_figure_beside_the_pointer_as_it_is_now(
    browser: Browser, address: str, moving: SimulatedRun
) -> None:
    alice = Visitor.at(browser, address, None)
    alice.open(f"/runs/{moving.run_id}?tab=brokers")
    slot, tip = alice.page.locator("#chart-bytes .slot").last, alice.page.locator("#tip")
    slot.hover()
    expect(tip).to_contain_text("Broker 4")
    before, held = tip.inner_text(), alice.page.locator("[data-shown=bytes-3]")
    was_held = held.inner_text()
    driver = moving.driver()
    for _ in range(4):
        moving.cluster.advance(driver.step() or 0)
    expect(held).not_to_have_text(was_held, timeout=60_000)
    alice.page.mouse.move(0, 0)
    slot.hover()
    expect(tip).not_to_have_text(before)
    expect(tip).to_contain_text(f"now: {held.inner_text()}")
    alice.check_no_problem()


def test_a_page_that_loads_again_leaves_the_keyboard_where_it_is(
    browser: Browser, address: str, moving: SimulatedRun
) -> None:
    """What is typed, and a field that waits for words, are left alone: the page only says so."""
    alice, writer = (Visitor.at(browser, address, None) for _ in range(2))
    for visitor in (alice, writer):
        visitor.open(f"/runs/{moving.run_id}")
    here = alice.page.get_by_role("link", name="Timeline")
    here.focus()
    writer.page.get_by_label("Reason", exact=True).focus()
    with alice.page.expect_event("load", timeout=60_000):
        moving.ask(Control.PAUSE)
    expect(here).to_be_focused()
    writer.shows("This run has changed meanwhile")
    expect(writer.page.get_by_label("Reason", exact=True)).to_be_focused()
    moving.ask(Control.RESUME)
    for visitor in (alice, writer):
        visitor.check_no_problem()


@pytest.mark.parametrize("place", ["", "#shown"])
def test_a_page_of_what_goes_on_loads_itself_again(
    browser: Browser, address: str, place: str
) -> None:
    """Also where the address ends in the place that a form of ours has led to."""
    alice = Visitor.at(browser, address, None)
    alice.open(f"{PAGES['started']}{place}")
    with alice.page.expect_event("load"):
        alice.shows("This page loads again")
    alice.check_no_problem()


def test_a_viewer_sees_no_buttons(
    browser: Browser, open_for_pages: Callable[[], Installation], moving: SimulatedRun
) -> None:
    with open_for_pages() as installation:
        (waiting,) = installation.ledger.runs(cluster="demo")
    run, plan = f"/runs/{moving.run_id}", f"/runs/{waiting.run_id}"
    app = app_of("victor", open_for_pages, role="viewer", may_change=False)
    with served(app) as address:
        victor = Visitor.at(browser, address, None)
        for path in ("/fleet", "/clusters/payments", f"/clusters/{LARGE}/findings", run, plan):
            victor.open(path)
            buttons = victor.texts_of(victor.page.get_by_role("button"))
            assert set(buttons) <= {"Search", "Filter"}, path
            assert victor.page.locator("form[method=post]").count() == 0, path
            assert victor.page.locator(f"a{FORMS}").count() == 0, path
        victor.shows("Airflow lets you read runs, and not answer questions about them")
        for form in ("/clusters/payments/requests/freeze",):
            assert victor.page.request.get(f"{address}{form}").status == 403, form
        victor.check_no_problem()


def test_every_page_is_accessible_narrow_dark_and_runs_no_script(
    browser: Browser, address: str, pages: Pages, moving: SimulatedRun
) -> None:
    """In a browser that would run the scripts of a page."""
    alice = Visitor.at(browser, address, folder_of_pictures(), is_lenient=True)
    for name, path in (("run", f"/runs/{moving.run_id}"), ("cluster", f"/clusters/{LARGE}")):
        alice.open(path)
        alice.take_picture(name)
    waiting = write_hostile_text(pages)
    moving.ask(Control.FREEZE, why=f"{LONG_NAME} {hostile.HOSTILE}")
    moving.ask(Control.CANCEL, why=f"{LONG_NAME} {hostile.HOSTILE}")
    for name, path in PAGES.items():
        if name == "run-ended":
            driver = moving.driver()
            with pytest.raises(HaltedError):
                moving.repeat(driver.step)
            moving.end(driver)
        alice.open(path.replace("WAITING", waiting).replace("MOVING", moving.run_id))
        alice.check_page(name)
    alice.open("/clusters/payments/plan")
    alice.type("Reason", hostile.HOSTILE)
    alice.press("Show the plan")
    alice.shows("Made of the snapshot")
    alice.check_page("new-plan-shown")
    alice.check_no_problem()


def test_no_page_is_forgotten() -> None:
    looked_at = [path.partition("?")[0] for path in PAGES.values()]
    for route in build_app(lambda: None).routes:  # type: ignore[arg-type]
        assert isinstance(route, Route) and route.methods
        assert isinstance(route, APIRoute) or route.path in ASSET_PATHS, "it asks for no login"
        if "GET" in route.methods and not route.path.startswith("/api/"):
            is_looked_at = any(map(route.path_regex.fullmatch, looked_at))
            assert is_looked_at or route.path in (*NOT_PAGES, *ASSET_PATHS), route.path


def write_hostile_text(pages: Pages) -> str:
    """Propose a plan, and write an audit, whose words are an attacker's; return the run's id."""
    rack = f"{LONG_NAME[:200]}-a"
    warnings = (hostile.HOSTILE, SCRIPT, f"broker 1 is in {LONG_NAME}")
    plan = replace(
        new_plan(),
        cluster="other",
        moves=tuple(
            replace(move, topic=f"{number}-{'long.' * 62}"[:249])
            for number, move in enumerate(new_plan().moves)
        ),
        figures=tuple(replace(figure, rack=LONG_NAME) for figure in new_plan().figures),
        warnings=warnings,
    )
    brokers = Broker(1, rack), Broker(2, LONG_NAME), Broker(3, "c")
    found = replace(balance(*brokers, snapshots=3), cluster="other")
    with pages.installation() as installation:
        text = leader_balance_json(found, load=load(5, 5, 0))
        installation.archive.write_report("other/leader-balance.json", text)
        for kind in FailureKind:
            installation.ledger.record_failure("other", kind, f"{LONG_NAME} {hostile.HOSTILE}")
        words = f"{hostile.HOSTILE} {LONG_NAME}"
        write_audits(installation, pages.now, "other", 1, findings=8, words=words)
        path = installation.archive.write_plan(plan)
        return installation.ledger.propose(
            plan, path, requested_by=f"airflow:{hostile.NAME}"
        ).run_id
