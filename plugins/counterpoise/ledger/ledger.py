"""The ledger: clusters, plans, approvals and runs; `journal.py` has what happens inside one run.

    ledger = Ledger.open("sqlite:///var/ledger.db")
    run = ledger.propose(plan, "plans/abc.json", requested_by="alice")
    ledger.record_decision(Approval(run.run_id, plan.fingerprint, Decision.GRANTED, ...))
    with ledger.journal(run.run_id).step() as step:
        step.change_state(RunState.RUNNING)

Every method is one transaction. Raises LedgerError when the database cannot be reached.
"""

import json
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from counterpoise.errors import RunConflictError, UnknownNameError, WrongClusterError
from counterpoise.ledger import failures, overview
from counterpoise.ledger.database import newest_revision, open_database
from counterpoise.ledger.entries import Entries
from counterpoise.ledger.journal import Journal
from counterpoise.ledger.owned import read_open_keys
from counterpoise.ledger.retention import delete_old_rows
from counterpoise.ledger.rows import read_approval, read_request, read_run
from counterpoise.ledger.run_states import (
    add_event,
    add_request,
    check_may_supersede,
    check_may_withdraw,
    check_rule_is_first,
    mark_rates_done,
    opening_time,
    record_plan,
    set_state,
)
from counterpoise.ledger.schema import approvals, clusters, pulses, runs
from counterpoise.ledger.statements import REQUESTS, RUN, select_runs
from counterpoise.ledger.step import Step, held_step
from counterpoise.ledger.submitted import read_open_of_others
from counterpoise.ledger.transactions import Transactions, insert_if_missing
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.cluster_failure import ClusterFailure, FailureKind
from counterpoise.model.control import ControlRequest
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import (
    ENDED_STATES,
    OPEN_STATES,
    UNDER_WAY_STATES,
    WAITING_STATES,
    WHY_REQUESTED,
    OwnedKey,
    Run,
    RunState,
    Submitted,
)
from counterpoise.model.safe_text import is_storable


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
        """Record that something of a cluster does not work, until `end_failure`."""
        failures.record_failure(self._transactions, cluster, kind, text)

    def end_failure(self, cluster: str, kind: FailureKind) -> None:
        failures.end_failure(self._transactions, cluster, kind)

    def failures(self) -> dict[str, ClusterFailure]:
        """Return what is the matter with each cluster of which something does not work."""
        return failures.failures_of(self._transactions)

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
            record_plan(connection, plan, plan_uri, now)
            opened_at = opening_time(connection, plan.cluster, now)
            run_id = f"{plan.cluster}-{opened_at:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"
            connection.execute(
                runs.insert().values(
                    run_id=run_id,
                    cluster=plan.cluster,
                    fingerprint=plan.fingerprint,
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
        query = select_runs().order_by(runs.c.opened_at.desc(), runs.c.run_id.desc())
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
            select_runs()
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
        return overview.current_requests(self._transactions)

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

    def cluster_states(
        self, clusters: Collection[str] | None = None
    ) -> dict[str, overview.LedgerState]:
        """Return what is known of each cluster that was met; of some of them where given."""
        return overview.cluster_states(self._transactions, clusters)

    def pending_restores_by_run(self, cluster: str) -> dict[str, int]:
        """Return how many config keys each ended run of a cluster has left to restore."""
        return overview.pending_restores_by_run(self._transactions, cluster)

    def notified_findings(self, cluster: str) -> frozenset[str]:
        """Return the findings that were open when people were notified of findings last."""
        query = sa.select(clusters.c.notified_findings).where(clusters.c.name == cluster)
        with self._transactions.reading() as connection:
            return frozenset(json.loads(connection.scalar(query) or "[]"))

    def record_notified_findings(
        self, cluster: str, before: Collection[str], after: Collection[str]
    ) -> bool:
        """Record that people are notified of findings: `after` takes the place of `before`.

        False, and no change, where another process was faster.
        """
        noted = sa.func.coalesce(clusters.c.notified_findings, "[]")
        is_as_read = noted == json.dumps(sorted(before))
        with self._transactions.writing() as connection:
            changed = connection.execute(
                clusters.update()
                .where(clusters.c.name == cluster, is_as_read)
                .values(notified_findings=json.dumps(sorted(after)))
            )
            return changed.rowcount == 1

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
        query = select_runs().where(runs.c.cluster == cluster, runs.c.state.in_(OPEN_STATES))
        return list(connection.execute(query))
