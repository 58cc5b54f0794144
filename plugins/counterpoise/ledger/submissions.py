"""What runs have submitted of their moves, within a transaction of the caller."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from counterpoise.ledger.schema import moves, runs
from counterpoise.ledger.statements import named
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.run import ANY_BROKER, LOOKED_AFTER_STATES, Submission

Targets = Mapping[TopicPartition, tuple[int, ...] | None]  # None: cancelled


def read_moved_after(
    connection: sa.Connection, cluster: str, opened_at: datetime
) -> dict[TopicPartition, str]:
    """Return the partitions submitted by runs that were opened later, each with the oldest run."""
    query = (
        sa.select(moves.c.topic, moves.c.partition, moves.c.run_id)
        .join(runs, runs.c.run_id == moves.c.run_id)
        .where(runs.c.cluster == cluster, runs.c.opened_at > opened_at)
        .order_by(runs.c.opened_at.desc())
    )
    return {
        TopicPartition(row.topic, row.partition): row.run_id for row in connection.execute(query)
    }


def read_submitted_by_ended_runs(
    connection: sa.Connection,
    cluster: str,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    now: datetime,
) -> dict[TopicPartition, str]:
    """Return the id of the ended run that last submitted each partition with this target.

    Without partitions that no ended run submitted so, that had arrived there, or whose call is
    taken for lost.
    """
    query = (
        sa.select(moves)
        .join(runs, runs.c.run_id == moves.c.run_id)
        .where(
            runs.c.cluster == cluster,
            runs.c.state.in_(LOOKED_AFTER_STATES),
            moves.c.topic.in_({tp.topic for tp in targets}),
            moves.c.done_at.is_(None),
        )
        .order_by(moves.c.submitted_at)
    )
    submitted = [(row.run_id, read_submission(row, now)) for row in connection.execute(query)]
    return {
        submission.topic_partition: run_id
        for run_id, submission in submitted
        if submission.target and submission.target == targets.get(submission.topic_partition)
    }


def read_submission(row: sa.Row[Any], now: datetime) -> Submission:
    """Return a row as it counts now: without a call that is taken for lost."""
    target = None if row.target is None else tuple(map(int, filter(None, row.target.split(","))))
    submission = Submission(
        topic_partition=TopicPartition(row.topic, row.partition),
        submitted_at=row.submitted_at,
        answered_at=row.answered_at,
        done_at=row.done_at,
        asked_broker_id=row.asked_broker_id,
        target=target,
        in_order_at=row.in_order_at,
    )
    return submission.without_lost_call(now)


def record_submissions(
    connection: sa.Connection, run_id: str, targets: Targets, now: datetime
) -> None:
    """Record that these are reassigned, or cancelled, now; who is asked is not known yet."""
    asked = moves.c.asked_broker_id
    has_no_answer = moves.c.answered_at.is_(None) & asked.is_(None)
    update = _update_of_a_move(
        run_id,
        submitted_at=now,
        answered_at=None,
        in_order_at=None,
        asked_broker_id=sa.case((has_no_answer, ANY_BROKER), else_=asked),
        target=sa.func.coalesce(sa.bindparam("new_target"), moves.c.target),
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
