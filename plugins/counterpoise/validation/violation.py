"""A broken rule, and what the rules look at.

Violation("no_broker_twice", "orders-3", "orders-3 would have broker 4 twice: [4, 4, 2]")
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is the name of the rule, `subject` a partition, a broker or "plan"; the message says what is wrong."""

    rule: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """What the snapshot says of a partition that the plan names."""

    replicas: tuple[int, ...]
    leader: int | None
    size_bytes: int | None
    is_moving: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A plan with everything that rules compare it with."""

    plan: RebalancePlan
    snapshot: ClusterSnapshot
    policy: BalancePolicy
    rows: Mapping[TopicPartition, PartitionRow]  # of the partitions that the plan names and the snapshot knows

    @classmethod
    def of(cls, plan: RebalancePlan, snapshot: ClusterSnapshot, policy: BalancePolicy) -> "Case":
        return cls(plan, snapshot, policy, _rows_of(plan, snapshot.partitions))

    @property
    def known_moves(self) -> tuple[tuple[Move, PartitionRow], ...]:
        """Moves of partitions that exist, each with its row."""
        pairs = ((move, self.rows.get(move.topic_partition)) for move in self.plan.moves)
        return tuple((move, row) for move, row in pairs if row is not None)


def _rows_of(plan: RebalancePlan, partitions: pa.Table) -> dict[TopicPartition, PartitionRow]:
    """Only the named rows become objects: a cluster may have a million."""
    named = {(move.topic, move.partition) for move in plan.moves}
    keys = zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True)
    at = [index for index, key in enumerate(keys) if key in named]
    columns = ["topic", "partition", "replicas", "leader", "size_bytes", "adding_replicas", "removing_replicas"]
    return {
        TopicPartition(row["topic"], row["partition"]): PartitionRow(
            replicas=tuple(row["replicas"]),
            leader=row["leader"],
            size_bytes=row["size_bytes"],
            is_moving=bool(row["adding_replicas"] or row["removing_replicas"]),
        )
        for row in partitions.select(columns).take(pa.array(at, pa.int64())).to_pylist()
    }
