"""The page of all clusters: the worst first, only those that somebody may view, and what waits."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.analysis.fleets import fleet, fleet_entry
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.model.finding import AuditReport, Finding, ReportedFinding
from counterpoise.model.fleet_document import ClusterState, fleet_json
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.model.severity import Severity
from counterpoise.services import requests
from counterpoise.services import runs as plans
from counterpoise.views.audit import AuditView, audit_json
from tests.support import hostile
from tests.support.ledger_view import change_state
from tests.support.pages import NOW, Pages
from tests.support.series import Broker
from tests.unit.test_fleet import balance, load

SOON = timedelta(minutes=5)
ALICE = Person.airflow("alice")
IDLE = balance(Broker(1), Broker(2), Broker(3, leaders=0, replicas=0, bytes=0))


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages.in_folder(
        tmp_path,
        """
clusters:
  calm: {connection: x}
  idle: {connection: x}
  quiet: {connection: x}
  shut: {connection: x, policy: {access: {view: [alice], approve: [alice]}}}
  mine: {connection: x, policy: {access: {approve: [alice, victor]}}}
""",
    )


def analyse(pages: Pages, *states: ClusterState) -> None:
    """Write the document of the fleet, as `kafka_leader_balance` does."""
    text = fleet_json(fleet(map(fleet_entry, states), as_of=pages.now))
    with pages.installation() as installation:
        installation.archive.write_report("fleet.json", text)


def audited(pages: Pages, cluster: str, *severities: Severity) -> None:
    found = tuple(
        ReportedFinding(Finding("rule", severity, f"broker {at}", "seen"), NOW, is_new=True)
        for at, severity in enumerate(severities)
    )
    report = AuditReport(cluster, "id", NOW, f"{cluster}-20261122T120000Z", found)
    with pages.installation() as installation:
        installation.archive.write_report(
            f"{cluster}/audit.json", audit_json(AuditView.of(report, {}))
        )


def order(html: str) -> list[str]:
    table = html.partition('id="all-head"')[2]
    return re.findall(r'<th scope="row"><a href="[^"]*/clusters/([a-z]+)">', table)


def row_of(html: str, cluster: str) -> str:
    """Return what the table says of a cluster."""
    table = html.partition('id="all-head"')[2]
    return table.partition(f'/clusters/{cluster}">')[2].partition("</tr>")[0]


def waiting(html: str) -> list[tuple[str, str]]:
    """Return the plans that wait: run, and who may answer."""
    rows = html.partition('id="wait-head"')[2].partition("</table>")[0].split("<tr>")[2:]
    found = []
    for row in rows:
        (run_id,) = re.findall(r'href="/runs/([^"]+)"', row)
        (who,) = re.findall(r'data-l="Who may answer"[^>]*>([^<]*)<', row)
        found.append((run_id, who))
    return found


def test_the_worst_cluster_comes_first_as_of_now(pages: Pages) -> None:
    calm = ClusterState("calm", SOON, balance(), load(1, 1, 1))
    analyse(
        pages,
        calm,
        replace(calm, cluster="idle", balance=IDLE),
        replace(calm, cluster="quiet"),
        replace(calm, cluster="mine"),
        replace(calm, cluster="shut"),
    )
    with pages.browser() as browser:
        assert order(browser.get("/fleet").text)[0] == "idle"
        audited(pages, "calm", Severity.CRITICAL, Severity.CRITICAL, Severity.WARNING)
        page = browser.get("/fleet").text
        assert order(page)[:2] == ["calm", "idle"]
        assert "2 critical findings" in row_of(page, "calm")
        later = replace(pages, now=NOW + timedelta(days=9))
        with later.installation() as installation:
            for cluster in ("calm", "idle", "mine"):
                installation.ledger.pin_cluster(cluster, f"id of {cluster}")
                installation.ledger.record_snapshot(cluster, f"{cluster}-x", later.now - SOON)
    with later.browser() as browser:
        page = browser.get("/fleet").text
        assert order(page) == ["quiet", "calm", "idle", "mine"]
        assert page.count("No new snapshot") == 1


def test_a_damaged_document_hides_no_cluster(pages: Pages) -> None:
    with pages.installation() as installation:
        installation.archive.write_report("fleet.json", '{"as_of": 1}')
        installation.archive.write_report("calm/audit.json", "{}")
    with pages.browser() as browser:
        assert order(browser.get("/fleet").text) == ["calm", "idle", "mine", "quiet"]


@pytest.mark.parametrize("damaged", [b"{}", b"\xff\xfe not UTF-8", b""])
def test_an_audit_that_cannot_be_read_is_not_known_and_hides_no_cluster(
    pages: Pages, tmp_path: Path, damaged: bytes
) -> None:
    audited(pages, "idle", Severity.WARNING)
    path = tmp_path / "store" / "reports" / "calm" / "audit.json"
    path.parent.mkdir()
    path.write_bytes(damaged)
    not_known = "not known: audit reports/calm/audit.json cannot be read"
    with pages.browser() as browser:
        page = browser.get("/fleet").text
        assert order(page) == ["calm", "idle", "mine", "quiet"]
        assert f"Findings {not_known}" in row_of(page, "calm")
        assert page.count("cannot be read") == 1
        cluster = browser.get("/clusters/calm").text
        assert "audit reports/calm/audit.json cannot be read" in cluster
        assert "No audit yet" not in cluster
        audit = browser.get("/clusters/calm/findings").text
        assert f"Findings are {not_known}" in audit and "No audit yet" not in audit
        found = browser.get("/api/fleet").json()["clusters"]
        assert {one["cluster"]: one["audit_unreadable"] for one in found} == {
            "calm": "reports/calm/audit.json",
            "idle": None,
            "mine": None,
            "quiet": None,
        }


def test_clusters_are_searched_by_name(pages: Pages) -> None:
    with pages.browser() as browser:
        assert order(browser.get("/fleet", params={"search": "IDL"}).text) == ["idle"]
        page = browser.get("/fleet", params={"search": hostile.HOSTILE}).text
    hostile.check_html(page.replace("<form", "<div"))
    assert hostile.MARK in page and order(page) == []


def test_what_waits_is_told_with_who_may_answer(pages: Pages) -> None:
    mine = pages.propose("mine")
    own = pages.propose("idle", by="victor")
    pages.propose("shut")
    with pages.browser() as browser:
        page = browser.get("/fleet").text
    assert "shut" not in page
    assert waiting(page) == [
        (own.run_id, "you, anybody else who may"),
        (mine.run_id, "you"),
    ]
    with pages.browser("carol") as browser:
        page = browser.get("/fleet").text
    assert waiting(page)[1] == (mine.run_id, "victor"), "alice requested it"


def test_a_waiting_plan_is_told_with_goal_bytes_time_and_age(pages: Pages) -> None:
    run = pages.propose("calm", broker_ids=[4])
    later = replace(pages, now=NOW + timedelta(minutes=12))
    with later.browser("alice") as browser:
        page = browser.get("/fleet").text
        (one,) = browser.get("/api/fleet").json()["waiting"]
    cells = page.partition('id="wait-head"')[2].partition("</table>")[0]
    assert "Leaders 4" in cells and ">nothing<" in cells and "12\u00a0min" in cells
    assert (one["goal"], one["copied_bytes"], one["waits_seconds"]) == ("leaders 4", 0, 720)
    store = Path(pages.environment["COUNTERPOISE_STORE"])
    (store / run.plan_uri).unlink()
    plans._read_plan.cache_clear()
    plans._kept_view.cache_clear()
    with later.browser("alice") as browser:
        cells = browser.get("/fleet").text.partition('id="wait-head"')[2].partition("</table>")[0]
    assert "A plan that cannot be read" in cells and cells.count("not known") == 2


def test_nothing_waits_for_an_account_that_may_only_read(pages: Pages) -> None:
    pages.propose("mine", by="bob")
    with pages.browser("alice", may_change=False) as browser:
        page = browser.get("/fleet").text
        assert [who for _, who in waiting(page)] == ["alice, victor"] and "Review" not in page
        cluster = browser.get("/clusters/mine").text
        assert "Waits for approval" in cluster and "Make a plan" not in cluster
        assert not any(one["is_mine"] for one in browser.get("/api/fleet").json()["waiting"])


def test_a_plan_that_needs_two_waits_for_another_person(pages: Pages) -> None:
    run = pages.propose("mine", by="bob")
    given = (run.run_id, run.fingerprint, Decision.GRANTED, "airflow:alice", "fine")
    yes = Approval(*given, NOW - SOON, 1_000_000, NOW + SOON)
    with pages.installation() as installation:
        installation.ledger.record_decision(yes, is_enough=lambda _: False)
    with pages.browser() as browser:
        assert waiting(browser.get("/fleet").text) == [(run.run_id, "you")]
    with pages.browser("alice") as browser:
        assert waiting(browser.get("/fleet").text) == [(run.run_id, "victor")]


def test_the_one_plan_that_waits_for_somebody_is_opened_at_once(pages: Pages) -> None:
    def leads_to(user: str, *, may_change: bool = True) -> str:
        with pages.browser(user, may_change=may_change) as browser:
            response = browser.get("/waiting", follow_redirects=False)
        assert response.status_code == 303
        return str(response.headers["location"])

    assert leads_to("victor") == "/fleet"
    mine = pages.propose("mine", by="bob")
    assert leads_to("victor") == f"/runs/{mine.run_id}"
    assert leads_to("victor", may_change=False) == leads_to("carol") == "/fleet"
    pages.propose("shut", by="bob")
    assert leads_to("victor") == f"/runs/{mine.run_id}", "of what they may view"
    assert leads_to("alice") == "/fleet", "several wait"


def test_runs_under_way_are_listed(pages: Pages) -> None:
    run = pages.propose("calm")
    with pages.installation() as installation:
        installation.ledger.pin_cluster("calm", "id")
        for state in (RunState.APPROVED, RunState.RUNNING):
            change_state(installation.ledger, run.run_id, state, "")
    with pages.browser() as browser:
        row = row_of(browser.get("/fleet").text, "calm")
        assert order(browser.get("/fleet?show=moving").text) == ["calm"]
    assert f'href="/runs/{run.run_id}"' in row


def test_a_failure_is_told_at_once_and_is_worse_than_all_that_was_found(pages: Pages) -> None:
    analyse(pages, ClusterState("calm", SOON, balance(), load(1, 1, 1)))
    audited(pages, "idle", Severity.CRITICAL)
    pages.propose("calm")
    with pages.installation() as installation:
        record = installation.ledger.record_failure
        record("mine", FailureKind.SNAPSHOT, hostile.HOSTILE)
        record("calm", FailureKind.NOT_ANSWERING, "no bootstrap address answered")
    with pages.browser() as browser:
        page = browser.get("/fleet").text
        cluster = browser.get("/clusters/calm/runs").text
        found = browser.get("/api/fleet").json()["clusters"]
    assert order(page)[:2] == ["calm", "mine"]
    assert "Not answering" in row_of(page, "calm") and "failed" in row_of(page, "calm")
    assert "Snapshot failed" in row_of(page, "mine")
    hostile.check_html(page.replace("<form", "<div", 1))
    assert "Not answering" in page.partition('id="wait-head"')[2].partition("</table>")[0]
    assert "no bootstrap address answered" in cluster
    assert [one["failure"] and one["failure"]["kind"] for one in found[:2]] == [
        "not answering",
        "snapshot failed",
    ]


def test_a_failure_is_told_wherever_the_name_of_its_cluster_stands(pages: Pages) -> None:
    run = pages.propose("mine")
    why = "no bootstrap address answered"
    with pages.installation() as installation:
        installation.archive.write_report(f"mine/runs/{run.run_id}-run.html", "x")
    places = (
        "/ledger",
        "/reports",
        "/reports?cluster=mine",
        f"/runs/{run.run_id}",
        "/clusters/mine/requests/freeze",
        "/clusters/mine/findings/waive",
    )
    with pages.browser("alice", "op") as browser:
        before = [browser.get(path).text for path in places]
        progress = browser.get(f"/api/runs/{run.run_id}/progress").json()["version"]
        with pages.installation() as installation:
            installation.ledger.record_failure("mine", FailureKind.NOT_ANSWERING, why)
        after = [browser.get(path).text for path in places]
        assert browser.get(f"/api/runs/{run.run_id}/progress").json()["version"] != progress
    assert not any("Not answering" in page for page in before)
    for path, page in zip(places, after, strict=True):
        (mark,) = set(re.findall(r'<span class="say bad" title="([^"]*)">', page)) or ("",)
        assert why in mark and "Not answering" in page, path


def test_rows_are_sorted_filtered_and_paged(tmp_path: Path) -> None:
    names = [f"c{number:03d}" for number in range(120)]
    lines = "".join(f"  {name}: {{connection: x}}\n" for name in names)
    pages = Pages.in_folder(tmp_path, f"clusters:\n{lines}")
    states = [
        ClusterState(name, SOON, replace(balance(), cluster=name), load(number, 1, 1))
        for number, name in enumerate(names)
    ]
    analyse(pages, *states)
    cluster = re.compile(r'<th scope="row"><a href="/clusters/(c\d+)">')
    with pages.browser() as browser:

        def shown(query: str) -> list[str]:
            return cluster.findall(browser.get(f"/fleet?{query}").text)

        assert len(shown("")) == 50 and len(shown("number=3")) == 20
        assert shown("sort=cluster")[:2] == ["c000", "c001"]
        assert shown("sort=cluster&order=descending")[0] == "c119"
        assert shown("sort=bytes_in")[0] == "c119"
        assert shown("sort=nothing&show=nothing&number=x") == shown("")
        assert shown("search=c01&sort=cluster") == names[10:20]
        assert shown("show=frozen") == []
        page = browser.get("/fleet?search=c0&sort=cluster").text
    assert "1–50 of 100" in page and "search=c0&amp;sort=cluster&amp;number=2" in page


def test_without_the_ledger_pages_show_what_the_store_has_and_say_so(
    pages: Pages, tmp_path: Path
) -> None:
    analyse(pages, ClusterState("calm", SOON, balance(), load(1, 1, 1)))
    audited(pages, "calm", Severity.WARNING)
    (tmp_path / "ledger.db").unlink()
    with pages.browser() as browser:
        page = browser.get("/fleet")
        assert page.status_code == 200 and "The ledger cannot be read now" in page.text
        assert "calm" in order(page.text)
        for tab in ("", "/balance", "/load", "/findings", "/runs", "/settings"):
            answer = browser.get(f"/clusters/calm{tab}")
            assert answer.status_code == 200, tab
            assert "The ledger cannot be read now" in answer.text
        assert "No run yet" not in browser.get("/clusters/calm/runs").text
        assert browser.get("/api/fleet").json()["ledger_away"]


def test_halted_runs_and_frozen_clusters_are_listed(pages: Pages) -> None:
    run = pages.propose("calm")
    with pages.installation() as installation:
        installation.ledger.pin_cluster("calm", "id")
        for state in (RunState.APPROVED, RunState.RUNNING, RunState.SETTLING):
            change_state(installation.ledger, run.run_id, state, "")
        change_state(installation.ledger, run.run_id, RunState.HALTED, "broker 3 is dead")
        for cluster in ("quiet", "shut"):
            requests.freeze(installation, cluster, until="8h", by=ALICE, why=hostile.HOSTILE)
    with pages.browser() as browser:
        page = browser.get("/fleet").text
        api = browser.get("/api/fleet").json()
    assert f'href="/runs/{run.run_id}"' in page and "Broker 3 is dead" in page
    assert "Until 2026-11-22 20:00 UTC by alice" in page and "Frozen" in page and "shut" not in page
    hostile.check_html(page.replace("<form", "<div", 1))
    assert [one["state"] for one in api["runs"]] == ["halted"]
    assert [one["cluster"] for one in api["freezes"]] == ["quiet"]
    pages.propose("calm", broker_ids=[1])
    with pages.browser() as browser:
        assert "Broker 3 is dead" not in browser.get("/fleet").text


def test_the_first_page_is_the_fleet(pages: Pages) -> None:
    with pages.browser() as browser:
        response = browser.get("/", follow_redirects=False)
        assert response.headers["location"] == "fleet"
        assert "form-action 'self'" in browser.get("/fleet").headers["content-security-policy"]
