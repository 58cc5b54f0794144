"""Tells people what they were not told yet about a cluster: questions, runs, findings, silence.

    notify(installation, "orders-eu", deliver)     # deliver(target, notification) sends one

What could not be delivered is told by the next task that calls this. A failure is logged by its
type alone: its text may hold the address of a webhook, which is a secret.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from counterpoise import access, approval, notifications
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.finding import AuditReport
from counterpoise.model.notification import Notification, Target
from counterpoise.model.run import Run, RunState, why_requested
from counterpoise.model.safe_text import safe_logger
from counterpoise.notifications import NotificationFacts

_LOGGER = safe_logger(__name__)
_SOON: Final = timedelta(days=1)  # an audit may be scheduled a little ahead of our clock

Deliver = Callable[[Target, Notification], None]


class DeliveryError(CounterpoiseError):
    """A message could not be delivered; the text says why, without an address or a token."""

    retryable = True


def notify(installation: Installation, cluster: str, deliver: Deliver) -> int:
    """Tell everybody whom the policy names what they were not told; return how many messages.

    Raises LedgerError, StoreError, InputError for an unknown cluster.
    """
    policy = installation.cluster(cluster).policy.notify
    if not notifications.targets(policy):
        return 0
    found = notifications.due(_facts(installation, cluster), policy)
    return _tell(installation, cluster, found, deliver)


def notify_of(installation: Installation, notification: Notification, deliver: Deliver) -> int:
    """Tell everybody whom the policy of its cluster names one thing, as `notify` does."""
    policy = installation.cluster(notification.cluster).policy.notify
    found = [notification] if notifications.is_wanted(notification, policy) else []
    return _tell(installation, notification.cluster, found, deliver)


def _tell(
    installation: Installation, cluster: str, found: Iterable[Notification], deliver: Deliver
) -> int:
    policy = installation.cluster(cluster).policy.notify
    found = tuple(found)
    if not found:
        return 0
    told = installation.ledger.notifications()
    count = 0
    for target in notifications.targets(policy):
        known = told.settled_keys(cluster, str(target))
        for notification in notifications.untold(found, known):
            count += _deliver(installation, target, notification, deliver)
    return count


def _deliver(
    installation: Installation, target: Target, notification: Notification, deliver: Deliver
) -> bool:
    told = installation.ledger.notifications()
    row = (notification.cluster, str(target), notification.keys)
    if not told.claim(*row):
        return False
    try:
        deliver(target, notification)
    except Exception as error:  # noqa: BLE001 - of any library; told again by the next task
        told.release(*row)
        reason = str(error) if isinstance(error, CounterpoiseError) else type(error).__name__
        _LOGGER.warning(
            "%s was not told %s (%s): %s. The next Dag run tries again",
            target,
            notification.event,
            notification.cluster,
            reason,
        )
        return False
    told.mark_delivered(*row)
    return True


def _facts(installation: Installation, cluster: str) -> NotificationFacts:
    ledger, now = installation.ledger, installation.ledger.now()
    state = ledger.cluster_states([cluster]).get(cluster)
    snapshot_at = state.snapshot_at if state else None
    figures = installation.archive.fleet_figures().get(cluster, {})
    runs = ledger.runs(cluster=cluster)
    second_asked = ledger.second_questions([cluster])
    waiting = [run for run in runs if run.state is RunState.PROPOSED or run.run_id in second_asked]
    return NotificationFacts(
        cluster=cluster,
        now=now,
        runs=runs,
        second_asked=second_asked,
        may_answer={
            run.run_id: who for run in waiting if (who := _who_may_answer(installation, run))
        },
        why_requested={
            run.run_id: why_requested(ledger.journal(run.run_id).events()) for run in waiting
        },
        audit=_newest_audit(installation, cluster),
        pending_restores=state.pending_restores if state else 0,
        snapshot_at=snapshot_at,
        no_snapshot_since=None if snapshot_at else _no_snapshot_since(installation, cluster),
        first_full_broker=figures.get("first_full_broker"),
        first_full_days=figures.get("first_full_days"),
    )


def _no_snapshot_since(installation: Installation, cluster: str) -> datetime:
    """Return when it was first noticed that a cluster has no snapshot: whoever has just added it
    to the settings is not told so.
    """
    return installation.ledger.notifications().noticed_since(cluster, "no snapshot")


def _who_may_answer(installation: Installation, run: Run) -> str:
    """Return who may still answer, in words; "" where everybody may."""
    people = installation.settings.people
    approvals = installation.ledger.approvals_of(run.run_id)
    approved_by = approval.approvers_in_force(approvals, people)
    policy = installation.cluster(run.cluster).policy
    try:
        return ", ".join(access.people_to_ask(policy, people, run.requester, approved_by))
    except RefusedError as error:
        return f"nobody, since {error}"


def _newest_audit(installation: Installation, cluster: str) -> AuditReport | None:
    return installation.archive.audit_before(cluster, installation.clock() + _SOON)
