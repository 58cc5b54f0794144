"""From a snapshot and a request to a plan: pure, and the same bytes for the same input.

    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))

Order of work: replicas first (racks, counts, bytes), leaders last over the final replica sets, since leaders can be
exact for any sets and the other way round they could not. Nothing here reads a clock or a file.
"""

from dataclasses import replace

import numpy as np

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning.arrays import ClusterArrays, Ints, read_cluster
from counterpoise.planning.bounds import lower_bound
from counterpoise.planning.budget import keep_copies_within, keep_named_within
from counterpoise.planning.cautions import counted, warnings_of
from counterpoise.planning.figures import figures_of
from counterpoise.planning.goals import goal_named
from counterpoise.planning.leaders import choose_leaders, free_to_lead
from counterpoise.planning.outcome import Outcome, moves_of
from counterpoise.planning.placement import Placement
from counterpoise.planning.reasons import reason_for_nothing
from counterpoise.planning.requests import check_request, cluster_name, named
from counterpoise.planning.roles import Roles
from counterpoise.planning.situation import Situation
from counterpoise.planning.whys import whys_of
from counterpoise.planning.worth import is_worth_while


def make_plan(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan:
    """The plan for a goal. An empty plan says in `reason` why nothing moves.

    Raises InputError for a request that does not fit the cluster, RefusedError where the goal cannot be reached
    because of what must be left alone.
    """
    check_request(request, snapshot)
    cluster = read_cluster(snapshot, request.policy, request.scope)
    goal = goal_named(request.goal)
    roles = goal.roles(cluster, cluster.flags(request.broker_ids))
    _refuse_what_cannot_be(cluster, roles, request, cluster_name(snapshot))
    before, placement = Placement.of(cluster), Placement.of(cluster)
    goal.place(placement, roles, request)
    left = keep_copies_within(placement, request.budget)
    is_free = free_to_lead(placement, roles.leading, goal.may_change_leader(cluster, roles))
    first = choose_leaders(placement, roles.leading, is_free)
    outcome = Outcome.of(placement, first, may_elect=is_free & goal.elects, last=roles.sharing & ~roles.leading)
    outcome, reorders_left = keep_named_within(outcome, request.budget)
    left = replace(left, partitions=left.partitions + reorders_left)
    situation = Situation(request, cluster, roles, placement, outcome, left)
    if goal.why is None and not is_worth_while(situation):
        placement.reset_to(cluster.replicas.copy())
        situation = Situation(request, cluster, roles, placement, Outcome.unchanged(cluster))
    outcome = situation.outcome
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=request.goal,
        broker_ids=tuple(sorted(request.broker_ids)),
        policy_digest=request.policy.digest,
        moves=moves_of(snapshot, outcome, whys_of(situation, before, goal.why)),
        figures=figures_of(snapshot, situation),
        lower_bound=lower_bound(cluster, request.goal, roles, request.policy.bytes_tolerance_percent),
        reason="" if outcome.is_named.any() else reason_for_nothing(situation),
        warnings=warnings_of(situation),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        left=situation.left,
    )


def _refuse_what_cannot_be(cluster: ClusterArrays, roles: Roles, request: PlanRequest, name: str) -> None:
    """Raises RefusedError when what must be left alone stands in the way, InputError when brokers are too few."""
    if request.goal is Goal.REMOVE_BROKERS:
        _refuse_stuck_replicas(cluster, roles, request)
        _refuse_too_few_brokers(cluster, roles, request, name)
    elif cluster.partition_count and not cluster.may_change.any():
        raise RefusedError(
            f"nothing can be planned: all {cluster.partition_count} partitions are excluded by the policy, being "
            "reassigned or without a leader; change the policy, wait, or bring the brokers back"
        )


def _refuse_stuck_replicas(cluster: ClusterArrays, roles: Roles, request: PlanRequest) -> None:
    on_leaving = np.append(roles.leaving, False)[cluster.replicas].any(axis=1)
    excluded, moving = np.flatnonzero(on_leaving & cluster.is_excluded), np.flatnonzero(on_leaving & cluster.is_moving)
    brokers = named(sorted(request.broker_ids))
    if len(excluded):
        raise RefusedError(
            f"{brokers} cannot be emptied: {_held(cluster, excluded)} there and the policy excludes their topics; "
            "take the topics out of excluded_topics"
        )
    if len(moving):
        raise RefusedError(
            f"{brokers} cannot be emptied now: {_held(cluster, moving)} there and a reassignment of theirs is under "
            "way; wait until it is done, or cancel it"
        )


def _refuse_too_few_brokers(cluster: ClusterArrays, roles: Roles, request: PlanRequest, name: str) -> None:
    leaving, staying = np.append(roles.leaving, False), np.append(roles.staying, False)
    to_place = leaving[cluster.replicas].sum(axis=1)
    free = int(roles.staying.sum()) - staying[cluster.replicas].sum(axis=1)
    homeless = np.flatnonzero(to_place > free)
    if len(homeless) or not roles.staying.any():
        highest = int(cluster.replica_counts[homeless].max(initial=1))
        raise InputError(
            f"without {named(sorted(request.broker_ids))} {int(roles.staying.sum())} live broker(s) would be left in "
            f"{name}, too few for partitions with {highest} replica(s); "
            "add brokers, or lower the replication factor first"
        )


def _held(cluster: ClusterArrays, partitions: Ints) -> str:
    some = ", ".join(cluster.name(int(partition)) for partition in partitions[:5])
    more = ", ..." if len(partitions) > 5 else ""
    return f"{counted(len(partitions), 'partition has a replica', 'partitions have replicas')} ({some}{more})"
