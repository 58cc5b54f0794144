"""All clusters side by side, the worst first, and why.

    entry = fleet_entry(ClusterState("demo", age, balance=balance, load=load, wanted=wanted))
    fleet([entry], as_of=now).clusters[0].worst.words

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

from counterpoise.model.balance import LeaderBalance, LeftOut
from counterpoise.model.fleet_document import (
    DEFAULT_PATIENCE,
    ClusterState,
    Concern,
    EntryConcern,
    FleetDocument,
    FleetEntry,
)
from counterpoise.model.load import SOON_DAYS, ClusterLoad, Outlook
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.units import format_seconds

MAX_SHARE_NOT_PREFERRED: Final = 0.1
MAX_OVER_SHARE: Final = 1.5
_MAX_MISSED_INTERVALS: Final = 2.5  # times the usual time between two snapshots
_MIN_PATIENCE: Final = timedelta(hours=1)
_INTERVALS: Final = 20
_IDS_SHOWN: Final = 3
_NEVER: Final = 1e12  # seconds: longer ago than any snapshot


def fleet(entries: Iterable[FleetEntry], *, as_of: datetime) -> FleetDocument:
    """Return the entries, the worst first; their ages are those at `as_of`."""
    return FleetDocument(as_of, tuple(sorted(entries, key=_worst_first)))


def _worst_first(entry: FleetEntry) -> tuple[float | str, ...]:
    worst = entry.worst
    weight = worst.weight if worst else 0.0
    return _gravity(worst), -weight, -len(entry.concerns), entry.cluster


def _gravity(found: EntryConcern | None) -> int:
    if found is None:
        return len(Concern)
    gravity = list(Concern)
    return gravity.index(Concern(found.concern)) if found.concern in gravity else 0


def fleet_entry(state: ClusterState) -> FleetEntry:
    """Return what the fleet's pages tell of a cluster."""
    figures = _figures(state) if state.balance else FleetEntry(state.cluster)
    concerns = [*_not_analysed(state), *_of_balance(state), *_of_load(state.load)]
    patience = _patience(state.balance).total_seconds()
    entry = replace(figures, concerns=tuple(concerns), overdue_after_seconds=patience)
    return with_age(entry, state.age, state.left_out)


def with_age(entry: FleetEntry, age: timedelta | None, left_out: tuple[LeftOut, ...]) -> FleetEntry:
    """Return an entry with the age of the cluster's newest snapshot, and with those that cannot be
    analysed, as both are now.
    """
    own = (Concern.SILENT, Concern.LEFT_OUT)
    patience = timedelta(seconds=entry.overdue_after_seconds or 0) or DEFAULT_PATIENCE
    concerns = [
        *_overdue(age, patience),
        *(found for found in entry.concerns if found.concern not in own),
        *_left_out(left_out),
    ]
    concerns.sort(key=_gravity)
    return replace(
        entry,
        age_seconds=None if age is None else age.total_seconds(),
        concerns=tuple(concerns),
        worst_concern=concerns[0].concern if concerns else "",
        left_out=left_out,
        snapshots_left_out=len(left_out),
    )


def _figures(state: ClusterState) -> FleetEntry:
    balance, load = state.balance, state.load
    assert balance is not None
    latest = balance.latest
    first_full = load.first_full if load else None
    bytes_in_evenness = load.leaders if load else None
    disks = load.disks if load else ()
    known_disks = [disk for disk in disks if disk.outlook is not Outlook.NOT_KNOWN]
    return FleetEntry(
        cluster=state.cluster,
        snapshot_id=latest.snapshot_id,
        observed_at=latest.observed_at,
        brokers=len(balance.brokers),
        live_brokers=len(balance.live_brokers),
        idle_brokers=len(balance.idle_broker_ids),
        leaders=latest.leaders.total,
        leaders_max_minus_min=latest.leaders.max_minus_min,
        leaders_best_max_minus_min=latest.leaders.best_max_minus_min,
        leaders_max_over_mean=latest.leaders.max_over_mean,
        share_not_preferred=latest.share_not_preferred,
        replicas=latest.replicas.total,
        replicas_max_over_mean=latest.replicas.max_over_mean,
        bytes=latest.bytes.total,
        bytes_max_over_mean=latest.bytes.max_over_mean,
        bytes_in_per_second=load.bytes_in.now if load else None,
        bytes_in_p95_per_second=load.bytes_in.p95 if load else None,
        bytes_in_max_over_mean=bytes_in_evenness.max_over_mean if bytes_in_evenness else None,
        growth_bytes_per_day=load.bytes_per_day if load else None,
        first_full_broker=first_full.broker_id if first_full else None,
        first_full_days=first_full.days_left if first_full else None,
        wanted_goal=str(state.wanted.goal) if state.wanted else None,
        live_broker_ids=tuple(broker.broker_id for broker in balance.live_brokers),
        live_leaders=tuple(broker.leaders for broker in balance.live_brokers),
        live_replicas=tuple(broker.replicas for broker in balance.live_brokers),
        live_bytes=tuple(broker.bytes for broker in balance.live_brokers),
        bytes_in_is_at_least=load.bytes_in.is_at_least if load else False,
        bytes_in_p95_is_at_least=load.bytes_in.is_period_at_least if load else False,
        first_disk=known_disks[0] if known_disks else None,
    )


def as_of_now(
    entries: Iterable[FleetEntry], ages: Mapping[str, timedelta | None], critical: Mapping[str, int]
) -> tuple[FleetEntry, ...]:
    """Return entries of a document with what has happened since it was written, the worst first.

    `ages` are those of the newest snapshots now, `critical` the numbers of critical findings of the
    newest audits, both by cluster; a cluster that is in no map is left as it was.
    """
    now = [_as_of_now(entry, ages, critical.get(entry.cluster, 0)) for entry in entries]
    return tuple(sorted(now, key=_worst_first))


def _as_of_now(
    entry: FleetEntry, ages: Mapping[str, timedelta | None], critical_count: int
) -> FleetEntry:
    if critical_count:
        words = pluralize(critical_count, "critical finding")
        critical = EntryConcern(Concern.CRITICAL, words, critical_count)
        entry = replace(entry, concerns=(*entry.concerns, critical))
    return with_age(entry, ages.get(entry.cluster, entry.age), entry.left_out)


def _not_analysed(state: ClusterState) -> Iterator[EntryConcern]:
    if not state.is_readable:
        yield EntryConcern(Concern.NOT_ANALYSED, "its analysis cannot be read", 1.0)
    elif state.age is not None and state.balance is None:
        yield EntryConcern(Concern.NOT_ANALYSED, "has snapshots, but none is analysed yet", 1.0)


def _overdue(age: timedelta | None, patience: timedelta) -> Iterator[EntryConcern]:
    if age is None:
        yield EntryConcern(Concern.SILENT, "has no snapshot yet", _NEVER)
    elif age > patience:
        seconds = age.total_seconds()
        yield EntryConcern(Concern.SILENT, f"no snapshot for {format_seconds(seconds)}", seconds)


def _patience(balance: LeaderBalance | None) -> timedelta:
    """Return how long a cluster may go without a new snapshot: 2.5 times the usual interval.

    With snapshots every 40 minutes that is 100 minutes, and at least one hour.
    """
    times = [point.observed_at for point in balance.series[-_INTERVALS - 1 :]] if balance else []
    if len(times) < 2:
        return DEFAULT_PATIENCE
    usual_seconds = median((after - before).total_seconds() for before, after in pairwise(times))
    return max(_MIN_PATIENCE, timedelta(seconds=_MAX_MISSED_INTERVALS * usual_seconds))


def _of_balance(state: ClusterState) -> Iterator[EntryConcern]:
    balance = state.balance
    if balance is None:
        return
    latest = balance.latest
    changes = latest.changes
    if changes and changes.offline_partitions:
        words = f"{pluralize(changes.offline_partitions, 'partition')} without a leader"
        yield EntryConcern(Concern.OFFLINE, words, changes.offline_partitions)
    dead = [broker.broker_id for broker in balance.brokers if broker.is_fenced]
    if dead:
        words = _count_and_ids("dead broker", dead)
        if changes:
            words += f"; {changes.under_replicated_partitions} partitions under-replicated"
        yield EntryConcern(Concern.DEAD, words, len(dead))
    idle = balance.idle_broker_ids
    if idle and latest.replicas.total >= latest.replicas.broker_count:
        yield EntryConcern(Concern.IDLE, _count_and_ids("idle broker", idle), len(idle))
    if state.wanted and state.wanted.goal is Goal.LEADERS:
        yield _uneven(balance)
    if state.wanted and state.wanted.goal is Goal.REBALANCE:
        weight = max(latest.replicas.max_over_mean, latest.bytes.max_over_mean)
        yield EntryConcern(Concern.OFF_SHARE, state.wanted.reason, weight)
    share = latest.share_not_preferred
    if share > MAX_SHARE_NOT_PREFERRED:
        words = f"{share * 100:.0f} % of partitions not led by their preferred leader"
        yield EntryConcern(Concern.NOT_PREFERRED, words, share)


def _uneven(balance: LeaderBalance) -> EntryConcern:
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
    return EntryConcern(Concern.UNEVEN, words, worst.max_minus_min / max(1.0, mean))


def _of_load(load: ClusterLoad | None) -> Iterator[EntryConcern]:
    if load is None:
        return
    soon_full = [disk for disk in load.disks if disk.is_full_soon]
    if soon_full:
        first = soon_full[0]
        words = f"broker {first.broker_id}'s disk {first.in_words}"
        if len(soon_full) > 1:
            others = pluralize(len(soon_full) - 1, "other disk")
            words += f", {others} within {SOON_DAYS} days"
        yield EntryConcern(Concern.DISK, words, -(first.days_left or 0.0))
    if load.leaders and load.leaders.max_over_mean >= MAX_OVER_SHARE:
        busiest = max(
            load.brokers, key=lambda broker: (broker.as_leader.now or 0, -broker.broker_id)
        )
        words = f"broker {busiest.broker_id} takes in {load.leaders.max_over_mean:.1f} × its share"
        yield EntryConcern(Concern.BUSY, words, load.leaders.max_over_mean)


def _left_out(left_out: Sequence[LeftOut]) -> Iterator[EntryConcern]:
    if left_out:
        count = len(left_out)
        words = f"{pluralize(count, 'snapshot')} could not be analysed"
        yield EntryConcern(Concern.LEFT_OUT, words, count)


def _count_and_ids(what: str, broker_ids: Sequence[int]) -> str:
    """Return `idle broker 4`, `2 idle brokers: 4, 5`, or `5 idle brokers: 4, 5, 6, …`."""
    if len(broker_ids) == 1:
        return f"{what} {broker_ids[0]}"
    ids = ", ".join(map(str, broker_ids[:_IDS_SHOWN]))
    more = ", …" if len(broker_ids) > _IDS_SHOWN else ""
    return f"{len(broker_ids)} {what}s: {ids}{more}"
