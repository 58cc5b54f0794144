"""What happened in a series of snapshots, and when: brokers that came and went, moves, failovers,
gaps.

    events = find_events(columns)

Two snapshots are compared only where no gap and no rebuild lies between them. Brokers are compared
over gaps too: the first snapshot after it shows who came and who went. Nothing is compared with
another cluster of the same name.

Limits: snapshots show what changed, not why, and nothing that came and went between two of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

import numpy as np

from counterpoise.analysis.series import SeriesColumns
from counterpoise.model.balance import Churn, ClusterEvent, EventKind, SnapshotChanges
from counterpoise.model.grouping import grouped

SHARE_REACHED: Final = 0.9  # of the mean replicas
MIN_ELECTIONS: Final = 5  # at once, for an event
ELECTIONS_PER_MILLE: Final = 2  # of the partitions
RESTART_SHARE: Final = 0.9  # of the partitions that a broker led: lost at once, though it lives
MIN_TOPICS: Final = 5  # deleted or recreated at once, for an event

Count = Callable[[SnapshotChanges], int]


def find_events(columns: SeriesColumns) -> tuple[ClusterEvent, ...]:
    """Return all events of the period, by time."""
    counts: tuple[tuple[EventKind, Count], ...] = (
        (EventKind.FAILOVER, lambda changes: changes.failovers),
        (EventKind.ELECTION, _elections),
        (EventKind.TOPICS_DELETED, lambda changes: _topics(changes.topics_deleted)),
        (EventKind.TOPICS_RECREATED, lambda changes: _topics(changes.topics_recreated)),
    )
    events = [
        *_gaps(columns),
        *_rebuilds(columns),
        *_broker_events(columns),
        *_rack_events(columns),
        *_reassignments(columns),
        *_lost_leaders(columns),
    ]
    for kind, count in counts:
        events += _counted_events(columns, kind, count)
    kinds = list(EventKind)

    def order(event: ClusterEvent) -> tuple[object, ...]:
        return event.first_at, event.last_at, kinds.index(event.kind), event.broker_ids

    return tuple(sorted(events, key=order))


def churn(columns: SeriesColumns) -> Churn:
    """Return the changes of the period, summed.

    The first snapshot counts too, where it was compared with the one before it.
    """
    kept_ids = set(columns.snapshot_ids)
    known: list[SnapshotChanges] = []
    not_known = 0
    for index, changes in enumerate(columns.changes):
        previous_id = columns.previous_ids[index]
        if changes is not None and not changes.is_rebuilt and previous_id is not None:
            known.append(changes)
        is_rebuilt = changes is not None and changes.is_rebuilt
        is_comparable = changes is not None and (previous_id in kept_ids or is_rebuilt)
        if index > 0 and not is_comparable:
            not_known += 1
    summed = [f.name for f in fields(Churn) if f.name not in ("snapshots", "snapshots_not_known")]
    sums: dict[str, Any] = {
        name: _sum_of_known([getattr(changes, name) for changes in known]) for name in summed
    }
    return Churn(snapshots=len(known), snapshots_not_known=not_known, **sums)


def _sum_of_known(counts: Sequence[int | None]) -> int | None:
    """Return the sum; None where one of the counts is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _gaps(columns: SeriesColumns) -> Iterator[ClusterEvent]:
    for index in columns.breaks.after_gap:
        first, last = columns.times[index - 1], columns.times[index]
        seconds = (last - first).total_seconds()
        missing = max(1, round(seconds / columns.usual_seconds[index - 1]) - 1)
        snapshot_id = columns.snapshot_ids[index]
        yield ClusterEvent(EventKind.GAP, first, last, snapshot_id, missing, seconds=seconds)


def _rebuilds(columns: SeriesColumns) -> Iterator[ClusterEvent]:
    for index in columns.breaks.rebuilt:
        broker_count = len(columns.broker_ids[columns.rows(index)])
        yield _over(columns, EventKind.REBUILT, index, index, broker_count)


@dataclass(slots=True)
class _KnownBrokers:
    """What the snapshots so far say about one cluster's brokers."""

    registered: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)
    ever_live: set[int] = field(default_factory=set)
    new: set[int] = field(default_factory=set)  # registered since the first snapshot
    # Those that joined and still have less than their share, with the time of joining.
    below_share: dict[int, datetime] = field(default_factory=dict)


def _broker_events(columns: SeriesColumns) -> Iterator[ClusterEvent]:
    known = _KnownBrokers()
    for index in range(columns.snapshot_count):
        rows = columns.rows(index)
        broker_ids = columns.broker_ids[rows]
        registered = set(broker_ids.tolist())
        live = set(broker_ids[columns.is_live[rows]].tolist())
        if index == 0 or index in columns.breaks.rebuilt:
            known = _KnownBrokers(registered, live, set(live))
            continue
        known.new |= registered - known.registered - known.ever_live
        now_live = live - known.live
        joined = now_live & known.new - known.ever_live
        no_longer_live = known.live - live
        events = (
            (EventKind.JOINED, joined),
            (EventKind.RETURNED, now_live - joined),
            (EventKind.DIED, no_longer_live & registered),
            (EventKind.LEFT, known.registered - registered),
        )
        for kind, broker_ids_of_kind in events:
            if broker_ids_of_kind:
                yield _of_brokers(columns, index, kind, broker_ids_of_kind)
        known.below_share |= dict.fromkeys(sorted(joined), columns.times[index])
        known.registered, known.live = registered, live
        known.ever_live |= live
        yield from _shares_reached(columns, index, known)


def _of_brokers(
    columns: SeriesColumns,
    index: int,
    kind: EventKind,
    broker_ids: Iterable[int],
    *,
    seconds: float | None = None,
) -> ClusterEvent:
    ids = tuple(sorted(broker_ids))
    event = _over(columns, kind, index, index, len(ids))
    return replace(event, broker_ids=ids, seconds=seconds)


def _shares_reached(
    columns: SeriesColumns, index: int, known: _KnownBrokers
) -> Iterator[ClusterEvent]:
    """Yield an event for live brokers that joined and now hold nearly their share, one per time of
    joining. One that was dead meanwhile still counts from when it joined.
    """
    if not known.below_share:
        return
    rows = columns.rows(index)
    is_live = columns.is_live[rows]
    replicas = columns.replicas[rows][is_live]
    enough = SHARE_REACHED * replicas.mean()
    if enough == 0:
        return
    has_share = set(columns.broker_ids[rows][is_live][replicas >= enough].tolist())
    reached = grouped(
        (known.below_share.pop(broker_id), broker_id)
        for broker_id in [b for b in known.below_share if b in has_share]
    )
    for joined_at, broker_ids in reached.items():
        seconds = (columns.times[index] - joined_at).total_seconds()
        yield _of_brokers(columns, index, EventKind.REACHED_SHARE, broker_ids, seconds=seconds)


def _rack_events(columns: SeriesColumns) -> Iterator[ClusterEvent]:
    """Yield an event for brokers that name another rack than before, one per pair of racks."""
    before: dict[int, int] = {}
    for index in range(columns.snapshot_count):
        is_rebuilt = index in columns.breaks.rebuilt
        if index and not is_rebuilt and _has_same_racks(columns, index):
            continue
        rows = columns.rows(index)
        broker_ids, racks = columns.broker_ids[rows].tolist(), columns.racks[rows].tolist()
        now = dict(zip(broker_ids, racks, strict=True))
        if is_rebuilt:
            before = {}
        changed = grouped(
            ((before[broker_id], rack), broker_id)
            for broker_id, rack in now.items()
            if before.get(broker_id, rack) != rack
        )
        for (old_rack, new_rack), moved_ids in sorted(changed.items()):
            yield replace(
                _of_brokers(columns, index, EventKind.RACK, moved_ids),
                rack_before=columns.rack_name(old_rack),
                rack=columns.rack_name(new_rack),
            )
        before |= now


def _has_same_racks(columns: SeriesColumns, index: int) -> bool:
    """Return whether the snapshot has the same brokers in the same racks as the one before."""
    now, before = columns.rows(index), columns.rows(index - 1)
    has_same_brokers = np.array_equal(columns.broker_ids[now], columns.broker_ids[before])
    return has_same_brokers and np.array_equal(columns.racks[now], columns.racks[before])


def _elections(changes: SnapshotChanges) -> int:
    """Return the preferred leader elections, 0 where they are too few for an event."""
    enough = _enough_elections(changes)
    return changes.preferred_elections if changes.preferred_elections >= enough else 0


def _enough_elections(changes: SnapshotChanges) -> float:
    return max(MIN_ELECTIONS, changes.partitions * ELECTIONS_PER_MILLE / 1000)


def _topics(count: int) -> int:
    """Return the count, 0 where it is too small for an event."""
    return count if count >= MIN_TOPICS else 0


def _counted_events(
    columns: SeriesColumns, kind: EventKind, count: Count
) -> Iterator[ClusterEvent]:
    """Yield an event for neighbouring snapshots with a count above 0; a break ends it."""
    counts = [
        0 if changes is None or changes.is_rebuilt else count(changes)
        for changes in columns.changes
    ]
    for first, last in _runs(columns, [counted > 0 for counted in counts]):
        yield _over(columns, kind, first, last, sum(counts[first : last + 1]))


def _lost_leaders(columns: SeriesColumns) -> Iterator[ClusterEvent]:
    """Yield an event for live brokers that lost nearly all of their leaders, and one for many other
    leaders that changed although theirs was alive and in sync.

    The first is what a stop and a start between two snapshots look like: the broker was never seen
    dead. Example: of 100 leaders it has none, or all of them again, two elections later. What it
    led in the place of another broker may have gone back to that one meanwhile.
    """
    led_before: dict[int, int] = {}
    for index, changes in enumerate(columns.changes):
        rows = columns.rows(index)
        broker_ids = columns.broker_ids[rows].tolist()
        lost = dict(zip(broker_ids, columns.leaders_lost[rows].tolist(), strict=True))
        handed_back = dict(zip(broker_ids, columns.leaders_handed_back[rows].tolist(), strict=True))
        if index and index not in columns.breaks.positions and changes is not None:
            live = set(columns.broker_ids[rows][columns.is_live[rows]].tolist())
            restarted = {
                broker_id
                for broker_id in live & led_before.keys()
                if lost[broker_id] >= MIN_ELECTIONS
                and lost[broker_id] + handed_back[broker_id]
                >= RESTART_SHARE * led_before[broker_id]
            }
            if restarted:
                yield _of_brokers(columns, index, EventKind.RESTARTED, restarted)
            others = sum(lost[broker_id] for broker_id in lost.keys() - restarted)
            if others >= _enough_elections(changes):
                yield _over(columns, EventKind.LEADERS_MOVED, index, index, others)
        led_before = dict(zip(broker_ids, columns.leaders[rows].tolist(), strict=True))


def _reassignments(columns: SeriesColumns) -> Iterator[ClusterEvent]:
    """Yield an event for neighbouring snapshots in which replicas moved, or are being copied."""
    moved: list[int] = []
    is_moving: list[bool] = []
    for changes in columns.changes:
        is_known = changes is not None and not changes.is_rebuilt
        moved.append(changes.replica_sets_changed if changes and is_known else 0)
        is_moving.append(bool(changes and is_known and changes.reassigning_partitions))
    active = [count > 0 or moving for count, moving in zip(moved, is_moving, strict=True)]
    for first, last in _runs(columns, active):
        is_under_way = last == columns.snapshot_count - 1 and is_moving[last]
        count = sum(moved[first : last + 1])
        yield _over(columns, EventKind.REASSIGNMENT, first, last, count, is_under_way)


def _over(
    columns: SeriesColumns,
    kind: EventKind,
    first: int,
    last: int,
    count: int,
    is_under_way: bool = False,
) -> ClusterEvent:
    """Return the event that lasted from the snapshot `first` until `last`."""
    start, end = columns.times[first], columns.times[last]
    snapshot_id = columns.snapshot_ids[first]
    return ClusterEvent(kind, start, end, snapshot_id, count, is_under_way=is_under_way)


def _runs(columns: SeriesColumns, is_active: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each run of active snapshots; a break ends a run.

    Active are 1, 2, 3 and 5, and there is a break before 3: the runs are 1-2, 3-3 and 5-5.
    """
    start: int | None = None
    break_positions = frozenset(columns.breaks.positions)
    for index, active in enumerate(is_active):
        if start is not None and (not active or index in break_positions):
            yield start, index - 1
            start = None
        if active and start is None:
            start = index
    if start is not None:
        yield start, len(is_active) - 1
