"""Plans: from a photograph taken now, from a reassignment JSON, or the way back; and the run that
waits for a decision.

run = plan(site, "orders-eu", Wish(Goal.ADD_BROKERS, (7,)), requested_by="alice")
run["run_id"], run["plan_uri"], run["fingerprint"]
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TypedDict

from counterpoise import analysis
from counterpoise.errors import RefusedError, StoreError
from counterpoise.history import HistoryError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.run import UNDER_WAY_STATES, Run
from counterpoise.pipeline.looking_up import run_and_plan
from counterpoise.pipeline.observing import keep, photograph, sound_photograph
from counterpoise.planning import make_plan, plan_to_reach
from counterpoise.validation import find_violations

_LOGGER = logging.getLogger(__name__)
_OLDEST_FOR_INFLOW = timedelta(days=1)
_ROWS_FOR_INFLOW = 5_000_000  # a day of hourly snapshots of 200,000 partitions
_RULES_THAT_A_PERSON_MAY_BREAK = ("racks_not_worse", "min_isr_reachable")


class PlannedRun(TypedDict):
    """Which run this is, and exactly which plan."""

    run_id: str
    plan_uri: str
    fingerprint: str


def plan(
    installation: Installation,
    cluster: str,
    rebalance_request: RebalanceRequest,
    *,
    requested_by: str,
) -> PlannedRun | None:
    """Plans from a photograph taken now and opens a run for it; None when nothing needs to move.

    Raises BadSnapshotError for a photograph that nobody should plan on, and what `plan_from`
    raises.
    """
    earlier = installation.ledger.last_snapshot_id(cluster)
    photographed = _with_traffic(
        installation, photograph(installation, cluster, installation.clock()), earlier
    )
    keep(installation, photographed)  # as it was planned from: `validate` reads it again
    made = plan_from(photographed, rebalance_request, installation.cluster(cluster).policy.balance)
    for warning in made.warnings:
        _LOGGER.warning("%s", warning)
    if made.is_empty:
        _LOGGER.info("nothing needs to move on %s: %s", cluster, made.reason)
        return None
    return submit_plan(installation, made, requested_by=requested_by)


def _with_traffic(
    installation: Installation, photographed: ClusterSnapshot, earlier_id: str | None
) -> ClusterSnapshot:
    """The photograph with what producers write: what is usual by the history, else since the
    photograph before.
    """
    now = photographed.observed_at
    if now is None:
        return photographed
    since, most = (
        now - _OLDEST_FOR_INFLOW,
        max(1, _ROWS_FOR_INFLOW // max(1, photographed.partitions.num_rows)),
    )
    recent = installation.results.newest(photographed.cluster, since, most)
    usual = analysis.typical_bytes_in(
        installation.results.table("partition_load", recent), photographed.partitions
    )
    photographed = analysis.with_inflow(photographed, usual)
    if earlier_id is None or earlier_id == photographed.snapshot_id:
        return photographed
    try:
        earlier = installation.archive.read_snapshot(photographed.cluster, earlier_id)
    except (HistoryError, StoreError) as error:
        _LOGGER.warning(
            "the plan knows less of the traffic, the photograph before it cannot be read: %s", error
        )
        return photographed
    if not earlier.observed_at or now - earlier.observed_at > _OLDEST_FOR_INFLOW:
        return photographed
    return analysis.with_inflow(photographed, analysis.observed_inflow(earlier, photographed))


def submit_plan(
    installation: Installation, made: RebalancePlan, *, requested_by: str
) -> PlannedRun:
    """Keeps a plan in the store and opens a run that waits for a decision.

    Raises RunConflictError, and RefusedError for a plan from a document that does not tell Kafka's
    cluster id: nobody could say later whether it meets the cluster that it was made for.
    """
    installation.cluster(made.cluster)
    if not made.cluster_id:
        raise RefusedError(
            "the plan does not tell which cluster it is for: the cluster document it was made from has no cluster_id. "
            "Make it from a document that `counterpoise snapshot --out` wrote, or with --cluster"
        )
    run = installation.ledger.propose(
        made, installation.archive.write_plan(made), requested_by=requested_by
    )
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)


def plan_from(
    photographed: ClusterSnapshot, rebalance_request: RebalanceRequest, policy: BalancePolicy
) -> RebalancePlan:
    """A plan from a photograph, or from a cluster document; no cluster is needed. Raises
    InputError, RefusedError.

    The plan names the cluster's policy; where the wish goes against it, the plan warns.
    """
    made = make_plan(photographed, rebalance_request.request(policy))
    return replace(
        made,
        policy_digest=policy.digest,
        warnings=(*rebalance_request.deviations(policy), *made.warnings),
    )


def plan_of_assignment(
    photographed: ClusterSnapshot,
    wanted: Mapping[TopicPartition, tuple[int, ...]],
    policy: BalancePolicy,
) -> RebalancePlan:
    """A plan that does what a reassignment JSON asks for, checked against the plan rules.

    Racks or minimum in-sync replicas that get worse are warnings, since somebody chose so; anything
    else that breaks a rule raises RefusedError. Raises InputError for what cannot be done at all.
    """
    made = plan_to_reach(photographed, wanted, policy)
    violations = find_violations(made, photographed, policy)
    chosen = [v for v in violations if v.rule in _RULES_THAT_A_PERSON_MAY_BREAK]
    if len(chosen) < len(violations):
        wrong = "\n".join(f"  {v.subject}: {v.message}" for v in violations if v not in chosen)
        raise RefusedError(f"the reassignment breaks rules that every plan keeps:\n{wrong}")
    return replace(made, warnings=tuple(violation.message for violation in chosen))


def undo_plan(installation: Installation, run_id: str, *, rebase: bool = False) -> RebalancePlan:
    """The way back from what a run moved: a plan of its own, to be approved and executed like any
    other.

    Raises RefusedError for a run that moved nothing, that is under way, that is itself an undo, or
    whose partitions later runs have moved; with `rebase`, those partitions stay where later runs
    put them.
    """
    run, made = run_and_plan(installation, run_id)
    moved = _moved(installation, run)
    if run.state in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run_id} is {run.state}; cancel it first, and undo it when it has halted"
        )
    if not moved:
        raise RefusedError(
            f"run {run_id} is {run.state} and moved nothing, so there is nothing to undo"
        )
    if made.undoes:
        raise RefusedError(
            f"run {run_id} is itself an undo, of plan {made.undoes}; to go forward again, make a new plan of that goal"
        )
    later = {
        tp: other.run_id
        for other in _later_runs(installation, run)
        for tp in _moved(installation, other)
    }
    again = sorted(moved & later.keys())
    if again and not rebase:
        raise RefusedError(
            f"{len(again)} of the {len(moved)} partitions were moved again since, first {again[0]} by run "
            f"{later[again[0]]}: undo that one first, or leave these partitions where they are with --rebase"
        )
    photographed = sound_photograph(installation, run.cluster, installation.clock())
    back = {
        move.topic_partition: move.replicas_before
        for move in made.moves
        if move.topic_partition in moved - later.keys()
        and (not move.topic_id or photographed.topic_ids.get(move.topic) == move.topic_id)
    }
    if any(len(move.replicas_before) != len(move.replicas_after) for move in made.moves):
        raise RefusedError(
            f"run {run_id} changed replication factors; the way back is a plan of the goal replication-factor with "
            "the number of before"
        )
    policy = installation.cluster(run.cluster).policy.balance
    return replace(plan_of_assignment(photographed, back, policy), undoes=made.fingerprint)


def _moved(installation: Installation, run: Run) -> set[TopicPartition]:
    return set(installation.ledger.journal(run.run_id).submissions())


def _later_runs(installation: Installation, run: Run) -> list[Run]:
    return [
        other
        for other in installation.ledger.runs(cluster=run.cluster)
        if other.opened_at > run.opened_at
    ]
