"""What a run has to wait for, as one observation shows it, and since when. Pure.

    conditions = find_conditions(base, by_state, observation)
    # {"broker 4 is dead": 12:00:10}, with what the observations before have seen

Names are kept in the ledger. Example: broker 4 was missing at 12:00:10 and is missing at 12:00:20:
its time stays 12:00:10; once it is back its name is gone.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from counterpoise.execution.cancelled_moves import names_of_cancelled
from counterpoise.execution.observation import (
    MovesByState,
    MoveState,
    Observation,
)
from counterpoise.execution.trouble_at_start import names_at_start, still_in_trouble
from counterpoise.execution.waits import UNLISTED
from counterpoise.execution.waits_for_cluster import (
    name_of_dead,
    name_of_leader_out_of_sync,
    name_of_leaderless,
    name_of_out_of_sync,
    name_of_unavailable,
    name_of_unlisted,
    name_of_unmeasured,
    name_of_unresponsive,
)
from counterpoise.model.plan import Move
from counterpoise.model.reassignment import changes_replica_set
from counterpoise.model.run_progress import RunProgress

MAX_PARTITIONS = 20  # of a kind: the row of a run stays small while thousands are in trouble
_UNFINISHED = (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED, MoveState.STUCK)


def find_conditions(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> dict[str, datetime]:
    """Return the brokers and partitions in trouble, with the time since when."""
    return since(base, _names(base, by_state, observation), observation.observed_at)


def since(base: RunProgress, names: Iterable[str], now: datetime) -> dict[str, datetime]:
    """Return since when each of these lasts: from now on where it is new."""
    return {name: base.conditions_since.get(name, now) for name in names}


def _names(base: RunProgress, by_state: MovesByState, observation: Observation) -> Iterator[str]:
    yield from map(name_of_dead, sorted(dead_brokers(by_state, observation)))
    yield from map(name_of_unresponsive, sorted(observation.unresponsive_broker_ids))
    yield from map(name_of_unmeasured, sorted(observation.unmeasured_broker_ids))
    unavailable = map(name_of_unavailable, unavailable_since_start(base, observation))
    yield from _longest_lasting(unavailable, base)
    unlisted = (name_of_unlisted(str(tp)) for tp in observation.unlisted)
    yield from _longest_lasting(unlisted, base)
    moving = by_state[MoveState.MOVING]  # each of these is waited for, or cancelled, for itself
    not_moving = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]
    yield from _leaderless(moving, observation)
    yield from _longest_lasting(_leaderless(not_moving, observation), base)
    yield from names_out_of_sync(moving, observation)
    yield from _longest_lasting(names_out_of_sync(not_moving, observation), base)
    yield from names_of_cancelled(base, by_state, observation)
    leaders = _leaders_out_of_sync(by_state[MoveState.DONE], observation)
    yield from _longest_lasting(leaders, base)


def _longest_lasting(names: Iterable[str], base: RunProgress) -> list[str]:
    """Return as many of these names as are kept, those first that were there before."""
    return sorted(names, key=lambda name: (name not in base.conditions_since, name))[
        :MAX_PARTITIONS
    ]


def unlisted_since(run_progress: RunProgress) -> dict[str, datetime]:
    """Return since when partitions have replicas as if they moved, and no list names them."""
    lasting = run_progress.conditions_since.items()
    return {name: began_at for name, began_at in lasting if UNLISTED in name}


def unavailable_since_start(base: RunProgress, observation: Observation) -> list[str]:
    """Return the partitions outside the plan that have come to take no writes since it began."""
    unavailable = set(observation.conditions.unavailable_partitions)
    return sorted(unavailable - names_at_start(base.unavailable_at_start))


def still_unavailable(base: RunProgress, observation: Observation) -> tuple[str, ...]:
    """Return, of the partitions that took no writes when it began, those that have not since."""
    unavailable = set(observation.conditions.unavailable_partitions)
    return still_in_trouble(base.unavailable_at_start, unavailable)


def leaderless_moves(moves: Iterable[Move], observation: Observation) -> list[Move]:
    """Return those of unfinished moves that have no leader to copy from."""
    leaderless = observation.leaderless
    if not leaderless:
        return []
    return [move for move in moves if move.topic_partition in leaderless and move.adding]


def _leaderless(moves: Iterable[Move], observation: Observation) -> Iterator[str]:
    for move in leaderless_moves(moves, observation):
        yield name_of_leaderless(str(move.topic_partition))


def names_out_of_sync(moves: Iterable[Move], observation: Observation) -> Iterator[str]:
    """Yield what is kept for each replica that a move keeps, on a live broker and not in sync."""
    out_of_sync = observation.with_replicas_out_of_sync
    for move in moves:
        is_moving = observation.partitions[move.topic_partition].reassignment is not None
        if not is_moving and move.topic_partition not in out_of_sync:
            continue
        for broker_id in kept_out_of_sync(move, observation):
            yield name_of_out_of_sync(str(move.topic_partition), broker_id)


def kept_out_of_sync(move: Move, observation: Observation) -> list[int]:
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
            yield name_of_leader_out_of_sync(str(move.topic_partition), preferred_leader)


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
