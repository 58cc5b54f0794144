"""An approved run: opened, executed one observation at a time, settled.

open_run(installation, run_id, fingerprint)
execute_step(installation, run_id, fingerprint, log)     # seconds to wait; None: all is done
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise import access
from counterpoise.access import check_granted
from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.execution.back_off import LOWEST_RATE
from counterpoise.execution.conditions import TABLE, in_words
from counterpoise.execution.observation import moves_in_flight
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move
from counterpoise.model.policy import Action, ClusterPolicy
from counterpoise.model.provider import profile_of
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState, events_since_halt
from counterpoise.model.run_progress import Condition, RunProgress
from counterpoise.services.approvals import check_approved
from counterpoise.services.kept_empty import check_kept_empty
from counterpoise.services.validations import check_plan_rules

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader

Log = Callable[[str], None]

_CLEARED: Final = "cleared"  # an event of the run


def open_run(
    installation: Installation, run_id: str, fingerprint: str, *, was_cleared: bool = False
) -> None:
    """Start an approved run for its Dag run, as `opened_run` does.

    A run that has halted goes on after another yes, or where somebody
    has cleared the task since: a retry alone, or a task that is late, does not revive it. Airflow
    does not say who cleared a task, so where the policy names who may operate, it takes a yes.
    Raises NotApprovedError.
    """
    run = installation.ledger.run(run_id)
    if run.state is RunState.HALTED:
        if was_cleared:
            installation.ledger.journal(run_id).event(_CLEARED, "its Dag run is to go on with it")
        _check_wanted_since(installation, run)
    with opened_run(installation, run_id, fingerprint, seen=run):
        pass


@contextmanager
def opened_run(
    installation: Installation,
    run_id: str,
    fingerprint: str,
    log: Log = lambda _: None,
    *,
    seen: Run | None = None,
) -> Iterator[Driver]:
    """Start an approved run and yield its driver, on the same connection.

    `seen` is the run as the caller has judged it; one that has ended since is not started. Before
    anything has moved, the plan has to keep the rules, still. Raises NotApprovedError,
    StalePlanError, RunConflictError, RefusedError; nothing has changed then.
    """
    run, plan = installation.run_and_plan(run_id, fingerprint)
    if run.state is RunState.SUPERSEDED:
        raise RefusedError(
            f"run {run_id} is superseded by a newer plan; approve that one, or make a new plan"
        )
    if run.state is RunState.CANCELLED:
        raise RefusedError(
            f"run {run_id} was cancelled ({run.reason}), and is not executed again; make a new plan"
        )
    if run.state not in UNDER_WAY_STATES:
        access.check_provider(installation.cluster(run.cluster).policy, run.cluster)
        check_approved(installation, run, plan)
        installation.check_name(plan)
        check_kept_empty(installation, plan)
    if run.state is RunState.APPROVED:
        check_plan_rules(installation, plan)
    with driver_of(installation, run_id, fingerprint, log) as driver:
        driver.open(seen=seen or run)
        yield driver


def _check_wanted_since(installation: Installation, run: Run) -> None:
    """Raise NotApprovedError where nobody who may has asked for a run to go on since it halted.

    What came after what is the order of the ledger's rows: clocks of two processes may differ.
    """
    approvals = installation.ledger.approvals_of(run.run_id)
    last = approvals[-1] if approvals else None
    if last is None or last.decision is not Decision.GRANTED or last.person.is_rule:
        return  # the check of the approval says why it does not go on
    events = installation.ledger.journal(run.run_id).events()
    kinds = [event.kind for event in events_since_halt(events)]
    if str(Decision.GRANTED) in kinds:
        return
    if access.named_entries(installation.cluster(run.cluster).policy, Action.OPERATE):
        raise NotApprovedError(
            f"run {run.run_id} has halted ({run.reason}), and the policy names who may operate: "
            f"one of them goes on with it (`counterpoise execute {run.run_id}`), or it is approved "
            "again (clear `approve`)"
        )
    if _CLEARED not in kinds:
        raise NotApprovedError(
            f"run {run.run_id} has halted ({run.reason}), and nobody has asked since for it to go "
            f"on: clear `execute`, or type `counterpoise execute {run.run_id}`, if it should"
        )


def execute_step(
    installation: Installation, run_id: str, fingerprint: str, log: Log
) -> float | None:
    """Observe a run and carry it on; return the seconds to wait, or None when all is moved and
    elected. Raises HaltedError, CancelledError as `Driver.step` does.
    """
    before = _run_progress(installation, run_id)
    with driver_of(installation, run_id, fingerprint, _only_news(log, before)) as driver:
        wait_seconds = driver.step()
    _log_progress(installation, run_id, log, before, is_last=wait_seconds is None)
    return wait_seconds


def settle_step(
    installation: Installation,
    run_id: str,
    log: Log,
    *,
    may_halt: Callable[[Run], bool] = lambda _: True,
) -> float | None:
    """Bring a run closer to its end: nothing in flight, then every config as it was.

    Returns the seconds to wait, or None when it has ended; also where it is RUNNING and may not be
    halted, judged while nobody else works on the cluster.
    """
    run = installation.ledger.run(run_id)
    if run.state not in UNDER_WAY_STATES:
        return None
    before = _run_progress(installation, run_id)
    only_news = _only_news(log, before)
    with driver_of(installation, run_id, run.fingerprint, only_news, settles=True) as driver:
        wait_seconds = driver.settle_step(may_halt=may_halt)
    if wait_seconds is not None:
        _log_progress(installation, run_id, log, before)
    return wait_seconds


def _run_progress(installation: Installation, run_id: str) -> RunProgress | None:
    return installation.ledger.journal(run_id).run_progress()


def _only_news(log: Log, before: RunProgress | None) -> Log:
    """Return `log` without what the run already waited for at the step before."""
    did = in_words(before.activity) if before and before.activity else ""
    return lambda text: None if text == did else log(text)


def _log_progress(
    installation: Installation,
    run_id: str,
    log: Log,
    before: RunProgress | None,
    *,
    is_last: bool = False,
) -> None:
    """Log how far the run is: when what it waits for has changed, and else once a minute.

    The minutes are those of the clock, so that no process has to know what another one has logged.
    """
    now = _run_progress(installation, run_id)
    if now is None:
        return
    is_same = before is not None and _subject(before) == _subject(now)
    if is_last or not is_same or _minute(before) != _minute(now):
        log(now.in_words)


def _subject(run_progress: RunProgress) -> tuple[Condition, tuple[str, ...]] | None:
    """Return what the run waits for; None where it is at work."""
    activity = run_progress.activity
    if activity is None or TABLE[activity.condition].is_doing:
        return None
    return activity.condition, activity.subjects


def _minute(run_progress: RunProgress | None) -> datetime | None:
    return run_progress.observed_at.replace(second=0, microsecond=0) if run_progress else None


@contextmanager
def driver_of(
    installation: Installation,
    run_id: str,
    fingerprint: str,
    log: Log = lambda _: None,
    *,
    settles: bool = False,
) -> Iterator[Driver]:
    """Yield the driver of a run, on one connection.

    Raises NotApprovedError unless the ledger holds a yes for this plan. Whether the yes has expired
    is checked only when the run starts, and so is how many people the policy asks for. To settle
    takes no yes: it starts nothing, and has to be possible when `ledger prune` has deleted the yes,
    or when one of two people has renewed theirs.
    """
    run, plan = installation.run_and_plan(run_id, fingerprint)
    granted = [
        approval
        for approval in installation.ledger.approvals_of(run_id)
        if approval.decision is Decision.GRANTED
    ]
    if not settles:
        when = granted[-1].at if granted else installation.ledger.now()
        check_granted(ClusterPolicy(), run, plan, granted, when)
    approval = granted[-1] if granted else None
    policy = installation.cluster(run.cluster).policy
    rate = approval.rate_bytes_per_second if approval else None
    options = ExecutionOptions(
        run_id=run.run_id,
        plan=plan,
        rate_bytes_per_second=rate or _last_rate(installation, run),
        limits=policy.movement,
        disk_limit_percent=policy.balance.disk_limit_percent,
        max_partitions_per_call=profile_of(policy.provider).max_partitions_per_call,
        # Again, since a role of the database may write requests without the check.
        max_rate_bytes_per_second=access.highest_rate(policy),
    )
    with installation.operator(run.cluster) as admin:
        yield Driver(admin, installation.ledger, options, installation.ledger.now, log)


def _last_rate(installation: Installation, run: Run) -> int:
    """Return the rate at the last observation of a run whose yes is not in the ledger any more."""
    run_progress = _run_progress(installation, run.run_id)
    known_rate = run_progress.rate_bytes_per_second if run_progress else 0
    return known_rate or LOWEST_RATE


# -- What ended runs of a cluster have in flight
#
# moves_left(installation, admin, "prod-eu")    # {run id: moves in flight}


def moves_left(
    installation: Installation, reader: "ClusterReader", cluster: str
) -> dict[str, tuple[Move, ...]]:
    """Return the moves in flight of runs that have ended, by the run's id, newest first.

    Raises StoreError where a plan cannot be read.
    """
    ledger = installation.ledger
    by_run = grouped((row.run_id, row) for row in ledger.open_submitted(cluster))
    reassignments = reader.list_reassignments() if by_run else {}
    found = {
        run_id: moves_in_flight(installation.plan_of(ledger.run(run_id)), reassignments, rows)
        for run_id, rows in by_run.items()
        if any(row.topic_partition in reassignments for row in rows)
    }
    return {run_id: moves for run_id, moves in found.items() if moves}


def sweep_step(installation: Installation, run_id: str, log: Log) -> float | None:
    """Look after what an ended run has in flight, as `Driver.sweep_step` does."""
    run = installation.ledger.run(run_id)
    with driver_of(installation, run_id, run.fingerprint, log, settles=True) as driver:
        return driver.sweep_step()
