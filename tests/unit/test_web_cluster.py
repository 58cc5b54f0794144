"""The page of a cluster: what its reports say, its runs and settings, and for whom."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from counterpoise.analysis import wanted_goals
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.finding import AuditReport, Finding, ReportedFinding
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.severity import Severity
from counterpoise.views.audit import AuditView, audit_json
from counterpoise.views.balance import leader_balance_json
from tests.support import hostile
from tests.support.pages import NOW, Pages
from tests.support.series import Broker
from tests.support.web import token_on
from tests.unit.test_fleet import balance, load

CLUSTERS = """
clusters:
  demo:
    connection: kafka_demo
    operator_connection: kafka_demo_rw
    cluster_id: Kafka-Id
    policy:
      movement: {rate: 50MB/s, windows: [{starts: "0 20 * * *", lasts: 8h}]}
      access: {propose: [alice], approve: [alice], operate: [oscar]}
  shut: {connection: x, policy: {access: {view: [alice]}}}
  plain: {connection: nowhere}
"""
CONNECTIONS = """
kafka_demo:
  bootstrap.servers: "kafka-1:9092,user:s3cr3t@kafka-2:9092"
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: n0b0dy
  sasl.password: s3cr3t
  ssl.ca.location: /etc/ca.pem
  sasl.oauthbearer.token.endpoint.url: "https://me:s3cr3t@example.org/token"
kafka_demo_rw: {"bootstrap.servers": "kafka-1:9092"}
"""


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    return Pages.in_folder(tmp_path, CLUSTERS)


def analyse(pages: Pages, cluster: str = "demo", rack: str = "a") -> None:
    """Write a report of an idle broker, as `kafka_leader_balance` does."""
    idle = Broker(3, rack, leaders=0, replicas=0, bytes=0)
    found = replace(balance(Broker(1, rack), Broker(2, rack), idle, snapshots=3), cluster=cluster)
    wanted = next(iter(wanted_goals(found, BalancePolicy())), None)
    text = leader_balance_json(found, wanted=wanted, load=load(5, 5, 0))
    with pages.installation() as installation:
        installation.archive.write_report(f"{cluster}/leader-balance.json", text)


def audit(pages: Pages, subject: str) -> None:
    finding = Finding("idle", Severity.CRITICAL, subject, f"{subject} leads nothing")
    found = (ReportedFinding(finding, NOW, is_new=True),)
    report = AuditReport("demo", "Kafka-Id", NOW, "demo-20261122T120000Z", found)
    with pages.installation() as installation:
        installation.archive.write_report("demo/audit.json", audit_json(AuditView.of(report, {})))


def test_the_overview_has_figures_and_charts(pages: Pages) -> None:
    analyse(pages, rack=hostile.NAME)
    with pages.browser("alice") as browser:
        page = browser.get("/clusters/demo").text
        settings = browser.get("/clusters/demo/settings").text
    assert page.count("<h1>") == 1 and page.count("<main") == 1
    for tile in ("Live brokers", "Most leaders", "Bytes in"):
        assert f"<dt>{tile}</dt>" in page
    assert "What would help:" in page and "3 brokers on 1 rack" in page
    assert page.count("Not known yet") == 1, "what is not known is named once"
    assert page.count('class="btn main"') == 1
    hostile.check_html(page.replace("<form", "<div"))
    assert 'href="/reports/demo/leader-balance.json"' in settings
    assert "Balance, the newest, JSON" in settings


@pytest.mark.parametrize("text", ["", "{", "[]", '{"latest": 1}'])
def test_a_balance_that_cannot_be_read_hides_no_page(pages: Pages, text: str) -> None:
    with pages.installation() as installation:
        installation.archive.write_report("demo/leader-balance.json", text)
    with pages.browser() as browser:
        page = browser.get("/clusters/demo")
    assert page.status_code == 200 and "No analysis yet" in page.text


def test_a_cluster_of_which_nothing_is_known_has_a_page(pages: Pages) -> None:
    with pages.browser() as browser:
        page = browser.get("/clusters/plain").text
        for tab, words in (
            ("balance", "No analysis yet"),
            ("load", "No analysis yet"),
            ("findings", "No audit yet"),
            ("runs", "No run yet"),
        ):
            assert words in browser.get(f"/clusters/plain/{tab}").text
        settings = browser.get("/clusters/plain/settings").text
    for words in ("No snapshot yet", "No audit yet", "No analysis yet", "No run yet"):
        assert words in page
    assert "the api-server does not know this connection" in settings
    assert "all defaults hold" in settings and "None yet" in settings


def test_no_secret_of_a_connection_is_shown(pages: Pages) -> None:
    with pages.browser() as browser:
        page = browser.get("/clusters/demo/settings").text
    assert "s3cr3t" not in page and "n0b0dy" not in page
    for shown in ("kafka-1:9092", "SASL_SSL", "PLAIN", "/etc/ca.pem", "set, not shown"):
        assert shown in page
    assert "kafka_demo_rw" in page and "changes the cluster" in page


@pytest.mark.parametrize("setting", ["ssl.key.location", "ssl.ca.location", "security.protocol"])
@pytest.mark.parametrize(
    "value",
    ["-----BEGIN PRIVATE KEY-----\\ns3cr3t", "a\\ns3cr3t", "https://me:s3cr3t@example.org/k"],
)
def test_a_key_in_the_wrong_setting_is_not_shown(pages: Pages, setting: str, value: str) -> None:
    connections = Path(pages.environment["COUNTERPOISE_CONNECTIONS"])
    connections.write_text(f'kafka_demo: {{bootstrap.servers: "a:1", {setting}: "{value}"}}\n')
    with pages.browser() as browser:
        for path in ("/clusters/demo/settings", "/api/clusters/demo"):
            page = browser.get(path)
            assert page.status_code == 200
            assert setting in page.text and "s3cr3t" not in page.text


def test_the_policy_is_shown_as_it_was_read(pages: Pages) -> None:
    with pages.browser() as browser:
        own, _, all_keys = browser.get("/clusters/demo/settings").text.partition(
            "With every default"
        )
    for key, value in (
        ("movement.rate", "50.0 MB/s"),
        ("movement.windows", "starts: 0 20 * * *, lasts: 8 h"),
        ("access.propose", "alice"),
    ):
        assert f'<code>{key}</code></th><td class="name">{value}' in own
    assert "history.keep_all" in all_keys and "history.keep_all" not in own
    assert "movement.pause_patience" in all_keys
    assert '<code>access.view</code></th><td class="name">everybody' in all_keys


@pytest.mark.parametrize(("name", "may"), [("alice", True), ("victor", False)])
def test_only_who_may_propose_is_offered_a_plan(pages: Pages, name: str, may: bool) -> None:
    with pages.browser(name) as browser:
        page = browser.get("/clusters/demo").text
    for sign in ('href="/clusters/demo/plan"', "/start/snapshot", "/start/audit"):
        assert (sign in page) == may


def test_a_question_and_a_freeze_stand_at_the_top(pages: Pages) -> None:
    run = pages.propose("demo", by="bob")
    with pages.browser("alice") as browser:
        page = browser.get("/clusters/demo").text
    assert "Waits for you" in page and f'href="/runs/{run.run_id}"' in page
    with pages.browser() as browser:
        page = browser.get("/clusters/demo").text
    assert "Waits for approval" in page and "May answer: alice." in page


def test_the_age_of_the_newest_snapshot_is_told(pages: Pages) -> None:
    with pages.installation() as installation:
        installation.ledger.pin_cluster("demo", "Kafka-Id")
        installation.ledger.record_snapshot("demo", "demo-x", NOW - timedelta(minutes=5))
    with pages.browser() as browser:
        assert ">5\u00a0min ago</time>" in browser.get("/clusters/demo").text


def test_an_unknown_cluster_is_404_with_those_that_one_may_view(pages: Pages) -> None:
    with pages.browser() as browser:
        response = browser.get("/clusters/dmo")
    assert response.status_code == 404
    assert 'href="/clusters/demo"' in response.text and "shut" not in response.text


def test_a_cluster_that_the_policy_shuts_is_403(pages: Pages) -> None:
    analyse(pages, "shut")
    with pages.browser() as browser:
        response = browser.get("/clusters/shut")
    assert response.status_code == 403 and "Leaders per broker" not in response.text


def send(browser: TestClient, control: str, **typed: str) -> Response:
    path = f"/clusters/demo/requests/{control}"
    form = browser.get(path)
    assert form.status_code == 200, form.text[-600:]
    return browser.post(
        path, data={"form_token": token_on(form.text), **typed}, follow_redirects=False
    )


def requests_of(pages: Pages) -> list[ControlRequest]:
    with pages.installation() as installation:
        return list(installation.ledger.requests("demo"))


def test_a_cluster_is_frozen_and_the_freeze_ended_from_its_page(pages: Pages) -> None:
    with pages.browser("oscar") as browser:
        assert 'href="/clusters/demo/requests/freeze"' in browser.get("/clusters/demo").text
        answer = send(browser, "freeze", until="8h", reason=f" {hostile.HOSTILE} ")
        assert (answer.status_code, answer.headers["location"]) == (303, "/clusters/demo")
        page = browser.get("/clusters/demo").text
        assert "Until 2026-11-22 20:00 UTC by oscar" in page
        assert 'href="/clusters/demo/requests/unfreeze"' in page
        assert 'href="/clusters/demo/requests/freeze"' in page, "somebody else may need longer"
        hostile.check_html(page)
        assert send(browser, "unfreeze", reason="done").status_code == 303
        assert "Frozen" not in browser.get("/clusters/demo").text
    written = requests_of(pages)
    assert [(one.control, one.person.shown, one.run_id) for one in written] == [
        (Control.FREEZE, "oscar", None),
        (Control.UNFREEZE, "oscar", None),
    ]


def test_brokers_that_are_kept_empty_are_shown_and_released_from_its_page(pages: Pages) -> None:
    for broker_id in (7, 8):
        pages.keep_empty(broker_id, hostile.NAME)
    with pages.browser("victor") as browser:
        page = browser.get("/clusters/demo").text
        assert "Broker 7 is kept empty since 2026-11-22 12:00 UTC (run demo-7 emptied it" in page
        assert "/requests/release" not in page
        hostile.check_html(page)
    with pages.browser("alice") as browser:
        page = browser.get("/clusters/demo/plan").text
        assert "Broker 8 is kept empty" in page, "a plan that names it is refused"
    with pages.browser("oscar") as browser:
        path = "/clusters/demo/requests/release?brokers=8"
        assert f'href="{path}"' in browser.get("/clusters/demo").text
        assert 'value="8"' in browser.get(path).text
        assert send(browser, "release", brokers="8", reason="new disks").status_code == 303
        page = browser.get("/clusters/demo").text
        assert "Broker 7 is kept empty" in page and "Broker 8" not in page
        for brokers, status in (("8", 409), ("x", 422), ("", 422)):
            answer = send(browser, "release", brokers=brokers, reason="kept")
            assert answer.status_code == status and "Nothing was changed." in answer.text
    *_, released = requests_of(pages)
    assert (released.control, released.broker_id) == (Control.RELEASE, 8)
    assert (released.by, released.why) == ("airflow:oscar", "new disks")
    with pages.browser("oscar") as browser:
        ledger = browser.get("/ledger").text
    assert "broker 8: new disks" in ledger and "broker 7: run demo-7 emptied it" in ledger
