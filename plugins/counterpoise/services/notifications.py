"""Notifies people of what is new about a cluster: plans that wait, runs, findings, restores.

    notify(installation, "orders-eu", send)     # send(target, notification), or a DeliveryError
    send_test(notify_targets(installation))     # {Target(...): "" or why it was not sent}

The ledger has on record what people have been notified of. A message that reaches nobody is sent
again by the next task, for as long as it is news; the log says why, without the text of an error:
that may hold the address of a webhook, which is a secret.

Limits: a message that reaches one of several targets is not sent again to the others. Two tasks at
the same moment may send one twice.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from counterpoise import notifications
from counterpoise.airflow_process import answer_of_airflow, why_no_airflow
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.installation import Installation
from counterpoise.model.notification import Notification, NotificationEvent, Target
from counterpoise.model.run import Run, RunState, why_requested
from counterpoise.model.safe_text import safe_logger
from counterpoise.notifications import NotificationFacts
from counterpoise.services.approvals import whose_yes
from counterpoise.views.plan import PlanView

_LOGGER = safe_logger(__name__)

NOTIFIED: Final = "notified"  # the kind of an event
_SOON: Final = timedelta(days=1)  # an audit may be scheduled a little ahead of our clock

Send = Callable[[Target, Notification], None]


_TEST_MODULE: Final = "counterpoise.orchestration.send_test"
_NOT_IN_TIME: Final = "Airflow did not send it in time"


class DeliveryError(CounterpoiseError):
    """A message could not be sent; the text says why, without an address or a token."""


def notify_targets(
    installation: Installation, cluster: str | None = None
) -> dict[Target, tuple[str, ...]]:
    """Return whom the policies name, each with the clusters that they are notified about.

    Raises InputError where nobody is named.
    """
    settings = installation.settings
    names = sorted(settings.clusters) if cluster is None else [cluster]
    found: dict[Target, tuple[str, ...]] = {}
    for name in names:
        for target in installation.cluster(name).policy.notify.targets:
            found[target] = (*found.get(target, ()), name)
    if not found:
        raise InputError(
            f"{settings.where} names nobody to notify{f' about {cluster}' if cluster else ''}: "
            "write `notify: {webhooks: [ID]}`, ID being an Airflow connection of type http, or "
            "`notify: {email: [ADDRESS]}` (docs/api.md, Webhooks)"
        )
    return found


def send_test(
    targets: Mapping[Target, Collection[str]], by: str, *, timeout_seconds: float
) -> dict[Target, str]:
    """Send a message to each target, by Airflow's connections; return why it was not sent, "" where
    it was.

    Raises DeliveryError where there is no Airflow.
    """
    if reason := why_no_airflow():
        raise DeliveryError(
            f"messages go by Airflow's connections, and there is no Airflow here ({reason}). Type "
            "this where tasks run, with their environment, as for `counterpoise self-check`"
        )
    asked = [
        {
            "channel": target.channel,
            "name": target.name,
            "connection_id": target.connection_id,
            "lines": [f"Messages about {', '.join(names)} come here.", f"Sent by {by}."],
        }
        for target, names in targets.items()
    ]
    answers = answer_of_airflow(_TEST_MODULE, timeout_seconds, asked) or []
    reasons = (*answers, *[_NOT_IN_TIME] * len(asked))
    return dict(zip(targets, reasons, strict=False))


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
        if not is_wanted or _is_known(installation, notification):
            continue
        if notification.event is NotificationEvent.QUESTION:
            notification = _with_plan(installation, notification)
        reached = sum(_is_sent(target, notification, send) for target in targets)
        if reached:
            _record(installation, notification, facts)
        count += reached
    return count


def _with_plan(installation: Installation, notification: Notification) -> Notification:
    """Return a question that says what its plan does, before who asks and who may answer."""
    try:
        _, plan = installation.run_and_plan(str(notification.run_id))
        view = PlanView.offered(plan, installation.cluster(plan.cluster).policy.movement)
    except CounterpoiseError as error:
        _LOGGER.warning("the plan of run %s cannot be read: %s", notification.run_id, error)
        return notification
    what = f"{view.goal_in_words}: {view.sentence}."
    return replace(notification, lines=(what, *notification.lines))


def _is_known(installation: Installation, notification: Notification) -> bool:
    """Return whether people have been notified of it; of findings, only new ones are due."""
    if notification.run_id is None:
        return False
    events = installation.ledger.journal(notification.run_id).events()
    return any(one.kind == NOTIFIED and one.text == notification.subject for one in events)


def _record(
    installation: Installation, notification: Notification, facts: NotificationFacts
) -> None:
    """Put on record that people have been notified of it."""
    ledger = installation.ledger
    if notification.run_id is not None:
        ledger.journal(notification.run_id).event(NOTIFIED, notification.subject)
    else:
        findings = notifications.critical_findings(facts.audit)
        ledger.record_notified_findings(facts.cluster, findings)


def _is_sent(target: Target, notification: Notification, send: Send) -> bool:
    """Send a message, and return whether it could be sent."""
    try:
        send(target, notification)
    except DeliveryError as error:
        what = f"{notification.event} ({notification.cluster})"
        _LOGGER.warning("%s was not sent to %s: %s", what, target, error)
        return False
    return True


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
    yes = whose_yes(policy, run, ledger.approvals_of(run.run_id), ledger.now())
    return f"nobody, since {yes.why_nobody}" if yes.why_nobody else ", ".join(yes.may_give)
