"""A broken rule, and what the rules read.

Violation("no_broker_twice", "orders-3", "orders-3 would have broker 4 twice: [4, 4, 2]")
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.constraints import Constraints
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import KINDS, Goal
from counterpoise.model.tables import rows_of


class Complaint(NamedTuple):
    """What breaks a rule: `subject` is a partition, a broker or "plan"."""

    subject: str
    message: str


def about(move: Move, what: str) -> Complaint:
    return Complaint(str(move.topic_partition), f"{move.topic_partition} {what}")


@dataclass(frozen=True, slots=True)
class Violation:
    """A complaint, and the name of the rule that it is from."""

    rule: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition in the snapshot. `isr` is None where the snapshot does not have it."""

    topic: str
    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...] | None
    size_bytes: int | None
    bytes_in_per_second: int | None
    is_moving: bool


@dataclass(frozen=True, slots=True)
class Disk:
    """A log dir as its broker tells of it."""

    broker_id: int
    total_bytes: int
    used_bytes: int
    is_one_of_several: bool  # which replicas are in it is not told by the plan

    def is_at_least(self, percent: int, used_bytes: int) -> bool:
        return used_bytes * 100 >= percent * self.total_bytes


@dataclass(frozen=True)
class CheckedPlan:
    """A plan with everything that rules compare it with.

    `rows` are those of the partitions that the plan names and the snapshot knows.
    """

    plan: RebalancePlan
    snapshot: ClusterSnapshot
    policy: BalancePolicy
    rows: Mapping[TopicPartition, PartitionRow]

    @classmethod
    def of(
        cls, plan: RebalancePlan, snapshot: ClusterSnapshot, policy: BalancePolicy
    ) -> "CheckedPlan":
        return cls(plan, snapshot, policy, _rows_of(plan, snapshot.partitions))

    @cached_property
    def known_moves(self) -> tuple[tuple[Move, PartitionRow], ...]:
        """Return the moves of partitions that exist, each with its row."""
        pairs = ((move, self.rows.get(move.topic_partition)) for move in self.plan.moves)
        return tuple((move, row) for move, row in pairs if row is not None)

    @cached_property
    def live(self) -> frozenset[int]:
        return frozenset(self.snapshot.live_broker_ids)

    @cached_property
    def named(self) -> frozenset[int]:
        """Return the brokers of the plan's goal."""
        return frozenset(self.plan.broker_ids)

    @cached_property
    def leaving(self) -> frozenset[int]:
        """Return the brokers that the goal empties: the named ones, or those that are dead."""
        if KINDS[self.plan.goal].empties:
            return self.named
        if self.plan.goal is Goal.REPAIR:
            registered = self.snapshot.registered_broker_ids
            held = {broker_id for _, row in self.known_moves for broker_id in row.replicas}
            return frozenset((held | set(registered)) - self.live)
        return frozenset()

    def is_left_to_repair(self, row: PartitionRow) -> bool:
        """Return whether a replica stays on a dead broker that the goal does not empty: Kafka would
        wait for it for ever, so nothing is copied beside it.
        """
        return not set(row.replicas) - self.leaving <= self.live

    @cached_property
    def has_leaders(self) -> bool:
        """Whether the snapshot has leaders; without any, each partition's first replica counts."""
        column = self.snapshot.partitions["leader"]
        return bool(column.null_count < len(column))

    def leader_of(self, row: PartitionRow) -> int | None:
        return row.leader if self.has_leaders else row.replicas[0]

    @cached_property
    def arriving(self) -> Counter[int]:
        """Return the bytes that each broker receives."""
        received: Counter[int] = Counter()
        for move, row in self.known_moves:
            received.update(dict.fromkeys(move.adding, row.size_bytes or 0))
        return received

    @cached_property
    def constraints(self) -> Constraints:
        """Return what the policy asks for, and the request beside it."""
        return self.policy.constraints.and_also(self.plan.constraints)

    @cached_property
    def allowed_by_topic(self) -> Mapping[str, frozenset[int]]:
        """Return, for the topics of the plan, the live brokers of their broker sets: that of the
        policy, and that of the request.
        """
        topics = {move.topic for move in self.plan.moves}
        allowed = dict.fromkeys(topics, self.live)
        for constraints in (self.policy.constraints, self.plan.constraints):
            racks = self.snapshot.racks
            set_of = constraints.sets_of_brokers({b: racks.get(b) for b in self.live})
            for topic, number in constraints.sets_of_topics(topics).items():
                allowed[topic] &= {b for b, of_broker in set_of.items() if of_broker == number}
        return allowed

    def able_to_receive(self, move: Move) -> list[int]:
        """Return brokers in scope that stay, have room for a replica, and may have one more."""
        constraints, plan = self.constraints, self.plan
        max_count = constraints.max_replicas_per_broker
        full = {
            figure.broker_id
            for figure in plan.figures
            if max_count is not None and figure.replicas_after >= max_count
        }
        closed = full | set(constraints.no_new_replicas_on) | self.leaving | self.cordoned
        return [
            broker_id
            for broker_id in sorted(self.allowed_by_topic[move.topic] - closed)
            if plan.scope.may_touch_broker(broker_id)
            and self.room_left.get(broker_id, move.size_bytes) >= move.size_bytes
        ]

    @cached_property
    def cordoned(self) -> frozenset[int]:
        """Return the brokers whose log dirs are all cordoned (KIP-1066)."""
        dirs = [row for row in self.snapshot.log_dirs.to_pylist() if row["error"] is None]
        is_open = {row["broker_id"] for row in dirs if not row["is_cordoned"]}
        return frozenset(row["broker_id"] for row in dirs) - is_open

    @cached_property
    def room_left(self) -> Mapping[int, int]:
        """Return by broker the bytes that stay free below the policy's limit on its fullest log dir
        once all that it receives has arrived there; less than 0 when it is too full.

        Brokers whose disks are not known are left out; without log dirs the broker counts as one.
        Example: limit 85 %, a log dir of 100 GB with 30 GB usable has 85 - 70 = 15 GB of room, and
        -5 GB are left when 20 GB arrive.
        """
        rooms: dict[int, int] = {}
        for row in self.snapshot.log_dirs.to_pylist():
            if row["error"] is not None:
                continue
            room = self._room(row["total_bytes"], row["usable_bytes"])
            if room is not None:
                broker_id = row["broker_id"]
                rooms[broker_id] = min(room, rooms.get(broker_id, room))
        for row in self.snapshot.brokers.to_pylist():
            room = self._room(row["disk_total_bytes"], row["disk_usable_bytes"])
            if room is not None:
                rooms.setdefault(row["broker_id"], room)
        return {broker_id: room - self.arriving[broker_id] for broker_id, room in rooms.items()}

    @cached_property
    def disks(self) -> tuple[Disk, ...]:
        """Return the log dirs whose size is known; brokers that tell of none count as one."""
        rows = [row for row in self.snapshot.log_dirs.to_pylist() if row["error"] is None]
        several = Counter(row["broker_id"] for row in rows)
        told = [(row["broker_id"], row["total_bytes"], row["usable_bytes"]) for row in rows]
        told += [
            (row["broker_id"], row["disk_total_bytes"], row["disk_usable_bytes"])
            for row in self.snapshot.brokers.to_pylist()
            if row["broker_id"] not in several
        ]
        return tuple(
            Disk(broker_id, total, total - usable, is_one_of_several=several[broker_id] > 1)
            for broker_id, total, usable in told
            if total and usable is not None
        )

    def _room(self, total_bytes: int | None, usable_bytes: int | None) -> int | None:
        if total_bytes is None or usable_bytes is None:
            return None
        limit_bytes = total_bytes * self.policy.disk_limit_percent // 100
        used_bytes = total_bytes - usable_bytes
        return limit_bytes - used_bytes

    @cached_property
    def topics_out_of_scope(self) -> frozenset[str]:
        """Return the topics that the request leaves out; the policy's are not among them."""
        topics = frozenset(self.snapshot.topics["topic"].to_pylist()) | {
            move.topic for move in self.plan.moves
        }
        return topics - self.plan.scope.topics_in(topics)


def rows_at(partitions: pa.Table, indexes: "pa.Array") -> dict[TopicPartition, PartitionRow]:
    """Return the rows with these indexes as objects: a few of perhaps a million."""
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
        for row in partitions.take(indexes).to_pylist()
    }


def _rows_of(plan: RebalancePlan, partitions: pa.Table) -> dict[TopicPartition, PartitionRow]:
    named = {(move.topic, move.partition) for move in plan.moves}
    keys = rows_of(partitions, "topic", "partition")
    indexes = [index for index, key in enumerate(keys) if key in named]
    return rows_at(partitions, pa.array(indexes, pa.int64()))
