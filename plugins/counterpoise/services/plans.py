"""Plans: from a fresh snapshot, from a reassignment JSON, or an undo; and the run that waits for a
decision.

    request = RebalanceRequest(Goal.ADD_BROKERS, (7,))
    run = make(installation, "orders-eu", request, Origin(alice))      # or NothingToMove
    run["run_id"], run["plan_uri"], run["fingerprint"]

    snapshot, new_ids = with_new_brokers(snapshot, 2, rack="c")     # to show a plan, not to run it
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock
from typing import Final, TypedDict

import pyarrow as pa

from counterpoise import access
from counterpoise.archive import no_moves_report_name
from counterpoise.errors import InputError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action, BalancePolicy
from counterpoise.model.provider import Provider, profile_of
from counterpoise.model.request import RebalanceRequest, check_brokers_given
from counterpoise.model.run import ASKED, RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.planning import check_fits_together, plan_to_reach
from counterpoise.services.kept_empty import check_kept_empty, plan_for
from counterpoise.services.snapshots import (
    checked_snapshot,
    to_plan_on,
)
from counterpoise.services.viewers import Viewing
from counterpoise.settings import ClusterSettings
from counterpoise.undoing import check_undoable, find_way_back
from counterpoise.units import format_count
from counterpoise.validation import OVERRIDABLE_RULES, find_violations
from counterpoise.views.pages import no_moves_page
from counterpoise.views.plan import PlanView

_LOGGER = safe_logger(__name__)
MAX_NEW_BROKERS: Final = 1000


class PlannedRun(TypedDict):
    """Which run this is, and exactly which plan."""

    run_id: str
    plan_uri: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asks for a plan, in which Dag run, and why."""

    requested_by: Person
    dag_id: str | None = None
    dag_run_id: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class NothingToMove:
    """A plan without moves: why, and the name of the report that shows the figures."""

    cluster: str
    reason: str
    report_name: str


def make(
    installation: Installation, cluster: str, rebalance_request: RebalanceRequest, origin: Origin
) -> PlannedRun | NothingToMove:
    """Plan from a fresh snapshot and open a run for the plan, or say why nothing needs to move; a
    report shows that, too.

    Raises BadSnapshotError for a snapshot that must not be planned on, and what `plan_for` and
    `submit` raise.
    """
    settings = installation.cluster(cluster)
    access.check_may_propose(settings.policy, origin.requested_by)
    new_plan = plan_for(installation, to_plan_on(installation, cluster), rebalance_request)
    return _submitted_or_reason(installation, new_plan, origin)


def _submitted_or_reason(
    installation: Installation, new_plan: RebalancePlan, origin: Origin
) -> PlannedRun | NothingToMove:
    """Open a run for a plan that moves something; else write the report that says why not."""
    for warning in new_plan.warnings:
        _LOGGER.warning("%s", warning)
    for note in new_plan.notes:
        _LOGGER.info("%s", note)
    if new_plan.is_empty:
        _LOGGER.info("nothing needs to move on %s: %s", new_plan.cluster, new_plan.reason)
        name = no_moves_report_name(new_plan.cluster, new_plan.snapshot_id)
        installation.archive.write_report(name, no_moves_page(new_plan, PlanView.of(new_plan)))
        return NothingToMove(new_plan.cluster, new_plan.reason, name)
    _check_can_be_approved(installation, new_plan, origin.requested_by)
    return submit(installation, new_plan, origin)


def _check_can_be_approved(
    installation: Installation, new_plan: RebalancePlan, requested_by: Person
) -> None:
    """Raise RefusedError for a plan that nobody may approve."""
    policy = installation.cluster(new_plan.cluster).policy
    needed = access.people_needed(new_plan, policy.approval)
    access.check_somebody_may_approve(policy, requested_by, needed=needed)


def check_may_start(viewing: Viewing, cluster: str, rebalance_request: RebalanceRequest) -> None:
    """Raise InputError, RefusedError for what no Dag run can make a plan of: no run is open to
    anybody there, the parts of the request do not fit each other, or nobody could approve a plan
    that the viewer asks for. What the cluster says to it, the task that makes the plan checks.
    """
    policy = viewing.settings.clusters[cluster].policy
    access.check_provider(policy, cluster)
    check_brokers_given(rebalance_request.goal, rebalance_request.broker_ids)
    check_fits_together(rebalance_request.request(policy.balance))
    # A plan may need more people than its cluster does; the task that makes it checks that.
    needed = 2 if policy.approval.critical else 1
    access.check_somebody_may_approve(policy, viewing.person, needed=needed)


def check_says_cluster(plan: RebalancePlan) -> None:
    """Raise RefusedError for a plan from a document without the cluster's name or Kafka's id:
    nobody could check later that it meets the cluster that it was made for.
    """
    if plan.cluster and plan.cluster_id:
        return
    raise RefusedError(
        "the plan does not say which cluster it is for, since the cluster document it was made "
        f"from has no {'cluster_id' if plan.cluster else 'cluster'}. Make it from a document that "
        "`counterpoise snapshot --out` wrote, or with --cluster"
    )


def check_may_submit(installation: Installation, plan: RebalancePlan, requested_by: Person) -> None:
    """Raise RefusedError for somebody who may not propose, for a plan that does not say its
    cluster, and for one that sends something to a broker that is kept empty.
    """
    check_says_cluster(plan)
    policy = installation.cluster(plan.cluster).policy
    access.check_may_propose(policy, requested_by)
    access.check_provider(policy, plan.cluster)
    installation.check_name(plan)
    check_kept_empty(installation, plan)


def submit(
    installation: Installation,
    plan: RebalancePlan,
    origin: Origin,
    *,
    may_supersede: bool = True,
) -> PlannedRun:
    """Store a plan and open a run that waits for a decision; it supersedes one that nobody has
    started, an approved one only where the requester may operate the cluster.

    Without `may_supersede` it supersedes none, and where one is open, RefusedError says so.

    Raises RunConflictError, and what `check_may_submit` raises.
    """
    check_may_submit(installation, plan, origin.requested_by)
    policy = installation.cluster(plan.cluster).policy
    supersedes = {RunState.PROPOSED} if may_supersede else set()
    if may_supersede and access.may(policy, origin.requested_by, Action.OPERATE):
        supersedes.add(RunState.APPROVED)
    plan_uri = installation.archive.write_plan(plan)
    run = installation.ledger.propose(
        plan,
        plan_uri,
        requested_by=origin.requested_by.recorded,
        dag_id=origin.dag_id,
        dag_run_id=origin.dag_run_id,
        supersedes=supersedes,
        why=origin.why,
    )
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)


def plan_of_assignment(
    snapshot: ClusterSnapshot,
    wanted: Mapping[TopicPartition, tuple[int, ...]],
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> RebalancePlan:
    """Return a plan that does what a reassignment JSON asks for, checked against the plan rules.

    Rules that a person may override become warnings; any other that is broken raises RefusedError.
    Raises InputError for what cannot be done at all.
    """
    new_plan = plan_to_reach(snapshot, wanted, policy)
    violations = find_violations(new_plan, snapshot, policy)
    overridden = [violation for violation in violations if violation.rule in OVERRIDABLE_RULES]
    if len(overridden) < len(violations):
        lines = "\n".join(
            f"  {violation.subject}: {violation.message}"
            for violation in violations
            if violation not in overridden
        )
        raise RefusedError(f"the reassignment breaks rules that every plan keeps:\n{lines}")
    broken = (violation.message for violation in overridden)
    warnings = (*profile_of(provider).plan_warnings, *broken, *new_plan.warnings)
    return replace(new_plan, warnings=warnings)


def make_undo(
    installation: Installation, cluster: str, run_id: str, origin: Origin
) -> PlannedRun | NothingToMove:
    """Open a run for the plan that takes back what a run moved, as `make` does.

    Raises InputError for a run of another cluster, and what `undo_plan` and `submit` raise.
    """
    undone = installation.ledger.run(run_id)
    if undone.cluster != cluster:
        raise InputError(f"run {run_id} is of cluster {undone.cluster}, not of {cluster}")
    settings = installation.cluster(cluster)
    access.check_may_propose(settings.policy, origin.requested_by)
    new_plan = undo_plan(installation, run_id, make_snapshot=to_plan_on)
    return _submitted_or_reason(installation, new_plan, origin)


def undo_plan(
    installation: Installation,
    run_id: str,
    make_snapshot: Callable[[Installation, str], ClusterSnapshot] = checked_snapshot,
) -> RebalancePlan:
    """Return the plan that takes back what a run moved, to be approved and executed like any other.

    Partitions that have been moved since, or that cannot go back now, stay where they are, and a
    warning of the plan names them. Raises RefusedError where that cannot be done, nothing is left,
    or a broker is kept empty that another run emptied.
    """
    run, undone_plan = installation.run_and_plan(run_id)
    journal = installation.ledger.journal(run_id)
    submitted = journal.submitted()
    check_undoable(run, undone_plan, journal.events(), has_moved=bool(submitted))
    snapshot = make_snapshot(installation, run.cluster)
    way_back = find_way_back(undone_plan, submitted, snapshot)
    policy = installation.cluster(run.cluster).policy
    wanted = {move.topic_partition: move.replicas_before for move in way_back.moves}
    undo = plan_of_assignment(snapshot, wanted, policy.balance, policy.provider)
    if undo.is_empty:
        raise way_back.nothing_left(run)
    warnings = (*way_back.warnings(), *undo.warnings)
    undo = replace(undo, undoes=undone_plan.fingerprint, warnings=warnings)
    check_kept_empty(installation, undo)
    return undo


def with_new_brokers(
    snapshot: ClusterSnapshot, count: int, rack: str | None = None
) -> tuple[ClusterSnapshot, tuple[int, ...]]:
    """Return the snapshot with so many more brokers, and their ids, which follow the highest.

    Each gets the smallest disk of the live brokers, empty, and the given rack, or else the rack
    with the fewest live brokers. Raises InputError for a rack of the rackless, or no live broker.
    """
    live_rows = [row for row in snapshot.brokers.to_pylist() if not row["is_fenced"]]
    if not live_rows:
        raise InputError("--what-if-brokers: the cluster has no live broker to take as an example")
    first_id = max(snapshot.registered_broker_ids) + 1
    disks = [row["disk_total_bytes"] for row in live_rows]
    disk_bytes = None if None in disks else min(disks)
    sizes = Counter(row["rack"] for row in live_rows if row["rack"] is not None)
    rows = []
    for broker_id in range(first_id, first_id + count):
        smallest = min(sizes, key=lambda name: (sizes[name], name), default=None)
        own_rack = smallest if rack is None else rack
        if own_rack is not None:
            sizes[own_rack] += 1
        row = dict.fromkeys(snapshot.brokers.column_names)
        row |= {"broker_id": broker_id, "rack": own_rack, "is_fenced": False}
        rows.append(row | {"disk_total_bytes": disk_bytes, "disk_usable_bytes": disk_bytes})
    added = pa.Table.from_pylist(rows, snapshot.brokers.schema)
    tables = {**snapshot.tables, "brokers": pa.concat_tables([snapshot.brokers, added])}
    new_ids = tuple(range(first_id, first_id + count))
    return replace(snapshot, tables=tables), new_ids


# -- A plan as it would be made of the newest snapshot, for a person who has asked nobody yet
#
#     preview(installation, settings, rebalance_request).view
#
# Nothing of it is stored, and no cluster is asked: a plan that shall run is made anew, from a
# snapshot of its own. Planning takes the processor that Airflow's api-server answers with, so only
# clusters up to a limit are planned here, and one request at a time.


MAX_REPLICAS: Final = 60_000  # about two seconds of the processor a plan
_PLANNING: Final = Lock()


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan as it would be made now."""

    observed_at: datetime | None  # of the snapshot
    view: PlanView


def preview(
    installation: Installation, settings: ClusterSettings, rebalance_request: RebalanceRequest
) -> Preview:
    """Return the plan for a request, from the cluster's newest snapshot.

    Raises RefusedError without a snapshot, for a cluster above the limit, and while somebody else
    looks at a plan; StoreError for a snapshot that cannot be read; what `plan_for` raises.
    """
    if not _PLANNING.acquire(blocking=False):
        raise RefusedError(
            "a plan is being made for another page, and the api-server makes one at a time; send "
            "this again in some seconds"
        )
    try:
        snapshot = _newest_snapshot(installation, settings.name)
        plan = plan_for(installation, snapshot, rebalance_request)
    finally:
        _PLANNING.release()
    return Preview(snapshot.observed_at, PlanView.offered(plan, settings.policy.movement))


def _newest_snapshot(installation: Installation, cluster: str) -> ClusterSnapshot:
    snapshot_id = installation.ledger.last_snapshot_id(cluster)
    if snapshot_id is None:
        raise RefusedError(
            f"cluster {cluster} has no snapshot yet; make one with `Snapshot now`, or start the "
            "plan, which makes its own"
        )
    snapshot = installation.archive.read_snapshot(cluster, snapshot_id)
    if snapshot.replicas.num_rows > MAX_REPLICAS:
        raise RefusedError(
            f"cluster {cluster} has {format_count(snapshot.replicas.num_rows)} replicas, and pages "
            f"show plans of up to {format_count(MAX_REPLICAS)} before anybody is asked, since "
            "planning would keep the api-server from answering others. Start the plan: a task "
            "makes it, and its page shows it; or use `counterpoise plan`"
        )
    return snapshot


# -- by Dag runs


def run_of_dag_run(installation: Installation, dag_id: str, dag_run_id: str) -> PlannedRun | None:
    """Return the run that the plan of a Dag run opened; None where it opened none."""
    run = installation.ledger.run_of(dag_id, dag_run_id)
    if run is None:
        return None
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)


def check_plans_first(installation: Installation, dag_id: str, dag_run_id: str) -> None:
    """Raise RefusedError where a Dag run has asked somebody about a plan: it makes no other one."""
    run = installation.ledger.run_of(dag_id, dag_run_id)
    if run is None:
        return
    if any(event.kind == ASKED for event in installation.ledger.journal(run.run_id).events()):
        raise RefusedError(
            f"this Dag run has asked about plan {run.fingerprint} (run {run.run_id}), and Airflow "
            "would show that question for any other plan; start a new Dag run"
        )
