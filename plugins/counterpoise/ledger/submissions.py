"""What runs have submitted of their moves, within a transaction of the caller."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from counterpoise.ledger.schema import events, late_calls, moves, runs
from counterpoise.ledger.statements import NOT_OVER, named
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import Targets
from counterpoise.model.run import (
    ANY_BROKER,
    LOOKED_AFTER_STATES,
    LaterMove,
    RunState,
    Submission,
)


def read_moved_after(
    connection: sa.Connection, cluster: str, run_id: str
) -> dict[TopicPartition, LaterMove]:
    """Return the partitions that another run has submitted after this one did; without those that
    the last of them has brought back to where this one had, as its undo does.

    What came later goes by the order of the ledger's rows, since clocks of workers differ: only one
    run of a cluster is under way at a time, so what a run submits after a start comes after all
    that others have submitted before it. A run that has halted may start again after a newer one.
    """
    starts_by_run = _read_starts(connection, cluster)
    own_starts = {run_id: starts_by_run.pop(run_id, [])}
    own = {row.partition: row for row in _read_submitted(connection, own_starts)}
    earliest = min((row.start_id for row in own.values()), default=0)
    started_since = {
        other_id: starts
        for other_id, starts in starts_by_run.items()
        if starts[-1].event_id > earliest
    }
    later_by_partition: dict[TopicPartition, list[_Submitted]] = {}
    for row in _read_submitted(connection, started_since):
        if row.partition in own and row.start_id > own[row.partition].start_id:
            later_by_partition.setdefault(row.partition, []).append(row)
    return {
        partition: _later_move(own[partition], later)
        for partition, later in later_by_partition.items()
        if not max(later).leads_to_same(own[partition])
    }


class _Submitted(NamedTuple):
    """What a run has submitted last of a partition; in the order in which runs did."""

    start_id: int  # of the event after which it did so
    run_id: str
    partition: TopicPartition
    # The replicas that it has brought the partition to; "" where a call came after that, and None
    # where it never arrived.
    done_target: str | None

    def leads_to_same(self, other: "_Submitted") -> bool:
        return bool(self.done_target) and self.done_target == other.done_target


def _later_move(own: _Submitted, later: Sequence[_Submitted]) -> LaterMove:
    arrived = [row for row in later if row.done_target is not None]
    last = max(arrived, default=own)
    if last.leads_to_same(own) or not arrived:
        return LaterMove(min(later).run_id, None, tuple(row.run_id for row in sorted(later)))
    return LaterMove(min(arrived).run_id, _replicas(last.done_target or ""))


class _Start(NamedTuple):
    """When a run became RUNNING, by the ledger's order of events."""

    event_id: int
    halted_before_at: datetime | None  # None: it had never halted before


def _read_starts(connection: sa.Connection, cluster: str) -> dict[str, list[_Start]]:
    """Return the starts of each run of a cluster, in their order."""
    kinds = (RunState.RUNNING, RunState.HALTED)
    query = (
        sa.select(events.c.id, events.c.run_id, events.c.kind, events.c.at)
        .join(runs, runs.c.run_id == events.c.run_id)
        .where(runs.c.cluster == cluster, events.c.kind.in_(kinds))
        .order_by(events.c.id)
    )
    starts: dict[str, list[_Start]] = {}
    halted_at: dict[str, datetime] = {}
    for row in connection.execute(query):
        if row.kind == RunState.HALTED:
            halted_at[row.run_id] = row.at
        else:
            start = _Start(row.id, halted_at.get(row.run_id))
            starts.setdefault(row.run_id, []).append(start)
    return starts


def _start_before(submitted_at: datetime, starts: Iterable[_Start]) -> int:
    """Return after which start of its run a partition was submitted; 0 where none is known.

    The clocks of one run decide between its starts: not before it had halted the time before.
    """
    return max(
        (
            start.event_id
            for start in starts
            if start.halted_before_at is None or start.halted_before_at <= submitted_at
        ),
        default=0,
    )


def _read_submitted(
    connection: sa.Connection, starts_by_run: Mapping[str, Sequence[_Start]]
) -> Iterator[_Submitted]:
    """Yield what these runs have submitted of each partition the last time."""
    query = sa.select(moves).where(moves.c.run_id.in_(starts_by_run))
    for row in connection.execute(query):
        is_done = row.done_at is not None and row.done_at >= row.submitted_at
        yield _Submitted(
            start_id=_start_before(row.submitted_at, starts_by_run[row.run_id]),
            run_id=row.run_id,
            partition=TopicPartition(row.topic, row.partition),
            done_target=None if row.done_at is None else (is_done and row.target) or "",
        )


def read_late_cancelled(connection: sa.Connection, cluster: str) -> set[TopicPartition]:
    """Return the partitions of ended runs that a late call may have moved: of those it is not known
    yet in which order its cancel has left their replicas.
    """
    is_to_be_settled = sa.exists().where(
        late_calls.c.run_id == runs.c.run_id, late_calls.c.settled_at.is_(None)
    )
    query = (
        sa.select(moves.c.topic, moves.c.partition)
        .join(runs, runs.c.run_id == moves.c.run_id)
        .where(
            runs.c.cluster == cluster,
            runs.c.state.in_(LOOKED_AFTER_STATES),
            moves.c.done_at.is_(None),
            moves.c.in_order_at.is_(None),
            is_to_be_settled,
        )
    )
    return {TopicPartition(row.topic, row.partition) for row in connection.execute(query)}


def read_submitted_by_ended_runs(
    connection: sa.Connection,
    cluster: str,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    now: datetime,
) -> dict[TopicPartition, str]:
    """Return the id of the ended run that last submitted each partition with this target.

    Without partitions that no ended run submitted so, that had arrived there and of which no call
    is without an answer, or whose call is taken for lost.
    """
    query = (
        sa.select(moves)
        .join(runs, runs.c.run_id == moves.c.run_id)
        .where(
            runs.c.cluster == cluster,
            runs.c.state.in_(LOOKED_AFTER_STATES),
            moves.c.topic.in_({tp.topic for tp in targets}),
            NOT_OVER,
        )
        .order_by(moves.c.submitted_at)
    )
    submitted = [(row.run_id, read_submission(row, now)) for row in connection.execute(query)]
    return {
        submission.topic_partition: run_id
        for run_id, submission in submitted
        if _wants(submission, targets.get(submission.topic_partition))
    }


def _wants(submission: Submission, target: tuple[int, ...] | None) -> bool:
    """Return whether these replicas are what was submitted last, or what a call without an answer
    wanted.
    """
    if not target:
        return False
    is_the_last = submission.done_at is None and submission.target == target
    return is_the_last or submission.may_have_asked_for(target)


def read_submission(row: sa.Row[Any], now: datetime) -> Submission:
    """Return a row as it counts now: without a call that is taken for lost."""
    open_targets = filter(None, (row.open_targets or "").split(";"))
    submission = Submission(
        topic_partition=TopicPartition(row.topic, row.partition),
        submitted_at=row.submitted_at,
        answered_at=row.answered_at,
        done_at=row.done_at,
        asked_broker_id=row.asked_broker_id,
        target=None if row.target is None else _replicas(row.target),
        in_order_at=row.in_order_at,
        open_targets=tuple(dict.fromkeys(map(_replicas, open_targets))),
    )
    return submission.without_lost_call(now)


def _replicas(text: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, text.split(","))))


def record_submissions(
    connection: sa.Connection, run_id: str, targets: Targets, now: datetime
) -> None:
    """Record that these are reassigned, or cancelled, now; who is asked is not known yet.

    What an earlier call wanted that nobody answered stays on record beside the new target.
    """
    asked, target_before = moves.c.asked_broker_id, moves.c.target
    new_target = sa.bindparam("new_target", type_=sa.Text)
    has_no_answer = moves.c.answered_at.is_(None) & asked.is_(None)
    is_open = has_no_answer | asked.is_not(None)
    is_another = (target_before != "") & (new_target != target_before)
    with_target_before = sa.func.coalesce(moves.c.open_targets + ";", "") + target_before
    update = _update_of_a_move(
        run_id,
        submitted_at=now,
        answered_at=None,
        done_at=sa.case((new_target.is_not(None), None), else_=moves.c.done_at),
        in_order_at=None,
        asked_broker_id=sa.case((has_no_answer, ANY_BROKER), else_=asked),
        target=sa.func.coalesce(new_target, target_before),
        open_targets=sa.case(
            (is_open & is_another, with_target_before),
            (is_open, moves.c.open_targets),
            else_=sa.null(),
        ),
    )
    new_rows = []
    for tp, target in targets.items():
        key = {"topic": tp.topic, "partition": tp.partition}
        text = None if target is None else ",".join(map(str, target))
        if not connection.execute(update, named(key) | {"new_target": text}).rowcount:
            new_rows.append(key | {"target": text or ""})
    if new_rows:
        insert = moves.insert().values(run_id=run_id, submitted_at=now)
        connection.execute(insert, new_rows)


def mark_submissions(
    connection: sa.Connection,
    run_id: str,
    partitions: Iterable[TopicPartition],
    values: Mapping[str, object],
) -> None:
    """Make the same change of the rows of many partitions in one statement."""
    rows = [named({"topic": tp.topic, "partition": tp.partition}) for tp in partitions]
    if rows:
        connection.execute(_update_of_a_move(run_id, **values), rows)


def close_late_calls(
    connection: sa.Connection, run_id: str, partitions: Iterable[TopicPartition], now: datetime
) -> None:
    """Record that nothing more comes of these, but where several brokers were asked."""
    asked = moves.c.asked_broker_id
    is_last = asked.is_(None) | (asked != ANY_BROKER)
    after: Mapping[str, object] = {
        "asked_broker_id": None,
        "answered_at": sa.func.coalesce(moves.c.answered_at, now),
        "target": "",
        "open_targets": None,
    }
    values = {name: sa.case((is_last, value), else_=moves.c[name]) for name, value in after.items()}
    mark_submissions(connection, run_id, partitions, values)


def _update_of_a_move(run_id: str, **values: object) -> sa.Update:
    """Return the update of one row, with the parameters this_topic and this_partition."""
    is_this = (
        moves.c.run_id == run_id,
        moves.c.topic == sa.bindparam("this_topic"),
        moves.c.partition == sa.bindparam("this_partition"),
    )
    return moves.update().where(*is_this).values(**values)
