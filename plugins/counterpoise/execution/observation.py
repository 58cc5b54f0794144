"""What one observation of cluster and ledger shows, and how far each move of the plan is. Pure.

    observation.state_of(move)       # MoveState.PENDING
    observation.next_target(move)    # the replicas of the reassignment to submit next

The replica set in the middle of a reassignment is never taken for a result: reassignments are
listed before and after the topics are described, and a partition of either list counts as moving
(KIP-455).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from counterpoise.execution.observed_cluster import ClusterConditions, ObservedPartition
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests
from counterpoise.model.kafka import ConfigResource, ConfigValue, Reassignment
from counterpoise.model.plan import Move
from counterpoise.model.reassignment import (
    changes_replica_set,
    is_one_reassignment,
    reassignment_targets,
)
from counterpoise.model.run import Submission, TouchedKey
from counterpoise.model.run_progress import LogDirReading

_MAX_SECONDS_AHEAD: Final = 300.0  # of another worker's clock; one beyond was set back since


class MoveState(StrEnum):
    PENDING = "pending"  # as the plan found it, or after one of the move's reassignments
    MOVING = "moving"  # one of the move's reassignments is under way
    DONE = "done"  # has the replicas of the plan
    # The replicas of before, or of a reassignment of the move, in another order: after a cancel.
    CANCELLED = "cancelled"
    # Only a cancel may end it: a replica is both added and removed, by calls of ours, which Kafka
    # never ends; or a call that restores an order came late, and goes back from where it is now; or
    # a call came so late that the topic was made again meanwhile.
    STUCK = "stuck"
    GONE = "gone"  # the topic was deleted, or deleted and created again
    FOREIGN = "foreign"  # a reassignment that this run has not submitted
    DRIFTED = "drifted"  # replicas that are none of the move's, or no longer those of the plan


MovesByState = Mapping[MoveState, Sequence[Move]]


@dataclass(frozen=True)
class Observation:
    """Everything that a decision needs of the cluster and of the ledger, at one time."""

    observed_at: datetime
    cluster_id: str
    live_broker_ids: frozenset[int]
    # Those of the plan that exist.
    partitions: Mapping[TopicPartition, ObservedPartition] = field(repr=False)
    # The throttle keys of the plan's brokers and topics; without brokers that did not respond.
    configs: Mapping[ConfigResource, Mapping[str, ConfigValue]] = field(repr=False)
    submissions: Mapping[TopicPartition, Submission] = field(repr=False)
    election_attempts: Mapping[TopicPartition, int] = field(repr=False)
    touched_keys: tuple[TouchedKey, ...] = field(repr=False)
    # What the log dirs of brokers that copy had when they were last read.
    log_dirs: Mapping[int, LogDirReading] = field(repr=False)
    unresponsive_broker_ids: frozenset[int] = frozenset()  # live ones that did not respond
    # Partitions whose replicas show a reassignment of the plan that no list names.
    unlisted: tuple[TopicPartition, ...] = ()
    # Brokers of copies under way whose log dirs are not known: what has arrived there is not 0.
    unmeasured_broker_ids: frozenset[int] = frozenset()
    # Brokers that may still apply what they were sent; None: fenced ones are not reported.
    registered_broker_ids: frozenset[int] | None = None
    # Of topics that lose replicas.
    min_insync_replicas: Mapping[str, int] = field(default_factory=dict, repr=False)
    # The present ids of the plan's topics, as far as these exist.
    topic_ids: Mapping[str, str] = field(default_factory=dict, repr=False)
    active_requests: ActiveRequests = field(default_factory=ActiveRequests)
    conditions: ClusterConditions = field(default_factory=ClusterConditions)

    # Both are read many times of each move, and plans may have a hundred thousand moves.
    _states: dict[TopicPartition, MoveState] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _adding: dict[TopicPartition, tuple[int, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def with_touched_keys(self, touched_keys: tuple[TouchedKey, ...]) -> "Observation":
        """Return the same with other keys of ours; what was found of moves stays found."""
        observation = copy(self)  # `replace` would leave that out
        vars(observation)["touched_keys"] = touched_keys
        return observation

    @cached_property
    def leaderless(self) -> frozenset[TopicPartition]:
        """Return the partitions of the plan without a leader."""
        return frozenset(
            tp for tp, found in self.partitions.items() if found.description.leader is None
        )

    @cached_property
    def with_replicas_out_of_sync(self) -> frozenset[TopicPartition]:
        """Return the partitions of the plan with replicas outside the ISR."""
        return frozenset(
            tp
            for tp, (_, description, _) in self.partitions.items()
            if len(description.isr) != len(description.replicas)
        )

    @property
    def is_anything_moving(self) -> bool:
        return any(partition.reassignment for partition in self.partitions.values())

    def state_of(self, move: Move) -> MoveState:
        state = self._states.get(move.topic_partition)
        if state is None:
            state = self._states[move.topic_partition] = self._find_state(move)
        return state

    def _find_state(self, move: Move) -> MoveState:
        partition = self.partitions.get(move.topic_partition)
        if partition is None:
            return MoveState.GONE
        submission = self.submissions.get(move.topic_partition)
        if partition.topic_id != move.topic_id and move.is_of_another_topic(partition.topic_id):
            came_late = _came_late(partition.reassignment, submission)
            return MoveState.STUCK if came_late else MoveState.GONE
        if partition.reassignment is not None:
            now = self.observed_at
            return _state_of_reassignment(move, partition.reassignment, submission, now)
        replicas = partition.description.replicas
        if replicas == move.replicas_after:
            return MoveState.DONE
        if submission is not None and submission.done_at is not None:
            return _state_after_arrival(move, replicas, submission)
        if replicas == move.replicas_before or replicas in reassignment_targets(move):
            return MoveState.PENDING
        is_out_of_order = changes_replica_set(move) and self.order_to_restore(move) is not None
        was_cancelled = is_out_of_order and (
            _may_have_lost_its_order(submission)
            or move.topic_partition in self.conditions.late_cancelled
        )
        return MoveState.CANCELLED if was_cancelled else MoveState.DRIFTED

    def order_to_restore(self, move: Move) -> tuple[int, ...] | None:
        """Return, in their right order, the replicas that the partition has in any order now.

        None when they are neither those of before nor those of a reassignment of the move; those of
        the plan count where it had arrived.
        """
        present = set(self.partitions[move.topic_partition].description.replicas)
        submission = self.submissions.get(move.topic_partition)
        had_arrived = submission is not None and submission.done_at is not None
        targets = reassignment_targets(move)
        known_replicas = (move.replicas_before, *(targets if had_arrived else targets[:-1]))
        return next((replicas for replicas in known_replicas if set(replicas) == present), None)

    def next_target(self, move: Move) -> tuple[int, ...]:
        """Return the target replicas that a pending or cancelled partition is reassigned to next.

        A reassignment that keeps a dead replica for a while would never end: it is left out.
        """
        targets = reassignment_targets(move)
        if len(targets) == 1:
            return targets[0]
        present = self.order_to_restore(move)
        remaining = targets
        if present in targets:
            remaining = targets[targets.index(present) + 1 :] or targets[-1:]
        removing = set(move.removing)

        def can_end(target: tuple[int, ...]) -> bool:
            kept_for_now = removing.intersection(target)
            return kept_for_now <= self.live_broker_ids

        return next((target for target in remaining if can_end(target)), remaining[-1])

    def is_between_steps(self, move: Move) -> bool:
        """Return whether a reassignment of a pending move has ended."""
        return self.partitions[move.topic_partition].description.replicas != move.replicas_before

    def adding_replicas(self, move: Move) -> tuple[int, ...]:
        """Return the brokers that are being added now, or that the next reassignment adds."""
        adding = self._adding.get(move.topic_partition)
        if adding is None:
            adding = self._adding[move.topic_partition] = self._find_adding(move)
        return adding

    def _find_adding(self, move: Move) -> tuple[int, ...]:
        partition = self.partitions.get(move.topic_partition)
        if partition is None:
            return ()
        if partition.reassignment is not None:
            return partition.reassignment.adding
        if self.state_of(move) not in (MoveState.PENDING, MoveState.CANCELLED):
            return ()
        present = partition.description.replicas
        if is_one_reassignment(move) and present == move.replicas_before:
            return move.adding
        return tuple(b for b in self.next_target(move) if b not in present)

    def leader_of(self, move: Move) -> int | None:
        partition = self.partitions.get(move.topic_partition)
        return partition.description.leader if partition is not None else None

    def has_planned_leader(self, move: Move) -> bool:
        return self.leader_of(move) == move.replicas_after[0]

    def copying_brokers(self, move: Move) -> tuple[int, ...]:
        """Return the brokers whose links a move uses: the leader, and those that are added."""
        leader = self.leader_of(move)
        source = () if leader is None else (leader,)
        return (*source, *self.adding_replicas(move))

    def is_measured(self, move: Move) -> bool:
        """Return whether it is known how much of a copy under way has arrived.

        The size at the leader has to be known as well: what is left is the difference.
        """
        leader = self.leader_of(move)
        if leader is not None and self.size_at(move, leader) is None:
            return False
        return self.unmeasured_broker_ids.isdisjoint(self.copying_brokers(move))

    def size_at(self, move: Move, broker_id: int) -> int | None:
        """Return the bytes of a replica at the last reading; None where there is none."""
        reading = self.log_dirs.get(broker_id)
        return reading.sizes.get(str(move.topic_partition)) if reading else None

    def speed_of(self, move: Move, destination: int) -> int:
        """Return bytes per second of a copy; 0 where that is not known."""
        reading = self.log_dirs.get(destination)
        return reading.speeds.get(str(move.topic_partition), 0) if reading else 0

    def out_of_sync_replicas(self, move: Move) -> tuple[int, ...]:
        """Return the replicas outside the ISR that the next reassignment keeps.

        It would wait for them, or cost redundancy. Those that came with an earlier reassignment
        count, too (KAFKA-16218). A new order alone waits for nobody: Kafka takes it at once.
        """
        if move.topic_partition not in self.with_replicas_out_of_sync:
            return ()
        partition = self.partitions[move.topic_partition].description
        target = self.next_target(move)
        if set(target) == set(partition.replicas):
            return ()
        return tuple(b for b in partition.replicas if b in target and b not in partition.isr)

    def bytes_to_copy(self, move: Move, broker_id: int) -> int:
        """Return what a destination lacks: the leader's bytes now, less what has arrived.

        The leader has 120 MB, the destination 50 MB: 70 MB. The plan's size counts only where the
        leader's is not known: since then retention may have deleted what was to be copied.
        """
        if str(move.topic_partition) not in self._with_known_sizes:
            return move.size_bytes
        leader = self.leader_of(move)
        leader_bytes = None if leader is None else self.size_at(move, leader)
        if leader_bytes is None:
            leader_bytes = move.size_bytes
        return max(0, leader_bytes - (self.size_at(move, broker_id) or 0))

    @cached_property
    def _with_known_sizes(self) -> frozenset[str]:
        """Return the partitions of which the size of a replica is known, by name."""
        return frozenset().union(*(reading.sizes for reading in self.log_dirs.values()))

    def has_unknown_outcome(self, move: Move, quiet_seconds: float) -> bool:
        """Return whether a call about this partition may still be applied.

        That is so when no answer came, also where a later call was answered, and `quiet_seconds`
        have not passed since. A broker that was frozen applies what it holds when it wakes: it has
        to have responded since, or its session has to have ended.
        """
        submission = self.submissions.get(move.topic_partition)
        if submission is None or submission.done_at or not submission.may_come_late:
            return False
        is_frozen_now = not self.unresponsive_broker_ids.isdisjoint(self._holders_of(submission))
        return is_frozen_now or self._seconds_since(submission) < quiet_seconds

    def _holders_of(self, submission: Submission) -> frozenset[int]:
        """Return the brokers that may still apply a call which nobody answered."""
        if submission.asked_broker_id is None or submission.may_be_held_by_any:
            return self.registered_broker_ids or self.live_broker_ids
        return frozenset((submission.asked_broker_id,))

    def may_not_show_yet(self, move: Move) -> bool:
        """Return whether a move that seems not to have begun was submitted and answered just now:
        it may be in flight, and what is sent twice is done twice.
        """
        submission = self.submissions.get(move.topic_partition)
        if submission is None or not submission.was_just_answered(self.observed_at):
            return False
        if self.state_of(move) not in (MoveState.PENDING, MoveState.CANCELLED):
            return False
        return submission.target == self.next_target(move)

    def cancel_may_not_show_yet(self, move: Move) -> bool:
        """Return whether a move was cancelled just now, and seems to be under way, or not to have
        begun: the order that its cancel leaves may show in a moment.
        """
        submission = self.submissions.get(move.topic_partition)
        if submission is None or not submission.is_at_rest:
            return False
        if not submission.is_under_way(self.observed_at):
            return False
        return self.state_of(move) in (MoveState.MOVING, MoveState.STUCK, MoveState.PENDING)

    def with_known_outcome(self, quiet_seconds: float) -> list[TopicPartition]:
        """Return the partitions whose broker did not answer a call, and responds again by now."""
        responding = self.live_broker_ids - self.unresponsive_broker_ids
        return [
            tp
            for tp, submission in self.submissions.items()
            if submission.may_come_late
            and self._holders_of(submission) <= responding
            and self._seconds_since(submission) >= quiet_seconds
        ]

    def submissions_at_rest(self, ours_in_flight: Set[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that have not arrived, and of which nothing of ours is under way:
        their topic is gone, or they do not move, or somebody else moves them, and all calls were
        answered.
        """
        return [
            tp
            for tp, submission in self.submissions.items()
            if submission.done_at is None
            and not submission.may_come_late
            and tp not in ours_in_flight
        ]

    def _seconds_since(self, submission: Submission) -> float:
        """Return how long ago that was, as far as the clocks tell: never hours to come."""
        seconds = (self.observed_at - submission.submitted_at).total_seconds()
        return seconds if seconds > -_MAX_SECONDS_AHEAD else -seconds


def _may_have_lost_its_order(submission: Submission | None) -> bool:
    """Return whether a cancel of this run may have left the order of a partition.

    Otherwise somebody reordered one that it never submitted, or that was in order since.
    """
    return submission is not None and submission.in_order_at is None


def _state_of_reassignment(
    move: Move, reassignment: Reassignment, submission: Submission | None, now: datetime
) -> MoveState:
    """Return whose reassignment it is: ours is only what this run has submitted.

    Somebody who takes [4, 2, 3] back to [1, 2, 3] while 4 is added makes a reassignment that never
    ends, too; it is theirs to cancel.
    """
    if submission is None:
        return MoveState.FOREIGN
    is_ours = submission.may_have_asked_for(reassignment.target)
    if submission.is_under_way(now):
        targets = reassignment_targets(move)
        if set(reassignment.adding) & set(reassignment.removing):
            own_targets = (*targets, submission.target or move.replicas_before)
            is_ours = is_ours or reassignment.target in own_targets
        elif reassignment.target in targets:
            return MoveState.MOVING
    return MoveState.STUCK if is_ours else MoveState.FOREIGN


def _state_after_arrival(
    move: Move, replicas: tuple[int, ...], submission: Submission
) -> MoveState:
    """Return the state of a partition that had arrived and has other replicas now: a late call took
    it back, the cancel of one left its order, or somebody moved it again.
    """
    if submission.may_have_asked_for(replicas):
        return MoveState.PENDING
    arrived_at = submission.done_at or submission.submitted_at
    is_later = submission.submitted_at >= arrived_at
    was_cancelled = is_later and _may_have_lost_its_order(submission)
    is_out_of_order = set(replicas) == set(move.replicas_after)
    return MoveState.CANCELLED if was_cancelled and is_out_of_order else MoveState.DRIFTED


def _came_late(reassignment: Reassignment | None, submission: Submission | None) -> bool:
    """Return whether it goes where a call without an answer wanted it."""
    if reassignment is None or submission is None:
        return False
    return submission.may_have_asked_for(reassignment.target)


def moves_by_state(moves: Iterable[Move], observation: Observation) -> dict[MoveState, list[Move]]:
    by_state: dict[MoveState, list[Move]] = {state: [] for state in MoveState}
    for move in moves:
        by_state[observation.state_of(move)].append(move)
    return by_state
