"""What is told, to whom, and once: decided without any I/O, and claimed in the ledger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise import notifications
from counterpoise.errors import ConfigurationError
from counterpoise.ledger.notifications import CLAIM_LASTS
from counterpoise.model.finding import AuditReport, Finding, ReportedFinding
from counterpoise.model.notification import Channel, Notification, NotificationEvent, Target
from counterpoise.model.policy import NotifyPolicy
from counterpoise.model.run import Run, RunState
from counterpoise.model.severity import Severity, Waiver
from counterpoise.notifications import NotificationFacts
from counterpoise.settings import parse_settings
from tests.support.runs import open_ledger

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ALL = NotifyPolicy(min_severity=Severity.INFO)


def run(state: RunState, *, hours: float = 1, reason: str = "", ended: bool = False) -> Run:
    opened_at = NOW - timedelta(hours=hours)
    closed_at = opened_at if ended else None
    return Run("run-7", "demo", "sha256:x", "plans/x", state, reason, opened_at, closed_at, "alice")


def finding(subject: str, severity: Severity = Severity.CRITICAL) -> Finding:
    return Finding("offline", severity, subject, f"{subject} has no leader")


def audit(*findings: Finding, gone: tuple[Finding, ...] = (), **changes: Any) -> AuditReport:
    reported = tuple(ReportedFinding(one, NOW, is_new=True, **changes) for one in findings)
    return AuditReport("demo", "id", NOW, "demo-1", reported, gone)


def told(policy: NotifyPolicy = ALL, **facts: Any) -> list[tuple[str, str]]:
    due = notifications.due(NotificationFacts("demo", NOW, **facts), policy)
    return [(str(one.event), str(one.severity)) for one in due]


@pytest.mark.parametrize(
    ("given", "events"),
    [
        (run(RunState.PROPOSED), [("question", "warning")]),
        (run(RunState.PROPOSED, hours=9), [("question", "warning"), ("reminder", "warning")]),
        (run(RunState.APPROVED), []),
        (run(RunState.RUNNING), [("started", "info")]),
        (run(RunState.HALTED, ended=True), [("halted", "critical")]),
        (run(RunState.DONE, ended=True), [("done", "info")]),
        (run(RunState.DONE, ended=True, hours=25), []),
        (run(RunState.SUPERSEDED, ended=True), [("closed", "warning")]),
        (run(RunState.REJECTED, ended=True), [("closed", "warning")]),
        (run(RunState.REJECTED, ended=True, hours=25), []),
    ],
)
def test_a_run_is_told_by_its_state(given: Run, events: list[tuple[str, str]]) -> None:
    assert told(runs=[given]) == events


def test_a_cluster_is_told_by_what_is_known_of_it() -> None:
    assert told() == []
    assert told(pending_restores=2) == [("pending-restores", "warning")]
    assert told(snapshot_at=NOW - timedelta(hours=2)) == []
    assert told(snapshot_at=NOW - timedelta(hours=3)) == [("silent", "critical")]
    assert told(no_snapshot_since=NOW - timedelta(hours=2)) == []
    assert told(no_snapshot_since=NOW - timedelta(hours=3)) == [("silent", "critical")]
    assert told(first_full_broker=4, first_full_days=31.0) == []
    assert told(first_full_broker=4, first_full_days=20.0) == [("disk-full-soon", "warning")]
    assert told(first_full_broker=4, first_full_days=0.5) == [("disk-full-soon", "critical")]


def test_whoever_was_asked_is_told_how_the_question_ended() -> None:
    rejected = run(RunState.REJECTED, ended=True, reason="nobody answered in time")
    facts = NotificationFacts("demo", NOW, runs=[rejected])
    (closed,) = notifications.due(facts, NotifyPolicy())
    assert closed.title == "demo: run run-7 is rejected"
    assert closed.lines == ("nobody answered in time",)


def test_a_question_says_why_it_is_asked() -> None:
    asked = run(RunState.PROPOSED)
    facts = NotificationFacts(
        "demo", NOW, runs=[asked], why_requested={"run-7": "broker 7 is idle."}
    )
    (question,) = notifications.due(facts, ALL)
    assert question.lines[0] == "Requested by alice: broker 7 is idle."


def test_findings_are_told_when_they_come_and_when_they_go() -> None:
    report = audit(finding("topic a"), gone=(finding("topic b"),))
    assert told(audit=report) == [("findings-new", "critical"), ("findings-gone", "critical")]
    waived = audit(finding("topic a"), waived_by=Waiver("offline", "known"))
    assert told(audit=waived) == []


def test_only_what_the_policy_names_and_as_bad_as_it_says_is_told() -> None:
    runs = [run(RunState.RUNNING), run(RunState.HALTED, ended=True)]
    assert told(NotifyPolicy(), runs=runs) == [("halted", "critical")]
    assert told(replace(ALL, events=("started",)), runs=runs) == [("started", "info")]
    mild = audit(finding("topic a", Severity.WARNING), finding("topic b"))
    facts = NotificationFacts("demo", NOW, audit=mild)
    (only,) = notifications.due(facts, NotifyPolicy(min_severity=Severity.CRITICAL))
    assert only.lines == ("critical: topic b has no leader (offline)",)


def test_of_a_list_only_what_was_not_told_is_left() -> None:
    facts = NotificationFacts("demo", NOW, audit=audit(*map(finding, ("topic a", "topic b"))))
    (both,) = notifications.due(facts, ALL)
    (left,) = notifications.untold([both], {both.keys[0]})
    assert (left.keys, left.lines) == (both.keys[1:], both.lines[1:])
    assert notifications.untold([both], set(both.keys)) == ()


def test_a_message_that_has_no_list_is_not_cut_by_its_lines() -> None:
    (question,) = notifications.due(
        NotificationFacts("demo", NOW, runs=[run(RunState.PROPOSED)]), ALL
    )
    assert notifications.untold([question], set()) == (question,)
    assert "Who may answer: everybody" in question.lines[1]
    assert question.page == "counterpoise/runs/run-7/plan"


def test_a_long_list_is_cut_and_says_so_and_every_key_counts_as_told() -> None:
    facts = NotificationFacts("demo", NOW, audit=audit(*(finding(f"topic {n}") for n in range(50))))
    (sent,) = notifications.untold(notifications.due(facts, ALL), set())
    assert (len(sent.keys), len(sent.lines), sent.lines[-1]) == (50, 21, "and 30 more")


def test_each_reminder_is_told_once_and_a_missed_one_is_not_made_up_for() -> None:
    policy = replace(ALL, events=("reminder",), remind_after=timedelta(hours=4))
    facts = NotificationFacts("demo", NOW, runs=[run(RunState.PROPOSED, hours=9)])
    (reminder,) = notifications.due(facts, policy)
    assert reminder.keys == ("reminder/run-7/2",)
    assert reminder.title == "demo: a plan has waited for an answer for 8 h"


def test_everybody_is_a_target_once() -> None:
    policy = NotifyPolicy(webhooks=("ops", "ops"), email=("a@example.org",))
    assert notifications.targets(policy) == (
        Target(Channel.WEBHOOK, "ops", "ops"),
        Target(Channel.EMAIL, "a@example.org", "smtp_default"),
    )


SETTINGS = """
notify: {webhooks: [ops], remind_after: 2h}
clusters:
  plain: {connection: x}
  own: {connection: x, policy: {notify: {email: [a@example.org], events: [halted, done]}}}
  quiet: {connection: x, policy: {notify: {}}}
"""


def test_a_cluster_without_its_own_section_has_the_one_of_all() -> None:
    clusters = parse_settings(SETTINGS, where="clusters.yaml").clusters
    assert clusters["plain"].policy.notify == NotifyPolicy(
        webhooks=("ops",), remind_after=timedelta(hours=2)
    )
    own = NotifyPolicy(email=("a@example.org",), events=("halted", "done"))
    assert clusters["own"].policy.notify == own
    assert clusters["quiet"].policy.notify == NotifyPolicy()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("webhooks: ['https://hooks.example/T0/secret']", "an address is a secret"),
        ("events: [halt]", "'halt' is unknown; there are: question, reminder"),
        ("min_severity: bad", "'bad' is unknown"),
        ("remind_after: 1m", "remind_after"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(written: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        parse_settings(f"notify: {{{written}}}\nclusters: {{}}\n", where="clusters.yaml")
    assert "hooks.example" not in str(refused.value)


def test_a_claim_is_for_one_task_and_ends(tmp_path: Path) -> None:
    times = [NOW]
    ledger = open_ledger(tmp_path, lambda: times[0])
    delivered = ledger.notifications()
    assert delivered.claim("demo", "webhook ops", ["a", "b"])
    assert not delivered.claim("demo", "webhook ops", ["b", "c"])
    assert delivered.settled_keys("demo", "webhook ops") == {"a", "b"}
    assert delivered.claim("demo", "email x", ["a"]) and delivered.claim(
        "other", "webhook ops", ["a"]
    )
    delivered.release("demo", "webhook ops", ["b"])
    assert delivered.claim("demo", "webhook ops", ["b", "c"])
    delivered.mark_delivered("demo", "webhook ops", ["b", "c"])
    times[0] += CLAIM_LASTS
    assert delivered.settled_keys("demo", "webhook ops") == {"b", "c"}  # "a": its task has died
    assert delivered.claim("demo", "webhook ops", ["a"])
    assert not delivered.claim("demo", "webhook ops", ["c"])


def test_every_event_has_a_place_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    assert [event for event in NotificationEvent if f"`{event}`" not in text] == []
    assert Notification(("k",), NotificationEvent.DONE, Severity.INFO, "demo", "t").lines == ()
