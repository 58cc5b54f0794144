"""What was true of the month, computed from the record of the simulation alone.

    truth = Truth(month)
    truth.leaders_changed, truth.broker_rates(3).now
    Truth(month, (48, 384))     # of the time between the snapshots of these hours

None of it knows how the Spark jobs or the analysis find their figures.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from counterpoise.model.columns import Flags, Floats
from tests.support.true_cluster import TICK_SECONDS, TICKS_PER_HOUR, Election
from tests.support.true_month import GAP, Month, Seen

_DAY = 86_400


@dataclass(frozen=True)
class TrueRates:
    """Bytes per second, of means over an hour."""

    now: float
    p50: float
    p95: float
    highest: float
    # The same where an hour counts as a whole for who leads, or follows, at its end.
    highest_by_end: float
    without_compacted: "TrueRates | None" = None

    @property
    def known(self) -> "TrueRates":
        """Return the rates of what no compaction hides."""
        assert self.without_compacted is not None
        return self.without_compacted


@dataclass(frozen=True)
class PartitionTruth:
    """Bytes per second, and all bytes, that a partition took in."""

    mean: float
    highest: float
    total: float
    is_compacted: bool


@dataclass(frozen=True)
class LeaderChange:
    """A partition that has another leader than in the snapshot before."""

    index: int
    hour: int
    before: int
    cause: str  # of the election that took it from the old leader
    is_preferred: bool  # the first of its replicas leads it now


class Truth:
    def __init__(self, month: Month, hours: tuple[int, int] | None = None) -> None:
        self.month = month
        first, last = hours or (month.seen[0].hour, month.seen[-1].hour)
        self.seen: Sequence[Seen] = [seen for seen in month.seen if first <= seen.hour <= last]
        self.record = month.cluster.record
        self.last = self.seen[-1]
        self._ticks = slice(first * TICKS_PER_HOUR, last * TICKS_PER_HOUR)

    # -- what the latest snapshot shows

    @property
    def live(self) -> list[int]:
        return sorted(self.last.brokers.keys() - self.last.dead)

    def leaders_of(self, broker_id: int) -> int:
        return sum(leader == broker_id for leader in self.last.leaders.values())

    def preferred_of(self, broker_id: int) -> int:
        return sum(replicas[0] == broker_id for replicas in self.last.replicas.values())

    def not_preferred_of(self, broker_id: int) -> int:
        replicas = self.last.replicas
        return sum(
            leader == broker_id and replicas[name][0] != broker_id
            for name, leader in self.last.leaders.items()
        )

    def replicas_of(self, broker_id: int) -> int:
        return sum(broker_id in replicas for replicas in self.last.replicas.values())

    def held_by(self, broker_id: int) -> int:
        """Return the bytes on a broker: written and not removed since the partition was made."""
        return round(sum(self.kept_bytes[index] for index in self.broker_indexes(broker_id)))

    @cached_property
    def kept_bytes(self) -> Floats:
        """Return what is left of each partition: what was written, less what was removed."""
        kept = self._ever(self.record.written) - self._ever(self.record.removed)
        return np.asarray(kept[: self._ticks.stop].sum(axis=0))

    def topic_leaders(self, topic: str) -> list[int]:
        """Return how many partitions of a topic each live broker leads."""
        led = Counter(b for (name, _), b in self.last.leaders.items() if name == topic)
        return [led[broker_id] for broker_id in self.live]

    def topic_bytes(self, topic: str) -> int:
        return round(sum(self.kept_bytes[index] for index in self.topic_indexes(topic)))

    # -- leaders that changed

    def _common(self, before: Seen, after: Seen) -> Iterator[tuple[tuple[str, int], int]]:
        """Yield the partitions that both snapshots have, and that were not made anew between."""
        for name, index in after.indexes.items():
            if before.indexes.get(name) == index:
                yield name, index

    def elections_between(self, before: Seen, after: Seen) -> Iterator[Election]:
        for election in self.record.elections:
            if before.tick <= election.tick < after.tick:
                yield election

    @cached_property
    def changes(self) -> list[LeaderChange]:
        """Return each partition whose leader two neighbouring snapshots show as another one."""
        found = []
        for before, after in pairwise(self.seen):
            causes: dict[int, list[str]] = {}
            for election in self.elections_between(before, after):
                causes.setdefault(election.partition.index, []).append(election.cause)
            for name, index in self._common(before, after):
                old = before.leaders[name]
                if after.leaders[name] != old:
                    why = causes[index]
                    is_preferred = after.leaders[name] == after.replicas[name][0]
                    found.append(LeaderChange(index, after.hour, old, why[0], is_preferred))
        return found

    @cached_property
    def elections(self) -> list[Election]:
        """Return all elections of partitions that were there before and after them."""
        return [
            election
            for before, after in pairwise(self.seen)
            for common in [{index for _, index in self._common(before, after)}]
            for election in self.elections_between(before, after)
            if election.partition.index in common
        ]

    @cached_property
    def restarts_within_an_hour(self) -> list[tuple[int, int]]:
        """Return hour and broker of each stop after which the next snapshot shows it alive; those
        in the long gap are left out: no page can tell one from what else went on in seven hours.
        """
        return [
            (after.hour, broker_id)
            for before, after in pairwise(self.seen)
            if after.hour - before.hour <= 2
            for broker_id in sorted(
                {
                    election.before
                    for election in self.elections_between(before, after)
                    if election.cause in ("restart", "died")
                }
            )
            if broker_id not in after.dead
        ]

    def preferred_runs(self, at_least: int) -> list[tuple[int, int, int]]:
        """Return the first and last hour in which that many partitions or more went back to their
        preferred leaders, and how many in all.
        """
        counts = Counter(
            c.hour
            for c in self.changes
            if c.is_preferred and c.cause not in ("died", "reassignment")
        )
        runs: list[tuple[int, int, int]] = []
        for hour, count in sorted(counts.items()):
            if count < at_least:
                continue
            if runs and runs[-1][1] == hour - 1:
                runs[-1] = (runs[-1][0], hour, runs[-1][2] + count)
            else:
                runs.append((hour, hour, count))
        return runs

    def changed(self, is_wanted: Callable[[LeaderChange], bool]) -> int:
        return sum(map(is_wanted, self.changes))

    @property
    def partitions_moved(self) -> int:
        """Return the partitions whose replicas two neighbouring snapshots show on other brokers."""
        return sum(
            set(before.settled[name]) != set(after.settled[name])
            for before, after in pairwise(self.seen)
            for name, _ in self._common(before, after)
        )

    def topics_that(self, happened: str) -> int:
        """Return how many topics were `created`, `deleted` or `recreated` between snapshots."""
        count = 0
        for before, after in pairwise(self.seen):
            was, now = before.topic_ids, after.topic_ids
            count += {
                "created": len(now.keys() - was.keys()),
                "deleted": len(was.keys() - now.keys()),
                "recreated": sum(now[name] != was[name] for name in now.keys() & was.keys()),
            }[happened]
        return count

    @property
    def flapping(self) -> dict[tuple[str, int], int]:
        """Return the partitions with more than ten elections."""
        counts = Counter(election.partition.name for election in self.elections)
        return {name: count for name, count in counts.items() if count > 10}

    # -- topics that are led unevenly

    def excess_at(self, leaders: Mapping[int, int], live: Collection[int]) -> dict[str, int]:
        """Return by topic how far its leaders are from as even as can be. Of 7 partitions on 3
        brokers somebody leads 3 and somebody 2 at best: one more or less is no excess.
        """
        led: dict[str, Counter[int]] = {}
        for index, leader in leaders.items():
            led.setdefault(self.record.topics[index].name, Counter())[leader] += 1
        excess = {}
        for topic, counts in led.items():
            of_brokers = [counts[broker_id] for broker_id in live]
            dealt = [0] * len(of_brokers)  # the same partitions, one after the other
            for number in range(sum(of_brokers)):
                dealt[number % len(dealt)] += 1
            best = max(dealt) - min(dealt)
            excess[topic] = max(0, max(of_brokers) - min(of_brokers) - best)
        return excess

    @cached_property
    def excess(self) -> dict[str, list[int]]:
        """Return the excess of each topic in each tick in which it was there; ticks of the long gap
        are left out, since nobody knows them.
        """
        unknown = range(GAP[0] * TICKS_PER_HOUR, GAP[1] * TICKS_PER_HOUR)
        found: dict[str, list[int]] = {}
        for tick in range(self._ticks.start, self._ticks.stop):
            if tick in unknown:
                continue
            for topic, excess in self.excess_at(
                self.record.leaders[tick], self.record.live[tick]
            ).items():
                found.setdefault(topic, []).append(excess)
        return found

    @cached_property
    def max_excess_seen(self) -> dict[str, int]:
        """Return the highest excess of each topic that a snapshot shows which counts: not the first
        one, and not the one after the long gap.
        """
        highest: dict[str, int] = {}
        for seen in self.seen[1:]:
            if seen.hour == GAP[1]:
                continue
            for topic, excess in self.excess_in(seen).items():
                highest[topic] = max(excess, highest.get(topic, 0))
        return highest

    def excess_in(self, seen: Seen) -> dict[str, int]:
        """Return the excess of each topic in a snapshot."""
        leaders = {seen.indexes[name]: leader for name, leader in seen.leaders.items()}
        return self.excess_at(leaders, seen.brokers.keys() - seen.dead)

    def uneven_topics_in(self, seen: Seen) -> int:
        return sum(excess > 0 for excess in self.excess_in(seen).values())

    def hours_of_change(self, topic: str) -> int:
        """Return in how many hours a leader of the topic changed, or a broker came or went: what
        happened within an hour is known from its end on.
        """
        ticks = {e.tick for e in self.elections if e.partition.topic.name == topic}
        live = self.record.live
        ticks |= {t for t in range(1, len(live)) if live[t] != live[t - 1]}
        return len({tick // TICKS_PER_HOUR for tick in ticks})

    # -- traffic: matrices of ticks x partitions

    @cached_property
    def written(self) -> Floats:
        return self._matrix(self.record.written)

    @cached_property
    def removed(self) -> Floats:
        return self._matrix(self.record.removed)

    @cached_property
    def leaders(self) -> Floats:
        return self._matrix(self.record.leaders)

    def follows(self, broker_id: int) -> Floats:
        """Return 1 where the broker fetches a partition, else 0."""
        return self._matrix(
            [
                {index: int(broker_id in followers) for index, followers in tick.items()}
                for tick in self.record.followers
            ]
        )

    def _matrix(self, ticks: Sequence[Mapping[int, int]]) -> Floats:
        return self._ever(ticks)[self._ticks]

    def _ever(self, ticks: Sequence[Mapping[int, int]]) -> Floats:
        matrix = np.zeros((len(ticks), len(self.record.topics)))
        for tick, values in enumerate(ticks):
            matrix[tick, list(values)] = list(values.values())
        return matrix

    def rates(self, counted: Floats, first_hour: int = 0) -> TrueRates:
        """Return the rates of what is written from an hour on; `counted` says how often each of it
        counts.
        """
        known = np.where(self.is_compacted, 0.0, counted)
        first_tick = first_hour * TICKS_PER_HOUR
        without_compacted = _rates_of(self.written[first_tick:], known[first_tick:])
        rates = _rates_of(self.written[first_tick:], counted[first_tick:])
        return replace(rates, without_compacted=without_compacted)

    @cached_property
    def is_compacted(self) -> Flags:
        return np.array([topic.kept_records is not None for topic in self.record.topics])

    def led_rates(self, *broker_ids: int) -> TrueRates:
        """Return the rates since the first of the brokers joined."""
        led = np.isin(self.leaders, broker_ids).astype(float)
        return self.rates(led, min(map(self._joined, broker_ids)))

    def followed_rates(self, broker_id: int) -> TrueRates:
        return self.rates(self.follows(broker_id), self._joined(broker_id))

    def _joined(self, broker_id: int) -> int:
        """Return how many hours after the begin a broker was there."""
        first = self.seen[0].hour
        return next(seen.hour for seen in self.seen if broker_id in seen.brokers) - first

    def topic_rates(self, topic: str) -> TrueRates:
        """Return the rates since the topic was created."""
        wanted = {i for (name, _), i in self.last.indexes.items() if name == topic}
        # What had this name before is in the rates of the name, too.
        wanted |= {i for i, known in enumerate(self.record.topics) if known.name == topic}
        since = next(seen.hour for seen in self.seen if topic in seen.topic_ids)
        return self.rates(self._columns(wanted), since - self.seen[0].hour)

    def partition_rates(self, name: tuple[str, int]) -> TrueRates:
        return self.rates(self._columns({self.last.indexes[name]}))

    @cached_property
    def rates_by_name(self) -> dict[tuple[str, int], "PartitionTruth"]:
        """Return mean and highest rate of every partition that was there, by its name, whatever
        topics had it, as long as they were there.
        """
        by_name: dict[tuple[str, int], set[int]] = {}
        for seen in self.seen:
            for name, index in seen.indexes.items():
                by_name.setdefault(name, set()).add(index)
        found = {}
        written = self.record.written[self._ticks]
        for name, indexes in by_name.items():
            there = [t for t, tick in enumerate(written) if indexes & tick.keys()]
            total = float(self.written[:, sorted(indexes)].sum())
            mean = total / (len(there) * TICK_SECONDS)
            highest = float(_hourly(self.written[:, sorted(indexes)].sum(axis=1)).max())
            compacted = bool(self.is_compacted[sorted(indexes)].any())
            found[name] = PartitionTruth(mean, highest, total, compacted)
        return found

    @cached_property
    def all_rates(self) -> TrueRates:
        return self.rates(np.ones_like(self.written))

    @cached_property
    def all_followed_rates(self) -> TrueRates:
        return self.rates(np.sum([self.follows(b) for b in self.last.brokers], axis=0))

    def _columns(self, indexes: set[int]) -> Floats:
        counted = np.zeros_like(self.written)
        counted[:, sorted(indexes)] = 1
        return counted

    # -- growth

    def grown_per_day(self, copies: Counter[int], days: int = 14) -> float:
        """Return how much logs grew a day in the last days: `copies` by index of the partition."""
        ticks = days * _DAY // TICK_SECONDS
        grown = (self.written - self.removed)[-ticks:].sum(axis=0)
        seconds = min(ticks, len(self.written)) * TICK_SECONDS
        return float(sum(count * grown[i] for i, count in copies.items()) * _DAY / seconds)

    def written_per_day(self, copies: Counter[int]) -> float:
        written = self.written.sum(axis=0)
        days = len(self.written) * TICK_SECONDS / _DAY
        return float(sum(count * written[i] for i, count in copies.items()) / days)

    def is_compacted_topic(self, topic: str) -> bool:
        return any(t.kept_records is not None for t in self.record.topics if t.name == topic)

    def has_retention(self, topic: str) -> bool:
        return any(t.retention_ticks is not None for t in self.record.topics if t.name == topic)

    def topic_indexes(self, topic: str) -> Counter[int]:
        return Counter(i for (name, _), i in self.last.indexes.items() if name == topic)

    def broker_indexes(self, broker_id: int) -> Counter[int]:
        return Counter(
            i for name, i in self.last.indexes.items() if broker_id in self.last.replicas[name]
        )


def _rates_of(written: Floats, counted: Floats) -> TrueRates:
    """Return the rates of means over an hour; a percentile is the smallest rate at or below which
    that share of the hours were.
    """
    at_end = np.repeat(counted[TICKS_PER_HOUR - 1 :: TICKS_PER_HOUR], TICKS_PER_HOUR, axis=0)
    means = _hourly((written * counted).sum(axis=1))
    by_end = _hourly((written * at_end).sum(axis=1))
    in_order = np.sort(means).tolist()
    p50, p95 = (in_order[-(-len(in_order) * percent // 100) - 1] for percent in (50, 95))
    return TrueRates(float(means[-1]), p50, p95, in_order[-1], float(by_end.max()))


def _hourly(bytes_per_tick: Floats) -> Floats:
    hourly = bytes_per_tick.reshape(-1, TICKS_PER_HOUR).sum(axis=1)
    return np.asarray(hourly / (TICKS_PER_HOUR * TICK_SECONDS))
