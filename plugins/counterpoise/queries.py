"""What pages, the command line and metrics read: runs, their progress, reports. Reads only, and
never a cluster.

run_status(site, run_id).pulse, freezes(site), suggested_rate(site, plan)
list_reports(site), report(site, "demo/leader-balance.html"), plan_report(site, run_id)
"""

from collections.abc import Iterable
from dataclasses import dataclass

from counterpoise import analysis, reporting
from counterpoise.approval import people_needed, approvers_in_force
from counterpoise.archive import audit_report_name, plan_report_name
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import ControlRequest, find_active_requests
from counterpoise.model.movement import max_moves_at_once, rate_with_room
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.report import BrokerLoad
from counterpoise.model.run import ENDED_STATES, UNDER_WAY_STATES, Run, TouchedKey
from counterpoise.model.run_progress import RunProgress


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run as people ask for it.

    `owed` are config keys of dead brokers that are still to be restored.
    """

    run: Run
    approval: Approval | None
    moves_done: int
    moves_submitted: int
    touched: tuple[TouchedKey, ...]
    run_progress: RunProgress | None = None  # what the last look found
    requests: tuple[ControlRequest, ...] = ()  # about the run and its cluster, oldest first

    @property
    def owed(self) -> tuple[TouchedKey, ...]:
        ended = self.run.state in ENDED_STATES
        return tuple(key for key in self.touched if ended and key.restored_at is None)


def run_status(installation: Installation, run_id: str) -> RunStatus:
    run = installation.ledger.run(run_id)
    journal = installation.ledger.journal(run_id)
    submissions = journal.submissions().values()
    approvals = installation.ledger.approvals_of(run_id)
    return RunStatus(
        run=run,
        approval=approvals[-1] if approvals else None,
        moves_done=sum(submission.done_at is not None for submission in submissions),
        moves_submitted=len(submissions),
        touched=journal.touched(),
        run_progress=journal.run_progress(),
        requests=installation.ledger.requests(run.cluster, run_id),
    )


def run_progress_of(installation: Installation, run_id: str) -> tuple[Run, RunProgress | None]:
    """The run and what the last look at it found, whoever made that look."""
    return installation.ledger.run(run_id), installation.ledger.journal(run_id).run_progress()


def runs_under_way(installation: Installation, cluster: str | None = None) -> tuple[Run, ...]:
    """Newest first."""
    return tuple(
        r for r in installation.ledger.runs(cluster=cluster) if r.state in UNDER_WAY_STATES
    )


def freezes(installation: Installation, clusters: Iterable[str]) -> tuple[ControlRequest, ...]:
    """Those in force now, by cluster."""
    now = installation.clock()
    standing = [
        find_active_requests(installation.ledger.requests(cluster), now).frozen
        for cluster in sorted(set(clusters))
    ]
    return tuple(frozen for frozen in standing if frozen)


def runs(
    installation: Installation, *, cluster: str | None = None, most: int = 20
) -> tuple[RunStatus, ...]:
    """Newest first."""
    return tuple(
        run_status(installation, run.run_id)
        for run in installation.ledger.runs(cluster=cluster)[:most]
    )


def latest_run_of(installation: Installation, fingerprint: str) -> Run | None:
    found = installation.ledger.runs(fingerprint=fingerprint)
    return found[0] if found else None


def approvals_missing(installation: Installation, run_id: str, plan: RebalancePlan) -> int:
    """How many people more have to say yes before the run may start."""
    return max(0, people_needed(plan) - len(approvers_in_force(installation.ledger.approvals_of(run_id))))


def plan_of(installation: Installation, run_id: str) -> RebalancePlan:
    run = installation.ledger.run(run_id)
    return installation.archive.read_plan(run.plan_uri, run.fingerprint)


def suggested_rate(installation: Installation, plan: RebalancePlan) -> int | None:
    """Bytes per second that leave room for clients; None without a link capacity in the policy, or
    without rates.

    Raises InputError for a cluster that the settings do not name.
    """
    movement = installation.cluster(plan.cluster).policy.movement
    capacity = movement.link_capacity_bytes_per_second
    return None if capacity is None else rate_with_room(plan, capacity, max_moves_at_once(movement))


def broker_loads(photographed: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Leaders, replicas and bytes per live broker of one photograph."""
    return analysis.broker_loads(photographed)


def plan_picture(plan: RebalancePlan, *, width: int) -> str:
    """Brokers before and after in plain text, in lines of at most `width` characters."""
    return reporting.plan_picture(plan, width=width)


def list_reports(installation: Installation) -> list[str]:
    return list(installation.archive.report_names())


def report(installation: Installation, name: str) -> str:
    """A report's HTML. Raises InputError for one that is not there."""
    return installation.archive.read_report(name)


def audit_report(installation: Installation, cluster: str, *, suffix: str = "html") -> str:
    """The newest audit of a cluster, as page (html), text (md) or document (json).

    Raises InputError without one.
    """
    return report(installation, audit_report_name(cluster, suffix=suffix))


def name_of_plan_report(installation: Installation, run_id: str) -> str:
    """The name of the report of a run's plan. Raises InputError for a run that is not known."""
    return plan_report_name(installation.ledger.run(run_id).cluster, run_id)
