"""A plan that somebody else made: Kafka's reassignment JSON, held against a snapshot.

    plan = plan_to_reach(snapshot, {TopicPartition("orders", 0): (4, 2, 3)}, policy)

The replicas are taken exactly as requested, order included; nothing is improved. What it copies is
therefore also the least that reaches it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from counterpoise.errors import InputError, list_complaints
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.evenness import best_max_minus_min
from counterpoise.model.plan import LowerBound, MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import ClusterArrays, read_cluster
from counterpoise.planning.goals import PlanningGoal
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.planner import explain
from counterpoise.planning.planning_result import FinalAssignment, PlanningResult, parts_of

Wanted = Mapping[TopicPartition, tuple[int, ...]]


class Imported(PlanningGoal):
    """What a plan that somebody else made is for; it is not chosen by name."""

    name: ClassVar[Goal] = Goal.IMPORTED
    copy_reason: ClassVar[MoveReason | None] = MoveReason.IMPORTED

    def copies(self, result: PlanningResult) -> Ints:
        return np.asarray(result.assignment.is_added.sum(axis=1))

    def lower_bound(self, result: PlanningResult) -> LowerBound:
        cluster, leader_count = result.cluster, int(result.roles.leading.sum())
        leader_range = best_max_minus_min(cluster.partition_count, leader_count)
        return replace(super().lower_bound(result), leaders_max_minus_min=leader_range)

    def reason(self, result: PlanningResult) -> str:
        return "every partition is already where the reassignment wants it"


def plan_to_reach(
    snapshot: ClusterSnapshot, wanted: Wanted, policy: BalancePolicy
) -> RebalancePlan:
    """Return the plan that reaches the wanted replicas.

    Raise InputError, with every complaint, for unknown partitions or brokers and a changed number
    of replicas.
    """
    cluster = read_cluster(snapshot, policy)
    rows = _rows(cluster, wanted)
    replicas: Ints = cluster.replicas.copy()
    is_wanted = np.zeros(cluster.partition_count, dtype=np.bool_)
    for row, broker_ids in rows.items():
        replicas[row] = NOBODY
        replicas[row, : len(broker_ids)] = cluster.positions(broker_ids)
        is_wanted[row] = True
    is_led_by_another = (cluster.leaders >= 0) & (cluster.leaders != replicas[:, 0])
    is_changed = (replicas != cluster.replicas).any(axis=1)
    is_in_plan = is_changed | (is_wanted & is_led_by_another)
    live = cluster.is_live
    roles = Roles(
        destinations=live,
        sources=live,
        leaving=np.zeros_like(live),
        staying=live,
        sharing=live,
        leading=live,
    )
    result = PlanningResult(
        snapshot=snapshot,
        goal=Imported(),
        request=PlanRequest(Goal.IMPORTED, policy=policy),
        cluster=cluster,
        roles=roles,
        before=Placement.of(cluster),
        after=Placement.of(cluster, replicas.copy()),
        assignment=FinalAssignment(cluster, cluster.replicas, replicas, is_in_plan),
        parts=parts_of(cluster, roles, Imported().within),
    )
    return explain(result)


def _rows(cluster: ClusterArrays, wanted: Wanted) -> dict[int, tuple[int, ...]]:
    """Return the wanted replicas by row; raise InputError with every complaint."""
    names = zip(cluster.topics.to_pylist(), cluster.numbers.tolist(), strict=True)
    row_of = {TopicPartition(topic, number): row for row, (topic, number) in enumerate(names)}
    live_broker_ids = set(cluster.broker_ids[cluster.is_live].tolist())
    complaints = []
    rows = {}
    for partition, replicas in sorted(wanted.items()):
        row = row_of.get(partition)
        complaint = _complaint(cluster, row, replicas, live_broker_ids)
        if complaint:
            complaints.append(f"{partition}{complaint}")
        elif row is not None:
            rows[row] = replicas
    if complaints:
        raise InputError(list_complaints("reassignment", complaints))
    return rows


def _complaint(
    cluster: ClusterArrays, row: int | None, replicas: tuple[int, ...], live_broker_ids: set[int]
) -> str | None:
    """Return what is wrong with the replicas of one partition, to be put after its name."""
    if row is None:
        return " does not exist; correct the name and number, or leave it out"
    count = int(cluster.replica_counts[row])
    if len(replicas) != count:
        return f" has {pluralize(count, 'replica')}, not {len(replicas)}: their number would change"
    not_live = sorted(set(replicas) - live_broker_ids)
    if not_live:
        return f": {not_live} are no live brokers; name live ones, or start these first"
    if cluster.is_moving[row]:
        return " is being reassigned right now; wait until that is done"
    return None
