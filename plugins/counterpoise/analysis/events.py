"""What happened in a series of snapshots, and when: brokers that came and went, moves, failovers,
gaps.

    found = breaks(columns)
    events = find_events(columns, found)

Two snapshots are compared only where nothing breaks the series between them, but for brokers: who
came and went over a gap is told by the first snapshot after it. Nothing at all is compared with
another cluster of the same name.

Limits: photographs show what changed, not why, and nothing that came and went between two of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np

from counterpoise.analysis.columns import SeriesColumns
from counterpoise.model.events import Churn, ClusterEvent, EventKind, SnapshotChanges

SHARE_REACHED: Final = 0.9  # of the mean replicas
GAP: Final = 2.5  # times the usual interval
FEWEST_ELECTIONS: Final = 5  # at once, that are an event
ELECTIONS_PER_MILLE: Final = 2  # of the partitions
FEWEST_TOPICS: Final = 5  # deleted or recreated at once, that are an event
_NEAR: Final = (
    5  # intervals to either side that say what is usual there: old snapshots may be thinned out
)

Count = Callable[[SnapshotChanges], int]


@dataclass(frozen=True, slots=True)
class Breaks:
    """Snapshots by their position: those after a gap, and the first ones of another cluster."""

    after_gap: tuple[int, ...]
    rebuilt: tuple[
        int, ...
    ]  # may name the first snapshot, which followed one that is not in the period

    @property
    def positions(self) -> tuple[int, ...]:
        """Where lines break."""
        return tuple(sorted({*self.after_gap, *self.rebuilt} - {0}))


def breaks(columns: SeriesColumns) -> Breaks:
    """Where the series cannot be joined."""
    rebuilt = [at for at in range(columns.snapshot_count) if _is_rebuilt(columns, at)]
    seconds = _intervals(columns.times)
    usual = _usual(seconds)
    gaps = [at + 1 for at, length in enumerate(seconds) if length > GAP * usual[at]]
    return Breaks(tuple(gaps), tuple(rebuilt))


def find_events(columns: SeriesColumns, found: Breaks) -> tuple[ClusterEvent, ...]:
    """All events of the period, by time."""
    events = [
        *_gaps(columns, found),
        *_rebuilds(columns, found),
        *_broker_events(columns, found),
        *_rack_events(columns, found),
        *_runs_of(columns, found, EventKind.FAILOVER, lambda changes: changes.failovers),
        *_runs_of(columns, found, EventKind.ELECTION, _many_elections),
        *_runs_of(
            columns, found, EventKind.TOPICS_DELETED, lambda c: _many_topics(c.topics_deleted)
        ),
        *_runs_of(
            columns, found, EventKind.TOPICS_RECREATED, lambda c: _many_topics(c.topics_recreated)
        ),
        *_reassignments(columns, found),
    ]
    kinds = list(EventKind)
    return tuple(
        sorted(events, key=lambda e: (e.first_at, e.last_at, kinds.index(e.kind), e.broker_ids))
    )


def churn(columns: SeriesColumns) -> Churn:
    """The changes of the period.

    The first snapshot counts too, where it was compared with the one before it.
    """
    kept = set(columns.snapshot_ids)
    known: list[SnapshotChanges] = []
    for at, changes in enumerate(columns.changes):
        previous = columns.previous_ids[at]
        if changes is not None and not changes.is_rebuilt and previous is not None:
            known.append(changes)
    lost = sum(
        changes is None or (columns.previous_ids[at] not in kept and not changes.is_rebuilt)
        for at, changes in enumerate(columns.changes)
        if at > 0
    )
    return Churn(
        snapshots=len(known),
        snapshots_not_known=lost,
        leaders_changed=sum(one.leaders_changed for one in known),
        failovers=sum(one.failovers for one in known),
        preferred_elections=sum(one.preferred_elections for one in known),
        epochs_unseen=sum(one.epochs_unseen for one in known),
        replica_sets_changed=sum(one.replica_sets_changed for one in known),
        topics_created=sum(one.topics_created for one in known),
        topics_deleted=sum(one.topics_deleted for one in known),
        topics_recreated=sum(one.topics_recreated for one in known),
    )


def _is_rebuilt(columns: SeriesColumns, at: int) -> bool:
    changes = columns.changes[at]
    if changes is not None and changes.is_rebuilt:
        return True
    before, now = (columns.cluster_ids[at - 1] if at else None), columns.cluster_ids[at]
    return before is not None and now is not None and before != now


def _intervals(times: Sequence[datetime]) -> list[float]:
    return [(after - before).total_seconds() for before, after in pairwise(times)]


def _usual(seconds: Sequence[float]) -> list[float]:
    """The usual interval around each one, in seconds: the median of all, or of those next to it
    where it is larger.

    So that thinned snapshots (one a day among those of last year) are no gaps, though those of
    today come by the hour.
    """
    if not seconds:
        return []
    overall = median(seconds)
    return [
        max(
            overall,
            median(seconds[max(0, at - _NEAR) : at] or [0.0]),
            median(seconds[at + 1 : at + 1 + _NEAR] or [0.0]),
        )
        for at in range(len(seconds))
    ]


def _gaps(columns: SeriesColumns, found: Breaks) -> Iterator[ClusterEvent]:
    usual = _usual(_intervals(columns.times))
    for at in found.after_gap:
        first, last = columns.times[at - 1], columns.times[at]
        seconds = (last - first).total_seconds()
        missing = max(1, round(seconds / usual[at - 1]) - 1)
        yield ClusterEvent(
            EventKind.GAP, first, last, columns.snapshot_ids[at], missing, seconds=seconds
        )


def _rebuilds(columns: SeriesColumns, found: Breaks) -> Iterator[ClusterEvent]:
    for at in found.rebuilt:
        count = len(columns.broker_ids[columns.rows(at)])
        yield ClusterEvent(
            EventKind.REBUILT, columns.times[at], columns.times[at], columns.snapshot_ids[at], count
        )


@dataclass(slots=True)
class _Known:
    """What the snapshots so far say about one cluster's brokers."""

    registered: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)
    ever_live: set[int] = field(default_factory=set)
    new: set[int] = field(default_factory=set)  # registered since the first snapshot
    short: dict[int, datetime] = field(
        default_factory=dict
    )  # joined then, and still without its share


def _broker_events(columns: SeriesColumns, found: Breaks) -> Iterator[ClusterEvent]:
    known = _Known()
    for at in range(columns.snapshot_count):
        rows = columns.rows(at)
        ids = columns.broker_ids[rows]
        registered, live = set(ids.tolist()), set(ids[columns.is_live[rows]].tolist())
        if at == 0 or at in found.rebuilt:
            known = _Known(registered, live, set(live))
            continue
        known.new |= registered - known.registered - known.ever_live
        came = live - known.live
        joined = came & known.new - known.ever_live
        fallen = known.live - live
        for kind, brokers in (
            (EventKind.JOINED, joined),
            (EventKind.RETURNED, came - joined),
            (EventKind.DIED, fallen & registered),
            (EventKind.LEFT, known.registered - registered),
        ):
            if brokers:
                yield _of_brokers(columns, at, kind, brokers)
        known.short |= dict.fromkeys(sorted(joined), columns.times[at])
        known.registered, known.live = registered, live
        known.ever_live |= live
        yield from _shares_reached(columns, at, known)


def _of_brokers(
    columns: SeriesColumns,
    at: int,
    kind: EventKind,
    brokers: Iterable[int],
    *,
    seconds: float | None = None,
) -> ClusterEvent:
    ids, now = tuple(sorted(brokers)), columns.times[at]
    return ClusterEvent(
        kind, now, now, columns.snapshot_ids[at], len(ids), broker_ids=ids, seconds=seconds
    )


def _shares_reached(columns: SeriesColumns, at: int, known: _Known) -> Iterator[ClusterEvent]:
    """Of the brokers that joined and live, those that now hold nearly their share; one event per
    moment of joining.
    """
    for broker in [broker for broker in known.short if broker not in known.live]:
        del known.short[broker]
    if not known.short:
        return
    rows = columns.rows(at)
    is_live = columns.is_live[rows]
    replicas = columns.replicas[rows][is_live]
    enough = SHARE_REACHED * replicas.mean()
    if enough == 0:
        return
    has_share = set(columns.broker_ids[rows][is_live][replicas >= enough].tolist())
    reached: dict[datetime, list[int]] = defaultdict(list)
    for broker in [broker for broker in known.short if broker in has_share]:
        reached[known.short.pop(broker)].append(broker)
    for joined_at, brokers in reached.items():
        seconds = (columns.times[at] - joined_at).total_seconds()
        yield _of_brokers(columns, at, EventKind.REACHED_SHARE, brokers, seconds=seconds)


def _rack_events(columns: SeriesColumns, found: Breaks) -> Iterator[ClusterEvent]:
    """Brokers that were there before and name another rack now, together where the names are the
    same.
    """
    before: dict[int, int] = {}
    for at in range(columns.snapshot_count):
        if at and at not in found.rebuilt and _has_same_racks(columns, at):
            continue
        rows = columns.rows(at)
        now = dict(
            zip(columns.broker_ids[rows].tolist(), columns.racks[rows].tolist(), strict=True)
        )
        if at in found.rebuilt:
            before = {}
        changed: dict[tuple[int, int], list[int]] = defaultdict(list)
        for broker, rack in now.items():
            if before.get(broker, rack) != rack:
                changed[before[broker], rack].append(broker)
        for (old, new), brokers in sorted(changed.items()):
            yield ClusterEvent(
                EventKind.RACK,
                columns.times[at],
                columns.times[at],
                columns.snapshot_ids[at],
                len(brokers),
                broker_ids=tuple(sorted(brokers)),
                rack_before=columns.rack_name(old),
                rack=columns.rack_name(new),
            )
        before |= now


def _has_same_racks(columns: SeriesColumns, at: int) -> bool:
    """The same brokers in the same racks as in the snapshot before."""
    rows, before = columns.rows(at), columns.rows(at - 1)
    return all(
        np.array_equal(column[rows], column[before])
        for column in (columns.broker_ids, columns.racks)
    )


def _many_elections(changes: SnapshotChanges) -> int:
    fewest = max(FEWEST_ELECTIONS, changes.partitions * ELECTIONS_PER_MILLE / 1000)
    return changes.preferred_elections if changes.preferred_elections >= fewest else 0


def _many_topics(count: int) -> int:
    return count if count >= FEWEST_TOPICS else 0


def _runs_of(
    columns: SeriesColumns, found: Breaks, kind: EventKind, count: Count
) -> Iterator[ClusterEvent]:
    """Neighbouring snapshots that count some are one event; a break of the series ends it."""
    counts = [
        0 if changes is None or changes.is_rebuilt else count(changes)
        for changes in columns.changes
    ]
    for first, last in _runs([counted > 0 for counted in counts], found):
        yield _over(columns, kind, first, last, sum(counts[first : last + 1]))


def _reassignments(columns: SeriesColumns, found: Breaks) -> Iterator[ClusterEvent]:
    """As `_runs_of`, and on through snapshots that only see replicas being copied."""
    changes = [None if one is None or one.is_rebuilt else one for one in columns.changes]
    moved = [one.replica_sets_changed if one else 0 for one in changes]
    is_moving = [one is not None and one.reassigning_partitions > 0 for one in changes]
    active = [bool(count) or moving for count, moving in zip(moved, is_moving, strict=True)]
    for first, last in _runs(active, found):
        is_under_way = last == columns.snapshot_count - 1 and is_moving[last]
        yield _over(
            columns, EventKind.REASSIGNMENT, first, last, sum(moved[first : last + 1]), is_under_way
        )


def _over(
    columns: SeriesColumns,
    kind: EventKind,
    first: int,
    last: int,
    count: int,
    is_under_way: bool = False,
) -> ClusterEvent:
    start, end = columns.times[first], columns.times[last]
    return ClusterEvent(
        kind, start, end, columns.snapshot_ids[first], count, is_under_way=is_under_way
    )


def _runs(is_active: Sequence[bool], found: Breaks) -> Iterator[tuple[int, int]]:
    """The first and last position of each run; none reaches over a break."""
    flags = np.array(is_active, dtype=np.bool_)
    begins = flags.copy()
    begins[1:] &= ~flags[:-1]
    broken = [at for at in found.positions if flags[at]]
    begins[broken] = True
    starts = np.flatnonzero(begins)
    inactive = np.append(np.flatnonzero(~flags), len(flags))
    for index, start in enumerate(starts.tolist()):
        end = int(inactive[np.searchsorted(inactive, start)])
        if index + 1 < len(starts):
            end = min(end, int(starts[index + 1]))
        yield start, end - 1
