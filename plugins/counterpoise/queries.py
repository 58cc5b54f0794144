"""What pages, the command line and metrics read: runs, their progress, reports. Reads only, and never a cluster.

run_status(site, run_id).pulse, freezes(site), suggested_rate(site, plan)
list_reports(site), report(site, "demo/leader-balance.html"), plan_report(site, run_id)
"""

from collections.abc import Iterable
from dataclasses import dataclass

from counterpoise import analysis, reporting
from counterpoise.approval import people_needed, who_said_yes
from counterpoise.archive import audit_report_name, plan_report_name
from counterpoise.installation import Site
from counterpoise.model.approval import Approval
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import ControlRequest, standing_requests
from counterpoise.model.movement import most_at_once, rate_with_room
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.pulse import Pulse
from counterpoise.model.report import BrokerLoad
from counterpoise.model.run import ENDED_STATES, UNDER_WAY_STATES, Run, TouchedKey


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run as people ask for it. `owed` are config keys of dead brokers that are still to be restored."""

    run: Run
    approval: Approval | None
    moves_done: int
    moves_submitted: int
    touched: tuple[TouchedKey, ...]
    pulse: Pulse | None = None  # what the last look found
    requests: tuple[ControlRequest, ...] = ()  # about the run and its cluster, oldest first

    @property
    def owed(self) -> tuple[TouchedKey, ...]:
        ended = self.run.state in ENDED_STATES
        return tuple(key for key in self.touched if ended and key.restored_at is None)


def run_status(site: Site, run_id: str) -> RunStatus:
    run = site.ledger.run(run_id)
    journal = site.ledger.journal(run_id)
    submissions = journal.submissions().values()
    approvals = site.ledger.approvals_of(run_id)
    return RunStatus(
        run=run,
        approval=approvals[-1] if approvals else None,
        moves_done=sum(submission.done_at is not None for submission in submissions),
        moves_submitted=len(submissions),
        touched=journal.touched(),
        pulse=journal.pulse(),
        requests=site.ledger.requests(run.cluster, run_id),
    )


def pulse_of(site: Site, run_id: str) -> tuple[Run, Pulse | None]:
    """The run and what the last look at it found, whoever made that look."""
    return site.ledger.run(run_id), site.ledger.journal(run_id).pulse()


def runs_under_way(site: Site, cluster: str | None = None) -> tuple[Run, ...]:
    """Newest first."""
    return tuple(r for r in site.ledger.runs(cluster=cluster) if r.state in UNDER_WAY_STATES)


def freezes(site: Site, clusters: Iterable[str]) -> tuple[ControlRequest, ...]:
    """Those in force now, by cluster."""
    now = site.clock()
    standing = [standing_requests(site.ledger.requests(cluster), now).frozen for cluster in sorted(set(clusters))]
    return tuple(frozen for frozen in standing if frozen)


def runs(site: Site, *, cluster: str | None = None, most: int = 20) -> tuple[RunStatus, ...]:
    """Newest first."""
    return tuple(run_status(site, run.run_id) for run in site.ledger.runs(cluster=cluster)[:most])


def latest_run_of(site: Site, fingerprint: str) -> Run | None:
    found = site.ledger.runs(fingerprint=fingerprint)
    return found[0] if found else None


def approvals_missing(site: Site, run_id: str, plan: RebalancePlan) -> int:
    """How many people more have to say yes before the run may start."""
    return max(0, people_needed(plan) - len(who_said_yes(site.ledger.approvals_of(run_id))))


def plan_of(site: Site, run_id: str) -> RebalancePlan:
    run = site.ledger.run(run_id)
    return site.archive.read_plan(run.plan_uri, run.fingerprint)


def suggested_rate(site: Site, plan: RebalancePlan) -> int | None:
    """Bytes per second that leave room for clients; None without a link capacity in the policy, or without rates.

    Raises InputError for a cluster that the settings do not name.
    """
    movement = site.cluster(plan.cluster).policy.movement
    capacity = movement.link_capacity_bytes_per_second
    return None if capacity is None else rate_with_room(plan, capacity, most_at_once(movement))


def broker_loads(photographed: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Leaders, replicas and bytes per live broker of one photograph."""
    return analysis.broker_loads(photographed)


def plan_picture(plan: RebalancePlan, *, width: int) -> str:
    """Brokers before and after in plain text, in lines of at most `width` characters."""
    return reporting.plan_picture(plan, width=width)


def list_reports(site: Site) -> list[str]:
    return list(site.archive.report_names())


def report(site: Site, name: str) -> str:
    """A report's HTML. Raises InputError for one that is not there."""
    return site.archive.read_report(name)


def audit_report(site: Site, cluster: str, *, suffix: str = "html") -> str:
    """The newest audit of a cluster, as page (html), text (md) or document (json). Raises InputError without one."""
    return report(site, audit_report_name(cluster, suffix=suffix))


def name_of_plan_report(site: Site, run_id: str) -> str:
    """The name of the report of a run's plan. Raises InputError for a run that is not known."""
    return plan_report_name(site.ledger.run(run_id).cluster, run_id)
