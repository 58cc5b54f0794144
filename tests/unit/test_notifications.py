"""What people are notified of: decided without any I/O, and once, by the record of the ledger."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise import notifications
from counterpoise.errors import ConfigurationError
from counterpoise.model.finding import AuditReport, Finding, ReportedFinding
from counterpoise.model.notification import Notification, NotificationEvent
from counterpoise.model.policy import NotifyPolicy
from counterpoise.model.run import Run, RunState
from counterpoise.model.severity import Severity, Waiver
from counterpoise.notifications import NotificationFacts, critical_findings
from counterpoise.settings import parse_settings

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def run(state: RunState, *, hours: float = 1, reason: str = "", ended: bool = False) -> Run:
    opened_at = NOW - timedelta(hours=hours)
    closed_at = opened_at if ended else None
    return Run("run-7", "demo", "sha256:x", "plans/x", state, reason, opened_at, closed_at, "alice")


def finding(subject: str, severity: Severity = Severity.CRITICAL) -> Finding:
    return Finding("offline", severity, subject, f"{subject} has no leader")


def audit(*findings: Finding, **changes: Any) -> AuditReport:
    reported = tuple(ReportedFinding(one, NOW, is_new=True, **changes) for one in findings)
    return AuditReport("demo", "id", NOW, "demo-1", reported)


def due(**facts: Any) -> list[Notification]:
    return list(notifications.due(NotificationFacts("demo", NOW, **facts)))


def events(**facts: Any) -> list[str]:
    return [str(one.event) for one in due(**facts)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (run(RunState.PROPOSED), ["question"]),
        (run(RunState.PROPOSED, hours=9), ["question"]),
        (run(RunState.APPROVED), []),
        (run(RunState.RUNNING), ["started"]),
        (run(RunState.HALTED, ended=True), ["halted"]),
        (run(RunState.HALTED, ended=True, hours=25), []),
        (run(RunState.DONE, ended=True), ["done"]),
        (run(RunState.DONE, ended=True, hours=25), []),
        (run(RunState.SUPERSEDED, ended=True), []),
        (run(RunState.CANCELLED, ended=True), ["cancelled"]),
        (run(RunState.REJECTED, ended=True), []),
    ],
)
def test_a_run_is_news_by_its_state(given: Run, expected: list[str]) -> None:
    assert events(runs=[given]) == expected


def test_a_run_that_halts_again_is_news_again() -> None:
    (first,) = due(runs=[run(RunState.HALTED, ended=True, hours=3)])
    (same,) = due(runs=[run(RunState.HALTED, ended=True, hours=3)])
    (second,) = due(runs=[run(RunState.HALTED, ended=True, hours=1)])
    assert second.event is NotificationEvent.HALTED
    assert first.subject == same.subject != second.subject


def test_a_second_question_is_another_one() -> None:
    waiting = run(RunState.PROPOSED)
    (first,) = due(runs=[waiting])
    (second,) = due(runs=[waiting], second_asked={"run-7"})
    assert second.subject != first.subject
    assert second.title == "demo: a plan waits for a second person's yes or no"


def test_a_restore_is_news_when_it_waits_for_more_than_an_hour() -> None:
    pending = {"run-7": 2}
    soon = run(RunState.DONE, ended=True, hours=0.9)
    assert events(runs=[soon], pending_restores=pending) == ["done"]
    late = run(RunState.DONE, ended=True, hours=100)
    (restore,) = due(runs=[late], pending_restores=pending)
    assert restore.event is NotificationEvent.PENDING_RESTORES
    assert restore.title == "demo: run run-7 has ended, and 2 config keys of it not restored yet"
    assert events(runs=[late]) == []


def test_a_question_says_why_it_is_asked_and_who_may_answer() -> None:
    (question,) = due(runs=[run(RunState.PROPOSED)], why_requested={"run-7": "broker 7 is idle."})
    assert question.lines[0] == "Requested by alice: broker 7 is idle."
    assert "Who may answer: everybody" in question.lines[1]
    assert question.page == "counterpoise/runs/run-7"


def test_critical_findings_are_news_when_they_come() -> None:
    mild = finding("topic a", Severity.WARNING)
    (only,) = due(audit=audit(mild, finding("topic b")))
    assert only.event is NotificationEvent.FINDINGS_NEW
    assert only.lines == ("critical: topic b has no leader (offline)",)
    assert due(audit=audit(mild)) == []
    assert due(audit=audit(finding("topic a"), waived_by=Waiver("offline", "known"))) == []


def test_a_finding_that_people_were_notified_of_is_no_news() -> None:
    known = critical_findings(audit(finding("topic a")))
    assert due(audit=audit(finding("topic a")), notified_findings=known) == []
    (only,) = due(audit=audit(finding("topic a"), finding("topic b")), notified_findings=known)
    assert only.title == "demo: the audit has 1 new critical finding"
    assert only.lines == ("critical: topic b has no leader (offline)",)


def test_a_finding_that_becomes_critical_or_comes_back_is_news() -> None:
    """However long it was there with another severity."""
    known = critical_findings(audit(finding("topic a", Severity.WARNING), finding("topic b")))
    worse = audit(finding("topic a"), finding("topic b"))
    (only,) = due(audit=worse, notified_findings=known)
    assert only.lines == ("critical: topic a has no leader (offline)",)
    reported = ReportedFinding(finding("topic b"), NOW + timedelta(days=1), is_new=True)
    again = AuditReport("demo", "id", NOW, "demo-1", (reported,))
    assert len(due(audit=again, notified_findings=known)) == 1


def test_a_long_list_is_cut_and_says_so() -> None:
    (sent,) = due(audit=audit(*(finding(f"topic {n}") for n in range(50))))
    assert (len(sent.lines), sent.lines[-1]) == (21, "and 30 more")


SETTINGS = """
notify: {webhooks: [ops]}
clusters:
  plain: {connection: x}
  own: {connection: x, policy: {notify: {webhooks: [own], events: [halted, done]}}}
  quiet: {connection: x, policy: {notify: {}}}
"""


def test_a_cluster_without_its_own_section_has_the_one_of_all() -> None:
    clusters = parse_settings(SETTINGS, where="clusters.yaml").clusters
    assert clusters["plain"].policy.notify == NotifyPolicy(webhooks=("ops",))
    own = NotifyPolicy(webhooks=("own",), events=(NotificationEvent.HALTED, NotificationEvent.DONE))
    assert clusters["own"].policy.notify == own
    assert clusters["quiet"].policy.notify == NotifyPolicy()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("webhooks: ['https://hooks.example/T0/secret']", "an address is a secret"),
        ("events: [halt]", "'halt' is none of question, started"),
        ("remind_after: 4h", "remind_after"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(written: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        parse_settings(f"notify: {{{written}}}\nclusters: {{}}\n", where="clusters.yaml")
    assert "hooks.example" not in str(refused.value)


def test_every_event_has_a_place_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    assert [event for event in NotificationEvent if f"`{event}`" not in text] == []
