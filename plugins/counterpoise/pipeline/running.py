"""An approved run: opened, executed look by look, settled.

open_run(site, run_id, fingerprint)
execute_step(site, run_id, fingerprint, log)     # seconds to wait; None: all is moved and elected
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from counterpoise import reporting
from counterpoise.approval import granted_approval, people_needed
from counterpoise.errors import RefusedError
from counterpoise.execution import Driver, ExecutionOptions, is_pending_restore, restore_pending
from counterpoise.installation import Installation
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.model.approval import Decision
from counterpoise.model.run import ENDED_STATES, UNDER_WAY_STATES, Run, RunState, TouchedKey
from counterpoise.pipeline.looking_up import run_and_plan

Log = Callable[[str], None]


def open_run(installation: Installation, run_id: str, fingerprint: str) -> None:
    """Starts an approved run.

    Raises NotApprovedError, StalePlanError, RunConflictError; nothing has changed then.
    """
    with opened_run(installation, run_id, fingerprint):
        pass


@contextmanager
def opened_run(
    installation: Installation, run_id: str, fingerprint: str, log: Log = lambda _: None
) -> Iterator[Driver]:
    """As `open_run`, and then the hands of that run, on the same connection."""
    run, made = run_and_plan(installation, run_id, fingerprint)
    if run.state is RunState.SUPERSEDED:
        raise RefusedError(
            f"run {run_id} is superseded by a newer plan; approve that one, or make a new plan"
        )
    if run.state not in UNDER_WAY_STATES:
        approvals = installation.ledger.approvals_of(run_id)
        granted_approval(
            approvals, made.fingerprint, installation.clock(), people=people_needed(made)
        )
    _restore_what_is_pending(installation, run.cluster)
    with execution(installation, run_id, fingerprint, log) as driver:
        driver.open()
        yield driver


def _restore_what_is_pending(installation: Installation, cluster: str) -> None:
    """What earlier runs owe is restored first, or this run would take it for what was there before."""
    runs = [run for run in installation.ledger.runs(cluster=cluster) if run.state in ENDED_STATES]
    if any(
        is_pending_restore(key)
        for run in runs
        for key in installation.ledger.journal(run.run_id).touched()
    ):
        with installation.operator(cluster) as admin:
            restore_pending_of(installation, admin, runs)


def restore_pending_of(
    installation: Installation, admin: ClusterAdmin, runs: Sequence[Run]
) -> tuple[list[TouchedKey], list[TouchedKey]]:
    """The keys that those of the runs that have ended owe: now paid, and still owed.

    `runs` come newest first: what an older one put there may be what a newer one found.
    """
    paid: list[TouchedKey] = []
    owed: list[TouchedKey] = []
    for run in runs:
        if run.state in ENDED_STATES:
            done, left = restore_pending(admin, installation.ledger.journal(run.run_id))
            paid += done
            owed += left
    return paid, owed


def execute_step(
    installation: Installation, run_id: str, fingerprint: str, log: Log
) -> float | None:
    """One look at a run that moves; the seconds to wait, or None when all is moved and elected."""
    with execution(installation, run_id, fingerprint, log) as driver:
        wait = driver.step()
    _log_progress(installation, run_id, log)
    return wait


def settle_step(installation: Installation, run_id: str, log: Log) -> float | None:
    """One look towards the end of a run: nothing in flight, then every config as it was.

    None when it is over.
    """
    run = installation.ledger.run(run_id)
    if run.state not in UNDER_WAY_STATES:
        return None
    with execution(installation, run_id, run.fingerprint, log) as driver:
        wait = driver.settle_step()
    if wait is not None:
        _log_progress(installation, run_id, log)
    return wait


def _log_progress(installation: Installation, run_id: str, log: Log) -> None:
    if run_progress := installation.ledger.journal(run_id).run_progress():
        log(reporting.progress_line(run_progress))


@contextmanager
def execution(
    installation: Installation, run_id: str, fingerprint: str, log: Log = lambda _: None
) -> Iterator[Driver]:
    """The hands of a run, on one connection.

    Raises NotApprovedError unless the ledger holds a yes for this plan.
    """
    run, made = run_and_plan(installation, run_id, fingerprint)
    yes = [a for a in installation.ledger.approvals_of(run_id) if a.decision is Decision.GRANTED]
    at = yes[-1].at if yes else installation.clock()
    # Whether it still holds is asked when the run starts.
    approval = granted_approval(yes, made.fingerprint, at, people=people_needed(made))
    policy = installation.cluster(run.cluster).policy
    options = ExecutionOptions(
        run_id=run.run_id,
        plan=made,
        rate_bytes_per_second=approval.rate_bytes_per_second or 0,
        limits=policy.movement,
        disk_limit_percent=policy.balance.disk_limit_percent,
        fleet_max_moves_in_flight=installation.settings.fleet_max_moves_in_flight,
    )
    with installation.operator(run.cluster) as admin:
        yield Driver(admin, installation.ledger, options, installation.clock, log)
