"""Requests of people: pause, another rate, cancel, undo, freeze, release.

    pause(installation, run_id, by=bob, why="month end")
    freeze(installation, "orders-eu", until="8h", by=bob, why="month end")
    release(installation, "orders-eu", "7", by=bob, why="broker 7 has its new disks")
    in_force(installation, ["orders-eu"])["orders-eu"].frozen

Each writes a row of the ledger, never the cluster; the run does it at its next step. Who may do
what is in `access.py`. Each raises InputError for what cannot be used, RefusedError for what may
not be requested or would do nothing; nothing has been written then.
"""

from collections.abc import Iterable
from typing import Any, Final

from counterpoise import access
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.control import ActiveRequests, Control, ControlRequest, find_active_requests
from counterpoise.model.grouping import grouped
from counterpoise.model.person import Person
from counterpoise.model.policy import Action
from counterpoise.model.request import read_broker_ids
from counterpoise.model.run import UNDER_WAY_STATES, UNDO_PLAN_ASKED, Run, RunState
from counterpoise.model.safe_text import limited, required
from counterpoise.model.words import join_ids, list_brokers, verb
from counterpoise.services import approvals
from counterpoise.services.left import left_of
from counterpoise.units import parse_until

_LOOKED_AFTER: Final = (
    "the watch ends that as soon as Kafka lets it (`counterpoise watch`); the run's events say "
    "what Kafka refused"
)
_NOTHING_LEFT: Final = (
    "it has ended, and nothing of it is under way; `counterpoise status` names the runs that are"
)


def in_force(installation: Installation, clusters: Iterable[str]) -> dict[str, ActiveRequests]:
    """Return by cluster, in order, what holds there now, and of the run under way there."""
    now, requests = installation.ledger.now(), installation.ledger.current_requests()
    by_cluster = grouped((request.cluster, request) for request in requests)
    names = sorted(set(clusters))
    return {name: find_active_requests(by_cluster.get(name, ()), now) for name in names}


def check_may(installation: Installation, cluster: str, person: Person, action: Action) -> None:
    """Raise RefusedError for somebody who may not do something with a cluster, InputError for a
    cluster that the settings do not name.
    """
    access.check_may(installation.cluster(cluster).policy, person, action)


def pause(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Ask a run to submit nothing new; what is in flight finishes."""
    run = _run_under_way(installation, run_id, by, Control.PAUSE)
    if run.state is RunState.SETTLING:
        raise RefusedError(
            f"run {run_id} is settling: it starts nothing new anyway, so there is nothing to pause"
        )
    return _record(installation, run.cluster, Control.PAUSE, by, why, run_id=run_id)


def resume(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Ask a paused run to go on."""
    run = _run_under_way(installation, run_id, by, Control.RESUME)
    if installation.active_requests(run.cluster, run_id).paused is None:
        raise RefusedError(
            f"run {run_id} is not paused; `counterpoise status {run_id}` says what it waits for"
        )
    return _record(installation, run.cluster, Control.RESUME, by, why, run_id=run_id)


def change_rate(
    installation: Installation, run_id: str, rate: str, *, by: Person, why: str
) -> ControlRequest:
    """Ask a run to copy at another rate from its next step on.

    More than what was approved is an approval, too.
    """
    run = _run_under_way(installation, run_id, by, Control.RATE)
    policy, wanted = installation.cluster(run.cluster).policy, approvals.typed_rate(rate)
    if wanted > _approved_rate(installation, run_id):
        access.check_may_approve(policy, by, run.requester)
    else:
        access.check_may(policy, by, Action.OPERATE)
    usable = approvals.usable_rate(installation, installation.plan_of(run), wanted)
    return _record(
        installation,
        run.cluster,
        Control.RATE,
        by,
        why,
        run_id=run_id,
        rate_bytes_per_second=usable,
    )


def _approved_rate(installation: Installation, run_id: str) -> int:
    rates = [
        approval.rate_bytes_per_second
        for approval in installation.ledger.approvals_of(run_id)
        if approval.decision is Decision.GRANTED
    ]
    return (rates[-1] or 0) if rates else 0


def cancel(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Ask a run to cancel what is in flight, to settle and to end as cancelled."""
    run = _run_under_way(installation, run_id, by, Control.CANCEL)
    return _record(installation, run.cluster, Control.CANCEL, by, why, run_id=run_id)


def undo(installation: Installation, run_id: str, *, by: Person, why: str) -> ControlRequest:
    """Cancel a run that somebody wants to undo; the undo plan, made after its end, is approved on
    its own.
    """
    run = _run_under_way(installation, run_id, by, Control.UNDO)
    return _record(installation, run.cluster, Control.UNDO, by, why, run_id=run_id)


def undo_by_dag_run(dag_run_id: str) -> str:
    """Return how an undo is noted whose plan a Dag run makes."""
    return f"Dag run {dag_run_id} makes the plan"


def note_undo(installation: Installation, run_id: str, plan: str, *, by: Person, why: str) -> None:
    """Note, once, at an ended run who takes back what it moved, why, and by which plan."""
    text = f"by {by.shown}: {required(why, 'why')}; {plan}"
    journal = installation.ledger.journal(run_id)
    if not any((event.kind, event.text) == (UNDO_PLAN_ASKED, text) for event in journal.events()):
        journal.event(UNDO_PLAN_ASKED, text)


def freeze(
    installation: Installation, cluster: str, *, until: str, by: Person, why: str
) -> ControlRequest:
    """Let no run there start, or submit anything, until then."""
    check_may(installation, cluster, by, Action.OPERATE)
    end = parse_until(until, installation.ledger.now())
    return _record(installation, cluster, Control.FREEZE, by, why, until=end)


def unfreeze(installation: Installation, cluster: str, *, by: Person, why: str) -> ControlRequest:
    """End a freeze."""
    check_may(installation, cluster, by, Action.OPERATE)
    if installation.active_requests(cluster).frozen is None:
        raise RefusedError(f"cluster {cluster} is not frozen, so there is no freeze to end")
    return _record(installation, cluster, Control.UNFREEZE, by, why)


def release(
    installation: Installation, cluster: str, brokers: str, *, by: Person, why: str
) -> tuple[ControlRequest, ...]:
    """Let plans move replicas and leaders to brokers like `7,8` again: to all of them, or none."""
    check_may(installation, cluster, by, Action.OPERATE)
    broker_ids = sorted(set(read_broker_ids(limited(brokers, "brokers"), "brokers")))
    kept_empty = installation.active_requests(cluster).kept_empty
    if others := sorted(set(broker_ids) - kept_empty.keys()):
        there_are = join_ids([*kept_empty]) if kept_empty else "none"
        raise RefusedError(
            f"{list_brokers(others)} of {cluster} {verb(len(others), 'is', 'are')} not kept empty, "
            f"so there is nothing to release; kept empty: {there_are}"
        )
    return tuple(
        _record(installation, cluster, Control.RELEASE, by, why, broker_id=broker_id)
        for broker_id in broker_ids
    )


def _record(
    installation: Installation,
    cluster: str,
    control: Control,
    by: Person,
    why: str,
    *,
    run_id: str | None = None,
    **values: Any,
) -> ControlRequest:
    """Record a request, with other `values` of it, of somebody who may make it."""
    request = ControlRequest(
        cluster=cluster,
        run_id=run_id,
        control=control,
        by=by.recorded,
        why=required(why, "why"),
        at=installation.ledger.now(),
        **values,
    )
    return installation.ledger.record_request(request)


def _run_under_way(installation: Installation, run_id: str, by: Person, control: Control) -> Run:
    """Return a run that is under way, for somebody who may operate its cluster, or change the rate
    of its runs; the refusal of another one says what to do instead.
    """
    run = installation.ledger.run(run_id)
    policy = installation.cluster(run.cluster).policy
    if not (control is Control.RATE and access.may(policy, by, Action.APPROVE)):
        access.check_may(policy, by, Action.OPERATE)
    if run.state in UNDER_WAY_STATES:
        return run
    if run.state not in (RunState.PROPOSED, RunState.APPROVED):
        left = left_of(installation, run_id)
        instead = f"it has ended, and {left.in_words}: {_LOOKED_AFTER}" if left else _NOTHING_LEFT
    elif control is Control.RATE:
        instead = (
            "it has moved nothing yet; approve the plan at the rate that you want "
            "(`counterpoise approve`)"
        )
    else:
        reject = f"counterpoise reject {run_id} --reason TEXT"
        instead = f"it has moved nothing yet; `{reject}` says no to it"
    raise RefusedError(f"run {run_id} is {run.state}, so {control} can do nothing: {instead}")
