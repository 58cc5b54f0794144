"""Which rows of a ledger a checkpoint deletes, within a transaction of the caller.

    gone = list(old_links(connection, "demo", before, now))
    delete_old_rows(connection, "demo", gone)

An entry still counts where it is of an open run, an approval or a freeze that has not ended, an
approval by a rule of the policy within the last day (against what it may approve), or a pause of a
run that has halted: executed again, it would submit what somebody wanted to wait. The rate of such
a run does not count: executing it takes another approval, which has one of its own.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from counterpoise.ledger import links
from counterpoise.ledger.links import CHAINED_TABLES, ChainedRow, Link, time_text
from counterpoise.ledger.rows import read_request
from counterpoise.ledger.schema import (
    approvals,
    chain,
    elections,
    events,
    late_calls,
    moves,
    requests,
    runs,
    touched_keys,
)
from counterpoise.model.control import Control, ControlRequest, find_active_requests
from counterpoise.model.person import Person
from counterpoise.model.policy import RULE_APPROVALS_COUNT_FOR
from counterpoise.model.run import LOOKED_AFTER_STATES, OPEN_STATES, RunState

_ABOUT_FREEZES: Final = (Control.FREEZE, Control.UNFREEZE)


def old_links(
    connection: sa.Connection, cluster: str, before: datetime, now: datetime
) -> Iterator[Link]:
    """Yield the oldest entries up to the first whose row is not old enough, or still counts."""
    is_open = sa.select(runs.c.run_id).where(
        runs.c.cluster == cluster, runs.c.state.in_(OPEN_STATES)
    )
    open_runs = set(connection.scalars(is_open))
    in_force = _requests_in_force(connection, cluster, now)
    all_links = list(links.read_links(connection, chain.c.cluster == cluster))
    rows = links.read_rows_of(connection, all_links)
    for link in all_links:
        row = rows.get((link.table, link.row_id))
        if (row.at if row else link.chained_at) >= time_text(before):
            return
        if row and row.document.get("run_id") in open_runs:
            return
        if row and (_does_approval_count(row, now) or _is_in_force(row, in_force)):
            return
        yield link


def _requests_in_force(connection: sa.Connection, cluster: str, now: datetime) -> frozenset[int]:
    """Return the ids of the freeze that is in force, and of the pauses of runs that have halted."""
    has_halted = sa.select(runs.c.run_id).where(runs.c.state == RunState.HALTED)
    query = (
        sa.select(requests)
        .where(requests.c.cluster == cluster)
        .where(requests.c.run_id.is_(None) | requests.c.run_id.in_(has_halted))
        .where(requests.c.control.in_((Control.PAUSE, Control.RESUME, *_ABOUT_FREEZES)))
        .order_by(requests.c.id)
    )
    by_run: dict[str | None, list[ControlRequest]] = {}
    for row in connection.execute(query):
        by_run.setdefault(row.run_id, []).append(read_request(row))
    active = [find_active_requests(of_run, now) for of_run in by_run.values()]
    in_force = [request for a in active for request in (a.frozen, a.paused) if request]
    return frozenset(request.request_id for request in in_force)


def _is_in_force(row: ChainedRow, in_force: frozenset[int]) -> bool:
    return row.table == requests.name and row.row_id in in_force


def _does_approval_count(row: ChainedRow, now: datetime) -> bool:
    """Return whether it has not expired, or a rule of the policy gave it so lately that it counts
    against what the rule may approve.
    """
    if row.table != approvals.name:
        return False
    if str(row.document.get("expires_at") or "") > time_text(now):
        return True
    account = row.document.get("account")
    approver = Person.from_ledger(str(row.document["by"]), str(account) if account else None)
    return approver.is_rule and row.at >= time_text(now - RULE_APPROVALS_COUNT_FOR)


def delete_old_rows(connection: sa.Connection, cluster: str, gone: Sequence[Link]) -> None:
    """Delete entries with their rows; with the last event of an ended run its rows about
    partitions and keys, too.
    """
    for name, table in CHAINED_TABLES.items():
        ids = [link.row_id for link in gone if link.table == name]
        for batch in links.in_batches(ids):
            connection.execute(table.delete().where(table.c.id.in_(batch)))
    is_gone = chain.c.sequence <= gone[-1].sequence
    connection.execute(chain.delete().where(chain.c.cluster == cluster, is_gone))
    _delete_rows_of_forgotten_runs(connection, cluster)


def _delete_rows_of_forgotten_runs(connection: sa.Connection, cluster: str) -> None:
    """Delete the rows of ended runs of which no event is left.

    What may still matter stays, however old: moves that were never observed done, or that a call
    may still change, and all of a run that has halted (executed again, it takes what somebody
    moved back for drift); keys that are not restored or that a call may still change; and all of a
    run with calls that are not settled. So do runs and their last progress.
    """
    has_events = sa.exists().where(events.c.run_id == runs.c.run_id)
    has_late_calls = sa.exists().where(
        late_calls.c.run_id == runs.c.run_id, late_calls.c.settled_at.is_(None)
    )
    forgotten = sa.select(runs.c.run_id).where(
        runs.c.cluster == cluster,
        runs.c.state.in_(LOOKED_AFTER_STATES),
        ~has_events,
        ~has_late_calls,
    )
    has_halted = sa.select(runs.c.run_id).where(runs.c.state == RunState.HALTED)
    move, key = moves.c, touched_keys.c
    is_answered = move.answered_at.is_not(None) & move.asked_broker_id.is_(None)
    is_over = move.done_at.is_not(None) & is_answered & move.run_id.not_in(has_halted)
    no_longer_needed = (
        (moves, is_over),
        (elections, sa.true()),
        (late_calls, sa.true()),
        (touched_keys, key.restored_at.is_not(None) & key.unanswered_call.is_(None)),
    )
    for table, condition in no_longer_needed:
        connection.execute(table.delete().where(table.c.run_id.in_(forgotten), condition))
