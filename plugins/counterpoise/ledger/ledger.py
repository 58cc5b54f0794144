"""The ledger: clusters, plans, approvals and runs, and the journal of what happens inside one run.

    ledger = Ledger.open("sqlite:///var/ledger.db")
    run = ledger.propose(plan, "plans/abc.json", requested_by="alice")
    ledger.record_decision(Approval(run.run_id, plan.fingerprint, Decision.GRANTED, ...))
    ledger.journal(run.run_id).owned_keys()              # anybody may read
    with ledger.journal(run.run_id).step() as step:      # who works on the run writes: `step.py`
        step.change_state(RunState.RUNNING)
    ledger.cluster_states()["demo"].run                  # all clusters at one moment
    ledger.entries().newest(EntryFilter(clusters=("demo",)), limit=50)

Every method is one transaction. Raises LedgerError when the database cannot be reached.

What `counterpoise ledger prune` deletes: events, approvals and requests from before a time. Runs go
oldest first: a run can be undone as long as its events and those of the runs after it are there.
One that is open, or ended later, stays, and so do the runs after it. What was noted at a run since
it ended, like an answer that was refused, stays until it is old itself. These stay, too: an
approval or a freeze that has not ended, what keeps a broker empty, an approval by a rule of the
policy within the last day (against what it may approve), and a pause of a run that has halted:
executed again, it would submit what somebody wanted to wait. The rate of such a run does not count:
executing it takes another approval, which has one of its own.

Limits: a person in the text of an event is found by the text; other tables have a column for it.
"""

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.errors import RunConflictError, UnknownNameError, WrongClusterError
from counterpoise.ledger.database import database_seconds, newest_revision, open_database
from counterpoise.ledger.rows import (
    OBSERVED_AT,
    PROGRESS,
    REQUESTS,
    RUN,
    add_event,
    add_request,
    check_may_supersede,
    check_may_withdraw,
    check_rule_is_first,
    mark_rates_done,
    opening_time,
    read_approval,
    read_open_keys,
    read_open_of_others,
    read_owned_keys,
    read_request,
    read_run,
    read_submitted,
    set_state,
)
from counterpoise.ledger.schema import (
    approvals,
    clusters,
    events,
    failures,
    owned_keys,
    pulses,
    requests,
    runs,
    submitted,
)
from counterpoise.ledger.step import Step, held_step
from counterpoise.ledger.transactions import Transactions, insert_if_missing
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.cluster_failure import ClusterFailure, FailureKind
from counterpoise.model.control import Control, ControlRequest, find_active_requests
from counterpoise.model.json_values import JsonValueError
from counterpoise.model.ledger_entry import EntryFilter, EntryTable, LedgerEntry
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import AUTOMATIC_APPROVALS_COUNT_FOR
from counterpoise.model.run import (
    ENDED_STATES,
    LOOKED_AFTER_STATES,
    LOST_AFTER,
    OPEN_STATES,
    UNDER_WAY_STATES,
    WAITING_STATES,
    WHY_REQUESTED,
    Event,
    OwnedKey,
    Run,
    RunState,
    Submitted,
)
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.safe_text import is_storable, one_line, safe_logger


class Journal:
    def __init__(self, run_id: str, transactions: Transactions) -> None:
        self.run_id = run_id
        self._transactions = transactions

    def step(self) -> AbstractContextManager[Step]:
        """Hold the step of this run. Raises StepLockHeldError when another copy holds it."""
        cluster = self._transactions.cluster_of(self.run_id)
        return held_step(self._transactions, cluster, self.run_id)

    def owned_keys(self) -> list[OwnedKey]:
        """Return the config keys that the run has set, by resource and key."""
        with self._transactions.reading() as connection:
            now = self._transactions.now(connection)
            return read_owned_keys(connection, self.run_id, now)

    def submitted(self, *, only_open: bool = False) -> list[Submitted]:
        """Return what the run has submitted; only where something of it may be under way."""
        with self._transactions.reading() as connection:
            now = self._transactions.now(connection)
            return read_submitted(connection, self.run_id, now, only_open=only_open)

    def count_submitted(self) -> int:
        """Return of how many partitions the run has submitted something."""
        partitions = sa.select(submitted.c.topic, submitted.c.partition).distinct()
        of_run = partitions.where(submitted.c.run_id == self.run_id).subquery()
        with self._transactions.reading() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(of_run)) or 0

    def run_progress(self) -> RunProgress | None:
        """Return the progress at the last observation; None before the first one."""
        with self._transactions.reading() as connection:
            body = connection.scalar(PROGRESS, {"this_run": self.run_id})
        return None if body is None else RunProgress.from_json(body)

    def unobserved_for(self) -> timedelta:
        """Return how long ago the run was observed last, or opened where it never was.

        By the database's clock: those of the worker that drives a run and of the watch may differ.
        """
        with self._transactions.reading() as connection:
            observed_at = connection.scalar(OBSERVED_AT, {"this_run": self.run_id})
            now = datetime.fromtimestamp(database_seconds(connection), UTC)
        return now - observed_at if observed_at else timedelta(0)

    def event(self, kind: str, text: str) -> None:
        """Add what happened around the run; a step records what the run itself does."""
        with self._transactions.for_run(self.run_id) as connection:
            now = self._transactions.now(connection)
            add_event(connection, self.run_id, kind, text, now)

    def events(self) -> tuple[Event, ...]:
        query = sa.select(events).where(events.c.run_id == self.run_id).order_by(events.c.id)
        with self._transactions.reading() as connection:
            return tuple(Event(r.at, r.kind, r.text) for r in connection.execute(query))


# -- entries for people: events, decisions and requests in one list


_TABLES: Final = (events, approvals, requests)
_NOBODY: Final = sa.literal("")
# By table: the column with the kind, the text, and who.
_KINDS: Final[dict[str, sa.ColumnElement[Any]]] = {
    events.name: events.c.kind,
    approvals.name: approvals.c.decision,
    requests.name: requests.c.control,
}
_TEXTS: Final[dict[str, sa.ColumnElement[Any]]] = {
    events.name: events.c.text,
    approvals.name: approvals.c.reason,
    requests.name: sa.func.coalesce(
        sa.literal("broker ") + sa.cast(requests.c.broker_id, sa.Text) + sa.literal(": "), ""
    )
    + requests.c.why,
}


class Entries:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def newest(self, wanted: EntryFilter, *, limit: int, offset: int = 0) -> list[LedgerEntry]:
        """Return entries, the newest first. Raises LedgerError."""
        # Each table gives its own newest rows: only those are sorted together.
        parts = [
            sa.select(
                _selected(table, wanted)
                .order_by(table.c.at.desc(), table.c.id.desc())
                .limit(limit + offset)
                .subquery()
            )
            for table in _TABLES
            if _may_have(table, wanted)
        ]
        if not parts or not wanted.clusters:
            return []
        found = sa.union_all(*parts).subquery()
        query = (
            sa.select(found)
            .order_by(found.c.at.desc(), found.c.table_name, found.c.id.desc())
            .limit(limit)
            .offset(offset)
        )
        with self._transactions.reading() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def kinds(self, of_clusters: Collection[str]) -> tuple[str, ...]:
        """Return the kinds that entries of these clusters have, by name."""
        queries = [
            sa.select(_KINDS[table.name].label("kind"))
            .select_from(_with_cluster(table))
            .where(_cluster_column(table).in_(of_clusters))
            .distinct()
            for table in _TABLES
        ]
        with self._transactions.reading() as connection:
            return tuple(sorted(set(connection.scalars(sa.union(*queries)))))

    def clusters(self) -> frozenset[str]:
        """Return the clusters that runs, requests or snapshots are about."""
        columns = (runs.c.cluster, requests.c.cluster, clusters.c.name)
        with self._transactions.reading() as connection:
            return frozenset(connection.scalars(sa.union(*map(sa.select, columns))))

    def newest_snapshots(self) -> dict[str, datetime]:
        """Return when the newest snapshot of each cluster was made, where there is one."""
        query = sa.select(clusters.c.name, clusters.c.last_observed_at).where(
            clusters.c.last_observed_at.is_not(None)
        )
        with self._transactions.reading() as connection:
            return {row.name: row.last_observed_at for row in connection.execute(query)}


def _cluster_column(table: sa.Table) -> sa.Column[Any]:
    return requests.c.cluster if table is requests else runs.c.cluster


def _with_cluster(table: sa.Table) -> sa.FromClause:
    """Return the table, joined to what says which cluster a row is of."""
    return table if table is requests else table.outerjoin(runs, table.c.run_id == runs.c.run_id)


def _selected(table: sa.Table, wanted: EntryFilter) -> sa.Select[Any]:
    has_person = "by" in table.c
    return (
        sa.select(
            sa.literal(table.name).label("table_name"),
            table.c.id.label("id"),
            _cluster_column(table).label("cluster"),
            table.c.run_id.label("run_id"),
            table.c.at.label("at"),
            _KINDS[table.name].label("kind"),
            _TEXTS[table.name].label("text"),
            (table.c.by if has_person else _NOBODY).label("by"),
        )
        .select_from(_with_cluster(table))
        .where(*_conditions(table, wanted))
    )


def _conditions(table: sa.Table, wanted: EntryFilter) -> Iterator[sa.ColumnElement[bool]]:
    yield _cluster_column(table).in_(wanted.clusters)
    if wanted.run_id:
        yield table.c.run_id == wanted.run_id
    if wanted.kind and wanted.kind != table.name:
        yield _KINDS[table.name] == wanted.kind
    if wanted.person:
        where = table.c.by if "by" in table.c else _TEXTS[table.name]
        yield where.icontains(wanted.person, autoescape=True)
    if wanted.since is not None:
        yield table.c.at >= wanted.since
    if wanted.until is not None:
        yield table.c.at <= wanted.until


def _may_have(table: sa.Table, wanted: EntryFilter) -> bool:
    """Return whether a table is worth a query: the kind may name another one."""
    return wanted.kind not in set(EntryTable) - {table.name}


def _entry(row: sa.Row[Any]) -> LedgerEntry:
    return LedgerEntry(
        table=EntryTable(row.table_name),
        row_id=row.id,
        cluster=row.cluster,
        run_id=row.run_id,
        at=row.at,
        kind=row.kind,
        text=row.text,
        by=row.by,
    )


# -- all clusters at one moment, in a few queries


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


def _with_snapshots(
    connection: sa.Connection, names: Collection[str] | None
) -> dict[str, LedgerState]:
    query = sa.select(clusters.c.name, clusters.c.last_observed_at)
    if names is not None:
        query = query.where(clusters.c.name.in_(sorted(names)))
    return {
        row.name: LedgerState(snapshot_at=row.last_observed_at) for row in connection.execute(query)
    }


def _add_runs(connection: sa.Connection, found: dict[str, LedgerState]) -> None:
    """Add the current run of each cluster."""
    by_age = sa.func.row_number().over(
        partition_by=runs.c.cluster, order_by=(runs.c.opened_at.desc(), runs.c.run_id.desc())
    )
    ranked = sa.select(runs.c.run_id, by_age.label("age_rank")).subquery()
    query = (
        sa.select(runs)
        .join(ranked, ranked.c.run_id == runs.c.run_id)
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


_MAX_FAILURE_CHARACTERS: Final = 500


# -- rows that count no more


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
        (owned_keys, owned.done_at.is_not(None) & is_answered),
    )
    for table, condition in no_longer_needed:
        connection.execute(table.delete().where(table.c.run_id.in_(forgotten), condition))


# -- the ledger


class Ledger:
    def __init__(self, engine: sa.Engine, clock: Callable[[], datetime] | None = None) -> None:
        self._engine = engine
        self._transactions = Transactions(engine, clock)

    @classmethod
    def open(
        cls, url: str, clock: Callable[[], datetime] | None = None, *, migrate: bool = True
    ) -> "Ledger":
        """Open a ledger; without `migrate`, one that is made and up to date already.

        A test gives a clock in place of the database's. Raises InputError, LedgerError.
        """
        return cls(open_database(url, migrate=migrate), clock)

    def close(self) -> None:
        self._engine.dispose()

    def now(self) -> datetime:
        """Return the time by the database's clock. Raises LedgerError.

        All that expires, or holds until a time, is compared with this: clocks of machines differ.
        """
        return self._transactions.now()

    @property
    def schema(self) -> str:
        """Return the revision of its tables: that of this release, or it would not be open."""
        return newest_revision()

    def pin_cluster(self, name: str, cluster_id: str) -> None:
        """Remember which cluster a name means.

        Raises WrongClusterError when another one answers under it.
        """
        query = sa.select(clusters.c.cluster_id).where(clusters.c.name == name)
        with self._transactions.reading() as connection:
            pinned = connection.scalar(query)
        if pinned == cluster_id:
            return
        with self._transactions.writing() as connection:
            if pinned is None:
                insert_if_missing(connection, clusters, [{"name": name, "cluster_id": cluster_id}])
            pinned = connection.scalar(query)
            if pinned != cluster_id:
                raise WrongClusterError(
                    f"cluster {name}: the brokers that answered belong to cluster id {cluster_id}, "
                    f"but {name} was {pinned} until now. Check the bootstrap addresses; a rebuilt "
                    "cluster needs a new name."
                )

    def pinned_clusters(self) -> dict[str, str]:
        """Return the id of each cluster that was met, by its name."""
        with self._transactions.reading() as connection:
            rows = connection.execute(sa.select(clusters.c.name, clusters.c.cluster_id))
            return {row.name: row.cluster_id for row in rows}

    def record_snapshot(self, name: str, snapshot_id: str, observed_at: datetime) -> None:
        with self._transactions.writing() as connection:
            connection.execute(
                clusters.update()
                .where(clusters.c.name == name)
                .values(last_snapshot_id=snapshot_id, last_observed_at=observed_at)
            )

    def record_failure(self, cluster: str, kind: FailureKind, text: str) -> None:
        """Record that something of a cluster does not work, until `end_failure`: since the first
        time, and for the last reason.
        """
        first_line = one_line(text.partition("\n")[0]).rstrip(":")[:_MAX_FAILURE_CHARACTERS]
        this_one = (failures.c.cluster == cluster, failures.c.kind == str(kind))
        with self._transactions.writing() as connection:
            known = connection.execute(sa.select(failures).where(*this_one)).first()
            if known is not None and known.text == first_line:
                return
            row = {
                "cluster": cluster,
                "kind": str(kind),
                "since": known.since if known else self._transactions.now(connection),
                "text": first_line,
            }
            connection.execute(failures.delete().where(*this_one))
            insert_if_missing(connection, failures, [row])

    def end_failure(self, cluster: str, kind: FailureKind) -> None:
        this_one = (failures.c.cluster == cluster, failures.c.kind == str(kind))
        with self._transactions.reading() as connection:
            if connection.scalar(sa.select(failures.c.kind).where(*this_one)) is None:
                return
        with self._transactions.writing() as connection:
            connection.execute(failures.delete().where(*this_one))

    def failures(self) -> dict[str, ClusterFailure]:
        """Return what is the matter with each cluster of which something does not work."""
        found: dict[str, ClusterFailure] = {}
        query = sa.select(failures).order_by(failures.c.cluster, failures.c.kind)
        with self._transactions.reading() as connection:
            for row in connection.execute(query):
                failure = ClusterFailure(row.cluster, FailureKind(row.kind), row.since, row.text)
                found.setdefault(row.cluster, failure)  # "not answering" comes first
        return found

    def last_snapshot_id(self, name: str) -> str | None:
        query = sa.select(clusters.c.last_snapshot_id).where(clusters.c.name == name)
        with self._transactions.reading() as connection:
            found: str | None = connection.scalar(query)
        return found

    def propose(
        self,
        plan: RebalancePlan,
        plan_uri: str,
        *,
        requested_by: str,
        dag_id: str | None = None,
        dag_run_id: str | None = None,
        supersedes: Collection[RunState] = WAITING_STATES,
        why: str = "",
    ) -> Run:
        """Open a run for a plan; an earlier one in a state that it `supersedes` is superseded.

        The same plan proposed again while its run still waits is the same run, unless another Dag
        run proposes it. Raises RunConflictError while another run is under way on this cluster,
        and RefusedError where the requester may not supersede the one that waits.
        """
        requester = Person.from_ledger(requested_by)
        dag_run = (dag_id, dag_run_id)
        with self._transactions.for_cluster(plan.cluster) as connection:
            now = self._transactions.now(connection)
            for row in self._open_rows(connection, plan.cluster):
                is_same_dag_run = dag_run_id is None or (row.dag_id, row.dag_run_id) == dag_run
                if row.fingerprint == plan.fingerprint and is_same_dag_run:
                    return read_run(row)
                check_may_supersede(read_run(row), requester, supersedes)
                reason = f"superseded by {plan.fingerprint}"
                set_state(connection, row.run_id, RunState.SUPERSEDED, reason, now)
            opened_at = opening_time(connection, plan.cluster, now)
            run_id = f"{plan.cluster}-{opened_at:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"
            connection.execute(
                runs.insert().values(
                    run_id=run_id,
                    cluster=plan.cluster,
                    fingerprint=plan.fingerprint,
                    plan_uri=plan_uri,
                    state=RunState.PROPOSED,
                    reason="",
                    requested_by=requested_by,
                    dag_id=dag_id,
                    dag_run_id=dag_run_id,
                    opened_at=opened_at,
                )
            )
            text = f"{plan.fingerprint} by {requester.shown}"
            add_event(connection, run_id, "proposed", text, now, requester.shown)
            if why:
                add_event(connection, run_id, WHY_REQUESTED, why, now, requester.shown)
        return self.run(run_id)

    def run(self, run_id: str) -> Run:
        """Return one run. Raises UnknownNameError for an unknown id."""
        of_run = {"this_run": run_id}
        with self._transactions.reading() as connection:
            row = connection.execute(RUN, of_run).first() if is_storable(run_id) else None
        if row is None:
            raise UnknownNameError(
                f"run {run_id!r} is not in the ledger; `counterpoise status` lists the runs"
            )
        return read_run(row)

    def runs(
        self,
        *,
        cluster: str | None = None,
        fingerprint: str | None = None,
        states: Collection[RunState] | None = None,
        were_started: bool = False,
    ) -> tuple[Run, ...]:
        """Return the runs, newest first; with `were_started`, those that are or were under way."""
        query = sa.select(runs).order_by(runs.c.opened_at.desc(), runs.c.run_id.desc())
        if cluster is not None:
            query = query.where(runs.c.cluster == cluster)
        if fingerprint is not None:
            query = query.where(runs.c.fingerprint == fingerprint)
        if states is not None:
            query = query.where(runs.c.state.in_(states))
        if were_started:
            was_observed = sa.exists().where(pulses.c.run_id == runs.c.run_id)
            is_or_was = runs.c.state.in_(UNDER_WAY_STATES | ENDED_STATES)
            query = query.where(is_or_was | was_observed)
        with self._transactions.reading() as connection:
            return tuple(read_run(row) for row in connection.execute(query))

    def run_of(self, dag_id: str, dag_run_id: str) -> Run | None:
        """Return the run that a Dag run proposed, the newest of several; None without one."""
        query = (
            sa.select(runs)
            .where(runs.c.dag_id == dag_id, runs.c.dag_run_id == dag_run_id)
            .order_by(runs.c.opened_at.desc(), runs.c.run_id.desc())
            .limit(1)
        )
        with self._transactions.reading() as connection:
            row = connection.execute(query).first()
        return read_run(row) if row else None

    def answer_seen(self, run_id: str) -> str:
        """Return what changes with each answer about a run, and with each other end of its wait."""
        with self._transactions.reading() as connection:
            return self._answer_seen(connection, run_id)

    def record_decision(
        self,
        approval: Approval,
        *,
        is_enough: Callable[[Sequence[Approval]], bool] = bool,
        seen: str = "",
    ) -> None:
        """Keep a yes, a no or a timeout, and change the run's state with it, in one transaction.

        A plan that waits is approved by the yes with which all decisions on its run, oldest first,
        are enough. The rate of a yes takes the place of those that were requested before. Whether a
        freeze is over goes by the time that is read when nobody else decides about the cluster.
        Raises RunConflictError where the run is not as it was `seen` any more (`answer_seen`).
        """
        granted = approval.decision is Decision.GRANTED
        with self._transactions.for_run(approval.run_id) as connection:
            now = self._transactions.now(connection)
            state = connection.scalar(
                sa.select(runs.c.state).where(runs.c.run_id == approval.run_id)
            )
            earlier = self._decisions(connection, approval.run_id)
            if seen and seen != (found := self._answer_seen(connection, approval.run_id)):
                raise RunConflictError(f"run {approval.run_id} was {seen}, and is {found} now")
            check_may_withdraw(approval, state, earlier)
            check_rule_is_first(connection, approval, state, earlier, now)
            connection.execute(approvals.insert().values(**asdict(approval)))
            if granted:
                mark_rates_done(connection, approval.run_id, now)
            is_renewed = granted and state in (RunState.APPROVED, RunState.HALTED)
            is_moot = not granted and state == RunState.SUPERSEDED
            is_waiting = granted and state == RunState.PROPOSED
            waits_on = is_waiting and not is_enough((*earlier, approval))
            if not (is_renewed or is_moot or waits_on):
                target = RunState.APPROVED if granted else RunState.REJECTED
                set_state(
                    connection,
                    approval.run_id,
                    target,
                    "" if granted else approval.reason,
                    now,
                )
            who = approval.person.shown
            text = f"{approval.decision} by {who}: {approval.reason}"
            add_event(connection, approval.run_id, str(approval.decision), text, now, who)

    def approvals_of(self, run_id: str) -> tuple[Approval, ...]:
        """Return every decision on a run, oldest first."""
        with self._transactions.reading() as connection:
            return self._decisions(connection, run_id)

    def approvals_since(self, cluster: str, since: datetime) -> tuple[Approval, ...]:
        """Return every yes to a plan of a cluster from a time on, oldest first."""
        query = (
            sa.select(approvals)
            .join(runs, runs.c.run_id == approvals.c.run_id)
            .where(
                runs.c.cluster == cluster,
                approvals.c.decision == Decision.GRANTED,
                approvals.c.at >= since,
            )
            .order_by(approvals.c.id)
        )
        with self._transactions.reading() as connection:
            return tuple(read_approval(row) for row in connection.execute(query))

    def record_request(self, request: ControlRequest) -> ControlRequest:
        """Keep a request about a run or a cluster; the next observation of the run follows it.

        Returns it with the time that is read when nobody else decides about the cluster.
        """
        with self._transactions.for_cluster(request.cluster) as connection:
            request = replace(request, at=self._transactions.now(connection))
            add_request(connection, request)
        return request

    def requests(self, cluster: str, run_id: str | None = None) -> tuple[ControlRequest, ...]:
        """Return all about a cluster, and about one of its runs, oldest first."""
        concerned = {"this_cluster": cluster, "this_run": run_id}
        with self._transactions.reading() as connection:
            return tuple(read_request(row) for row in connection.execute(REQUESTS, concerned))

    def current_requests(self) -> tuple[ControlRequest, ...]:
        """Return all that are about clusters, or about runs under way, oldest first."""
        query = (
            sa.select(requests)
            .outerjoin(runs, requests.c.run_id == runs.c.run_id)
            .where(requests.c.run_id.is_(None) | runs.c.state.in_(UNDER_WAY_STATES))
            .order_by(requests.c.id)
        )
        with self._transactions.reading() as connection:
            return tuple(read_request(row) for row in connection.execute(query))

    def open_submitted(self, cluster: str, except_of: str = "") -> list[Submitted]:
        """Return the open rows of what ended runs of a cluster have submitted, but for one of them;
        those of the newest run first.
        """
        with self._transactions.reading() as connection:
            now = self._transactions.now(connection)
            return read_open_of_others(connection, cluster, except_of, now)

    def open_keys(self, cluster: str) -> list[OwnedKey]:
        """Return the config keys of a cluster in which something of a run is, or may come."""
        with self._transactions.reading() as connection:
            return read_open_keys(connection, cluster, self._transactions.now(connection))

    def journal(self, run_id: str) -> Journal:
        return Journal(run_id, self._transactions)

    def step(self, cluster: str) -> AbstractContextManager[Step]:
        """Hold the steps of a cluster, for what ended runs have left there.

        Raises StepLockHeldError when another process works on a run of it.
        """
        return held_step(self._transactions, cluster, None)

    def cluster_states(self, clusters: Collection[str] | None = None) -> dict[str, LedgerState]:
        """Return what is known of each cluster that was met; of some of them where given."""
        with self._transactions.reading() as connection:
            found = _with_snapshots(connection, clusters)
            _add_runs(connection, found)
            _add_progress(connection, found)
            _add_keys(connection, found)
        return found

    def pending_restores_by_run(self, cluster: str) -> dict[str, int]:
        """Return how many config keys each ended run of a cluster has left to restore."""
        query = (
            sa.select(runs.c.run_id, sa.func.count().label("keys"))
            .join(runs, runs.c.run_id == owned_keys.c.run_id)
            .where(owned_keys.c.done_at.is_(None))
            .where(runs.c.cluster == cluster, runs.c.state.in_(LOOKED_AFTER_STATES))
            .group_by(runs.c.run_id)
        )
        with self._transactions.reading() as connection:
            return {row.run_id: row.keys for row in connection.execute(query)}

    def notified_findings(self, cluster: str) -> frozenset[str]:
        """Return the findings that were open when people were notified of findings last."""
        query = sa.select(clusters.c.notified_findings).where(clusters.c.name == cluster)
        with self._transactions.reading() as connection:
            return frozenset(json.loads(connection.scalar(query) or "[]"))

    def record_notified_findings(self, cluster: str, findings: Collection[str]) -> None:
        """Record that people have been notified of findings: these are open now."""
        with self._transactions.writing() as connection:
            connection.execute(
                clusters.update()
                .where(clusters.c.name == cluster)
                .values(notified_findings=json.dumps(sorted(findings)))
            )

    def prune(self, cluster: str, *, before: datetime) -> int:
        """Delete the old rows of a cluster that count no more (`retention.py`); return how many."""
        with self._transactions.for_cluster(cluster) as connection:
            now = self._transactions.now(connection)
            return delete_old_rows(connection, cluster, before, now)

    def entries(self) -> Entries:
        return Entries(self._transactions)

    def _answer_seen(self, connection: sa.Connection, run_id: str) -> str:
        state = connection.scalar(sa.select(runs.c.state).where(runs.c.run_id == run_id))
        return f"{state} with {len(self._decisions(connection, run_id))} answers"

    def _decisions(self, connection: sa.Connection, run_id: str) -> tuple[Approval, ...]:
        query = sa.select(approvals).where(approvals.c.run_id == run_id).order_by(approvals.c.id)
        return tuple(read_approval(row) for row in connection.execute(query))

    def _open_rows(self, connection: sa.Connection, cluster: str) -> list[sa.Row[Any]]:
        query = sa.select(runs).where(runs.c.cluster == cluster, runs.c.state.in_(OPEN_STATES))
        return list(connection.execute(query))
