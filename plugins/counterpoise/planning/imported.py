"""A plan that somebody else made: Kafka's reassignment JSON, held against a snapshot.

    plan = plan_to_reach(snapshot, {TopicPartition("orders", 0): (4, 2, 3)}, policy)

The replicas are taken exactly as asked, order included; nothing is improved. What it copies is
therefore also the least that reaches it.
"""

from collections.abc import Mapping

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.evenness import best_max_minus_min
from counterpoise.model.plan import LowerBound, MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning.arrays import ClusterArrays, read_cluster
from counterpoise.planning.explanation.figures import figures_of
from counterpoise.planning.explanation.final_assignment import FinalAssignment, moves_of
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles
from counterpoise.planning.settings_before import settings_before

Wanted = Mapping[TopicPartition, tuple[int, ...]]


def plan_to_reach(
    snapshot: ClusterSnapshot, wanted: Wanted, policy: BalancePolicy
) -> RebalancePlan:
    """Raises InputError, with every complaint, for unknown partitions or brokers and a changed
    number of replicas.
    """
    cluster = read_cluster(snapshot, policy)
    rows = {
        TopicPartition(topic, number): row
        for row, (topic, number) in enumerate(
            zip(cluster.topics.to_pylist(), cluster.numbers.tolist(), strict=True)
        )
    }
    complaints = [
        c
        for key, replicas in sorted(wanted.items())
        if (c := _complaint(key, replicas, rows, cluster))
    ]
    if complaints:
        raise InputError(
            "\n".join(
                [
                    f"reassignment: {len(complaints)} problem(s)",
                    *(f"  {c}" for c in complaints[:20]),
                ]
            )
        )
    outcome = _outcome(cluster, {rows[key]: replicas for key, replicas in wanted.items()})
    everyone, nobody = cluster.is_live, np.zeros(cluster.broker_count, dtype=np.bool_)
    roles = Roles(everyone, everyone, nobody, everyone, everyone, everyone)
    after = Placement.of(cluster, outcome.replicas.copy())
    request = PlanRequest(Goal.IMPORTED, policy=policy)
    planning_result = PlanningResult(request, cluster, roles, Placement.of(cluster), after, outcome)
    moves = moves_of(snapshot, outcome, [MoveReason.IMPORTED] * int(outcome.is_named.sum()))
    copied = sum(len(move.adding) for move in moves)
    leaders_at_best = best_max_minus_min(cluster.partition_count, len(snapshot.live_broker_ids))
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=Goal.IMPORTED,
        broker_ids=(),
        policy_digest=policy.digest,
        moves=moves,
        figures=figures_of(snapshot, planning_result),
        lower_bound=LowerBound(copied, sum(move.copied_bytes for move in moves), leaders_at_best),
        reason="" if moves else "every partition is already where the reassignment wants it",
        settings_before=settings_before(snapshot, moves),
    )


def _complaint(
    key: TopicPartition,
    replicas: tuple[int, ...],
    rows: Mapping[TopicPartition, int],
    cluster: ClusterArrays,
) -> str | None:
    if key not in rows:
        return f"{key} does not exist"
    row = rows[key]
    if len(replicas) != cluster.replica_counts[row]:
        return f"{key} has {cluster.replica_counts[row]} replicas, not {len(replicas)}: their number would change"
    if unknown := sorted(set(replicas) - set(cluster.broker_ids[cluster.is_live].tolist())):
        return f"{key}: {unknown} are no live brokers"
    if cluster.is_moving[row]:
        return f"{key} is being reassigned right now; wait for its end"
    return None


def _outcome(cluster: ClusterArrays, wanted: Mapping[int, tuple[int, ...]]) -> FinalAssignment:
    replicas: Ints = cluster.replicas.copy()
    is_wanted = np.zeros(cluster.partition_count, dtype=np.bool_)
    for row, broker_ids in wanted.items():
        replicas[row] = NOBODY
        replicas[row, : len(broker_ids)] = cluster.positions(broker_ids)
        is_wanted[row] = True
    is_led_by_another = (cluster.leaders >= 0) & (cluster.leaders != replicas[:, 0])
    is_named = (replicas != cluster.replicas).any(axis=1) | (is_wanted & is_led_by_another)
    return FinalAssignment(cluster, cluster.replicas, replicas, is_named)
