"""What one look at the cluster and the ledger shows, and how far each move of the plan is.

An in-between replica set is never taken for a real one: list-reassignments is read before and after
the topics are described, and a partition that is in either list counts as moving (KIP-455).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Standing
from counterpoise.model.kafka import (
    BrokerVersion,
    ConfigResource,
    ConfigValue,
    PartitionDescription,
    Reassignment,
)
from counterpoise.model.plan import Move
from counterpoise.model.run import Submission, TouchedKey
from counterpoise.model.steps import steps_of


class MoveState(StrEnum):
    PENDING = "pending"  # as the plan found it, or at one of its steps
    MOVING = "moving"  # under way to a step of the plan
    DONE = "done"  # where the plan wants it
    # the replicas of before, or of a step, in another order: what a cancel leaves behind
    CANCELLED = "cancelled"
    STUCK = (
        "stuck"  # a replica is both added and removed: Kafka never ends that, only a cancel does
    )
    GONE = "gone"  # the topic was deleted, or deleted and made anew
    FOREIGN = "foreign"  # a reassignment that is no step of the plan
    DRIFTED = "drifted"  # replicas that are no step of the plan


States = Mapping[MoveState, Sequence[Move]]


@dataclass(frozen=True, slots=True)
class SeenPartition:
    topic_id: str
    description: PartitionDescription
    reassignment: Reassignment | None


@dataclass(frozen=True)
class Surroundings:
    """The cluster outside the plan: what a run must not make worse, and what says that now is not
    the time.
    """

    reassignments: tuple[TopicPartition, ...] = ()
    stopped: tuple[str, ...] = ()  # partitions without a leader, or below min.insync.replicas
    short: Mapping[str, int] = field(
        default_factory=dict, repr=False
    )  # lacking a live replica in sync: its leader
    full_dirs: Mapping[int, str] = field(
        default_factory=dict
    )  # brokers with a log dir past its limit: which
    versions: Mapping[int, BrokerVersion] = field(default_factory=dict, repr=False)
    moves_in_flight_elsewhere: int = 0  # in the other clusters of the fleet


@dataclass(frozen=True)
class Observation:
    """One look. `partitions`: those of the plan that exist; `configs`: the throttle keys of the
    plan's resources.

    A live broker that did not tell its configs in time is missing there.
    """

    now: datetime
    cluster_id: str
    live_broker_ids: frozenset[int]
    partitions: Mapping[TopicPartition, SeenPartition] = field(repr=False)
    configs: Mapping[ConfigResource, Mapping[str, ConfigValue]] = field(repr=False)
    submissions: Mapping[TopicPartition, Submission] = field(repr=False)
    election_attempts: Mapping[TopicPartition, int] = field(repr=False)
    touched: tuple[TouchedKey, ...] = field(repr=False)
    sizes: Mapping[tuple[TopicPartition, int], int] = field(
        repr=False
    )  # bytes of a replica, where something copies
    silent_broker_ids: frozenset[int] = frozenset()  # live ones that did not answer
    min_insync_replicas: Mapping[str, int] = field(
        default_factory=dict, repr=False
    )  # of topics that lose replicas
    standing: Standing = field(default_factory=Standing)
    around: Surroundings = field(default_factory=Surroundings)

    # Asked many times of each move in one look, and plans may have a hundred thousand.
    _states: dict[TopicPartition, MoveState] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _targets: dict[TopicPartition, tuple[int, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def state_of(self, move: Move) -> MoveState:
        state = self._states.get(move.topic_partition)
        if state is None:
            state = self._states[move.topic_partition] = self._find_state(move)
        return state

    def _find_state(self, move: Move) -> MoveState:
        seen = self.partitions.get(move.topic_partition)
        if seen is None or (move.topic_id and seen.topic_id != move.topic_id):
            return MoveState.GONE
        if seen.reassignment is not None:
            if set(seen.reassignment.adding) & set(seen.reassignment.removing):
                return MoveState.STUCK
            return (
                MoveState.MOVING
                if seen.reassignment.target in steps_of(move)
                else MoveState.FOREIGN
            )
        replicas = seen.description.replicas
        if replicas == move.replicas_after:
            return MoveState.DONE
        if replicas == move.replicas_before or replicas in steps_of(move):
            return MoveState.PENDING
        was_cancelled = changes_set(move) and self.resting_order(move) is not None
        return MoveState.CANCELLED if was_cancelled else MoveState.DRIFTED

    def resting_order(self, move: Move) -> tuple[int, ...] | None:
        """The step, or the replicas of before, whose set this partition has, in its order."""
        present = set(self.partitions[move.topic_partition].description.replicas)
        stages = (move.replicas_before, *steps_of(move)[:-1])
        return next((stage for stage in stages if set(stage) == present), None)

    def next_target(self, move: Move) -> tuple[int, ...]:
        """The step that a pending or cancelled partition has to take now.

        A step that keeps a dead replica for a while would never end: it is left out.
        """
        target = self._targets.get(move.topic_partition)
        if target is None:
            target = self._targets[move.topic_partition] = self._find_target(move)
        return target

    def _find_target(self, move: Move) -> tuple[int, ...]:
        steps = steps_of(move)
        if len(steps) == 1:
            return steps[0]
        stage = self.resting_order(move)
        ahead = steps[steps.index(stage) + 1 :] if stage in steps else steps
        leaving = set(move.removing)
        return next(
            (step for step in ahead if leaving.intersection(step) <= self.live_broker_ids),
            ahead[-1],
        )

    def arriving(self, move: Move) -> tuple[int, ...]:
        """The replicas that are being added now, or that the next step adds."""
        seen = self.partitions.get(move.topic_partition)
        if seen is None:
            return ()
        if seen.reassignment is not None:
            return seen.reassignment.adding
        if self.state_of(move) in (MoveState.PENDING, MoveState.CANCELLED):
            return tuple(b for b in self.next_target(move) if b not in seen.description.replicas)
        return ()

    def leader_of(self, move: Move) -> int | None:
        seen = self.partitions.get(move.topic_partition)
        return seen.description.leader if seen is not None else None

    def is_led_as_planned(self, move: Move) -> bool:
        return self.leader_of(move) == move.replicas_after[0]

    def ends(self, move: Move) -> tuple[int, ...]:
        """The brokers whose links a move uses: the leader that is read from, and those that
        receive.
        """
        leader = self.leader_of(move)
        return (*(() if leader is None else (leader,)), *self.arriving(move))

    def lagging(self, move: Move) -> tuple[int, ...]:
        """Replicas that the next step keeps and that are not in sync: it would wait for them, or
        cost redundancy.

        Those that came with an earlier step count, too (KAFKA-16218). A new order alone waits for
        nobody: Kafka takes it at once.
        """
        seen = self.partitions[move.topic_partition].description
        target = self.next_target(move)
        if set(target) == set(seen.replicas):
            return ()
        return tuple(b for b in seen.replicas if b in target and b not in seen.isr)

    def left_to_copy(self, move: Move, broker_id: int) -> int:
        """Bytes that a destination lacks: what the leader has there and then, less what has
        arrived.
        """
        tp = move.topic_partition
        leader = self.leader_of(move)
        whole = max(move.size_bytes, self.sizes.get((tp, leader), 0) if leader is not None else 0)
        return max(0, whole - self.sizes.get((tp, broker_id), 0))

    def is_unsure(self, move: Move, patience_seconds: float) -> bool:
        """Whether a call about this partition may still be applied: no answer came, and it has not
        been quiet since.

        A broker that was frozen applies what it holds when it wakes. So it has to have answered
        since, or its session has to have ended.
        """
        sent = self.submissions.get(move.topic_partition)
        if sent is None or sent.answered_at is not None or sent.done_at is not None:
            return False
        asked = sent.asked_broker_id
        may_hold_it = asked in self.live_broker_ids and asked in self.silent_broker_ids
        return may_hold_it or (self.now - sent.submitted_at).total_seconds() < patience_seconds


def changes_set(move: Move) -> bool:
    """Whether replicas come or go; otherwise the move is a new order, or an election alone."""
    return set(move.replicas_before) != set(move.replicas_after)


def is_between_steps(move: Move, replicas: tuple[int, ...]) -> bool:
    """Whether these are the replicas of two steps at once, as a partition has them only while it
    moves (KIP-455).
    """
    stages = [set(stage) for stage in (move.replicas_before, *steps_of(move))]
    present = set(replicas)
    return present not in stages and any(present == a | b for a, b in pairwise(stages))


def moves_by_state(moves: Iterable[Move], seen: Observation) -> dict[MoveState, list[Move]]:
    by_state: dict[MoveState, list[Move]] = {state: [] for state in MoveState}
    for move in moves:
        by_state[seen.state_of(move)].append(move)
    return by_state


def drifted_before_start(moves: Iterable[Move], seen: Observation) -> tuple[Move, ...]:
    """Moves whose partition is not exactly as the plan found it: before a first start, any of these
    is drift.
    """
    return tuple(
        move
        for move in moves
        if not _is_as_planned_for(move, seen.partitions.get(move.topic_partition))
    )


def _is_as_planned_for(move: Move, seen: SeenPartition | None) -> bool:
    return (
        seen is not None
        and seen.reassignment is None
        and seen.description.replicas == move.replicas_before
        and (not move.topic_id or seen.topic_id == move.topic_id)
    )
