"""The audit's page: the worst first, all figures shown, hostile names stay names, nothing is
fetched or run.
"""

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from counterpoise.model.finding import (
    AuditReport,
    Evidence,
    Finding,
    ReportedFinding,
    RuleText,
    WantedPlan,
)
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity, Waiver
from counterpoise.views.audit import AuditView, audit_html, audit_json
from tests.support.audits import NOW
from tests.support.report_page import Page
from tests.unit.test_load_pages import BREAKOUT

TEXTS = {
    "idle": RuleText(
        "idle",
        "balance",
        "An idle broker",
        "It costs.",
        "Use it.",
        "https://kafka.apache.org/#x",
        {"n": 3},
    ),
    "bad": RuleText(
        "bad", "replication", "One replica", "It is lost.", "Add some.", "docs/audit-rules.md"
    ),
    "calm": RuleText(
        "calm", "disk", "A full disk", "It ends.", "Empty it.", "https://kafka.apache.org/#y"
    ),
}
DAY = timedelta(days=1)


def found(
    rule: str, severity: Severity, subject: str = "cluster", **changes: object
) -> ReportedFinding:
    finding = Finding(rule, severity, subject, f"seen at {subject}")
    seen = {name: value for name, value in changes.items() if name in ("is_new", "waived_by")}
    finding = replace(
        finding, **{name: value for name, value in changes.items() if name not in seen}
    )  # type: ignore[arg-type]
    return ReportedFinding(finding, NOW - DAY, bool(seen.get("is_new")), seen.get("waived_by"))  # type: ignore[arg-type]


def report(*seen: ReportedFinding, **changes: object) -> AuditReport:
    made = AuditReport("demo", "Kafka-Id", NOW, "demo-20261122T120000Z", seen, passed=("calm",))
    return replace(made, **changes)  # type: ignore[arg-type]


def page(given: AuditReport) -> Page:
    return Page(audit_html(AuditView.of(given, TEXTS)))


def test_the_worst_comes_first_with_its_words_and_rows() -> None:
    rows = Evidence(("partition", "leader"), (("0", "1"), ("1", "none")), 412)
    shown = page(
        report(
            found(
                "bad",
                Severity.CRITICAL,
                "topic orders",
                evidence=rows,
                fix=("line one", "line two"),
            ),
            found("idle", Severity.WARNING, "broker 4"),
            found("calm", Severity.UNKNOWN),
        )
    )
    assert "1 critical finding, 1 warning, 1 not known." in shown.text
    at = [
        shown.text.index(words)
        for words in ("Seen at topic orders", "Seen at broker 4", "Seen at cluster")
    ]
    assert at == sorted(at)
    for words in (
        "It is lost.",
        "Add some.",
        "docs/audit-rules.md",
        "and 410 more",
        "line one line two",
        "none",
    ):
        assert words in shown.text
    assert "1 rule without a finding A full disk" in shown.text


def test_nothing_found_is_said() -> None:
    shown = page(report())
    assert "demo No findings" in shown.text
    assert "Nothing was found." in shown.text
    cannot = page(report(unknown={"bad": "groups: denied"}))
    assert "demo Not known" in cannot.text, "what is not known is never shown as healthy"


def test_findings_of_one_rule_stand_together_and_most_of_many_are_folded() -> None:
    many = [found("bad", Severity.CRITICAL, f"topic t{number}") for number in range(7)]
    shown = page(report(*many))
    assert shown.text.count("It is lost.") == 1
    assert "One replica, 7 topics: t0, t1, t2, t3, t4 and 2 more" in shown.text
    assert "What to do, and all 7" in shown.text
    assert shown.text.count("Seen at topic t") == 7
    assert "and thresholds" not in shown.text, "the rule has no thresholds"
    assert 'subjects: ["topic t0", "topic t1"' in shown.text


def test_waived_findings_are_folded_with_their_reasons_and_count_nowhere() -> None:
    waiver = Waiver("bad", "scratch data", ("topic *",), NOW + DAY)
    shown = page(report(found("bad", Severity.CRITICAL, "topic a", waived_by=waiver)))
    assert "Nothing was found." in shown.text
    assert "1 finding is waived" in shown.text
    unused = Waiver("calm", "it was noisy once", ("topic a",))
    assert "calm for topic a: it was noisy once" in page(report(unused_waivers=(unused,))).text
    assert "Waived until 2026-11-23 12:00 UTC: “scratch data”." in shown.text


def links_of(shown: Page) -> dict[str | None, dict[str, str | None]]:
    return {attributes["href"]: attributes for tag, attributes in shown.elements if tag == "a"}


def test_a_wanted_plan_opens_its_form_filled_in_and_names_the_command() -> None:
    plan = WantedPlan(Goal.ADD_BROKERS, (4, 5))
    seen = AuditView.of(report(found("idle", Severity.WARNING, "broker 4", plan=plan)), TEXTS)
    shown = Page(audit_html(seen, in_store=True))
    assert "../../clusters/demo/plan?goal=add-brokers&broker_ids=4%2C+5" in links_of(shown)
    assert "counterpoise plan --cluster demo --goal add-brokers --brokers 4,5" in shown.text


def test_a_page_leads_back_where_it_lies_in_the_store_and_nowhere_elsewhere() -> None:
    plan = WantedPlan(Goal.ADD_BROKERS, (4, 5))
    seen = AuditView.of(report(found("idle", Severity.WARNING, "broker 4", plan=plan)), TEXTS)
    in_store = Page(audit_html(seen, in_store=True))
    assert {"../../fleet", "../../clusters/demo/findings"} < links_of(in_store).keys()
    elsewhere = Page(audit_html(seen))
    assert links_of(elsewhere).keys() == {"#content", "https://kafka.apache.org/#x"}
    for shown in (in_store, elsewhere):
        assert "Audit of demo · Counterpoise" in shown.text
        assert shown.tags.isdisjoint({"script", "form"})


def test_plans_that_differ_in_topics_alone_are_one_line_below_the_first_that_wants_them() -> None:
    def wanted(rule: str, topic: str) -> ReportedFinding:
        plan = WantedPlan(Goal.REPLICATION_FACTOR, topics=(topic,), replication_factor=3)
        return found(rule, Severity.WARNING, f"topic {topic}", plan=plan)

    shown = page(report(wanted("bad", "b"), wanted("bad", "a"), wanted("idle", "c")))
    (line,) = re.findall(r"counterpoise plan .*?\.json", shown.text)
    assert "--topics a,b,c --replication-factor 3" in line
    assert shown.text.index("One replica, 2 topics: b, a") < shown.text.index(line)
    assert shown.text.index(line) < shown.text.index("Seen at topic c")


def test_a_plan_of_more_topics_than_an_address_can_have_is_a_command_alone() -> None:
    topics = tuple(f"topic-with-a-long-name-{number}" for number in range(1_000))
    given = report(found("bad", Severity.WARNING, plan=WantedPlan(Goal.REPAIR, topics=topics)))
    seen = AuditView.of(given, TEXTS)
    (plan,) = seen.groups[0].plans
    assert not seen.shown(plan).query and topics[-1] in seen.shown(plan).command


def hostile() -> AuditReport:
    rows = Evidence((BREAKOUT,), ((BREAKOUT,),), 1)
    return report(
        found(
            "bad",
            Severity.CRITICAL,
            BREAKOUT,
            evidence=rows,
            fix=(BREAKOUT,),
            summary=BREAKOUT,
            is_new=True,
        ),
        found("made-up", Severity.INFO, BREAKOUT, waived_by=Waiver("made-up", BREAKOUT)),
        resolved=(Finding(BREAKOUT, Severity.INFO, BREAKOUT, BREAKOUT),),
        unknown={BREAKOUT: BREAKOUT},
        not_applicable={BREAKOUT: BREAKOUT},
        previous_at=NOW - DAY,
    )


def test_the_json_has_the_findings_and_the_texts_of_their_rules() -> None:
    given = report(
        found("bad", Severity.CRITICAL, "topic orders", plan=WantedPlan(Goal.REPAIR)),
        found("calm", Severity.UNKNOWN),
        unknown={"calm": "groups: denied"},
    )
    document = json.loads(audit_json(AuditView.of(given, TEXTS)))
    assert [row["subject"] for row in document["findings"]] == ["topic orders", "cluster"]
    assert set(document["rules"]) == {"bad", "calm"}


@pytest.mark.parametrize(("checks", "shown"), [("", False), ("data-docs/index.html", True)])
def test_checks_of_the_data_are_linked_where_there_are_some(checks: str, shown: bool) -> None:
    found_page = Page(audit_html(AuditView.of(report(), TEXTS), checks=checks))
    assert (("a", {"href": checks}) in found_page.elements) is shown


def test_what_follows_from_a_cause_stands_in_its_card() -> None:
    consequences = [
        found("bad", Severity.CRITICAL, f"topic t-{number}", causes=("broker 2",))
        for number in range(7)
    ]
    shown = page(report(found("broker-fenced", Severity.CRITICAL, "broker 2"), *consequences))
    assert "1 critical finding." in shown.text
    assert "1 finding follows from it" in shown.text
    assert "One replica, 7 topics: t-0, t-1, t-2, t-3, t-4 and 2 more" in shown.text
    assert "What to do, and 5 of 7" in shown.text
    assert shown.text.count("Seen at topic t-") == 5
