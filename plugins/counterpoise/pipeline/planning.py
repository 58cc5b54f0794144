"""Plans: from a fresh snapshot, from a reassignment JSON, or an undo; and the run that waits for a
decision.

    request = RebalanceRequest(Goal.ADD_BROKERS, (7,))
    run = plan(installation, "orders-eu", request, requested_by=alice)
    run["run_id"], run["plan_uri"], run["fingerprint"]
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypedDict

from counterpoise import access, analysis, reporting
from counterpoise.archive import no_moves_report_name
from counterpoise.errors import RefusedError, StoreError
from counterpoise.history import HistoryError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.plan_view import PlanView
from counterpoise.model.policy import Action, BalancePolicy
from counterpoise.model.provider import Provider, profile_of
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.run import UNDER_WAY_STATES, Run
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.words import verb
from counterpoise.pipeline.snapshots import checked_snapshot, fresh_snapshot, keep
from counterpoise.pipeline.usual_rates import MAX_ROWS_OF_RATES, usual_bytes_in
from counterpoise.planning import make_plan, plan_to_reach
from counterpoise.validation import OVERRIDABLE_RULES, find_violations

_LOGGER = safe_logger(__name__)
_MAX_AGE_OF_RATES: Final = timedelta(days=7)  # every hour of the day and every day of the week


class PlannedRun(TypedDict):
    """Which run this is, and exactly which plan."""

    run_id: str
    plan_uri: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class NothingToMove:
    """A plan without moves: why, and the name of the report that shows the figures."""

    cluster: str
    reason: str
    report_name: str


def plan(
    installation: Installation,
    cluster: str,
    rebalance_request: RebalanceRequest,
    *,
    requested_by: Person,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> PlannedRun | None:
    """Return the run that `plan_or_reason` opens; None when nothing needs to move."""
    planned = plan_or_reason(
        installation,
        cluster,
        rebalance_request,
        requested_by=requested_by,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
    )
    return None if isinstance(planned, NothingToMove) else planned


def plan_or_reason(
    installation: Installation,
    cluster: str,
    rebalance_request: RebalanceRequest,
    *,
    requested_by: Person,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> PlannedRun | NothingToMove:
    """Plan from a fresh snapshot and open a run for the plan, or say why nothing needs to move; a
    report shows that, too.

    Raises BadSnapshotError for a snapshot that must not be planned on, and what `plan_from` and
    `submit_plan` raise.
    """
    settings = installation.cluster(cluster)
    access.check_may_propose(settings.policy, installation.people, requested_by)
    snapshot = snapshot_to_plan_on(installation, cluster)
    new_plan = plan_from(
        snapshot, rebalance_request, settings.policy.balance, settings.policy.provider
    )
    for warning in new_plan.warnings:
        _LOGGER.warning("%s", warning)
    if new_plan.is_empty:
        _LOGGER.info("nothing needs to move on %s: %s", cluster, new_plan.reason)
        name = no_moves_report_name(cluster, snapshot.snapshot_id)
        installation.archive.write_report(name, reporting.plan_report(PlanView(new_plan)))
        return NothingToMove(cluster, new_plan.reason, name)
    return submit_plan(
        installation,
        new_plan,
        requested_by=requested_by,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
    )


def snapshot_to_plan_on(installation: Installation, cluster: str) -> ClusterSnapshot:
    """Return a fresh snapshot with usual rates; it joins the history, since `validate` reads it."""
    previous_id = installation.ledger.last_snapshot_id(cluster)
    fresh = fresh_snapshot(installation, cluster, installation.clock())
    snapshot = _with_rates(installation, fresh, previous_id)
    keep(installation, snapshot)
    return snapshot


def _with_rates(
    installation: Installation, snapshot: ClusterSnapshot, previous_id: str | None
) -> ClusterSnapshot:
    """Return the snapshot with the rates at which producers write.

    They are the means of the last week, where the history has been analysed, so that the hour in
    which somebody plans does not matter; or else those since the previous snapshot.
    """
    now = snapshot.observed_at
    if now is None:
        return snapshot
    oldest = now - _MAX_AGE_OF_RATES
    recent_ids = installation.results.newest(snapshot.cluster, oldest, MAX_ROWS_OF_RATES)
    snapshot = analysis.with_inflow(snapshot, usual_bytes_in(installation, snapshot, recent_ids))
    if previous_id is None or previous_id == snapshot.snapshot_id:
        return snapshot
    try:
        previous = installation.archive.read_snapshot(snapshot.cluster, previous_id)
    except (HistoryError, StoreError) as error:
        _LOGGER.warning(
            "the plan may lack rates of some partitions, since the previous snapshot %s cannot be "
            "read: %s",
            previous_id,
            error,
        )
        return snapshot
    if not previous.observed_at or previous.observed_at < oldest:
        return snapshot
    return analysis.with_inflow(snapshot, analysis.observed_inflow(previous, snapshot))


def submit_plan(
    installation: Installation,
    plan: RebalancePlan,
    *,
    requested_by: Person,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> PlannedRun:
    """Store a plan and open a run that waits for a decision; it supersedes one that nobody has
    started, an approved one only where the requester may operate the cluster.

    Raises RunConflictError, and RefusedError for somebody who may not propose, and for a plan from
    a document without Kafka's cluster id: nobody could check later that it meets the cluster that
    it was made for.
    """
    policy, people = installation.cluster(plan.cluster).policy, installation.people
    requester = access.check_may_propose(policy, people, requested_by)
    access.check_provider(policy, plan.cluster)
    installation.check_name(plan)
    if not plan.cluster_id:
        raise RefusedError(
            "the plan does not say which cluster it is for, since the cluster document it was made "
            "from has no cluster_id. Make it from a document that `counterpoise snapshot --out` "
            "wrote, or with --cluster"
        )
    plan_uri = installation.archive.write_plan(plan)
    run = installation.ledger.propose(
        plan,
        plan_uri,
        requested_by=requester.name,
        account=requester.recorded_account,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
        may_operate=access.may(policy, people, requested_by, Action.OPERATE),
    )
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)


def plan_from(
    snapshot: ClusterSnapshot,
    rebalance_request: RebalanceRequest,
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> RebalancePlan:
    """Return a plan from a snapshot or a cluster document; no cluster is needed.

    Where the request goes against the policy, or the provider has to be asked for something first,
    the plan warns. Raises InputError, RefusedError.
    """
    new_plan = make_plan(snapshot, rebalance_request.request(policy))
    return replace(
        new_plan,
        policy_digest=policy.digest,
        warnings=(
            *_of_provider(provider),
            *rebalance_request.deviations(policy),
            *new_plan.warnings,
        ),
    )


def _of_provider(provider: Provider | None) -> tuple[str, ...]:
    profile = profile_of(provider)
    sentence = profile.why_no_runs or profile.before_a_run
    return (f"{profile.name}: {sentence}",) if sentence else ()


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
    return replace(new_plan, warnings=(*_of_provider(provider), *broken))


def undo_plan(installation: Installation, run_id: str, *, rebase: bool = False) -> RebalancePlan:
    """Return the plan that takes back what a run moved, to be approved and executed like any other.

    Raises RefusedError for a run that moved nothing, that is under way, that is itself an undo, or
    whose partitions later runs have moved; with `rebase`, those partitions stay where they are.
    """
    run, undone_plan = installation.run_and_plan(run_id)
    moved = _moved_partitions(installation, run)
    _check_undoable(run, undone_plan, moved)
    moved_later = _moved_later(installation, run)
    if not rebase:
        _check_not_moved_again(moved, moved_later)
    snapshot = checked_snapshot(installation, run.cluster, installation.clock())
    if any(len(move.replicas_before) != len(move.replicas_after) for move in undone_plan.moves):
        raise RefusedError(
            f"run {run_id} changed replication factors; undo it with a plan of the goal "
            "replication-factor and the previous number"
        )
    wanted = {
        move.topic_partition: move.replicas_before
        for move in undone_plan.moves
        if move.topic_partition in moved - moved_later.keys()
        and (not move.topic_id or snapshot.topic_ids.get(move.topic) == move.topic_id)
    }
    policy = installation.cluster(run.cluster).policy
    undo = plan_of_assignment(snapshot, wanted, policy.balance, policy.provider)
    return replace(undo, undoes=undone_plan.fingerprint)


def _check_undoable(run: Run, plan: RebalancePlan, moved: Collection[TopicPartition]) -> None:
    if run.state in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state}; cancel it first, and undo it when it has halted"
        )
    if not moved:
        raise RefusedError(
            f"run {run.run_id} is {run.state} and moved nothing, so there is nothing to undo"
        )
    if plan.undoes:
        raise RefusedError(
            f"run {run.run_id} is itself an undo, of plan {plan.undoes}; to go forward again, make "
            "a new plan of that goal"
        )


def _check_not_moved_again(
    moved: Collection[TopicPartition], moved_later: Mapping[TopicPartition, str]
) -> None:
    again = sorted(name for name in moved if name in moved_later)
    if again:
        raise RefusedError(
            f"{len(again)} of the {len(moved)} partitions {verb(len(again), 'was', 'were')} moved "
            f"again since, first {again[0]} by run {moved_later[again[0]]}: undo that one first, "
            "or leave these partitions where they are with --rebase"
        )


def _moved_partitions(installation: Installation, run: Run) -> set[TopicPartition]:
    return set(installation.ledger.journal(run.run_id).submissions())


def _moved_later(installation: Installation, run: Run) -> dict[TopicPartition, str]:
    """Return the partitions that runs after this one moved, each with the run's id."""
    return {
        topic_partition: other.run_id
        for other in installation.ledger.runs(cluster=run.cluster)
        if other.opened_at > run.opened_at
        for topic_partition in _moved_partitions(installation, other)
    }
