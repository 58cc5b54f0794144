"""Notifies people of what is new about a cluster: plans that wait, runs, findings, restores.

    notify(installation, "orders-eu", send)     # send(target, notification), or a DeliveryError

The ledger has on record what people are notified of before it is sent, so nobody is notified twice,
whoever calls this. When a message reaches nobody, that is on record too, and the next task tries
again. The reason is kept without the text of an error: that may hold the address of a webhook,
which is a secret.

Limits: a message that reaches one of several targets is not sent again to the others. One whose
process dies between the record and the sending is lost.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from counterpoise import access, approval, notifications
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.notification import Notification, Target
from counterpoise.model.run import Run, RunState, why_requested
from counterpoise.model.safe_text import safe_logger
from counterpoise.notifications import NotificationFacts

_LOGGER = safe_logger(__name__)

_SOON: Final = timedelta(days=1)  # an audit may be scheduled a little ahead of our clock

Send = Callable[[Target, Notification], None]


class DeliveryError(CounterpoiseError):
    """A message could not be sent; the text says why, without an address or a token."""


def notify(installation: Installation, cluster: str, send: Send) -> int:
    """Notify whom the policy names of what is new; return how many messages were sent.

    Raises LedgerError, StoreError, InputError for an unknown cluster.
    """
    policy = installation.cluster(cluster).policy.notify
    targets = policy.targets
    if not targets:
        return 0
    facts = _facts(installation, cluster)
    count = 0
    for notification in notifications.due(facts):
        is_wanted = not policy.events or notification.event in policy.events
        if is_wanted and _begin(installation, notification, facts):
            failures = [_send(target, notification, send) for target in targets]
            reasons = [reason for reason in failures if reason]
            if len(reasons) == len(targets):
                _take_back(installation, notification, facts, "; ".join(reasons))
            count += len(targets) - len(reasons)
    return count


def _begin(
    installation: Installation, notification: Notification, facts: NotificationFacts
) -> bool:
    """Put on record that people are notified of it; False where they were, or are right now."""
    if notification.run_id is not None:
        journal = installation.ledger.journal(notification.run_id)
        return journal.begin_notifying(notification.subject)
    return installation.ledger.record_notified_findings(
        facts.cluster, facts.notified_findings, notifications.critical_findings(facts.audit)
    )


def _take_back(
    installation: Installation, notification: Notification, facts: NotificationFacts, why: str
) -> None:
    """Put on record that nobody was reached."""
    if notification.run_id is not None:
        journal = installation.ledger.journal(notification.run_id)
        journal.nobody_was_reached(notification.subject, why)
    else:
        installation.ledger.record_notified_findings(
            facts.cluster, notifications.critical_findings(facts.audit), facts.notified_findings
        )


def _send(target: Target, notification: Notification, send: Send) -> str:
    """Send a message, and return why it could not be sent; "" where it was."""
    try:
        send(target, notification)
    except DeliveryError as error:
        why = f"not sent to {target}: {error}"
        _LOGGER.warning("%s (%s) was %s", notification.event, notification.cluster, why)
        return why
    return ""


def _facts(installation: Installation, cluster: str) -> NotificationFacts:
    ledger = installation.ledger
    runs = ledger.runs(cluster=cluster)
    waiting = [run for run in runs if run.state is RunState.PROPOSED]
    return NotificationFacts(
        cluster=cluster,
        now=ledger.now(),
        runs=runs,
        second_asked={run.run_id for run in waiting if ledger.approvals_of(run.run_id)},
        may_answer={
            run.run_id: who for run in waiting if (who := _who_may_answer(installation, run))
        },
        why_requested={
            run.run_id: why_requested(ledger.journal(run.run_id).events()) for run in waiting
        },
        pending_restores=ledger.pending_restores_by_run(cluster),
        audit=installation.archive.audit_before(cluster, installation.clock() + _SOON),
        notified_findings=ledger.notified_findings(cluster),
    )


def _who_may_answer(installation: Installation, run: Run) -> str:
    """Return who may still answer, in words; "" where everybody may."""
    policy, ledger = installation.cluster(run.cluster).policy, installation.ledger
    approvals = ledger.approvals_of(run.run_id)
    needed = 2 if approvals else 1  # it waits although one has approved
    standing = approval.standing_approvals(policy, run, approvals, ledger.now(), needed=needed)
    approved_by = [one.person for one in standing]
    try:
        return ", ".join(access.people_to_ask(policy, run.requester, approved_by))
    except RefusedError as error:
        return f"nobody, since {error}"
