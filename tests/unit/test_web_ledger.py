"""The ledger's page: filters, paging, and for whom."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.run import Run
from counterpoise.services.ledger_entries import PAGE_ENTRIES
from tests.support.ledger_view import add_event
from tests.support.pages import NOW, Pages

CLUSTERS = """
clusters:
  demo: {connection: x}
  orders: {connection: x}
  shut: {connection: x, policy: {access: {view: [alice]}}}
"""
HOUR = timedelta(hours=1)


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages.in_folder(tmp_path, CLUSTERS)


def decide(pages: Pages, run: Run, by: str, reason: str = "no") -> None:
    decision = Approval(
        run.run_id, run.fingerprint, Decision.REJECTED, f"airflow:{by}", reason, pages.now
    )
    with pages.installation() as installation:
        installation.ledger.record_decision(decision)


def freeze(pages: Pages, cluster: str, by: str = "bob") -> None:
    until = pages.now + HOUR
    request = ControlRequest(
        cluster, None, Control.FREEZE, f"airflow:{by}", "month end", pages.now, until=until
    )
    with pages.installation() as installation:
        installation.ledger.record_request(request)


def rows(html: str) -> list[list[str]]:
    """Return the cells of each entry: when, cluster, kind, who, what, run."""
    body = html.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)]
        for row in body.split("</tr>")[:-1]
    ]


def told(pages: Pages, **query: str) -> list[tuple[str, str]]:
    with pages.browser() as browser:
        found = rows(browser.get("/ledger", params=query).text)
    return [(cells[1], cells[2].split()[0]) for cells in found]


@pytest.fixture
def story(pages: Pages) -> Pages:
    """Three hours: a plan for demo that bob rejects, a plan for orders, a freeze of each."""
    run = pages.propose("demo")
    decide(replace(pages, now=NOW + HOUR), run, "bob")
    later = replace(pages, now=NOW + 2 * HOUR)
    later.propose("orders", by="carol")
    freeze(later, "demo")
    freeze(later, "shut")
    return later


def test_entries_of_all_tables_are_one_list_the_newest_first(story: Pages) -> None:
    assert sorted(told(story)[:2]) == [("demo", "freeze"), ("orders", "proposed")]
    assert [kind for _, kind in told(story)[2:]] == ["rejected"] * 3 + ["proposed"]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ({"cluster": "orders"}, ["proposed"]),
        ({"kind": "requests"}, ["freeze"]),
        ({"kind": "freeze"}, ["freeze"]),
        ({"kind": "approvals"}, ["rejected"]),
        ({"kind": "rejected"}, ["rejected"] * 3),
        ({"person": "BOB"}, ["freeze", "rejected", "rejected"]),
        ({"person": "carol"}, ["proposed"]),
        ({"person": "%"}, []),
        ({"since": "2026-11-22T13:30"}, ["freeze", "proposed"]),
        ({"until": "2026-11-22T12:30"}, ["proposed"]),
        ({"since": "2026-11-22T12:30", "until": "2026-11-22T13:30"}, ["rejected"] * 3),
        ({"run": "nothing"}, []),
    ],
)
def test_a_filter_leaves_what_it_names(
    story: Pages, query: dict[str, str], kinds: list[str]
) -> None:
    assert sorted(kind for _, kind in told(story, **query)) == kinds


def test_a_run_has_its_own_entries(story: Pages) -> None:
    with story.installation() as installation:
        run = installation.ledger.runs(cluster="demo")[0]
    assert {kind for _, kind in told(story, run=run.run_id)} == {"proposed", "rejected"}


def test_what_a_viewer_may_not_view_is_left_out(story: Pages) -> None:
    assert "shut" not in {cluster for cluster, _ in told(story)}
    with story.browser() as browser:
        assert browser.get("/ledger", params={"cluster": "shut"}).status_code == 403
        unknown = browser.get("/ledger", params={"cluster": "shud"})
        assert unknown.status_code == 404 and "/clusters/demo" in unknown.text
    with story.browser("alice") as browser:
        assert "shut" in {cells[1] for cells in rows(browser.get("/ledger").text)}


def test_a_cluster_that_was_removed_is_for_those_who_may_view_all(story: Pages) -> None:
    Path(story.environment["COUNTERPOISE_CONFIG"]).write_text(CLUSTERS.replace("demo:", "new:"))
    assert "demo" not in {cluster for cluster, _ in told(story)}
    with story.browser("alice") as browser:
        assert "demo" in {cells[1] for cells in rows(browser.get("/ledger").text)}


def test_long_lists_have_pages(pages: Pages) -> None:
    run = pages.propose("demo")
    with pages.installation() as installation:
        for number in range(PAGE_ENTRIES + 5):
            add_event(installation.ledger, run.run_id, "note", f"number {number:03d}")
    with pages.browser() as browser:
        first = browser.get("/ledger", params={"kind": "note", "cluster": "demo"})
        link = re.search(r'href="(/ledger\?[^"]*)" rel="next"', first.text)
        assert link and 'rel="prev"' not in first.text
        second = browser.get(link[1].replace("&amp;", "&"))
        assert browser.get("/ledger?page=x").status_code == 200
    assert len(rows(first.text)) == PAGE_ENTRIES and len(rows(second.text)) == 5
    assert rows(first.text)[0][4] == f"number {PAGE_ENTRIES + 4:03d}"
    assert rows(second.text)[-1][4] == "number 000"
    assert 'rel="next"' not in second.text


def test_the_last_page_leads_to_no_older_one(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("counterpoise.services.ledger_entries", "counterpoise.web.ledger"):
        monkeypatch.setattr(f"{module}.MAX_PAGE", 1)
    run = pages.propose("demo")
    with pages.installation() as installation:
        for number in range(PAGE_ENTRIES + 5):
            add_event(installation.ledger, run.run_id, "note", f"number {number}")
    with pages.browser() as browser:
        page = browser.get("/ledger", params={"page": "2"}).text
        assert 'rel="next"' not in page and "narrow the filter" in page
        assert browser.get("/api/ledger").json()["has_more"] is False


def test_a_time_that_is_none_is_told(pages: Pages) -> None:
    with pages.browser() as browser:
        response = browser.get("/ledger", params={"since": "yesterday"})
    assert response.status_code == 422 and "From" in response.text
