"""What of brokers and partitions a run has to wait for, as observations show it, since when. Pure.

    conditions = find_conditions(base, by_state, observation)
    # {Condition.DEAD: {"4": 12:00:10}, ...}, with what the observations before have seen

Example: broker 4 was missing at 12:00:10 and is missing at 12:00:20: its time stays 12:00:10; once
it is back its name is gone.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import datetime
from itertools import chain

from counterpoise.execution.conditions import MAX_SUBJECTS, of, replica
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move
from counterpoise.model.reassignment import changes_replica_set
from counterpoise.model.run_progress import Activity, Condition, RunProgress
from counterpoise.model.words import name_brokers

_UNFINISHED = (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED, MoveState.STUCK)


def find_conditions(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> dict[Condition, dict[str, datetime]]:
    """Return the brokers and partitions in trouble, with the time since when."""
    now = observation.observed_at
    found = ((c, since(base, c, names, now)) for c, names in _find(base, by_state, observation))
    return {condition: subjects for condition, subjects in found if subjects}


def since(
    base: RunProgress, condition: Condition, subjects: Iterable[str], now: datetime
) -> dict[str, datetime]:
    """Return since when a condition lasts of each of these: from now on where it is new."""
    lasting = base.conditions.get(condition, {})
    return {subject: lasting.get(subject, now) for subject in subjects}


def _find(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> Iterator[tuple[Condition, Iterable[str]]]:
    moving = by_state[MoveState.MOVING]  # each of these is waited for, or cancelled, for itself
    not_moving = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]

    def longest_lasting(condition: Condition, names: Iterable[str]) -> list[str]:
        lasting = base.conditions.get(condition, {})
        return sorted(names, key=lambda name: (name not in lasting, name))[:MAX_SUBJECTS]

    for condition, broker_ids in (
        (Condition.DEAD, dead_brokers(by_state, observation)),
        (Condition.UNRESPONSIVE, observation.unresponsive_broker_ids),
        (Condition.UNMEASURED, observation.unmeasured_broker_ids),
    ):
        yield condition, map(str, sorted(broker_ids))
    for condition, names, of_moving in (
        (Condition.UNAVAILABLE, unavailable_since_start(base, observation), ()),
        (
            Condition.LEADERLESS,
            _names(leaderless_moves(not_moving, observation)),
            _names(leaderless_moves(moving, observation)),
        ),
        (
            Condition.OUT_OF_SYNC,
            kept_out_of_sync(not_moving, observation),
            kept_out_of_sync(moving, observation),
        ),
        (
            Condition.LEADER_OUT_OF_SYNC,
            _leaders_out_of_sync(by_state[MoveState.DONE], observation),
            (),
        ),
    ):
        yield condition, chain(of_moving, longest_lasting(condition, names))


def _names(moves: Iterable[Move]) -> Iterator[str]:
    return (str(move.topic_partition) for move in moves)


def unavailable_since_start(base: RunProgress, observation: Observation) -> list[str]:
    """Return the partitions outside the plan that have come to take no writes since it began."""
    unavailable = set(observation.conditions.unavailable_partitions)
    return sorted(unavailable - base.unavailable_at_start.keys())


def still_in_trouble(at_start: Mapping[str, bool], present: Set[str]) -> dict[str, bool]:
    """Return what of the trouble when a run began has not been over at two observations in a row.

    One that shows otherwise is not enough: a broker's metadata may be behind.
    """
    return {name: name in present for name, was in at_start.items() if was or name in present}


def different_versions(observation: Observation) -> Activity | None:
    """Return what shows that a rolling upgrade is under way; None when all live brokers are
    alike.
    """
    versions = sorted(observation.conditions.versions.items())
    ids_by_version = grouped((reading.version, broker_id) for broker_id, reading in versions)
    if len(ids_by_version) <= 1:
        return None
    groups = " and ".join(map(name_brokers, ids_by_version.values()))
    return of(Condition.DIFFERENT_VERSIONS, detail=groups)


def leaderless_moves(moves: Iterable[Move], observation: Observation) -> list[Move]:
    """Return those of unfinished moves that have no leader to copy from."""
    leaderless = observation.leaderless
    if not leaderless:
        return []
    return [move for move in moves if move.topic_partition in leaderless and move.adding]


def kept_out_of_sync(moves: Iterable[Move], observation: Observation) -> Iterator[str]:
    """Yield each replica that a move keeps, on a live broker and not in sync."""
    out_of_sync = observation.with_replicas_out_of_sync
    for move in moves:
        is_moving = observation.partitions[move.topic_partition].reassignment is not None
        if is_moving or move.topic_partition in out_of_sync:
            for broker_id in kept_brokers_out_of_sync(move, observation):
                yield replica(move.topic_partition, broker_id)


def kept_brokers_out_of_sync(move: Move, observation: Observation) -> list[int]:
    """Return the live brokers whose replica a move keeps and that are not in sync.

    A dead broker is waited for as such: once it is back, its replicas have to catch up.
    """
    partition = observation.partitions[move.topic_partition]
    lagging = set(observation.out_of_sync_replicas(move))
    if (reassignment := partition.reassignment) is not None:
        lagging = set(reassignment.target) - set(reassignment.adding)
        lagging -= set(partition.description.isr)
    return sorted(lagging & observation.live_broker_ids)


def _leaders_out_of_sync(done: Iterable[Move], observation: Observation) -> Iterator[str]:
    out_of_sync = observation.with_replicas_out_of_sync
    for move in done:
        if move.topic_partition not in out_of_sync:
            continue
        preferred_leader = move.replicas_after[0]
        isr = observation.partitions[move.topic_partition].description.isr
        is_live = preferred_leader in observation.live_broker_ids
        if is_live and preferred_leader not in isr:
            yield replica(move.topic_partition, preferred_leader)


def dead_brokers(by_state: MovesByState, observation: Observation) -> set[int]:
    """Return the brokers that the rest of the plan needs, and that are not live."""
    states = (*_UNFINISHED, MoveState.DONE)
    targets = {move.replicas_after for state in states for move in by_state[state]}
    if observation.live_broker_ids.issuperset(chain.from_iterable(targets)):
        return set()
    remaining = [move for state in _UNFINISHED for move in by_state[state]]
    remaining += [m for m in by_state[MoveState.DONE] if not observation.has_planned_leader(m)]
    needed = {b for move in remaining for b in _brokers_needed(move, observation)}
    return needed - observation.live_broker_ids


def _brokers_needed(move: Move, observation: Observation) -> tuple[int, ...]:
    """Return the brokers without which a move cannot end; those that it leaves may be dead.

    Where a replica is added or removed, every target replica has to be in sync in the end. A new
    order alone is taken at once, and only its preferred leader has to be live.
    """
    if changes_replica_set(move) and observation.state_of(move) is not MoveState.DONE:
        return move.replicas_after
    return move.replicas_after[:1]
