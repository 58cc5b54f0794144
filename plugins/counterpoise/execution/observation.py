"""What one observation of cluster and ledger shows, and how far each move of the plan is. Pure.

    observation.state_of(move)       # MoveState.PENDING
    observation.next_target(move)    # the replicas of the reassignment to submit next

The replica set in the middle of a reassignment is never taken for a result: reassignments are
listed before and after the topics are described, and a partition of either list counts as moving
(KIP-455).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from counterpoise.execution.throttling.targets import keys_in_use
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests
from counterpoise.model.kafka import (
    ConfigResource,
    ConfigValue,
    PartitionDescription,
    Reassignment,
    ResourceKey,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import (
    changes_replica_set,
    is_one_reassignment,
    order_after_cancel,
    reassignment_targets,
)
from counterpoise.model.run import OwnedKey, Submitted
from counterpoise.model.run_progress import LogDirReading, VersionReading


class MoveState(StrEnum):
    PENDING = "pending"  # as the plan found it, or after one of the move's reassignments
    MOVING = "moving"  # a reassignment that this run has submitted is under way
    DONE = "done"  # has the replicas of the plan
    # The replicas of before, or of a reassignment of the move, in another order: after a cancel.
    CANCELLED = "cancelled"
    GONE = "gone"  # the topic was deleted, or deleted and created again
    FOREIGN = "foreign"  # a reassignment that this run has not submitted
    TAKEN_BACK = "taken back"  # what this run had submitted was cancelled, or undone, by others
    DRIFTED = "drifted"  # replicas that are none of the move's, or no longer those of the plan


_QUIET_AFTER: Final = timedelta(seconds=30)  # Kafka's broker session ends after 9 s by default
MovesByState = Mapping[MoveState, Sequence[Move]]


class ObservedPartition(NamedTuple):
    """A partition of the plan; a tuple, since an observation makes one of each."""

    topic_id: str
    description: PartitionDescription
    reassignment: Reassignment | None = None


@dataclass(frozen=True)
class ClusterConditions:
    """The cluster outside the plan: what a run must not make worse, and why it may have to wait."""

    foreign_reassignments: tuple[TopicPartition, ...] = ()
    unavailable_partitions: tuple[str, ...] = ()  # offline, or under min.insync.replicas
    # Topics with under-replicated partitions whose min.insync.replicas may not be read.
    unreadable_topics: tuple[str, ...] = ()
    # Partitions with replicas outside the ISR, on live brokers or not.
    under_replicated: Mapping[str, PartitionDescription] = field(default_factory=dict, repr=False)
    # Brokers with a log dir that is past its limit: which ones, in words.
    full_log_dirs: Mapping[int, str] = field(default_factory=dict)
    versions: Mapping[int, VersionReading] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Observation:
    """Everything that a decision needs of the cluster and of the ledger, at one time."""

    run_id: str
    observed_at: datetime
    cluster_id: str
    live_broker_ids: frozenset[int]
    # Those of the plan that exist.
    partitions: Mapping[TopicPartition, ObservedPartition] = field(repr=False)
    # The throttle keys of the plan's brokers and topics; without brokers that did not respond.
    configs: Mapping[ConfigResource, Mapping[str, ConfigValue]] = field(repr=False)
    # What this run has submitted, as far as something of it may be under way.
    submitted: Mapping[TopicPartition, Sequence[Submitted]] = field(repr=False)
    # The open ones of all runs of the cluster.
    owned_keys: Sequence[OwnedKey] = field(repr=False)
    # What the log dirs of brokers that copy had when they were last read.
    log_dirs: Mapping[int, LogDirReading] = field(repr=False)
    unresponsive_broker_ids: frozenset[int] = frozenset()  # live ones that did not respond
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
    # Partitions outside the plan of which a replica is copied.
    copied_outside: frozenset[TopicPartition] = frozenset()

    # Both are read many times of each move, and plans may have a hundred thousand moves.
    _states: dict[TopicPartition, MoveState] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _adding: dict[TopicPartition, tuple[int, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def own_keys(self) -> tuple[OwnedKey, ...]:
        """Return the keys in which something of this run is, or may come."""
        return tuple(owned for owned in self.owned_keys if owned.run_id == self.run_id)

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

    @cached_property
    def copied(self) -> frozenset[TopicPartition]:
        """Return the partitions of which a replica is copied, whoever began that."""
        return self.copied_outside.union(
            tp
            for tp, (_, description, moving) in self.partitions.items()
            if moving is not None and not set(moving.adding).issubset(description.isr)
        )

    @cached_property
    def keys_in_use(self) -> frozenset[ResourceKey]:
        """Return the keys that throttle copies in flight, whoever began them."""
        return keys_in_use(self.configs, self.copied)

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
        if self.row_in_flight(move) is not None:
            return MoveState.MOVING
        is_another_topic = partition.topic_id != move.topic_id and move.is_of_another_topic(
            partition.topic_id
        )
        if is_another_topic:
            return MoveState.GONE
        if partition.reassignment is not None:
            return MoveState.FOREIGN
        return self._state_at_rest(move, partition.description.replicas)

    def _state_at_rest(self, move: Move, replicas: tuple[int, ...]) -> MoveState:
        if replicas == move.replicas_after:
            return MoveState.DONE
        row = self.row_of(move.topic_partition, self.next_target(move))
        if replicas == move.replicas_before or replicas in reassignment_targets(move):
            is_taken_back = row is not None and row.is_answered(self.observed_at)
            return MoveState.TAKEN_BACK if is_taken_back else MoveState.PENDING
        if self.order_to_restore(move) is not None:
            return MoveState.CANCELLED
        # The list of reassignments may be behind the topics.
        was_just_submitted = row is not None and row.was_just_answered(self.observed_at)
        return MoveState.PENDING if was_just_submitted else MoveState.DRIFTED

    def row_of(self, partition: TopicPartition, target: tuple[int, ...]) -> Submitted | None:
        """Return what this run has submitted of a partition with this target."""
        rows = self.submitted.get(partition, ())
        return next((row for row in rows if row.target == target), None)

    def order_to_restore(self, move: Move) -> tuple[int, ...] | None:
        """Return, in their right order, the replicas that a cancel of a move of this run has left
        in another; None where they are in order, or somebody else changed that.

        The intent of a cancel has a row for them; the cancel of somebody else leaves Kafka's order.
        """
        if move.topic_partition not in self.submitted or not changes_replica_set(move):
            return None
        present = self.partitions[move.topic_partition].description.replicas
        for before, target in pairwise((move.replicas_before, *reassignment_targets(move))):
            if set(before) == set(present) and before != present:
                is_as_cancelled = present == order_after_cancel(before, target)
                wanted = [before, *([target] if is_as_cancelled else [])]
                is_ours = any(self.row_of(move.topic_partition, each) for each in wanted)
                return before if is_ours else None
        return None

    def row_in_flight(self, move: Move) -> Submitted | None:
        """Return what this run has submitted of what is in flight."""
        moving = self.partitions[move.topic_partition].reassignment
        return self.row_of(move.topic_partition, moving.target) if moving else None

    def replicas_before_reassignment(self, move: Move) -> tuple[int, ...] | None:
        """Return the replicas that a reassignment of the move in flight began with."""
        moving = self.partitions[move.topic_partition].reassignment
        chain = (move.replicas_before, *reassignment_targets(move))
        is_planned = moving is not None and moving.target in chain[1:]
        return chain[chain.index(moving.target, 1) - 1] if moving and is_planned else None

    def is_order_answered(self, move: Move) -> bool:
        """Return whether no call is on its way that restores the order of a cancelled move."""
        order = self.order_to_restore(move)
        row = order and self.row_of(move.topic_partition, order)
        return bool(row and row.unanswered_at is None)

    def next_target(self, move: Move) -> tuple[int, ...]:
        """Return the target replicas that a pending or cancelled partition is reassigned to next.

        A reassignment that keeps a dead replica for a while would never end: it is left out.
        """
        targets = reassignment_targets(move)
        if len(targets) == 1:
            return targets[0]
        present = set(self.partitions[move.topic_partition].description.replicas)
        reached = next((n for n, target in enumerate(targets) if set(target) == present), None)
        remaining = targets
        if reached is not None:
            remaining = targets[reached + 1 :] or targets[-1:]
        removing = set(move.removing)

        def can_end(target: tuple[int, ...]) -> bool:
            kept_for_now = removing.intersection(target)
            return kept_for_now <= self.live_broker_ids

        return next((target for target in remaining if can_end(target)), remaining[-1])

    def is_as_before(self, move: Move) -> bool:
        """Return whether a partition has the replicas of before the run, in their order."""
        return self.partitions[move.topic_partition].description.replicas == move.replicas_before

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

    def kept_out_of_sync(self, move: Move) -> list[int]:
        """Return the live brokers whose replica a move keeps and that are not in sync.

        A dead broker is waited for as such: once it is back, its replicas have to catch up.
        """
        _, description, moving = self.partitions[move.topic_partition]
        lagging = set(self.out_of_sync_replicas(move))
        if moving is not None:
            lagging = set(moving.target) - set(moving.adding) - set(description.isr)
        return sorted(lagging & self.live_broker_ids)

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

    def has_unknown_outcome(self, move: Move) -> bool:
        """Return whether a call about this partition may be applied in a moment.

        That is so for 30 s when no answer came, unless it is under way: a broker that was frozen
        applies what it holds when it wakes, or its session ends.
        """
        return any(
            row.unanswered_at is not None
            and not self._is_in_flight(row.topic_partition, row.target)
            and self.observed_at - row.unanswered_at < _QUIET_AFTER
            for row in self.submitted.get(move.topic_partition, ())
        )

    def may_not_show_yet(self, move: Move) -> bool:
        """Return whether a move that does not seem to be under way was submitted, or cancelled,
        just now: for that long it counts as in flight.
        """
        is_pending = self.state_of(move) is MoveState.PENDING
        if not is_pending or move.topic_partition not in self.submitted:
            return False
        row = self.row_of(move.topic_partition, self.next_target(move))
        return row is not None and row.was_just_answered(self.observed_at)

    def calls_seen(self) -> dict[tuple[TopicPartition, tuple[int, ...]], datetime | None]:
        """Return the targets under way of which nobody answered a call: one was made; and since
        when others of the same target have no answer.
        """
        return {
            (tp, row.target): None if row.is_first_call else row.unanswered_at
            for tp, rows in self.submitted.items()
            for row in rows
            if (row.is_first_call or not row.was_made) and self._is_in_flight(tp, row.target)
        }

    def _is_in_flight(self, tp: TopicPartition, target: tuple[int, ...]) -> bool:
        partition = self.partitions.get(tp)
        moving = partition.reassignment if partition is not None else None
        return moving is not None and moving.target == target

    def rows_over(self, moves: Iterable[Move]) -> list[Submitted]:
        """Return the rows of which nothing can be under way, and no order is to be restored."""
        by_partition = self.submitted
        return [
            row
            for move in moves
            for row in by_partition.get(move.topic_partition, ())
            if self._is_over(move, row)
        ]

    def _is_over(self, move: Move, row: Submitted) -> bool:
        partition = self.partitions.get(move.topic_partition)
        if row.unanswered_at is not None or partition is None:
            return row.unanswered_at is None
        if partition.reassignment is not None:
            return partition.reassignment.target != row.target
        if partition.description.replicas == row.target:
            return True
        is_in_order = self.order_to_restore(move) is None
        return is_in_order and not row.was_just_answered(self.observed_at)


def moves_by_state(moves: Iterable[Move], observation: Observation) -> dict[MoveState, list[Move]]:
    by_state: dict[MoveState, list[Move]] = {state: [] for state in MoveState}
    for move in moves:
        by_state[observation.state_of(move)].append(move)
    return by_state


def moves_in_flight(
    plan: RebalancePlan,
    reassignments: Mapping[TopicPartition, Reassignment],
    rows: Iterable[Submitted],
) -> tuple[Move, ...]:
    """Return the moves that go where the open rows of a run want them."""
    in_flight = {
        row.topic_partition
        for row in rows
        if (moving := reassignments.get(row.topic_partition)) and moving.target == row.target
    }
    return tuple(move for move in plan.moves if move.topic_partition in in_flight)
