"""A broken rule, and what the rules look at.

Violation("no_broker_twice", "orders-3", "orders-3 would have broker 4 twice: [4, 4, 2]")
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is the name of the rule, `subject` a partition, a broker or "plan"; the message says
    what is wrong.
    """

    rule: str
    subject: str
    message: str

    @classmethod
    def of_move(cls, rule: str, move: Move, what: str) -> "Violation":
        return cls(rule, str(move.topic_partition), f"{move.topic_partition} {what}")


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """What the snapshot says of a partition. `isr` is None where it does not tell."""

    topic: str
    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...] | None
    size_bytes: int | None
    bytes_in_per_second: int | None
    is_moving: bool


@dataclass(frozen=True)
class Case:
    """A plan with everything that rules compare it with."""

    plan: RebalancePlan
    snapshot: ClusterSnapshot
    policy: BalancePolicy
    rows: Mapping[
        TopicPartition, PartitionRow
    ]  # of the partitions that the plan names and the snapshot knows

    @classmethod
    def of(cls, plan: RebalancePlan, snapshot: ClusterSnapshot, policy: BalancePolicy) -> "Case":
        return cls(plan, snapshot, policy, _rows_of(plan, snapshot.partitions))

    @cached_property
    def known_moves(self) -> tuple[tuple[Move, PartitionRow], ...]:
        """Moves of partitions that exist, each with its row."""
        pairs = ((move, self.rows.get(move.topic_partition)) for move in self.plan.moves)
        return tuple((move, row) for move, row in pairs if row is not None)

    @cached_property
    def live(self) -> frozenset[int]:
        return frozenset(self.snapshot.live_broker_ids)

    @cached_property
    def named(self) -> frozenset[int]:
        """The brokers of the plan's goal."""
        return frozenset(self.plan.broker_ids)

    @cached_property
    def leaving(self) -> frozenset[int]:
        """Brokers that the goal empties: the named ones, or those that are dead."""
        if self.plan.goal is Goal.REMOVE_BROKERS:
            return self.named
        if self.plan.goal is Goal.REPAIR:
            registered = self.snapshot.registered_broker_ids
            held = {broker_id for _, row in self.known_moves for broker_id in row.replicas}
            return frozenset((held | set(registered)) - self.live)
        return frozenset()

    @cached_property
    def tells_leaders(self) -> bool:
        """A snapshot without any leader tells none; each partition's first replica is taken for it
        then.
        """
        column = self.snapshot.partitions["leader"]
        return bool(column.null_count < len(column))

    def leader_of(self, row: PartitionRow) -> int | None:
        return row.leader if self.tells_leaders else row.replicas[0]

    @cached_property
    def arriving(self) -> Counter[int]:
        """Bytes that each broker receives."""
        received: Counter[int] = Counter()
        for move, row in self.known_moves:
            received.update(dict.fromkeys(move.adding, row.size_bytes or 0))
        return received

    @cached_property
    def room_left(self) -> Mapping[int, int]:
        """Bytes below the policy's limit on a broker's fullest log dir, with all that it receives
        there.

        Less than 0 when it is too full. Brokers that do not tell are left out; one that tells no
        dirs counts as one.
        """
        rooms: dict[int, int] = {}
        told = [row for row in self.snapshot.log_dirs.to_pylist() if row["error"] is None]
        for broker_id, total, usable in (
            (row["broker_id"], row["total_bytes"], row["usable_bytes"]) for row in told
        ):
            if total is not None and usable is not None:
                room = self._room(total, usable)
                rooms[broker_id] = min(room, rooms.get(broker_id, room))
        for row in self.snapshot.brokers.to_pylist():
            total, usable = row["disk_total_bytes"], row["disk_usable_bytes"]
            if row["broker_id"] not in rooms and total is not None and usable is not None:
                rooms[row["broker_id"]] = self._room(total, usable)
        return {broker_id: room - self.arriving[broker_id] for broker_id, room in rooms.items()}

    def _room(self, total: int, usable: int) -> int:
        return total * self.policy.disk_limit_percent // 100 - (total - usable)

    @cached_property
    def topics_out_of_scope(self) -> frozenset[str]:
        """Those that the request leaves out; the policy's are not among them."""
        topics = frozenset(self.snapshot.topics["topic"].to_pylist()) | {
            move.topic for move in self.plan.moves
        }
        return topics - self.plan.scope.topics_in(topics)


def listed(broker_ids: Iterable[int]) -> str:
    return str(list(broker_ids))


def rows_at(partitions: pa.Table, at: "pa.Array") -> dict[TopicPartition, PartitionRow]:
    """The rows with these numbers, as objects: a cluster may have a million, so only those that
    matter become some.
    """
    columns = [
        "topic",
        "partition",
        "replicas",
        "leader",
        "isr",
        "size_bytes",
        "bytes_in_per_second",
    ]
    columns += ["adding_replicas", "removing_replicas"]
    return {
        TopicPartition(row["topic"], row["partition"]): PartitionRow(
            topic=row["topic"],
            replicas=tuple(row["replicas"]),
            leader=row["leader"],
            isr=None if row["isr"] is None else tuple(row["isr"]),
            size_bytes=row["size_bytes"],
            bytes_in_per_second=row["bytes_in_per_second"],
            is_moving=bool(row["adding_replicas"] or row["removing_replicas"]),
        )
        for row in partitions.select(columns).take(at).to_pylist()
    }


def _rows_of(plan: RebalancePlan, partitions: pa.Table) -> dict[TopicPartition, PartitionRow]:
    named = {(move.topic, move.partition) for move in plan.moves}
    keys = zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True)
    return rows_at(
        partitions, pa.array([index for index, key in enumerate(keys) if key in named], pa.int64())
    )
