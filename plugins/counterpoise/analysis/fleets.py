"""All clusters side by side, the worst first, and why.

    fleet([ClusterState("demo", age, balance=balance, load=load, wanted=wanted)], as_of=now).rows[0].worst.words

The order is by the gravest concern of each cluster (`Concern` names them from grave to mild), then
by how much of it, then by how many other concerns there are, then by name. No score: a silent
cluster is worse than any uneven one.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from counterpoise.model.balance import LeaderBalance
from counterpoise.model.fleet import ClusterState, Concern, Finding, Fleet, FleetRow
from counterpoise.model.load import ClusterLoad
from counterpoise.model.request import Goal
from counterpoise.units import format_seconds

SOON_DAYS: Final = 30
MOST_NOT_PREFERRED: Final = 0.1
MOST_OVER_SHARE: Final = 1.5
_MISSED: Final = 2.5  # times the usual time between two snapshots
_LEAST_SILENCE: Final = timedelta(hours=1)
_SILENCE_UNTOLD: Final = timedelta(hours=24)  # where a single snapshot does not tell what is usual
_INTERVALS: Final = 20
_NAMED: Final = 3


def fleet(states: Iterable[ClusterState], *, as_of: datetime) -> Fleet:
    """One row per cluster. `as_of` is when the ages were taken."""
    rows = [FleetRow(state, _findings(state)) for state in states]
    return Fleet(as_of, tuple(sorted(rows, key=_worst_first)))


def _worst_first(row: FleetRow) -> tuple[float | str, ...]:
    grave = list(Concern).index(row.worst.concern) if row.worst else len(Concern)
    weight = row.worst.weight if row.worst else 0.0
    return grave, -weight, -len(row.findings), row.state.cluster


def _findings(state: ClusterState) -> tuple[Finding, ...]:
    found = [*_silence(state), *_of_balance(state), *_of_load(state.load), *_left_out(state)]
    return tuple(sorted(found, key=lambda finding: list(Concern).index(finding.concern)))


def _silence(state: ClusterState) -> Iterator[Finding]:
    if state.age is None:
        yield Finding(Concern.SILENT, "no snapshot was ever taken", float("inf"))
        return
    if state.age > _patience(state.balance):
        seconds = state.age.total_seconds()
        yield Finding(Concern.SILENT, f"no snapshot for {format_seconds(seconds)}", seconds)
    if state.balance is None:
        yield Finding(Concern.NOT_ANALYSED, "has snapshots, but none is analysed yet", 1.0)


def _patience(balance: LeaderBalance | None) -> timedelta:
    """How long a cluster may go without a new snapshot, by how often it was photographed lately."""
    times = [point.observed_at for point in balance.series[-_INTERVALS - 1 :]] if balance else []
    if len(times) < 2:
        return _SILENCE_UNTOLD
    usual = median((after - before).total_seconds() for before, after in pairwise(times))
    return max(_LEAST_SILENCE, timedelta(seconds=_MISSED * usual))


def _of_balance(state: ClusterState) -> Iterator[Finding]:
    balance = state.balance
    if balance is None:
        return
    changes = balance.latest.changes
    if changes and changes.offline_partitions:
        words = f"{_many(changes.offline_partitions, 'partition')} without a leader"
        yield Finding(Concern.OFFLINE, words, changes.offline_partitions)
    if dead := [broker.broker_id for broker in balance.brokers if broker.is_fenced]:
        short = (
            f"; {changes.under_replicated_partitions} partitions under-replicated"
            if changes
            else ""
        )
        yield Finding(Concern.DEAD, f"{_some('dead broker', dead)}{short}", len(dead))
    if (
        idle := balance.idle_broker_ids
    ) and balance.latest.replicas.total >= balance.latest.replicas.broker_count:
        yield Finding(Concern.IDLE, _some("idle broker", idle), len(idle))
    if state.wanted and state.wanted.goal is Goal.LEADERS:
        yield _uneven(balance)
    share = balance.latest.share_not_preferred
    if share > MOST_NOT_PREFERRED:
        yield Finding(
            Concern.NOT_PREFERRED, f"{share * 100:.0f} % of partitions not led as preferred", share
        )


def _uneven(balance: LeaderBalance) -> Finding:
    """By what is farther from its best: leaders as they are, or as the replica order prefers them."""
    spreads = (
        ("leaders", balance.latest.leaders),
        ("preferred leaders", balance.latest.preferred_leaders),
    )
    name, spread = max(spreads, key=lambda pair: pair[1].max_minus_min - pair[1].best_max_minus_min)
    mean = spread.total / max(1, spread.broker_count)
    words = f"{spread.minimum} to {spread.maximum} {name} per broker"
    return Finding(Concern.UNEVEN, words, spread.max_minus_min / max(1.0, mean))


def _of_load(load: ClusterLoad | None) -> Iterator[Finding]:
    if load is None:
        return
    soon = [
        disk for disk in load.disks if disk.days_left is not None and disk.days_left <= SOON_DAYS
    ]
    if soon:
        others = (
            f", {_many(len(soon) - 1, 'other disk')} within {SOON_DAYS} days"
            if len(soon) > 1
            else ""
        )
        words = f"broker {soon[0].broker_id}'s disk {soon[0].in_words}{others}"
        yield Finding(Concern.DISK, words, -(soon[0].days_left or 0.0))
    if load.leaders and load.leaders.max_over_mean >= MOST_OVER_SHARE:
        busiest = max(
            load.brokers, key=lambda broker: (broker.as_leader.now or 0, -broker.broker_id)
        )
        words = f"broker {busiest.broker_id} takes in {load.leaders.max_over_mean:.1f} × its share"
        yield Finding(Concern.BUSY, words, load.leaders.max_over_mean)


def _left_out(state: ClusterState) -> Iterator[Finding]:
    if state.left_out:
        count = len(state.left_out)
        yield Finding(Concern.LEFT_OUT, f"{_many(count, 'snapshot')} could not be analysed", count)


def _some(what: str, broker_ids: Sequence[int]) -> str:
    """`idle broker 4`, `2 idle brokers: 4, 5`, `5 idle brokers: 4, 5, 6, …`."""
    if len(broker_ids) == 1:
        return f"{what} {broker_ids[0]}"
    named = ", ".join(map(str, broker_ids[:_NAMED])) + (", …" if len(broker_ids) > _NAMED else "")
    return f"{len(broker_ids)} {what}s: {named}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
