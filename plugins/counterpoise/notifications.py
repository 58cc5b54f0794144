"""What is to be told about a cluster now, and what of it somebody was not told yet. Pure.

    facts = NotificationFacts("orders-eu", now, runs=runs, audit=audit, ...)
    for notification in untold(due(facts, policy.notify), keys_delivered): ...

Each thing has a key (`halted/run-7/...`), the same whenever it is asked, so it is told once. Ended
runs are told for a day: who switches notifications on is not told of all runs that there ever were.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from counterpoise.model.finding import AuditReport, Finding
from counterpoise.model.notification import Channel, Notification, NotificationEvent, Target
from counterpoise.model.policy import NotifyPolicy
from counterpoise.model.run import Run, RunState
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.units import format_moment, format_seconds

ENDED_FOR: Final = timedelta(days=1)  # an ended run is told of
_DISK_DAYS: Final = (1, 7, 30)  # each is told once a month and broker
_MAX_LINES: Final = 20
_PAGES: Final = "counterpoise"
_CLOSED_STATES: Final = (RunState.REJECTED, RunState.SUPERSEDED)


@dataclass(frozen=True, slots=True)
class NotificationFacts:
    """What is known of one cluster at `now` (UTC)."""

    cluster: str
    now: datetime
    runs: Sequence[Run] = ()
    second_asked: Mapping[str, datetime] = field(default_factory=dict)  # since when, by run
    may_answer: Mapping[str, str] = field(default_factory=dict)  # who, by run; else everybody
    why_requested: Mapping[str, str] = field(default_factory=dict)  # by run, of those that wait
    audit: AuditReport | None = None  # the newest
    pending_restores: int = 0
    snapshot_at: datetime | None = None  # of the newest snapshot
    no_snapshot_since: datetime | None = None  # when it was first noticed that there never was one
    first_full_broker: int | None = None
    first_full_days: float | None = None


def targets(policy: NotifyPolicy) -> tuple[Target, ...]:
    """Return everybody whom the policy names, each once."""
    webhooks = (Target(Channel.WEBHOOK, name, name) for name in policy.webhooks)
    people = (Target(Channel.EMAIL, name, policy.smtp_connection) for name in policy.email)
    return tuple(dict.fromkeys((*webhooks, *people)))


def due(facts: NotificationFacts, policy: NotifyPolicy) -> tuple[Notification, ...]:
    """Return all that the policy wants told now, whether it was told or not."""
    found = (
        *(note for run in facts.runs for note in _of_run(run, facts, policy)),
        *_of_audit(facts, policy),
        *_of_restores(facts),
        *_of_disks(facts),
        *_of_overdue_snapshot(facts, policy),
    )
    return tuple(note for note in found if is_wanted(note, policy))


def is_wanted(notification: Notification, policy: NotifyPolicy) -> bool:
    """Return whether the policy wants an event of this severity told."""
    is_grave = notification.severity.rank >= policy.min_severity.rank
    return is_grave and (not policy.events or notification.event in policy.events)


def untold(
    notifications: Iterable[Notification], keys_delivered: Collection[str]
) -> tuple[Notification, ...]:
    """Return what is left to tell somebody who was told of `keys_delivered`.

    A list of findings of which some were told is told without these.
    """
    left = []
    for notification in notifications:
        at = [place for place, key in enumerate(notification.keys) if key not in keys_delivered]
        if len(at) == len(notification.keys):
            left.append(notification)
        elif at:
            keys = tuple(notification.keys[place] for place in at)
            lines = tuple(notification.lines[place] for place in at)
            left.append(replace(notification, keys=keys, lines=lines))
    return tuple(map(_shortened, left))


def _shortened(notification: Notification) -> Notification:
    lines = notification.lines
    if len(lines) <= _MAX_LINES:
        return notification
    more = f"and {len(lines) - _MAX_LINES} more"
    return replace(notification, lines=(*lines[:_MAX_LINES], more))


# -- runs


def _of_run(run: Run, facts: NotificationFacts, policy: NotifyPolicy) -> Iterator[Notification]:
    is_recent = run.closed_at is not None and facts.now - run.closed_at < ENDED_FOR
    if run.state == RunState.PROPOSED or run.run_id in facts.second_asked:
        yield from _of_question(run, facts, policy)
    elif run.state == RunState.RUNNING:
        yield _about_run(run, NotificationEvent.STARTED, Severity.INFO, "started", ())
    elif run.state == RunState.HALTED and is_recent:
        yield _about_run(run, NotificationEvent.HALTED, Severity.CRITICAL, "halted", (run.reason,))
    elif run.state == RunState.DONE and is_recent:
        yield _about_run(run, NotificationEvent.DONE, Severity.INFO, "is done", ())
    elif run.state in _CLOSED_STATES and is_recent:
        # As grave as the question: whoever was asked is told that nobody has to answer any more.
        words, lines = f"is {run.state}", (run.reason,) if run.reason else ()
        yield _about_run(run, NotificationEvent.CLOSED, Severity.WARNING, words, lines)


def _of_question(
    run: Run, facts: NotificationFacts, policy: NotifyPolicy
) -> Iterator[Notification]:
    is_second = run.run_id in facts.second_asked
    waits_for = facts.now - facts.second_asked.get(run.run_id, run.opened_at)
    may_answer = facts.may_answer.get(run.run_id, "everybody whom Airflow lets answer")
    why = facts.why_requested.get(run.run_id, "").rstrip(".")
    lines = (
        f"Requested by {run.requester.shown}{': ' if why else ''}{why}.",
        f"Who may answer: {may_answer}.",
    )
    about = f"{run.run_id}/second" if is_second else run.run_id
    answer = "a second person's yes or no" if is_second else "a yes or a no"
    page = f"{_PAGES}/runs/{quote(run.run_id, safe='')}/plan"
    yield Notification(
        (f"question/{about}",),
        NotificationEvent.QUESTION,
        Severity.WARNING,
        run.cluster,
        f"{run.cluster}: a plan waits for {answer}",
        lines,
        page,
    )
    count = math.floor(waits_for / policy.remind_after)
    if count >= 1:
        seconds = (count * policy.remind_after).total_seconds()
        yield Notification(
            (f"reminder/{about}/{count}",),
            NotificationEvent.REMINDER,
            Severity.WARNING,
            run.cluster,
            f"{run.cluster}: a plan has waited for an answer for {format_seconds(seconds)}",
            lines,
            page,
        )


def _about_run(
    run: Run, event: NotificationEvent, severity: Severity, words: str, lines: tuple[str, ...]
) -> Notification:
    # A run that halted may be executed again, and then halts again.
    at = f"/{run.closed_at.isoformat()}" if run.closed_at else ""
    return Notification(
        (f"{event}/{run.run_id}{at}",),
        event,
        severity,
        run.cluster,
        f"{run.cluster}: run {run.run_id} {words}",
        lines,
        f"{_PAGES}/runs/{quote(run.run_id, safe='')}",
    )


# -- audits


def _of_audit(facts: NotificationFacts, policy: NotifyPolicy) -> Iterator[Notification]:
    audit = facts.audit
    if audit is None:
        return
    new = [
        (_key_of("finding", one.finding, one.first_seen), one.finding)
        for one in audit.open_at(policy.min_severity)
    ]
    yield from _about_findings(facts, NotificationEvent.FINDINGS_NEW, new)
    gone = [
        (_key_of("gone", finding, audit.audited_at), finding)
        for finding in audit.resolved
        if finding.severity.rank >= policy.min_severity.rank
    ]
    yield from _about_findings(facts, NotificationEvent.FINDINGS_GONE, gone)


def _key_of(what: str, finding: Finding, at: datetime) -> str:
    return f"{what}/{finding.rule}/{finding.subject}/{at.isoformat()}"


def _about_findings(
    facts: NotificationFacts, event: NotificationEvent, found: list[tuple[str, Finding]]
) -> Iterator[Notification]:
    if not found:
        return
    worst = max((finding.severity for _, finding in found), key=lambda severity: severity.rank)
    words = "is gone" if event == NotificationEvent.FINDINGS_GONE else "needs attention"
    yield Notification(
        tuple(key for key, _ in found),
        event,
        worst,
        facts.cluster,
        f"{facts.cluster}: what the audit found {words}",
        tuple(f"{finding.severity}: {finding.summary} ({finding.rule})" for _, finding in found),
        f"{_PAGES}/clusters/{facts.cluster}/audit",
    )


# -- the cluster


def _of_restores(facts: NotificationFacts) -> Iterator[Notification]:
    if not facts.pending_restores:
        return
    keys = pluralize(facts.pending_restores, "throttle key")
    yield Notification(
        (f"pending-restores/{facts.now:%Y-%m-%d}",),
        NotificationEvent.PENDING_RESTORES,
        Severity.WARNING,
        facts.cluster,
        f"{facts.cluster}: {keys} of ended runs not restored yet",
        ("kafka_throttle_watch restores them when their brokers respond; its log names them.",),
        f"{_PAGES}/clusters/{facts.cluster}",
    )


def _of_disks(facts: NotificationFacts) -> Iterator[Notification]:
    days = facts.first_full_days
    reached = [limit for limit in _DISK_DAYS if days is not None and days <= limit]
    if not reached or days is None:
        return
    yield Notification(
        (f"disk/{facts.first_full_broker}/{reached[0]}/{facts.now:%Y-%m}",),
        NotificationEvent.DISK_FULL_SOON,
        Severity.CRITICAL if reached[0] < max(_DISK_DAYS) else Severity.WARNING,
        facts.cluster,
        f"{facts.cluster}: a disk of broker {facts.first_full_broker} is full in "
        f"{format_seconds(days * 86_400)}",
        ("If it goes on as in the last two weeks.",),
        f"{_PAGES}/clusters/{facts.cluster}",
    )


def _of_overdue_snapshot(facts: NotificationFacts, policy: NotifyPolicy) -> Iterator[Notification]:
    since = facts.snapshot_at or facts.no_snapshot_since
    if since is None or facts.now - since < policy.overdue_after:
        return
    at, words, figures = "never", "no snapshot yet, though one is due", "nothing is known of it"
    if facts.snapshot_at:
        at = facts.snapshot_at.isoformat()
        words, figures = f"no new snapshot since {format_moment(since)}", "all figures are old"
    yield Notification(
        (f"silent/{at}",),
        NotificationEvent.SILENT,
        Severity.CRITICAL,
        facts.cluster,
        f"{facts.cluster}: {words}",
        (f"The newest run of kafka_snapshot says why; until then {figures}.",),
        f"{_PAGES}/clusters/{facts.cluster}",
    )
