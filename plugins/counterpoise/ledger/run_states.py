"""Changes the state of a run, within a transaction of the caller.

    with transactions.for_run(run_id) as connection:
        set_state(connection, run_id, RunState.SETTLING, "cancelled by bob", now)

Which states lead where is in one table, `model.run.TRANSITIONS`.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from counterpoise.errors import RefusedError, RunConflictError
from counterpoise.ledger.audit_log import note
from counterpoise.ledger.rows import read_request
from counterpoise.ledger.schema import events, plans, requests, runs
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest, find_active_requests
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import OPEN_STATES, TRANSITIONS, UNDER_WAY_STATES, Run, RunState

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


def record_plan(
    connection: sa.Connection, plan: RebalancePlan, plan_uri: str, now: datetime
) -> None:
    """Record where a plan lies; one that is known already stays as it was recorded."""
    known = sa.select(plans.c.fingerprint).where(plans.c.fingerprint == plan.fingerprint)
    if connection.scalar(known) is not None:
        return
    connection.execute(
        plans.insert().values(
            fingerprint=plan.fingerprint,
            cluster=plan.cluster,
            plan_uri=plan_uri,
            recorded_at=now,
        )
    )


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
