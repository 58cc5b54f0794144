"""What the ledger knows of all clusters at one moment, in a few queries, however many there are.

for cluster, state in cluster_states(transactions).items():
    state.run, state.run_progress, state.pending_restores
pending_restores_by_run(transactions, "demo")   # config keys of ended runs
current_requests(transactions)       # about clusters, and about runs under way
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from counterpoise.ledger.rows import read_request, read_run
from counterpoise.ledger.schema import (
    clusters,
    owned_keys,
    plans,
    pulses,
    requests,
    runs,
)
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.control import ControlRequest
from counterpoise.model.json_values import JsonValueError
from counterpoise.model.run import (
    LOOKED_AFTER_STATES,
    OPEN_STATES,
    UNDER_WAY_STATES,
    Run,
)
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.safe_text import safe_logger

_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What the ledger knows of one cluster.

    `run` is the run under way, else the one that waits, else the newest. Keys of the run under way
    are throttles in force; those of ended runs wait to be restored.
    """

    snapshot_at: datetime | None = None
    run: Run | None = None
    run_progress: RunProgress | None = None  # of the run under way
    throttle_keys: int = 0
    pending_restores: int = 0


def cluster_states(
    transactions: Transactions, names: Collection[str] | None = None
) -> dict[str, LedgerState]:
    """Return the state of each cluster that the ledger has met; of `names` alone where given."""
    with transactions.reading() as connection:
        found = _with_snapshots(connection, names)
        _add_runs(connection, found)
        _add_progress(connection, found)
        _add_keys(connection, found)
    return found


def pending_restores_by_run(transactions: Transactions, cluster: str) -> dict[str, int]:
    """Return how many config keys each ended run of a cluster has left to restore."""
    query = (
        sa.select(runs.c.run_id, sa.func.count().label("keys"))
        .join(runs, runs.c.run_id == owned_keys.c.run_id)
        .where(owned_keys.c.done_at.is_(None))
        .where(runs.c.cluster == cluster, runs.c.state.in_(LOOKED_AFTER_STATES))
        .group_by(runs.c.run_id)
    )
    with transactions.reading() as connection:
        return {row.run_id: row.keys for row in connection.execute(query)}


def current_requests(transactions: Transactions) -> tuple[ControlRequest, ...]:
    """Return all that are about clusters, or about runs under way, oldest first."""
    query = (
        sa.select(requests)
        .outerjoin(runs, requests.c.run_id == runs.c.run_id)
        .where(requests.c.run_id.is_(None) | runs.c.state.in_(UNDER_WAY_STATES))
        .order_by(requests.c.id)
    )
    with transactions.reading() as connection:
        return tuple(read_request(row) for row in connection.execute(query))


def _with_snapshots(
    connection: sa.Connection, names: Collection[str] | None
) -> dict[str, LedgerState]:
    query = sa.select(clusters.c.name, clusters.c.last_observed_at)
    if names is not None:
        query = query.where(clusters.c.name.in_(sorted(names)))
    return {
        row.name: LedgerState(snapshot_at=row.last_observed_at) for row in connection.execute(query)
    }


_RUNS: Final = sa.select(runs, plans.c.plan_uri).join(
    plans, runs.c.fingerprint == plans.c.fingerprint
)


def _add_runs(connection: sa.Connection, found: dict[str, LedgerState]) -> None:
    """Add the current run of each cluster."""
    by_age = sa.func.row_number().over(
        partition_by=runs.c.cluster, order_by=(runs.c.opened_at.desc(), runs.c.run_id.desc())
    )
    ranked = sa.select(runs.c.run_id, by_age.label("age_rank")).subquery()
    query = (
        _RUNS.join(ranked, ranked.c.run_id == runs.c.run_id)
        .where(sa.or_(ranked.c.age_rank == 1, runs.c.state.in_(OPEN_STATES)))
        .where(runs.c.cluster.in_(sorted(found)))
        .order_by(runs.c.opened_at, runs.c.run_id)
    )
    for row in connection.execute(query):
        run, state = read_run(row), found[row.cluster]
        current = max(filter(None, (state.run, run)), key=_urgency)
        found[run.cluster] = replace(state, run=current)


def _urgency(run: Run) -> tuple[bool, bool, datetime, str]:
    return run.state in UNDER_WAY_STATES, run.state in OPEN_STATES, run.opened_at, run.run_id


def _add_progress(connection: sa.Connection, found: dict[str, LedgerState]) -> None:
    query = (
        sa.select(runs.c.cluster, pulses.c.body)
        .join(runs, runs.c.run_id == pulses.c.run_id)
        .where(runs.c.state.in_(UNDER_WAY_STATES), runs.c.cluster.in_(sorted(found)))
    )
    for row in connection.execute(query):
        try:
            progress = RunProgress.from_json(row.body)
        except JsonValueError as error:  # somebody else wrote it
            _LOGGER.warning("the progress of the run of %s is left out: %s", row.cluster, error)
            continue
        found[row.cluster] = replace(found[row.cluster], run_progress=progress)


def _add_keys(connection: sa.Connection, found: dict[str, LedgerState]) -> None:
    query = (
        sa.select(runs.c.cluster, runs.c.state, sa.func.count().label("keys"))
        .join(runs, runs.c.run_id == owned_keys.c.run_id)
        .where(owned_keys.c.done_at.is_(None), runs.c.cluster.in_(sorted(found)))
        .group_by(runs.c.cluster, runs.c.state)
    )
    for row in connection.execute(query):
        state = found[row.cluster]
        if row.state in UNDER_WAY_STATES:
            state = replace(state, throttle_keys=state.throttle_keys + row.keys)
        elif row.state in LOOKED_AFTER_STATES:
            state = replace(state, pending_restores=state.pending_restores + row.keys)
        found[row.cluster] = state
