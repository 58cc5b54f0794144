"""What runs have asked for of the partitions that they move, within a transaction of the caller.

A row for each run, partition and target; it is open until nothing of it can be under way any more
(`done_at`), and stays then, for an undo. The intent of a call sets `unanswered_at`, and the answer
puts back what it was: where none comes, the call may be made for a day, and the row is over then.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.schema import runs, submitted
from counterpoise.ledger.statements import named
from counterpoise.ledger.transactions import insert_if_missing
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.run import UNDER_WAY_STATES, Submitted

Replicas = tuple[int, ...]
# Since when calls about these targets had no answer, before one that is made now.
Unanswered = Mapping[tuple[TopicPartition, Replicas], datetime | None]

_KEY: Final = ("run_id", "topic", "partition", "target")
# Built once: each step reads them.
_IS_OPEN: Final = submitted.c.done_at.is_(None)
_OF_RUN: Final = sa.select(submitted).where(submitted.c.run_id == sa.bindparam("this_run"))
_OPEN_OF_RUN: Final = _OF_RUN.where(_IS_OPEN)
_OPEN_OF_ENDED_RUNS: Final = (
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
    query = _OPEN_OF_RUN if only_open else _OF_RUN
    rows = map(_read_row, connection.execute(query, {"this_run": run_id}))
    return [row for row in rows if not only_open or not row.is_lost(now)]


def read_open_of_others(
    connection: sa.Connection, cluster: str, run_id: str, now: datetime
) -> list[Submitted]:
    """Return the open rows of other runs of a cluster that have ended, the newest run first."""
    parameters = {"this_cluster": cluster, "this_run": run_id}
    rows = map(_read_row, connection.execute(_OPEN_OF_ENDED_RUNS, parameters))
    return [row for row in rows if not row.is_lost(now)]


def _read_row(row: sa.Row[Any]) -> Submitted:
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
    keys = {target: _key(run_id, *target) for target in targets}
    of_others = read_open_of_others(connection, cluster, run_id, now)
    same = (row for row in of_others if (row.topic_partition, row.target) in keys)
    take_over(connection, run_id, same, now)
    before = {
        (row.topic_partition, row.target): row.unanswered_at
        for row in read_submitted(connection, run_id, now, only_open=True)
        if row.unanswered_at is not None
    }
    _open(connection, keys.values(), now)
    new = [key for target, key in keys.items() if target not in before]
    _update(connection, keys.values(), sent_at=now, done_at=None)
    _update(connection, new, unanswered_at=now)
    return {target: before.get(target) for target in keys}


def open_rows(
    connection: sa.Connection,
    run_id: str,
    targets: Iterable[tuple[TopicPartition, Replicas]],
    now: datetime,
) -> None:
    """Make these targets the run's again, though no call asks for them now."""
    keys = [_key(run_id, *target) for target in targets]
    _open(connection, keys, now)
    _update(connection, keys, sent_at=now, done_at=None)


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
        by_time.setdefault(unanswered_at, []).append(_key(run_id, *target))
    for unanswered_at, keys in by_time.items():
        _update(connection, keys, answered_at=now, unanswered_at=unanswered_at)
    never_made = [t for t, since in before.items() if t[0] in refused and since is None]
    _update(connection, [_key(run_id, *target) for target in never_made], done_at=now)


def record_over(connection: sa.Connection, rows: Iterable[Submitted], now: datetime) -> None:
    """Record that nothing of these rows is, or may come, under way."""
    _update(connection, map(_key_of, rows), done_at=now)


def take_over(
    connection: sa.Connection, run_id: str, rows: Iterable[Submitted], now: datetime
) -> None:
    """Make the rows of ended runs those of this one, whose targets they are, too."""
    for row in rows:
        record_over(connection, [row], now)
        key = _key(run_id, row.topic_partition, row.target)
        _open(connection, [key], now)
        values = {"unanswered_at": row.unanswered_at, "answered_at": row.answered_at}
        _update(connection, [key], sent_at=now, done_at=None, **values)


def _key_of(row: Submitted) -> dict[str, object]:
    return _key(row.run_id, row.topic_partition, row.target)


def _key(run_id: str, partition: TopicPartition, target: Replicas) -> dict[str, object]:
    text = ",".join(map(str, target))
    values = (run_id, partition.topic, partition.partition, text)
    return dict(zip(_KEY, values, strict=True))


def _open(connection: sa.Connection, keys: Iterable[Mapping[str, object]], now: datetime) -> None:
    insert_if_missing(connection, submitted, [{**key, "sent_at": now} for key in keys])


def _update(
    connection: sa.Connection, keys: Iterable[Mapping[str, object]], **values: object
) -> None:
    """Make the same change of many rows in one statement."""
    rows = [named(key) for key in keys]
    if rows:
        is_this = [submitted.c[name] == sa.bindparam(f"this_{name}") for name in _KEY]
        connection.execute(submitted.update().where(*is_this).values(**values), rows)
