"""Which moves to submit next: within every cap, with every throttled link kept busy. Pure.

next_batch(pending, moving, seen, limits, fleet_limit)

Sources and destinations are interleaved, large partitions first; offsets, transactions and share
groups come after all others, few at a time, since each of them moves the coordinator of clients.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from counterpoise.execution.observation import Observation
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.plan import Move
from counterpoise.model.policy import MovementPolicy

MOST_PARTITIONS_PER_CALL: Final = 1_000  # one huge request hurts the controller


def next_batch(
    pending: Sequence[Move],
    moving: Sequence[Move],
    seen: Observation,
    limits: MovementPolicy,
    fleet_limit: int | None = None,
) -> tuple[Move, ...]:
    """() when nothing may be submitted now. Moves that touch a silent broker wait: no throttle can
    be proven there.

    What copies nothing comes last: new orders, and replicas that are given up.
    """
    able = [m for m in pending if not seen.lagging(m) and not _touches_silence(m, seen)]
    copying = [m for m in able if seen.arriving(m)]
    to_copy = [m for m in (*pending, *moving) if seen.arriving(m)]
    if any(m.topic not in COORDINATOR_TOPICS for m in to_copy):
        ordinary = [m for m in copying if m.topic not in COORDINATOR_TOPICS]
        return _within_caps(ordinary, moving, seen, limits, fleet_limit)
    if to_copy:
        few = limits.max_coordinator_moves_in_flight - len(moving)
        return _within_caps(copying, moving, seen, limits, fleet_limit)[: max(0, few)]
    return tuple(able)[:MOST_PARTITIONS_PER_CALL]


def _touches_silence(move: Move, seen: Observation) -> bool:
    return bool(seen.arriving(move)) and bool(
        {*move.replicas_before, *move.adding} & seen.silent_broker_ids
    )


def _within_caps(
    ready: Sequence[Move],
    moving: Sequence[Move],
    seen: Observation,
    limits: MovementPolicy,
    fleet_limit: int | None,
) -> tuple[Move, ...]:
    in_flight = [m for m in moving if seen.arriving(m)]
    free = min(limits.max_moves_in_flight - len(in_flight), MOST_PARTITIONS_PER_CALL)
    if fleet_limit is not None:
        free = min(free, fleet_limit - seen.around.moves_in_flight_elsewhere - len(in_flight))
    load = _Load(limits)
    for move in in_flight:
        load.add(seen.ends(move), move.size_bytes)
    batch: list[Move] = []
    for move in _interleaved(ready, seen):
        if len(batch) >= free:
            break
        if load.has_room(seen.ends(move), move.size_bytes):
            load.add(seen.ends(move), move.size_bytes)
            batch.append(move)
    return tuple(batch)


class _Load:
    """What is in flight, by broker and in all, against the caps.

    One move always fits, however large it is.
    """

    def __init__(self, limits: MovementPolicy) -> None:
        self._limits = limits
        self._moves: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._all_bytes = 0

    def add(self, broker_ids: Iterable[int], size_bytes: int) -> None:
        for broker_id in broker_ids:
            self._moves[broker_id] += 1
            self._bytes[broker_id] += size_bytes
        self._all_bytes += size_bytes

    def has_room(self, broker_ids: Iterable[int], size_bytes: int) -> bool:
        if not _fits(self._all_bytes, size_bytes, self._limits.max_bytes_in_flight):
            return False
        return all(
            self._moves[b] < self._limits.max_moves_in_flight_per_broker
            and _fits(self._bytes[b], size_bytes, self._limits.max_bytes_in_flight_per_broker)
            for b in broker_ids
        )


def _fits(present: int, more: int, limit: int | None) -> bool:
    return limit is None or not present or present + more <= limit


def _interleaved(moves: Sequence[Move], seen: Observation) -> list[Move]:
    """The n-th move of every (source, destination) before the n+1-th of any, the large ones first."""
    rank: Counter[tuple[int, ...]] = Counter()
    ranked = []
    for move in sorted(moves, key=lambda m: (-m.size_bytes, m.topic, m.partition)):
        ends = seen.ends(move)
        ranked.append((rank[ends], -move.size_bytes, move.topic, move.partition, move))
        rank[ends] += 1
    return [row[-1] for row in sorted(ranked, key=lambda row: row[:-1])]
