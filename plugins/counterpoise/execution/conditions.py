"""What a run has to wait for, as one observation shows it, and since when. Pure.

    conditions = find_conditions(base, by_state, observation)
    # {"broker 4 is dead": 12:00:10}, with what the observations before have seen

Names are kept in the ledger and read by workers of other releases, which pay no attention to those
that they do not know. Example: broker 4 was missing at 12:00:10 and is missing at 12:00:20: its
time stays 12:00:10; once it is back its name is gone.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from counterpoise.execution.observation import (
    MovesByState,
    MoveState,
    Observation,
    changes_replica_set,
)
from counterpoise.execution.waits_for_cluster import (
    LEADERLESS,
    UNAVAILABLE,
    name_of_dead,
    name_of_unmeasured,
    name_of_unresponsive,
)
from counterpoise.model.plan import Move
from counterpoise.model.run_progress import RunProgress

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
    if set(observation.conditions.unavailable_partitions) - set(base.unavailable_at_start):
        yield UNAVAILABLE
    unfinished = [move for state in _UNFINISHED[:3] for move in by_state[state]]
    if any(observation.leader_of(move) is None and move.adding for move in unfinished):
        yield LEADERLESS


def dead_brokers(by_state: MovesByState, observation: Observation) -> set[int]:
    """Return the brokers that the rest of the plan needs, and that are not live."""
    remaining = [move for state in _UNFINISHED for move in by_state[state]]
    remaining += [m for m in by_state[MoveState.DONE] if not observation.has_planned_leader(m)]
    targets = {move.replicas_after for move in remaining}
    if observation.live_broker_ids.issuperset(chain.from_iterable(targets)):
        return set()
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
