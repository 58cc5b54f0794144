"""Which rows of a ledger `counterpoise ledger prune` deletes, within a transaction of the caller.

    count = delete_old_rows(connection, "demo", before, now)

Old are events, approvals and requests from before a time. Runs go oldest first: a run can be undone
as long as its events and those of the runs after it are there. One that is open, or ended later,
stays, and so do the runs after it. What was noted at a run since it ended, like an answer that was
refused, stays until it is old itself.

These stay, too: an approval or a freeze that has not ended, what keeps a broker empty, an approval
by a rule of the policy within the last day (against what it may approve), and a pause of a run that
has halted: executed again, it would submit what somebody wanted to wait. The rate of such a run
does not count: executing it takes another approval, which has one of its own.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from counterpoise.ledger.rows import read_approval, read_request
from counterpoise.ledger.schema import (
    approvals,
    elections,
    events,
    owned_keys,
    requests,
    runs,
    submitted,
)
from counterpoise.model.approval import Approval
from counterpoise.model.control import Control, ControlRequest, find_active_requests
from counterpoise.model.policy import AUTOMATIC_APPROVALS_COUNT_FOR
from counterpoise.model.run import LOOKED_AFTER_STATES, LOST_AFTER, OPEN_STATES, RunState

_ABOUT_CLUSTERS: Final = (
    Control.FREEZE,
    Control.UNFREEZE,
    Control.KEEP_EMPTY,
    Control.RELEASE,
)
_BATCH_ROWS: Final = 1_000


def delete_old_rows(
    connection: sa.Connection, cluster: str, before: datetime, now: datetime
) -> int:
    """Delete the old rows of a cluster that count no more, and return how many.

    With the events of an ended run go its rows about partitions and keys, too.
    """
    old_runs = _old_runs(connection, cluster, before)
    old_requests = (
        requests.c.cluster == cluster,
        requests.c.run_id.is_(None) | requests.c.run_id.in_(old_runs),
        requests.c.at < before,
    )
    old_approvals = (approvals.c.run_id.in_(old_runs), approvals.c.at < before)
    # What counts is read before anything is deleted.
    kept_approval_ids = set(_approvals_that_count(connection, old_approvals, now))
    kept_request_ids = _requests_in_force(connection, cluster, now)
    approval_ids = _ids(connection, approvals, old_approvals) - kept_approval_ids
    request_ids = _ids(connection, requests, old_requests) - kept_request_ids
    _delete(connection, approvals, approval_ids)
    _delete(connection, requests, request_ids)
    count = len(approval_ids) + len(request_ids)
    old_events = (events.c.run_id.in_(old_runs), events.c.at < before)
    count += connection.execute(events.delete().where(*old_events)).rowcount
    _delete_rows_of_forgotten_runs(connection, cluster, now - LOST_AFTER)
    return count


def _old_runs(connection: sa.Connection, cluster: str, before: datetime) -> sa.Select[tuple[str]]:
    """Return the query for the runs before the first that is open, or ended later."""
    stays = runs.c.state.in_(OPEN_STATES) | (runs.c.closed_at >= before)
    first_to_stay = connection.scalar(
        sa.select(sa.func.min(runs.c.opened_at)).where(runs.c.cluster == cluster, stays)
    )
    of_cluster = sa.select(runs.c.run_id).where(runs.c.cluster == cluster)
    return of_cluster.where(runs.c.opened_at < first_to_stay) if first_to_stay else of_cluster


Conditions = Sequence[sa.ColumnElement[bool]]


def _ids(connection: sa.Connection, table: sa.Table, conditions: Conditions) -> set[int]:
    return set(connection.scalars(sa.select(table.c.id).where(*conditions)))


def _delete(connection: sa.Connection, table: sa.Table, ids: set[int]) -> None:
    in_order = sorted(ids)
    for begin in range(0, len(in_order), _BATCH_ROWS):
        batch = in_order[begin : begin + _BATCH_ROWS]
        connection.execute(table.delete().where(table.c.id.in_(batch)))


def _approvals_that_count(
    connection: sa.Connection, conditions: Conditions, now: datetime
) -> Iterator[int]:
    """Yield the ids of approvals that have not expired, and of those that a rule of the policy gave
    so lately that they count against what the rule may approve.
    """
    for row in connection.execute(sa.select(approvals).where(*conditions)):
        approval = read_approval(row)
        is_in_force = approval.expires_at is not None and approval.expires_at > now
        if is_in_force or _counts_against_its_rule(approval, now):
            yield row.id


def _counts_against_its_rule(approval: Approval, now: datetime) -> bool:
    return approval.person.is_rule and approval.at >= now - AUTOMATIC_APPROVALS_COUNT_FOR


def _requests_in_force(connection: sa.Connection, cluster: str, now: datetime) -> frozenset[int]:
    """Return the ids of the freeze that is in force, of what keeps brokers empty, and of the pauses
    of runs that have halted.
    """
    has_halted = sa.select(runs.c.run_id).where(runs.c.state == RunState.HALTED)
    query = (
        sa.select(requests)
        .where(requests.c.cluster == cluster)
        .where(requests.c.run_id.is_(None) | requests.c.run_id.in_(has_halted))
        .where(requests.c.control.in_((Control.PAUSE, Control.RESUME, *_ABOUT_CLUSTERS)))
        .order_by(requests.c.id)
    )
    by_run: dict[str | None, list[ControlRequest]] = {}
    for row in connection.execute(query):
        by_run.setdefault(row.run_id, []).append(read_request(row))
    active = [find_active_requests(of_run, now) for of_run in by_run.values()]
    in_force = [(a.frozen, a.paused, *a.kept_empty.values()) for a in active]
    return frozenset(request.request_id for of_run in in_force for request in of_run if request)


def _delete_rows_of_forgotten_runs(
    connection: sa.Connection, cluster: str, lost_before: datetime
) -> None:
    """Delete the rows of ended runs of which no event is left.

    What may still matter stays, however old: what may still be under way, and keys that are not
    restored or that a call may still change. So do runs and their last progress.
    """
    has_events = sa.exists().where(events.c.run_id == runs.c.run_id)
    forgotten = sa.select(runs.c.run_id).where(
        runs.c.cluster == cluster,
        runs.c.state.in_(LOOKED_AFTER_STATES),
        ~has_events,
    )
    owned = owned_keys.c
    is_answered = owned.unanswered_at.is_(None) | (owned.unanswered_at < lost_before)
    no_longer_needed = (
        (submitted, submitted.c.done_at.is_not(None) | (submitted.c.unanswered_at < lost_before)),
        (elections, sa.true()),
        (owned_keys, owned.done_at.is_not(None) & is_answered),
    )
    for table, condition in no_longer_needed:
        connection.execute(table.delete().where(table.c.run_id.in_(forgotten), condition))
