"""What one look at the cluster and the ledger shows, and how far each move of the plan is.

An in-between replica set is never taken for a real one: list-reassignments is read before and after the topics are
described, and a partition that is in either list counts as moving (KIP-455).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import ConfigResource, ConfigValue, PartitionDescription, Reassignment
from counterpoise.model.plan import Move
from counterpoise.model.run import Submission, TouchedKey


class MoveState(StrEnum):
    PENDING = "pending"  # as the plan found it
    MOVING = "moving"  # under way to where the plan wants it
    DONE = "done"  # where the plan wants it
    CANCELLED = "cancelled"  # the replicas of before in another order: what a cancel leaves behind
    GONE = "gone"  # the topic was deleted, or deleted and made anew
    FOREIGN = "foreign"  # a reassignment that is no step of the plan
    DRIFTED = "drifted"  # replicas that are no step of the plan


@dataclass(frozen=True, slots=True)
class SeenPartition:
    topic_id: str
    description: PartitionDescription
    reassignment: Reassignment | None


@dataclass(frozen=True)
class Observation:
    """One look. `partitions`: those of the plan that exist; `configs`: the throttle keys of the plan's resources."""

    now: datetime
    cluster_id: str
    live_broker_ids: frozenset[int]
    partitions: Mapping[TopicPartition, SeenPartition] = field(repr=False)
    foreign_reassignments: tuple[TopicPartition, ...]  # outside the plan
    configs: Mapping[ConfigResource, Mapping[str, ConfigValue]] = field(repr=False)
    submissions: Mapping[TopicPartition, Submission] = field(repr=False)
    election_attempts: Mapping[TopicPartition, int] = field(repr=False)
    touched: tuple[TouchedKey, ...] = field(repr=False)
    copied_bytes: Mapping[TopicPartition, int] = field(repr=False)  # of moves under way, over all added replicas
    min_insync_replicas: Mapping[str, int] = field(default_factory=dict, repr=False)  # of topics that lose replicas

    def state_of(self, move: Move) -> MoveState:
        seen = self.partitions.get(move.topic_partition)
        if seen is None or (move.topic_id and seen.topic_id != move.topic_id):
            return MoveState.GONE
        if seen.reassignment is not None:
            return MoveState.MOVING if seen.reassignment.target == move.replicas_after else MoveState.FOREIGN
        replicas = seen.description.replicas
        if replicas == move.replicas_after:
            return MoveState.DONE
        if replicas == move.replicas_before:
            return MoveState.PENDING
        was_cancelled = changes_set(move) and set(replicas) == set(move.replicas_before)
        return MoveState.CANCELLED if was_cancelled else MoveState.DRIFTED

    def leader_of(self, move: Move) -> int | None:
        seen = self.partitions.get(move.topic_partition)
        return seen.description.leader if seen is not None else None

    def is_led_as_planned(self, move: Move) -> bool:
        seen = self.partitions.get(move.topic_partition)
        return seen is not None and seen.description.leader == move.replicas_after[0]

    def lagging(self, move: Move) -> tuple[int, ...]:
        """Kept replicas that are not in sync: moving now would wait for them, or cost redundancy (KAFKA-16218).

        A new order alone waits for nobody: Kafka takes it at once.
        """
        if not changes_set(move):
            return ()
        in_sync = self.partitions[move.topic_partition].description.isr
        return tuple(b for b in move.replicas_before if b in move.replicas_after and b not in in_sync)


def changes_set(move: Move) -> bool:
    """Whether replicas come or go; otherwise the move is a new order, or an election alone."""
    return set(move.replicas_before) != set(move.replicas_after)


def drifted_before_start(moves: Iterable[Move], seen: Observation) -> tuple[Move, ...]:
    """Moves whose partition is not exactly as the plan found it: before a first start, any of these is drift."""
    return tuple(move for move in moves if not _is_as_planned_for(move, seen.partitions.get(move.topic_partition)))


def _is_as_planned_for(move: Move, seen: SeenPartition | None) -> bool:
    return (
        seen is not None
        and seen.reassignment is None
        and seen.description.replicas == move.replicas_before
        and (not move.topic_id or seen.topic_id == move.topic_id)
    )
