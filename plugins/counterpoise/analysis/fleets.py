"""All clusters side by side, the worst first, and why.

    states = [ClusterState("demo", age, balance=balance, load=load, wanted=wanted)]
    fleet(states, as_of=now).rows[0].worst.words

The order is by the gravest concern of each cluster (`Concern` lists them from grave to mild), then
by its weight, then by the number of other concerns, then by name. There is no score: a cluster
without new snapshots is worse than any uneven one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from counterpoise.model.balance import LeaderBalance
from counterpoise.model.fleet import (
    DEFAULT_PATIENCE,
    ClusterConcern,
    ClusterState,
    Concern,
    Fleet,
    FleetRow,
)
from counterpoise.model.fleet_document import EntryConcern, FleetEntry
from counterpoise.model.load import ClusterLoad, DiskForecast
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.units import format_seconds

SOON_DAYS: Final = 30
MAX_SHARE_NOT_PREFERRED: Final = 0.1
MAX_OVER_SHARE: Final = 1.5
_MAX_MISSED_INTERVALS: Final = 2.5  # times the usual time between two snapshots
_MIN_PATIENCE: Final = timedelta(hours=1)
_INTERVALS: Final = 20
_IDS_SHOWN: Final = 3


def fleet(states: Iterable[ClusterState], *, as_of: datetime) -> Fleet:
    """Return one row per cluster, the worst first; the ages in `states` are those at `as_of`."""
    rows = [FleetRow(state, _concerns(state), _patience(state.balance)) for state in states]
    return Fleet(as_of, tuple(sorted(rows, key=_worst_first)))


def _worst_first(row: FleetRow) -> tuple[float | str, ...]:
    worst = row.worst
    gravity = list(Concern).index(worst.concern) if worst else len(Concern)
    weight = worst.weight if worst else 0.0
    return gravity, -weight, -len(row.concerns), row.state.cluster


def _concerns(state: ClusterState) -> tuple[ClusterConcern, ...]:
    concerns = [
        *_missing_snapshots(state),
        *_of_balance(state),
        *_of_load(state.load),
        *_left_out(state),
    ]
    gravity = list(Concern)
    return tuple(sorted(concerns, key=lambda found: gravity.index(found.concern)))


def as_of_now(
    entries: Iterable[FleetEntry], ages: Mapping[str, timedelta | None], critical: Mapping[str, int]
) -> tuple[FleetEntry, ...]:
    """Return entries of a document with what has happened since it was written, the worst first.

    `ages` are those of the newest snapshots now, `critical` the numbers of critical findings of the
    newest audits, both by cluster; a cluster that is in no map is left as it was.
    """
    now = [_as_of_now(entry, ages, critical.get(entry.cluster, 0)) for entry in entries]
    gravity = [str(concern) for concern in Concern]
    places = {entry.cluster: place for place, entry in enumerate(now)}

    def worst_first(entry: FleetEntry) -> tuple[int, float, int]:
        worst = entry.worst.concern if entry.worst else ""
        rank = gravity.index(worst) if worst in gravity else len(gravity)
        weight = _weight_now(entry, worst, critical)
        return rank, -weight, places[entry.cluster]

    return tuple(sorted(now, key=worst_first))


def _as_of_now(
    entry: FleetEntry, ages: Mapping[str, timedelta | None], critical_count: int
) -> FleetEntry:
    age = ages.get(entry.cluster, entry.age)
    concerns = [found for found in entry.concerns if found.concern != Concern.SILENT]
    if critical_count:
        words = pluralize(critical_count, "critical finding")
        concerns.append(EntryConcern(str(Concern.CRITICAL), words))
    gravity = [str(concern) for concern in Concern]
    concerns.sort(key=lambda found: gravity.index(found.concern) if found.concern in gravity else 0)
    overdue = _overdue(age, timedelta(seconds=entry.overdue_after_seconds or 0) or DEFAULT_PATIENCE)
    known = [EntryConcern(str(found.concern), found.words) for found in overdue]
    all_concerns = (*known, *concerns)
    return replace(
        entry,
        age_seconds=None if age is None else age.total_seconds(),
        concerns=all_concerns,
        worst_concern=all_concerns[0].concern if all_concerns else "",
    )


def _weight_now(entry: FleetEntry, worst: str, critical: Mapping[str, int]) -> float:
    """Return how bad the two concerns that change between documents are; 0 keeps their order."""
    if worst == Concern.SILENT:
        return float("inf") if entry.age_seconds is None else entry.age_seconds
    return critical.get(entry.cluster, 0) if worst == Concern.CRITICAL else 0


def _missing_snapshots(state: ClusterState) -> Iterator[ClusterConcern]:
    yield from _overdue(state.age, _patience(state.balance))
    if state.age is not None and state.balance is None:
        yield ClusterConcern(Concern.NOT_ANALYSED, "has snapshots, but none is analysed yet", 1.0)


def _overdue(age: timedelta | None, patience: timedelta) -> Iterator[ClusterConcern]:
    if age is None:
        yield ClusterConcern(Concern.SILENT, "has no snapshot yet", float("inf"))
    elif age > patience:
        seconds = age.total_seconds()
        yield ClusterConcern(Concern.SILENT, f"no snapshot for {format_seconds(seconds)}", seconds)


def _patience(balance: LeaderBalance | None) -> timedelta:
    """Return how long a cluster may go without a new snapshot: 2.5 times the usual interval.

    With snapshots every 40 minutes that is 100 minutes, and at least one hour.
    """
    times = [point.observed_at for point in balance.series[-_INTERVALS - 1 :]] if balance else []
    if len(times) < 2:
        return DEFAULT_PATIENCE
    usual_seconds = median((after - before).total_seconds() for before, after in pairwise(times))
    return max(_MIN_PATIENCE, timedelta(seconds=_MAX_MISSED_INTERVALS * usual_seconds))


def _of_balance(state: ClusterState) -> Iterator[ClusterConcern]:
    balance = state.balance
    if balance is None:
        return
    latest = balance.latest
    changes = latest.changes
    if changes and changes.offline_partitions:
        words = f"{pluralize(changes.offline_partitions, 'partition')} without a leader"
        yield ClusterConcern(Concern.OFFLINE, words, changes.offline_partitions)
    dead = [broker.broker_id for broker in balance.brokers if broker.is_fenced]
    if dead:
        words = _count_and_ids("dead broker", dead)
        if changes:
            words += f"; {changes.under_replicated_partitions} partitions under-replicated"
        yield ClusterConcern(Concern.DEAD, words, len(dead))
    idle = balance.idle_broker_ids
    if idle and latest.replicas.total >= latest.replicas.broker_count:
        yield ClusterConcern(Concern.IDLE, _count_and_ids("idle broker", idle), len(idle))
    if state.wanted and state.wanted.goal is Goal.LEADERS:
        yield _uneven(balance)
    share = latest.share_not_preferred
    if share > MAX_SHARE_NOT_PREFERRED:
        words = f"{share * 100:.0f} % of partitions not led by their preferred leader"
        yield ClusterConcern(Concern.NOT_PREFERRED, words, share)


def _uneven(balance: LeaderBalance) -> ClusterConcern:
    """Return the concern about the measure farther from its best: leaders, or preferred leaders."""
    measures = (
        ("leaders", balance.latest.leaders),
        ("preferred leaders", balance.latest.preferred_leaders),
    )
    name, worst = max(
        measures, key=lambda measure: measure[1].max_minus_min - measure[1].best_max_minus_min
    )
    mean = worst.total / max(1, worst.broker_count)
    words = f"{worst.minimum} to {worst.maximum} {name} per broker"
    return ClusterConcern(Concern.UNEVEN, words, worst.max_minus_min / max(1.0, mean))


def _of_load(load: ClusterLoad | None) -> Iterator[ClusterConcern]:
    if load is None:
        return
    soon_full = [disk for disk in load.disks if _is_full_soon(disk)]
    if soon_full:
        first = soon_full[0]
        words = f"broker {first.broker_id}'s disk {first.in_words}"
        if len(soon_full) > 1:
            others = pluralize(len(soon_full) - 1, "other disk")
            words += f", {others} within {SOON_DAYS} days"
        yield ClusterConcern(Concern.DISK, words, -(first.days_left or 0.0))
    if load.leaders and load.leaders.max_over_mean >= MAX_OVER_SHARE:
        busiest = max(
            load.brokers, key=lambda broker: (broker.as_leader.now or 0, -broker.broker_id)
        )
        words = f"broker {busiest.broker_id} takes in {load.leaders.max_over_mean:.1f} × its share"
        yield ClusterConcern(Concern.BUSY, words, load.leaders.max_over_mean)


def _is_full_soon(disk: DiskForecast) -> bool:
    return disk.days_left is not None and disk.days_left <= SOON_DAYS


def _left_out(state: ClusterState) -> Iterator[ClusterConcern]:
    if state.left_out:
        count = len(state.left_out)
        words = f"{pluralize(count, 'snapshot')} could not be analysed"
        yield ClusterConcern(Concern.LEFT_OUT, words, count)


def _count_and_ids(what: str, broker_ids: Sequence[int]) -> str:
    """Return `idle broker 4`, `2 idle brokers: 4, 5`, or `5 idle brokers: 4, 5, 6, …`."""
    if len(broker_ids) == 1:
        return f"{what} {broker_ids[0]}"
    ids = ", ".join(map(str, broker_ids[:_IDS_SHOWN]))
    more = ", …" if len(broker_ids) > _IDS_SHOWN else ""
    return f"{len(broker_ids)} {what}s: {ids}{more}"
