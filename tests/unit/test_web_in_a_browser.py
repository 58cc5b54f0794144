"""Every page in a real browser: hostile text where scripts could run, accessibility, 400 px, dark,
and an answer by keyboard alone.

COUNTERPOISE_PICTURES names a folder for the pictures.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from benchmarks.pages import write_audits
from counterpoise.model.run import Run
from tests.support import hostile
from tests.support.analysed_fleet import ANALYSED, SETTINGS, write_fleet
from tests.support.browser import Visitor, chromium, folder_of_pictures
from tests.support.pages import Pages, nothing_to_move
from tests.support.web import app_of, served
from tests.unit.test_web_plans import new_plan

POLICY = "{access: {approve: [alice], operate: [alice]}, movement: {rate: 20MB/s}}"
CLUSTERS = f"""\
clusters:
  demo: {{connection: kafka_demo, policy: {POLICY}}}
  other: {{connection: kafka_demo, policy: {POLICY}}}
{SETTINGS}"""
SCRIPT = "<img src=x onerror=alert(1)><script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """A fleet, and a plan of bob's that waits for alice."""
    made = Pages.in_folder(tmp_path_factory.mktemp("pages"), CLUSTERS)
    made = replace(made, now=datetime.now(UTC))
    plan = replace(new_plan(), cluster="demo")
    with made.installation() as installation:
        write_fleet(installation)
        installation.ledger.propose(
            plan,
            installation.archive.write_plan(plan),
            requested_by="bob",
            account="airflow:bob",
            dag_id="kafka_rebalance",
            dag_run_id="manual__1",
        )
    return made


@pytest.fixture(scope="module")
def address(pages: Pages) -> Iterator[str]:
    """Where the pages are served to alice."""
    with served(app_of("alice", lambda: pages.installation(for_pages=True))) as found:
        yield found


def test_two_clicks_lead_to_a_yes(browser: Browser, address: str, tmp_path: Path) -> None:
    alice = Visitor.at(browser, address, folder_of_pictures(tmp_path))
    alice.start_anew()
    alice.take_picture("fleet")
    alice.follow("Read the plan and decide")
    alice.take_picture("plan")
    alice.type("Reason", "as agreed")
    assert alice.button("Approve this plan").is_enabled()
    alice.press("Check the rate")  # in place of the yes, which Airflow alone takes
    alice.shows("This rate can be approved")
    assert alice.clicks == 2
    alice.check_silence()


def test_an_answer_needs_no_mouse(browser: Browser, address: str, tmp_path: Path) -> None:
    alice = Visitor.at(browser, address, tmp_path)
    alice.start_anew()
    keyboard = alice.page.keyboard
    alice.tab_to(alice.page.get_by_role("link", name="Read the plan and decide"))
    keyboard.press("Enter")
    alice.shows("This plan waits for an answer")
    alice.tab_to(alice.page.get_by_label("Rate", exact=True))
    keyboard.press("Control+A")
    keyboard.type("1MB/s")
    alice.tab_to(alice.page.get_by_label("Reason", exact=True))
    keyboard.type("as agreed")
    alice.tab_to(alice.button("Check the rate"))
    keyboard.press("Enter")
    alice.shows("This rate can be approved")
    alice.tab_to(alice.button("Approve this plan"))
    alice.check_silence()


def test_every_page_is_accessible_narrow_dark_and_runs_no_script(
    browser: Browser, address: str, pages: Pages, tmp_path: Path
) -> None:
    """In a browser that would run the scripts of a page."""
    alice = Visitor.at(browser, address, folder_of_pictures(tmp_path), is_lenient=True)
    run, large = write_hostile_text(pages), ANALYSED[0]
    for name, path in {
        "plan": f"/runs/{run.run_id}/plan",
        "run": f"/runs/{run.run_id}",
        "freeze": f"/runs/{run.run_id}/requests/freeze",
        "ledger": "/ledger?cluster=other",
        "reports": "/reports",
        "waiver": "/clusters/other/audit/waive",
        "fleet": "/fleet",
        "audit": "/clusters/other/audit",
        "cluster": f"/clusters/{large}",
    }.items():
        alice.check_page(path, name)
    alice.open(f"/clusters/{large}")
    alice.take_picture("cluster")
    alice.check_silence()


def write_hostile_text(pages: Pages) -> Run:
    """Propose a plan, and write an audit, whose words are an attacker's."""
    plan = nothing_to_move("other", warnings=(hostile.HOSTILE, SCRIPT))
    with pages.installation() as installation:
        write_audits(installation, pages.now, "other", 1, words=hostile.HOSTILE)
        path = installation.archive.write_plan(plan)
        return installation.ledger.propose(plan, path, requested_by=hostile.NAME)
