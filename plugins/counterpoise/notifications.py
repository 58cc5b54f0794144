"""What people are to be notified of about a cluster now. Pure.

    facts = NotificationFacts("orders-eu", now, runs=runs, audit=audit, ...)
    for notification in due(facts): ...

Ended runs are news for a day: who switches notifications on is not notified of all runs that there
ever were.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from counterpoise.model.finding import AuditReport, Finding
from counterpoise.model.notification import Notification, NotificationEvent
from counterpoise.model.run import Run, RunState
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize

ENDED_FOR: Final = timedelta(days=1)  # an ended run is news
PENDING_FOR: Final = timedelta(hours=1)  # a restore that waits for so long is news
_MAX_LINES: Final = 20
_PAGES: Final = "counterpoise"


@dataclass(frozen=True, slots=True)
class NotificationFacts:
    """What is known of one cluster at `now` (UTC)."""

    cluster: str
    now: datetime
    runs: Sequence[Run] = ()
    second_asked: Collection[str] = ()  # of those that wait, the ones that somebody has approved
    may_answer: Mapping[str, str] = field(default_factory=dict)  # who, by run; else everybody
    why_requested: Mapping[str, str] = field(default_factory=dict)  # by run, of those that wait
    pending_restores: Mapping[str, int] = field(default_factory=dict)  # config keys, by ended run
    audit: AuditReport | None = None  # the newest
    notified_findings: Collection[str] = ()  # keys of those that were open when some were news last


def due(facts: NotificationFacts) -> tuple[Notification, ...]:
    """Return what people are notified of now. The ledger knows which of the runs' events they were
    notified of before.
    """
    about_runs = (note for run in facts.runs for note in _about_run(run, facts))
    return (*about_runs, *_about_findings(facts))


def critical_findings(audit: AuditReport | None) -> dict[str, Finding]:
    """Return the open critical findings of an audit by key: one that is gone, and is found again,
    has another key.
    """
    found = audit.open_at(Severity.CRITICAL) if audit else ()
    return {
        f"{one.finding.rule} {one.finding.subject} {one.first_seen.isoformat()}": one.finding
        for one in found
    }


# -- runs


def _about_run(run: Run, facts: NotificationFacts) -> Iterator[Notification]:
    closed_for = facts.now - run.closed_at if run.closed_at else timedelta(0)
    is_recent = run.closed_at is not None and closed_for < ENDED_FOR
    if run.state is RunState.PROPOSED:
        yield _question(run, facts)
    elif run.state is RunState.RUNNING:
        yield _run_event(run, NotificationEvent.STARTED, "started")
    elif run.state is RunState.HALTED and is_recent:
        yield _run_event(run, NotificationEvent.HALTED, "halted", run.reason)
    elif run.state is RunState.CANCELLED and is_recent:
        yield _run_event(run, NotificationEvent.CANCELLED, "is cancelled", run.reason)
    elif run.state is RunState.DONE and is_recent:
        yield _run_event(run, NotificationEvent.DONE, "is done")
    pending = facts.pending_restores.get(run.run_id, 0)
    if pending and closed_for >= PENDING_FOR:
        yield _run_event(
            run,
            NotificationEvent.PENDING_RESTORES,
            f"has ended, and {pluralize(pending, 'config key')} of it not restored yet",
            "kafka_throttle_watch restores them when their brokers respond; its log names them.",
        )


def _question(run: Run, facts: NotificationFacts) -> Notification:
    is_second = run.run_id in facts.second_asked
    may_answer = facts.may_answer.get(run.run_id, "everybody whom Airflow lets answer")
    why = facts.why_requested.get(run.run_id, "").rstrip(".")
    answer = "a second person's yes or no" if is_second else "a yes or a no"
    return Notification(
        NotificationEvent.QUESTION,
        run.cluster,
        f"{run.cluster}: a plan waits for {answer}",
        (
            f"Requested by {run.requester.shown}{': ' if why else ''}{why}.",
            f"Who may answer: {may_answer}.",
        ),
        f"{_PAGES}/runs/{quote(run.run_id, safe='')}",
        run.run_id,
        f"{NotificationEvent.QUESTION} {run.run_id}{' second' if is_second else ''}",
    )


def _run_event(run: Run, event: NotificationEvent, words: str, *lines: str) -> Notification:
    # A run that halted may be executed again, and then halts again.
    at = f" {run.closed_at.isoformat()}" if run.closed_at else ""
    return Notification(
        event,
        run.cluster,
        f"{run.cluster}: run {run.run_id} {words}",
        lines,
        f"{_PAGES}/runs/{quote(run.run_id, safe='')}",
        run.run_id,
        f"{event} {run.run_id}{at}",
    )


# -- findings


def _about_findings(facts: NotificationFacts) -> Iterator[Notification]:
    """Yield one message about all critical findings that are new."""
    found = critical_findings(facts.audit)
    new = [finding for key, finding in found.items() if key not in facts.notified_findings]
    if not new:
        return
    lines = [f"{finding.severity}: {finding.summary} ({finding.rule})" for finding in new]
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"and {len(lines) - _MAX_LINES} more"]
    yield Notification(
        NotificationEvent.FINDINGS_NEW,
        facts.cluster,
        f"{facts.cluster}: the audit has {pluralize(len(new), 'new critical finding')}",
        tuple(lines),
        f"{_PAGES}/clusters/{facts.cluster}/findings",
    )
