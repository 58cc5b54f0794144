"""What to do next: a pure function of the plan and of what one look shows. No clock, no I/O.

    command = next_command(plan, seen, target, limits)     # Throttle, Submit, Elect, Wait, Halt or Finish

Whatever is sent is the difference between the plan and what the cluster says, so running it again is harmless.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from counterpoise.execution.observation import MoveState, Observation, changes_set
from counterpoise.execution.throttles import ThrottleTarget, missing, restoring
from counterpoise.model.kafka import ConfigChange, ConfigResourceType
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import TouchedKey

MOST_PARTITIONS_PER_CALL: Final = 1_000  # one huge request hurts the controller
MOST_ELECTION_ATTEMPTS: Final = 10
# A call without an answer may be applied when a frozen broker wakes. Kafka's broker session ends after 9 s by default.
QUIET_AFTER_UNKNOWN_OUTCOME: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Throttle:
    """Put these changes in force; nothing is submitted before they have been read back."""

    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Reassign each to its planned replicas."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect the preferred leader of each."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop these; the cluster drops what was copied."""

    moves: tuple[Move, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """Give cancelled partitions the replica order of before; no byte moves."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring config keys back to what they were."""

    keys: tuple[tuple[TouchedKey, ConfigChange], ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Start nothing new, and say why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do. `owed` are keys that cannot be restored now, because their broker is dead."""

    owed: tuple[TouchedKey, ...] = ()


Command = Throttle | Submit | Elect | Cancel | RestoreOrder | Restore | Wait | Halt | Finish


def next_command(plan: RebalancePlan, seen: Observation, target: ThrottleTarget, limits: MovementPolicy) -> Command:
    """The next thing to do for a run that may move."""
    by_state = moves_by_state(plan.moves, seen)
    if halt := _reason_to_halt(by_state, seen):
        return halt
    moving = [*by_state[MoveState.MOVING]]
    pending = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]
    if any(move.adding for move in (*moving, *pending)) and (changes := missing(target, seen.configs)):
        return Throttle(changes)
    batch = _next_batch(pending, moving, seen, limits)
    if batch:
        return Submit(batch)
    if moving:
        return Wait(f"{len(moving)} partitions are moving")
    if pending:
        lagging = [f"{m.topic_partition} (brokers {list(seen.lagging(m))})" for m in pending if seen.lagging(m)]
        return Wait(f"{len(pending)} partitions wait for replicas that are not in sync: {_some(lagging)}")
    return _next_election(by_state[MoveState.DONE], seen)


def settle_command(plan: RebalancePlan, seen: Observation, target: ThrottleTarget) -> Command:
    """The next thing to do for a run that starts nothing new: first nothing of ours in flight, then restore."""
    by_state = moves_by_state(plan.moves, seen)
    moving = by_state[MoveState.MOVING]
    if hopeless := tuple(m for m in moving if _cannot_end(m, seen)):
        return Cancel(hopeless[:MOST_PARTITIONS_PER_CALL], "a broker of their target is dead, or nobody leads them")
    if moving and (changes := missing(target, seen.configs)):
        return Throttle(changes)
    if moving:
        return Wait(f"{len(moving)} partitions finish under the throttle")
    if by_state[MoveState.CANCELLED]:
        return RestoreOrder(tuple(by_state[MoveState.CANCELLED])[:MOST_PARTITIONS_PER_CALL])
    if unsure := _maybe_submitted(by_state[MoveState.PENDING], seen):
        return Wait(f"{len(unsure)} moves were sent without an answer and may still be applied")
    return _restoration(seen)


def moves_by_state(moves: Iterable[Move], seen: Observation) -> dict[MoveState, list[Move]]:
    by_state: dict[MoveState, list[Move]] = {state: [] for state in MoveState}
    for move in moves:
        by_state[seen.state_of(move)].append(move)
    return by_state


def _reason_to_halt(by_state: dict[MoveState, list[Move]], seen: Observation) -> Halt | None:
    strangers = [str(m.topic_partition) for m in by_state[MoveState.FOREIGN]]
    strangers += [str(tp) for tp in seen.foreign_reassignments]
    if strangers:
        return Halt(f"somebody else is reassigning {len(strangers)} partitions: {_some(strangers)}")
    if drifted := by_state[MoveState.DRIFTED]:
        names = [str(m.topic_partition) for m in drifted]
        return Halt(f"somebody else moved {len(drifted)} partitions of the plan: {_some(names)}")
    unfinished = [m for state in (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED) for m in by_state[state]]
    unled = [m for m in by_state[MoveState.DONE] if not seen.is_led_as_planned(m)]
    needed = {b for move in (*unfinished, *unled) for b in _brokers_needed(move, seen)}
    if dead := sorted(needed - seen.live_broker_ids):
        return Halt(f"brokers of the plan are dead: {', '.join(map(str, dead))}")
    if offline := [str(m.topic_partition) for m in unfinished if m.adding and seen.leader_of(m) is None]:
        return Halt(f"{len(offline)} partitions of the plan have no leader to copy from: {_some(offline)}")
    waiting = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]
    if short := [move for move in waiting if _falls_below_min_isr(move, seen)]:
        names = [f"{m.topic_partition} (to {len(m.replicas_after)} replicas)" for m in short]
        return Halt(f"{len(short)} partitions would have fewer replicas than min.insync.replicas: {_some(names)}")
    return None


def _brokers_needed(move: Move, seen: Observation) -> tuple[int, ...]:
    """The brokers without which a move cannot end. Those that a partition only moves away from may be dead.

    Where a replica comes or goes, every replica of the target has to be in sync in the end; an order changes at once,
    and only its new leader has to be there.
    """
    if changes_set(move) and seen.state_of(move) is not MoveState.DONE:
        return move.replicas_after
    return move.replicas_after[:1]


def _falls_below_min_isr(move: Move, seen: Observation) -> bool:
    least = seen.min_insync_replicas.get(move.topic, 0)
    return len(move.replicas_after) < min(least, len(move.replicas_before))


def _cannot_end(move: Move, seen: Observation) -> bool:
    """Kafka ends a reassignment when all replicas of the target are in sync, and copies from the leader alone."""
    return bool(set(move.replicas_after) - seen.live_broker_ids) or seen.leader_of(move) is None


def _next_batch(
    pending: Sequence[Move], moving: Sequence[Move], seen: Observation, limits: MovementPolicy
) -> tuple[Move, ...]:
    """Copies first, sources and destinations interleaved and within the caps; then what copies nothing."""
    busy = Counter(b for move in moving for b in _ends(move))
    free = limits.max_moves_in_flight - sum(1 for move in moving if move.adding)
    ready = [m for m in pending if m.adding and not seen.lagging(m)]
    batch: list[Move] = []
    for move in _interleaved(ready):
        if len(batch) >= min(free, MOST_PARTITIONS_PER_CALL):
            break
        if all(busy[b] < limits.max_moves_in_flight_per_broker for b in _ends(move)):
            batch.append(move)
            busy.update(_ends(move))
    if batch or any(m.adding for m in moving) or any(m.adding for m in pending):
        return tuple(batch)
    return tuple(m for m in pending if not seen.lagging(m))[:MOST_PARTITIONS_PER_CALL]


def _ends(move: Move) -> tuple[int, ...]:
    """The brokers whose links a move uses: the leader that is read from and those that receive."""
    return (*((move.leader_before,) if move.leader_before >= 0 else ()), *move.adding)


def _interleaved(moves: Sequence[Move]) -> list[Move]:
    """The n-th move of every (source, destination) before the n+1-th of any, the large ones first."""
    rank: Counter[tuple[int, ...]] = Counter()
    ranked = []
    for move in sorted(moves, key=lambda m: (-m.size_bytes, m.topic, m.partition)):
        ends = _ends(move)
        ranked.append((rank[ends], -move.size_bytes, move.topic, move.partition, move))
        rank[ends] += 1
    return [row[-1] for row in sorted(ranked, key=lambda row: row[:-1])]


def _next_election(done: Sequence[Move], seen: Observation) -> Command:
    to_elect = [m for m in done if not seen.is_led_as_planned(m)]
    if not to_elect:
        return Finish()
    tired = [m for m in to_elect if seen.election_attempts.get(m.topic_partition, 0) >= MOST_ELECTION_ATTEMPTS]
    if tired:
        names = [f"{m.topic_partition} (wanted: {m.replicas_after[0]})" for m in tired]
        return Halt(f"{len(tired)} preferred leaders could not be elected: {_some(names)}")
    ready = tuple(m for m in to_elect if _wanted_leader_in_sync(m, seen))
    if ready:
        return Elect(ready[:MOST_PARTITIONS_PER_CALL])
    return Wait(f"{len(to_elect)} preferred leaders are not in sync yet")


def _wanted_leader_in_sync(move: Move, seen: Observation) -> bool:
    return move.replicas_after[0] in seen.partitions[move.topic_partition].description.isr


def _maybe_submitted(pending: Sequence[Move], seen: Observation) -> list[Move]:
    unsure = []
    for move in pending:
        sent = seen.submissions.get(move.topic_partition)
        if sent and sent.answered_at is None and seen.now < sent.submitted_at + QUIET_AFTER_UNKNOWN_OUTCOME:
            unsure.append(move)
    return unsure


def _restoration(seen: Observation) -> Command:
    unrestored = [t for t in seen.touched if t.restored_at is None]
    owed = tuple(t for t in unrestored if _is_out_of_reach(t, seen))
    keys = []
    for touched in unrestored:
        if touched not in owed and (change := restoring(touched, seen.configs)):
            keys.append((touched, change))
    return Restore(tuple(keys)) if keys else Finish(owed)


def _is_out_of_reach(touched: TouchedKey, seen: Observation) -> bool:
    """A dead broker's config can be neither read nor written."""
    return touched.resource.type is ConfigResourceType.BROKER and int(touched.resource.name) not in seen.live_broker_ids


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
