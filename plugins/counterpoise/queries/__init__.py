"""What pages and the command line read: runs, their progress, reports. Reads only, never a cluster.

run_status(installation, run_id).run_progress
freezes(installation, clusters), kept_empty(installation, clusters)
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from counterpoise import approval
from counterpoise.errors import InputError
from counterpoise.installation import Installation, settings_in
from counterpoise.model import movement
from counterpoise.model.approval import Approval
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import ActiveRequests, ControlRequest, find_active_requests
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.report import BrokerLoad
from counterpoise.model.run import (
    LOOKED_AFTER_STATES,
    UNDER_WAY_STATES,
    Run,
    TouchedKey,
    has_all_events,
)
from counterpoise.model.run_progress import RunProgress


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run with what people want to know of it.

    `run_progress` is what the last step observed, `requests` are those about the run and its
    cluster, oldest first.
    """

    run: Run
    approval: Approval | None
    moves_done: int
    moves_submitted: int
    touched: tuple[TouchedKey, ...]
    run_progress: RunProgress | None = None
    requests: tuple[ControlRequest, ...] = ()

    @property
    def pending_restores(self) -> tuple[TouchedKey, ...]:
        """Return the config keys that an ended run could not restore: their brokers are dead."""
        if self.run.state not in LOOKED_AFTER_STATES:
            return ()
        return tuple(key for key in self.touched if key.restored_at is None)


def run_status(installation: Installation, run_id: str) -> RunStatus:
    """Return the status of a run. Raises InputError for an unknown id."""
    run = installation.ledger.run(run_id)
    journal = installation.ledger.journal(run_id)
    submissions = journal.submissions().values()
    run_progress = journal.run_progress()
    moves_done = sum(submission.done_at is not None for submission in submissions)
    moves_submitted = len(submissions)
    may_be_deleted = not submissions and not has_all_events(journal.events())
    if may_be_deleted and run_progress is not None:
        moves_done = moves_submitted = run_progress.progress.moves_done
    approvals = installation.ledger.approvals_of(run_id)
    return RunStatus(
        run=run,
        approval=approvals[-1] if approvals else None,
        moves_done=moves_done,
        moves_submitted=moves_submitted,
        touched=journal.touched(),
        run_progress=run_progress,
        requests=installation.ledger.requests(run.cluster, run_id),
    )


def run_progress_of(installation: Installation, run_id: str) -> tuple[Run, RunProgress | None]:
    """Return the run and what its last step observed, whichever process did it."""
    return installation.ledger.run(run_id), installation.ledger.journal(run_id).run_progress()


def runs_under_way(installation: Installation, cluster: str | None = None) -> tuple[Run, ...]:
    """Return the runs under way, newest first."""
    runs_of_cluster = installation.ledger.runs(cluster=cluster)
    return tuple(run for run in runs_of_cluster if run.state in UNDER_WAY_STATES)


def freezes(installation: Installation, clusters: Iterable[str]) -> tuple[ControlRequest, ...]:
    """Return the freezes in force now, by cluster."""
    in_force = _active_requests(installation, clusters)
    return tuple(active.frozen for active in in_force if active.frozen)


def kept_empty(installation: Installation, clusters: Iterable[str]) -> tuple[ControlRequest, ...]:
    """Return the requests that keep brokers empty, by cluster and broker."""
    in_force = _active_requests(installation, clusters)
    return tuple(request for active in in_force for request in active.kept_empty.values())


def _active_requests(
    installation: Installation, clusters: Iterable[str]
) -> tuple[ActiveRequests, ...]:
    now, requests = installation.ledger.now(), installation.ledger.current_requests()
    by_cluster = grouped((request.cluster, request) for request in requests)
    names = sorted(set(clusters))
    return tuple(find_active_requests(by_cluster.get(name, ()), now) for name in names)


def runs(
    installation: Installation, *, cluster: str | None = None, limit: int = 20
) -> tuple[RunStatus, ...]:
    """Return the newest runs, the newest first."""
    newest = installation.ledger.runs(cluster=cluster)[:limit]
    return tuple(run_status(installation, run.run_id) for run in newest)


def latest_run_of(installation: Installation, fingerprint: str) -> Run | None:
    """Return the newest run of a plan."""
    runs_of_plan = installation.ledger.runs(fingerprint=fingerprint)
    return runs_of_plan[0] if runs_of_plan else None


def approvals_missing(installation: Installation, run_id: str, plan: RebalancePlan) -> int:
    """Return how many more people have to say yes before the run may start."""
    policy, ledger = installation.cluster(plan.cluster).policy, installation.ledger
    run, approvals = ledger.run(run_id), ledger.approvals_of(run_id)
    needed = approval.people_needed(plan, policy.approval)
    standing = approval.standing_approvals(policy, run, approvals, ledger.now(), needed=needed)
    return max(0, needed - len(standing))


def why_two_people(installation: Installation, plan: RebalancePlan) -> str:
    """Return what of a plan needs two people, in words; "" where one is enough."""
    return approval.why_two_people(plan, installation.cluster(plan.cluster).policy.approval)


def named_snapshot(
    installation: Installation, snapshot: ClusterSnapshot
) -> tuple[ClusterSnapshot, ClusterPolicy]:
    """Return the snapshot of a cluster document under the name that the settings have for its
    cluster, and the policy to plan by: the default one where they do not name it.

    Needs no ledger. Raises InputError where the settings pin another cluster id for that name.
    """
    settings = settings_in(installation.locations)
    by_name, by_id = (
        settings.clusters.get(snapshot.cluster),
        settings.named(snapshot.cluster_id),
    )
    if by_name and by_id and by_name.name != by_id.name:
        raise InputError(
            f"the document is named {snapshot.cluster}, but is of cluster id "
            f"{snapshot.cluster_id}, which is {by_id.name} in {settings.where}; make the plan from "
            f"a document of {snapshot.cluster}, or name this one {by_id.name}"
        )
    named = by_id or by_name
    if named is None:
        return snapshot, ClusterPolicy()
    pinned = named.pinned_cluster_id
    if pinned and snapshot.cluster_id and pinned != snapshot.cluster_id:
        raise InputError(
            f"the document is of cluster id {snapshot.cluster_id}, but {settings.where} pins "
            f"{pinned} for {named.name}; make the plan from a document of that cluster"
        )
    return replace(snapshot, cluster=named.name), named.policy


def suggested_rate(installation: Installation, plan: RebalancePlan) -> int | None:
    """Return the bytes per second that leave room for clients; None where that is not known.

    Raises InputError for a cluster that the settings do not name.
    """
    return movement.suggested_rate(plan, installation.cluster(plan.cluster).policy.movement)


def broker_loads(snapshot: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Return leaders, replicas and bytes per live broker of a snapshot."""
    from counterpoise import analysis

    return analysis.broker_loads(snapshot)


def plan_picture(plan: RebalancePlan, *, width: int) -> str:
    """Return brokers before and after in plain text, in lines of at most `width` characters."""
    from counterpoise import reporting

    return reporting.plan_picture(plan, width=width)
