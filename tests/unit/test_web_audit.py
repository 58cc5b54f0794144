"""The audit's page: findings and since when, how they went, and a waiver as lines to paste."""

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.model.finding import AuditReport, Finding, ReportedFinding, WantedPlan, to_json
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.settings import parse_settings
from counterpoise.views.audit import AuditView, audit_json
from tests.support.pages import NOW, Pages

CLUSTERS = """
clusters:
  demo: {connection: x, policy: {access: {propose: [alice]}}}
  shut: {connection: x, policy: {access: {view: [alice]}}}
"""
DAY = timedelta(days=1)


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages.in_folder(tmp_path, CLUSTERS)


def finding(
    subject: str, severity: Severity = Severity.WARNING, *, days: int = 0, new: bool = False
) -> ReportedFinding:
    found = Finding("replication-factor-1", severity, subject, f"{subject} has one replica")
    return ReportedFinding(found, NOW - days * DAY, is_new=new)


def audit(pages: Pages, days_ago: int, *found: ReportedFinding, **changes: object) -> None:
    """Write an audit as `kafka_audit` does: the document, and the report of the newest."""
    at = NOW - days_ago * DAY
    report = AuditReport("demo", "Kafka-Id", at, f"demo-{at:%Y%m%dT%H%M%SZ}", found, **changes)  # type: ignore[arg-type]
    with pages.installation() as installation:
        archive = installation.archive
        archive.store.write_text(f"audits/demo/{report.snapshot_id}.json", to_json(report))
        archive.write_report("demo/audit.json", audit_json(AuditView.of(report, {})))


def get(
    pages: Pages, path: str = "/clusters/demo/findings", name: str = "victor", **query: str
) -> str:
    with pages.browser(name) as browser:
        return browser.get(path, params=query or None).text


def test_findings_stand_with_what_is_new_and_what_is_gone(pages: Pages) -> None:
    audit(pages, 1, finding("topic old"), finding("topic gone", Severity.CRITICAL))
    audit(
        pages,
        0,
        finding("topic new", Severity.CRITICAL, new=True),
        finding("topic old", days=30),
        previous_at=NOW - DAY,
        resolved=(finding("topic gone").finding,),
    )
    page = get(pages)
    assert "1 critical finding, 1 warning" in page
    assert "Since the audit before: 1 new, 1 gone" in page
    new, old = page.index("<h3>Topic new has"), page.index("<h3>Topic old has")
    assert new < old, "the worst first"
    assert "topic gone" in page.partition("1 finding is gone")[2]
    assert 'title="2026-10-23 12:00:00 UTC">for 30\u00a0d</time>' in page


def test_a_cluster_without_an_audit_has_a_page(pages: Pages) -> None:
    assert "No audit yet" in get(pages)
    assert "/clusters/demo/start/audit" in get(pages, name="alice")
    assert "/start/audit" not in get(pages)


def test_each_finding_leads_to_its_waiver(pages: Pages) -> None:
    audit(pages, 0, finding("topic a&b"))
    link = re.search(r'href="([^"]*/findings/waive\?[^"]*)"', get(pages))
    assert link
    form = get(pages, html.unescape(link[1]))
    assert 'value="topic a&amp;b"' in form and "Nothing to paste yet" not in form
    assert 'value="replication-factor-1" selected' in form


@pytest.mark.parametrize(
    ("plan", "filled_in"),
    [
        (
            WantedPlan(Goal.ADD_BROKERS, (7, 8)),
            (
                'value="add-brokers" data-fields="broker_ids max_bytes" checked',
                'name="broker_ids" value="7, 8"',
            ),
        ),
        (
            WantedPlan(Goal.REPLICATION_FACTOR, topics=("a&b", "orders"), replication_factor=3),
            ('name="topics" value="a&amp;b, orders"', 'name="replication_factor" value="3"'),
        ),
        (
            WantedPlan(Goal.RELIEF, below_percent=85),
            (
                'value="relief" data-fields="below_percent max_bytes" checked',
                'name="below_percent" value="85"',
            ),
        ),
        (WantedPlan(Goal.LEADERS), ('value="leaders" data-fields="" checked',)),
    ],
)
def test_a_wanted_plan_leads_to_the_form_filled_in(
    pages: Pages, plan: WantedPlan, filled_in: tuple[str, ...]
) -> None:
    found = finding("cluster")
    audit(pages, 0, replace(found, finding=replace(found.finding, plan=plan)))
    shown = get(pages, name="alice")
    link = re.search(r'href="([^"]*/clusters/demo/plan\?[^"]*)">Make this plan', shown)
    assert link and "press Trigger" not in shown
    form = get(pages, html.unescape(link[1]), "alice")
    for words in filled_in:
        assert words in form, words


def test_who_may_not_propose_gets_the_command_alone(pages: Pages) -> None:
    found = finding("cluster")
    plan = WantedPlan(Goal.ADD_BROKERS, (7,))
    audit(pages, 0, replace(found, finding=replace(found.finding, plan=plan)))
    shown = get(pages)
    assert "/clusters/demo/plan" not in shown and "press Trigger" not in shown
    assert "counterpoise plan --cluster demo --goal add-brokers --brokers 7" in shown


@pytest.mark.parametrize(
    ("subject", "reason", "until"),
    [
        ("topic scratch-*", "made anew: each night", "2027-01-31"),
        ('topic "x": [y]', 'a "word" # and \\ more', ""),
    ],
)
def test_the_lines_of_a_waiver_are_read_as_it_was_meant(
    pages: Pages, subject: str, reason: str, until: str
) -> None:
    values = {"rule": "replication-factor-1", "subject": subject, "reason": reason}
    page = get(pages, "/clusters/demo/findings/waive", **values, until=until)
    found = re.search(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert found
    lines = html.unescape(found[1]).replace("\n", "\n      ")
    settings = parse_settings(
        f"clusters:\n  demo:\n    connection: x\n    policy:\n      {lines}\n", where="test"
    )
    (waiver,) = settings.cluster("demo").policy.audit.waivers
    assert (waiver.rule, waiver.subjects, waiver.reason) == (
        "replication-factor-1",
        (subject,),
        reason,
    )
    assert (f"{waiver.until:%Y-%m-%d}" if waiver.until else "") == until


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rule": "none-such"}, "There is no rule"),
        ({"subject": " "}, "Say which subject"),
        ({"reason": " "}, "Say why the finding may stay"),
        ({"until": "soon"}, "Until"),
        ({"until": "2020-01-01"}, "is over"),
    ],
)
def test_a_waiver_that_would_do_nothing_is_not_made(
    pages: Pages, changed: dict[str, str], words: str
) -> None:
    values = {"rule": "replication-factor-1", "subject": "x", "reason": "y"} | changed
    with pages.browser() as browser:
        response = browser.get("/clusters/demo/findings/waive", params=values)
    assert response.status_code == 422
    assert words in response.text and "Lines to paste" not in response.text


def test_access_is_that_of_the_cluster(pages: Pages) -> None:
    with pages.browser() as browser:
        for path in ("/clusters/shut/findings", "/clusters/shut/findings/waive"):
            assert browser.get(path).status_code == 403
        assert browser.get("/clusters/dmo/findings").status_code == 404
