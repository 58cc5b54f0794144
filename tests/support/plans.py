"""Plans made by hand, for tests of what comes after planning.

plan_by_hand(snapshot, Goal.REPLICATION_FACTOR, move("orders-0", "1 2", "1 2 3"),
replication_factor=3)
"""

from typing import Any

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import LowerBound, Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal


def move(name: str, before: str, after: str, *, leader: int | None = None, size: int = 0) -> Move:
    """`move("orders-0", "1 2 3", "4 2 3")`: replicas by broker, led by the first of before unless
    `leader` is given.
    """
    topic, _, partition = name.rpartition("-")
    old, new = (tuple(map(int, text.split())) for text in (before, after))
    return Move(
        topic,
        int(partition),
        f"id-of-{topic}",
        old,
        new,
        old[0] if leader is None else leader,
        size,
    )


def plan_by_hand(
    snapshot: ClusterSnapshot, goal: Goal, *moves: Move, brokers: tuple[int, ...] = (), **more: Any
) -> RebalancePlan:
    """A plan for the snapshot with the default policy, without figures."""
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=goal,
        broker_ids=brokers,
        policy_digest=BalancePolicy().digest,
        moves=moves,
        figures=(),
        lower_bound=LowerBound(0, 0, 0),
        reason="" if moves else "nothing to do",
        **more,
    )
