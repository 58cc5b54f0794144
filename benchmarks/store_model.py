"""How many files and rows a simulated month leaves in the store, event by event, in sets of times.

    model = StoreModel(fleet)
    for event in month.events: model.add(event)
    expected_contents(model)    # of each folder; in `store_contents.py`

What is kept, and for how long, is from docs/operate.md and docs/architecture.md; what a cluster
has is from the simulation. It shares no code with `counterpoise.history`, which decides it.

Example: of a cluster with a snapshot a day, after twenty days, there are fourteen snapshots, each
the one file of its day; of a round of ten snapshots of which six are gone four are left.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Final

from benchmarks.month_events import Event, Kind
from benchmarks.simulated_month import (
    GRACE,
    KEEP_ALL,
    KEEP_DAILY,
    KEEP_HOURLY,
    TABLES_OF_DAYS,
    Fleet,
)

DAY: Final = timedelta(days=1)
Snapshot = tuple[str, datetime]  # its cluster, and when it was scheduled
_MAX_FILES_WITHOUT_INDEX: Final = (
    8  # files that are read one by one; of more there is a copy, or an index
)


@dataclass(frozen=True, slots=True)
class Content:
    """What a folder has."""

    files: int
    rows: int | None = None  # None where they are not computed: of pages, plans, indexes


@dataclass(slots=True)
class _Round:
    """A round of the analysis, or what became of several."""

    finished_on: date
    snapshots: frozenset[Snapshot]
    has_loads: bool = True  # of partitions


@dataclass(slots=True)
class _Cluster:
    snapshots: list[datetime] = field(default_factory=list)
    audits: list[datetime] = field(default_factory=list)
    audit_pages: list[date] = field(default_factory=list)
    balance_pages: list[date] = field(default_factory=list)
    runs: int = 0
    times_in_views: set[datetime] = field(default_factory=set)
    # By table and day: the snapshots that its table of that day is made of.
    days_with_table: dict[str, dict[date, frozenset[Snapshot]]] = field(
        default_factory=lambda: {name: {} for name in TABLES_OF_DAYS}
    )
    copied: set[str] = field(default_factory=set)  # tables of days with a copy


class StoreModel:
    """See the module's docstring."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.clusters = {name: _Cluster() for name in fleet.names}
        self.rounds: list[_Round] = []
        self.changes: dict[Snapshot, int] = {}  # leaders that changed since the snapshot before
        self.first: set[Snapshot] = set()
        self.ended_at = datetime.min.replace(tzinfo=UTC)
        self.has_index_of_rounds = False
        self._waiting: set[Snapshot] = set()

    def add(self, event: Event) -> None:
        self.ended_at = event.at
        match event.kind:
            case Kind.SNAPSHOT:
                self._snapshot(event)
            case Kind.RUN:
                self.clusters[event.cluster].runs += 1
            case Kind.AUDIT:
                for cluster in self.clusters.values():
                    cluster.audits.append(event.at)
                    cluster.audit_pages.append(event.at.date())
            case Kind.ANALYSIS:
                self._analyse(event.at)
            case Kind.COMPACTION:
                self._compact(event.at)

    def _snapshot(self, event: Event) -> None:
        cluster, snapshot = self.clusters[event.cluster], (event.cluster, event.at)
        if not cluster.snapshots:
            self.first.add(snapshot)
        cluster.snapshots.append(event.at)
        self.changes[snapshot] = event.count
        self._waiting.add(snapshot)

    def _analyse(self, at: datetime) -> None:
        self.rounds.append(_Round(at.date(), frozenset(self._waiting)))
        self.has_index_of_rounds |= len(self.rounds) > _MAX_FILES_WITHOUT_INDEX
        for name, taken_at in self._waiting:
            self.clusters[name].times_in_views.add(taken_at)
        self._waiting.clear()
        for name in self.fleet.names[: self.fleet.large]:
            cluster = self.clusters[name]
            newest = cluster.snapshots[-1].date()
            cluster.balance_pages = [*(set(cluster.balance_pages) - {newest}), newest]

    # -- compaction

    def _compact(self, now: datetime) -> None:
        for cluster in self.clusters.values():
            cluster.snapshots = kept_times(cluster.snapshots, now)
            cluster.audits = kept_times(cluster.audits, now)
            cluster.audit_pages = _kept_pages(cluster.audit_pages, now)
            cluster.balance_pages = _kept_pages(cluster.balance_pages, now)
        existing = {(name, at) for name, kept in self.clusters.items() for at in kept.snapshots}
        for table in TABLES_OF_DAYS:
            self._make_tables_of_days(table, now)
        self._merge_rounds(existing, now)
        for cluster in self.clusters.values():
            cluster.times_in_views = {
                at for at in cluster.times_in_views if _month(at) >= _month(now - KEEP_DAILY)
            }

    def _make_tables_of_days(self, table: str, now: datetime) -> None:
        """A day has its table when it is over for a day; that of a thinned-out day is not made
        again.
        """
        days: dict[tuple[str, date], set[Snapshot]] = defaultdict(set)
        for round_ in self.rounds:
            with_rows = self._clusters_with(table, round_)
            for name, at in round_.snapshots:
                if name in with_rows:
                    days[name, at.date()].add((name, at))
        for (name, day), snapshots in days.items():
            made = self.clusters[name].days_with_table[table]
            is_thinned = age_of(day, now) >= KEEP_ALL
            is_wanted = day not in made or not is_thinned
            if is_settled(day, now) and age_of(day, now) < KEEP_DAILY and is_wanted:
                made[day] = frozenset(snapshots)
        for cluster in self.clusters.values():
            if len(cluster.days_with_table[table]) > _MAX_FILES_WITHOUT_INDEX:
                cluster.copied.add(table)
            for day in list(cluster.days_with_table[table]):
                if age_of(day, now) >= KEEP_DAILY:
                    del cluster.days_with_table[table][day]

    def _clusters_with(self, table: str, round_: _Round) -> set[str]:
        """Return of which clusters the round has rows of a table."""
        if table == "partition_load" and not round_.has_loads:
            return set()
        is_of_changes = table == "leader_changes"
        return {one[0] for one in round_.snapshots if self.changes[one] or not is_of_changes}

    def _merge_rounds(self, existing: set[Snapshot], now: datetime) -> None:
        """The rounds of a day become one, those of a month when no loads of partitions are left;
        a single one is written again when at least half of it is gone.
        """
        for round_ in self.rounds:
            round_.has_loads &= not _is_outlived(round_.finished_on, now)

        def period(round_: _Round) -> str:
            return _period(round_.finished_on, now)

        merged: list[_Round] = []
        for name, group in groupby(sorted(self.rounds, key=period), key=period):
            sources = list(group)
            before = sum(len(round_.snapshots) for round_ in sources)
            left = frozenset().union(*(round_.snapshots for round_ in sources)) & existing
            if not name or (len(sources) == 1 and 2 * len(left) > before):
                merged += sources
            elif left:
                finished_on = max(round_.finished_on for round_ in sources)
                has_loads = any(round_.has_loads for round_ in sources)
                merged.append(_Round(finished_on, left, has_loads))
        self.rounds = merged


def kept_times(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Return which snapshots retention keeps, by the age of the end of their day."""
    kept: dict[tuple[date, object], datetime] = {}
    for at in sorted(times):
        age = age_of(at.date(), now)
        if age < KEEP_ALL:
            kept.setdefault((at.date(), at), at)
        elif age < KEEP_HOURLY:
            kept.setdefault((at.date(), at.hour), at)
        elif age < KEEP_DAILY:
            kept.setdefault((at.date(), None), at)
    return sorted({*kept.values(), *sorted(times)[-1:]})  # the newest stays, however old it is


def age_of(day: date, now: datetime) -> timedelta:
    return now - datetime.combine(day + DAY, time(), UTC)


def is_settled(day: date, now: datetime) -> bool:
    """Return whether a day is over for a day: then it is compacted."""
    return age_of(day, now) >= DAY


def _kept_pages(days: Iterable[date], now: datetime) -> list[date]:
    *older, newest = sorted(set(days)) or [date.min]
    kept = [day for day in older if age_of(day, now) < KEEP_DAILY]
    return [] if newest == date.min else [*kept, newest]


def _period(day: date, now: datetime) -> str:
    last = (day.replace(day=28) + 4 * DAY).replace(day=1) - DAY
    if not is_settled(day, now):
        return ""
    return f"{day:%Y-%m}" if _is_outlived(last, now) else f"{day}"


def _is_outlived(day: date, now: datetime) -> bool:
    return age_of(day, now) >= KEEP_ALL + GRACE


def _month(at: datetime) -> str:
    return f"{at:%Y-%m}"
