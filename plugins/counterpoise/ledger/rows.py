"""Rows of the ledger, within a transaction of the caller: runs, what people say of them, and what
they own on a cluster.

    with transactions.for_run(run_id) as connection:
        set_state(connection, run_id, RunState.SETTLING, "cancelled by bob", now)
        before = record_touch(connection, run_id, keys, now)

Which states lead where is in one table, `model.run.TRANSITIONS`.

A run owns a config key from the intent of its first call on, and a target of a partition likewise.
The intent of a call sets `unanswered_at`, and the answer puts back what it was: where none comes,
the call may be made for a day. Of each key of a cluster one row is open: until nothing of the run
is in the key (`done_at`), and each call that sets something there was answered, or is void. The row
of a target is open until nothing of it can be under way any more, and stays then, for an undo.

Statements that each step executes are built once: to build one takes longer than to execute it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.errors import RefusedError, RunConflictError
from counterpoise.ledger.schema import events, owned_keys, pulses, requests, runs, submitted
from counterpoise.ledger.transactions import insert_if_missing, note
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control, ControlRequest, find_active_requests
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.person import Person
from counterpoise.model.run import (
    LOST_AFTER,
    OPEN_STATES,
    TRANSITIONS,
    UNDER_WAY_STATES,
    OwnedKey,
    Run,
    RunState,
    Submitted,
)


def read_run(row: sa.Row[Any]) -> Run:
    return Run(
        run_id=row.run_id,
        cluster=row.cluster,
        fingerprint=row.fingerprint,
        plan_uri=row.plan_uri,
        state=RunState(row.state),
        reason=row.reason,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        requested_by=row.requested_by,
        dag_id=row.dag_id,
        dag_run_id=row.dag_run_id,
    )


def read_approval(row: sa.Row[Any]) -> Approval:
    return Approval(
        run_id=row.run_id,
        fingerprint=row.fingerprint,
        decision=Decision(row.decision),
        by=row.by,
        reason=row.reason,
        at=row.at,
        rate_bytes_per_second=row.rate_bytes_per_second,
        expires_at=row.expires_at,
    )


def read_request(row: sa.Row[Any]) -> ControlRequest:
    return ControlRequest(
        cluster=row.cluster,
        run_id=row.run_id,
        control=Control(row.control),
        by=row.by,
        why=row.why,
        at=row.at,
        rate_bytes_per_second=row.rate_bytes_per_second,
        until=row.until,
        done_at=row.obeyed_at,
        request_id=row.id,
        broker_id=row.broker_id,
    )


# -- reads of each step


_THIS_RUN: Final = sa.bindparam("this_run", type_=sa.Text)


RUN: Final = sa.select(runs).where(runs.c.run_id == _THIS_RUN)
REQUESTS: Final = (
    sa.select(requests)
    .where(requests.c.cluster == sa.bindparam("this_cluster"))
    .where(requests.c.run_id.is_(None) | (requests.c.run_id == _THIS_RUN))
    .order_by(requests.c.id)
)
PROGRESS: Final = sa.select(pulses.c.body).where(pulses.c.run_id == _THIS_RUN)
OBSERVED_AT: Final = (
    sa.select(sa.func.coalesce(pulses.c.at, runs.c.opened_at))
    .select_from(runs.outerjoin(pulses, pulses.c.run_id == runs.c.run_id))
    .where(runs.c.run_id == _THIS_RUN)
)
UPDATE_OF_PROGRESS: Final = (
    pulses.update()
    .where(pulses.c.run_id == _THIS_RUN)
    .values(
        at=sa.bindparam("new_at"),
        body=sa.bindparam("new_body"),
    )
)


def named(key: Mapping[str, object]) -> dict[str, object]:
    """Return the key's columns as parameters of a where clause."""
    return {f"this_{name}": value for name, value in key.items()}


# -- runs, requests and events


_HOW_TO_GO_ON: Final = {
    RunState.RUNNING: "end it first with `counterpoise settle {run_id}`",
    RunState.SETTLING: "end it first with `counterpoise settle {run_id}`",
    RunState.PROPOSED: "it has to be approved first, with `counterpoise approve`",
    RunState.HALTED: "it has ended; `counterpoise execute` goes on with it",
    RunState.CANCELLED: "it has ended, and is not executed again; make a new plan",
    RunState.APPROVED: "it has changed nothing yet; `counterpoise execute` starts it",
}


def set_state(
    connection: sa.Connection, run_id: str, to: RunState, reason: str, now: datetime
) -> None:
    """Change a run's state and record the reason.

    Raises RunConflictError when its present state does not lead there, or another run is open.
    """
    allowed_from = [state for state, targets in TRANSITIONS.items() if to in targets]
    try:
        changed = connection.execute(
            runs.update()
            .where(runs.c.run_id == run_id, runs.c.state.in_(allowed_from))
            .values(state=to, reason=reason, closed_at=None if to in OPEN_STATES else now)
        ).rowcount
    except sa.exc.IntegrityError:
        raise RunConflictError(
            f"run {run_id} cannot become {to}: another run is open on this cluster; "
            "`counterpoise status` names it: wait for its end, or end it with `counterpoise settle`"
        ) from None
    if not changed:
        state = connection.scalar(sa.select(runs.c.state).where(runs.c.run_id == run_id))
        raise RunConflictError(_not_from_here(run_id, state, to))
    add_event(connection, run_id, str(to), reason, now)


def add_event(
    connection: sa.Connection, run_id: str, kind: str, text: str, now: datetime, who: str = ""
) -> None:
    """Add an event of a run, and note it for the audit log; `who` is "" where no person did it."""
    connection.execute(events.insert().values(run_id=run_id, at=now, kind=kind, text=text))
    query = sa.select(runs.c.cluster, runs.c.fingerprint).where(runs.c.run_id == run_id)
    cluster, fingerprint = connection.execute(query).one()
    note(
        connection,
        who=who or None,
        what=kind,
        cluster=cluster,
        run=run_id,
        fingerprint=fingerprint,
        time=now,
        details=text,
    )


def add_request(connection: sa.Connection, request: ControlRequest) -> None:
    """Keep a request about a run or a cluster, and note it for the audit log."""
    connection.execute(
        requests.insert().values(
            cluster=request.cluster,
            run_id=request.run_id,
            control=request.control,
            by=request.by,
            why=request.why,
            at=request.at,
            rate_bytes_per_second=request.rate_bytes_per_second,
            until=request.until,
            broker_id=request.broker_id,
        )
    )
    who, what = request.person.shown, f"{request.control} asked"
    if request.run_id:
        add_event(connection, request.run_id, what, str(request), request.at, who)
        return
    note(
        connection,
        who=who,
        what=what,
        cluster=request.cluster,
        run=None,
        fingerprint=None,
        time=request.at,
        details=str(request),
    )


def _not_from_here(run_id: str, state: str | None, to: RunState) -> str:
    """Say why a run does not become `to`, and how to go on."""
    if state is None:
        return f"run {run_id} is not in the ledger; `counterpoise status` lists the runs"
    go_on = _HOW_TO_GO_ON.get(RunState(state), "it has ended; make a new plan")
    return f"run {run_id} is {state} and cannot become {to}: {go_on.format(run_id=run_id)}"


def opening_time(connection: sa.Connection, cluster: str, now: datetime) -> datetime:
    """Return when a new run of a cluster is opened: now, and after all that it has.

    Which of two runs is the newer one goes by that time, also where the clock was set back.
    """
    newest = connection.scalar(
        sa.select(sa.func.max(runs.c.opened_at)).where(runs.c.cluster == cluster)
    )
    return max(now, newest + timedelta(microseconds=1)) if newest else now


def mark_rates_done(connection: sa.Connection, run_id: str, now: datetime) -> None:
    """Record that the rates which were requested of a run hold no more."""
    is_rate = (requests.c.run_id == run_id, requests.c.control == Control.RATE)
    is_open = requests.c.obeyed_at.is_(None)
    connection.execute(requests.update().where(*is_rate, is_open).values(obeyed_at=now))


def check_may_withdraw(approval: Approval, state: str | None, earlier: Sequence[Approval]) -> None:
    """Raise RunConflictError where a Dag says no to a plan that does not wait any more, or that
    somebody has approved, `earlier`: that is for people to stop.
    """
    by, run_id = approval.person, approval.run_id
    if by.is_own_dag and state != RunState.PROPOSED:
        raise RunConflictError(f"run {run_id} is {state}, so {by.shown} does not withdraw its plan")
    if by.is_own_dag and any(one.decision is Decision.GRANTED for one in earlier):
        raise RunConflictError(
            f"somebody has approved the plan of run {run_id}, so {by.shown} does not withdraw it"
        )


def check_rule_is_first(
    connection: sa.Connection,
    approval: Approval,
    state: str | None,
    earlier: Sequence[Approval],
    now: datetime,
) -> None:
    """Raise RunConflictError where a rule of the policy would answer after a person, or while the
    cluster is frozen: somebody may have been faster since it was checked.
    """
    if not approval.person.is_rule:
        return
    run_id, rule = approval.run_id, approval.person.shown
    if state != RunState.PROPOSED or earlier:
        raise RunConflictError(
            f"run {run_id} is {state}, and {rule} approves only what waits for its first answer"
        )
    about_cluster = (
        sa.select(requests)
        .join(runs, runs.c.cluster == requests.c.cluster)
        .where(runs.c.run_id == run_id, requests.c.run_id.is_(None))
        .order_by(requests.c.id)
    )
    made = tuple(read_request(row) for row in connection.execute(about_cluster))
    if find_active_requests(made, now).frozen:
        raise RunConflictError(f"run {run_id}: {rule} approves nothing while its cluster is frozen")


def check_may_supersede(run: Run, requester: Person, supersedes: Collection[RunState]) -> None:
    """Raise where a new plan of the requester may not supersede the one of an open run.

    RunConflictError for a run under way; RefusedError for one in a state that the plan does not
    supersede (a plan to reject: any; where the requester may not operate the cluster: approved),
    and for a plan that somebody asked for where the new one is a Dag's.
    """
    at = f"cluster {run.cluster}"
    if run.state in UNDER_WAY_STATES:
        raise RunConflictError(
            f"{at}: run {run.run_id} is {run.state}; wait for its end before a new plan, or end it "
            f"with `counterpoise settle {run.run_id}`: it then starts nothing new"
        )
    if not supersedes:
        raise RefusedError(
            f"{at}: run {run.run_id} of another plan is {run.state}, and a no to this one, which "
            "does not wait for an answer, does not end it. Reject that plan, if you mean it"
        )
    if run.state not in supersedes:
        raise RefusedError(
            f"{at}: run {run.run_id} is approved, and {requester.shown} may not operate here, so a "
            "new plan of theirs cannot supersede it. Wait for its end, or somebody who may operate "
            "ends it first (`counterpoise reject`)"
        )
    if requester.is_own_dag and not run.requester.is_own_dag:
        raise RefusedError(
            f"{at}: the plan of run {run.run_id}, which {run.requester.shown} asked for, is "
            f"{run.state}, and a plan that nobody asked for does not supersede it. The analysis "
            "asks again after its end"
        )


# -- config keys


# Since when calls about these keys had no answer, before one that is made now.
UnansweredKeys = Mapping[OwnedKey, datetime | None]

_OWNED_KEY: Final = ("run_id", "resource_type", "resource_name", "key")
_IN_ORDER: Final = sa.select(owned_keys).order_by(*(owned_keys.c[name] for name in _OWNED_KEY))
# Built once: each step reads them.
_KEYS: Final = _IN_ORDER.where(owned_keys.c.run_id == sa.bindparam("this_run"))
_OPEN_KEYS: Final = (
    _IN_ORDER.join(runs, runs.c.run_id == owned_keys.c.run_id)
    .where(runs.c.cluster == sa.bindparam("this_cluster"))
    .where(owned_keys.c.done_at.is_(None) | owned_keys.c.unanswered_at.is_not(None))
)
_IS_THIS: Final = [owned_keys.c[name] == sa.bindparam(f"this_{name}") for name in _OWNED_KEY]


def read_owned_keys(connection: sa.Connection, run_id: str, now: datetime) -> list[OwnedKey]:
    """Return the keys of one run, by resource and key."""
    return [_read_key(row, now) for row in connection.execute(_KEYS, {"this_run": run_id})]


def read_open_keys(connection: sa.Connection, cluster: str, now: datetime) -> list[OwnedKey]:
    """Return the open rows of all runs of a cluster."""
    rows = connection.execute(_OPEN_KEYS, {"this_cluster": cluster})
    return [owned for row in rows if (owned := _read_key(row, now)).is_open]


def _read_key(row: sa.Row[Any], now: datetime) -> OwnedKey:
    """Return a row; a call that nobody answered for a day is void."""
    is_void = row.unanswered_at is not None and now - row.unanswered_at >= LOST_AFTER
    return OwnedKey(
        run_id=row.run_id,
        resource=ConfigResource(ConfigResourceType(row.resource_type), row.resource_name),
        key=row.key,
        before=row.before_value,
        written=tuple(filter(None, row.written.split(","))),
        unanswered_at=None if is_void else row.unanswered_at,
        done_at=row.done_at,
    )


def record_touch(
    connection: sa.Connection, run_id: str, keys: Iterable[OwnedKey], now: datetime
) -> UnansweredKeys:
    """Record that these are set now; return since when each had no answer before.

    A row keeps the time of the first of its calls that have none. The row of an ended run becomes
    this run's; the row of another run that is under way stays that run's.
    """
    under_way = set(
        connection.scalars(sa.select(runs.c.run_id).where(runs.c.state.in_(UNDER_WAY_STATES)))
    )
    before: dict[OwnedKey, datetime | None] = {}
    taken_over = []
    for key in keys:
        owner = key.run_id if key.run_id in under_way else run_id
        if owner != key.run_id:
            taken_over.append(key)
        before[replace(key, run_id=owner)] = key.unanswered_at
    record_done(connection, taken_over, now)
    record_answers(connection, dict.fromkeys(taken_over))
    insert_if_missing(connection, owned_keys, [_columns(key) | {"written": ""} for key in before])
    rows = [
        named(_columns(key))
        | {
            "new_before": key.before,
            "new_written": ",".join(key.written),
            "new_unanswered_at": since or now,
        }
        for key, since in before.items()
    ]
    if rows:
        connection.execute(_TOUCH, rows)
    return before


_TOUCH: Final = (
    owned_keys.update()
    .where(*_IS_THIS)
    .values(
        before_value=sa.bindparam("new_before", type_=sa.Text),
        written=sa.bindparam("new_written"),
        unanswered_at=sa.bindparam("new_unanswered_at", type_=owned_keys.c.unanswered_at.type),
        done_at=None,
    )
)


def record_answers(
    connection: sa.Connection,
    before: UnansweredKeys,
    except_for: Collection[ConfigResource] = (),
) -> None:
    """Record the answer to a call, except for some resources; `before` is what its intent
    returned.
    """
    by_time: dict[datetime | None, list[OwnedKey]] = {}
    for key, unanswered_at in before.items():
        if key.resource not in except_for:
            by_time.setdefault(unanswered_at, []).append(key)
    for unanswered_at, keys in by_time.items():
        _update_keys(connection, keys, unanswered_at=unanswered_at)


def record_last_rates(connection: sa.Connection, keys: Iterable[OwnedKey]) -> None:
    """Record that of several rates only the last one is the run's: its broker shows it."""
    for key in keys:
        _update_keys(connection, [key], written=key.written[-1])


def record_done(connection: sa.Connection, keys: Iterable[OwnedKey], now: datetime) -> None:
    """Record that nothing of its run is in a key any more."""
    _update_keys(connection, keys, done_at=now)


def _columns(key: OwnedKey) -> dict[str, object]:
    values = (key.run_id, str(key.resource.type), key.resource.name, key.key)
    return dict(zip(_OWNED_KEY, values, strict=True))


def _update_keys(connection: sa.Connection, keys: Iterable[OwnedKey], **values: object) -> None:
    """Make the same change of many rows in one statement."""
    rows = [named(_columns(key)) for key in keys]
    if rows:
        connection.execute(owned_keys.update().where(*_IS_THIS).values(**values), rows)


# -- targets of partitions


Replicas = tuple[int, ...]
# Since when calls about these targets had no answer, before one that is made now.
Unanswered = Mapping[tuple[TopicPartition, Replicas], datetime | None]

_TARGET_KEY: Final = ("run_id", "topic", "partition", "target")
# Built once: each step reads them.
_IS_OPEN: Final = submitted.c.done_at.is_(None)
_TARGETS: Final = sa.select(submitted).where(submitted.c.run_id == sa.bindparam("this_run"))
_OPEN_TARGETS: Final = _TARGETS.where(_IS_OPEN)
_OPEN_TARGETS_OF_ENDED_RUNS: Final = (
    sa.select(submitted)
    .join(runs, runs.c.run_id == submitted.c.run_id)
    .where(runs.c.cluster == sa.bindparam("this_cluster"), _IS_OPEN)
    .where(submitted.c.run_id != sa.bindparam("this_run"), runs.c.state.not_in(UNDER_WAY_STATES))
    .order_by(runs.c.opened_at.desc(), submitted.c.sent_at)
)


def read_submitted(
    connection: sa.Connection, run_id: str, now: datetime, *, only_open: bool = False
) -> list[Submitted]:
    """Return all rows of a run, or those that are open."""
    query = _OPEN_TARGETS if only_open else _TARGETS
    rows = map(_read_target, connection.execute(query, {"this_run": run_id}))
    return [row.without_void(now) for row in rows if not only_open or not row.is_lost(now)]


def read_open_of_others(
    connection: sa.Connection, cluster: str, run_id: str, now: datetime
) -> list[Submitted]:
    """Return the open rows of other runs of a cluster that have ended, the newest run first."""
    parameters = {"this_cluster": cluster, "this_run": run_id}
    rows = map(_read_target, connection.execute(_OPEN_TARGETS_OF_ENDED_RUNS, parameters))
    return [row.without_void(now) for row in rows if not row.is_lost(now)]


def _read_target(row: sa.Row[Any]) -> Submitted:
    return Submitted(
        row.run_id,
        TopicPartition(row.topic, row.partition),
        tuple(map(int, row.target.split(","))),
        row.sent_at,
        row.unanswered_at,
        row.answered_at,
        row.done_at,
    )


def record_intent(
    connection: sa.Connection,
    cluster: str,
    run_id: str,
    targets: Iterable[tuple[TopicPartition, Replicas]],
    now: datetime,
) -> Unanswered:
    """Record that these are asked for now; return since when each had no answer before.

    A row keeps the time of the first of its calls that have none. What an ended run has asked for,
    too, is this run's from now on.
    """
    keys = {target: _target_key(run_id, *target) for target in targets}
    of_others = read_open_of_others(connection, cluster, run_id, now)
    same = (row for row in of_others if (row.topic_partition, row.target) in keys)
    take_over(connection, run_id, same, now)
    before = {
        (row.topic_partition, row.target): row.unanswered_at
        for row in read_submitted(connection, run_id, now, only_open=True)
        if row.unanswered_at is not None
    }
    _open_targets(connection, keys.values(), now)
    new = [key for target, key in keys.items() if target not in before]
    _update_targets(connection, keys.values(), sent_at=now, done_at=None)
    _update_targets(connection, new, unanswered_at=now)
    return {target: before.get(target) for target in keys}


def open_rows(
    connection: sa.Connection,
    run_id: str,
    targets: Iterable[tuple[TopicPartition, Replicas]],
    now: datetime,
) -> None:
    """Make these targets the run's again, though no call asks for them now."""
    keys = [_target_key(run_id, *target) for target in targets]
    _open_targets(connection, keys, now)
    _update_targets(connection, keys, sent_at=now, done_at=None)


def record_answer(
    connection: sa.Connection,
    run_id: str,
    before: Unanswered,
    refused: Iterable[TopicPartition],
    now: datetime,
) -> None:
    """Record the answer to a call; `before` is what its intent returned."""
    refused = frozenset(refused)
    by_time: dict[datetime | None, list[dict[str, object]]] = {}
    for target, unanswered_at in before.items():
        by_time.setdefault(unanswered_at, []).append(_target_key(run_id, *target))
    for unanswered_at, keys in by_time.items():
        _update_targets(connection, keys, unanswered_at=unanswered_at)
    made = [_target_key(run_id, *target) for target in before if target[0] not in refused]
    _update_targets(connection, made, answered_at=now)
    never_made = [t for t, since in before.items() if t[0] in refused and since is None]
    _update_targets(
        connection, [_target_key(run_id, *target) for target in never_made], done_at=now
    )


def record_over(connection: sa.Connection, rows: Iterable[Submitted], now: datetime) -> None:
    """Record that nothing of these rows is, or may come, under way."""
    _update_targets(connection, map(_target_key_of, rows), done_at=now)


def take_over(
    connection: sa.Connection, run_id: str, rows: Iterable[Submitted], now: datetime
) -> None:
    """Make the rows of ended runs those of this one, whose targets they are, too."""
    for row in rows:
        record_over(connection, [row], now)
        key = _target_key(run_id, row.topic_partition, row.target)
        _open_targets(connection, [key], now)
        values = {"unanswered_at": row.unanswered_at, "answered_at": row.answered_at}
        _update_targets(connection, [key], sent_at=now, done_at=None, **values)


def _target_key_of(row: Submitted) -> dict[str, object]:
    return _target_key(row.run_id, row.topic_partition, row.target)


def _target_key(run_id: str, partition: TopicPartition, target: Replicas) -> dict[str, object]:
    text = ",".join(map(str, target))
    values = (run_id, partition.topic, partition.partition, text)
    return dict(zip(_TARGET_KEY, values, strict=True))


def _open_targets(
    connection: sa.Connection, keys: Iterable[Mapping[str, object]], now: datetime
) -> None:
    insert_if_missing(connection, submitted, [{**key, "sent_at": now} for key in keys])


def _update_targets(
    connection: sa.Connection, keys: Iterable[Mapping[str, object]], **values: object
) -> None:
    """Make the same change of many rows in one statement."""
    rows = [named(key) for key in keys]
    if rows:
        is_this = [submitted.c[name] == sa.bindparam(f"this_{name}") for name in _TARGET_KEY]
        connection.execute(submitted.update().where(*is_this).values(**values), rows)
